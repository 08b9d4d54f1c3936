"""Many migrations there and back under one MPI job: what they cost, and whether anything was lost."""

from __future__ import annotations

import statistics
import sys
import time
from typing import Any

from lib.cluster import CONSOLE_FAULT, Cluster, Json
from lib.migtest import MigTest, Shape

POOL = "soak"


def distribution(values: list[float]) -> dict[str, float]:
    """As a reader wants it: the middle, the edges, and how many there are."""
    ordered = sorted(values)
    if not ordered:
        return {"count": 0}
    def at(share: float) -> float:
        return round(ordered[min(len(ordered) - 1, int(share * len(ordered)))], 3)
    return {"count": len(ordered), "min": at(0), "p25": at(0.25), "median": round(statistics.median(ordered), 3),
            "p75": at(0.75), "p95": at(0.95), "max": round(ordered[-1], 3)}


def iterations_for(cluster: Cluster, vm: str, away: str, home: str, migrations: int) -> int:
    """So many that the job outlives the migrations: measured, since machines differ by a factor of ten."""
    trial = MigTest(cluster, POOL, Shape(iterations=40))
    trial.wait_for_iterations(10)
    begun = time.monotonic()
    cluster.migrate(vm, away)
    cluster.migrate(vm, home)
    each = (time.monotonic() - begun) / 2
    trial.assert_right()
    starts = [one.start_us for one in trial.logged(0)]
    iteration = statistics.median(after - before for before, after in zip(starts, starts[1:])) / 1e6
    return max(100, int(1.6 * migrations * (each + 0.5) / iteration) + 50)


def run_soak(cluster: Cluster, migrations: int) -> dict[str, Any]:
    """The results; an exception only when it could not be done at all."""
    vms = cluster.ensure_pool(POOL, 2)
    vm = vms[1]
    home = cluster.host_of(vm)
    away = cluster.another_host(*{cluster.host_of(one) for one in vms})
    shape = Shape(iterations=iterations_for(cluster, vm, away, home, migrations))
    job = MigTest(cluster, POOL, shape)
    job.wait_for_iterations(5)
    records: list[Json] = []
    problems: list[str] = []
    advanced = 0
    for number in range(migrations):
        before = job.done()
        try:
            records.append(cluster.migrate(vm, away if number % 2 == 0 else home))
            cluster.assert_runs_once(vm)
        except AssertionError as error:
            problems.append(f"migration {number + 1}: {error}")
            break
        if job.row()["state"] != "running":
            problems.append(f"the job was {job.row()['state']} after migration {number + 1}")
            break
        advanced += job.done() > before
        last = records[-1]
        print(f"  migration {number + 1} of {migrations}: {last['total_time_ms'] / 1000:.1f} s, downtime "
              f"{last['downtime_ms']['hypervisor']:.0f} ms", file=sys.stderr, flush=True)
    right = True
    try:
        job.assert_right()
    except AssertionError as error:
        right = False
        problems.append(str(error))
    faults = {one: fault[0] for one in vms if (fault := CONSOLE_FAULT.search(cluster.console(one)))}
    return figures(records, job, right, faults, problems, advanced)


def figures(records: list[Json], job: MigTest, right: bool, faults: dict[str, str], problems: list[str],
            advanced: int) -> dict[str, Any]:
    downtimes = {who: distribution([one["downtime_ms"][who] for one in records if one["downtime_ms"][who] is not None])
                 for who in ("hypervisor", "guest", "peers")}
    durations = [one.duration_us / 1000 for one in job.logged(0)]
    return {
        "migrations": len(records),
        "job": job.id,
        "checksum_right_and_no_iteration_lost": right,
        "job_advanced_during_migrations": advanced,
        "console_faults": faults,
        "problems": problems,
        "downtime_ms": downtimes,
        "total_time_ms": distribution([one["total_time_ms"] for one in records]),
        "transferred_mib": distribution([one["transferred_bytes"] / (1 << 20) for one in records]),
        "rounds": distribution([len(one["rounds"]) for one in records]),
        "announce_delay_ms": distribution([one["announce_delay_ms"] for one in records
                                           if one["announce_delay_ms"] is not None]),
        "iteration_ms": distribution(durations),
        "iterations": len(durations),
    }
