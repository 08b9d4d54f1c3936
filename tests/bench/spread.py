"""One job of eight ranks that visits two, four and one hosts while it runs, against the same job where it is best off and
stays there.

The job is `heat`: its checksum does not depend on where its ranks are, and is computed here without MPI or VMs as well.
Runs of the same work differ by more than what moves cost. So that is also taken from inside of the visiting run: what each
change cost, against the pace just before and just after. Runs take turns (visiting, staying, visiting, ...). Their time is
by this machine's clock, for a VM's stands still with it. A job begins uncapped, since MPI's start would take a capped guest
a minute: what counts begins when its VMs are.
"""

from __future__ import annotations

import argparse
import dataclasses
import math
import os
import re
import statistics
import subprocess
import sys
import time
from typing import Any

from calm import LOAD_LIMIT
from caps import Caps
from cost import added_job_time
from lib.cluster import Cluster, Json, kill
from lib.waiting import wait_until
from move import Tail
from speed import Speed
from workloads import report

Row = dict[str, Any]
POOL = "spread"
RANKS = 8
HOSTS = 4
MEMORY_MIB = 192
#: With what an emulator adds to a VM, eight of them must fit on one host.
HOST_MEMORY_MIB = 4096
#: Of a core: eight guests leave the movers more than one of a machine with two.
VCPU_SHARE = 0.1
GRID = 1024
#: A line costs an emulated guest some 6 ms of its CPU, and a capped one has 100 ms a second.
REPORT_EVERY = 25
#: Ranks that wait for each other had better stand still together than one after the other.
MARED = ["--migrations-per-host", "8", "--migrations-per-link", "8"]
#: After the caps have come.
SETTLE_S = 1.0
#: The pace before and after a change is taken over so long.
PACE_S = 20.0
JOB_S = 600.0
QUICK_JOB_S = 80
TRIAL_S = 20.0
QUICK_TRIAL_S = 10.0
FOREVER = 1_000_000_000
#: Eight guests that were just made and moved leave a load that says nothing of the run to come.
CALM_LOAD = 4.0
ADDED_FRACTION = 0.02
STEP = re.compile(r"^heat: step=(\d+) ")
END = re.compile(r"^heat: ranks=(\d+) nx=\d+ ny=\d+ steps=(\d+) checksum=([0-9a-f]{16}) ")
ALIKE = ("all hosts of a lab share this machine's cores, and a capped guest has the same share of one wherever it is: so a "
         "place differs from another by what crosses links alone, and a visiting job is slower by what its moves cost it")


@dataclasses.dataclass(frozen=True)
class Visit:
    """A change of the layout, once so much of the job is done."""

    verb: str
    at_share: float
    hosts: int
    #: Packing frees hosts and seldom helps the job: it has to be forced.
    force: bool

    def body(self, remaining_s: float) -> Json:
        return {"hosts": self.hosts, "remaining_s": round(max(1.0, remaining_s), 3), "force": self.force}


FROM_HOSTS = 2
VISITS = (Visit("spread", 0.1, 4, False), Visit("pack", 0.4, 1, True))


@dataclasses.dataclass(frozen=True)
class Plate:
    steps: int
    #: Of the whole job, as far as it is known before.
    expected_s: float = 0.0

    @property
    def options(self) -> list[str]:
        return ["--nx", str(GRID), "--ny", str(GRID), "--steps", str(self.steps), "--report-every", str(REPORT_EVERY)]

    def right(self, program: str) -> str:
        """The checksum, by the same program without MPI, without VMs, without moves."""
        done = subprocess.run([program, *self.options, "--expect"], capture_output=True, text=True, check=True, timeout=1200)
        found = re.search(r"checksum=([0-9a-f]{16})", done.stdout)
        if not found:
            raise AssertionError(f"heat --expect said {done.stdout!r}")
        return found[1]


def layout_of(count: int, hosts: list[str], ranks: int = RANKS) -> list[str]:
    """The host of each rank: equal blocks, so that few neighbours are on different hosts."""
    return [hosts[rank * count // ranks] for rank in range(ranks)]


def steps_for(pace_s: float, job_s: float) -> int:
    """So many that they take `job_s`, at `pace_s` each; a multiple of what is reported."""
    return max(1, math.ceil(job_s / pace_s / REPORT_EVERY)) * REPORT_EVERY


def first_after(lines: list[report.Line], since: float) -> tuple[int, float] | None:
    """The first step that was told from then on, and when."""
    for line in lines:
        if line.arrived >= since and (found := STEP.match(line.text)):
            return int(found[1]), line.arrived
    return None


class Job:
    """One heat, from its submission to its last line."""

    def __init__(self, cluster: Cluster, plate: Plate) -> None:
        self.cluster, self.plate = cluster, plate
        body = {"pool": POOL, "command": ["heat", *plate.options], "ranks": RANKS}
        self.id: str = cluster.submit("POST", "jobs", body)["target"]
        output = cluster.state / "jobs" / self.id / "output"
        wait_until(output.exists, f"{self.id} writes")
        self.tail = Tail(output)
        self.wait_step(1)

    def step(self) -> int:
        return max((int(found[1]) for line in list(self.tail.lines) if (found := STEP.match(line.text))), default=0)

    def end(self) -> tuple[float, str] | None:
        """When its last line came, and the checksum in it."""
        for line in list(self.tail.lines):
            if found := END.match(line.text):
                if (int(found[1]), int(found[2])) != (RANKS, self.plate.steps):
                    raise AssertionError(f"{self.id} was not what was asked for: {line.text}")
                return line.arrived, found[3]
        return None

    def wait_step(self, step: int) -> None:
        def look() -> bool:
            self.check()
            return self.step() >= step or self.end() is not None
        wait_until(look, f"{self.id} has done step {step}", patience_s=self.patience_s(), period_s=0.5)

    def wait_end(self) -> tuple[float, str]:
        def look() -> tuple[float, str] | None:
            self.check()
            return self.end()
        return wait_until(look, f"{self.id} ends", patience_s=self.patience_s(), period_s=0.5)

    def wait_counting(self, since: float) -> tuple[int, float]:
        """The step, and the time, from which on it counts."""
        found = wait_until(lambda: first_after(list(self.tail.lines), since) or self.end(), f"{self.id} goes on", period_s=0.1)
        if isinstance(found[1], str):
            raise AssertionError(f"{self.id} ended before its VMs were capped: it has to be longer")
        return found  # type: ignore[return-value]

    def patience_s(self) -> float:
        return 300 + 4 * self.plate.expected_s

    def check(self) -> None:
        row = self.cluster.get(f"jobs/{self.id}")
        if row["state"] in ("failed", "cancelled"):
            text = "\n".join(line.text for line in list(self.tail.lines)[-5:])
            raise AssertionError(f"{self.id} {row['state']}: {row['reason']}; {text}")


def where(cluster: Cluster) -> dict[str, str]:
    return {vm["id"]: vm["host"] for vm in cluster.items(f"vms?pool={POOL}")}


def arrange(cluster: Cluster, vms: list[str], count: int) -> None:
    """The VMs, whose ranks have ended, on so many hosts."""
    wanted, now = dict(zip(vms, layout_of(count, cluster.hosts))), where(cluster)
    moves = [cluster.submit("POST", f"vms/{vm}/migrations", {"destination": host})
             for vm, host in wanted.items() if now[vm] != host]
    for one in moves:
        cluster.finish(one)
    if where(cluster) != wanted:
        raise AssertionError(f"VMs are on {where(cluster)}, not on {wanted}")


def wait_for_calm() -> None:
    wait_until(lambda: os.getloadavg()[0] <= CALM_LOAD, "the machine is calm", patience_s=180, period_s=1)


def check_vms(cluster: Cluster, vms: list[str]) -> None:
    """Each runs once, by all libvirts and the kernel, and its console shows no fault."""
    for vm in vms:
        cluster.assert_runs_once(vm)
        cluster.assert_clean(vm)
    if cluster.qemus() != sorted(vms):
        raise AssertionError(f"QEMUs run for {cluster.qemus()}, not for {vms}")


def lost_in(told: list[float], one: Row) -> Row:
    """What a change cost its job, by when lines of progress came; None: too few of them came before or after it."""
    cost = added_job_time(told, one["asked"], one["over"], PACE_S)
    return {"lost_s": cost.added if cost else None, "lost_noise_s": cost.noise if cost else None}


def change(cluster: Cluster, job: Job, visit: Visit, pace_s: float) -> Row:
    job.wait_step(int(visit.at_share * job.plate.steps))
    step, asked = job.step(), time.time()
    operation = cluster.submit("POST", f"jobs/{job.id}:{visit.verb}", visit.body((job.plate.steps - step) * pace_s))
    ended = cluster.ended(operation["id"])
    over = time.time()
    hosts = sorted(set(where(cluster).values()))
    if ended["outcome"] != "succeeded" or len(hosts) != visit.hosts:
        raise AssertionError(f"{ended['id']} ({visit.verb} of {job.id}) {ended['outcome']}, and its VMs are on {hosts}: "
                             f"{ended['reason']}")
    plan = cluster.items(f"operations?parent={ended['id']}&kind=plan.layout")[0]["request"]["plan"]
    return {"verb": visit.verb, "hosts": len(hosts), "moves": len(plan["moves"]), "asked_at_step": step, "over_at_step": job.step(),
            "asked": asked, "over": over, "forecast_added_s": plan["added_job_time_s"],
            "forecast_gain_s": plan["gain_s"]}


def one_run(cluster: Cluster, vms: list[str], plate: Plate, hosts: int, visits: tuple[Visit, ...]) -> Row:
    """A job that begins on so many hosts, by equal blocks, to its verdict."""
    arrange(cluster, vms, hosts)
    wait_for_calm()
    load = os.getloadavg()[0]
    job = Job(cluster, plate)
    try:
        with Caps(VCPU_SHARE), Speed() as speed:
            step, begun = job.wait_counting(time.time() + SETTLE_S)
            pace_s = plate.expected_s / plate.steps
            changes = [change(cluster, job, visit, pace_s) for visit in visits]
            end, checksum = job.wait_end()
    finally:
        job.tail.stop()
    if changes and changes[-1]["over"] > end:
        raise AssertionError(f"{job.id} ended before its VMs were where they were to go: it has to be longer")
    wait_until(lambda: cluster.get(f"jobs/{job.id}")["state"] == "succeeded", f"{job.id} succeeded", patience_s=60)
    check_vms(cluster, vms)
    told = [line.arrived for line in job.tail.lines if STEP.match(line.text)]
    row = {"job": job.id, "from_hosts": hosts, "visiting": bool(visits), "steps": plate.steps, "counted_steps": plate.steps - step,
           "job_s": end - begun, "changes": [{**one, "asked": one["asked"] - begun, "over": one["over"] - begun, **lost_in(told, one)}
                                             for one in changes],
           "checksum": checksum, "load": max(load, os.getloadavg()[0]), "machine_loop_ms": speed.loop_ms()}
    tell(row)
    return row


def one_trial(cluster: Cluster, vms: list[str], hosts: int, seconds: float) -> Row:
    """How quick is a step where they are? The job is cancelled after a while."""
    arrange(cluster, vms, hosts)
    wait_for_calm()
    job = Job(cluster, Plate(FOREVER))
    try:
        with Caps(VCPU_SHARE), Speed() as speed:
            step, begun = job.wait_counting(time.time() + SETTLE_S)
            last, over = job.wait_counting(begun + seconds)
    finally:
        job.tail.stop()
    cluster.finish(cluster.submit("POST", f"jobs/{job.id}:cancel"), outcome="cancelled")
    row = {"job": job.id, "from_hosts": hosts, "visiting": False, "counted_steps": last - step, "job_s": over - begun, "changes": [],
           "load": os.getloadavg()[0], "machine_loop_ms": speed.loop_ms()}
    tell(row)
    return row


def tell(row: Row) -> None:
    words = f"  {row['job']}, from {row['from_hosts']} hosts{', visiting' if row['visiting'] else ''}: {row['job_s']:.1f} s for " \
            f"{row['counted_steps']} steps, load {row['load']:.1f}, a loop of the machine {row['machine_loop_ms'] or 0:.2f} ms"
    for one in row["changes"]:
        lost = "?" if one["lost_s"] is None else f"{one['lost_s']:.1f}"
        words += f"; {one['verb']} to {one['hosts']}: {one['moves']} moves in {one['over'] - one['asked']:.1f} s, {lost} s lost"
    print(words, file=sys.stderr, flush=True)


def pace_of(row: Row) -> float:
    """Seconds a step."""
    return row["job_s"] / row["counted_steps"]


def best_of(trials: list[Row]) -> Row:
    """The quickest of the places where a job can stay."""
    return min(trials, key=pace_of)


def run(cluster: Cluster, options: argparse.Namespace) -> dict[str, Any]:
    hosts = cluster.items("hosts")
    if len(hosts) < HOSTS or any(host["memory_mib"] < HOST_MEMORY_MIB for host in hosts):
        raise AssertionError(f"it needs a lab of {HOSTS} hosts with {HOST_MEMORY_MIB} MiB each: without --reuse it brings one up")
    cluster.kill_mared()
    mared = cluster.start_mared_with("", *MARED)
    try:
        return with_mared(cluster, options)
    finally:
        kill(mared)
        cluster.start_mared()


def with_mared(cluster: Cluster, options: argparse.Namespace) -> dict[str, Any]:
    vcpus = cluster.crowding_vcpus()
    vms = cluster.ensure_pool(POOL, RANKS, memory_mib=MEMORY_MIB, vcpus=vcpus)
    # A sample takes it as given that it is best off where no host is short of CPUs.
    places, trial_s, job_s = ((FROM_HOSTS,), QUICK_TRIAL_S, QUICK_JOB_S) if options.quick else ((FROM_HOSTS, HOSTS, 1), TRIAL_S, JOB_S)
    trials = [one_trial(cluster, vms, place, trial_s) for place in places]
    stays_on = HOSTS if options.quick else best_of(trials)["from_hosts"]
    steps = steps_for(pace_of(best_of(trials)), job_s)
    plate = Plate(steps, job_s)
    right = plate.right(cluster.program("heat"))
    rows: list[Row] = []
    for _ in range(1 if options.quick else options.repeat):
        rows.append(one_run(cluster, vms, plate, FROM_HOSTS, VISITS))
        rows.append(one_run(cluster, vms, plate, stays_on, ()))
    cluster.delete_pool(POOL)
    setup = {"ranks": RANKS, "hosts": HOSTS, "memory_mib": MEMORY_MIB, "vcpus": vcpus, "link": cluster.status()["rate"], "mared": MARED,
             "program": " ".join(["heat", *plate.options]), "job_s_wanted": job_s, "stays_on_hosts": stays_on,
             "visited_hosts": " -> ".join(str(one) for one in (FROM_HOSTS, *(visit.hosts for visit in VISITS))),
             "order": "visiting, staying, ...", "load_limit": LOAD_LIMIT, "caps": Caps(VCPU_SHARE).stated(),
             "hosts_alike": ALIKE, "places_tried": list(places)}
    return {"setup": setup, **results_of(trials, rows, right)}


def pairs_of(rows: list[Row]) -> list[Row]:
    """A visiting run, and what as many steps took in the staying one after it. A pair counts if both ran in peace."""
    found = []
    for one, other in zip(rows[::2], rows[1::2]):
        staying_s = pace_of(other) * one["counted_steps"]
        lost = [each["lost_s"] for each in one["changes"]]
        lost_s = None if None in lost else sum(lost)
        found.append({"visiting_s": one["job_s"], "staying_s": staying_s, "added_s": one["job_s"] - staying_s,
                      "added_fraction": one["job_s"] / staying_s - 1,
                      "lost_s": lost_s, "lost_fraction": None if lost_s is None else lost_s / (one["job_s"] - lost_s),
                      # Over 1: the machine itself was slower under the visiting run.
                      "machine_ratio": one["machine_loop_ms"] / other["machine_loop_ms"]
                      if one["machine_loop_ms"] and other["machine_loop_ms"] else None,
                      "forecast_added_s": sum(each["forecast_added_s"] for each in one["changes"]),
                      "counts": max(one["load"], other["load"]) <= LOAD_LIMIT})
    return found


def results_of(trials: list[Row], rows: list[Row], right: str) -> dict[str, Any]:
    """`right`: the checksum that every run must end with."""
    pairs = pairs_of(rows)
    kept = [pair for pair in pairs if pair["counts"]]
    wrong = [row["job"] for row in rows if row["checksum"] != right]
    added = statistics.median(pair["added_fraction"] for pair in kept) if kept else None
    lost = [pair["lost_fraction"] for pair in kept if pair["lost_fraction"] is not None]
    lost_fraction = statistics.median(lost) if lost else None
    paces = [pace_of(row) for row in rows if not row["visiting"]]
    noise = (max(paces) - min(paces)) / statistics.median(paces) if len(paces) > 1 else None
    return {
        "results": {"pairs": pairs, "dropped_for_load": len(pairs) - len(kept), "wrong_jobs": wrong, "rows": rows,
                    "added_fraction": added, "added_s_median": statistics.median(pair["added_s"] for pair in kept) if kept else None,
                    #: How far runs that stayed differ among each other, as a share.
                    "noise_fraction": noise},
        "baselines": {"trials": trials, "staying_s_median": statistics.median(pair["staying_s"] for pair in kept) if kept else None},
        "bars": {
            "spread_added_fraction": {"value": lost_fraction, "bar": ADDED_FRACTION, "unit": "share of the job's length",
                                      "holds": lost_fraction is not None and lost_fraction <= ADDED_FRACTION},
            "wrong_jobs": {"value": len(wrong), "bar": 0, "unit": "count", "holds": not wrong},
        },
    }
