"""The scripts of research/ can be imported here."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "research"))
