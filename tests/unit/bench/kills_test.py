"""A campaign's plan, what is read from lines and events, and results of known rows."""

from __future__ import annotations

import itertools
import unittest
from typing import Any

import paths  # noqa: F401
from kills import CUT, HOST, KINDS, LOAD_LIMIT, MARED, MOMENTS, RESTART, VM, Progress, Row, common, detected_at, plan, results_of
from made import PLAIN, failure_row as failure, kill_row as row


class Plan(unittest.TestCase):
    def test_a_seed_gives_one_plan_and_a_longer_one_goes_on(self) -> None:
        self.assertEqual(plan(50, 2, 7), plan(50, 2, 7))
        self.assertEqual(plan(50, 2, 7)[:6], plan(6, 2, 7))
        self.assertNotEqual(plan(50, 2, 7), plan(50, 2, 8))
        self.assertEqual([kill.number for kill in plan(17, 2, 7)], list(range(1, 18)))

    def test_every_kind_soon_and_every_kind_at_every_moment(self) -> None:
        for seed in range(20):
            kills = plan(42, 3, seed)
            self.assertEqual({kill.kind for kill in kills[:7]}, set(KINDS))
            for part in (kills[:21], kills[21:]):
                self.assertEqual({(kill.kind, kill.moment) for kill in part}, set(itertools.product(KINDS, MOMENTS)))
            self.assertTrue(all(0 <= kill.rank < 3 and 0 <= kill.first_rank < 3 and 0 <= kill.when <= 1 for kill in kills))

    def test_which_come_second(self) -> None:
        for kill in plan(21, 2, 1):
            self.assertEqual(kill.is_second, kill.moment == RESTART or kill.kind == MARED, kill)


class Lines(unittest.TestCase):
    def setUp(self) -> None:
        self.old = [f"old {i}" for i in range(10)]
        self.progress = Progress()
        for count in range(11):
            self.progress.look(count, self.old[:count])

    def test_what_two_lives_share(self) -> None:
        self.assertEqual(common(self.old, [*self.old[:6], "new 6"]), 6)
        self.assertEqual(common(self.old, self.old[:4]), 4)
        self.assertEqual(common(self.old, []), 0)

    def test_the_first_line_that_is_not_from_before(self) -> None:
        """Struck at 10.5. The output is stale, then what the checkpoint held, then new; the end comes at 40."""
        new = [*self.old[:6], *(f"new {i}" for i in range(6, 12))]
        for at, lines in ((11, self.old), (15, self.old), (16, []), (17, self.old[:6]), (18, new[:6]), (19, new[:7]), (40, new)):
            self.progress.look(at, lines)
        held = common(self.old, self.progress.lines)
        self.assertEqual(held, 6)
        self.assertEqual(self.progress.advanced(10.5, held), 19)

    def test_a_life_that_was_undone_as_well_does_not_count(self) -> None:
        middle, new = [*self.old[:6], "middle 6", "middle 7"], [*self.old[:6], "new 6", "new 7", "new 8"]
        for at, lines in ((17, middle), (18, middle), (25, self.old[:6]), (26, new[:8]), (27, new)):
            self.progress.look(at, lines)
        self.assertEqual(self.progress.advanced(10.5, 6), 26)

    def test_who_never_went_on(self) -> None:
        self.progress.look(20, self.old[:6])
        self.assertIsNone(self.progress.advanced(10.5, 6))


def event(at: float, what: str, subject: str, **data: Any) -> dict[str, Any]:
    return {"at": at, "type": what, "subject": subject, "data": data}


class Detected(unittest.TestCase):
    EVENTS = [event(9, "vm.state", "a-0", state="failed"), event(11, "vm.state", "b-0", state="lost"),
              event(11.5, "vm.state", "a-0", state="running"), event(12, "host.state", "h2", health="down"),
              event(12.5, "host.state", "h1", health="up"), event(13, "vm.state", "a-0", state="lost"),
              event(14, "host.state", "h1", health="down"),
              event(15, "operation.created", "op-9", kind="recovery.run", target="job-1"),
              event(15, "operation.created", "op-8", kind="checkpoint.take", target="job-1")]

    def at(self, vms: list[str], hosts: list[str], since: float = 10) -> float | None:
        return detected_at(self.EVENTS, float, since, "job-1", vms, hosts)

    def test_the_first_word_of_what_was_killed(self) -> None:
        self.assertEqual(self.at(["a-0"], []), 13)
        self.assertEqual(self.at([], ["h1"]), 14)
        self.assertEqual(self.at(["a-0"], ["h2"]), 12)
        self.assertEqual(self.at([], []), 15)
        self.assertIsNone(self.at(["a-0"], ["h1"], since=16))


class Results(unittest.TestCase):
    def bars(self, rows: list[Row], failures: list[Row] | None = None, wanted: int = 0) -> dict[str, Any]:
        return results_of(rows, PLAIN, failures or [], wanted or len(rows))["bars"]

    def test_all_is_well(self) -> None:
        bars = self.bars([row(), row(HOST, 1.9, 9.9), row(MARED, None, 8.0)], [failure(90, 630.0)])
        self.assertEqual({name: one["holds"] for name, one in bars.items()},
                         dict.fromkeys(("kills_survived", "doubled", "detection_s", "recovery_s", "saved_at_90"), True))
        self.assertEqual(bars["detection_s"]["value"], 1.9)
        self.assertAlmostEqual(bars["saved_at_90"]["value"], 100 * (1 - 630 / 1140))

    def test_one_that_did_not_survive_or_is_missing_breaks_its_bar(self) -> None:
        bars = self.bars([row(), row(survived=False, recovery=None)])
        self.assertEqual((bars["kills_survived"]["value"], bars["kills_survived"]["holds"]), (1, False))
        self.assertFalse(self.bars([row()], wanted=2)["kills_survived"]["holds"])

    def test_a_double_anywhere_breaks_its_bar(self) -> None:
        self.assertEqual(self.bars([row(doubled=["a on h1, h2"]), row()])["doubled"]["value"], 1)
        self.assertFalse(self.bars([row()], [failure(50, 700.0, doubled=["b"])])["doubled"]["holds"])

    def test_a_slow_kind_is_not_hidden_by_the_others(self) -> None:
        bars = self.bars([*(row() for _ in range(20)), row(CUT, 4.0, 15.0), row(CUT, 4.2, 16.0), row(CUT, 4.1, 14.0)])
        self.assertEqual((bars["detection_s"]["value"], bars["recovery_s"]["value"]), (4.1, 15.0))
        self.assertFalse(bars["detection_s"]["holds"] or bars["recovery_s"]["holds"])

    def test_a_loaded_machine_times_nothing_but_must_survive(self) -> None:
        loaded = row(HOST, 50.0, 90.0, load=LOAD_LIMIT + 0.1)
        found = results_of([row(), loaded, {**loaded, "survived": False}], PLAIN, [failure(90, 640.0, load=LOAD_LIMIT + 1)], 3)
        self.assertEqual(found["results"]["dropped_for_load"], 2)
        self.assertEqual(found["bars"]["recovery_s"]["value"], 5.0)
        self.assertEqual(found["bars"]["kills_survived"]["value"], 2)
        self.assertIsNone(found["bars"]["saved_at_90"]["value"])
        self.assertEqual(len(found["results"]["rows"]), 3, "but they are kept")

    def test_nothing_measured_holds_nothing_of_time(self) -> None:
        bars = results_of([], None, [], 50)["bars"]
        self.assertEqual([name for name, one in bars.items() if one["holds"]], ["doubled"])

    def test_of_what_was_not_asked_for_nothing_is_said(self) -> None:
        self.assertEqual(set(results_of([], PLAIN, [failure(90, 630.0)], 0)["bars"]), {"doubled", "saved_at_90"})
        self.assertEqual(set(results_of([], PLAIN, [failure(70, 630.0)], 0)["bars"]), {"doubled"})
        self.assertEqual(set(self.bars([row()])), {"doubled", "kills_survived", "detection_s", "recovery_s"})

    def test_the_curve(self) -> None:
        results = results_of([], PLAIN, [failure(90, 640.0), failure(10, 630.0), failure(50, None, survived=False)], 0)["results"]
        self.assertEqual([one["percent"] for one in results["curve"]], [10, 50, 90])
        ten, fifty, ninety = results["curve"]
        self.assertAlmostEqual(ten["rerun_s"], 660)
        self.assertAlmostEqual(ninety["possible_percent"], 47.368, 3)
        self.assertAlmostEqual(ninety["saved_percent"], 43.860, 3)
        self.assertIsNone(fifty["saved_percent"])

    def test_groups(self) -> None:
        found = results_of([row(), row(recovery=7.0), row(HOST, survived=False)], PLAIN, [], 3)["results"]["by_kind"]
        self.assertEqual([(one["kind"], one["kills"], one["survived"]) for one in found], [(VM, 2, 2), (HOST, 1, 0)])
        self.assertEqual(found[0]["recovery_s"], {"count": 2, "min": 5.0, "median": 6.0, "p95": 7.0, "max": 7.0})
        self.assertEqual(found[1]["recovery_s"], {"count": 0})


if __name__ == "__main__":
    unittest.main()
