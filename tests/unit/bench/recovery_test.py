"""The campaign on a cluster whose times are known: when it strikes, and whether it finds the times again."""

from __future__ import annotations

import argparse
import json
import unittest

import fake_kills
import paths  # noqa: F401
import recovery
from fake_kills import BEGINS_S, MARED_AWAY_S, NOTICED_S, PACE_S, RESTORE, World, standing_in
from kills import AGENT, CHECKPOINT, CUT, HOST, KINDS, MARED, MOMENTS, RESTART, VM, WORK, Kill, Row
from lib.migtest import Shape
from partial import Partial
from recovery import Campaign

SHAPE = Shape(ranks=2, iterations=400)
BACK_S = NOTICED_S + BEGINS_S + sum(lasts for _, lasts in RESTORE) + PACE_S
#: Of what is looked at in steps.
STEP = 0.1


def kill_of(kind: str, moment: str, state: str = "Loading", when: float = 0.5) -> Kill:
    return Kill(1, kind, moment, 1, 0, when, state)


class Kills(unittest.TestCase):
    def setUp(self) -> None:
        self.world = World()

    def run_one(self, kill: Kill, shape: Shape = SHAPE) -> Row:
        with standing_in(self.world):
            return Campaign(self.world, Partial(None, {})).kill(kill, shape)  # type: ignore[arg-type]

    def test_every_kind_at_every_moment_comes_back(self) -> None:
        for kind in KINDS:
            for moment in MOMENTS:
                with self.subTest(kind=kind, moment=moment):
                    self.world = World()
                    row = self.run_one(kill_of(kind, moment))
                    self.assertEqual((row["survived"], row["reason"], row["doubled"]), (True, None, []))
                    second = moment == RESTART or kind == MARED
                    self.assertEqual([one[1] for one in self.world.struck], ([VM] if second else []) + [kind])
                    self.assertEqual(row["strikes"], len(self.world.struck))
                    self.assertEqual(row["restarts"], 1)
                    json.dumps(row)

    def test_what_a_kill_costs_is_found(self) -> None:
        row = self.run_one(kill_of(VM, WORK))
        self.assertAlmostEqual(row["detection_s"], NOTICED_S, delta=STEP)
        self.assertAlmostEqual(row["recovery_s"], BACK_S, delta=STEP)
        struck, job = self.world.struck[0][0], self.world.jobs[-1]
        recovered = next(one for one in job.operations if one["kind"] == "recovery.run")
        self.assertAlmostEqual(row["redone_s"], struck - job.cuts[recovered["request"]["checkpoint"]], delta=1e-3)
        self.assertAlmostEqual(row["redone_iterations"] * PACE_S, row["redone_s"], delta=2 * PACE_S)
        self.assertAlmostEqual(row["total_s"], SHAPE.iterations * PACE_S + row["redone_s"] + BACK_S, delta=3 * PACE_S)

    def test_a_host_is_noticed_by_its_silence(self) -> None:
        row = self.run_one(kill_of(HOST, WORK))
        self.assertAlmostEqual(row["detection_s"], NOTICED_S - 0.2, delta=STEP)
        self.assertEqual((row["hosts"], row["victims"]), (["h2"], ["recovery-1"]))

    def test_a_kill_in_a_checkpoint_is_in_one_and_goes_back_to_the_one_before(self) -> None:
        row = self.run_one(kill_of(CUT, CHECKPOINT))
        job = self.world.jobs[-1]
        takes = [one["outcome"] for one in job.operations if one["kind"] == "checkpoint.take"]
        self.assertEqual(takes[:2], ["succeeded", "failed"])
        self.assertGreater(row["redone_s"], recovery.EVERY_S - fake_kills.CUT_S)

    def test_a_kill_between_two_is_in_none(self) -> None:
        # By its draw alone it would come 0.9 s after the beginning of one.
        self.run_one(kill_of(AGENT, WORK, when=0.8))
        takes = [one["outcome"] for one in self.world.jobs[-1].operations if one["kind"] == "checkpoint.take"]
        self.assertNotIn("failed", takes)

    def test_the_second_kill_comes_in_its_state_and_time_counts_from_it(self) -> None:
        for state in ("Clearing", "Loading", "Resuming"):
            with self.subTest(state=state):
                self.world = World()
                row = self.run_one(kill_of(VM, RESTART, state))
                self.assertEqual(row["struck_in"], state)
                self.assertAlmostEqual(row["recovery_s"], BACK_S, delta=STEP)
                self.assertIsNone(row["detection_s"])
                self.assertAlmostEqual(row["first_detection_s"], NOTICED_S, delta=STEP)

    def test_mared_is_killed_when_the_recovery_is_there(self) -> None:
        row = self.run_one(kill_of(MARED, WORK))
        first, second = self.world.struck
        self.assertAlmostEqual(second[0] - first[0], NOTICED_S, delta=STEP)
        self.assertAlmostEqual(row["recovery_s"], BACK_S - NOTICED_S + MARED_AWAY_S, delta=STEP)

    def test_one_that_does_not_come_back_is_a_row_and_leaves_nothing(self) -> None:
        self.world.hopeless = True
        for kill in (kill_of(VM, WORK), kill_of(HOST, RESTART)):
            row = self.run_one(kill)
            self.assertFalse(row["survived"])
            self.assertIn("failed", row["reason"])
            self.assertIsNone(row["recovery_s"])
            self.assertEqual(self.world.done[-1], "delete pool")

    def test_a_double_is_told(self) -> None:
        self.world.doubled.append("recovery-0: h1, h2")
        self.assertEqual(self.run_one(kill_of(VM, WORK))["doubled"], ["recovery-0: h1, h2"])

    def test_a_job_that_was_too_short_is_run_again_longer(self) -> None:
        row = self.run_one(kill_of(VM, CHECKPOINT), Shape(ranks=2, iterations=100))
        lengths = [job.shape.iterations for job in self.world.jobs[1:]]
        self.assertEqual(lengths, [100, 150])
        self.assertTrue(row["survived"])
        with self.assertRaisesRegex(AssertionError, "ended before they were struck"):
            self.run_one(kill_of(VM, CHECKPOINT), Shape(ranks=2, iterations=30))

    def test_everything_is_mended_and_looked_at_after_each(self) -> None:
        self.run_one(kill_of(CUT, WORK))
        self.assertEqual(self.world.done[-3:], ["restore", "once recovery-0", "once recovery-1"])


class Whole(unittest.TestCase):
    def test_a_campaign_and_its_curve(self) -> None:
        world, partial = World(), Partial(None, {})
        options = argparse.Namespace(partner=False, percents=None, quick=True, kills=50, seed=3, partial=partial)
        world.without_pools = lambda: None  # type: ignore[attr-defined]
        with standing_in(world):
            found = recovery.run(world, options)  # type: ignore[arg-type]
        self.assertEqual(found["bars"]["kills_survived"]["value"], recovery.QUICK_KILLS)
        self.assertTrue(found["bars"]["kills_survived"]["holds"] and found["bars"]["recovery_s"]["holds"])
        ninety = found["results"]["curve"][0]
        self.assertAlmostEqual(ninety["share"], 0.9, delta=0.03)
        self.assertAlmostEqual(found["baselines"]["run_s"], recovery.QUICK_CURVE_S, delta=1)
        self.assertEqual(len(partial.rows), recovery.QUICK_KILLS + 3)
        before = len(world.jobs)
        with standing_in(world):
            again = recovery.run(world, options)  # type: ignore[arg-type]
        self.assertEqual(len(world.jobs), before, "a run that is gone on with repeats nothing")
        self.assertEqual(again, found)


if __name__ == "__main__":
    unittest.main()
