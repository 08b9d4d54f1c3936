"""What counts as an alarm, what is read from the metrics, and the bars."""

from __future__ import annotations

import unittest

import paths  # noqa: F401
import detection
import made
import tables
from kills import CUT, HOST

METRICS = """# TYPE mare_host_silence_seconds histogram
mare_host_silence_seconds_bucket{le="0.5"} 90
mare_host_silence_seconds_bucket{le="0.6"} 98
mare_host_silence_seconds_bucket{le="+Inf"} 100
mare_host_silence_seconds_sum 51.5
mare_host_longest_silence_seconds 0.71
"""


def event(type_: str, subject: str, **data: str) -> detection.Json:
    return {"type": type_, "subject": subject, "at": "2026-01-01T00:00:00Z", "data": data}


def watched(**more: detection.Json) -> detection.Row:
    return {"seconds": 3600.2, "alarms": [], "restarts": 0, "checkpoints": 170, "load": detection.figures([4.1, 5.0]),
            "silences": detection.silences(METRICS), **more}


def fast(*noticed: float | None) -> list[detection.Row]:
    return [{"kind": (HOST, CUT)[number % 2], "host": "h1", "vms": [], "detection_s": one, "load": 2.0} for number, one in enumerate(noticed)]


class DetectionTest(unittest.TestCase):
    def test_alarms_are_what_mared_takes_for_a_failure(self) -> None:
        well = [event("host.state", "h1", health="up"), event("vm.state", "a-1", state="paused"),
                event("operation.created", "op-1", kind="checkpoint.take", target="job-1")]
        ill = [event("host.state", "h1", health="down"), event("vm.state", "a-1", state="lost"), event("vm.state", "a-2", state="failed"),
               event("operation.created", "op-2", kind="recovery.run", target="job-1")]
        self.assertEqual(detection.alarms(well), [])
        self.assertEqual(len(detection.alarms([*well, *ill])), 4)
        self.assertIn("host h1 is down", detection.alarms(ill)[0])

    def test_silences_are_those_beyond_each_bound(self) -> None:
        self.assertEqual(detection.silences(METRICS), {"answers": 100, "longest_s": 0.71, "longer_than_s": {"0.5": 10, "0.6": 2}})
        with self.assertRaises(AssertionError):
            detection.silences("mare_hosts 3\n")

    def test_bars(self) -> None:
        def holds(*found: detection.Json) -> dict[str, bool]:
            return {name: one["holds"] for name, one in detection.results_of(*found)["bars"].items()}
        self.assertEqual(set(holds(watched(), fast(0.1, 0.29, 0.4)).values()), {True})
        self.assertFalse(holds(watched(alarms=["x"]), fast(0.1))["false_alarms"])
        self.assertFalse(holds(watched(seconds=60.0), fast(0.1))["watched_s"])
        self.assertFalse(holds(watched(load=detection.figures([3.9])), fast(0.1))["load_median"])
        for noticed in ((), (0.1, None), (0.31, 0.32)):
            self.assertFalse(holds(watched(), fast(*noticed))["fast_detection_s"])

    def test_the_table(self) -> None:
        text = tables.section({"bench": "detection", "commit": None, "machine": made.MACHINE, "setup": {}, **detection.results_of(watched(), fast(0.1, 0.25))})
        self.assertIn("0 false alarms in 3600 s", text)
        self.assertIn("| 0.6 | 2 |", text)
        self.assertIn("| a host's network | 1 | 0.25 |", text)


if __name__ == "__main__":
    unittest.main()
