"""Kills, drawn from a seed, of what a job with checkpoints runs on: does it end with the exact result without a person, how
soon is a kill noticed, how soon is there useful work again, how much is done twice, and does a VM ever run twice? And
the time that checkpoints save when a host fails late in a run.

Every kill is a row that is kept at once: with --json a run that was stopped goes on where it was.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import http.client
import os
import pathlib
import signal
import statistics
import sys
import threading
import time
from typing import Any, Callable, Iterable

from kills import AGENT, CHECKPOINT, CUT, FRACTIONS, FROZEN, GUARDS, HOST, LOAD_LIMIT, MARED, OF_A_HOST, RESTART, RESTORING, VM, \
    Kill, Progress, Row, common, detected_at, plan, results_of
from lib.cluster import CONSOLE_FAULT, Cluster, Json
from lib.migtest import MigTest, Shape
from lib.processes import QEMU, WATCHDOG, Doubles, end_at_once, of_lab
from lib.waiting import wait_until
from partial import Partial
from workloads import Mare, report

POOL = "recovery"
RANKS = 2
MEMORY_MIB = 256
#: Of a run without checkpoints and without a kill.
JOB_S, QUICK_JOB_S = 30.0, 26.0
EVERY_S = 6
#: A kill during a checkpoint comes at most so long after its beginning.
LATE_S = 1.5
#: A host that stands still does so for longer than its lease, so that it is fenced meanwhile.
FROZEN_S = 8.0
#: Of the curve: what a host's failure costs is some seconds however long a run is, so it must be a long one.
CURVE_S, QUICK_CURVE_S = 600.0, 45.0
CURVE_EVERY_S = 20
QUICK_FRACTIONS = (90,)
QUICK_KILLS = 6
TRIAL = 60
#: Between two looks at the output; of a long run's, which is all read each time, the second.
LOOK_S, LONG_LOOK_S = 0.2, 1.0
LONG = 1000  # iterations
TRIES = 3
ENDED = ("succeeded", "failed", "cancelled")
NO_ANSWER = (OSError, http.client.HTTPException, AssertionError)


class TooSoon(Exception):
    """The job had ended before it was struck."""


class Watch:
    """Looks at a job's output in a thread of its own, also while mared is away and when it comes back."""

    def __init__(self, cluster: Cluster, job: str, period_s: float) -> None:
        self.progress = Progress()
        self._period_s = period_s
        self._mare = Mare(pathlib.Path(cluster.program("mare")), cluster.url, cluster.token_file)
        self._path = f"/api/v1/jobs/{job}/output"
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._ends.wait(self._period_s):
            self._look()

    def _look(self) -> None:
        try:
            with self._mare.open(self._path, 10) as answer:
                text = answer.read().decode(errors="replace")
        except (OSError, http.client.HTTPException):
            return
        whole = text[:text.rfind("\n") + 1].splitlines()
        self.progress.look(time.time(), [line for line in whole if line.startswith("migtest: iteration=")])

    def stop(self) -> None:
        if not self._ends.is_set():
            self._ends.set()
            self._thread.join()
            self._look()


class Aim:
    """Knows beforehand who is where, so that a strike takes milliseconds."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        status = cluster.status()
        self._agents = {host["name"]: host["agent"] for host in status["hosts"]}
        self._mared = status["mared"]["pid"]
        self._processes = of_lab(cluster)
        self._thawing: list[threading.Timer] = []
        self._frozen: list[int] = []

    def strike(self, kind: str, vm: str, host: str) -> float:
        """Gives the moment. mared is started again at once, as its service manager would."""
        if kind == CUT:
            begun = time.time()
            self.cluster.cut_off(host)
            return begun
        if kind == MARED:
            begun = end_at_once([self._mared])
            self.cluster.start_mared()
            return begun
        pids = wait_until(lambda: self._pids(kind, vm, host), f"there is something to kill: {kind}", patience_s=60, period_s=0.01)
        return self._freeze(pids) if kind == FROZEN else end_at_once(pids)

    def _freeze(self, pids: list[int]) -> float:
        begun = time.time()
        self._frozen += pids
        signal_all(pids, signal.SIGSTOP)
        self._thawing.append(threading.Timer(FROZEN_S, signal_all, (pids, signal.SIGCONT)))
        self._thawing[-1].start()
        return begun

    def thaw(self) -> None:
        """Whatever stands still goes on."""
        for timer in self._thawing:
            timer.cancel()
            timer.join()
        signal_all(self._frozen, signal.SIGCONT)
        self._thawing, self._frozen = [], []

    def _pids(self, kind: str, vm: str, host: str) -> list[int]:
        agent = [self._agents[host]] if self._agents.get(host) else []
        if kind == AGENT:
            return agent
        seen = self._processes.look()
        if kind == VM:
            return [one.pid for one in seen if one.kind == QEMU and one.vm == vm]
        if kind == GUARDS:
            watchdogs = [one.pid for one in seen if one.kind == WATCHDOG and one.host == host]
            return agent + watchdogs if agent and watchdogs else []
        return agent + [one.pid for one in seen if one.host == host]


def signal_all(pids: Iterable[int], number: int) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


class Struck:
    """One job with checkpoints, and what was done to it."""

    def __init__(self, cluster: Cluster, shape: Shape, every_s: int, partner: bool = False) -> None:
        self.cluster, self.shape = cluster, shape
        self.aim = Aim(cluster)
        more = {"checkpoint_every_s": every_s, **({"checkpoint_partner": True} if partner else {})} if every_s else {}
        self.job = MigTest(cluster, POOL, shape, **more)
        self.watch = Watch(cluster, self.job.id, LOOK_S if shape.iterations < LONG else LONG_LOOK_S)
        self.vms = self.job.vms()
        #: Moments of the strikes, the lines before the first, and what it was.
        self.at: list[float] = []
        self.before: list[str] = []
        self.victims: list[str] = []
        self.hosts: list[str] = []
        self.found_in = ""

    # --- waiting, which ends when the job does ------------------------------------------------------

    def ended(self) -> bool:
        return bool(self.row()["state"] in ENDED)

    def row(self) -> Json:
        return self.job.row()

    def operations(self, kind: str) -> list[Json]:
        """Newest first."""
        return self.cluster.items(f"operations?kind={kind}&target={self.job.id}")

    def complete(self) -> list[Json]:
        return [one for one in self.cluster.items(f"jobs/{self.job.id}/checkpoints") if one["state"] == "complete"]

    def taking(self) -> bool:
        return any(one["outcome"] == "pending" and one["state"] in ("Holding", "Writing") for one in self.operations("checkpoint.take"))

    def wait_before(self, look: Callable[[], Any], what: str, patience_s: float = 240, period_s: float = 0.2) -> None:
        """Of the job before its first strike: its end then says that it was too short."""
        def seen() -> bool:
            if look():
                return True
            if self.ended():
                raise TooSoon(f"{self.job.id} ended before {what}")
            return False
        wait_until(seen, f"{self.job.id}: {what}", patience_s, period_s)

    # --- strikes ------------------------------------------------------------------------------------

    def strike(self, kind: str, rank: int) -> None:
        vm = self.vms[rank]
        host = self.cluster.host_of(vm) or ""
        there = [one["id"] for one in self.cluster.items(f"vms?pool={POOL}") if one["host"] == host] if kind in OF_A_HOST else [vm]
        if not self.at:
            self.before = list(self.watch.progress.lines)
            self.victims, self.hosts = there, [host] if kind in OF_A_HOST else []
        self.at.append(self.aim.strike(kind, vm, host))

    def strike_as_drawn(self, kill: Kill) -> None:
        self.wait_before(self.complete, "a checkpoint was complete")
        if kill.moment == CHECKPOINT:
            self.wait_before(lambda: not self.taking(), "that one was over")
            self.wait_before(self.taking, "another one began", period_s=0.05)
            due = time.time() + kill.when * LATE_S
            self.wait_before(lambda: time.time() >= due, "the moment in it", period_s=0.05)
        else:
            due = time.time() + kill.when * EVERY_S
            self.wait_before(lambda: time.time() >= due and not self.taking(), "the moment between two", period_s=0.05)
        if self.ended():
            raise TooSoon(f"{self.job.id} ended before it was struck")
        if not kill.is_second:
            return self.strike(kill.kind, kill.rank)
        self.strike(VM, kill.first_rank)
        if self.wait_for_recovery(RESTORING[RESTORING.index(kill.state):] if kill.moment == RESTART else ()):
            self.strike(kill.kind, self.rank_that_is_placed(kill.rank))

    def wait_for_recovery(self, states: tuple[str, ...]) -> bool:
        """Until its checkpoint.restore is in one of these states, or beyond them; without any, until recovery.run is
        there. False: the job ended instead."""
        def look() -> str:
            operations = self.operations("checkpoint.restore" if states else "recovery.run")
            if operations and (not states or operations[0]["state"] in states or operations[0]["outcome"] != "pending"):
                return str(operations[0]["state"])
            return "ended" if self.ended() else ""
        self.found_in = wait_until(look, f"{self.job.id} is on its way back", period_s=0.02)
        return self.found_in != "ended"

    def rank_that_is_placed(self, rank: int) -> int:
        """The drawn one; another while its VM has no host yet."""
        def look() -> list[int]:
            return [one for one in (rank, *range(len(self.vms))) if self.cluster.get(f"vms/{self.vms[one]}")["host"]]
        return wait_until(look, "a VM of the job has a host", period_s=0.02)[0]

    # --- what came of it ----------------------------------------------------------------------------

    def cut_at(self) -> float | None:
        """When the state was taken from which the job was first brought back. None: it was not."""
        def look() -> Any:
            try:
                begun = self.operations("recovery.run")
                all_of_them = self.complete()
                return [begun[-1] if begun else None, all_of_them] if begun or self.ended() else None
            except NO_ANSWER:
                return None  # mared is being restarted
        recovery, known = wait_until(look, f"{self.job.id} is being brought back, or has ended", period_s=0.1)
        name = recovery["request"]["checkpoint"] if recovery else None
        parts = next((one["parts"] for one in known if one["id"] == name), [])
        return max((report.parse_time(part["resumed"]) or 0 for part in parts), default=None)

    def verdict(self) -> str:
        """"" when it ended with the exact result."""
        try:
            self.job.assert_right()
        except AssertionError as error:
            return str(error)[-600:]
        finally:
            self.watch.stop()
        return ""

    def total_s(self) -> float | None:
        row = self.row()
        started, ended = report.parse_time(row["started"]), report.parse_time(row["ended"])
        return ended - started if started and ended else None

    def figures(self, cut_at: float | None) -> Row:
        progress = self.watch.progress
        held = common(self.before, progress.lines)
        restarts = self.row()["restarts"]
        useful = progress.advanced(self.at[-1], held) if restarts else None
        return {"restarts": restarts, "struck_in": self.found_in, "recovery_s": useful - self.at[-1] if useful else None,
                "redone_s": self.at[0] - cut_at if cut_at else None, "redone_iterations": len(self.before) - held}


class Events:
    """mared's, from a point on."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster, self._after = cluster, 0
        self.new()

    def new(self) -> list[Json]:
        """Since the last call."""
        found: list[Json] = []
        while True:
            page = self._cluster.get(f"events?after={self._after}&limit=1000&topics=host,vm,operation")
            found += page["items"]
            if page["next_after"] == self._after:
                return found
            self._after = page["next_after"]


class Campaign:
    """All kills and failures of a bench, one job after the other in one pool."""

    def __init__(self, cluster: Cluster, partial: Partial, partner: bool = False) -> None:
        self.cluster, self.partial, self.partner = cluster, partial, partner
        self.vms = cluster.ensure_pool(POOL, RANKS, memory_mib=MEMORY_MIB)
        self.events = Events(cluster)
        self.pace_s: float = partial.once("pace", self._pace)["pace_s"]

    def _pace(self) -> Row:
        """Of an iteration here."""
        trial = MigTest(self.cluster, POOL, Shape(ranks=RANKS, iterations=TRIAL))
        trial.assert_right()
        starts = [one.start_us for one in trial.logged(0)]
        return {"pace_s": statistics.mean(after - before for before, after in zip(starts, starts[1:])) / 1e6}

    def shape(self, seconds: float) -> Shape:
        return Shape(ranks=RANKS, iterations=max(TRIAL, round(seconds / self.pace_s)))

    def judged(self, shape: Shape, every_s: int, strike: Callable[[Struck], None]) -> tuple[Struck, Row]:
        """One job, struck, to its end; everything is mended afterwards. What is known of any such job."""
        cluster = self.cluster
        cluster.ensure_pool(POOL, RANKS, memory_mib=MEMORY_MIB)
        cluster.spread(self.vms)
        consoles = {vm: len(cluster.console(vm)) for vm in self.vms}
        load = os.getloadavg()[0]
        with Doubles(of_lab(cluster)) as doubles:
            struck = Struck(cluster, shape, every_s, self.partner)
            try:
                wrong, cut_at = self._to_its_end(struck, strike)
            except BaseException:
                struck.watch.stop()
                struck.aim.thaw()
                cluster.restore()
                cluster.mare("job", "cancel", struck.job.id, check=False)
                raise
        load = max(load, os.getloadavg()[0])
        struck.aim.thaw()
        cluster.restore()
        wrong = wrong or self._wrong_afterwards(consoles)
        row = {"job": struck.job.id, "survived": not wrong, "reason": wrong or None, "total_s": struck.total_s(), "load": load,
               "doubled": doubles.found, "only_loaded": doubles.loaded, "looks": doubles.looks, **(struck.figures(cut_at) if struck.at else {})}
        if self.partner:
            row["restored"] = [one["reason"] for one in cluster.items(f"operations?kind=checkpoint.restore&target={struck.job.id}")]
        if wrong:
            self._begin_anew(struck.job.id)
        return struck, row

    @staticmethod
    def _to_its_end(struck: Struck, strike: Callable[[Struck], None]) -> tuple[str, float | None]:
        """What went wrong, if anything, and when the state was taken that it came back to."""
        try:
            strike(struck)
            cut_at = struck.cut_at() if struck.at else None
        except AssertionError as error:
            if not struck.at:
                raise  # not by a kill
            struck.watch.stop()
            return str(error), None
        return struck.verdict(), cut_at

    def _wrong_afterwards(self, consoles: dict[str, int]) -> str:
        try:
            for vm, length in consoles.items():
                self.cluster.assert_runs_once(vm)
                if fault := CONSOLE_FAULT.search(self.cluster.console(vm)[length:]):
                    return f"the console of {vm} shows {fault[0]}"
        except AssertionError as error:
            return str(error)
        return ""

    def _begin_anew(self, job: str) -> None:
        """What a job that went wrong left behind must not be the next one's."""
        self.cluster.mare("job", "cancel", job, check=False)
        wait_until(lambda: self.cluster.get(f"jobs/{job}")["state"] in ENDED, f"{job} ends")
        if self.cluster.has_pool(POOL):
            self.cluster.delete_pool(POOL)

    # --- rows ---------------------------------------------------------------------------------------

    def kill(self, kill: Kill, shape: Shape) -> Row:
        for attempt in range(TRIES):
            self.events.new()
            longer = dataclasses.replace(shape, iterations=round(shape.iterations * 1.5 ** attempt))
            try:
                struck, row = self.judged(longer, EVERY_S, lambda job: job.strike_as_drawn(kill))
                break
            except TooSoon as error:
                say(f"{kill.words()}: {error}; again, with a longer one")
        else:
            raise AssertionError(f"{kill.words()}: {TRIES} jobs ended before they were struck")
        at = detected_at(self.events.new(), lambda text: report.parse_time(text) or 0.0, struck.at[0], struck.job.id, struck.victims,
                         struck.hosts)
        noticed = at - struck.at[0] if at else None
        return {**dataclasses.asdict(kill), "strikes": len(struck.at), "victims": struck.victims, "hosts": struck.hosts,
                # Of the kill before the drawn one: what that took to be noticed is no property of the drawn kind.
                "detection_s": None if kill.is_second else noticed, "first_detection_s": noticed, **row}

    def failure(self, percent: int, shape: Shape, every_s: int) -> Row:
        """A run of the curve; 0: without a failure and without checkpoints."""
        share = 0.0

        def fail(struck: Struck) -> None:
            nonlocal share
            if not percent:
                return
            wanted = shape.iterations * percent / 100
            struck.wait_before(lambda: len(struck.watch.progress.lines) >= wanted and struck.complete(), f"{percent}% were done",
                               patience_s=240 + shape.iterations * (self.pace_s + 0.5), period_s=0.5)
            share = len(struck.watch.progress.lines) / shape.iterations
            struck.strike(HOST, RANKS - 1)
        _, row = self.judged(shape, every_s if percent else 0, fail)
        return {"percent": percent, "share": share, **row}


def say(words: str) -> None:
    print(f"  {words}", file=sys.stderr, flush=True)


def seconds(value: float | None) -> str:
    return "?" if value is None else f"{value:.1f} s"


def tell(number: int, count: int, row: Row) -> None:
    words = f"{number} of {count}: {row['kind']} during {row['moment']}: "
    words += f"noticed after {seconds(row['detection_s'])}, useful work after {seconds(row['recovery_s'])}, {seconds(row['redone_s'])} done twice" \
        if row["survived"] else f"NOT survived: {row['reason']}"
    say(words + ("; DOUBLED: " + "; ".join(row["doubled"]) if row["doubled"] else "") + f"; load {row['load']:.1f}")


def run(cluster: Cluster, options: argparse.Namespace) -> dict[str, Any]:
    partial: Partial = options.partial
    kills = plan(min(QUICK_KILLS, options.kills) if options.quick else options.kills, RANKS, options.seed)
    campaign = Campaign(cluster, partial, options.partner)
    shape = campaign.shape(QUICK_JOB_S if options.quick else JOB_S)
    rows = []
    for kill in kills:
        rows.append(partial.once(kill.key, lambda kill=kill: campaign.kill(kill, shape)))  # type: ignore[misc]
        tell(len(rows), len(kills), rows[-1])
    long, every_s = campaign.shape(QUICK_CURVE_S if options.quick else CURVE_S), EVERY_S if options.quick else CURVE_EVERY_S
    wanted = options.percents if options.percents is not None else QUICK_FRACTIONS if options.quick else FRACTIONS
    plain, *failures = [
        partial.once(f"failure-{percent}", lambda percent=percent: campaign.failure(percent, long, every_s))  # type: ignore[misc]
        for percent in ((0, *wanted) if wanted else ())] or [None]
    cluster.without_pools()
    return {"setup": {
        "seed": options.seed, "kills": len(kills), "ranks": RANKS, "memory_mib": MEMORY_MIB, "link": cluster.status()["rate"],
        "size_mib": shape.size_mib, "wws_mib": shape.wws_mib, "interval_ms": shape.interval_ms, "iteration_s": campaign.pace_s,
        "iterations": shape.iterations, "checkpoint_every_s": EVERY_S,
        **({"curve_iterations": long.iterations, "curve_checkpoint_every_s": every_s, "curve_failure": HOST} if wanted else {}),
        "load_limit": LOAD_LIMIT, "in_memory_of_partners": options.partner},
        **results_of(rows, plain, failures, len(kills))}
