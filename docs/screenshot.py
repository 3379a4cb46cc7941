"""The picture of a report in the README: `make screenshot`, or

    python docs/screenshot.py runs/demo/report.html docs/report.png [CHROMIUM]

Needs Chromium and the extra `browser`.
"""

import io
import sys
from pathlib import Path

from PIL import Image
from playwright.sync_api import sync_playwright

WIDTH, HEIGHT = 1120, 1565  # from the answer to the policy
COLOURS = 128  # of the file: enough for charts, and a third of the size


def main(report: str, out: str, chromium: str = "/usr/bin/chromium") -> None:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT}, color_scheme="light")
        page.goto(Path(report).resolve().as_uri())
        image = Image.open(io.BytesIO(page.screenshot())).convert("RGB")
        browser.close()
    image.quantize(COLOURS, kmeans=3, dither=Image.Dither.NONE).save(out, optimize=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
