"""The paper's two regressions again, at 100 Mbit/s: what a move costs MigTest over S by checkpoint/restart, and over M
and WWS by live migration of its VM.

As there, MigTest runs on two hosts and one of its ranks moves to a third. Checkpoint/restart is by hand: virsh save, the
file over the link, virsh restore: the whole file, as BLCR wrote it, where Maré's own checkpoint-restart packs it and is a
strategy among others. Live migration is Maré's own: plain pre-copy, forced to its end after three times M as Xen 3 did, and beside it
what Maré chooses by itself.
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import pathlib
import random
import statistics
import sys
import time
from typing import Any

from by_hand import SAVE_RESTORE, ByHand
from caps import Caps
from cost import SETTLE_S, Cost, added_job_time
from forecast import WATCHED_S, watched_s
from lib.cluster import Cluster, Json
from lib.waiting import wait_until
from partial import Partial
from regressions import AUTOMATIC, CHECKPOINT, GOODPUT, LOAD_LIMIT, PRE_COPY, Row, results_of, text_of
from workloads import LINE, Follower, Mare, report

POOL = "migtest"
RATE = "100mbit"
RANKS = 2
MIB = 1 << 20
#: Of a core, for each of the two guests: the movers have the other half of a machine with two.
VCPU_SHARE = 0.5
#: Before and after each move: from them the usual pace is taken.
QUIET_S = 12.0
#: Xen 3 ended its rounds when it had sent three times the memory (or after 29 of them); QEMU's have no end of their own.
MEMORIES_SENT = 3.0
VMS = (PRE_COPY, AUTOMATIC)
TRIES = 3


@dataclasses.dataclass(frozen=True)
class Cell:
    """VMs of one size, one MigTest in them, and the ways in which its last rank is moved."""

    memory_mib: int
    size_mib: int
    wws_mib: int
    methods: tuple[str, ...]

    @property
    def name(self) -> str:
        return f"M{self.memory_mib} S{self.size_mib} W{self.wws_mib}"

    @property
    def command(self) -> list[str]:
        return ["migtest", "--size-mib", str(self.size_mib), "--wws-mib", str(self.wws_mib), "--iterations", "1000000000",
                "--incompressible"]


#: All but the first fill their VM (128 MiB are the guest's own), since QEMU does not send pages of zeros and Xen did:
#: else M would say nothing. The largest WWS of the smallest VM is all of S, as in the paper.
CELLS = (
    Cell(192, 16, 2, (CHECKPOINT,)),
    Cell(192, 64, 2, (CHECKPOINT, *VMS)),
    Cell(192, 64, 64, VMS),
    Cell(256, 128, 32, (CHECKPOINT, *VMS)),
    Cell(320, 192, 2, (CHECKPOINT, *VMS)),
    Cell(320, 192, 64, VMS),
)
QUICK_CELLS = (Cell(192, 16, 2, (CHECKPOINT, *VMS)), Cell(192, 64, 32, (CHECKPOINT, *VMS)))


def moves_of(quick: bool, repeat: int, chance: random.Random) -> list[tuple[Cell, list[str]]]:
    """Both in shuffled order: of the cells, and of the methods in each."""
    cells = list(QUICK_CELLS if quick else CELLS)
    chance.shuffle(cells)
    found = []
    for cell in cells:
        methods = list(cell.methods) * (1 if quick else repeat)
        chance.shuffle(methods)
        found.append((cell, methods))
    return found


class Job:
    """MigTest in VMs of its own; its last rank's VM is what moves, so rank 0's clock goes on all the time."""

    def __init__(self, cluster: Cluster, cell: Cell) -> None:
        self.cluster, self.cell = cluster, cell
        # New ones: what another job left in a VM's memory would be sent as well.
        if cluster.has_pool(POOL):
            cluster.delete_pool(POOL)
        vms = cluster.ensure_pool(POOL, RANKS, memory_mib=cell.memory_mib)
        if cluster.host_of(vms[0]) == cluster.host_of(vms[-1]):
            cluster.migrate(vms[-1], cluster.another_host(cluster.host_of(vms[0])))
        body = {"pool": POOL, "command": cell.command, "ranks": RANKS}
        self.id: str = cluster.submit("POST", "jobs", body)["target"]
        self.vms: list[str] = wait_until(lambda: self.row()["vms"], f"{self.id} has its VMs")
        self.vm = self.vms[-1]
        self.home = cluster.host_of(self.vm)
        self.away = cluster.another_host(self.home, cluster.host_of(self.vms[0]))
        follower = Follower(Mare(pathlib.Path(cluster.program("mare")), cluster.url, cluster.token_file), self.id)
        wait_until(lambda: follower.count("migtest: iteration=") >= 20 or self.is_over(), f"{self.id} is at its usual work")
        # Later lines may come late, while mared is down: the clocks stay as they are.
        self._offset = report.align(list(follower.lines)) or 0.0
        #: Since when it has been left in peace, and since when its last VM is at home.
        self.settled = self.at_home = time.time()

    def row(self) -> Json:
        return self.cluster.get(f"jobs/{self.id}")

    def is_over(self) -> bool:
        """Before its time: it has no end of its own."""
        row = self.row()
        if row["state"] in ("failed", "cancelled", "succeeded"):
            raise AssertionError(f"{self.id} {row['state']}: {row['reason']}; {self.output()[-500:]}")
        return False

    def output(self) -> str:
        return self.cluster.mare("job", "output", self.id).stdout

    def ends(self) -> list[float]:
        """Of its iterations, on this machine's clock."""
        found = [LINE.match(line) for line in self.output().splitlines()]
        return [(int(one[2]) + int(one[3])) / 1e6 + self._offset for one in found if one]

    def cost(self, begun: float, ended: float) -> Cost | None:
        """None: the job did not get to its usual work again."""
        def look() -> Cost | None:
            return added_job_time(self.ends(), begun, ended, QUIET_S)
        try:
            return wait_until(look, f"{self.id} is seen before and after its move", patience_s=3 * QUIET_S, period_s=1)
        except AssertionError:
            return None

    def be_quiet(self) -> None:
        wait_until(lambda: time.time() > self.settled + QUIET_S, f"{self.id} has run for a while", period_s=0.5)

    def end(self) -> None:
        """Every page that it ever overwrote was right, and no iteration was lost, or this raises."""
        lines = self.output().splitlines()
        wrong = [line for line in lines if " is wrong" in line]
        indices = [int(found[1]) for line in lines if (found := LINE.match(line))]
        if wrong or indices != list(range(1, len(indices) + 1)):
            raise AssertionError(f"{self.id} ({self.cell.name}) went wrong: {wrong[:3] or 'iterations are lost or doubled'}")
        for vm in self.vms:
            self.cluster.assert_clean(vm)
        self.cluster.finish(self.cluster.submit("POST", f"jobs/{self.id}:cancel"), outcome="cancelled")


def by_hand(cluster: Cluster, hand: ByHand, job: Job) -> Row:
    cluster.kill_mared()
    move = hand.move(job.vm, job.home, job.away, SAVE_RESTORE, 0)
    assert move.phases
    after = move.ended + SETTLE_S + QUIET_S
    wait_until(lambda: time.time() > after, "the job is at its usual work again", period_s=0.5)
    job.at_home = time.time()
    hand.bring_back(job.vm, job.home)
    cluster.start_mared()
    wait_until(lambda: cluster.get(f"vms/{job.vm}")["state"] == "running", f"{job.vm} runs for Maré, too")
    phases = dataclasses.asdict(move.phases)
    whole = move.phases.check_s + move.phases.transfer_s + move.phases.restart_s
    return {"done": move.done, "reason": None, "strategy": SAVE_RESTORE.name, "begun": move.begun, "ended": move.ended,
            "total_time_s": whole, "downtime_s": whole, "sent_bytes": phases["image_bytes"], **phases}


def by_mare(cluster: Cluster, job: Job, method: str) -> Row:
    wait_until(lambda: watched_s(cluster, job.vm, job.at_home) >= WATCHED_S, f"{job.vm} is watched where it is now")
    body: dict[str, Any] = {"destination": job.away}
    if method == PRE_COPY:
        # Forced: by the forecast it breaks every limit of downtime, which is what it is to show.
        body |= {"strategy": "pre-copy", "time_limit_s": MEMORIES_SENT * job.cell.memory_mib * MIB / GOODPUT,
                 "at_limit": "stop-and-copy", "force": True}
    begun = time.time()
    operation = cluster.submit("POST", f"vms/{job.vm}/migrations", body)
    ended = cluster.ended(operation["id"])
    over = time.time()
    if ended["outcome"] != "succeeded":
        return {"done": False, "reason": ended["reason"], "strategy": None, "begun": begun, "ended": over}
    cluster.assert_runs_once(job.vm)
    after = over + SETTLE_S + QUIET_S
    wait_until(lambda: time.time() > after, "the job is at its usual work again", period_s=0.5)
    record = cluster.get(f"migrations/{operation['id']}")
    cluster.lab("rate", "1gbit")
    job.at_home = time.time()
    cluster.migrate(job.vm, job.home, strategy="stop-and-copy")
    downtime = record["downtime_ms"]["hypervisor"]
    return {"done": True, "reason": None, "strategy": record["strategy"], "begun": begun, "ended": over,
            "total_time_s": record["total_time_ms"] / 1000, "downtime_s": None if downtime is None else downtime / 1000,
            "sent_bytes": record["transferred_bytes"], "rounds": len(record["rounds"])}


def one_move(cluster: Cluster, hand: ByHand, job: Job, method: str) -> Row:
    """There and, on a fast link, back again."""
    cluster.lab("rate", RATE)
    job.settled = time.time()
    job.be_quiet()
    load = os.getloadavg()[0]
    row = by_hand(cluster, hand, job) if method == CHECKPOINT else by_mare(cluster, job, method)
    cost = job.cost(row["begun"], row["ended"]) if row["done"] else None
    if row["done"] and cost is None:
        row |= {"done": False, "reason": "the job was not seen at its usual pace before and after"}
    cell = job.cell
    return {"cell": cell.name, "method": method, "memory_bytes": cell.memory_mib * MIB, "size_bytes": cell.size_mib * MIB,
            "wws_bytes": cell.wws_mib * MIB, **row, "wire_s": row.get("sent_bytes", 0) / GOODPUT,
            "added_job_time_s": cost.added if cost else None, "noise_s": cost.noise if cost else None,
            "usual_iteration_s": cost.usual if cost else None, "load": max(load, os.getloadavg()[0])}


def tell(number: int, count: int, row: Row) -> None:
    words = f"  {number} of {count}: {row['cell']}, {row['method']}: "
    if row["done"]:
        words += f"{row['strategy']}: {row['added_job_time_s']:.2f} s of the job (+-{row['noise_s']:.2f}) in " \
                 f"{row['total_time_s']:.2f} s, downtime {row['downtime_s'] or 0:.2f} s, wire {row['wire_s']:.2f} s"
    else:
        words += f"not done: {row['reason']}"
    print(words, f"load {row['load']:.1f}", sep="; ", file=sys.stderr, flush=True)


def quiet_move(cluster: Cluster, hand: ByHand, job: Job, method: str) -> Row:
    """One that met a busy machine counts for nothing: it is made again, some times."""
    for _ in range(TRIES):
        row = one_move(cluster, hand, job, method)
        if row["load"] <= LOAD_LIMIT:
            break
    return row


def all_moves(cluster: Cluster, options: argparse.Namespace) -> list[Row]:
    hand = ByHand(cluster)
    partial: Partial = options.partial
    plan = moves_of(options.quick, options.repeat, random.Random(options.seed))
    count = sum(len(methods) for _, methods in plan)
    rows: list[Row] = []
    for cell, methods in plan:
        wanted = {f"{cell.name}, {method}, {methods[:turn].count(method) + 1}": method for turn, method in enumerate(methods)}
        job = None
        if wanted.keys() - partial.rows.keys():
            cluster.lab("rate", "1gbit")
            job = Job(cluster, cell)
        for key, method in wanted.items():
            rows.append(partial.once(key, lambda job=job, method=method: quiet_move(cluster, hand, job, method)))  # type: ignore[misc]
            tell(len(rows), count, rows[-1])
        if job:
            job.end()
    if cluster.has_pool(POOL):
        cluster.delete_pool(POOL)
    return rows


def setup_of(options: argparse.Namespace, caps: Caps) -> dict[str, Any]:
    return {
        "seed": options.seed, "repeat": 1 if options.quick else options.repeat, "rate": RATE, "ranks": RANKS,
        "caps": caps.stated(), "load_limit": LOAD_LIMIT, "quiet_s": QUIET_S, "memories_sent": MEMORIES_SENT,
        "cells": [cell.name for cell in (QUICK_CELLS if options.quick else CELLS)],
        "scaled": "the paper: S 1 to 500 MB, M 128 to 512 MB, WWS 1 to 256 MB; here MiB, in the cells' names",
        "methods": {CHECKPOINT: f"by hand, with Maré stopped: {SAVE_RESTORE.name}; all of a VM, not one process",
                    PRE_COPY: "Maré, strategy pre-copy; ended by stop-and-copy after memories_sent times M at the wire's speed",
                    AUTOMATIC: "Maré, its own choice"}}


def run(cluster: Cluster, options: argparse.Namespace) -> dict[str, Any]:
    with Caps(VCPU_SHARE) as caps:
        rows = all_moves(cluster, options)
        setup = setup_of(options, caps)
    found = results_of(rows)
    noise = [row["noise_s"] for row in rows if row["done"]]
    setup["noise_s_median"] = statistics.median(noise) if noise else None
    print(text_of(found), file=sys.stderr, flush=True)
    return {"setup": setup, **found}
