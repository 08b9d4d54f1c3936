"""What checkpoints cost a job: the same work with and without, by turns, in the same VMs, at several intervals; how long the
job stands still for one, how far apart its VMs stop, and how many bytes it is.

Runs of the same work differ by more than a checkpoint a minute can cost. So what each one cost is also taken from inside of
its run: by the ends of the iterations around it, against the pace just before and just after.

Where checkpoints come every ten minutes, the two runs of a pair go on side by side, in pools of their own and with half of
the share for each guest: by turns they would take two hours, and the machine of the second run would be another one. The
result of the work is compared; the time is not: of two pools one can be a fifth slower than the other, before its checkpoint
as after it, and that is far more than a checkpoint costs. It is taken from inside alone there.

Guests are capped, as in the bench `move`: a real host writes checkpoints with cores of its own. Every run is a row that is
kept at once: with --json a bench that was stopped goes on where it was.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import dataclasses
import os
import pathlib
import random
import re
import sys
from typing import Any, Collection

from bars import at_most, exactly, figures, worst_median
from calm import LOAD_LIMIT
from caps import Caps
from cost import added_job_time
from lib.cluster import Cluster, Json
from lib.waiting import wait_until
from move import Tail
from partial import Partial
from workloads import report

POOL, POOL_BESIDE = "checkpoint", "checkpoint-beside"
RANKS = 2
MEMORY_MIB = 192
#: Of a core, for each of the two guests: who writes has the other half of a machine with two.
VCPU_SHARE = 0.5
#: At these intervals both runs of a pair go on at once, each guest with half of that.
SIDE_BY_SIDE = (600,)
#: Seconds from one checkpoint to the next, and how long a run without any is then: at least one checkpoint fits in.
LENGTHS_S = {10: 45.0, 60: 135.0, 600: 720.0}
QUICK_LENGTHS_S = {10: 25.0, 60: 75.0}
#: The pace before and after a checkpoint is taken over so long, where checkpoints are so often; no other one falls into it.
PACE_S = {10: 5.0, 60: 20.0, 600: 20.0}
#: A job's last lines come at most so much later than its end is known.
LAST_LINES_S = 30.0
FULL, INCREMENTAL = "full", "incremental"
ENDED = ("succeeded", "failed", "cancelled")
PAUSE_P50_MS, SKEW_MS, OVERHEAD_60S = 100.0, 20.0, 1.0

Row = dict[str, Any]


@dataclasses.dataclass(frozen=True)
class Program:
    """Fixed work that tells how far it is and whether it was right. It never waits for a clock: what it loses shows."""

    name: str
    command: tuple[str, ...]
    #: Its option for the amount of work, in units; a line every `every` of them, which begins with `line`.
    amount: str
    line: str
    trial: int
    every: int = 1

    def with_work(self, units: int) -> list[str]:
        return [*self.command, self.amount, str(units)]

    def units(self, seconds: float, pace_s: float) -> int:
        """For so long a run, a whole number of lines; `pace_s` of a unit."""
        return max(self.trial, round(seconds / pace_s / self.every) * self.every)


def migtest(wws_mib: int) -> Program:
    # --work keeps its lines from coming so often that they are what takes the time.
    return Program(f"migtest W{wws_mib}", ("migtest", "--size-mib", "48", "--wws-mib", str(wws_mib), "--incompressible", "--work", "2"),
                   "--iterations", "migtest: iteration=", 30)


MATMUL = Program("matmul", ("matmul", "--n", "160"), "--products", "matmul: product=", 40)
HEAT = Program("heat", ("heat", "--nx", "400", "--ny", "400", "--report-every", "10"), "--steps", "heat: step=", 400, 10)
PROGRAMS = (MATMUL, HEAT, migtest(2), migtest(8), migtest(32))
#: A run for the longest interval takes eleven minutes: one pair each, and not of every MigTest.
LONG_PROGRAMS = (MATMUL, HEAT, migtest(8))
#: A job's first checkpoint is full in either mode, and these runs have one each.
FULL_ONLY = (600,)
QUICK_PROGRAMS = LONG_PROGRAMS


@dataclasses.dataclass(frozen=True)
class Pair:
    """The same work twice: without checkpoints, and with, at once afterwards or side by side."""

    program: Program
    every_s: int
    length_s: float
    mode: str
    number: int

    @property
    def share(self) -> float:
        """Of a core, for each guest."""
        return VCPU_SHARE / 2 if self.every_s in SIDE_BY_SIDE else VCPU_SHARE

    @property
    def key(self) -> str:
        return f"{self.program.name}, every {self.every_s} s, {self.mode}, {self.number}"


def lengths(quick: bool, intervals: Collection[int]) -> dict[int, float]:
    return {every_s: length_s for every_s, length_s in (QUICK_LENGTHS_S if quick else LENGTHS_S).items() if every_s in intervals}


def pairs(quick: bool, repeat: int, modes: list[str], chance: random.Random, intervals: Collection[int] = tuple(LENGTHS_S)) -> list[Pair]:
    """Pairs of one cell follow each other, so that their runs take turns; cells in shuffled order."""
    cells: list[tuple[Program, int, float, int]] = []
    for every_s, length_s in lengths(quick, intervals).items():
        programs = (QUICK_PROGRAMS if every_s == 10 else QUICK_PROGRAMS[-1:]) if quick else LONG_PROGRAMS if every_s == 600 else PROGRAMS
        cells += [(program, every_s, length_s, 1 if quick or every_s == 600 else repeat) for program in programs]
    chance.shuffle(cells)
    return [Pair(program, every_s, length_s, mode, number) for program, every_s, length_s, count in cells
            for number in range(1, count + 1) for mode in modes if mode == modes[0] or (every_s not in FULL_ONLY and not (quick and every_s > 10))]


def modes_of(openapi: Json) -> dict[str, Json]:
    """Which kinds of checkpoints a job can ask for, and by what it does: members of the body of POST /jobs. A mared without
    a choice takes full ones."""
    for name, schema in openapi["components"]["schemas"]["JobCreate"]["properties"].items():
        if "checkpoint" in name and {FULL, INCREMENTAL} <= set(schema.get("enum", [])):
            return {FULL: {name: FULL}, INCREMENTAL: {name: INCREMENTAL}}
        if "checkpoint" in name and INCREMENTAL in name and schema.get("type") == "boolean":
            return {FULL: {name: False}, INCREMENTAL: {name: True}}
        if "checkpoint" in name and FULL in name and "every" in name and schema.get("type") == "integer":
            # Every so manieth is a full one.
            return {FULL: {name: 1}, INCREMENTAL: {name: schema.get("default") if schema.get("default", 1) > 1 else 10}}
    return {FULL: {}}


def verdict_of(texts: list[str]) -> tuple[str, bool]:
    """Checksum, and whether the program found itself right; "" when it did not tell."""
    for text in reversed(texts):
        if found := re.search(r"\bchecksum=([0-9a-f]+)", text):
            return found[1], "verified=no" not in text
    return "", False


def one_run(cluster: Cluster, program: Program, units: int, more: Json, pool: str = POOL) -> Row:
    """From the first line of its progress to the last, on this machine's clock, as the guests' clocks stand still with them.
    What it takes to begin and to end is no part of it."""
    load = os.getloadavg()[0]
    body = {"pool": pool, "command": program.with_work(units), "ranks": RANKS, **more}
    job: str = cluster.submit("POST", "jobs", body)["target"]
    output = pathlib.Path(cluster.state) / "jobs" / job / "output"
    wait_until(lambda: output.exists() or cluster.get(f"jobs/{job}")["state"] in ENDED, f"{job} writes")
    tail = Tail(output)
    checkpoints: dict[str, Json] = {}

    def look() -> Json:
        # They go with the job when it succeeds.
        for one in cluster.items(f"jobs/{job}/checkpoints"):
            if one["state"] == "complete":
                checkpoints[one["id"]] = one
        row = cluster.get(f"jobs/{job}")
        return row if row["state"] in ENDED else None
    try:
        ended = wait_until(look, f"{job} ends", patience_s=3600, period_s=0.5)
        if ended["state"] == "succeeded":
            wait_until(lambda: verdict_of([line.text for line in list(tail.lines)])[0], f"{job} tells its result", patience_s=LAST_LINES_S)
    finally:
        tail.stop()
    told = [line.arrived for line in tail.lines if line.text.startswith(program.line)]
    checksum, right = verdict_of([line.text for line in tail.lines])
    takes = [one["outcome"] for one in cluster.items(f"operations?kind=checkpoint.take&target={job}")]
    return {"job": job, "units": units, "seconds": told[-1] - told[0] if len(told) > 1 else None, "lines": len(told),
            "right": ended["state"] == "succeeded" and right, "reason": ended["reason"], "checksum": checksum,
            "checkpoints": [of_checkpoint(one, told, PACE_S.get(more.get("checkpoint_every_s", 0), 0)) for one in checkpoints.values()],
            "takes": {outcome: takes.count(outcome) for outcome in sorted(set(takes))}, "load": max(load, os.getloadavg()[0])}


def of_checkpoint(one: Json, told: list[float], pace_s: float) -> Row:
    """`told`: when lines of progress came. `lost_s` is None where too few of them came before or after it."""
    began, completed = (report.parse_time(one[name]) or 0.0 for name in ("began", "completed"))
    cost = added_job_time(told, began, completed, pace_s)
    return {"id": one["id"], "pause_ms": one["pause_ms"], "skew_ms": one["skew_ms"], "size_bytes": one["size_bytes"],
            "written_bytes": one["written_bytes"], "base": one["base"], "took_s": completed - began,
            "lost_s": cost.added if cost else None, "lost_noise_s": cost.noise if cost else None}


def pools_of(cluster: Cluster, side_by_side: bool) -> tuple[str, str]:
    """Of the run without checkpoints, and of the one with. No others are there: their guests would take CPU time."""
    pools = (POOL, POOL_BESIDE if side_by_side else POOL)
    if not side_by_side and cluster.has_pool(POOL_BESIDE):
        cluster.delete_pool(POOL_BESIDE)
    for pool in dict.fromkeys(pools):
        cluster.spread(cluster.ensure_pool(pool, RANKS, memory_mib=MEMORY_MIB))
    return pools


def measure(cluster: Cluster, partial: Partial, pair: Pair, option: Json, pools: tuple[str, str] = (POOL, POOL)) -> list[Row]:
    """Both runs of a pair: at the same time, if they have a pool each."""
    program = pair.program
    kinds = {"without": (pools[0], {}), "with": (pools[1], {"checkpoint_every_s": pair.every_s, **option})}

    def trial(pool: str) -> Row:
        # Side by side guests take turns on a core: a pace that is to hold for ten minutes is not told by some seconds.
        run = one_run(cluster, program, program.trial * (5 if len(set(pools)) > 1 else 1), {}, pool)
        if not run["right"] or not run["seconds"]:
            raise AssertionError(f"{program.name} went wrong: {run}")
        return {"pace_s": run["seconds"] / ((run["lines"] - 1) * program.every)}

    with concurrent.futures.ThreadPoolExecutor(len(set(pools))) as threads:
        trials = {pool: threads.submit(partial.once, f"pace of {program.name} in {pool}, {pair.share} of a core", lambda pool=pool: trial(pool))
                  for pool in dict.fromkeys(pools)}
        # The same work for both.
        units = program.units(pair.length_s, max(one.result()["pace_s"] for one in trials.values()))
        runs = {kind: threads.submit(partial.once, f"{pair.key}, {kind}", lambda pool=pool, more=more: one_run(cluster, program, units, more, pool))
                for kind, (pool, more) in kinds.items()}
        same = {"pair": pair.key, "program": program.name, "every_s": pair.every_s, "mode": pair.mode}
        return [{**same, "checkpoints_wanted": kind == "with", **one.result()} for kind, one in runs.items()]


def tell(number: int, count: int, rows: list[Row]) -> None:
    without, having = rows
    words = f"  {number} of {count}: {having['pair']}: "
    if all(row["right"] and row["seconds"] for row in rows):
        words += f"{without['seconds']:.1f} s without, {having['seconds']:.1f} s with {len(having['checkpoints'])}"
    else:
        words += f"WRONG: {without['reason']}; {having['reason']}"
    print(words + f"; load {max(row['load'] for row in rows):.1f}", file=sys.stderr, flush=True)


def run(cluster: Cluster, options: argparse.Namespace) -> dict[str, Any]:
    modes = modes_of(cluster.get("openapi.json"))
    plan = pairs(options.quick, options.repeat, list(modes), random.Random(options.seed), options.every)
    rows: list[Row] = []
    stated: dict[str, Json] = {}
    # By shares, so that no guest's cap changes while it runs.
    for share in sorted({pair.share for pair in plan}, reverse=True):
        with Caps(share) as caps:
            for pair in (one for one in plan if one.share == share):
                both = measure(cluster, options.partial, pair, modes[pair.mode], pools_of(cluster, pair.every_s in SIDE_BY_SIDE))
                rows += both
                tell(len(rows) // 2, len(plan), both)
            stated |= {f"every {every_s} s": caps.stated() for every_s in sorted({one.every_s for one in plan if one.share == share})}
            for pool in (POOL, POOL_BESIDE):
                if cluster.has_pool(pool):
                    cluster.delete_pool(pool)
    setup = {"seed": options.seed, "repeat": 1 if options.quick else options.repeat, "ranks": RANKS, "memory_mib": MEMORY_MIB,
             "lengths_s": {str(key): value for key, value in lengths(options.quick, options.every).items()},
             "load_limit": LOAD_LIMIT, "caps": stated, "side_by_side_s": [one for one in SIDE_BY_SIDE if one in options.every],
             "programs": {one.name: one.with_work(one.trial) for one in PROGRAMS},
             "modes": {mode: more or "as mared does" for mode, more in modes.items()}}
    if INCREMENTAL not in modes:
        setup["modes"][INCREMENTAL] = "absent: JobCreate in /api/v1/openapi.json has no member that asks for them"
    return {"setup": setup, **results_of(rows)}


# --- results: pure --------------------------------------------------------------------------------


def couples(rows: list[Row]) -> list[tuple[Row, Row]]:
    """(without, with) of each pair of which both count: right, on a quiet machine, and with checkpoints where there should be."""
    by_pair: dict[str, dict[bool, Row]] = {}
    for row in rows:
        by_pair.setdefault(row["pair"], {})[row["checkpoints_wanted"]] = row
    found = [(both[False], both[True]) for both in by_pair.values() if len(both) == 2]
    return [both for both in found if both[1]["checkpoints"] and all(row["right"] and row["seconds"] and row["load"] <= LOAD_LIMIT for row in both)]


def overhead(both: list[tuple[Row, Row]]) -> float | None:
    """In percent, of all these pairs together: what the runs with checkpoints took longer, over what those without took.
    None for pairs that went on side by side."""
    if any(one["every_s"] in SIDE_BY_SIDE for one, _ in both):
        return None
    without = sum(one["seconds"] for one, _ in both)
    return 100 * (sum(other["seconds"] for _, other in both) / without - 1) if both else None


def lost_percent(taken: list[Row], every_s: int) -> float | None:
    """The mean of what these checkpoints cost, over their interval. The mean and not the median: rare long stops count."""
    known = [one["lost_s"] for one in taken if one.get("lost_s") is not None]
    return 100 * sum(known) / len(known) / every_s if known else None


def taken_in(rows: list[Row], mode: str, every_s: int) -> list[Row]:
    """All checkpoints of runs that were right, on a quiet machine."""
    return [one for row in rows if (row["mode"], row["every_s"]) == (mode, every_s) and row["right"] and row["load"] <= LOAD_LIMIT
            for one in row["checkpoints"]]


def cell_of(rows: list[Row], program: str, every_s: int, mode: str) -> Row:
    mine = [row for row in rows if (row["program"], row["every_s"], row["mode"]) == (program, every_s, mode)]
    both = couples(mine)
    taken = [one for _, row in both for one in row["checkpoints"]]
    added = [] if every_s in SIDE_BY_SIDE else [row["seconds"] - without["seconds"] for without, row in both]
    return {"program": program, "every_s": every_s, "mode": mode, "pairs": len(mine) // 2, "counted": len(both), "checkpoints": len(taken),
            "without_s": figures([one["seconds"] for one, _ in both]), "with_s": figures([one["seconds"] for _, one in both]),
            "added_s": figures(added), "added_per_checkpoint_s": sum(added) / len(taken) if added and taken else None, "overhead_percent": overhead(both),
            "lost_s": figures([one["lost_s"] for one in taken]), "lost_percent": lost_percent(taken, every_s),
            **{name: figures([one[name] for one in taken]) for name in ("pause_ms", "skew_ms", "size_bytes", "took_s")},
            # A job's first one is full in either mode.
            "written_bytes": figures([one["written_bytes"] for one in taken if mode == FULL or one["base"]])}


def wrong_jobs(rows: list[Row]) -> int:
    """Of runs of the same work all end with the same checksum: those that say otherwise, or that did not end well."""
    known: dict[tuple[str, int], str] = {}
    for row in rows:
        if row["right"] and not row["checkpoints_wanted"]:
            known.setdefault((row["program"], row["units"]), row["checksum"])
    return sum(not row["right"] or row["checksum"] != known.get((row["program"], row["units"]), row["checksum"]) for row in rows)


def results_of(rows: list[Row]) -> Row:
    """`results`, `baselines`, `limits` and `bars` of the bench's object."""
    names = list(dict.fromkeys((row["program"], row["every_s"], row["mode"]) for row in rows))
    cells = [cell_of(rows, *name) for name in sorted(names, key=lambda one: (one[2], one[1], [p.name for p in PROGRAMS].index(one[0])))]
    modes = sorted({row["mode"] for row in rows})
    overheads = {mode: {str(every_s): overhead(couples([row for row in rows if (row["mode"], row["every_s"]) == (mode, every_s)]))
                        for every_s in sorted({row["every_s"] for row in rows if row["mode"] == mode})} for mode in modes}
    lost = {mode: {str(every_s): lost_percent(taken_in(rows, mode, every_s), every_s)
                   for every_s in sorted({row["every_s"] for row in rows if row["mode"] == mode})} for mode in modes}
    bars = {}
    for mode in [FULL, *(one for one in modes if one != FULL)]:
        taken: dict[str, list[float | None]] = {}
        pauses: list[float | None] = []
        for _, row in couples([one for one in rows if one["mode"] == mode]):
            taken.setdefault(row["program"], []).extend(one["skew_ms"] for one in row["checkpoints"])
            pauses += [one["pause_ms"] for one in row["checkpoints"]]
        more = "" if mode == FULL else f"_{mode}"
        bars |= {f"gang_pause_p50_ms{more}": at_most(figures(pauses).get("median"), PAUSE_P50_MS, "ms"),
                 f"gang_skew_ms{more}": at_most(worst_median(taken), SKEW_MS, "ms")}
        if not rows or any(row["every_s"] == 60 for row in rows):
            bars |= {f"overhead_60s{more}": at_most(lost.get(mode, {}).get("60"), OVERHEAD_60S, "%")}
    wrong = wrong_jobs(rows)
    return {
        "results": {"runs": len(rows), "dropped_for_load": sum(row["load"] > LOAD_LIMIT for row in rows), "wrong_jobs": wrong,
                    "pairs_counted": len(couples(rows)), "overhead_percent": overheads, "lost_percent": lost, "cells": cells, "rows": rows},
        "baselines": {"without": "the same work, just before in the same VMs, or (600 s) at the same time in others, without checkpoints"},
        "limits": {"size_bytes": {"value": RANKS * MEMORY_MIB * (1 << 20), "unit": "bytes",
                                  "arithmetic": f"{RANKS} VMs of {MEMORY_MIB} MiB: all that a checkpoint has to hold, devices aside"}},
        "bars": {**bars, "wrong_jobs": exactly(wrong, 0, "count")},
    }
