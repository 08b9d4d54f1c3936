"""Puts the two Python rooms on the path of the tests."""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
LAB = ROOT / "hypervisor" / "lab"
BUILDER = ROOT / "images" / "builder"
for room in (LAB, BUILDER):
    sys.path.insert(0, str(room))
