"""Jobs whose memory is written in known manners, for benches that move VMs under them."""

from __future__ import annotations

import dataclasses
import pathlib
import re
import sys
import time
from typing import Any

ROOT = pathlib.Path(__file__).resolve().parents[2]
for _folder in ("tests/lab", "ui/quickstart"):
    if str(ROOT / _folder) not in sys.path:
        sys.path.insert(0, str(ROOT / _folder))

import report  # noqa: E402
from cost import SETTLE_S, Cost, Told, added_job_time, starts_across  # noqa: E402
from client import Follower, Mare  # noqa: E402
from lib.cluster import Cluster, Json  # noqa: E402
from lib.waiting import wait_until  # noqa: E402

LINE = re.compile(r"^(?:migtest|writer): iteration=(\d+) start_us=(\d+) duration_us=(\d+)")
FOREVER_S = 100000
#: Of an iteration. A line costs an emulated guest some 6 ms of its CPU: more often, and a guest with a quarter of a
#: core has nothing left for its work.
PERIOD_MS = 100
#: Before and after a move: from them the usual pace is taken.
QUIET_S = 8.0


def told_by(lines: list[report.Line]) -> list[Told]:
    found = [(line.arrived, LINE.match(line.text)) for line in lines]
    return [Told(arrived, int(one[2]) / 1e6, (int(one[2]) + int(one[3])) / 1e6) for arrived, one in found if one]


@dataclasses.dataclass(frozen=True)
class Workload:
    """A job and what it is called in reports."""

    name: str
    ranks: int
    command: list[str]
    #: Words on its output that say that its memory is set up and it is at its usual work.
    steady: str = "iteration=40 "
    #: Its output ends with this when all was right; empty: it is cancelled at the end, unjudged.
    verdict: str = "verified=yes"
    #: It takes minutes to get there, even of a CPU of its own: a bench caps its VMs only then.
    long_start: bool = False


def writer(name: str, pattern: str, size_mib: int, rate_mib: int, ranks: int = 1, *more: str) -> Workload:
    return Workload(name, ranks, ["writer", "--pattern", pattern, "--size-mib", str(size_mib), "--rate-mib", str(rate_mib),
                                  "--seconds", str(FOREVER_S), "--until", "enough",
                                  *(more if "--period-ms" in more else ("--period-ms", str(PERIOD_MS), *more))])


def migtest(name: str, size_mib: int, wws_mib: int, ranks: int, interval_ms: int = 100) -> Workload:
    return Workload(name, ranks, ["migtest", "--size-mib", str(size_mib), "--wws-mib", str(wws_mib), "--iterations",
                                  "1000000", "--interval-ms", str(interval_ms), "--incompressible"], verdict="")


#: Kinds of programs by how they write. Sizes fit VMs of 192 MiB, rates an emulated CPU.
WORKLOADS = [
    writer("idle", "idle", 64, 1),
    migtest("migtest-32-2", 32, 2, 2),
    migtest("migtest-64-8", 64, 8, 2, 400),
    migtest("migtest-48-24", 48, 24, 2, 2000),
    writer("sweep-48-4", "sweep", 48, 4),
    writer("sweep-24-8", "sweep", 24, 8),
    writer("random-64-2", "random", 64, 2),
    writer("random-32-6", "random", 32, 6),
    writer("hot-64-8", "hot", 64, 8),
    writer("burst-16-8", "burst", 16, 8, 1, "--burst-ms", "3000"),
    writer("sort-8", "sort", 8, 0, 1, "--period-ms", "500"),
    writer("compressible-64-4", "random", 64, 4, 1, "--compressible"),
    writer("hot-3-ranks", "hot", 32, 4, 3),
    writer("sweep-4-ranks", "sweep", 16, 2, 4),
    Workload("heat", 3, ["heat", "--nx", "400", "--ny", "400", "--steps", "1000000"], steady="", verdict=""),
    Workload("matmul", 3, ["matmul", "--n", "160", "--products", "100000"], steady="", verdict=""),
    Workload("hpl", 2, ["mare-hpl", "--n", "800", "--repeat", "20"], steady="section HPL", verdict="", long_start=True),
]


class Running:
    """One workload's job in its pool, followed."""

    def __init__(self, cluster: Cluster, mare: Mare, pool: str, workload: Workload) -> None:
        self.cluster, self.workload = cluster, workload
        body = {"pool": pool, "command": workload.command, "ranks": workload.ranks}
        self.id: str = cluster.submit("POST", "jobs", body)["target"]
        wait_until(lambda: self.row()["state"] != "queued", f"{self.id} starts")
        self.follower = Follower(mare, self.id)
        self.vms: list[str] = wait_until(lambda: self.row()["vms"], f"{self.id} has its VMs")
        wait_until(self.is_steady, f"{workload.name} is at its usual work")
        #: Since when its VMs are where they are.
        self.settled = time.time()

    def row(self) -> Json:
        return self.cluster.get(f"jobs/{self.id}")

    def is_steady(self) -> bool:
        state = self.row()["state"]
        if state in ("failed", "cancelled"):
            raise AssertionError(f"{self.workload.name}: {self.row()}; {self.text()[-500:]}")
        if not self.workload.steady:
            return state == "running"
        return any(self.workload.steady in line.text for line in list(self.follower.lines))

    def text(self) -> str:
        return "\n".join(line.text for line in list(self.follower.lines))

    def told(self) -> list[Told]:
        """Empty for a program that does not tell its iterations."""
        return told_by(list(self.follower.lines))

    def added_job_time_s(self, begun: float, ended: float) -> float | None:
        """By the iterations around the move; waits for those after it. None: too few, as of a program without any, or
        the program's own pace changed."""
        if not self.told():
            return None

        def look() -> Cost | None:
            return added_job_time(starts_across(self.told(), begun, ended, QUIET_S), begun, ended, QUIET_S)
        wait_until(lambda: time.time() > ended + SETTLE_S + QUIET_S, "the job is at its usual work again", period_s=0.2)
        cost = look()
        return cost.added if cost and cost.tells() else None

    def end(self) -> None:
        """Ends it; a program that judges itself must have been right."""
        if self.workload.verdict:
            (self.cluster.state / "jobs" / self.id / "enough").touch()
            wait_until(lambda: self.row()["state"] in ("succeeded", "failed", "cancelled"), f"{self.id} ends")
            if self.row()["state"] != "succeeded" or self.workload.verdict not in self.text():
                raise AssertionError(f"{self.workload.name} went wrong: {self.row()}; {self.text()[-500:]}")
            return
        self.cluster.finish(self.cluster.submit("POST", f"jobs/{self.id}:cancel"), outcome="cancelled")


def summary(values: list[float]) -> dict[str, Any]:
    """Median, p95 and the largest of absolute values."""
    ordered = sorted(abs(value) for value in values)
    if not ordered:
        return {"count": 0}
    at = [ordered[min(len(ordered) - 1, int(share * len(ordered)))] for share in (0.5, 0.95)]
    return {"count": len(ordered), "median": round(at[0], 4), "p95": round(at[1], 4), "max": round(ordered[-1], 4)}
