#!/usr/bin/python3
"""The quick start's figures, against runs whose right figures are known by construction."""

from __future__ import annotations

import sys
import unittest
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "ui" / "quickstart"))

import report  # noqa: E402
from report import Iteration, Line  # noqa: E402


def run_of(lengths: list[float], start: float = 100.0) -> list[Iteration]:
    found = []
    for index, length in enumerate(lengths, start=1):
        found.append(Iteration(index, start, length))
        start += length
    return found


def line(index: int, start_us: int, duration_us: int, arrived: float = 0.0) -> Line:
    return Line(arrived, f"migtest: iteration={index} start_us={start_us} duration_us={duration_us}")


class Parsing(unittest.TestCase):
    def test_iterations_and_nothing_else(self) -> None:
        lines = [Line(0, "a warning of mpirun"), line(1, 5_000_000, 250_000), Line(0, " migtest: iteration=2 x")]
        self.assertEqual(report.iterations_of(lines), [Iteration(1, 5.0, 0.25)])

    def test_the_last_verdict_counts(self) -> None:
        text = "migtest: ranks=3 iterations=9 checksum=00ff verified=yes max_iteration_us=5"
        verdict = report.verdict_of(["x", text])
        self.assertEqual(verdict, {"ranks": 3, "iterations": 9, "checksum": "00ff", "verified": True})
        wrong = report.verdict_of([text.replace("=yes", "=no")])
        assert wrong is not None
        self.assertFalse(wrong["verified"])
        self.assertIsNone(report.verdict_of(["nothing"]))

    def test_lost_and_repeated_iterations_are_seen(self) -> None:
        found = [Iteration(i, 0, 1) for i in (1, 2, 2, 4)]
        self.assertEqual(report.missing_indices(found, 5), [3, 5])
        self.assertEqual(report.missing_indices(run_of([1] * 5), 5), [])

    def test_alignment_takes_the_quickest_line(self) -> None:
        lines = [line(1, 1_000_000, 500_000, arrived=1001.9), line(2, 2_000_000, 500_000, arrived=1002.55),
                 line(3, 3_000_000, 500_000, arrived=1004.0)]
        offset = report.align(lines)
        assert offset is not None
        self.assertAlmostEqual(offset, 1000.05)
        self.assertIsNone(report.align([Line(1, "x")]))

    def test_times_with_and_without_fraction(self) -> None:
        self.assertAlmostEqual(report.parse_time("1970-01-01T00:00:10.25Z") or 0, 10.25)
        self.assertAlmostEqual(report.parse_time("1970-01-01T00:00:10Z") or 0, 10)
        self.assertIsNone(report.parse_time(None))


class AddedJobTime(unittest.TestCase):
    def test_is_what_was_added(self) -> None:
        # Iterations 21 to 23 last 1.0, 0.5 and 0.4 s instead of 0.2 s: 1.3 s more.
        iterations = run_of([0.2] * 20 + [1.0, 0.5, 0.4] + [0.2] * 20)
        cost = report.added_job_time(iterations, iterations[20].start + 0.01, iterations[22].end - 0.01)
        assert cost is not None
        self.assertAlmostEqual(cost["added_job_time_s"], 1.3)
        self.assertEqual(cost["iterations_overlapping"], 3)
        self.assertAlmostEqual(cost["longest_iteration_s"], 1.0)
        self.assertAlmostEqual(cost["noise_s"][0], 0)
        self.assertAlmostEqual(cost["noise_s"][1], 0)

    def test_a_stall_between_two_iterations_counts(self) -> None:
        before, after = run_of([0.2] * 10), run_of([0.2] * 10, start=103.0)  # 1 s of nothing in between
        iterations = before + [Iteration(it.index + 10, it.start, it.duration) for it in after]
        cost = report.added_job_time(iterations, 102.2, 102.8)
        assert cost is not None
        self.assertAlmostEqual(cost["added_job_time_s"], 1.0)

    def test_no_migration_costs_nothing_but_noise(self) -> None:
        iterations = run_of([0.2, 0.3] * 30)
        cost = report.added_job_time(iterations, iterations[30].start, iterations[33].end)
        assert cost is not None
        self.assertGreaterEqual(cost["added_job_time_s"], cost["noise_s"][0])
        self.assertLessEqual(cost["added_job_time_s"], cost["noise_s"][1])

    def test_too_little_to_compare_with_is_unknown(self) -> None:
        iterations = run_of([0.2] * 6)
        self.assertIsNone(report.added_job_time(iterations, 0, 1000))
        self.assertIsNone(report.added_job_time(iterations, 0, 1))
        self.assertIsNone(report.added_job_time([], 0, 1))


class Text(unittest.TestCase):
    def test_rates_sum_up_to_the_iterations(self) -> None:
        iterations = run_of([0.3] * 40 + [2.0] + [0.3] * 40)
        begin, end = iterations[0].start, iterations[-1].end
        for columns in (1, 7, 60):
            rates = report.rates(iterations, begin, end, columns)
            self.assertAlmostEqual(sum(rates) * (end - begin) / columns, 81, places=6)

    def test_a_stall_is_a_gap_in_the_time_line(self) -> None:
        iterations = run_of([0.1] * 100 + [5.0] + [0.1] * 100)
        drawn = report.time_line(iterations, [(iterations[100].start, iterations[100].end, "migration")], columns=50)
        top = drawn.splitlines()[0]
        self.assertIn("#", top[8:20])
        self.assertEqual(top[8 + 22:8 + 28].strip(), "")
        self.assertIn("migration", drawn.splitlines()[-1])
        self.assertTrue(all(len(text) <= 80 for text in drawn.splitlines()), drawn)

    def test_marks_at_the_edges_stay_on_the_page(self) -> None:
        iterations = run_of([0.5] * 20)
        for begin, end in ((0, 1), (100, 100), (109.99, 110), (500, 600)):
            drawn = report.time_line(iterations, [(begin, end, "a mark with words")], columns=60)
            self.assertIn("^", drawn)
            self.assertTrue(all(len(text) <= 90 for text in drawn.splitlines()), drawn)

    def test_unknown_figures_are_called_so(self) -> None:
        migration = {"id": "op-1", "vm": "a-1", "source": "h1", "destination": "h3", "rounds": [],
                     "transferred_bytes": None, "memory_total_bytes": 1 << 27, "total_time_ms": None,
                     "downtime_ms": {"hypervisor": 12.5, "guest": None, "peers": None}, "announce_delay_ms": None}
        text = report.migration_text(migration, None)
        self.assertIn("12.5 ms by the hypervisor", text)
        self.assertGreaterEqual(text.count("unknown"), 4)


if __name__ == "__main__":
    unittest.main(verbosity=2)
