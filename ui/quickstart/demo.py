#!/usr/bin/python3
"""The demonstration of ./quickstart: an MPI job whose rank moves to another host while it runs.

Needs a lab that is up (`mare lab up`). Progress goes to stderr, the report to stdout.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import time
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parent))

import report  # noqa: E402
from client import DemoError, Follower, Mare, say  # noqa: E402

PREFIX = "migtest: iteration="
POOL = "quickstart"
RANKS = 3
MEMORY_MIB = 192
# A memory that takes some rounds to move: all of it once, and then what a rank rewrites all the time.
SIZE_MIB, WWS_MIB = 48, 8
# Real hardware is held back to this pace, so that the run lasts 24 s there, too; emulated VMs are slower anyway.
INTERVAL_MS = 50
ITERATIONS = 480
# Starting mpirun and its daemons takes 2 s on a quiet machine, a minute on one that is overloaded.
START_TIMEOUT_S = 240
RUN_TIMEOUT_S = 900


def options_of_migtest() -> list[str]:
    return ["--size-mib", str(SIZE_MIB), "--wws-mib", str(WWS_MIB), "--iterations", str(ITERATIONS)]


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--mare", type=Path, required=True, help="the mare command")
    parser.add_argument("--migtest", type=Path, required=True,
                        help="migtest as built for this machine; computes the right checksum without MPI")
    parser.add_argument("--url", default="http://127.0.0.1:7410", help="mared (default: %(default)s)")
    parser.add_argument("--token-file", type=Path, default=Path("/var/lib/mare/lab/mared/token"))
    parser.add_argument("--rate", default="1gbit", help="speed of the links, for the report")
    parser.add_argument("--json", type=Path, help="write all figures to this file")
    parser.add_argument("--keep", action="store_true", help="leave the pool running")
    return parser.parse_args()


class Step:
    """Names what is done, and says afterwards how long it took."""

    def __init__(self, durations: dict[str, float], name: str, title: str) -> None:
        self._durations, self._name, self._title = durations, name, title

    def __enter__(self) -> None:
        say(f"* {self._title}")
        self._begun = time.monotonic()

    def __exit__(self, kind: Any, *_: Any) -> None:
        took = time.monotonic() - self._begun
        self._durations[self._name] = round(took, 2)
        if kind is None:
            say(f"  done in {took:.1f} s")


def make_pool(mare: Mare) -> None:
    if mare.exists("pool", POOL):  # of a run that was killed, or kept
        say("  a pool of an earlier run is still there: it goes first")
        mare.show("pool", "delete", POOL, "--force")
    mare.show("pool", "create", POOL, "--size", str(RANKS), "--memory", str(MEMORY_MIB), "--hosts", "h1,h2",
              "--timeout", "5m")


def submit(mare: Mare) -> dict[str, Any]:
    words = ["job", "submit", POOL, "-n", str(RANKS), "--name", "migtest", "--", "migtest", *options_of_migtest(),
             "--interval-ms", str(INTERVAL_MS)]
    say(f"  $ mare {' '.join(words)}")
    job: dict[str, Any] = mare.ask(*words)
    return job


def move(mare: Mare, job: str) -> dict[str, Any]:
    """Moves the VM of rank 1: rank 0 keeps the clock that the iterations are measured with."""
    vm = mare.ask("job", "show", job)["vms"][1]
    before = {entry["id"] for entry in mare.ask("migration", "list", "--vm", vm)["items"]}
    mare.show("migrate", vm, "--to", "h3", "--timeout", "2m")
    new = [entry for entry in mare.ask("migration", "list", "--vm", vm)["items"] if entry["id"] not in before]
    if len(new) != 1:
        raise DemoError(f"{len(new)} new migrations of {vm} where one was asked for")
    migration: dict[str, Any] = mare.ask("migration", "show", new[0]["id"])
    return migration


def run_job(mare: Mare) -> dict[str, Any]:
    job = submit(mare)
    follower = Follower(mare, job["id"])
    # A fifth of the run shows what is usual; the last two fifths, that it is so again.
    if not follower.wait_for_lines(PREFIX, ITERATIONS // 5, START_TIMEOUT_S):
        raise DemoError(f"job {job['id']} does not advance: its output so far is\n{mare.output(job['id'])}")
    say(f"  iteration {follower.count(PREFIX)} of {ITERATIONS} is done; now a rank moves to the idle host")
    migration = move(mare, job["id"])
    say(f"  the job is at iteration {follower.count(PREFIX)} and goes on; waiting for its end")
    if not follower.wait_for_end(RUN_TIMEOUT_S):
        raise DemoError(f"job {job['id']} has not ended within {RUN_TIMEOUT_S} s: 'mare job output {job['id']}' shows "
                        "how far it is")
    mare.show("job", "wait", job["id"], "--timeout", "60s")
    if follower.failure:
        raise DemoError(f"the output of {job['id']} could not be followed: {follower.failure}")
    return {"job": mare.ask("job", "show", job["id"]), "migration": migration, "lines": follower.lines}


def right_answer(migtest: Path) -> str:
    done = subprocess.run([migtest, "--expect", "--ranks", str(RANKS), *options_of_migtest()], text=True,
                          capture_output=True, check=False)
    verdict = report.verdict_of(done.stdout.splitlines())
    if done.returncode != 0 or verdict is None:
        raise DemoError(f"{migtest} --expect failed: {done.stdout}{done.stderr}")
    return str(verdict["checksum"])


def evaluate(run: dict[str, Any], expected: str) -> dict[str, Any]:
    """All figures, and `failures`: what should have been otherwise."""
    lines: list[report.Line] = run["lines"]
    migration = run["migration"]
    raw = report.iterations_of(lines)
    offset = report.align(lines)
    found = report.shifted(raw, offset or 0.0)
    begin, end = report.parse_time(migration["started"]), report.parse_time(migration["ended"])
    cost = report.added_job_time(found, begin, end) if begin and end else None
    verdict = report.verdict_of([line.text for line in lines])
    failures = []
    missing = report.missing_indices(raw, ITERATIONS)
    if missing:
        failures.append(f"iterations {missing[:10]} are missing from the job's output")
    if verdict is None or not verdict["verified"] or verdict["checksum"] != expected:
        failures.append(f"the job's answer is {verdict}, right is {expected}")
    if run["job"]["state"] != "succeeded" or run["job"]["exit_code"] != 0:
        failures.append(f"the job ended as {run['job']['state']} with exit code {run['job']['exit_code']}")
    if migration["outcome"] != "succeeded":
        failures.append(f"the migration ended as {migration['outcome']}: {migration['reason']}")
    elif begin and found and not found[0].start < begin < found[-1].end:
        failures.append("the migration was not within the job's run")
    return {"iterations": found, "cost": cost, "verdict": verdict, "expected_checksum": expected, "begin": begin,
            "end": end, "switched": report.parse_time(migration["switched"]), "failures": failures}


def report_text(run: dict[str, Any], result: dict[str, Any], rate: str) -> str:
    job, found = run["job"], result["iterations"]
    lines = ["", "=" * 80, "REPORT", "=" * 80,
             f"Job {job['id']}: migtest, {RANKS} ranks of {SIZE_MIB} MiB that rewrite {WWS_MIB} MiB in each iteration,",
             f"one rank in each VM, VMs {', '.join(job['vms'])}; links of {rate}.", "",
             "Iterations per second, as rank 0 saw them:"]
    marks = []
    if result["begin"] and result["end"]:
        marks.append((result["begin"], result["end"], f"migration of {run['migration']['vm']}"))
    if result["switched"]:
        marks.append((result["switched"], result["switched"], "switch"))
    lines += [report.time_line(found, marks) if len(found) > 1 else "(too few iterations)", "",
              "Migration:", report.migration_text(run["migration"], result["cost"]), ""]
    verdict = result["verdict"] or {"checksum": "none", "iterations": 0}
    lines.append(f"Answer: checksum {verdict['checksum']}, right is {result['expected_checksum']}; "
                 f"{len(found)} iterations, none missing" if not result["failures"] else "Answer: WRONG")
    lines += [f"  NOT AS IT SHOULD BE: {failure}" for failure in result["failures"]]
    lines += ["", "Added job time: the iterations that overlap the migration against the median of the others, by the",
              "distance of their starts on rank 0's clock, put on this machine's clock to about 0.1 s."]
    return "\n".join(lines)


def machine() -> dict[str, Any]:
    with open("/proc/meminfo", encoding="utf-8") as file:
        memory_kib = int(file.readline().split()[1])
    return {"cores": os.cpu_count(), "memory_mib": memory_kib // 1024, "kernel": platform.release(),
            "load": os.getloadavg()[0]}


def figures(run: dict[str, Any], result: dict[str, Any], durations: dict[str, float], rate: str,
            hosts: Any) -> dict[str, Any]:
    return {
        "created": datetime.now(timezone.utc).isoformat(timespec="seconds"), "machine": machine(), "rate": rate,
        "hosts": hosts["items"], "job": run["job"],
        
        "migtest": {"size_mib": SIZE_MIB, "wws_mib": WWS_MIB, "ranks": RANKS, "iterations": ITERATIONS,
                    "interval_ms": INTERVAL_MS}, "verdict": result["verdict"],
        "expected_checksum": result["expected_checksum"], "migrations": [{**run["migration"], **(result["cost"] or {})}],
        "iterations": [{"index": it.index, "start_s": round(it.start, 6), "duration_s": round(it.duration, 6)}
                       for it in result["iterations"]],
        "durations_s": durations, "failures": result["failures"],
    }


def write_json(path: Path, value: Any) -> None:
    part = path.with_name(path.name + ".partial")
    part.write_text(json.dumps(value, indent=2) + "\n", encoding="utf-8")
    part.replace(path)
    say(f"figures: {path}")


def demonstrate(arguments: argparse.Namespace) -> int:
    mare = Mare(arguments.mare, arguments.url, arguments.token_file)
    durations: dict[str, float] = {}
    with Step(durations, "pool_s", f"A pool of {RANKS} VMs on h1 and h2; h3 stays idle"):
        make_pool(mare)
    with Step(durations, "job_s", f"The job: {RANKS} ranks, {ITERATIONS} iterations, and a live migration in its middle"):
        run = run_job(mare)
    result = evaluate(run, right_answer(arguments.migtest))
    hosts = mare.ask("host", "list")
    if not arguments.keep:
        with Step(durations, "end_s", "The pool's end"):
            mare.show("pool", "delete", POOL)
    print(report_text(run, result, arguments.rate), flush=True)
    if arguments.json:
        write_json(arguments.json, figures(run, result, durations, arguments.rate, hosts))
    return 1 if result["failures"] else 0


def main() -> int:
    try:
        return demonstrate(parse_arguments())
    except DemoError as error:
        print(f"demo: {error}", file=sys.stderr)
    except OSError as error:
        print(f"demo: {error}", file=sys.stderr)
    except KeyboardInterrupt:
        print("demo: interrupted", file=sys.stderr)
        return 130
    return 1


if __name__ == "__main__":
    sys.exit(main())
