"""The bench `spread` on a lab that costs no time: where VMs go, what counts, and what a visiting job loses."""

from __future__ import annotations

import argparse
import contextlib
import pathlib
import tempfile
import types
import unittest
from typing import Any, Iterator
from unittest import mock

from fake_lab import Clock
import lib.waiting
import spread
import tables
from lib.cluster import Json

HOSTS = ["h1", "h2", "h3", "h4"]
PACE_S = 0.125
#: Of a change: how long it takes, and what it costs the job.
TAKES_S, COSTS_S = 12.0, 2.5
RIGHT = "00000000deadbeef"


class Heat:
    """Steps by the clock; its lines come with the clock's own time."""

    def __init__(self, clock: Clock, steps: int) -> None:
        self.clock, self.steps = clock, steps
        self.done, self._next = 0, clock.now + PACE_S
        self.lines: list[Any] = []

    def lose(self, seconds: float) -> None:
        self.run()
        self._next += seconds

    def run(self) -> None:
        while self._next <= self.clock.now and self.done < self.steps:
            self.done += 1
            if self.done % spread.REPORT_EVERY == 0:
                self._say(f"heat: step={self.done} duration_us=1")
            if self.done == self.steps:
                self._say(f"heat: ranks=8 nx=1 ny=1 steps={self.steps} checksum={RIGHT} elapsed_us=1")
            self._next += PACE_S

    def _say(self, text: str) -> None:
        self.lines.append(types.SimpleNamespace(arrived=self._next, text=text))


class FakeCluster:
    def __init__(self, clock: Clock, state: pathlib.Path) -> None:
        #: How mared was ended and started.
        self.mareds: list[list[str]] = []
        self.clock, self.state = clock, state
        self.hosts = HOSTS
        self.memory_mib = spread.HOST_MEMORY_MIB
        self.vms: dict[str, str] = {}
        self.heat: Heat | None = None
        self.jobs = 0
        self.moved: list[str] = []
        self.asked: list[tuple[str, Json]] = []
        self.clean: list[str] = []
        self.outcome = "succeeded"
        self.cancelled = False

    def items(self, path: str) -> list[Json]:
        if path == "hosts":
            return [{"id": host, "cpus": 2, "memory_mib": self.memory_mib} for host in self.hosts]
        if path.startswith("operations?"):
            return [{"request": {"plan": {"moves": [1, 2, 3], "added_job_time_s": 1.5, "gain_s": 60.0}}}]
        return [{"id": vm, "host": host} for vm, host in self.vms.items()]

    def kill_mared(self) -> None:
        self.mareds.append(["killed"])

    def start_mared(self) -> None:
        self.mareds.append([])

    def start_mared_with(self, failpoints: str, *options: str) -> str:
        self.mareds.append(list(options))
        return "mared"

    def crowding_vcpus(self) -> int:
        return 1

    def ensure_pool(self, name: str, size: int, memory_mib: int, vcpus: int) -> list[str]:
        self.vms = {f"{name}-{i}": HOSTS[i % 4] for i in range(size)}
        return list(self.vms)

    def delete_pool(self, _: str) -> None:
        self.vms = {}

    def submit(self, method: str, path: str, body: Json = None) -> Json:
        if path == "jobs":
            self.jobs += 1
            (self.state / "jobs" / f"job-{self.jobs}").mkdir(parents=True)
            (self.state / "jobs" / f"job-{self.jobs}" / "output").touch()
            self.cancelled = False
            self.heat = Heat(self.clock, int(body["command"][body["command"].index("--steps") + 1]))
            return {"target": f"job-{self.jobs}"}
        if path.endswith("/migrations"):
            vm = path.split("/")[1]
            self.moved.append(vm)
            self.vms[vm] = body["destination"]
            return {"id": "op-move"}
        if path.endswith(":cancel"):
            self.cancelled = True
            return {"id": "op-cancel"}
        self.asked.append((path, body))
        assert self.heat
        self.heat.lose(COSTS_S)
        self.clock.sleep(TAKES_S)
        if self.outcome == "succeeded":
            self.vms = {vm: HOSTS[i % body["hosts"]] for i, vm in enumerate(self.vms)}
        return {"id": "op-layout"}

    def ended(self, operation: str) -> Json:
        return {"id": operation, "outcome": self.outcome, "reason": "it is said so"}

    def finish(self, _: Json, outcome: str = "succeeded") -> None:
        assert outcome == "succeeded" or self.cancelled

    def get(self, _: str) -> Json:
        assert self.heat
        self.heat.run()
        state = "cancelled" if self.cancelled else "succeeded" if self.heat.done == self.heat.steps else "running"
        return {"state": state, "reason": None}

    def status(self) -> Json:
        return {"rate": "1gbit"}

    def program(self, name: str) -> str:
        return name

    def assert_runs_once(self, vm: str) -> str:
        return self.vms[vm]

    def assert_clean(self, vm: str) -> None:
        self.clean.append(vm)

    def qemus(self) -> list[str]:
        return sorted(self.vms)


class FakeTail:
    cluster: FakeCluster

    def __init__(self, _: object) -> None:
        assert FakeTail.cluster.heat
        self._heat = FakeTail.cluster.heat

    @property
    def lines(self) -> list[Any]:
        self._heat.run()
        return self._heat.lines

    def stop(self) -> None:
        pass


class NoCaps:
    def __init__(self, share: float) -> None:
        self.share = share

    def stated(self) -> dict[str, Any]:
        return {"vcpu_share_of_a_core": self.share}

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        pass


@contextlib.contextmanager
def standing_in(cluster: FakeCluster) -> Iterator[None]:
    FakeTail.cluster = cluster
    with mock.patch.object(spread, "time", cluster.clock), mock.patch.object(lib.waiting, "time", cluster.clock), \
            mock.patch.object(spread, "Tail", FakeTail), mock.patch.object(spread, "Caps", NoCaps), \
            mock.patch.object(spread.Plate, "right", lambda *_: RIGHT), mock.patch("os.getloadavg", lambda: (1.25, 0, 0)), \
            mock.patch.object(spread, "kill", lambda one: cluster.mareds.append([f"ended {one}"])):
        yield


class Layout(unittest.TestCase):
    def test_equal_blocks(self) -> None:
        self.assertEqual(spread.layout_of(2, HOSTS), ["h1"] * 4 + ["h2"] * 4)
        self.assertEqual(spread.layout_of(4, HOSTS), ["h1", "h1", "h2", "h2", "h3", "h3", "h4", "h4"])
        self.assertEqual(spread.layout_of(1, HOSTS), ["h1"] * 8)

    def test_steps(self) -> None:
        self.assertEqual(spread.steps_for(0.125, 300), 2400)
        self.assertEqual(spread.steps_for(0.13, 300), 2325)
        self.assertEqual(spread.steps_for(1000, 300), spread.REPORT_EVERY)

    def test_counting_begins_with_a_line_that_came_later(self) -> None:
        lines: Any = [types.SimpleNamespace(arrived=at, text=text) for at, text in
                      ((1.0, "heat: step=10 duration_us=5"), (2.0, "a word"), (2.5, "heat: step=20 duration_us=5"))]
        self.assertEqual(spread.first_after(lines, 1.5), (20, 2.5))
        self.assertIsNone(spread.first_after(lines, 3))


class Runs(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.cluster = FakeCluster(Clock(), pathlib.Path(folder.name))

    def run_it(self, quick: bool, repeat: int = 2) -> dict[str, Any]:
        with standing_in(self.cluster):
            return spread.run(self.cluster, argparse.Namespace(quick=quick, repeat=repeat))  # type: ignore[arg-type]

    def test_what_the_moves_cost_is_found(self) -> None:
        found = self.run_it(False, 3)
        results = found["results"]
        self.assertEqual(len(results["rows"]), 6)
        for pair in results["pairs"]:
            self.assertAlmostEqual(pair["added_s"], 2 * COSTS_S, 6)
            self.assertAlmostEqual(pair["added_fraction"], 2 * COSTS_S / pair["staying_s"], 6)
            self.assertEqual(pair["forecast_added_s"], 3.0)
            self.assertAlmostEqual(pair["staying_s"], spread.JOB_S, delta=8)
        self.assertAlmostEqual(results["noise_fraction"], 0, 6)
        bar = found["bars"]["spread_added_fraction"]
        self.assertAlmostEqual(bar["value"], 5 / spread.JOB_S, delta=0.0006)
        self.assertTrue(bar["holds"])
        self.assertEqual(found["bars"]["wrong_jobs"], {"value": 0, "bar": 0, "unit": "count", "holds": True})
        self.assertEqual([row["visiting"] for row in results["rows"]], [True, False] * 3)
        self.assertEqual(sorted(set(self.cluster.clean)), [f"spread-{i}" for i in range(8)])
        self.assertEqual(found["setup"]["places_tried"], [2, 4, 1])
        self.assertEqual(found["setup"]["caps"]["vcpu_share_of_a_core"], spread.VCPU_SHARE)

    def test_what_is_asked_for(self) -> None:
        self.run_it(True)
        (first, spread_body), (second, pack_body) = self.cluster.asked
        self.assertEqual((first, second), ("jobs/job-2:spread", "jobs/job-2:pack"))
        self.assertEqual(self.cluster.mareds, [["killed"], spread.MARED, ["ended mared"], []], "the lab's own is put back")
        self.assertEqual((spread_body["hosts"], spread_body["force"]), (4, False))
        self.assertAlmostEqual(spread_body["remaining_s"], 0.9 * spread.QUICK_JOB_S, delta=5)
        self.assertEqual((pack_body["hosts"], pack_body["force"]), (1, True))
        self.assertLess(pack_body["remaining_s"], spread_body["remaining_s"])

    def test_a_change_that_is_refused_ends_the_bench(self) -> None:
        self.cluster.outcome = "failed"
        with self.assertRaisesRegex(AssertionError, "spread of job-2.* failed.*it is said so"):
            self.run_it(True)

    def test_a_job_that_ends_too_soon_ends_the_bench(self) -> None:
        with mock.patch.object(spread, "QUICK_JOB_S", 15), self.assertRaisesRegex(AssertionError, "it has to be longer"):
            self.run_it(True)

    def test_a_lab_that_is_too_small(self) -> None:
        self.cluster.memory_mib = 2048
        with self.assertRaisesRegex(AssertionError, "4 hosts with 4096 MiB each"):
            self.run_it(True)


class Results(unittest.TestCase):
    @staticmethod
    def row(visiting: bool, job_s: float, load: float = 1.0, checksum: str = RIGHT, lost_s: float | None = 0.5) -> spread.Row:
        return {"job": f"job-{job_s}", "visiting": visiting, "counted_steps": 1000, "job_s": job_s, "load": load, "checksum": checksum,
                "machine_loop_ms": 1.5 if visiting else 1.0, "from_hosts": 2, "changes": [{"forecast_added_s": 1.0, "lost_s": lost_s}] * 2 if visiting else []}

    def test_a_wrong_checksum_is_told(self) -> None:
        found = spread.results_of([], [self.row(True, 101, checksum="0"), self.row(False, 100)], RIGHT)
        self.assertEqual(found["results"]["wrong_jobs"], ["job-101"])
        self.assertFalse(found["bars"]["wrong_jobs"]["holds"])

    def test_too_slow(self) -> None:
        """By what the changes cost, whatever the runs took."""
        found = spread.results_of([], [self.row(True, 103, lost_s=1.5), self.row(False, 103)], RIGHT)
        self.assertAlmostEqual(found["bars"]["spread_added_fraction"]["value"], 0.03)
        self.assertAlmostEqual(found["results"]["added_fraction"], 0)
        self.assertFalse(found["bars"]["spread_added_fraction"]["holds"])

    def test_a_cost_that_is_not_known_is_not_nothing(self) -> None:
        bar = spread.results_of([], [self.row(True, 101, lost_s=None), self.row(False, 100)], RIGHT)["bars"]["spread_added_fraction"]
        self.assertEqual((bar["value"], bar["holds"]), (None, False))

    def test_pairs_of_a_busy_machine_do_not_count(self) -> None:
        rows = [self.row(True, 101), self.row(False, 100), self.row(True, 190), self.row(False, 100, load=9.0)]
        found = spread.results_of([], rows, RIGHT)
        self.assertEqual(found["results"]["dropped_for_load"], 1)
        self.assertAlmostEqual(found["bars"]["spread_added_fraction"]["value"], 0.01)
        nothing = spread.results_of([], rows[2:], RIGHT)
        self.assertIsNone(nothing["bars"]["spread_added_fraction"]["value"])
        self.assertFalse(nothing["bars"]["spread_added_fraction"]["holds"])

    def test_runs_of_other_lengths_are_compared_by_the_step(self) -> None:
        rows = [self.row(True, 101), {**self.row(False, 50), "counted_steps": 500}]
        self.assertAlmostEqual(spread.pairs_of(rows)[0]["added_fraction"], 0.01)

    def test_a_machine_that_was_slower_under_one_of_them_is_told(self) -> None:
        rows = [self.row(True, 150), self.row(False, 100)]
        self.assertAlmostEqual(spread.pairs_of(rows)[0]["machine_ratio"], 1.5)
        self.assertIsNone(spread.pairs_of([rows[0], {**rows[1], "machine_loop_ms": None}])[0]["machine_ratio"])


class Table(unittest.TestCase):
    def test_pairs(self) -> None:
        rows = [Results.row(True, 101), Results.row(False, 100)]
        report = {"bench": "spread", "commit": None, "setup": {},
                  "machine": {"cores": 2, "kernel": "0", "load_before": 0, "load_after": 0},
                  **spread.results_of([Results.row(False, 10)], rows, RIGHT)}
        text = tables.section(report)
        self.assertIn("| 101.0 | 100.0 | 1.00 | 1.00% | 1.00 | 1.00% | 2.00 | 50% | yes |", text)


if __name__ == "__main__":
    unittest.main()
