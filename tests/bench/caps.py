"""Caps what each guest's CPUs may take, so that the machine has the slack that a real host has.

On a real host the mover has cores of its own beside the guests. Emulated guests that compute all the time would leave it
nothing on two cores, and the bench would measure the scheduler. Only the vCPU threads are capped, not the migration's. They
also keep off the last core: the kernel's work on a migration's packets is charged to whatever thread it interrupts, and
would come out of a capped guest's share. And what they may take they get before anybody else who is on their cores, movers
above all: else the scheduler would share these cores out, and a guest's pace would tell of that.
"""

from __future__ import annotations

import os
import pathlib
import threading
from typing import Any

from emulators import Emulators

GROUPS = pathlib.Path("/sys/fs/cgroup/cpu")
#: Of cgroups, the most that there is; a thread that is in none has 1024, with nice -5 three times as much.
WEIGHT = 262144
PERIOD_US = 10_000  # short, so that a guest does not stand still for long when it has used up its share
LOOK_S = 0.05
CORES = sorted(os.sched_getaffinity(0))
GUEST_CORES = set(CORES[:-1] or CORES)


class Caps:
    """While it is entered, vCPU threads of every QEMU of this machine have at most `share` of a core each."""

    def __init__(self, share: float) -> None:
        self.share = share
        self.why_not = "" if (GROUPS / "cpu.cfs_quota_us").exists() or (GROUPS / "tasks").exists() else \
            f"no cpu controller of cgroup version 1 in {GROUPS}"
        self._emulators = Emulators()
        self._groups: dict[int, pathlib.Path] = {}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def stated(self) -> dict[str, Any]:
        """What a report says of it."""
        return {"vcpu_share_of_a_core": None, "why_not": self.why_not} if self.why_not else \
            {"vcpu_share_of_a_core": self.share, "period_us": PERIOD_US, "weight": WEIGHT, "vcpus_on_cores": sorted(GUEST_CORES)}

    def __enter__(self) -> "Caps":
        if not self.why_not:
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()
        for tid, group in self._groups.items():
            self._write(GROUPS / "tasks", str(tid))
            self._pin(tid, set(CORES))
            self._remove(group)

    def _watch(self) -> None:
        while not self._stop.wait(LOOK_S):
            self._look()

    def _look(self) -> None:
        there = {vcpu.tid for vcpu in self._emulators.vcpus()}
        for tid in there - self._groups.keys():
            self._cap(tid)
        for tid in self._groups.keys() - there:
            self._remove(self._groups.pop(tid))

    def _cap(self, tid: int) -> None:
        group = GROUPS / f"mare-bench-{os.getpid()}-{tid}"
        try:
            group.mkdir(exist_ok=True)
        except OSError:
            return
        if self._write(group / "cpu.shares", str(WEIGHT)) and self._write(group / "cpu.cfs_period_us", str(PERIOD_US)) and \
                self._write(group / "cpu.cfs_quota_us", str(int(PERIOD_US * self.share))) and \
                self._write(group / "tasks", str(tid)):
            self._groups[tid] = group
            self._pin(tid, GUEST_CORES)

    @staticmethod
    def _pin(tid: int, cores: set[int]) -> None:
        try:
            os.sched_setaffinity(tid, cores)
        except OSError:
            pass  # it has ended

    @staticmethod
    def _write(file: pathlib.Path, text: str) -> bool:
        try:
            file.write_text(text)
        except OSError:
            return False
        return True

    @staticmethod
    def _remove(group: pathlib.Path) -> None:
        try:
            group.rmdir()
        except OSError:
            pass  # its thread is still leaving
