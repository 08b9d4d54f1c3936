"""What a long bench has measured so far, a line of JSON each, in a file beside its result: a run that was stopped goes on."""

from __future__ import annotations

import json
import os
import pathlib
import threading
from typing import Any, Callable

Row = dict[str, Any]


def place_of(result: pathlib.Path | None) -> pathlib.Path | None:
    """Where it lies for a result; None: nowhere, since the result is kept nowhere."""
    return result.with_name(result.name + ".partial") if result else None


class Partial:
    """Rows by key. A row is there whole, and stays when the machine fails, or it is not there."""

    def __init__(self, file: pathlib.Path | None, head: Row) -> None:
        """`head` says what the rows are of; rows of something else are not gone on from: ValueError."""
        self.file = file
        self.rows: dict[str, Row] = {}
        self._adding = threading.Lock()
        if file is None:
            return
        lines = self._whole_lines()
        if lines and lines[0] != head:
            differing = ", ".join(f"{key} is {lines[0].get(key)!r}, not {value!r}" for key, value in head.items()
                                  if lines[0].get(key) != value)
            raise ValueError(f"{file} is of another run ({differing}): delete it, or write the result elsewhere with --json")
        if not lines:
            self._add(head)
        self.rows = {line["key"]: line["row"] for line in lines[1:]}

    def _whole_lines(self) -> list[Row]:
        """A last line that is torn was being written when the run was stopped: it is cut off."""
        assert self.file
        try:
            data = self.file.read_bytes()
        except FileNotFoundError:
            return []
        whole = data[:data.rfind(b"\n") + 1]
        if whole != data:
            with open(self.file, "r+b") as file:
                file.truncate(len(whole))
        try:
            return [json.loads(line) for line in whole.splitlines()]
        except ValueError as error:
            raise ValueError(f"{self.file} is not what a bench wrote ({error}): delete it, or write the result elsewhere with --json") from None

    def _add(self, line: Row) -> None:
        if self.file is None:
            return
        with self._adding, open(self.file, "ab") as file:
            file.write(json.dumps(line).encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())

    def once(self, key: str, measured: Callable[[], Row]) -> Row:
        """The row that is kept, or else what is measured now, kept from now on."""
        if key not in self.rows:
            row = measured()
            self._add({"key": key, "row": row})
            self.rows[key] = row
        return self.rows[key]

    def done(self) -> None:
        """The result is written: nothing is left to go on from."""
        if self.file:
            self.file.unlink(missing_ok=True)
