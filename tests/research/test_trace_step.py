"""How much one must read to understand one update of the policy."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_an_update_is_understood_in_six_files():
    """Six files of 1,200 lines, six frames below the command; the script says which there are."""
    words = [sys.executable, ROOT / "research" / "trace_step.py", "--at-most", "6,1200,6"]
    env = os.environ | {"PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(words, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
