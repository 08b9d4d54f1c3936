"""Hosts that are well, on a machine that is busy: is one called silent, and how near do they come to it? And how soon a host
that dies is noticed with the shortest setting.

A job that takes checkpoints runs all the time, so its hosts hold leases, and a false alarm would end VMs. Beside it as
many processes as make the load wanted never rest.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import statistics
import subprocess
import sys
import time
import urllib.request
from typing import Any, Iterable, Iterator

from bars import at_least, at_most, exactly, figures
from kills import CUT, HOST, detected_at
from lib.cluster import Cluster, Json, kill
from lib.migtest import MigTest, Shape
from lib.waiting import wait_until
from recovery import Aim, Events
from workloads import report

Row = dict[str, Any]
POOL = "detection"
RANKS = 3
MEMORY_MIB = 192
#: One a second, for ever: what it prints is little, and it is cancelled in the end.
FOREVER = Shape(ranks=RANKS, iterations=1_000_000, interval_ms=1000)
CHECKPOINT_EVERY_S = 20
WATCH_S, QUICK_WATCH_S = 3600.0, 60.0
LOAD = 4.0
BUSY = 4
#: The load is a mean over a minute.
LOAD_COMES_S = 600.0
LOOK_S = 10.0
#: 0.3 s of silence, looked for four times in each heartbeat.
FAST = ["--heartbeat-ms", "100", "--heartbeat-misses", "3", "--lease-ms", "500"]
PATIENCE_S = 30.0
FAST_KILLS, QUICK_FAST_KILLS = 10, 2
FAST_DETECTION_S = 0.3
BUCKET = re.compile(r'^mare_host_silence_seconds_bucket\{le="([^"]+)"\} (\d+)$', re.MULTILINE)
LONGEST = re.compile(r"^mare_host_longest_silence_seconds (\S+)$", re.MULTILINE)


# --- pure -----------------------------------------------------------------------------------------


def alarms(events: Iterable[Json]) -> list[str]:
    """What mared took for a failure."""
    found = []
    for event in events:
        kind, subject, data = event["type"], event["subject"], event["data"]
        if kind == "host.state" and data["health"] == "down":
            found.append(f"{event['at']}: host {subject} is down")
        elif kind == "vm.state" and data["state"] in ("failed", "lost"):
            found.append(f"{event['at']}: VM {subject} is {data['state']}")
        elif kind == "operation.created" and data["kind"] == "recovery.run":
            found.append(f"{event['at']}: {data['target']} is recovered")
    return found


def silences(metrics: str) -> Row:
    """How often hosts were silent for longer than so many seconds, and the longest time, by mared's /metrics."""
    counts = {bound: int(count) for bound, count in BUCKET.findall(metrics)}
    longest = LONGEST.search(metrics)
    if not longest or "+Inf" not in counts:
        raise AssertionError("mared's metrics tell nothing of silences")
    answers = counts.pop("+Inf")
    return {"answers": answers, "longest_s": float(longest[1]), "longer_than_s": {bound: answers - count for bound, count in counts.items()}}


def results_of(watched: Row, fast: list[Row]) -> dict[str, Any]:
    noticed = [row["detection_s"] for row in fast]
    return {"results": {"watched": watched, "fast": {"kills": len(fast), "detection_s": figures(noticed), "by_kind": {
                kind: figures([row["detection_s"] for row in fast if row["kind"] == kind]) for kind in (HOST, CUT)}}, "rows": fast},
            "baselines": {},
            "bars": {"false_alarms": exactly(len(watched["alarms"]), 0, "count"),
                     "watched_s": at_least(watched["seconds"], WATCH_S, "s"),
                     "load_median": at_least(watched["load"].get("median"), LOAD, "processes"),
                     "fast_detection_s": at_most(statistics.median(noticed) if noticed and None not in noticed else None, FAST_DETECTION_S, "s")}}


# --- on a lab -------------------------------------------------------------------------------------


def say(words: str) -> None:
    print(f"  {words}", file=sys.stderr, flush=True)


@contextlib.contextmanager
def busy(count: int) -> Iterator[None]:
    """Processes that never rest, as many."""
    processes = [subprocess.Popen([sys.executable, "-c", "while True: pass"], stdin=subprocess.DEVNULL) for _ in range(count)]
    try:
        yield
    finally:
        for process in processes:
            kill(process)


def metrics_of(cluster: Cluster) -> str:
    request = urllib.request.Request(f"{cluster.url}/metrics")
    request.add_header("Authorization", "Bearer " + cluster.token_file.read_text().strip())
    with urllib.request.urlopen(request, timeout=60) as answer:
        return str(answer.read().decode())


class Protected:
    """A job whose hosts hold leases, for as long as it is entered."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster

    def __enter__(self) -> "Protected":
        self.vms = self.cluster.ensure_pool(POOL, RANKS, memory_mib=MEMORY_MIB)
        self.cluster.spread(self.vms)
        self.job = MigTest(self.cluster, POOL, FOREVER, checkpoint_every_s=CHECKPOINT_EVERY_S)
        wait_until(self._has_a_checkpoint, f"{self.job.id} has a checkpoint", period_s=0.5)
        return self

    def __exit__(self, *_: object) -> None:
        self.cluster.mare("job", "cancel", self.job.id, check=False)

    def _has_a_checkpoint(self) -> bool:
        row = self.job.row()
        if row["state"] in ("failed", "cancelled"):
            raise AssertionError(f"{self.job.id} {row['state']}: {row['reason']}")
        return any(one["state"] == "complete" for one in self.cluster.items(f"jobs/{self.job.id}/checkpoints"))


def watch(cluster: Cluster, seconds: float) -> Row:
    """mared is as long-lived as the watch, for its metrics count from its start."""
    cluster.kill_mared()
    cluster.start_mared()
    with Protected(cluster) as protected, busy(BUSY):
        wait_until(lambda: os.getloadavg()[0] >= LOAD, f"the load has come to {LOAD}", LOAD_COMES_S, 1)
        events, loads, found = Events(cluster), [], []
        begun = time.monotonic()
        told = begun
        while time.monotonic() - begun < seconds:
            due = time.monotonic() + min(LOOK_S, seconds)
            wait_until(lambda: time.monotonic() >= due, "the next look", period_s=0.5)
            loads.append(os.getloadavg()[0])
            found += alarms(events.new())
            if time.monotonic() - told > 300:
                told = time.monotonic()
                say(f"{told - begun:.0f} of {seconds:.0f} s: {len(found)} alarms, longest silence "
                    f"{silences(metrics_of(cluster))['longest_s']:.2f} s, load {loads[-1]:.1f}")
        lasted = time.monotonic() - begun
        row = protected.job.row()
        if row["state"] != "running":
            raise AssertionError(f"{protected.job.id} is {row['state']}: {row['reason']}")
        return {"seconds": lasted, "alarms": found, "restarts": row["restarts"], "checkpoints": len(cluster.items(
            f"operations?kind=checkpoint.take&target={protected.job.id}&limit=500")), "load": figures(loads), "silences": silences(metrics_of(cluster))}


def one_fast_kill(cluster: Cluster, number: int) -> Row:
    """By turns a host is killed and cut off, under a job of its own: what becomes of that is another bench's."""
    with Protected(cluster) as protected:
        kind, vm = (HOST, CUT)[number % 2], protected.vms[1 + number // 2 % (RANKS - 1)]
        host = cluster.host_of(vm)
        there = [one["id"] for one in cluster.items(f"vms?pool={POOL}") if one["host"] == host]
        events, aim = Events(cluster), Aim(cluster)
        at = aim.strike(kind, vm, host)
        told: list[Json] = []

        def look() -> float | None:
            told.extend(events.new())
            return detected_at(told, lambda text: report.parse_time(text) or 0.0, at, protected.job.id, there, [host])
        seen = wait_until(look, f"{kind} of {host} is noticed", PATIENCE_S, 0.2)
    # As the lab does it, but without a look at mared, which the lab would start anew.
    cluster.plug_in(host)
    if cluster.agent_pid(host) is None:
        cluster.start_agent(host)
    cluster.wait_health(host, "up")
    wait_until(lambda: protected.job.row()["state"] in ("failed", "cancelled", "succeeded"), f"{protected.job.id} ends")
    return {"kind": kind, "host": host, "vms": there, "detection_s": seen - at, "load": os.getloadavg()[0]}


def fast_kills(cluster: Cluster, count: int) -> list[Row]:
    rows: list[Row] = []
    cluster.kill_mared()
    mared = cluster.start_mared_with("", *FAST)
    try:
        for number in range(count):
            rows.append(one_fast_kill(cluster, number))
            say(f"{number + 1} of {count}: {rows[-1]['kind']}: noticed after {rows[-1]['detection_s']:.2f} s")
    finally:
        kill(mared)
        cluster.start_mared()
    return rows


def run(cluster: Cluster, options: argparse.Namespace) -> dict[str, Any]:
    seconds = QUICK_WATCH_S if options.quick else WATCH_S
    fast = fast_kills(cluster, QUICK_FAST_KILLS if options.quick else FAST_KILLS)
    watched = watch(cluster, seconds)
    cluster.without_pools()
    return {"setup": {"ranks": RANKS, "memory_mib": MEMORY_MIB, "checkpoint_every_s": CHECKPOINT_EVERY_S, "busy_processes": BUSY,
                      "watched_with": "the defaults", "fast_with": " ".join(FAST)}, **results_of(watched, fast)}
