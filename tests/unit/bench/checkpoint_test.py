"""Pairs with and without checkpoints: which are run, which count, what is told."""

from __future__ import annotations

import json
import random
import threading
import unittest
from typing import Any
from unittest import mock

import paths
import checkpoint
import lib.waiting
from checkpoint import FULL, HEAT, INCREMENTAL, LOAD_LIMIT, MATMUL, PROGRAMS, Pair, modes_of, pairs, results_of, verdict_of
from fake_lab import Clock
from made import pair_rows, run_row
from partial import Partial
from workloads import report


def api_with(**more: Any) -> Any:
    return {"components": {"schemas": {"JobCreate": {"properties": {
        "pool": {"type": "string"}, "checkpoint_every_s": {"type": "number"},
        "checkpoint_rule": {"type": "string", "enum": ["never", "every", "optimal"]},
        "checkpoints_kept": {"type": "integer", "default": 2}, **more}}}}}


class Modes(unittest.TestCase):
    def test_without_a_choice(self) -> None:
        self.assertEqual(modes_of(api_with()), {FULL: {}})

    def test_by_a_word_a_switch_or_a_number(self) -> None:
        self.assertEqual(modes_of(api_with(checkpoint_kind={"type": "string", "enum": ["full", "incremental"]})),
                         {FULL: {"checkpoint_kind": "full"}, INCREMENTAL: {"checkpoint_kind": "incremental"}})
        self.assertEqual(modes_of(api_with(checkpoint_incremental={"type": "boolean"})),
                         {FULL: {"checkpoint_incremental": False}, INCREMENTAL: {"checkpoint_incremental": True}})
        self.assertEqual(modes_of(api_with(checkpoint_full_every={"type": "integer", "default": 8})),
                         {FULL: {"checkpoint_full_every": 1}, INCREMENTAL: {"checkpoint_full_every": 8}})

    def test_what_this_tree_serves_is_understood(self) -> None:
        served = json.loads((paths.ROOT / "rest" / "openapi.json").read_text(encoding="utf-8"))
        known = served["components"]["schemas"]["JobCreate"]["properties"]
        found = modes_of(served)
        self.assertIn(FULL, found)
        for more in found.values():
            self.assertLessEqual(set(more), set(known))


class Plan(unittest.TestCase):
    def test_in_full(self) -> None:
        plan = pairs(False, 2, [FULL], random.Random(1))
        count = {every_s: sum(pair.every_s == every_s for pair in plan) for every_s in (10, 60, 600)}
        self.assertEqual(count, {10: 2 * len(PROGRAMS), 60: 2 * len(PROGRAMS), 600: 3})
        self.assertTrue(all(pair.length_s > pair.every_s for pair in plan), "a checkpoint fits in")
        self.assertEqual(len({pair.key for pair in plan}), len(plan))

    def test_pairs_of_a_cell_follow_each_other_and_kinds_take_turns(self) -> None:
        plan = pairs(False, 2, [FULL, INCREMENTAL], random.Random(1))
        cells = [(pair.program.name, pair.every_s) for pair in plan]
        self.assertEqual(sum(one != other for one, other in zip(cells, cells[1:])) + 1, len(set(cells)))
        mine = [(pair.number, pair.mode) for pair in plan if (pair.program, pair.every_s) == (MATMUL, 10)]
        self.assertEqual(mine, [(1, FULL), (1, INCREMENTAL), (2, FULL), (2, INCREMENTAL)])

    def test_a_quick_one_takes_minutes_and_knows_the_bars_interval(self) -> None:
        for modes in ([FULL], [FULL, INCREMENTAL]):
            plan = pairs(True, 5, modes, random.Random(1))
            self.assertLess(sum(2 * pair.length_s for pair in plan), 480)
            self.assertEqual({pair.every_s for pair in plan}, {10, 60})

    def test_runs_with_one_checkpoint_each_are_full(self) -> None:
        plan = pairs(False, 2, [FULL, INCREMENTAL], random.Random(1), (600,))
        self.assertEqual([pair.mode for pair in plan], [FULL] * 3)

    def test_side_by_side_guests_have_half_of_the_share(self) -> None:
        by_turns, beside = (Pair(MATMUL, every_s, 1.0, FULL, 1).share for every_s in (60, 600))
        self.assertEqual(beside, by_turns / 2)

    def test_some_of_the_intervals(self) -> None:
        plan = pairs(False, 1, [FULL], random.Random(1), (10, 60))
        self.assertEqual({pair.every_s for pair in plan}, {10, 60})
        self.assertEqual({pair.key for pair in plan}, {pair.key for pair in pairs(False, 1, [FULL], random.Random(1)) if pair.every_s < 600})

    def test_work_is_a_whole_number_of_lines(self) -> None:
        self.assertEqual(HEAT.units(45, 0.0071), 6340)
        self.assertEqual(HEAT.units(0.1, 0.0071), HEAT.trial)
        self.assertEqual(MATMUL.with_work(7)[-2:], ["--products", "7"])


class Verdicts(unittest.TestCase):
    def test_lines_of_the_programs(self) -> None:
        self.assertEqual(verdict_of(["heat: step=10 duration_us=1", "heat: ranks=2 nx=4 ny=4 steps=10 checksum=00ab elapsed_us=9"]), ("00ab", True))
        self.assertEqual(verdict_of(["matmul: ranks=2 n=4 products=1 checksum=12 verified=no elapsed_us=9"]), ("12", False))
        self.assertEqual(verdict_of(["matmul: product=1 duration_us=9"]), ("", False))


class Results(unittest.TestCase):
    def test_all_pairs_together(self) -> None:
        found = results_of([*pair_rows("a", 100.0, 101.0), *pair_rows("b", 200.0, 201.0, program="heat", checksum="cd")])
        self.assertAlmostEqual(found["results"]["overhead_percent"][FULL]["60"], 100 * 2 / 300)
        self.assertAlmostEqual(found["bars"]["overhead_60s"]["value"], 100 * 0.5 / 60)
        self.assertEqual({name: one["holds"] for name, one in found["bars"].items()},
                         dict.fromkeys(("gang_pause_p50_ms", "gang_skew_ms", "overhead_60s", "wrong_jobs"), True))
        matmul, heat = found["results"]["cells"]
        self.assertEqual((matmul["program"], heat["program"]), ("matmul", "heat"))
        self.assertAlmostEqual(matmul["added_per_checkpoint_s"], 0.5)
        self.assertEqual(matmul["pause_ms"]["median"], 50.0)

    def test_a_pair_counts_whole_or_not(self) -> None:
        good = pair_rows("a", 100.0, 101.0)
        loaded = pair_rows("b", 100.0, 150.0)
        loaded[0]["load"] = LOAD_LIMIT + 0.1
        without_any = pair_rows("c", 100.0, 150.0)
        without_any[1]["checkpoints"] = []
        failed = pair_rows("d", 100.0, 150.0)
        failed[1] |= {"right": False, "reason": "exit code 1"}
        found = results_of([*good, *loaded, *without_any, *failed, run_row("e", False, 50.0)])
        self.assertAlmostEqual(found["results"]["overhead_percent"][FULL]["60"], 1.0)
        self.assertEqual((found["results"]["pairs_counted"], found["results"]["dropped_for_load"]), (1, 1))
        self.assertEqual(len(found["results"]["rows"]), 9, "but they are kept")
        self.assertEqual(found["bars"]["wrong_jobs"]["value"], 1)

    def test_another_result_with_checkpoints_is_wrong(self) -> None:
        rows = pair_rows("a", 100.0, 100.5)
        rows[1]["checksum"] = "ba"
        self.assertEqual(results_of(rows)["bars"]["wrong_jobs"], {"value": 1, "bar": 0, "unit": "count", "holds": False})

    def test_kinds_have_bars_of_their_own(self) -> None:
        found = results_of([*pair_rows("a", 100.0, 103.0), *pair_rows("b", 100.0, 100.5, mode=INCREMENTAL)])["bars"]
        self.assertFalse(found["overhead_60s"]["holds"])
        self.assertTrue(found["overhead_60s_incremental"]["holds"])

    def test_what_checkpoints_cost_is_of_right_and_quiet_runs_and_a_mean(self) -> None:
        good = [*pair_rows("a", 100.0, 101.0), *pair_rows("b", 100.0, 100.2)]
        loaded, failed = pair_rows("c", 100.0, 150.0), pair_rows("d", 100.0, 150.0)
        loaded[1]["load"] = LOAD_LIMIT + 0.1
        failed[1]["right"] = False
        unseen = pair_rows("e", 100.0, 100.0)
        for one in unseen[1]["checkpoints"]:
            one["lost_s"] = None
        found = results_of([*good, *loaded, *failed, *unseen])
        self.assertAlmostEqual(found["results"]["lost_percent"][FULL]["60"], 100 * (2 * 0.5 + 2 * 0.1) / 4 / 60)

    def test_what_one_cost_is_seen_in_the_pace_around_it(self) -> None:
        # A line each 0.25 s, and 0.3 s lost within a checkpoint from 1000 to 1001.5.
        told = [990 + 0.25 * i + (0.3 if 0.25 * i > 10.5 else 0) for i in range(100)]
        one = {"id": "ck-1", "pause_ms": 1.0, "skew_ms": 1.0, "size_bytes": 1, "written_bytes": 1, "base": None, "began": "1970-01-01T00:16:40Z",
               "completed": "1970-01-01T00:16:41.500000Z"}
        self.assertAlmostEqual(checkpoint.of_checkpoint(one, told, 5.0)["lost_s"], 0.3, 6)
        self.assertIsNone(checkpoint.of_checkpoint(one, told[:45], 5.0)["lost_s"])

    def test_a_jobs_first_checkpoint_is_no_incremental_one(self) -> None:
        for mode, written in ((FULL, 1e8), (INCREMENTAL, 5e7)):
            cell, = results_of(pair_rows("a", 100.0, 101.0, mode=mode))["results"]["cells"]
            self.assertEqual(cell["written_bytes"]["median"], written)

    def test_nothing_measured_holds_nothing_of_time(self) -> None:
        bars = results_of([])["bars"]
        self.assertEqual([name for name, one in bars.items() if one["holds"]], ["wrong_jobs"])
        self.assertEqual(set(bars), {"gang_pause_p50_ms", "gang_skew_ms", "overhead_60s", "wrong_jobs"})


class BesideEachOther:
    """A cluster in which a run ends only when the other one of its pair has begun."""

    def __init__(self) -> None:
        self.pools: dict[str, str] = {}
        self.meeting = threading.Barrier(2, timeout=20)

    def run(self, cluster: Any, program: Any, units: int, more: Any, pool: str) -> Any:
        self.meeting.wait()
        kind = "trial" if units == 5 * program.trial else "with" if more else "without"
        self.pools[f"{kind} in {pool}"] = pool
        # The other pool's guests are slower.
        return {"right": True, "seconds": 5.0 if pool == "checkpoint" else 10.0, "lines": 11, "units": units, "load": 1.0, "checkpoints": []}


class FakeCluster:
    """Jobs whose lines and checkpoints come by the clock."""

    state = "made"
    PACE_S, EACH_S = 0.25, 0.4

    def __init__(self, clock: Clock) -> None:
        self.clock, self.begun, self.body = clock, 0.0, {}
        self.bodies: list[Any] = []

    def program(self, name: str) -> str:
        return name

    def submit(self, method: str, path: str, body: Any) -> Any:
        self.body, self.begun = body, self.clock.now
        self.bodies.append(body)
        return {"target": f"job-{len(self.bodies)}"}

    def units(self) -> int:
        return int(self.body["command"][-1])

    def line_at(self, unit: int) -> float:
        every = self.body.get("checkpoint_every_s")
        plain = unit * self.PACE_S
        return self.begun + plain + (self.EACH_S * int(plain // every) if every else 0)

    def get(self, path: str) -> Any:
        over = self.clock.now >= self.line_at(self.units()) + 1
        return {"state": "succeeded" if over else "running", "reason": None}

    def items(self, path: str) -> list[Any]:
        every = self.body.get("checkpoint_every_s")
        taken = int((self.clock.now - self.begun) // every) if every else 0
        if path.startswith("operations"):
            return [{"outcome": "succeeded"}] * taken
        began, done = "2026-11-21T04:00:00Z", "2026-11-21T04:00:01.500000Z"
        kept = range(max(1, taken - 1), taken + 1)  # the newest two
        return [{"id": f"ck-{i}", "state": "complete", "pause_ms": 50.0 + i, "skew_ms": 5.0, "size_bytes": 1000, "written_bytes": 100,
                 "base": None, "began": began, "completed": done} for i in kept]


class FakeTail:
    def __init__(self, cluster: FakeCluster) -> None:
        self.cluster = cluster

    def stop(self) -> None:
        pass

    @property
    def lines(self) -> list[report.Line]:
        count = self.cluster.units()
        told = [report.Line(self.cluster.line_at(i), f"matmul: product={i} duration_us=1") for i in range(1, count + 1)]
        return [*told, report.Line(told[-1].arrived, f"matmul: ranks=2 n=160 products={count} checksum=ab verified=yes elapsed_us=1")]


class Measured(unittest.TestCase):
    def test_a_pair(self) -> None:
        clock, partial = Clock(), Partial(None, {})
        cluster = FakeCluster(clock)
        pair = Pair(MATMUL, 10, 45.0, INCREMENTAL, 1)
        with mock.patch.object(lib.waiting, "time", clock), mock.patch.object(checkpoint, "Tail", lambda _: FakeTail(cluster)), \
                mock.patch.object(checkpoint.pathlib.Path, "exists", lambda _: True), mock.patch("os.getloadavg", lambda: (1.0, 0, 0)):
            without, having = checkpoint.measure(cluster, partial, pair, {"checkpoint_kind": "incremental"})  # type: ignore[arg-type]
            again = checkpoint.measure(cluster, partial, pair, {"checkpoint_kind": "incremental"})  # type: ignore[arg-type]
        self.assertEqual(again, [without, having])
        self.assertEqual(len(cluster.bodies), 3, "a trial and the two runs, once")
        self.assertNotIn("checkpoint_every_s", cluster.bodies[1])
        self.assertEqual({name: cluster.bodies[2][name] for name in ("checkpoint_every_s", "checkpoint_kind", "ranks")},
                         {"checkpoint_every_s": 10, "checkpoint_kind": "incremental", "ranks": 2})
        self.assertEqual(without["units"], 180)
        self.assertAlmostEqual(having["seconds"] - without["seconds"], 4 * FakeCluster.EACH_S, 6)
        self.assertEqual([one["id"] for one in having["checkpoints"]], ["ck-1", "ck-2", "ck-3", "ck-4"], "also those that were not kept")
        self.assertEqual(having["checkpoints"][0]["took_s"], 1.5)
        cell, = results_of([without, having])["results"]["cells"]
        self.assertAlmostEqual(cell["added_per_checkpoint_s"], FakeCluster.EACH_S, 6)

    def test_side_by_side(self) -> None:
        both = BesideEachOther()
        pair = Pair(MATMUL, 600, 660.0, FULL, 1)
        with mock.patch.object(checkpoint, "one_run", both.run):
            rows = checkpoint.measure(None, Partial(None, {}), pair, {}, ("checkpoint", "checkpoint-beside"))  # type: ignore[arg-type]
        self.assertEqual(set(both.pools), {"trial in checkpoint", "trial in checkpoint-beside", "without in checkpoint", "with in checkpoint-beside"})
        self.assertEqual([row["checkpoints_wanted"] for row in rows], [False, True])
        self.assertEqual([row["units"] for row in rows], [660] * 2, "the same work, by the slower pace")


if __name__ == "__main__":
    unittest.main()
