"""A cluster that costs no time, whose jobs take checkpoints, die when they are struck, and come back, all after known times."""

from __future__ import annotations

import contextlib
import datetime
import types
from pathlib import Path
from typing import Any, Callable, Iterator
from unittest import mock

import paths  # noqa: F401
import lib.waiting
import recovery
from fake_lab import Clock
from kills import AGENT, MARED, OF_A_HOST, Progress
from lib.cluster import Json
from lib.migtest import Shape

PACE_S = 0.1
STEP_S = 0.02
#: Of a checkpoint, from its beginning: when the state is taken, and when it is complete.
CUT_S, COMPLETE_S = 0.06, 2.0
#: From a kill: when it is noticed; then until the restore begins, and how long its states last.
NOTICED_S, BEGINS_S = 1.2, 0.3
RESTORE = (("Clearing", 0.3), ("Loading", 1.5), ("Resuming", 0.5))
MARED_AWAY_S = 1.0
ENDED = ("succeeded", "failed", "cancelled")


def stamp(at: float) -> str:
    return datetime.datetime.fromtimestamp(at, datetime.timezone.utc).isoformat()


class World(Clock):
    """Time passes in small steps; what is due happens in each."""

    def __init__(self) -> None:
        super().__init__()
        self.state = Path("made")
        self.url, self.token_file = "http://made", "token"
        self.vms = {"recovery-0": "h1", "recovery-1": "h2"}
        self.struck: list[tuple[float, str, str, str]] = []
        self.done: list[str] = []
        self.jobs: list[FakeJob] = []
        self.events: list[Json] = []
        #: It does not come back from a kill; one VM ran twice.
        self.hopeless = False
        self.doubled: list[str] = []
        self._due: list[tuple[float, Callable[[], None]]] = []
        self._next = 0

    @staticmethod
    def status() -> Json:
        return {"rate": "1gbit"}

    # --- time -----------------------------------------------------------------------------------------

    def sleep(self, seconds: float) -> None:
        end = self.now + seconds
        while self.now < end - 1e-9:
            self.now = min(end, self.now + STEP_S)
            for due in sorted((one for one in self._due if one[0] <= self.now), key=lambda one: one[0]):
                self._due.remove(due)
                due[1]()
            for job in self.jobs:
                job.run()

    def later(self, seconds: float, act: Callable[[], None]) -> None:
        self._due.append((self.now + seconds, act))

    def name(self, kind: str) -> str:
        self._next += 1
        return f"{kind}-{self._next}"

    def tell(self, what: str, subject: str, **data: Any) -> None:
        self.events.append({"seq": len(self.events) + 1, "at": stamp(self.now), "type": what, "subject": subject, "data": data})

    @property
    def job(self) -> "FakeJob":
        return self.jobs[-1]

    # --- the cluster ----------------------------------------------------------------------------------

    def get(self, path: str) -> Json:
        kind, _, rest = path.partition("/")
        if path.startswith("events?after="):
            after = int(path.split("=")[1].split("&")[0])
            items = self.events[after:after + 3]
            return {"items": items, "next_after": after + len(items)}
        if kind == "vms":
            return {"id": rest, "host": self.vms[rest], "state": "running"}
        return next(job for job in self.jobs if job.id == rest).row()

    def items(self, path: str) -> list[Json]:
        if path.startswith("vms?"):
            return [{"id": vm, "host": host} for vm, host in self.vms.items()]
        if path.startswith("jobs/"):
            return list(self.job.checkpoints)
        kind, target = path.removeprefix("operations?kind=").split("&target=")
        return [one for one in reversed(self.job.operations) if one["kind"] == kind and one["target"] == target]

    def host_of(self, vm: str) -> str:
        return self.vms[vm]

    def ensure_pool(self, name: str, size: int, memory_mib: int) -> list[str]:
        self.done.append("pool")
        return list(self.vms)

    def spread(self, vms: list[str]) -> None:
        self.done.append("spread")

    def console(self, vm: str) -> str:
        return "booted\n"

    def restore(self) -> None:
        self.done.append("restore")

    def assert_runs_once(self, vm: str) -> None:
        self.done.append(f"once {vm}")

    def mare(self, *words: str, check: bool = True) -> None:
        self.done.append(" ".join(words))
        if words[:2] == ("job", "cancel") and self.job.state not in ENDED:
            self.job.state = "cancelled"

    def has_pool(self, name: str) -> bool:
        return True

    def delete_pool(self, name: str) -> None:
        self.done.append("delete pool")

    def thaw(self) -> None:
        self.done.append("thaw")

    # --- strikes --------------------------------------------------------------------------------------

    def strike(self, kind: str, vm: str, host: str) -> float:
        at = self.now
        self.struck.append((at, kind, vm, host))
        if kind == MARED:
            self._due = [(when + MARED_AWAY_S, act) for when, act in self._due]
            self.sleep(MARED_AWAY_S)
            return at
        if kind in OF_A_HOST and kind != AGENT:
            self.later(NOTICED_S - 0.2, lambda: self.tell("host.state", host, health="down"))
        self.job.die(vm)
        return at


class FakeJob:
    """In the place of MigTest: rank 0's lines come from here."""

    def __init__(self, world: World, _: str, shape: Shape, checkpoint_every_s: int = 0) -> None:
        self.world, self.shape, self.every_s = world, shape, checkpoint_every_s
        self.id = world.name("job")
        self.state, self.restarts = "running", 0
        self.started, self.ended = world.now, 0.0
        self.lines: list[str] = []
        self.checkpoints: list[Json] = []
        self.held: dict[str, int] = {}
        self.operations: list[Json] = []
        self.cuts: dict[str, float] = {}
        self.alive = True
        self._line_at = world.now + PACE_S
        self._life = 0
        world.jobs.append(self)
        self._plan_checkpoint()

    def row(self) -> Json:
        return {"id": self.id, "state": self.state, "restarts": self.restarts, "started": stamp(self.started),
                "ended": stamp(self.ended) if self.ended else None}

    def vms(self) -> list[str]:
        return list(self.world.vms)

    def logged(self, rank: int) -> list[Any]:
        return [types.SimpleNamespace(start_us=i * PACE_S * 1e6) for i in range(self.shape.iterations)]

    def run(self) -> None:
        while self.alive and self.state == "running" and self._line_at <= self.world.now:
            self.lines = [*self.lines, f"migtest: iteration={len(self.lines) + 1} start_us={self._line_at * 1e6:.0f} duration_us=1"]
            self._line_at += PACE_S
            if len(self.lines) == self.shape.iterations:
                self.state, self.ended = "succeeded", self.world.now

    def _begin(self, kind: str, state: str, **request: str) -> Json:
        operation = {"id": self.world.name("op"), "kind": kind, "target": self.id, "state": state, "outcome": "pending", "request": request}
        self.operations.append(operation)
        self.world.tell("operation.created", operation["id"], kind=kind, target=self.id)
        return operation

    # --- checkpoints ----------------------------------------------------------------------------------

    def _plan_checkpoint(self) -> None:
        if self.every_s:
            life = self._life
            self.world.later(self.every_s, lambda: self._checkpoint(life))

    def _checkpoint(self, life: int) -> None:
        if life != self._life or not self.alive or self.state != "running":
            return
        take = self._begin("checkpoint.take", "Holding")
        name = self.world.name("ck")

        def cut() -> None:
            if take["outcome"] == "pending":
                take["state"] = "Writing"
                self.held[name], self.cuts[name] = len(self.lines), self.world.now

        def complete() -> None:
            if take["outcome"] == "pending":
                take.update(state="Done", outcome="succeeded")
                self.checkpoints.insert(0, {"id": name, "state": "complete", "parts": [{"resumed": stamp(self.cuts[name])}]})
        self.world.later(CUT_S, cut)
        self.world.later(COMPLETE_S, complete)
        self._plan_checkpoint()

    # --- death and return -----------------------------------------------------------------------------

    def die(self, vm: str) -> None:
        self.alive = False
        self._life += 1
        for one in self.operations:
            if one["outcome"] == "pending":
                one.update(state="Failed", outcome="failed")
        life = self._life
        self.world.later(NOTICED_S, lambda: self._noticed(life, vm))

    def _noticed(self, life: int, vm: str) -> None:
        if life != self._life:
            return
        self.world.tell("vm.state", vm, state="failed")
        if self.world.hopeless:
            self.state, self.ended = "failed", self.world.now
            return
        name = self.checkpoints[0]["id"]
        recovery_run = self._begin("recovery.run", "Fencing", checkpoint=name)
        self.world.later(BEGINS_S, lambda: self._restore(life, name, recovery_run))

    def _restore(self, life: int, name: str, recovery_run: Json) -> None:
        if life != self._life:
            return
        restore = self._begin("checkpoint.restore", RESTORE[0][0])
        waited = 0.0
        for (_, lasts), (following, _) in zip(RESTORE, [*RESTORE[1:], ("Done", 0.0)]):
            waited += lasts
            self.world.later(waited, lambda following=following: self._step(life, restore, following))  # type: ignore[misc]
        self.world.later(waited, lambda: self._goes_on(life, name, [recovery_run, restore]))

    def _step(self, life: int, restore: Json, state: str) -> None:
        if life == self._life:
            restore["state"] = state

    def _goes_on(self, life: int, name: str, operations: list[Json]) -> None:
        if life != self._life:
            return
        for one in operations:
            one["outcome"] = "succeeded"
        self.restarts += 1
        self.lines = self.lines[:self.held[name]]
        self.alive, self._line_at = True, self.world.now + PACE_S
        self._plan_checkpoint()

    def assert_right(self) -> Json:
        lib.waiting.wait_until(lambda: self.state in ENDED, f"{self.id} ends", period_s=0.3)
        if self.state != "succeeded":
            raise AssertionError(f"{self.id} {self.state}")
        return self.row()


class FakeWatch:
    """Looks whenever time passes: lines come at once."""

    def __init__(self, world: World, _: str, period_s: float) -> None:
        self.progress = Progress()
        self._job, self._stopped = world.job, False
        run = self._job.run

        def run_and_look() -> None:
            run()
            if not self._stopped:
                self.progress.look(world.now, self._job.lines)
        self._job.run = run_and_look  # type: ignore[method-assign]

    def stop(self) -> None:
        self._stopped = True


class FakeDoubles:
    def __init__(self, world: World) -> None:
        self.found, self.loaded, self.looks = world.doubled, [], 7

    def __enter__(self) -> "FakeDoubles":
        return self

    def __exit__(self, *_: object) -> None:
        pass


@contextlib.contextmanager
def standing_in(world: World) -> Iterator[None]:
    with contextlib.ExitStack() as stack:
        for module, name, other in ((recovery, "time", world), (lib.waiting, "time", world), (recovery, "MigTest", FakeJob),
                                    (recovery, "Watch", FakeWatch), (recovery, "Doubles", FakeDoubles), (recovery, "Aim", lambda one: one),
                                    (recovery, "of_lab", lambda one: one)):
            stack.enter_context(mock.patch.object(module, name, other))
        stack.enter_context(mock.patch("os.getloadavg", lambda: (1.25, 0, 0)))
        yield
