"""Results of benches with known content. They measure nothing and are never written anywhere but for a test."""

from __future__ import annotations

from typing import Any

import paths  # noqa: F401
import checkpoint
import kills
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


def kill_row(kind: str = kills.VM, detection: float | None = 1.0, recovery: float | None = 5.0, **more: Any) -> Row:
    return {"kind": kind, "moment": kills.WORK, "survived": True, "detection_s": detection, "recovery_s": recovery, "redone_s": 3.0, "load": 2.0,
            "doubled": [], "looks": 100, **more}


#: Of the curve, without a failure.
PLAIN: Row = {"percent": 0, "share": 0.0, "survived": True, "total_s": 600.0, "load": 2.0, "doubled": []}


def failure_row(percent: int, total_s: float | None, **more: Any) -> Row:
    return {**PLAIN, "percent": percent, "share": percent / 100, "total_s": total_s, **more}


def recovery_report() -> dict[str, Any]:
    rows = [kill_row(), kill_row(recovery=7.0), kill_row(kills.HOST, 1.5, 9.0, moment=kills.RESTART), kill_row(kills.MARED, None, None, survived=False)]
    return {"bench": "recovery", "commit": None, "machine": MACHINE, "setup": {"seed": 1, "kills": 4, "load_limit": 6.0},
            **kills.results_of(rows, PLAIN, [failure_row(90, 630.0), failure_row(50, None, survived=False)], 4)}


def run_row(pair: str, wanted: bool, seconds: float, program: str = "matmul", every_s: int = 60, mode: str = checkpoint.FULL,
            lost_s: float | None = None, **more: Any) -> Row:
    each = {"lost_s": lost_s, "lost_noise_s": 0.1}
    taken = [{"id": "ck-1", "pause_ms": 40.0, "skew_ms": 4.0, "size_bytes": 2e8, "written_bytes": 1.5e8, "base": None, "took_s": 2.0, **each},
             {"id": "ck-2", "pause_ms": 60.0, "skew_ms": 8.0, "size_bytes": 1e8, "written_bytes": 5e7, "base": "ck-1",
              "took_s": 3.0, **each}] if wanted else []
    return {"pair": pair, "program": program, "every_s": every_s, "mode": mode, "checkpoints_wanted": wanted, "units": 100, "seconds": seconds,
            "right": True, "reason": None, "checksum": "ab", "checkpoints": taken, "load": 2.0, "lines": 100, "takes": {}, **more}


def pair_rows(name: str, without: float, having: float, **more: Any) -> list[Row]:
    return [run_row(name, False, without, **more), run_row(name, True, having, lost_s=(having - without) / 2, **more)]


def checkpoint_report() -> dict[str, Any]:
    rows = [*pair_rows("a", 100.0, 101.0), *pair_rows("b", 200.0, 201.0, program="heat", checksum="cd"), run_row("c", False, 40.0, every_s=10)]
    return {"bench": "checkpoint", "commit": None, "machine": MACHINE,
            "setup": {"seed": 1, "modes": {"full": "as mared does", "incremental": "absent: nobody can ask for them"}}, **checkpoint.results_of(rows)}
