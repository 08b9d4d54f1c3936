"""From rows to results: which rows count, what is fitted, what is told."""

from __future__ import annotations

import unittest

import made
from regressions import AUTOMATIC, CHECKPOINT, GOODPUT, LOAD_LIMIT, PRE_COPY, results_of, text_of


class Results(unittest.TestCase):
    def test_the_lines_come_back(self) -> None:
        fits = results_of(made.migtest_rows())["results"]["fits"]
        wanted = {(CHECKPOINT, name): line for name, line in made.LINES.items()}
        wanted |= {(method, "added_job_time_s"): plane for method, plane in made.PLANES.items()}
        for (method, quantity), line in wanted.items():
            with self.subTest(method=method, quantity=quantity):
                found = fits[method][quantity]
                for value, true in zip(found["coefficients"], line):
                    self.assertAlmostEqual(value / true, 1, 9)
                self.assertAlmostEqual(found["residual_max"], made.NOISE, 9)
                self.assertEqual(found["samples"], 2 * len(made.CELLS))
                self.assertLess(found["r2"], 1)
        self.assertEqual(fits[CHECKPOINT]["check_s"]["inputs"], ["S"])
        self.assertEqual(fits[PRE_COPY]["total_time_s"]["inputs"], ["M", "WWS"])

    def test_rows_of_a_loaded_machine_and_failed_moves_do_not_count(self) -> None:
        rows = made.migtest_rows()
        wrong = made.row_of((192, 64, 2), PRE_COPY, 1) | {"added_job_time_s": 1000.0, "load": LOAD_LIMIT + 0.1}
        failed = {**made.row_of((192, 64, 2), PRE_COPY, 1), "added_job_time_s": None, "done": False}
        clean, mixed = results_of(rows), results_of([wrong, *rows, failed])
        self.assertEqual(clean["results"]["fits"], mixed["results"]["fits"])
        self.assertEqual(clean["results"]["cells"], mixed["results"]["cells"])
        self.assertEqual((mixed["results"]["dropped_for_load"], mixed["results"]["not_done"]), (1, 1))
        self.assertEqual(len(mixed["results"]["rows"]), len(rows) + 2, "but they are kept")

    def test_the_middle_and_the_edges_of_repeats(self) -> None:
        rows = [made.row_of((192, 64, 2), AUTOMATIC, 0) | {"added_job_time_s": value, "downtime_s": down, "strategy": strategy}
                for value, down, strategy in ((3.0, None, "post-copy"), (1.0, 0.2, "hybrid"), (1.5, 0.4, "post-copy"))]
        cell, = results_of(rows)["results"]["cells"]
        self.assertEqual(cell["added_job_time_s"], {"median": 1.5, "min": 1.0, "max": 3.0})
        self.assertEqual(cell["downtime_s"]["max"], 0.4)
        self.assertEqual((cell["count"], cell["strategies"]), (3, ["hybrid", "post-copy"]))

    def test_the_bar_compares_within_cells(self) -> None:
        rows = []
        for cell, ours, theirs in (((192, 64, 2), 1.0, 10.0), ((256, 128, 32), 4.0, 20.0), ((320, 192, 2), 9.0, 30.0)):
            rows.append(made.row_of(cell, AUTOMATIC, 0) | {"added_job_time_s": ours})
            rows.append(made.row_of(cell, CHECKPOINT, 0) | {"added_job_time_s": theirs})
        rows.append(made.row_of((320, 192, 64), AUTOMATIC, 0) | {"added_job_time_s": 500.0})  # nothing to compare with
        bar = results_of(rows)["bars"]["vm_vs_checkpoint"]
        self.assertAlmostEqual(bar["value"], 0.2)
        self.assertTrue(bar["holds"])
        for row in rows:
            row["added_job_time_s"] *= 10 if row["method"] == AUTOMATIC else 1
        self.assertFalse(results_of(rows)["bars"]["vm_vs_checkpoint"]["holds"])

    def test_nothing_measured_holds_nothing(self) -> None:
        found = results_of([])
        self.assertIsNone(found["bars"]["vm_vs_checkpoint"]["value"])
        self.assertFalse(found["bars"]["vm_vs_checkpoint"]["holds"])
        self.assertIsNone(found["results"]["fits"][CHECKPOINT]["added_job_time_s"])
        self.assertIn("too few", text_of(found))

    def test_the_wire(self) -> None:
        found = results_of(made.migtest_rows())
        self.assertAlmostEqual(found["results"]["over_wire"][PRE_COPY]["median"], 2.0)
        self.assertAlmostEqual(found["limits"]["s_per_byte"]["value"] * GOODPUT, 1)

    def test_text_has_ours_beside_the_papers(self) -> None:
        text = text_of(results_of(made.migtest_rows()))
        self.assertRegex(text, r"checkpoint/restart, added_job_time_s +6\.000 \+ 1\.100e-07 S +(0\.\d{4}|1\.0000) ")
        self.assertRegex(text, r"the paper, Eq\. 7\.4 +4\.785 \+ 1\.185e-07 S +0\.9989")
        self.assertRegex(text, r"the paper, Eq\. 7\.5 +9\.783 \+ 8\.205e-08 M \+ 1\.485e-07 WWS +0\.9627")


if __name__ == "__main__":
    unittest.main()
