"""Moves of earlier runs of `forecast`, kept so that a change of the models is judged by more than the run that led to it.

tests/bench/recorded.py DATABASE FILE packs a copy of mared's database (`tests/bench/run forecast --database`): what was known
before each move, what was said and what came. mare-reforecast forecasts them anew."""

from __future__ import annotations

import contextlib
import json
import lzma
import pathlib
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from typing import Any

FOLDER = pathlib.Path(__file__).resolve().parent / "recorded"
#: Histories of operations and of everything else: no forecast is made by them.
LEFT_OUT = ("event", "operation_event", "reservation", "counter", "ended_vm", "pool", "vm", "host")


def pack(database: pathlib.Path, file: pathlib.Path) -> None:
    with tempfile.TemporaryDirectory() as folder:
        copy = pathlib.Path(folder) / "mare.db"
        shutil.copy(database, copy)
        with contextlib.closing(sqlite3.connect(copy, isolation_level=None)) as opened:
            for table in LEFT_OUT:
                opened.execute(f"delete from {table}")
            opened.execute("pragma journal_mode = delete")
            opened.execute("vacuum")
        file.write_bytes(lzma.compress(copy.read_bytes(), preset=9))


def forecast_anew(program: pathlib.Path, file: pathlib.Path) -> dict[str, Any]:
    """What mare-reforecast tells of a packed database."""
    with tempfile.TemporaryDirectory() as folder:
        copy = pathlib.Path(folder) / "mare.db"
        copy.write_bytes(lzma.decompress(file.read_bytes()))
        done = subprocess.run([str(program), str(copy)], check=True, capture_output=True, text=True)
    return json.loads(done.stdout)


def wrong_verdicts(told: dict[str, Any]) -> list[str]:
    """Moves that were said to end by themselves and did not, or not to and did, without a doubt."""
    ended = [row["operation"] for row in told["rows"] if not row["converges"] and not row["end_unsure"] and makes_rounds(row)]
    return ended + [row["operation"] for row in told["without_end"] if row["converges"] and not row["end_unsure"]]


def makes_rounds(row: dict[str, Any]) -> bool:
    return row["strategy"] in ("pre-copy", "compressed", "rate-controlled")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("usage: recorded.py DATABASE FILE (as tests/bench/recorded/NAME.db.xz)")
    pack(pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]))
