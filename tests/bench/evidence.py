"""What a bench leaves beside its result: mared's database, and of one that failed what its lab wrote."""

from __future__ import annotations

import contextlib
import pathlib
import shutil
import sqlite3


def keep_database(state: pathlib.Path, copy: pathlib.Path) -> None:
    with contextlib.closing(sqlite3.connect(state / "mared" / "mare.db")) as source, \
            contextlib.closing(sqlite3.connect(copy)) as target:
        source.backup(target)


def keep(state: pathlib.Path, result: pathlib.Path) -> pathlib.Path:
    """What a bench that failed leaves: once the lab is down, nothing else tells why."""
    folder = result.with_name(result.name + ".failed")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for name in ("logs", "jobs"):
        if (state / name).is_dir():
            shutil.copytree(state / name, folder / name)
    for console in state.glob("hosts/*/*/console/*"):
        shutil.copy(console, folder / f"{console.parents[2].name}-{console.name}")
    with contextlib.suppress(sqlite3.Error):
        keep_database(state, folder / "mare.db")
    return folder
