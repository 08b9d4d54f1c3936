"""What counts as off, which verdicts were wrong, and what is measured once more after a stop."""

from __future__ import annotations

import argparse
import pathlib
import tempfile
import unittest
import unittest.mock
from typing import Any

import paths  # noqa: F401
import forecast
from partial import Partial


def row(true: float | None, said: float) -> dict[str, Any]:
    return {"measured": {"downtime_s": true}, "forecast": {"downtime_s": {"value": said}}}


def verdict(converges: bool, low: float, value: float, high: float, ended: str, unsure: bool = False) -> dict[str, Any]:
    return {"converges": converges, "end_unsure": unsure, "ended": ended, "forecast": {"total_time_s": {"low": low, "value": value, "high": high}}}


class Downtime(unittest.TestCase):
    def test_a_long_one_may_be_off_by_a_share(self) -> None:
        found = forecast.downtime_beyond_ms([row(1.0, 1.14), row(1.0, 1.2), row(1.0, 0.8), row(0.05, 0.07), row(None, 1.0)])
        for one, wanted in zip(found, (0.0, 200.0, 200.0, 20.0), strict=True):
            self.assertAlmostEqual(one, wanted, 6)


class Verdicts(unittest.TestCase):
    def test_wrong_is_what_was_said_and_did_not_come(self) -> None:
        limit = forecast.TIME_LIMIT_S
        self.assertFalse(forecast.is_wrong(verdict(True, 1, 2, 3, "succeeded")))
        self.assertTrue(forecast.is_wrong(verdict(True, 1, 2, 3, "failed")))
        self.assertTrue(forecast.is_wrong(verdict(False, 1, 2, 3, "succeeded")))
        self.assertFalse(forecast.is_wrong(verdict(False, 1, 2, 3, "failed")))
        # It was left open.
        self.assertFalse(forecast.is_wrong(verdict(True, limit - 1, limit - 0.5, limit + 1, "failed")))
        self.assertFalse(forecast.is_wrong(verdict(False, 1, 2, 3, "succeeded", unsure=True)))
        self.assertFalse(forecast.is_wrong(verdict(True, 1, 2, 3, "failed", unsure=True)))
        self.assertTrue(forecast.is_wrong(verdict(True, limit + 1, limit + 2, limit + 3, "succeeded")))


class Alike(unittest.TestCase):
    def test_two_of_a_kind_are_held_against_each_other(self) -> None:
        def one(workload: str, time_s: float, downtime_s: float | None) -> dict[str, Any]:
            return {"workload": workload, "rate": "1gbit", "strategy": "pre-copy",
                    "measured": {"total_time_s": time_s, "sent_bytes": 0.0, "downtime_s": downtime_s, "added_job_time_s": None}}
        found = forecast.apart([one("idle", 9.0, 0.1), one("sort", 1.0, 0.1), one("idle", 11.0, 0.3)])
        self.assertAlmostEqual(found["time"]["median"], 0.2 / 2 ** 0.5, 4)
        self.assertAlmostEqual(found["downtime"]["max"], 0.2 / 2 ** 0.5, 4)
        self.assertEqual(found["added"], {"count": 0})
        self.assertEqual(forecast.apart([one("idle", 9.0, None), one("idle", 9.0, 0.1)])["downtime"], {"count": 0})


class Kept(unittest.TestCase):
    def moves(self, file: pathlib.Path, stop_after: int = 1000) -> tuple[list[dict[str, Any]], list[str]]:
        """The rows, and the workloads that were run for them."""
        cluster = unittest.mock.Mock()
        cluster.get.return_value = {"items": [{"strategies": ["pre-copy", "post-copy", "hybrid", "checkpoint-restart"]}]}
        ran: list[str] = []

        def under(_: Any, load: Any, kinds: list[tuple[str, str]], told: tuple[int, int]) -> list[dict[str, Any]]:
            if len(ran) == stop_after:
                raise KeyboardInterrupt
            ran.append(load.name)
            return [{"workload": load.name, "kind": list(kind), "first": told[0]} for kind in kinds]
        with unittest.mock.patch.object(forecast, "moves_under", under):
            options = argparse.Namespace(seed=7, quick=False, partial=Partial(file, {"seed": 7}))
            try:
                return forecast.all_moves(cluster, options), ran
            except KeyboardInterrupt:
                return [], ran

    def test_a_workload_that_was_measured_is_not_measured_again(self) -> None:
        with tempfile.TemporaryDirectory() as where:
            whole, all_of_them = self.moves(pathlib.Path(where) / "one")
            self.assertEqual(len(set(all_of_them)), len(forecast.WORKLOADS))
            self.assertGreaterEqual(len(whole), 80)
            for load in all_of_them:
                kinds = [tuple(row["kind"]) for row in whole if row["workload"] == load]
                self.assertEqual((len(kinds), len(set(kinds))), (5, 4), "one of each is made twice")
            self.assertNotIn("checkpoint-restart", {row["kind"][1] for row in whole})
            stopped = pathlib.Path(where) / "two"
            nothing, before = self.moves(stopped, stop_after=3)
            self.assertEqual((nothing, before), ([], all_of_them[:3]))
            again, after = self.moves(stopped)
            self.assertEqual((again, after), (whole, all_of_them[3:]))


if __name__ == "__main__":
    unittest.main()
