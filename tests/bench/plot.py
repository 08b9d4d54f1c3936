"""Plots of what a bench measured, from its JSON object: SVG files for the docs. Pure but for write()."""

from __future__ import annotations

import json
import pathlib
import statistics
from typing import Any, Callable

from calm import is_calm
from fit import predict
from regressions import AUTOMATIC, CHECKPOINT, FITTED, PAPER, PRE_COPY, usable
from svg import SHAPES, Axis, Chart, Line, Point, Series, linear, logarithmic

Json = Any
MB = 1e6
PHASES = (("check_s", "Check"), ("transfer_s", "Trans"), ("restart_s", "Restart"))
STRATEGIES = ("pre-copy", "rate-controlled", "throttled", "compressed", "post-copy", "hybrid", "stop-and-copy")
#: One far-off move must not press all others on one line: what is this many times beyond most is drawn at the edge.
FAR = 2.0


def where(report: Json) -> str:
    machine = report["machine"]
    commit = (report["commit"] or "no commit")[:10]
    return f"{commit}, {machine.get('accelerator', '')}, {machine['cores']} cores, load {machine['load_before']} to {machine['load_after']}"


# --- migtest ------------------------------------------------------------------------------------------


def equation(report: Json, method: str, quantity: str) -> str:
    """Its name in the legend: the fitted coefficients, in s and ns a byte."""
    known = report["results"]["fits"][method][quantity]
    if not known:
        return "too few rows for a fit"
    names, _ = FITTED[method]
    words = [f"{known['coefficients'][0]:.2f} s"]
    words += [f"{'-' if factor < 0 else '+'} {abs(factor) * 1e9:.1f} ns {name}" for name, factor in zip(names, known["coefficients"][1:])]
    return " ".join(words[:2]) + "".join(f"\n{word}" for word in words[2:])


def line_of(coefficients: list[float], others: list[float], sizes: list[float]) -> list[tuple[float, float]]:
    """Over the last input, the others given; from end to end of `sizes`."""
    return [(size / MB, predict(coefficients, [*others, size])) for size in (min(sizes), max(sizes))]


def checkpoint_chart(report: Json) -> Chart:
    """Figures 7.9 and 7.10 of the paper."""
    rows = [row for row in usable(report["results"]["rows"]) if row["method"] == CHECKPOINT]
    sizes = [0.0, *(float(row["size_bytes"]) for row in rows)]
    fits = report["results"]["fits"][CHECKPOINT]
    series, lines = [], []
    quantities = [("added_job_time_s", f"added job time\n{equation(report, CHECKPOINT, 'added_job_time_s')}"), *PHASES]
    for colour, ((quantity, name), shape) in enumerate(zip(quantities, SHAPES)):
        series.append(Series(name, colour, [
            Point(row["size_bytes"] / MB, row[quantity], f"{row['cell']}: {quantity} {row[quantity]:.2f} s, load {row['load']:.1f}")
            for row in rows], shape))
        if fits[quantity]:
            lines.append(Line("", line_of(fits[quantity]["coefficients"], [], sizes), colour))
    paper = PAPER[CHECKPOINT]["added_job_time_s"]["coefficients"]
    lines.append(Line(f"the paper's (Eq. 7.4)\n{paper[0]:.2f} s + {paper[1] * 1e9:.1f} ns S", line_of(paper, [], sizes), None, True))
    values = [point.y for one in series for point in one.points] + [y for line in lines for _, y in line.points]
    return Chart("What checkpoint/restart costs MigTest, over S, at 100 Mbit/s",
                 [where(report)], linear("S: memory of a rank, MB", [size / MB for size in sizes]),
                 linear("time, s", values), series, lines)


def vm_chart(report: Json) -> Chart:
    """Figure 7.11 of the paper: over WWS, a line for each M."""
    rows = usable(report["results"]["rows"])
    sizes = [0.0, *(float(row["wws_bytes"]) for row in rows if row["method"] != CHECKPOINT)]
    memories = sorted({row["memory_bytes"] for row in rows if row["method"] != CHECKPOINT})
    series, lines = [], []
    for method, hollow in ((PRE_COPY, False), (AUTOMATIC, True)):
        fit = report["results"]["fits"][method]["added_job_time_s"]
        for colour, (memory, shape) in enumerate(zip(memories, SHAPES)):
            series.append(Series(f"{method}, M {memory / MB:.0f} MB", colour, [
                Point(row["wws_bytes"] / MB, row["added_job_time_s"],
                      f"{row['cell']}, {row['strategy']}: {row['added_job_time_s']:.2f} s of the job, {row['total_time_s']:.2f} s in all")
                for row in rows if row["method"] == method and row["memory_bytes"] == memory], shape, hollow))
            if fit:
                lines.append(Line("", line_of(fit["coefficients"], [memory], sizes), colour, hollow))
    lines += [Line(f"{name}\n{equation(report, method, 'added_job_time_s')}", [], 0, method == AUTOMATIC)
              for method, name in ((PRE_COPY, "fit, pre-copy"), (AUTOMATIC, "fit, automatic"))]
    values = [point.y for one in series for point in one.points] + [y for line in lines for _, y in line.points]
    paper = PAPER[PRE_COPY]["added_job_time_s"]["coefficients"]
    note = f"the paper (Eq. 7.5): {paper[0]:.2f} s + {paper[1] * 1e9:.1f} ns M + {paper[2] * 1e9:.1f} ns WWS"
    return Chart("What moving its VM costs MigTest, over WWS and M, at 100 Mbit/s", [where(report), note],
                 linear("WWS: rewritten in each iteration, MB", [size / MB for size in sizes]),
                 linear("added job time, s", values), series, lines)


def migtest(report: Json) -> dict[str, str]:
    return {"migtest-checkpoint.svg": checkpoint_chart(report).svg(), "migtest-vm.svg": vm_chart(report).svg()}


# --- forecast -----------------------------------------------------------------------------------------


def measured_rows(report: Json) -> list[Json]:
    return [row for row in report["results"]["rows"] if "measured" in row and is_calm(row, report["setup"]["load_limit"])]


def strategies_in(rows: list[Json]) -> list[str]:
    found = {row["strategy"] for row in rows}
    return [one for one in STRATEGIES if one in found] + sorted(found - set(STRATEGIES))


def error_of(row: Json) -> float:
    true = row["measured"]["total_time_s"]
    return 100 * (row["forecast"]["total_time_s"]["value"] - true) / true


def described(row: Json) -> str:
    said, true = row["forecast"]["total_time_s"], row["measured"]["total_time_s"]
    return f"{row['workload']}, {row['rate']}, {row['strategy']}: forecast {said['value']:.2f} s " \
           f"({said['low']:.2f} to {said['high']:.2f}), measured {true:.2f} s ({error_of(row):+.1f}%)"


def time_chart(report: Json) -> Chart:
    rows = measured_rows(report)
    series = []
    for i, strategy in enumerate(strategies_in(rows)):
        points = []
        for row in (row for row in rows if row["strategy"] == strategy):
            said = row["forecast"]["total_time_s"]
            points.append(Point(row["measured"]["total_time_s"], said["value"], described(row), said["low"], said["high"]))
        series.append(Series(strategy, i % 7, points, list(SHAPES)[i % 7]))
    values = [value for one in series for point in one.points for value in (point.x, point.y)]
    x = logarithmic("measured total time, s", values)
    y = Axis("forecast total time, s", x.low, x.high, log=True)
    held = sum(row["forecast"]["total_time_s"]["low"] <= row["measured"]["total_time_s"] <= row["forecast"]["total_time_s"]["high"]
               for row in rows)
    notes = [where(report), f"{len(rows)} moves; the bar is the 95% interval of the forecast, and {held} of {len(rows)} held"]
    return Chart("Total time: forecast before the move, and measured", notes, x, y, series,
                 [Line("as measured", [(x.low, x.low), (x.high, x.high)], None, True)])


def errors_chart(report: Json) -> Chart:
    rows = measured_rows(report)
    names = strategies_in(rows)
    errors = sorted(abs(error_of(row)) for row in rows) or [1.0]
    most = errors[min(len(errors) - 1, int(0.9 * len(errors)))]
    limit = max(most * FAR, 5.0) if errors[-1] > most * FAR else max(errors[-1] * 1.05, 5.0)
    scale = linear("(forecast - measured) / measured total time, %", [-limit, limit])
    series, lines = [], [Line("as measured", [(-0.5, 0.0), (len(names) - 0.5, 0.0)], None)]
    for i, strategy in enumerate(names):
        of = [row for row in rows if row["strategy"] == strategy]
        points = [Point(i + 0.5 * ((k + 0.5) / len(of) - 0.5), max(scale.low, min(scale.high, error_of(row))), described(row))
                  for k, row in enumerate(of)]
        series.append(Series(f"{strategy} ({len(of)})", i % 7, points, list(SHAPES)[i % 7]))
        middle = statistics.median(error_of(row) for row in of)
        lines.append(Line("", [(i - 0.36, middle), (i + 0.36, middle)], i % 7))
    lines += [Line("3%" if sign > 0 else "", [(-0.5, 3.0 * sign), (len(names) - 0.5, 3.0 * sign)], None, True) for sign in (1, -1)]
    far = sum(error > scale.high for error in errors)
    notes = [where(report), "each point a move, the line a strategy's median" + (f"; drawn on the edge because beyond it: {far}" if far else "")]
    short = tuple(name.replace("rate-controlled", "rate-ctl").replace("stop-and-copy", "stop") for name in names)
    return Chart("Total time: error of the forecast, by strategy", notes, Axis("strategy", -0.5, len(names) - 0.5, names=short),
                 scale, series, lines)


def forecast(report: Json) -> dict[str, str]:
    return {"forecast-total-time.svg": time_chart(report).svg(), "forecast-errors.svg": errors_chart(report).svg()}


# ------------------------------------------------------------------------------------------------------

PLOTS: dict[str, Callable[[Json], dict[str, str]]] = {"forecast": forecast, "migtest": migtest}


def write(report: Json, folder: pathlib.Path) -> list[pathlib.Path]:
    folder.mkdir(parents=True, exist_ok=True)
    files = []
    for name, text in PLOTS[report["bench"]](report).items():
        files.append(folder / name)
        files[-1].write_text(text, encoding="utf-8")
    return files


def read(file: pathlib.Path) -> Json:
    """Raises ValueError with words for people."""
    try:
        report = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, json.JSONDecodeError) as error:
        raise ValueError(f"{file}: {error}") from None
    if not isinstance(report, dict) or not {"bench", "machine", "bars"} <= report.keys():
        raise ValueError(f"{file} is not what a bench prints: it lacks 'bench', 'machine' or 'bars'")
    return report
