"""A lab that costs no time: a clock that only waiting moves, a job that loses known times, and moves that take them."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import types
from typing import Any, Iterator
from unittest import mock

import paths  # noqa: F401
import lib.waiting
import migtest
from by_hand import SAVE_RESTORE, Move, Phases
from lib.cluster import Json
from migtest import report

BOOT = 1_000_000.0
#: Rank 0's clock begins with its VM.
GUEST_OFFSET = BOOT - 100
LATE = 0.05  # of a line


class Clock:
    """In the place of the module `time`."""

    def __init__(self) -> None:
        self.now = BOOT

    def time(self) -> float:
        return self.now

    monotonic = time

    def sleep(self, seconds: float) -> None:
        self.now += seconds


class FakeJob:
    """Iterates by the clock. What it loses makes its current iteration longer."""

    def __init__(self, clock: Clock, period: float) -> None:
        self.clock, self.period = clock, period
        self.ends: list[float] = []
        self._next = clock.now + period

    def run(self) -> None:
        while self._next <= self.clock.now:
            self.ends.append(self._next)
            self._next += self.period

    def lose(self, seconds: float) -> None:
        self.run()
        self._next += seconds

    def lines(self) -> list[str]:
        self.run()
        return [f"migtest: iteration={i} start_us={(end - self.period - GUEST_OFFSET) * 1e6:.0f} "
                f"duration_us={self.period * 1e6:.0f}" for i, end in enumerate(self.ends, 1)]


@dataclasses.dataclass
class FakeCluster:
    """Three hosts, one pool, one job. Every call that changes something is noted."""

    clock: Clock
    #: Seconds that a move by Maré takes and that it costs the job, by strategy; "" is its own choice.
    moves: dict[str, tuple[float, float]]
    period: float = 0.4
    url: str = "http://made"
    token_file: str = "token"
    done: list[str] = dataclasses.field(default_factory=list)
    more_output: list[str] = dataclasses.field(default_factory=list)
    mared: bool = True
    vms: dict[str, str] = dataclasses.field(default_factory=dict)
    job: FakeJob | None = None
    records: list[Json] = dataclasses.field(default_factory=list)
    refused: str | None = None

    def note(self, *words: object) -> None:
        self.done.append(" ".join(str(word) for word in words))

    def program(self, name: str) -> str:
        return name

    def lab(self, *words: str) -> None:
        self.note(*words)

    def has_pool(self, name: str) -> bool:
        return bool(self.vms)

    def delete_pool(self, name: str) -> None:
        self.note("delete", name)
        self.vms = {}

    def ensure_pool(self, name: str, size: int, memory_mib: int) -> list[str]:
        self.note("pool", size, memory_mib)
        assert not self.vms, "memory of another job"
        self.vms = {f"{name}-{i}": "h1" for i in range(size)}  # both on one host: to be spread
        return list(self.vms)

    def host_of(self, vm: str) -> str:
        return self.vms[vm]

    def another_host(self, *taken: str) -> str:
        return next(host for host in ("h1", "h2", "h3") if host not in taken)

    def migrate(self, vm: str, to: str, strategy: str = "") -> None:
        self.note("migrate", vm, to, strategy)
        self.clock.sleep(3)
        self.vms[vm] = to

    def get(self, path: str) -> Json:
        assert self.mared, f"mared is down, and was asked for {path}"
        kind, name, *rest = path.split("/")
        if rest == ["memory"]:
            began = datetime.datetime.fromtimestamp(self.clock.now - 2, datetime.timezone.utc).isoformat()
            return {"profile": {"cycles": [{"began": began, "points": [{"wall_us": 6e6}]}]}}
        if kind == "vms":
            return {"state": "running"}
        return {"state": "running", "reason": None, "vms": list(self.vms)} if kind == "jobs" else self.records[int(name)]

    def submit(self, method: str, path: str, body: Json = None) -> Json:
        self.note(method, path, body or "")
        if path == "jobs":
            self.job = FakeJob(self.clock, self.period)
            return {"id": "op-job", "target": "job-1"}
        if path.endswith(":cancel"):
            return {"id": "op-cancel"}
        took, cost = self.moves[body.get("strategy", "")]
        assert self.job
        self.job.lose(cost)
        self.clock.sleep(took)
        if not self.refused:
            self.vms[path.split("/")[1]] = body["destination"]
        self.records.append({"total_time_ms": took * 1000, "downtime_ms": {"hypervisor": cost * 500}, "transferred_bytes": 10_000_000,
                             "rounds": [1, 2], "strategy": body.get("strategy", "hybrid")})
        return {"id": str(len(self.records) - 1)}

    def ended(self, operation: str) -> Json:
        return {"outcome": "failed" if self.refused else "succeeded", "reason": self.refused}

    def finish(self, operation: Json, outcome: str) -> None:
        self.note("finished", outcome)

    def mare(self, *words: str) -> Any:
        assert self.mared and self.job
        return types.SimpleNamespace(stdout="\n".join(["begins", *self.job.lines(), *self.more_output]) + "\n")

    def assert_runs_once(self, vm: str) -> None:
        self.note("once", vm)

    def assert_clean(self, vm: str) -> None:
        self.note("clean", vm)

    def kill_mared(self) -> None:
        self.mared = False

    def start_mared(self) -> None:
        self.mared = True


PHASES = Phases(1.5, 8.0, 0.5, 90_000_000)


class FakeHand:
    """Phases that are known."""

    def __init__(self, cluster: FakeCluster) -> None:
        self.cluster = cluster

    def move(self, vm: str, source: str, destination: str, method: object, limit_s: float) -> Move:
        assert not self.cluster.mared and method is SAVE_RESTORE and self.cluster.job
        begun = self.cluster.clock.now
        whole = PHASES.check_s + PHASES.transfer_s + PHASES.restart_s
        self.cluster.job.lose(whole)
        self.cluster.clock.sleep(whole)
        self.cluster.vms[vm] = destination
        return Move(begun, self.cluster.clock.now, True, PHASES)

    def bring_back(self, vm: str, home: str) -> None:
        self.cluster.note("bring back", vm, home)
        assert self.cluster.job
        self.cluster.job.lose(2.0)
        self.cluster.clock.sleep(2)
        self.cluster.vms[vm] = home


class FakeFollower:
    """Lines of the job as they come."""

    def __init__(self, cluster: FakeCluster, _: str) -> None:
        self.cluster = cluster

    @property
    def lines(self) -> list[report.Line]:
        assert self.cluster.job
        texts = self.cluster.job.lines()
        return [report.Line(end + LATE, text) for end, text in zip(self.cluster.job.ends, texts)]

    def count(self, prefix: str) -> int:
        return sum(line.text.startswith(prefix) for line in self.lines)


@contextlib.contextmanager
def standing_in(cluster: FakeCluster) -> Iterator[None]:
    with mock.patch.object(migtest, "time", cluster.clock), mock.patch.object(lib.waiting, "time", cluster.clock), \
            mock.patch.object(migtest, "ByHand", FakeHand), mock.patch.object(migtest, "Follower", FakeFollower), \
            mock.patch.object(migtest, "Mare", lambda *_: cluster), mock.patch("os.getloadavg", lambda: (1.25, 0, 0)):
        yield
