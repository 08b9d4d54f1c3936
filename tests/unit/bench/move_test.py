"""The order of the runs, and that one which was stopped goes on without what it has."""

from __future__ import annotations

import argparse
import random
import tempfile
import unittest
from pathlib import Path
from unittest import mock

import paths  # noqa: F401
import move
from by_hand import Figures, figures_in
from partial import Partial


class Turns(unittest.TestCase):
    def test_each_method_has_as_many_as_asked_for(self) -> None:
        few, more = (dict(move.turns(random.Random(1), repeat, repeat)) for repeat in (1, 3))
        self.assertEqual(len(few), len(move.METHODS) + 4)
        self.assertEqual(len(more), 3 * len(few))
        self.assertLess(few.keys(), more.keys())
        self.assertIn("mare 3", more)

    def test_what_is_compared_may_have_more(self) -> None:
        found = dict(move.turns(random.Random(1), 1, 3))
        self.assertEqual(len(found), 3 * (len(move.METHODS) + 1) + 3)
        self.assertIn("mare 3", found)
        self.assertNotIn("nothing 2", found)

    def test_only_at_1_gbit_and_never_of_a_sample(self) -> None:
        options = argparse.Namespace(quick=False, repeat=2, repeat_1gbit=5)
        self.assertEqual([move.repeats(options, rate) for rate in move.GOODPUT], [(2, 2), (2, 5)])
        options.repeat_1gbit = None
        self.assertEqual(move.repeats(options, "1gbit"), (2, 2))
        options.quick = True
        self.assertEqual(move.repeats(options, "1gbit"), (1, 1))


TOLD = """
Job type:         Completed
Operation:        Incoming migration
Time elapsed:     1386         ms
Time elapsed w/o network: 1384         ms
Data processed:   140.000 MiB
Data remaining:   0.000 B
Total downtime:   98           ms
Downtime w/o network: 96           ms
Iteration:        4
"""


class FiguresOfVirsh(unittest.TestCase):
    def test_are_in_what_it_tells(self) -> None:
        self.assertEqual(figures_in(TOLD), Figures(1.386, 0.098, 140 * 1024 * 1024))

    def test_are_none_where_it_does_not(self) -> None:
        self.assertIsNone(figures_in("Job type:         None\n"))
        self.assertIsNone(figures_in(TOLD.replace("MiB", "furlongs")))

    def test_what_the_wire_takes_is_the_least(self) -> None:
        rows = [{"rate": "1gbit", "case": "idle", "done": True, "bytes": move.GOODPUT["1gbit"], "total_time_s": 9.0, "libvirt_time_s": took}
                for took in (1.5, 1.2)]
        self.assertAlmostEqual(move.vs_wire(rows, "1gbit", "idle") or 0, 1.2)
        self.assertIsNone(move.vs_wire(rows, "100mbit", "idle"))


class Stays(unittest.TestCase):
    def test_nobody_moves_it(self) -> None:
        cluster, hand, job = mock.Mock(), mock.Mock(), mock.Mock(id="job-1")
        cluster.get.return_value = {"state": "running"}
        job.workload.name = "idle"
        job.lost_s.return_value = 0.04
        with mock.patch.multiple(move, wait_until=mock.Mock(), time=mock.Mock(**{"time.side_effect": [0.0, 100.0, 105.0]})), \
                mock.patch.object(move, "by_mare") as by_mare:
            row = move.one_run(cluster, hand, job, "1gbit", move.NOTHING, "h1", "h2")
        self.assertEqual((row["method"], row["done"], row["total_time_s"], row["added_job_time_s"]), ("nothing", True, 5.0, 0.04))
        self.assertFalse(by_mare.called or hand.method_calls or cluster.migrate.called or cluster.kill_mared.called)

    def test_one_that_is_halted_stays_as_well(self) -> None:
        cluster, hand, job = mock.Mock(), mock.Mock(), mock.Mock(id="job-1")
        cluster.get.return_value = {"state": "running"}
        job.workload.name = "idle"
        job.lost_s.return_value = 0.35
        hand.halt.return_value = move.Move(100.0, 100.4, True), 0.33
        with mock.patch.multiple(move, wait_until=mock.Mock()), mock.patch.object(move, "by_mare") as by_mare:
            row = move.one_run(cluster, hand, job, "1gbit", move.HALT, "h1", "h2")
        self.assertEqual((row["method"], row["done"], row["downtime_s"], row["added_job_time_s"]), ("halted", True, 0.33, 0.35))
        self.assertAlmostEqual(move.beside_downtime([row], "1gbit", "idle", move.HALT) or 0, 0.02)
        self.assertEqual([call[0] for call in hand.method_calls], ["halt"])
        self.assertFalse(by_mare.called or cluster.migrate.called)
        self.assertEqual(cluster.kill_mared.call_count, cluster.start_mared.call_count)


class Ratios(unittest.TestCase):
    @staticmethod
    def rows(ours: float, best: float, nothing: tuple[float, ...]) -> list[move.Json]:
        lost = [(move.OURS, ours), (move.METHODS[0].name, best), *((move.NOTHING, value) for value in nothing)]
        return [{"rate": "1gbit", "case": "idle", "done": True, "method": method, "added_job_time_s": value, "total_time_s": 3.0}
                for method, value in lost]

    def test_what_nobody_can_tell_from_nothing_is_said_beside(self) -> None:
        one, = move.ratios(self.rows(0.5, 0.4, (0.02, -0.1)))
        self.assertAlmostEqual(one["over_best"], 1.25)
        self.assertAlmostEqual(one["noise_s"], 0.1)
        self.assertAlmostEqual(one["surely_over_best"], 1.0)

    def test_where_nobody_looked_nothing_is_sure(self) -> None:
        one, = move.ratios(self.rows(0.5, 0.4, ()))
        self.assertEqual((one["noise_s"], one["surely_over_best"], one["surely_over_median"]), (None, None, None))


class GoesOn(unittest.TestCase):
    def test_a_case_that_is_whole_needs_no_job(self) -> None:
        """Stopped in the second case: only that one's job runs again."""
        jobs: list[str] = []
        runs: list[tuple[str, str]] = []

        def one_run(_cluster: object, _hand: object, job: mock.Mock, rate: str, method: object, _home: str, _away: str) -> move.Json:
            name = method if isinstance(method, str) else method.name  # type: ignore[attr-defined]
            runs.append((job.case, name))
            if len(runs) == 10:
                raise AssertionError("stopped")
            return {"rate": rate, "case": job.case, "method": name, "done": True, "load": 1.0, "added_job_time_s": 1.0, "total_time_s": 10.0,
                    "downtime_s": 0.1, "bytes": 1e8, "strategy": "pre-copy"}

        def job_of(_cluster: object, workload: move.Workload) -> mock.Mock:
            jobs.append(workload.name)
            return mock.Mock(case=workload.name)

        cluster = mock.Mock()
        cluster.ensure_pool.return_value = ["move-0"]
        with tempfile.TemporaryDirectory() as folder, mock.patch.multiple(
                move, one_run=one_run, Job=job_of, ByHand=mock.Mock(), Caps=mock.MagicMock(), new_vm=mock.Mock()):
            def run() -> move.Json:
                partial = Partial(Path(folder) / "move.json.partial", {"bench": "move"})
                return move.run(cluster, argparse.Namespace(seed=1, quick=True, repeat=1, partial=partial))
            with self.assertRaises(AssertionError):
                run()
            found = run()
        self.assertEqual(jobs, ["idle", "half-rate", "half-rate"])
        self.assertEqual(len(runs), 2 * (len(move.METHODS) + 4) + 1)
        self.assertEqual(len({(row["case"], row["method"]) for row in found["results"]["rows"]}), 2 * (len(move.METHODS) + 4))


if __name__ == "__main__":
    unittest.main()
