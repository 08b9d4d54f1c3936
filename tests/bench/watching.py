"""Looks at a move from outside while it goes on: QEMU's own guess of its downtime, and how long post-copy kept the guest waiting."""

from __future__ import annotations

import pathlib
import re
import subprocess
import threading
import time
from typing import Sequence

from emulators import PROC, Emulators, Vcpu, starts_with

UNITS_S = {"ms": 0.001, "s": 1.0}


class Watch:
    """Calls `_look` every so often in a thread of its own, while it is entered."""

    def __init__(self, period_s: float) -> None:
        self._period_s = period_s
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def _look(self) -> None:
        raise NotImplementedError

    def _run(self) -> None:
        while not self._stop.wait(self._period_s):
            self._look()

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()


def expected_downtime_s(told: str) -> float | None:
    """From the text of `virsh domjobinfo` of a running job."""
    found = re.search(r"^Expected downtime: +([0-9.]+) +(ms|s)\b", told, re.MULTILINE)
    return float(found.group(1)) * UNITS_S[found.group(2)] if found else None


class ExpectedDowntime(Watch):
    """`expected-downtime` of QEMU as it was last told before the VM went: what an operator would see who looks.

    By one virsh for all looks: each new one takes 60 ms of a CPU, which a mover wants.
    """

    def __init__(self, virsh: Sequence[str], vm: str, period_s: float = 0.3) -> None:
        super().__init__(period_s)
        self.last_s: float | None = None
        self._virsh, self._vm = virsh, vm
        self._reader = threading.Thread(target=self._read, daemon=True)

    def __enter__(self) -> "ExpectedDowntime":
        self._shell = subprocess.Popen(self._virsh, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self._reader.start()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        super().__exit__()
        assert self._shell.stdin
        try:
            self._shell.stdin.close()
        except OSError:
            pass  # it has ended already, with a command that it did not read
        self._shell.wait()
        self._reader.join()

    def _look(self) -> None:
        assert self._shell.stdin
        try:
            self._shell.stdin.write(f"domjobinfo {self._vm}\n")
            self._shell.stdin.flush()
        except OSError:
            self._stop.set()  # what was told last holds

    def _read(self) -> None:
        assert self._shell.stdout
        for line in self._shell.stdout:
            seen = expected_downtime_s(line)
            if seen is not None:
                self.last_s = seen


class PageStalls(Watch):
    """How long a VM's CPUs slept for pages that were still at the source, by the kernel's word of where each thread sleeps.

    Of several CPUs the mean. Looked at some hundred times a second, so one wait of a page over a fast link may be missed or
    counted for a whole period; over a move these cancel out.
    """

    #: Between two searches for emulators that have come.
    SEARCH_S = 0.1

    def __init__(self, uuid: str, period_s: float = 0.004, proc: pathlib.Path = PROC) -> None:
        super().__init__(period_s)
        self.seconds = 0.0
        self._proc = str(proc)
        self._emulators = Emulators(uuid, proc)
        self._vcpus: list[Vcpu] = []
        self._searched = 0.0
        self._looked = time.monotonic()

    def __enter__(self) -> "PageStalls":
        self._thread.start()
        return self

    def _look(self) -> None:
        now = time.monotonic()
        since, self._looked = now - self._looked, now
        if now - self._searched > self.SEARCH_S:
            self._searched, self._vcpus = now, self._emulators.vcpus(now)
        waits = [self._waits(one) for one in self._vcpus]
        # A move has two emulators, of which one has nothing to wait for.
        count = len(waits) // max(1, len({one.pid for one in self._vcpus})) or 1
        self.seconds += since * sum(waits) / count

    def _waits(self, vcpu: Vcpu) -> bool:
        return starts_with(f"{self._proc}/{vcpu.pid}/task/{vcpu.tid}/wchan", b"handle_userfault")
