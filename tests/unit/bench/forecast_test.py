"""What counts as off, and which verdicts were wrong."""

from __future__ import annotations

import unittest
from typing import Any

import paths  # noqa: F401
import forecast


def row(true: float | None, said: float) -> dict[str, Any]:
    return {"measured": {"downtime_s": true}, "forecast": {"downtime_s": {"value": said}}}


def verdict(converges: bool, low: float, value: float, high: float, ended: str) -> dict[str, Any]:
    return {"converges": converges, "ended": ended, "forecast": {"total_time_s": {"low": low, "value": value, "high": high}}}


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
        self.assertTrue(forecast.is_wrong(verdict(True, limit + 1, limit + 2, limit + 3, "succeeded")))


if __name__ == "__main__":
    unittest.main()
