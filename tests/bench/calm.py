"""Which of a bench's rows count: those of moments in which the machine was left to what is measured.

Two things tell that it was not: its load, and CPU time that the machine's own hypervisor gave to other guests (`steal` of proc_stat(5)),
where it says so. Load does not see the second: nobody of this machine waits for it.
"""

from __future__ import annotations

import os
import pathlib
from typing import Any, Mapping

LOAD_LIMIT = 6.0
#: Of the CPUs' time, from the order to move until it is over. A move that the CPUs limit takes longer by as much, and 8% is what a
#: forecast of its time may be off by in 95 of 100 moves.
STOLEN_LIMIT = 0.05
LIMITS = {"load_limit": LOAD_LIMIT, "stolen_limit": STOLEN_LIMIT}


def cpu_time(text: str) -> tuple[int, int]:
    """From the text of /proc/stat, of all CPUs together, in ticks: what was stolen, and all."""
    words = next(line for line in text.splitlines() if line.startswith("cpu ")).split()[1:9]
    ticks = [int(word) for word in words]  # user nice system idle iowait irq softirq steal: guests' are in user and nice
    return (ticks[7] if len(ticks) > 7 else 0), sum(ticks)


class Watch:
    """Of the machine, from when it is made."""

    def __init__(self, stat: pathlib.Path = pathlib.Path("/proc/stat")) -> None:
        self._stat = stat
        self._load = os.getloadavg()[0]
        self._began = cpu_time(stat.read_text(encoding="ascii"))

    def seen(self) -> dict[str, float]:
        """`load`: the larger of the one-minute loads then and now; `stolen`: a share of the CPUs' time since then."""
        stolen, ticks = cpu_time(self._stat.read_text(encoding="ascii"))
        return {"load": max(self._load, os.getloadavg()[0]),
                "stolen": round((stolen - self._began[0]) / max(ticks - self._began[1], 1), 4)}


def is_loaded(row: Mapping[str, Any], limits: Mapping[str, Any]) -> bool:
    return bool(row["load"] > limits["load_limit"])


def is_calm(row: Mapping[str, Any], limits: Mapping[str, Any] = LIMITS) -> bool:
    """Older results, which do not have the second limit, were not judged by it."""
    return not is_loaded(row, limits) and row.get("stolen", 0.0) <= limits.get("stolen_limit", 1.0)


def dropped(rows: list[Any], limits: Mapping[str, Any] = LIMITS) -> dict[str, int]:
    """By what they are dropped for; one that is loaded and robbed is dropped for load."""
    loaded = sum(is_loaded(row, limits) for row in rows)
    return {"dropped_for_load": loaded, "dropped_for_stolen": sum(not is_calm(row, limits) for row in rows) - loaded}
