"""A bar: a value, what is wanted of it, and whether it holds. No value never holds. Pure."""

from __future__ import annotations

import statistics
from typing import Any

Bar = dict[str, Any]


def at_most(value: float | None, limit: float, unit: str) -> Bar:
    return {"value": value, "bar": limit, "unit": unit, "holds": value is not None and value <= limit}


def at_least(value: float | None, limit: float, unit: str) -> Bar:
    return {"value": value, "bar": limit, "unit": unit, "holds": value is not None and value >= limit}


def exactly(value: float | None, wanted: float, unit: str) -> Bar:
    return {"value": value, "bar": wanted, "unit": unit, "holds": value is not None and value == wanted}


def figures(values: list[float | None]) -> dict[str, Any]:
    """How many are known; the smallest, the middle, the 95th percentile and the largest of them."""
    known = sorted(value for value in values if value is not None)
    if not known:
        return {"count": 0}
    return {"count": len(known), "min": known[0], "median": statistics.median(known),
            "p95": known[min(len(known) - 1, int(0.95 * len(known)))], "max": known[-1]}


def worst_median(groups: dict[str, list[float | None]]) -> float | None:
    """The largest of the groups' medians: a group that does badly shows, one slow case does not."""
    return max((one["median"] for one in map(figures, groups.values()) if one["count"]), default=None)
