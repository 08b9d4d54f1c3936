"""Puts the benches, and what they use of the lab's tests, on the path."""

import sys
from pathlib import Path

sys.dont_write_bytecode = True
ROOT = Path(__file__).resolve().parents[3]
BENCH = ROOT / "tests" / "bench"
for room in (ROOT / "tests" / "lab", BENCH):
    sys.path.insert(0, str(room))
