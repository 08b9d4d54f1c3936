"""The two regressions of Neves 2009, chapter 7, over the rows of the bench `migtest`. Pure: rows in, results out.

C/R: cost = c0 + c1 S (Eq. 7.4), its phases alike (7.1 to 7.3). VM: cost = c0 + c1 M + c2 WWS (Eq. 7.5). S is what a
rank has allocated, M the memory of a VM, WWS what each iteration rewrites; bytes and seconds.
"""

from __future__ import annotations

import statistics
from typing import Any

from calm import LOAD_LIMIT
from fit import Fit, least_squares

CHECKPOINT, PRE_COPY, AUTOMATIC = "checkpoint/restart", "pre-copy", "automatic"
#: At 100 Mbit/s: 1448 of 1514 bytes of a frame, less acknowledgements; bytes/s.
GOODPUT = 11.77e6
#: As printed there, but for 7.1: its 2.514e-7 does not add up to 7.4, 2.514e-8 does.
PAPER: dict[str, dict[str, dict[str, Any]]] = {
    CHECKPOINT: {
        "added_job_time_s": {"equation": "7.4", "coefficients": [4.785, 1.185e-7], "r2": 0.9989},
        "check_s": {"equation": "7.1", "coefficients": [2.274, 2.514e-8], "r2": 0.9942},
        "transfer_s": {"equation": "7.2", "coefficients": [1.660, 8.825e-8], "r2": 0.9983},
        "restart_s": {"equation": "7.3", "coefficients": [0.8503, 5.099e-9], "r2": 0.9486},
    },
    # One equation for both: its cost of a MigTest's move is the move's duration (figures 7.11 and 7.12).
    PRE_COPY: {quantity: {"equation": "7.5", "coefficients": [9.783, 8.205e-8, 1.485e-7], "r2": 0.9627}
               for quantity in ("added_job_time_s", "total_time_s")},
}
#: What is fitted, and over what.
FITTED = {
    CHECKPOINT: (["S"], ["added_job_time_s", "check_s", "transfer_s", "restart_s"]),
    PRE_COPY: (["M", "WWS"], ["added_job_time_s", "total_time_s"]),
    AUTOMATIC: (["M", "WWS"], ["added_job_time_s", "total_time_s"]),
}
KEYS = {"S": "size_bytes", "M": "memory_bytes", "WWS": "wws_bytes"}
#: HPL there: 108.94 s by VM, 53.68 s by C/R.
PAPER_RATIO = 108.94 / 53.68

Row = dict[str, Any]


def usable(rows: list[Row]) -> list[Row]:
    """Those that ended well on a quiet machine."""
    return [row for row in rows if row["done"] and row["load"] <= LOAD_LIMIT]


def fit_of(rows: list[Row], method: str, quantity: str) -> Fit | None:
    names, _ = FITTED[method]
    good = [row for row in usable(rows) if row["method"] == method]
    return least_squares([[float(row[KEYS[name]]) for name in names] for row in good], [row[quantity] for row in good])


def fits_of(rows: list[Row]) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    for method, (names, quantities) in FITTED.items():
        found[method] = {}
        for quantity in quantities:
            known = fit_of(rows, method, quantity)
            found[method][quantity] = known.as_json(names) if known else None
    return found


def spread_of(values: list[float | None]) -> dict[str, Any] | None:
    known = [value for value in values if value is not None]
    return {"median": statistics.median(known), "min": min(known), "max": max(known)} if known else None


def cells_of(rows: list[Row]) -> list[dict[str, Any]]:
    """For each cell and method: the middle and the edges over its repeats."""
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in usable(rows):
        groups.setdefault((row["cell"], row["method"]), []).append(row)
    return [{"cell": cell, "method": method, "count": len(group),
             **{name: spread_of([row[name] for row in group])
                for name in ("added_job_time_s", "total_time_s", "downtime_s", "sent_bytes")},
             "strategies": sorted({row["strategy"] for row in group})}
            for (cell, method), group in sorted(groups.items())]


def ratio_of(cells: list[dict[str, Any]], over: str, under: str) -> float | None:
    """Of the medians of added job time, over all cells that have both; the middle one."""
    middle = {(one["cell"], one["method"]): one["added_job_time_s"]["median"] for one in cells}
    found = [middle[name, over] / middle[name, under] for name, method in middle
             if method == over and middle.get((name, under), 0) > 0]
    return statistics.median(found) if found else None


def over_wire(rows: list[Row]) -> dict[str, Any]:
    """How much longer than the wire alone takes for what was sent: of C/R the transfer, of VMs the total time."""
    found: dict[str, Any] = {}
    for method in FITTED:
        quantity = "transfer_s" if method == CHECKPOINT else "total_time_s"
        ratios = [row[quantity] / row["wire_s"] for row in usable(rows) if row["method"] == method and row["wire_s"] > 0]
        found[method] = spread_of(ratios)
    return found


def results_of(rows: list[Row]) -> dict[str, Any]:
    """`results`, `baselines`, `limits` and `bars` of the bench's object."""
    cells = cells_of(rows)
    ratio = ratio_of(cells, AUTOMATIC, CHECKPOINT)
    return {
        "results": {"moves": len(rows), "dropped_for_load": sum(row["load"] > LOAD_LIMIT for row in rows),
                    "not_done": sum(not row["done"] for row in rows), "cells": cells, "fits": fits_of(rows),
                    "over_wire": over_wire(rows), "pre_copy_vs_checkpoint": ratio_of(cells, PRE_COPY, CHECKPOINT), "rows": rows},
        "baselines": {"paper": PAPER, "paper_vm_vs_checkpoint": PAPER_RATIO},
        "limits": {
            "goodput": {"value": GOODPUT, "unit": "bytes/s",
                        "arithmetic": "100 Mbit/s, 1448 of 1514 bytes of a frame, less acknowledgements"},
            "s_per_byte": {"value": 1 / GOODPUT, "unit": "s/byte",
                           "arithmetic": "1 / goodput: of total time, no coefficient of bytes that must all cross is less"},
        },
        "bars": {"vm_vs_checkpoint": {"value": ratio, "bar": 1, "unit": "ratio", "holds": ratio is not None and ratio <= 1}},
    }


# --- text ---------------------------------------------------------------------------------------------


def formula(names: list[str], coefficients: list[float]) -> str:
    words = [f"{round(coefficients[0], 3) + 0.0:.3f}"]  # not -0.000
    for name, factor in zip(names, coefficients[1:]):
        words.append(f"{'-' if factor < 0 else '+'} {abs(factor):.3e} {name}")
    return " ".join(words)


def text_of(found: dict[str, Any]) -> str:
    """Coefficients, R2 and spread, ours and the paper's line by line."""
    lines = [f"  {'':<38} {'':<44} {'R2':>7} {'sd, s':>8} {'n':>3}"]
    for method, fits in found["results"]["fits"].items():
        names, _ = FITTED[method]
        for quantity, known in fits.items():
            label = f"{method}, {quantity}"
            if known is None:
                lines.append(f"  {label:<38} too few different rows for a fit")
            else:
                lines.append(f"  {label:<38} {formula(names, known['coefficients']):<44} {_number(known['r2'], '.4f'):>7} "
                             f"{_number(known['residual_sd'], '.3f'):>8} {known['samples']:>3}")
            if paper := PAPER.get(method, {}).get(quantity):
                label = f"  the paper, Eq. {paper['equation']}"
                lines.append(f"  {label:<38} {formula(names, paper['coefficients']):<44} {paper['r2']:>7.4f}")
    return "\n".join(lines)


def _number(value: float | None, form: str) -> str:
    return "-" if value is None else format(value, form)
