"""Plots of made results: well-formed, as many points as rows, each where it belongs, readable on both pages."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree as tree
from pathlib import Path

import made
import paths
import plot
import svg
from regressions import AUTOMATIC, CHECKPOINT, LOAD_LIMIT, PRE_COPY

NS = "{http://www.w3.org/2000/svg}"
PLACE = re.compile(r"translate\(([-\d.]+),([-\d.]+)\)")


def points_of(text: str) -> dict[str, list[tuple[float, float]]]:
    """By series: where its points are."""
    found = {}
    for group in tree.fromstring(text).iter(f"{NS}g"):
        if "data-series" in group.attrib:
            places = [PLACE.search(one.attrib["transform"]) for one in group.iter(f"{NS}g") if one.get("class") == "point"]
            found[group.attrib["data-series"]] = [(float(place[1]), float(place[2])) for place in places if place]
    return found


def words_of(text: str) -> list[str]:
    return [one.text or "" for one in tree.fromstring(text).iter(f"{NS}text")]


class MigTest(unittest.TestCase):
    def setUp(self) -> None:
        self.drawn = plot.migtest(made.migtest_report())
        self.rows = made.migtest_rows()

    def test_as_many_points_as_rows(self) -> None:
        of_checkpoint = sum(row["method"] == CHECKPOINT for row in self.rows)
        series = points_of(self.drawn["migtest-checkpoint.svg"])
        self.assertEqual([len(points) for points in series.values()], [of_checkpoint] * 4, list(series))
        series = points_of(self.drawn["migtest-vm.svg"])
        for method in (PRE_COPY, AUTOMATIC):
            count = sum(len(points) for name, points in series.items() if name.startswith(method))
            self.assertEqual(count, sum(row["method"] == method for row in self.rows))

    def test_rows_that_do_not_count_are_not_drawn(self) -> None:
        rows = [*self.rows, made.row_of((192, 64, 2), CHECKPOINT, 1) | {"load": LOAD_LIMIT + 1}]
        rows.append({**made.row_of((192, 64, 2), PRE_COPY, 1), "done": False, "added_job_time_s": None})
        again = plot.migtest(made.migtest_report(rows))
        self.assertEqual({name: points_of(text) for name, text in again.items()},
                         {name: points_of(text) for name, text in self.drawn.items()})

    def test_points_are_where_their_values_are(self) -> None:
        chart = plot.checkpoint_chart(made.migtest_report())
        row = next(row for row in self.rows if row["method"] == CHECKPOINT and row["cell"].startswith("M320"))
        x = svg.LEFT + (row["size_bytes"] / 1e6) / chart.x.high * (svg.RIGHT - svg.LEFT)
        y = svg.BOTTOM - row["added_job_time_s"] / chart.y.high * (svg.BOTTOM - svg.TOP)
        places = next(iter(points_of(chart.svg()).values()))
        self.assertTrue(any(abs(px - x) < 0.02 and abs(py - y) < 0.02 for px, py in places), (x, y, places))

    def test_axes_units_fit_and_the_papers_line_are_named(self) -> None:
        text = " ".join(words_of(self.drawn["migtest-checkpoint.svg"]))
        for words in ("S: memory of a rank, MB", "time, s", "6.00 s + 110.0 ns S", "the paper's (Eq. 7.4)", "4.79 s + 118.5 ns S"):
            self.assertIn(words, text)
        text = " ".join(words_of(self.drawn["migtest-vm.svg"]))
        for words in ("WWS: rewritten in each iteration, MB", "added job time, s", "1.50 s + 1.0 ns M", "+ 90.0 ns WWS"):
            self.assertIn(words, text)

    def test_without_a_fit_points_are_drawn_all_the_same(self) -> None:
        rows = [made.row_of((192, size, 2), method, 1) for size in (16,) for method in (CHECKPOINT, PRE_COPY, AUTOMATIC)]
        drawn = plot.migtest(made.migtest_report(rows))
        self.assertEqual(sum(map(len, points_of(drawn["migtest-vm.svg"]).values())), 2)
        self.assertIn("too few rows for a fit", " ".join(words_of(drawn["migtest-checkpoint.svg"])))

    def test_with_no_row_at_all(self) -> None:
        for text in plot.migtest(made.migtest_report([])).values():
            self.assertEqual(sum(map(len, points_of(text).values())), 0)


class Forecast(unittest.TestCase):
    def setUp(self) -> None:
        self.rows = made.forecast_rows()
        self.drawn = plot.forecast(made.forecast_report())

    def test_as_many_points_as_rows(self) -> None:
        for name, text in self.drawn.items():
            with self.subTest(plot=name):
                series = points_of(text)
                self.assertEqual(sum(map(len, series.values())), len(self.rows))
                self.assertEqual(len(series), 3)

    def test_moves_that_did_not_end_and_loaded_ones_are_not_drawn(self) -> None:
        unmeasured = {key: value for key, value in self.rows[0].items() if key != "measured"}
        again = plot.forecast(made.forecast_report([unmeasured, self.rows[1] | {"load": 7.0}, *self.rows[2:]]))
        for text in again.values():
            self.assertEqual(sum(map(len, points_of(text).values())), len(self.rows) - 2)

    def test_a_right_forecast_is_on_the_diagonal(self) -> None:
        row = self.rows[0] | {"forecast": {"total_time_s": made.estimate(self.rows[0]["measured"]["total_time_s"])}}
        chart = plot.time_chart(made.forecast_report([row, *self.rows[1:]]))
        (x, y), = [place for place in points_of(chart.svg())["pre-copy"][:1]]
        self.assertAlmostEqual((x - svg.LEFT) / (svg.RIGHT - svg.LEFT), (svg.BOTTOM - y) / (svg.BOTTOM - svg.TOP), 3)

    def test_each_has_its_interval(self) -> None:
        bars = [one for one in tree.fromstring(self.drawn["forecast-total-time.svg"]).iter(f"{NS}path")
                if one.get("class", "").startswith("bar")]
        self.assertEqual(len(bars), len(self.rows))
        self.assertIn("and 11 of 12 held", " ".join(words_of(self.drawn["forecast-total-time.svg"])))

    def test_one_far_off_is_drawn_on_the_edge_and_told(self) -> None:
        places = points_of(self.drawn["forecast-errors.svg"])["hybrid (4)"]
        self.assertEqual(sum(y == svg.TOP for _, y in places), 1)
        self.assertIn("because beyond it: 1", " ".join(words_of(self.drawn["forecast-errors.svg"])))
        titles = [one.text or "" for one in tree.fromstring(self.drawn["forecast-errors.svg"]).iter(f"{NS}title")]
        self.assertTrue(any("(+300.0%)" in title for title in titles), "its true error can be read")


class Looks(unittest.TestCase):
    def test_each_colour_can_be_told_from_its_page(self) -> None:
        """WCAG 2's contrast: 3 for marks, 4.5 for text."""
        def luminance(colour: str) -> float:
            parts = [int(colour[i:i + 2], 16) / 255 for i in (1, 3, 5)]
            linear = [part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
            return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

        def contrast(one: str, other: str) -> float:
            low, high = sorted((luminance(one), luminance(other)))
            return (high + 0.05) / (low + 0.05)

        for i, page in enumerate((svg.LIGHT, svg.DARK)):
            for colours in svg.COLOURS:
                self.assertGreaterEqual(contrast(colours[i], page["page"]), 3, colours[i])
            self.assertGreaterEqual(contrast(page["axis"], page["page"]), 3)
            for text in ("ink", "dim"):
                self.assertGreaterEqual(contrast(page[text], page["page"]), 4.5)

    def test_both_pages_have_the_same_rules(self) -> None:
        text = plot.vm_chart(made.migtest_report()).svg()
        light, _, dark = text[text.index(".page{"):text.index("</style>")].partition("@media(prefers-color-scheme:dark){")
        names = [re.findall(r"\.[a-z]\w*(?=[,{])", part) for part in (light, dark)]
        self.assertEqual(*names)

    def test_names_with_signs_of_markup(self) -> None:
        chart = svg.Chart("a < b & \"c\"", [], svg.linear("x", [1]), svg.linear("y", [1]),
                          [svg.Series("<s>", 0, [svg.Point(1, 1, "1 < 2 & 3")])], [])
        self.assertIn("<s>", points_of(chart.svg()))
        self.assertIn("a < b & \"c\"", words_of(chart.svg()))


class Axes(unittest.TestCase):
    def test_round_numbers(self) -> None:
        self.assertEqual(svg.steps(0, 30), [0, 5, 10, 15, 20, 25, 30])
        self.assertEqual([round(value, 9) for value in svg.steps(0.13, 0.61)], [0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.55, 0.6])
        self.assertEqual(svg.decades(1.5, 60), [2, 5, 10, 20, 50])

    def test_every_value_is_inside(self) -> None:
        for values in ([3.0, 28.15], [0.0], [], [-7.2, 3.0], [1e-4, 2e-4], [5.0, 5.0]):
            axis = svg.linear("x", values)
            for value in values:
                self.assertTrue(axis.low <= value <= axis.high, (values, axis))
            self.assertGreater(axis.high, axis.low)
        axis = svg.logarithmic("x", [0.02, 300.0])
        self.assertTrue(0 < axis.share(0.02) < axis.share(300.0) < 1)
        self.assertLess(axis.share(0.0), 0, "below it, and no error")


class Program(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def run_plot(self, *words: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run([sys.executable, str(paths.BENCH / "plot"), *words], capture_output=True, text=True, check=False)

    def test_draws_and_names_what_it_drew(self) -> None:
        result, out = self.folder / "migtest.json", self.folder / "new" / "svg"
        result.write_text(json.dumps(made.migtest_report()))
        done = self.run_plot(str(result), str(out))
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual(done.stdout.split(), [str(out / "migtest-checkpoint.svg"), str(out / "migtest-vm.svg")])
        for file in done.stdout.split():
            tree.parse(file)

    def test_says_what_it_cannot_draw(self) -> None:
        other, broken, empty = (self.folder / name for name in ("other.json", "broken.json", "empty.json"))
        other.write_text(json.dumps(made.migtest_report() | {"bench": "soak"}))
        broken.write_text("{")
        empty.write_text("[]")
        for file, words in ((other, "no plots of 'soak', only of forecast, migtest"), (broken, "broken.json"),
                            (empty, "not what a bench prints"), (self.folder / "absent", "absent")):
            done = self.run_plot(str(file), str(self.folder / "svg"))
            self.assertEqual(done.returncode, 1, done.stderr)
            self.assertIn(words, done.stderr)
        self.assertFalse((self.folder / "svg").exists())
        self.assertEqual(self.run_plot("one").returncode, 2)


if __name__ == "__main__":
    unittest.main()
