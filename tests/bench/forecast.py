"""Forecasts against outcomes: many kinds of programs, both link speeds, every strategy on offer.

Every forecast is written before its move begins (it is the migration's own) and read afterwards. The order is
shuffled by a seed. The moves under one workload are kept together as soon as they are made: with --json a bench that was
stopped goes on, with a mared that has to learn anew. Baselines on the same moves by plain pre-copy: Liu's closed form and Neves' linear form, fitted to
half of them, for their time; what QEMU itself expects, as it was last told before the switch, for their downtime.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import itertools
import math
import random
import sys
import time
from typing import Any

import calm
from caps import Caps
from fit import least_squares
from lib.cluster import Cluster, Json
from lib.waiting import wait_until
from like_moves import DOWNTIME_SHARE, QUANTITIES, differences
from partial import Partial
from watching import ExpectedDowntime
from workloads import WORKLOADS, Mare, Running, Workload, report, summary

POOL = "forecast"
MEMORY_MIB = 192
RATES = ("100mbit", "1gbit")
GOODPUT = {"100mbit": 100e6 / 8 * 1448 / 1514, "1gbit": 1e9 / 8 * 1448 / 1514}
PAGE = 4096
#: Of a core, for each guest: four of them leave the movers half of a machine with two cores.
VCPU_SHARE = 0.25
#: A scheduler moves a VM that has been where it is for a while: so long it is watched before each move.
WATCHED_S = 5.0
#: After a VM's arrival, until its memory is looked at.
OPENS_S = 2.0
#: No program has a longer one. What is done when a line has come is in step with the program that wrote it: all cycles of the log began when
#: MigTest's burst was just over, and none had a part of one, as rounds do.
BEAT_S = 2.0
#: What one move may take before it is given up; a strategy that does not converge shows so by this.
TIME_LIMIT_S = 60


def moves_of(strategies: list[str], quick: bool, chance: random.Random) -> list[tuple[Workload, str, str]]:
    """Grouped by workload, since starting one costs more than a move; all else in shuffled order. In full, one move of each
    workload is made twice: what two like ones differ by, no forecast can know."""
    loads = WORKLOADS[:]
    chance.shuffle(loads)
    moves = []
    for load in loads[:4] if quick else loads:
        kinds = [(rate, strategy) for rate in RATES for strategy in strategies]
        chance.shuffle(kinds)
        taken = kinds[:3] if quick else [*kinds[:4], chance.choice(kinds[:4])]
        moves += [(load, rate, strategy) for rate, strategy in taken]
    return moves


def outcome_of(migration: Json, added: float | None) -> dict[str, float | None]:
    downtime = migration["downtime_ms"]["hypervisor"]
    return {"total_time_s": migration["total_time_ms"] / 1000, "sent_bytes": float(migration["transferred_bytes"]),
            "downtime_s": None if downtime is None else downtime / 1000, "added_job_time_s": added}


def forecast_for(cluster: Cluster, operation: str, strategy: str) -> Json:
    forecast = cluster.get(f"forecasts/{operation}")
    return {**next(one for one in forecast["strategies"] if one["strategy"] == strategy), "whole": forecast}


def watched_s(cluster: Cluster, vm: str, since: float) -> float:
    """For how long its memory was looked at in one go since then."""
    cycles = [cycle for cycle in cluster.get(f"vms/{vm}/memory")["profile"]["cycles"]
              if cycle["points"] and (report.parse_time(cycle["began"]) or 0) > since - 0.5]
    return max((float(cycle["points"][-1]["wall_us"]) / 1e6 for cycle in cycles), default=0.0)


def one_move(cluster: Cluster, running: Running, rate: str, strategy: str, aside: float) -> dict[str, Any]:
    """`aside`: 0 to 1, of BEAT_S: it begins so much later."""
    cluster.lab("rate", rate)
    vm = running.vms[-1]
    # Who asks for a profile before it can tell enough has an agent read the VM's memory for nothing.
    settled = max(time.time(), running.settled + OPENS_S + WATCHED_S) + aside * BEAT_S
    wait_until(lambda: time.time() >= settled, "the program's own beat is left", period_s=0.01)
    wait_until(lambda: watched_s(cluster, vm, running.settled) >= WATCHED_S, f"{vm} is watched where it is now")
    source = cluster.host_of(vm)
    machine, begun = calm.Watch(), time.time()
    guess = ExpectedDowntime(cluster.virsh_command(source, "-q"), vm)
    with guess if strategy == "pre-copy" else contextlib.nullcontext():
        operation = cluster.submit("POST", f"vms/{vm}/migrations", {
            "destination": cluster.another_host(source), "strategy": strategy, "time_limit_s": TIME_LIMIT_S})
        ended = cluster.ended(operation["id"])
    running.settled = over = time.time()
    migration = cluster.get(f"migrations/{operation['id']}")
    predicted = forecast_for(cluster, operation["id"], strategy)
    row: dict[str, Any] = {
        "workload": running.workload.name, "rate": rate, "strategy": strategy, "operation": operation["id"],
        "ended": ended["outcome"], "reason": ended["reason"], "converges": predicted["converges"], "end_unsure": predicted["end_unsure"],
        "forecast": {name: predicted[name] for name in QUANTITIES}, "job": running.id,
        "qemu_expects_s": guess.last_s, "probe_cost": predicted["whole"]["profile"]["cost_fraction"],
        **machine.seen()}
    if ended["outcome"] != "succeeded":
        return row
    cluster.assert_runs_once(vm)
    measured = outcome_of(migration, running.added_job_time_s(begun, over))
    row["measured"] = measured
    # As the MPI side will tell it: the next forecasts learn from it.
    if measured["added_job_time_s"] is not None:
        cluster.api("POST", f"migrations/{operation['id']}:report", {"added_job_time_s": measured["added_job_time_s"]})
    row["rounds"] = len(migration["rounds"])
    row["inputs"] = inputs_of(predicted["whole"], migration)
    return row


def inputs_of(forecast: Json, migration: Json) -> dict[str, float]:
    """What the baselines know: of how the guest writes now, the newest second and the newest cycle."""
    profile = forecast["profile"]
    cycles = [cycle for cycle in profile["cycles"] if cycle["points"]]
    last = cycles[-1]["points"][-1] if cycles else {"unique_bytes": 0, "wall_us": 1}
    early = [point for cycle in cycles[-1:] for point in cycle["points"] if point["wall_us"] >= 900e3][:1] or [last]
    return {"memory": profile["total_bytes"] - profile["zero_bytes"], "link": forecast["link"]["goodput_bytes_per_s"],
            "wws": max((point["unique_bytes"] for cycle in cycles[-2:] for point in cycle["points"]), default=0),
            "dirty_rate": early[0]["unique_bytes"] / (early[0]["wall_us"] / 1e6),
            "qemu_rate": migration["rounds"][-1]["dirty_bytes_per_s"] if migration["rounds"] else 0}


def liu_time_s(inputs: dict[str, float]) -> float:
    """Liu et al. (HPDC 2011), Eq. 4 to 6: rounds shrink by lambda = D/R, the last is what fits a threshold."""
    memory, link, dirty = inputs["memory"], inputs["link"], inputs["dirty_rate"]
    ratio = dirty / link
    if ratio >= 1:
        return memory / link * 30  # its form has no end; 30 rounds is Xen's bound
    rounds = 1 if ratio <= 0 else max(1, math.ceil(math.log(max(inputs["wws"], PAGE) / memory, ratio)))
    return memory / link * (1 - ratio ** (rounds + 1)) / (1 - ratio)


def baselines_of(done: list[dict[str, Any]]) -> dict[str, Any]:
    """Errors in total time of the others' forms, and in downtime of QEMU's own, on pre-copy moves: what they were made for. QEMU knows when
    it is half way, and on newer hosts by the rate of the link as Maré told it; ours is from before the first page."""
    moves = [row for row in done if row["strategy"] == "pre-copy"]
    liu = [liu_time_s(row["inputs"]) / row["measured"]["total_time_s"] - 1 for row in moves]
    ours = [row["forecast"]["total_time_s"]["value"] / row["measured"]["total_time_s"] - 1 for row in moves]

    def features(row: dict[str, Any]) -> list[float]:
        return [row["inputs"]["memory"] / row["inputs"]["link"], row["inputs"]["wws"] / row["inputs"]["link"]]

    learn, judge = moves[::2], moves[1::2]
    known = least_squares([features(row) for row in learn], [row["measured"]["total_time_s"] for row in learn])
    neves = [known.at(features(row)) / row["measured"]["total_time_s"] - 1 for row in judge] if known else []
    told = [row for row in moves if row["qemu_expects_s"] is not None and row["measured"]["downtime_s"] is not None]
    qemu = [row["qemu_expects_s"] - row["measured"]["downtime_s"] for row in told]
    ours_of_these = [row["forecast"]["downtime_s"]["value"] - row["measured"]["downtime_s"] for row in told]
    return {"liu_time_error": summary(liu), "neves_refitted_time_error": summary(neves), "ours_on_the_same": summary(ours),
            "qemu_downtime_error_s": summary(qemu), "ours_downtime_error_s": summary(ours_of_these)}


def errors_of(done: list[dict[str, Any]]) -> tuple[dict[str, list[float]], list[bool]]:
    errors: dict[str, list[float]] = {short: [] for short in QUANTITIES.values()}
    covered = []
    for row in done:
        for name, short in QUANTITIES.items():
            true, said = row["measured"][name], row["forecast"][name]
            if true is None:
                continue
            relative = short in ("time", "bytes")
            errors[short].append((said["value"] - true) / true if relative and true > 0 else said["value"] - true)
            covered.append(said["low"] <= true <= said["high"])
    return errors, covered


def downtime_beyond_ms(done: list[dict[str, Any]]) -> list[float]:
    """How far the forecast of each move's downtime was off; 0 where that is less than 15% of what came, which of a long one is not far."""
    out = []
    for row in done:
        true, said = row["measured"]["downtime_s"], row["forecast"]["downtime_s"]["value"]
        if true is not None:
            off = abs(said - true)
            out.append(0.0 if off <= DOWNTIME_SHARE * true else off * 1000)
    return out


def apart(done: list[dict[str, Any]]) -> dict[str, Any]:
    """The part of the errors that nobody could have known."""
    return {short: summary(values) for short, values in differences(done).items()}


def run(cluster: Cluster, options: argparse.Namespace) -> dict[str, Any]:
    results = results_of(all_moves(cluster, options), options)
    results["setup"]["caps"] = Caps(VCPU_SHARE).stated()
    return results


def all_moves(cluster: Cluster, options: argparse.Namespace) -> list[dict[str, Any]]:
    """What was measured of a workload is kept as a whole: its moves are of one job, and its length belongs to them."""
    offered = cluster.get("hosts")["items"][0].get("strategies") or ["pre-copy"]
    strategies = [one for one in offered if one != "checkpoint-restart"]
    moves = moves_of(strategies, options.quick, random.Random(options.seed))
    partial: Partial = options.partial
    rows: list[dict[str, Any]] = []
    for load, group in itertools.groupby(moves, key=lambda move: move[0]):
        kinds = [(rate, strategy) for _, rate, strategy in group]
        measure = functools.partial(moves_under, cluster, load, kinds, (len(rows), len(moves)))
        rows += partial.once(load.name, lambda measure=measure: {"rows": measure()})["rows"]  # type: ignore[misc]
    return rows


def moves_under(cluster: Cluster, load: Workload, kinds: list[tuple[str, str]], told: tuple[int, int]) -> list[dict[str, Any]]:
    """`told`: how many were made before, and of how many."""
    cluster.lab("rate", "1gbit")
    cluster.ensure_pool(POOL, max(one.ranks for one in WORKLOADS), memory_mib=MEMORY_MIB)
    rows = []
    with contextlib.ExitStack() as capped:
        if not load.long_start:
            capped.enter_context(Caps(VCPU_SHARE))
        running = Running(cluster, Mare(cluster.program("mare"), cluster.url, cluster.token_file), POOL, load)
        if load.long_start:
            capped.enter_context(Caps(VCPU_SHARE))
            running.settled = time.time()
        chance = random.Random(f"{told[0]} {kinds}")
        for rate, strategy in kinds:
            rows.append(one_move(cluster, running, rate, strategy, chance.random()))
            tell(told[0] + len(rows), told[1], rows[-1])
        running.end()
    job = cluster.get(f"jobs/{running.id}")
    length_s = (report.parse_time(job["ended"]) or 0) - (report.parse_time(job["started"]) or 0)
    return [{**row, "job_s": length_s} for row in rows]


def is_open(row: dict[str, Any]) -> bool:
    """Whether it was said that the move may end by itself in time, or may not."""
    time_s = row["forecast"]["total_time_s"]
    return bool(row["end_unsure"] or (row["converges"] and time_s["low"] <= TIME_LIMIT_S <= time_s["high"]))


def is_wrong(row: dict[str, Any]) -> bool:
    """Whether the verdict "it ends by itself, in time" or its opposite was wrong; one that left it open was not."""
    time_s = row["forecast"]["total_time_s"]
    if is_open(row):
        return False
    return bool(row["converges"] and time_s["value"] <= TIME_LIMIT_S) != (row["ended"] == "succeeded")


def tell(number: int, count: int, row: dict[str, Any]) -> None:
    words = f"  {number} of {count}: {row['workload']}, {row['rate']}, {row['strategy']}: {row['ended']}"
    if "measured" in row:
        said, true = row["forecast"]["total_time_s"]["value"], row["measured"]["total_time_s"]
        words += f" in {true:.2f} s, forecast {said:.2f} s; downtime {(row['measured']['downtime_s'] or 0) * 1000:.0f} ms, " \
                 f"forecast {row['forecast']['downtime_s']['value'] * 1000:.0f} ms"
    print(words, file=sys.stderr, flush=True)


def results_of(rows: list[dict[str, Any]], options: argparse.Namespace) -> dict[str, Any]:
    quiet = [row for row in rows if calm.is_calm(row)]
    done = [row for row in quiet if "measured" in row]
    errors, covered = errors_of(done)
    judged = [row for row in quiet if row["strategy"] in ("pre-copy", "compressed", "rate-controlled")]
    wrong = [row for row in judged if is_wrong(row)]
    added = summary([(row["forecast"]["added_job_time_s"]["value"] - row["measured"]["added_job_time_s"]) / row["job_s"]
                     for row in done if row["measured"]["added_job_time_s"] is not None])
    baselines = baselines_of(done)
    coverage = sum(covered) / len(covered) if covered else 0.0
    time_error, bytes_error, downtime = summary(errors["time"]), summary(errors["bytes"]), summary(errors["downtime"])
    ratio = baselines["liu_time_error"].get("median", 0) / max(baselines["ours_on_the_same"].get("median", 0), 1e-6)

    def bar(value: float | None, limit: float, unit: str, at_least: bool = False) -> dict[str, Any]:
        holds = value is not None and (value >= limit if at_least else value <= limit)
        return {"value": value, "bar": limit, "unit": unit, "holds": holds}

    downtime_ms = summary(downtime_beyond_ms(done)).get("p95")
    return {
        "setup": {"seed": options.seed, "memory_mib": MEMORY_MIB, "rates": RATES, "time_limit_s": TIME_LIMIT_S,
                  "load_limit": calm.LOAD_LIMIT, "watched_s": WATCHED_S,
                  "workloads": [one.name for one in WORKLOADS]},
        "results": {"moves": len(rows), "dropped_for_load": len(rows) - len(quiet), "ended": len(done),
                    "errors": {"time": time_error, "bytes": bytes_error, "downtime_s": downtime,
                               "added_job_time_s": summary(errors["added"])},
                    "probe_cost": summary([row["probe_cost"] for row in quiet]),
                    "like_moves_apart": apart(done), "coverage": coverage, "added_share_of_job": added,
                    "verdicts": len(judged), "verdicts_left_open": sum(is_open(row) for row in judged),
                    "convergence_wrong": len(wrong), "wrong": [row["operation"] for row in wrong], "rows": rows},
        "baselines": baselines,
        "limits": {rate: {"value": GOODPUT[rate], "unit": "bytes/s", "arithmetic": "1448 of 1514 bytes of a frame"}
                   for rate in RATES},
        "bars": {
            "time_error_median": bar(time_error.get("median"), 0.03, "ratio"),
            "time_error_p95": bar(time_error.get("p95"), 0.08, "ratio"),
            "bytes_error_median": bar(bytes_error.get("median"), 0.03, "ratio"),
            "bytes_error_p95": bar(bytes_error.get("p95"), 0.08, "ratio"),
            "downtime_error_p95_ms": bar(downtime_ms, 25, "ms"),
            "added_time_error": bar(added.get("p95"), 0.01, "share of the job's length"),
            "interval_coverage": bar(coverage, 0.93, "ratio", at_least=True),
            "convergence_wrong": bar(len(wrong), 0, "count"),
            "liu_ratio": bar(ratio, 3, "ratio", at_least=True),
        },
    }
