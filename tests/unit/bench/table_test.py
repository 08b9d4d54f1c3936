"""Markdown from results, as the benches' own code makes them from made rows."""

from __future__ import annotations

import argparse
import copy
import json
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from typing import Any

import paths  # first: it puts the others on the path

import forecast
import made
import move
import tables
from caps import Caps

SOAK = json.loads((paths.ROOT / "docs" / "results" / "soak.json").read_text(encoding="utf-8"))
PLANNER = json.loads((paths.ROOT / "docs" / "results" / "planner.json").read_text(encoding="utf-8"))


def rows_under(text: str, head: str) -> list[list[str]]:
    """Cells of the table whose first cell of the head is that."""
    lines = text.splitlines()
    at = next(i for i, line in enumerate(lines) if line.startswith(f"| {head} |"))
    found = []
    for line in lines[at + 2:]:
        if not line.startswith("|"):
            break
        found.append([cell.strip() for cell in line.strip("|").split(" | ")])
    return found


def forecast_report() -> dict[str, Any]:
    rows = []
    for i, row in enumerate(made.forecast_rows()):
        true = row["measured"]["total_time_s"]
        measured = {"total_time_s": true, "sent_bytes": 1e6 * true, "downtime_s": 0.2, "added_job_time_s": 0.5}
        said = {name: made.estimate(value * 1.02) for name, value in measured.items()}
        rows.append(row | {"operation": f"op-{i}", "ended": "succeeded", "converges": True, "end_unsure": False,
                           "forecast": said, "measured": measured, "job_s": 100.0, "probe_cost": 0.001 * (i + 1),
                           # Not told of the first, which ended before it was looked at.
                           "qemu_expects_s": 0.25 if i else None,
                           "inputs": {"memory": 2e8 + 1e6 * i, "link": 1e7, "wws": 1e6 * (i * i % 7 + 1),
                                                      "dirty_rate": 1e6}})
    return {"bench": "forecast", "commit": None, "machine": made.MACHINE,
            **forecast.results_of(rows, argparse.Namespace(seed=1))}


def move_report() -> dict[str, Any]:
    rows = [{"rate": rate, "case": case, "method": method, "done": True, "load": 1.0, "added_job_time_s": added, "downtime_s": 0.1,
             "total_time_s": 10.0, "bytes": 1e8}
            for rate in ("100mbit", "1gbit") for case in ("idle", "saturated")
            for method, added in (("mare", 1.0), ("virsh", 4.0), ("virsh --postcopy", 2.0), ("virsh, paused", 8.0),
                                  ("virsh save, copy, virsh restore", 9.0), ("nothing", 0.05), ("halted", 0.13))]
    return {"bench": "move", "commit": None, "machine": made.MACHINE,
            **move.results_of(rows, argparse.Namespace(seed=1, quick=True), Caps(0.5))}


class Sections(unittest.TestCase):
    def test_soak(self) -> None:
        text = tables.section(SOAK)
        self.assertTrue(text.startswith("### soak\n"))
        cells = rows_under(text, "")
        self.assertEqual(cells[0], ["downtime, by the hypervisor, ms", "50", "215.5", "394", "551"])
        self.assertEqual(len(cells), 7)
        self.assertEqual(rows_under(text, "bar")[0], ["`migrations`", "50", "50", "count", "yes"])
        self.assertIn("memory mib 192", text)

    def test_planner(self) -> None:
        text = tables.section(PLANNER)
        # hbal finds its way to the end here, or not, as fast as the machine is.
        finished, row = (next(row for row in PLANNER["results"] if row["hosts"] == hosts) for hosts in (10, 100))
        self.assertTrue(finished["hbal"]["finished"])
        self.assertFalse(row["hbal"]["finished"])
        cells = {tuple(cells[:2]): cells for cells in rows_under(text, "hosts x VMs")}
        self.assertEqual(len(cells), 4 * len(PLANNER["results"]))
        ours, theirs = cells["100 x 1000", "Maré, N+1 kept"], cells["100 x 1000", "hbal"]
        self.assertEqual(ours[3], tables.number(row["mare_n_plus_one"]["ganeti_score"]))
        self.assertEqual(theirs[3:6], [tables.number(row["hbal"]["score"]), tables.number(row["hbal"]["mare_with_as_many_moves"]),
                                       f"{row['hbal']['moves']}, unfinished"])
        self.assertEqual(cells["10 x 100", "hbal"][5], str(finished["hbal"]["moves"]))
        self.assertEqual([row[2] for row in rows_under(text, "hosts x VMs, one VM more")[:2]], ["Maré", "hail"])

    def test_forecast(self) -> None:
        text = tables.section(forecast_report())
        errors = rows_under(text, "error of the forecast")
        self.assertEqual(errors[0], ["total time", "12", "2", "2", "2", "%"])
        self.assertEqual(errors[2], ["downtime", "12", "0.004", "0.004", "0.004", "s"])
        self.assertEqual([row[0] for row in rows_under(text, "total time of plain pre-copy, by")],
                         ["Liu's form", "Neves' form, fitted to half of them", "ours"])
        downtimes = rows_under(text, "downtime of plain pre-copy, by")
        self.assertEqual([row[1:] for row in downtimes], [["3", "0.05", "0.05", "0.05", "s"], ["3", "0.004", "0.004", "0.004", "s"]])
        self.assertIn("0.7% of the guest's time in the median, 1.2% at most", text)
        self.assertIn("100.0% of the outcomes", text)

    def test_like_moves_of_several_runs(self) -> None:
        def run(*times: float) -> dict[str, Any]:
            rows = [{"workload": "idle", "rate": "1gbit", "strategy": "hybrid", "load": 1.0,
                     "measured": {"total_time_s": one, "sent_bytes": 1e6, "downtime_s": one / 100, "added_job_time_s": None}} for one in times]
            return {"bench": "forecast", "setup": {"load_limit": 6.0}, "results": {"rows": rows}}

        text = tables.like_moves([run(9.0, 11.0), SOAK, run(10.0, 10.0), run(10.0)])
        self.assertIn("of all 3 runs", text)
        found = {row[0]: row[1:] for row in rows_under(text, "one of two like moves off what both have in common")}
        self.assertEqual(found["total time"], ["2", "14.14", "14.14", "14.14", "%"])
        self.assertEqual(found["downtime, 0 within 15% of it"], ["2", "0", "0", "0", "ms"])
        self.assertEqual(found["added job time"], ["0", "-", "-", "-", "s"])
        self.assertEqual(tables.like_moves([run(9.0, 11.0), SOAK]), "", "the run's own table has it")

    def test_move(self) -> None:
        rows = rows_under(tables.section(move_report()), "link")
        self.assertEqual(len(rows), 4)
        self.assertEqual(rows[0], ["100mbit", "idle", "1.00", "2.00", "4.00", "9.00", "0.05", "0.05", "0.50", "0.25", "1.18", "1.18", "0.03", "0.90", "1.90"])

    def test_history(self) -> None:
        first = forecast_report()
        del first["bars"]["time_error_p95"]
        later = copy.deepcopy(forecast_report()) | {"commit": "abcdef0123456789"}
        later["setup"]["seed"] = 2
        later["bars"]["liu_ratio"] = {"value": 9.0, "bar": 3.0, "unit": "ratio", "holds": True}
        later["bars"]["time_error_p95"] = {"value": 0.1234, "bar": 0.08, "unit": "", "holds": False}
        later["results"]["like_moves_apart"]["time"]["p95"], later["results"]["like_moves_apart"]["downtime"]["p95"] = 0.26, 0.013
        found = tables.history([later, SOAK, first])
        self.assertEqual(len(found), 1, "of one run there is none")
        names = list(later["bars"])
        wanted, old, new = rows_under(found[0], "run")
        self.assertEqual(wanted[0], "wanted")
        self.assertEqual([row[0] for row in (old, new)], ["`-`, seed 1", "`abcdef0`, seed 2"])
        at = 1 + names.index("time_error_p95")
        self.assertEqual([row[at] for row in (wanted, old, new)], ["0.08", "-", "0.123"])
        at = 1 + names.index("liu_ratio")
        self.assertEqual([row[at] for row in (wanted, new)], ["3", "**9**"])
        self.assertEqual((old[-1], new[-1]), ("-", "0.26, 13"))

    def test_migtest(self) -> None:
        text = tables.section(made.migtest_report())
        fits = rows_under(text, "s, from bytes")
        self.assertEqual(fits[0][:2], ["checkpoint/restart: added job time", "6.000 + 1.100e-07 S"])
        self.assertEqual(fits[1], ["- the paper, Eq. 7.4", "4.785 + 1.185e-07 S", "0.9989", "-", "-"])
        cells = rows_under(text, "cell")
        self.assertEqual(len(cells), 3 * len(made.CELLS))
        self.assertEqual(cells[1][:5], ["M192 S16 W2", "checkpoint/restart", "made", "2", "7.85 (7.80 to 7.90)"])

    def test_migtest_without_enough_rows(self) -> None:
        text = tables.section(made.migtest_report([made.row_of((192, 16, 2), "pre-copy", 0)]))
        self.assertIn("too few rows", text)
        self.assertEqual(rows_under(text, "bar")[0], ["`vm_vs_checkpoint`", "-", "1", "ratio", "**no**"])

    def test_checkpoint(self) -> None:
        text = tables.section(made.checkpoint_report())
        self.assertEqual(rows_under(text, "all programs: kind"), [["full", "10", "-", "-"], ["full", "60", "0.67", "0.83"]])
        cells = {(row[0], row[1]): row for row in rows_under(text, "program")}
        self.assertEqual(cells["matmul", "60"][3:], ["1 of 1", "100.0", "1.00", "1.00", "2", "0.50", "0.83", "50.0 / 60.0", "6.0 / 8.0", "150", "100", "2.5"])
        self.assertEqual(cells["matmul", "10"][3:], ["0 of 0", "-", "-", "-", "0", "-", "-", "-", "-", "-", "-", "-"])
        self.assertIn("Checkpoints of kind incremental: absent: nobody can ask for them.", text)

    def test_recovery(self) -> None:
        text = tables.section(made.recovery_report())
        self.assertEqual(rows_under(text, "what is killed")[:2], [
            ["a VM's QEMU", "2", "2", "1.00 / 1.00", "6.00 / 7.00", "3.00 / 3.00"],
            ["a host: its QEMUs, agent and watchdog", "1", "1", "1.50 / 1.50", "9.00 / 9.00", "3.00 / 3.00"]])
        self.assertEqual(rows_under(text, "what is killed")[2][1:], ["1", "0", "-", "-", "-"])
        self.assertEqual([row[0] for row in rows_under(text, "when")], ["work", "restart"])
        self.assertEqual(rows_under(text, "host fails at, %"), [
            ["50", "**no**", "-", "-", "-", "33.3"], ["90", "yes", "630.0", "1140.0", "44.7", "47.4"]])
        self.assertIn("counted 400 times", text)

    def test_a_bench_without_a_table_of_its_own_has_its_bars(self) -> None:
        text = tables.section(SOAK | {"bench": "newer", "results": [1, 2]})
        self.assertEqual(len(rows_under(text, "bar")), 3)

    def test_no_figure_but_those_of_the_file(self) -> None:
        changed = copy.deepcopy(SOAK)
        changed["results"]["downtime_ms"]["peers"]["median"] = 123.25
        before, after = tables.section(SOAK).splitlines(), tables.section(changed).splitlines()
        differing = [line for line, old in zip(after, before) if line != old]
        self.assertEqual(differing, ["| without an answer to its peers, ms | 50 | 123.2 | 498.5 | 708.9 |"])

    def test_order(self) -> None:
        benches = ["zebra", "recovery", "migtest", "soak", "checkpoint", "apple", "forecast"]
        self.assertEqual([one["bench"] for one in tables.in_order({"bench": name} for name in benches)],
                         ["soak", "forecast", "migtest", "checkpoint", "recovery", "apple", "zebra"])


class Program(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        (self.folder / "results").mkdir()
        self.result = self.folder / "results" / "migtest.json"
        self.result.write_text(json.dumps(made.migtest_report()))

    def run_table(self, *words: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run([sys.executable, str(paths.BENCH / "table"), *words], capture_output=True, text=True, check=False)

    def test_prints(self) -> None:
        done = self.run_table(str(self.result))
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual(done.stdout, tables.section(made.migtest_report()) + "\n")

    def test_writes_between_the_marks_again_and_again_and_shows_plots(self) -> None:
        (self.folder / "results" / "migtest-vm.svg").write_text("<svg/>")
        page = self.folder / "page.md"
        page.write_text(f"before\n{tables.BEGIN}\nof yesterday\n{tables.END}\nafter\n")
        for _ in range(2):
            done = self.run_table("--into", str(page), str(self.result))
            self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "", ""))
        text = page.read_text()
        self.assertTrue(text.startswith(f"before\n{tables.BEGIN}\n\n### migtest\n"))
        self.assertTrue(text.endswith(f"\n\n{tables.END}\nafter\n"))
        self.assertNotIn("of yesterday", text)
        self.assertEqual(text.count("(results/migtest-vm.svg)"), 1)

    def test_says_what_it_cannot_do(self) -> None:
        page = self.folder / "page.md"
        page.write_text("no marks")
        lacking = self.folder / "lacking.json"
        lacking.write_text(json.dumps({"bench": "migtest", "machine": made.MACHINE, "bars": {}}))
        for words, wanted in ((("--into", str(page), str(self.result)), "lacks the lines"),
                              ((str(self.folder / "absent.json"),), "absent.json"), ((str(lacking),), "measure it anew")):
            done = self.run_table(*words)
            self.assertEqual(done.returncode, 1)
            self.assertIn(wanted, done.stderr)
        self.assertEqual(page.read_text(), "no marks")

    def test_the_page_of_the_docs_has_the_place(self) -> None:
        text = (paths.ROOT / "docs" / "performance-results.md").read_text(encoding="utf-8")
        self.assertIsNotNone(tables.placed(text, ""))
        done = self.run_table()
        self.assertEqual(done.returncode, 0, "all results that are kept can be told")
        for file in sorted((paths.ROOT / "docs" / "results" / "earlier").glob("*.json")):
            report = json.loads(file.read_text(encoding="utf-8"))
            self.assertIn(f"| `{report['commit'][:7]}`, seed {report['setup']['seed']} |", done.stdout)


if __name__ == "__main__":
    unittest.main()
