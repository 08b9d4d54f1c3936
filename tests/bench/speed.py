"""How quick the machine itself is while something is measured on it.

A machine that is itself a guest shares its cores with others that nobody here sees: the same loop then takes longer of its own CPU
time. Load tells nothing of it, and no time is told as stolen where the host does not say so.
"""

from __future__ import annotations

import os
import statistics
import threading
import time

from caps import GUEST_CORES

#: About a millisecond of it, once a second: a thousandth of a core.
COUNT = 50_000
PERIOD_S = 1.0


def loop_ms() -> float:
    """CPU time of the same work, ms. The better of two: the first warms the caches."""
    took = []
    for _ in range(2):
        began = time.thread_time_ns()
        total = 0
        for number in range(COUNT):
            total += number
        took.append((time.thread_time_ns() - began) / 1e6)
    return min(took)


class Speed:
    """While it is entered, it is looked at, on the cores of the guests."""

    def __init__(self, period_s: float = PERIOD_S) -> None:
        self.took: list[float] = []
        self._period_s = period_s
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def loop_ms(self) -> float | None:
        """The mean: what a slow minute costs counts as long as it lasted. None: it was not looked at."""
        return round(statistics.fmean(self.took), 3) if self.took else None

    def __enter__(self) -> "Speed":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _watch(self) -> None:
        os.sched_setaffinity(0, GUEST_CORES)  # of this thread alone
        while not self._stop.wait(self._period_s):
            self.took.append(loop_ms())
