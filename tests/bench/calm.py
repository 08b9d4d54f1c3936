"""Which of a bench's rows count, by the machine's load, and what others took of its CPUs meanwhile.

CPU time that the machine's own hypervisor gave to other guests (`steal` of proc_stat(5)) is recorded, not judged by: it counts each
moment in which a CPU that was to run did not, a late waking among them, and what moves took did not go with it.
"""

from __future__ import annotations

import os
import pathlib
from typing import Any, Mapping

LOAD_LIMIT = 6.0


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


def is_calm(row: Mapping[str, Any], limit: float = LOAD_LIMIT) -> bool:
    return bool(row["load"] <= limit)
