"""One VM of 512 MiB under four programs: Maré's choice against virsh by hand, by what the job lost.

Cases: a saturated writer (rewrites 400 MB at least twice as fast as the link carries), a half-rate writer (64 MB dirtied
at half of the link's rate, 300 MB at rest), an LU factorisation as HPL does it, half of its time, idle. Interleaved; each method moves the VM under the
same running job, and it is brought back between two runs; in one more run it stays, for as long as all its memory would take
on the wire, and in one it is halted for a moment and stays. Each run is a row that is kept at once: with --json a bench that was
stopped goes on where it was, with a mared that has to learn anew.
"""

from __future__ import annotations

import argparse
import random
import statistics
import sys
import threading
import time
from typing import Any

import calm
from by_hand import METHODS, SAVE_RESTORE, ByHand, Method, Move
from caps import Caps
from cost import SETTLE_S, Cost, added_job_time, starts_across
from lib.cluster import Cluster, Json, kill
from lib.waiting import wait_until
from partial import Partial
from speed import Speed
from watching import PageStalls
from workloads import FOREVER_S, QUIET_S, Workload, report, told_by

POOL = "move"
MEMORY_MIB = 512
GOODPUT = {"100mbit": 11.77e6, "1gbit": 117.7e6}  # 1448 of 1514 bytes of a frame, less acknowledgements
#: A guest's CPU has a core nearly for itself, and the mover another one, as on a real host. With half a core an emulator that is new
#: takes twice as long to translate its guest's code, which is most of what an idle job loses beside its downtime.
VCPU_SHARE = 0.95
#: The VM stands still for as long as by hand at its switch, and goes on in the same emulator: what its job loses beside that is
#: not what it loses beside the downtime of a move.
HALT = "halted"
HALT_S = 0.3
OURS = "mare"
#: The VM stays where it is: what is "lost" then is what the measurement itself can't tell from nothing.
NOTHING = "nothing"
#: The factorisation works for so much of each period: one that computes all the time goes as quick as the machine, which is slower
#: by a third for seconds at times, and what a move takes would be lost in that.
BUSY_PERCENT = 50
#: Losses are compared as at least so much: one of nothing has no ratio.
LEAST_S = 0.02
#: A method that has not ended after so many times the wire time of its memory is given up.
PATIENCE = 3.0
#: Maré watches a VM all the time, but anew after each move: before its turn the VM is left where it is for so long. At
#: 100 Mbit/s a saturated writer comes round twice meanwhile; at 1 Gbit/s one that was watched for 10 s was not seen to sweep.
WATCHED_S = {"100mbit": 35.0, "1gbit": 35.0}
#: So long a job may stay silent after its VM came back. What is restored by hand has NFS wait for minutes at times.
SILENT_S = 150.0


def cases(rate: str) -> list[tuple[str, Workload]]:
    mib = GOODPUT[rate] / (1 << 20)

    def writer(name: str, *words: str) -> Workload:
        return Workload(name, 1, ["writer", "--seconds", str(FOREVER_S), "--until", "enough", "--sync", "output", *words], steady="iteration=20 ")

    return [("idle", writer("idle", "--pattern", "idle", "--size-mib", "300")),
            ("half-rate", writer("half-rate", "--pattern", "random", "--size-mib", "64", "--rest-mib", "286", "--rate-mib",
                                 str(max(1, round(mib / 2))))),
            ("saturated", writer("saturated", "--pattern", "sweep", "--size-mib", "382", "--rate-mib", str(round(2.2 * mib)))),
            ("compute", writer("compute", "--pattern", "lu", "--size-mib", "16", "--rest-mib", "64", "--period-ms", "200",
                               "--busy-percent", str(BUSY_PERCENT)))]


#: `compute` ends its last factorisation first, which takes an emulated half of a core up to 400 s.
END_S = 900


class Tail:
    """Lines of a job's output file and when they came, without mared, which is down at times."""

    def __init__(self, file: Any) -> None:
        self.lines: list[report.Line] = []
        self._file = file
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        rest = ""
        with open(self._file, encoding="utf-8", errors="replace") as text:
            while not self._stop.wait(0.01):
                rest += text.read()
                *whole, rest = rest.split("\n")
                now = time.time()
                self.lines += [report.Line(now, line) for line in whole]

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()


class Job:
    """One case's job."""

    def __init__(self, cluster: Cluster, workload: Workload) -> None:
        self.cluster, self.workload = cluster, workload
        operation = cluster.submit("POST", "jobs", {"pool": POOL, "command": workload.command, "ranks": workload.ranks})
        self.id: str = operation["target"]
        output = cluster.state / "jobs" / self.id / "output"
        wait_until(output.exists, f"{self.id} writes")
        self.tail = Tail(output)
        wait_until(lambda: any(workload.steady in line.text for line in list(self.tail.lines)), f"{workload.name} is at work")
        self.vm: str = cluster.get(f"jobs/{self.id}")["vms"][0]
        self.uuid: str = cluster.get(f"vms/{self.vm}")["uuid"]

    def lost_s(self, move: Move) -> float | None:
        """None: the job was not seen at its usual pace before and after."""
        def look() -> Cost | None:
            told = told_by(list(self.tail.lines))
            heard = next((one.arrived for one in told if one.arrived > move.ended), None)
            # By the first few alone, what is off in their length would count for all that came since the switch.
            if heard is None or time.time() < heard + SETTLE_S + QUIET_S:
                return None
            return added_job_time(starts_across(told, move.begun, heard, QUIET_S), move.begun, heard, QUIET_S, move.switched or move.ended)
        try:
            return wait_until(look, f"{self.id} is seen before and after its move", patience_s=SILENT_S, period_s=0.5).added
        except AssertionError:
            return None

    def end(self) -> None:
        (self.cluster.state / "jobs" / self.id / "enough").touch()
        wait_until(lambda: self.cluster.get(f"jobs/{self.id}")["state"] in ("succeeded", "failed"), f"{self.id} ends", patience_s=END_S)
        self.tail.stop()
        text = "\n".join(line.text for line in self.tail.lines[-5:])
        if "verified=yes" not in text:
            raise AssertionError(f"{self.workload.name} went wrong: {self.cluster.get(f'jobs/{self.id}')}; {text}")


def by_mare(cluster: Cluster, job: Job, destination: str) -> tuple[Move, Json]:
    begun = time.time()
    operation = cluster.submit("POST", f"vms/{job.vm}/migrations", {"destination": destination})
    ended = cluster.ended(operation["id"])
    over = time.time()
    record = cluster.get(f"migrations/{operation['id']}")
    return Move(begun, over, ended["outcome"] == "succeeded", switched=report.parse_time(record["switched"])), record


def stay(seconds: float) -> Move:
    begun = time.time()
    wait_until(lambda: time.time() > begun + seconds, f"the VM stayed for {seconds:.1f} s", patience_s=seconds + 10, period_s=0.1)
    return Move(begun, time.time(), True)


def one_run(cluster: Cluster, hand: ByHand, job: Job, rate: str, method: Method | str, home: str, away: str) -> Json:
    wire_s = MEMORY_MIB * (1 << 20) / GOODPUT[rate]
    cluster.lab("rate", rate)
    settled = time.time() + (max(QUIET_S + 1, WATCHED_S[rate]) if method == OURS else QUIET_S + 1)
    wait_until(lambda: time.time() > settled, f"{job.id} has run for a while", period_s=0.5)
    machine = calm.Watch()
    row: dict[str, Any] = {"rate": rate, "case": job.workload.name}

    def lost_by(move: Move) -> float | None:
        lost = job.lost_s(move)
        row.update(machine.seen())  # not of the way back
        return lost

    if method == NOTHING:
        move = stay(wire_s)
        row |= {"method": method, "total_time_s": move.ended - move.begun}
        lost = lost_by(move)
    elif method == HALT:
        cluster.kill_mared()
        move, halted_s = hand.halt(job.vm, home, HALT_S)
        row |= {"method": method, "downtime_s": halted_s, "total_time_s": move.ended - move.begun}
        lost = lost_by(move)
        cluster.start_mared()
    elif isinstance(method, str):
        with PageStalls(job.uuid) as stalls:
            move, record = by_mare(cluster, job, away)
        row |= {"stall_s": stalls.seconds}
        row |= {"method": method, "strategy": record["strategy"], "downtime_s": (record["downtime_ms"]["hypervisor"] or 0) / 1000,
                "bytes": record["transferred_bytes"], "total_time_s": (record["total_time_ms"] or 0) / 1000}
        lost = lost_by(move)
        cluster.lab("rate", "1gbit")
        if move.done:
            cluster.migrate(job.vm, home, strategy="stop-and-copy")
    else:
        cluster.kill_mared()
        with PageStalls(job.uuid) as stalls:
            move = hand.move(job.vm, home, away, method, PATIENCE * wire_s)
        row |= {"stall_s": stalls.seconds}
        lost = lost_by(move)
        hand.bring_back(job.vm, home)
        cluster.lab("rate", "1gbit")
        cluster.start_mared()
        row |= {"method": method.name, "total_time_s": move.ended - move.begun}
        if move.done and move.figures:
            row |= {"bytes": move.figures.sent_bytes, "downtime_s": move.figures.downtime_s, "libvirt_time_s": move.figures.total_time_s}
    row |= {"done": move.done, "added_job_time_s": lost}
    wait_until(lambda: cluster.get(f"vms/{job.vm}")["state"] == "running", f"{job.vm} runs for Maré, too")
    return row


def turns(chance: random.Random, repeat: int, compared: int) -> list[tuple[str, Method | str]]:
    """Each method so often, by chance; with a name of its own for each of its turns. `compared`: of those whose medians are compared."""
    often: list[tuple[Method | str, int]] = [*((method, compared) for method in (OURS, *METHODS)),
                                             *((method, repeat) for method in (SAVE_RESTORE, NOTHING, HALT))]
    methods: list[tuple[str, Method | str]] = [(f"{method if isinstance(method, str) else method.name} {turn + 1}", method)
                                               for method, times in often for turn in range(times)]
    chance.shuffle(methods)
    return methods


def repeats(options: argparse.Namespace, rate: str) -> tuple[int, int]:
    """For `turns`."""
    if options.quick:
        return 1, 1
    return options.repeat, (options.repeat_1gbit or options.repeat) if rate == "1gbit" else options.repeat


def new_vm(cluster: Cluster) -> None:
    """What another program left in a VM's free memory would be sent as well. No clone: by hand these can't be moved by post-copy, as
    their description has the file of their template mapped at the destination, too."""
    if cluster.has_pool(POOL):
        cluster.delete_pool(POOL)
    cluster.kill_mared()
    mared = cluster.start_mared_with("", "--no-clones")
    cluster.ensure_pool(POOL, 1, memory_mib=MEMORY_MIB)
    kill(mared)
    cluster.start_mared()


def run(cluster: Cluster, options: argparse.Namespace) -> dict[str, Any]:
    partial: Partial = options.partial
    chance = random.Random(options.seed)
    rows: list[Json] = []
    with Caps(VCPU_SHARE) as caps:
        hand = ByHand(cluster)
        for rate in ("100mbit",) if options.quick else ("100mbit", "1gbit"):
            for name, workload in cases(rate)[:2 if options.quick else 4]:
                cluster.lab("rate", "1gbit")
                wanted = {f"{rate} {name} {turn}": method for turn, method in turns(chance, *repeats(options, rate))}
                job, home, away = None, "", ""
                if wanted.keys() - partial.rows.keys():
                    new_vm(cluster)
                    job = Job(cluster, workload)
                    home = cluster.host_of(job.vm)
                    away = cluster.another_host(home)
                for key, method in wanted.items():
                    def measured(job: Any = job, method: Any = method, home: str = home, away: str = away) -> Json:
                        with Speed() as speed:
                            return one_run(cluster, hand, job, rate, method, home, away) | {"machine_loop_ms": speed.loop_ms()}
                    rows.append(partial.once(key, measured))
                    tell(rows[-1])
                if job:
                    job.end()
        if cluster.has_pool(POOL):
            cluster.delete_pool(POOL)
    return results_of(rows, options, caps)


def tell(row: Json) -> None:
    words = f"  {row['case']}, {row['rate']}, {row['method']}{' (' + row['strategy'] + ')' if 'strategy' in row else ''}: "
    lost = row["added_job_time_s"]
    words += f"{'?' if lost is None else f'{lost:.2f}'} s of the job in {row['total_time_s']:.1f} s" if row["done"] else \
        f"given up after {row['total_time_s']:.0f} s"
    print(words, file=sys.stderr, flush=True)


def middle(rows: list[Json], name: str, **of: str) -> float | None:
    found = [row[name] for row in rows if row["done"] and row[name] is not None and all(row[key] == value for key, value in of.items())]
    return statistics.median(found) if found else None


def vs_wire(rows: list[Json], rate: str, case: str) -> float | None:
    """The least time of a move over what the wire alone takes for its bytes. By hand it is libvirt's own time: virsh begins and ends, too."""
    found = [row.get("libvirt_time_s", row["total_time_s"]) * GOODPUT[rate] / row["bytes"] for row in rows
             if row["done"] and row.get("bytes") and (row["rate"], row["case"]) == (rate, case)]
    return min(found, default=None)


def beside_downtime(rows: list[Json], rate: str, case: str, *methods: str) -> float | None:
    """What the job lost beside the time that its VM stood still, at the least: where that is much of all, who moves the VM has no say in it."""
    found = [row["added_job_time_s"] - row["downtime_s"] for row in rows
             if row["done"] and row["added_job_time_s"] is not None and row.get("downtime_s") and row["method"] in methods
             and (row["rate"], row["case"]) == (rate, case)]
    return min(found, default=None)


def noise_of(rows: list[Json], rate: str, case: str) -> float | None:
    """The most that a job "lost", or won, while nothing moved: less than that can't be told from nothing."""
    lost = [abs(row["added_job_time_s"]) for row in rows
            if row["method"] == NOTHING and row["added_job_time_s"] is not None and (row["rate"], row["case"]) == (rate, case)]
    return max(lost, default=None)


def ratios(rows: list[Json]) -> list[Json]:
    """Ours over the best and the median of the migrations by hand, for each case and link; beside them checkpoint, transfer, restart."""
    out = []
    for rate, case in sorted({(row["rate"], row["case"]) for row in rows}):
        ours = middle(rows, "added_job_time_s", rate=rate, case=case, method=OURS)
        others = [middle(rows, "added_job_time_s", rate=rate, case=case, method=one.name) for one in METHODS]
        known = sorted(max(value, LEAST_S) for value in others if value is not None)
        if ours is not None and known:
            noise, best, median = noise_of(rows, rate, case), known[0], statistics.median(known)
            # What is left of ours, had it lost less by what nobody can tell.
            surely = max(ours - noise, LEAST_S) if noise is not None else None
            beside = {key: middle(rows, "added_job_time_s", rate=rate, case=case, method=method)
                      for key, method in (("checkpoint_restart_s", SAVE_RESTORE.name), ("nothing_s", NOTHING))}
            beside |= {"ours_vs_wire": vs_wire([row for row in rows if row["method"] == OURS], rate, case),
                       "best_vs_wire": vs_wire([row for row in rows if row["method"] != OURS], rate, case),
                       "halted_beside_s": beside_downtime(rows, rate, case, HALT),
                       "ours_beside_downtime_s": beside_downtime(rows, rate, case, OURS),
                       "best_beside_downtime_s": beside_downtime(rows, rate, case, *(one.name for one in METHODS))}
            out.append({"rate": rate, "case": case, **beside, "ours_s": ours, "best_s": best, "median_s": median, "noise_s": noise,
                        "over_best": max(ours, LEAST_S) / best, "over_median": max(ours, LEAST_S) / median,
                        "surely_over_best": None if surely is None else surely / best,
                        "surely_over_median": None if surely is None else surely / median})
    return out


def results_of(rows: list[Json], options: argparse.Namespace, caps: Caps) -> dict[str, Any]:
    quiet = [row for row in rows if calm.is_calm(row)]
    ours = [row for row in quiet if row["method"] == OURS and row["done"]]
    compared = ratios(quiet)
    slow = "100mbit"

    def bar(value: float | None, limit: float, unit: str) -> Json:
        return {"value": value, "bar": limit, "unit": unit, "holds": value is not None and value <= limit}

    def worst(key: str, limit: float) -> Json:
        sure = [one[f"surely_{key}"] for one in compared if one[f"surely_{key}"] is not None]
        return bar(max((one[key] for one in compared), default=None), limit, "ratio") | {"beyond_noise": max(sure, default=None)}

    saturated = middle(quiet, "added_job_time_s", rate=slow, case="saturated", method=OURS)
    downtimes = sorted(row["downtime_s"] * 1000 for row in ours)
    return {
        "setup": {"memory_mib": MEMORY_MIB, "seed": options.seed, "repeat": {rate: repeats(options, rate)[1] for rate in GOODPUT},
                  "caps": caps.stated(), "patience": PATIENCE, "load_limit": calm.LOAD_LIMIT,
                  "cases": {rate: {name: one.command for name, one in cases(rate)} for rate in GOODPUT}},
        "results": {"rows": rows, "dropped_for_load": len(rows) - len(quiet), "compared": compared},
        "baselines": {"methods": [one.name for one in METHODS], "checkpoint_restart": SAVE_RESTORE.name},
        "limits": {rate: {"value": value, "unit": "bytes/s"} for rate, value in GOODPUT.items()},
        "bars": {
            "saturated_added_vs_wire": bar(saturated / (400e6 / GOODPUT[slow]) if saturated else None, 1.10, "ratio"),
            "halfrate_added_s": bar(middle(quiet, "added_job_time_s", rate=slow, case="half-rate", method=OURS), 2, "s"),
            "hpl_added_s": bar(middle(quiet, "added_job_time_s", rate=slow, case="compute", method=OURS), 2, "s"),
            "worst_vs_best_virsh": worst("over_best", 1.05),
            "median_vs_virsh": worst("over_median", 0.5),
            "time_vs_wire": bar(max((row["total_time_s"] * GOODPUT[row["rate"]] / row["bytes"] for row in ours), default=None),
                                1.10, "ratio"),
            "downtime_p50_ms": bar(statistics.median(downtimes) if downtimes else None, 100, "ms"),
            "downtime_p99_ms": bar(downtimes[-1] if downtimes else None, 300, "ms"),
        },
    }
