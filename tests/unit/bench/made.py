"""Results of benches with known content. They measure nothing and are never written anywhere but for a test."""

from __future__ import annotations

from typing import Any

import paths  # noqa: F401
from fit import predict
from regressions import AUTOMATIC, CHECKPOINT, GOODPUT, PRE_COPY, Row, results_of

MIB = 1 << 20
MACHINE = {"cores": 2, "load_before": 0.5, "load_after": 1.5, "hypervisor": ["none: made"], "kernel": "0", "accelerator": "made"}
#: s, s a byte.
LINES = {"added_job_time_s": [6.0, 1.1e-7], "check_s": [1.0, 1e-8], "transfer_s": [4.0, 9e-8], "restart_s": [0.5, 2e-9]}
PLANES = {PRE_COPY: [1.5, 1e-9, 9e-8], AUTOMATIC: [0.4, 2e-9, 1e-8]}
CELLS = ((192, 16, 2), (192, 64, 2), (192, 64, 64), (256, 128, 32), (320, 192, 2), (320, 192, 64))
#: Added by turns to what the lines give: a residual whose sum is known.
NOISE = 0.05


def row_of(cell: tuple[int, int, int], method: str, sign: int) -> Row:
    memory, size, wws = (mib * MIB for mib in cell)
    row: Row = {"cell": f"M{cell[0]} S{cell[1]} W{cell[2]}", "method": method, "memory_bytes": memory, "size_bytes": size,
                "wws_bytes": wws, "done": True, "reason": None, "strategy": "made", "load": 1.0, "noise_s": 0.1,
                "sent_bytes": memory, "wire_s": memory / GOODPUT, "downtime_s": 0.3, "total_time_s": 2 * memory / GOODPUT}
    if method == CHECKPOINT:
        return row | {name: predict(line, [size]) + sign * NOISE for name, line in LINES.items()}
    return row | {"added_job_time_s": predict(PLANES[method], [memory, wws]) + sign * NOISE}


def migtest_rows() -> list[Row]:
    """Each cell by each method twice, once above and once below its line: so the fits are the lines themselves."""
    return [row_of(cell, method, sign) for cell in CELLS for method in (CHECKPOINT, PRE_COPY, AUTOMATIC) for sign in (1, -1)]


def migtest_report(rows: list[Row] | None = None) -> dict[str, Any]:
    return {"bench": "migtest", "commit": "0123456789abcdef", "machine": MACHINE,
            "setup": {"rate": "100mbit", "load_limit": 6.0}, **results_of(migtest_rows() if rows is None else rows)}


def estimate(value: float) -> dict[str, float]:
    return {"value": value, "low": value * 0.9, "high": value * 1.1}


def forecast_rows() -> list[Row]:
    """Three strategies; forecasts are wrong by 1% to 6%, one by 300%."""
    rows = []
    for i in range(12):
        true = 1.5 * 1.4 ** i
        said = true * (4.0 if i == 11 else 1 + 0.01 * (i % 6 + 1) * (-1) ** i)
        rows.append({"workload": f"made-{i}", "rate": "100mbit", "strategy": ("pre-copy", "post-copy", "hybrid")[i % 3], "load": 1.0,
                     "forecast": {"total_time_s": estimate(said)}, "measured": {"total_time_s": true}})
    return rows


def forecast_report(rows: list[Row] | None = None) -> dict[str, Any]:
    return {"bench": "forecast", "commit": None, "machine": MACHINE, "setup": {"load_limit": 6.0},
            "results": {"rows": forecast_rows() if rows is None else rows}, "bars": {}}
