"""Two moves of the same program, link and strategy: what they differ by no forecast can know. Pure."""

from __future__ import annotations

import collections
import math
from typing import Any

Json = dict[str, Any]
QUANTITIES = {"total_time_s": "time", "sent_bytes": "bytes", "downtime_s": "downtime", "added_job_time_s": "added"}
RELATIVE = ("time", "bytes")
#: A downtime is told well enough within so much of it, or within the bar.
DOWNTIME_SHARE = 0.15


def differences(done: list[Json]) -> dict[str, list[float]]:
    """By how much one of two like moves is off what both have in common: their difference over the square root of 2; of time and
    bytes as a share of their mean. `downtime_beyond` is 0 where that is less than 15% of it, as in the bar."""
    like = collections.defaultdict(list)
    for row in done:
        like[row["workload"], row["rate"], row["strategy"]].append(row["measured"])
    out: dict[str, list[float]] = {short: [] for short in (*QUANTITIES.values(), "downtime_beyond")}
    for two in like.values():
        if len(two) != 2:
            continue
        for name, short in QUANTITIES.items():
            a, b = two[0][name], two[1][name]
            if a is None or b is None or a + b <= 0:
                continue
            off, mean = (a - b) / math.sqrt(2), (a + b) / 2
            out[short].append(off / mean if short in RELATIVE else off)
            if short == "downtime":
                out["downtime_beyond"].append(0.0 if abs(off) <= DOWNTIME_SHARE * mean else off)
    return out
