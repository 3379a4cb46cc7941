"""Write the pages of docs/reference that come from the code: `make reference`, or

python docs/reference/make_pages.py
"""

from pathlib import Path

from make_python import python_page
from make_settings import commands_page, settings_page

FOLDER = Path(__file__).parent
PAGES = {"settings.md": settings_page, "commands.md": commands_page, "python.md": python_page}

if __name__ == "__main__":
    for name, page in PAGES.items():
        (FOLDER / name).write_text(page(), encoding="utf-8")
