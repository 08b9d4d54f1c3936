"""How soon a job goes on from a checkpoint: from the memory of partner hosts, and from the files, by turns, of VMs of several
sizes.

The files lie on this machine's own disk and mostly in its page cache: storage could not be faster, and behind a network it
is slower. So what is measured here is the least that a partner saves. Not capped: nobody else wants the CPUs meanwhile.

A job that was put back writes its lines anew over those that it had written since the checkpoint: it is at work when the
file of its output is written to again, which a guest does every half second.
"""

from __future__ import annotations

import argparse
import os
import pathlib
import random
import sys
import time
from typing import Any

from bars import at_most, exactly, figures
from calm import LOAD_LIMIT
from lib.cluster import Cluster, Json
from lib.waiting import wait_until
from workloads import report

Row = dict[str, Any]
POOL = "restart"
RANKS = 2
#: A VM on each of two hosts, and room for one more with its part on each.
HOST_MEMORY_MIB = 4096
#: Of a VM, and what of it the program holds, in data that can't be packed.
SIZES_MIB = {256: 128, 512: 320, 1024: 768}
QUICK_SIZES_MIB = {256: 128}
FOREVER = 1_000_000
#: So many lines, and the job is taken to be at work.
FIRST_LINES = 5
#: From the order to where the job writes again, in the smallest VMs, from memory.
BAR_S = 3.0
LAZY, EAGER = "lazy", "eager"
LINE = "migtest: iteration="


def command(held_mib: int) -> list[str]:
    return ["migtest", "--size-mib", str(held_mib), "--wws-mib", "4", "--incompressible", "--work", "2", "--iterations", str(FOREVER)]


def newest(cluster: Cluster, job: str) -> Json:
    return next((one for one in cluster.items(f"jobs/{job}/checkpoints") if one["state"] == "complete"), None)


def all_in_memory(cluster: Cluster, job: str) -> Json:
    """The newest checkpoint, once partners that are not the VMs' own hosts have all of it."""
    def look() -> Json:
        one = newest(cluster, job)
        return one if one and all(part["partner"] not in (None, cluster.host_of(part["vm"])) for part in one["parts"]) else None
    return wait_until(look, f"the checkpoint of {job} is in memory", patience_s=120, period_s=0.2)


def steps_of(events: list[Json]) -> dict[str, float]:
    """When the operation came to each state, by mared's clock, which is this machine's."""
    return {one["to"]: report.parse_time(one["at"]) or 0.0 for one in reversed(events)}


def trial(cluster: Cluster, job: str, kind: str) -> Row:
    kept = all_in_memory(cluster, job)
    output = output_of(cluster, job)
    load = os.getloadavg()[0]
    began = time.time()
    operation = cluster.submit("POST", f"jobs/{job}:restart", {"checkpoint": kept["id"], "eager": kind == EAGER})
    ended = cluster.ended(operation["id"])
    if ended["outcome"] != "succeeded":
        raise AssertionError(f"{job} was not put back: {ended['reason']}")
    came = steps_of(cluster.items(f"operations/{operation['id']}/events"))

    def written() -> float | None:
        at = output.stat().st_mtime
        return at if at > came["Resuming"] else None
    at_work = wait_until(written, f"{job} goes on", patience_s=60, period_s=0.01)
    return {"kind": kind, "loading_s": came["Resuming"] - came["Loading"], "answers_s": came["Done"] - began, "at_work_s": at_work - began,
            "from_memory": ended["reason"].split(", ", 1)[1] if ", " in ended["reason"] else "", "load": load}


def output_of(cluster: Cluster, job: str) -> pathlib.Path:
    return cluster.state / "jobs" / job / "output"


def rows_of(cluster: Cluster, memory_mib: int, held_mib: int, repeat: int, chance: random.Random) -> list[Row]:
    cluster.without_pools()
    cluster.spread(cluster.ensure_pool(POOL, RANKS, memory_mib=memory_mib))
    job: str = cluster.submit("POST", "jobs", {"pool": POOL, "command": command(held_mib), "ranks": RANKS, "checkpoint_partner": True})["target"]
    output = output_of(cluster, job)
    rows: list[Row] = []
    try:
        wait_until(lambda: output.exists() and output.read_text(errors="replace").count(LINE) >= FIRST_LINES, f"{job} works", patience_s=300)
        cluster.finish(cluster.submit("POST", f"jobs/{job}:checkpoint"))
        taken = all_in_memory(cluster, job)
        sizes = {"memory_mib": memory_mib, "held_mib": held_mib, "size_bytes": taken["size_bytes"], "written_bytes": taken["written_bytes"]}
        for _ in range(repeat):
            for kind in chance.sample([LAZY, EAGER], 2):
                rows.append({**sizes, **trial(cluster, job, kind)})
                print(f"  {memory_mib} MiB, {kind}: loaded in {rows[-1]['loading_s']:.2f} s, at work after {rows[-1]['at_work_s']:.2f} s "
                      f"({rows[-1]['from_memory'] or 'from files'}); load {rows[-1]['load']:.1f}", file=sys.stderr, flush=True)
    finally:
        cluster.mare("job", "cancel", job, check=False)
    return rows


def run(cluster: Cluster, options: argparse.Namespace) -> Row:
    chance = random.Random(options.seed)
    sizes = QUICK_SIZES_MIB if options.quick else SIZES_MIB
    repeat = 1 if options.quick else max(options.repeat, 5)
    rows = [row for memory, held in sizes.items() for row in rows_of(cluster, memory, held, repeat, chance)]
    setup = {"seed": options.seed, "repeat": repeat, "ranks": RANKS, "host_memory_mib": HOST_MEMORY_MIB, "load_limit": LOAD_LIMIT,
             "programs": {str(memory): command(held) for memory, held in sizes.items()}}
    return {"setup": setup, **results_of(rows)}


# --- results: pure --------------------------------------------------------------------------------


def cell_of(rows: list[Row], memory_mib: int, kind: str) -> Row:
    mine = [row for row in rows if (row["memory_mib"], row["kind"]) == (memory_mib, kind)]
    counted = [row for row in mine if row["load"] <= LOAD_LIMIT]
    return {"memory_mib": memory_mib, "kind": kind, "count": len(mine), "counted": len(counted), "held_mib": mine[0]["held_mib"],
            "size_bytes": mine[0]["size_bytes"], "written_bytes": mine[0]["written_bytes"],
            **{name: figures([row[name] for row in counted]) for name in ("loading_s", "answers_s", "at_work_s")}}


def results_of(rows: list[Row]) -> Row:
    sizes = sorted({row["memory_mib"] for row in rows})
    known = {(row["memory_mib"], row["kind"]) for row in rows}
    cells = [cell_of(rows, size, kind) for size in sizes for kind in (LAZY, EAGER) if (size, kind) in known]
    smallest = cells[0]["at_work_s"].get("median") if cells and cells[0]["kind"] == LAZY else None
    whole = f"{RANKS} of {RANKS} from their hosts' memory"
    otherwise = sum((row["from_memory"] == whole) != (row["kind"] == LAZY) for row in rows)
    return {"results": {"restarts": len(rows), "dropped_for_load": sum(row["load"] > LOAD_LIMIT for row in rows), "cells": cells, "rows": rows},
            "baselines": {EAGER: "the same checkpoint from its files, by turns"},
            "limits": {},
            "bars": {"at_work_s": at_most(smallest, BAR_S, "s"), "not_as_asked": exactly(otherwise, 0, "count")}}
