"""QEMU's processes of this machine and their virtual CPUs' threads, looked for again and again at next to no cost.

To read all of /proc twenty times a second took 7% of a CPU that a mover wants. What has been there for a while does not
become an emulator any more, nor a thread of one a virtual CPU: so it is not looked at again.
"""

from __future__ import annotations

import os
import pathlib
import time
from typing import Callable, NamedTuple

PROC = pathlib.Path("/proc")
#: libvirt's child is called as libvirt until it becomes the emulator, and QEMU names its threads when they run.
YOUNG_S = 3.0


class Vcpu(NamedTuple):
    pid: int
    tid: int


class Finder:
    """Of numbers that come and go in a directory those that are, or become, what is looked for."""

    def __init__(self, folder: str, is_one: Callable[[str], bool]) -> None:
        self._folder, self._is_one = folder, is_one
        self._since: dict[int, float] = {}
        self._found: set[int] = set()

    def look(self, now: float) -> set[int]:
        try:
            there = {int(name) for name in os.listdir(self._folder) if name.isdigit()}
        except OSError:
            there = set()  # it ended
        for gone in self._since.keys() - there:
            del self._since[gone]
        self._found &= there
        for number in there - self._found:
            if now - self._since.setdefault(number, now) <= YOUNG_S and self._is_one(f"{self._folder}/{number}"):
                self._found.add(number)
        return self._found


def starts_with(file: str, text: bytes) -> bool:
    try:
        with open(file, "rb") as opened:
            return opened.read(64).startswith(text)
    except OSError:
        return False  # it ended


class Emulators:
    """Those of one VM, or of all where `uuid` is ""."""

    def __init__(self, uuid: str = "", proc: pathlib.Path = PROC) -> None:
        self._uuid, self._proc = uuid.encode(), str(proc)
        self._processes = Finder(self._proc, self._is_emulator)
        self._threads: dict[int, Finder] = {}

    def vcpus(self, now: float | None = None) -> list[Vcpu]:
        """`now`: as time.monotonic() has it."""
        now = time.monotonic() if now is None else now
        emulators = self._processes.look(now)
        for gone in self._threads.keys() - emulators:
            del self._threads[gone]
        found = []
        for pid in sorted(emulators):
            if pid not in self._threads:
                self._threads[pid] = Finder(f"{self._proc}/{pid}/task", lambda thread: starts_with(f"{thread}/comm", b"CPU "))
            found += [Vcpu(pid, tid) for tid in sorted(self._threads[pid].look(now))]
        return found

    def _is_emulator(self, process: str) -> bool:
        if not starts_with(f"{process}/comm", b"qemu-system"):
            return False
        try:
            with open(f"{process}/cmdline", "rb") as file:
                return self._uuid in file.read()
        except OSError:
            return False
