"""The bench `migtest` on a lab that costs no time: what it does in which order, and that it finds what a job lost."""

from __future__ import annotations

import argparse
import json
import random
import unittest
from unittest import mock

from fake_lab import PHASES, Clock, FakeCluster, standing_in
import migtest
from caps import Caps
from partial import Partial
from regressions import AUTOMATIC, CHECKPOINT, GOODPUT, PRE_COPY, Row, results_of, text_of

MIB = 1 << 20
QUICK = argparse.Namespace(quick=True, seed=1, repeat=2, partial=Partial(None, {}))
MOVES = {"pre-copy": (30.0, 3.25), "": (9.0, 0.75)}


class Plan(unittest.TestCase):
    def test_how_many(self) -> None:
        quick = migtest.moves_of(True, 5, random.Random(1))
        self.assertEqual(sum(len(methods) for _, methods in quick), 6)
        full = migtest.moves_of(False, 2, random.Random(1))
        self.assertEqual(sum(len(methods) for _, methods in full), 28)

    def test_order_is_of_the_seed(self) -> None:
        plans = [migtest.moves_of(False, 2, random.Random(seed)) for seed in (1, 1, 2)]
        self.assertEqual(plans[0], plans[1])
        self.assertNotEqual(plans[0], plans[2])
        for plan in plans:
            self.assertEqual({cell for cell, _ in plan}, set(migtest.CELLS))
            for cell, methods in plan:
                self.assertEqual(sorted(methods), sorted(2 * list(cell.methods)))
        orders = {tuple(methods) for seed in range(9) for cell, methods in migtest.moves_of(False, 2, random.Random(seed))
                  if cell == migtest.CELLS[1]}
        self.assertGreater(len(orders), 1)

    def test_both_regressions_can_be_fitted(self) -> None:
        """Enough different sizes, and M, S and WWS that do not follow from each other."""
        rows: list[Row] = []
        for cell in migtest.CELLS:
            for method in cell.methods:
                value = random.Random(cell.name + method).uniform(1, 2)
                rows.append({"cell": cell.name, "method": method, "memory_bytes": cell.memory_mib * MIB, "strategy": "made",
                             "size_bytes": cell.size_mib * MIB, "wws_bytes": cell.wws_mib * MIB, "done": True, "load": 0,
                             "wire_s": 1, **dict.fromkeys(("added_job_time_s", "check_s", "transfer_s", "restart_s", "total_time_s",
                                                           "downtime_s", "sent_bytes"), value)})
        for method, fits in results_of(rows)["results"]["fits"].items():
            for quantity, found in fits.items():
                self.assertGreaterEqual(found["freedom"], 2, f"{method}, {quantity}")

    def test_it_fits_into_its_vm(self) -> None:
        for cell in (*migtest.CELLS, *migtest.QUICK_CELLS):
            self.assertLessEqual(cell.size_mib, cell.memory_mib - 128, cell.name)
            self.assertLessEqual(cell.wws_mib, cell.size_mib, cell.name)


class Moves(unittest.TestCase):
    def setUp(self) -> None:
        self.cluster = FakeCluster(Clock(), MOVES)

    def rows(self, options: argparse.Namespace = QUICK) -> list[Row]:
        options.partial.rows.clear()
        with standing_in(self.cluster):
            return migtest.all_moves(self.cluster, options)

    def test_what_the_job_lost_is_found(self) -> None:
        whole = PHASES.check_s + PHASES.transfer_s + PHASES.restart_s
        rows = self.rows()
        self.assertEqual(len(rows), 6)
        for row in rows:
            with self.subTest(cell=row["cell"], method=row["method"]):
                self.assertTrue(row["done"], row["reason"])
                lost, took = {CHECKPOINT: (whole, whole), PRE_COPY: (3.25, 30.0), AUTOMATIC: (0.75, 9.0)}[row["method"]]
                self.assertAlmostEqual(row["added_job_time_s"], lost, 3)
                self.assertAlmostEqual(row["noise_s"], 0, 3)
                self.assertAlmostEqual(row["total_time_s"], took, 6)
                self.assertAlmostEqual(row["usual_iteration_s"], 0.4, 4)
                self.assertEqual(row["load"], 1.25)
        by_hand = next(row for row in rows if row["method"] == CHECKPOINT)
        self.assertEqual((by_hand["check_s"], by_hand["transfer_s"], by_hand["restart_s"]), (1.5, 8.0, 0.5))
        self.assertAlmostEqual(by_hand["wire_s"], 90_000_000 / GOODPUT)
        ours = next(row for row in rows if row["method"] == AUTOMATIC)
        self.assertEqual(ours["strategy"], "hybrid")

    def test_the_last_rank_goes_to_a_third_host_and_comes_back(self) -> None:
        self.rows()
        submitted = [line for line in self.cluster.done if "/migrations" in line]
        self.assertEqual(len(submitted), 4)
        for line in submitted:
            self.assertIn("vms/migtest-1/migrations", line)
            self.assertIn("'destination': 'h3'", line)
        self.assertEqual(self.cluster.done.count("migrate migtest-1 h2 stop-and-copy"), 4)
        self.assertEqual(self.cluster.done.count("bring back migtest-1 h2"), 2)

    def test_plain_pre_copy_is_ended_after_three_memories_and_ours_is_free(self) -> None:
        self.rows()
        plain = [line for line in self.cluster.done if "'strategy': 'pre-copy'" in line]
        limit = 3 * 192 * MIB / GOODPUT
        self.assertEqual(len(plain), 2)
        for line in plain:
            self.assertIn(f"'time_limit_s': {limit}", line)
            self.assertIn("'at_limit': 'stop-and-copy'", line)
        free = [line for line in self.cluster.done if "/migrations" in line and line not in plain]
        self.assertEqual(free, ["POST vms/migtest-1/migrations {'destination': 'h3'}"] * 2)

    def test_each_move_is_on_the_slow_link_with_new_vms_for_each_cell(self) -> None:
        self.rows()
        self.assertEqual(self.cluster.done.count("rate 100mbit"), 6)
        self.assertEqual(sum(line.startswith("pool ") for line in self.cluster.done), 2)
        self.assertEqual(self.cluster.done[-1], "delete migtest")
        self.assertEqual(sum(line.startswith("clean ") for line in self.cluster.done), 4)

    def test_a_move_that_failed_is_a_row_that_does_not_count(self) -> None:
        self.cluster.refused = "the destination is full"
        rows = self.rows()
        failed = [row for row in rows if not row["done"]]
        self.assertEqual(len(failed), 4)
        self.assertEqual({row["reason"] for row in failed}, {"the destination is full"})
        self.assertEqual(results_of(rows)["results"]["not_done"], 4)

    def test_one_that_met_a_busy_machine_is_made_again(self) -> None:
        loads = iter([1.0, 7.0, 7.0, 1.0, *[1.0] * 20])
        with mock.patch.object(migtest, "one_move", lambda *_: {"load": next(loads)}):
            rows = [migtest.quiet_move(self.cluster, None, None, AUTOMATIC) for _ in range(2)]  # type: ignore[arg-type]
            self.assertEqual([row["load"] for row in rows], [1.0, 1.0])
            self.assertEqual(len(list(loads)), 20)
        always = iter(range(7, 99))
        with mock.patch.object(migtest, "one_move", lambda *_: {"load": next(always)}):
            self.assertEqual(migtest.quiet_move(self.cluster, None, None, AUTOMATIC)["load"], 7 + migtest.TRIES - 1)  # type: ignore[arg-type]

    def test_one_that_was_stopped_goes_on(self) -> None:
        before = self.rows()
        self.cluster = FakeCluster(Clock(), MOVES)
        for key in [key for key in QUICK.partial.rows if key.startswith(migtest.QUICK_CELLS[0].name)][1:]:
            del QUICK.partial.rows[key]
        with standing_in(self.cluster):
            after = migtest.all_moves(self.cluster, QUICK)
        self.assertEqual([row["cell"] for row in after], [row["cell"] for row in before])
        self.assertEqual(sum(line.startswith("pool ") for line in self.cluster.done), 1, "the other cell's are all there")

    def test_a_job_that_went_wrong_ends_the_bench(self) -> None:
        self.cluster.more_output = ["migtest: rank 1: iteration 7: content of page 3 is wrong"]
        with self.assertRaisesRegex(AssertionError, "content of page 3 is wrong"):
            self.rows()
        self.cluster = FakeCluster(Clock(), MOVES, more_output=["migtest: iteration=999999 start_us=1 duration_us=1"])
        with self.assertRaisesRegex(AssertionError, "lost or doubled"):
            self.rows()

    def test_the_whole_can_be_written_and_told(self) -> None:
        setup = migtest.setup_of(QUICK, Caps(0.5))
        found = results_of(self.rows())
        text = json.dumps({"setup": setup, **found})
        self.assertEqual(json.loads(text)["results"]["moves"], 6)
        self.assertIn("by hand", setup["methods"][CHECKPOINT])
        self.assertIn("too few different rows", text_of(found), "two cells are no plane")


if __name__ == "__main__":
    unittest.main()
