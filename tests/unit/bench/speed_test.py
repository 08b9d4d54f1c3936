"""A loop's own CPU time tells how quick the machine is, whatever else runs on it."""

from __future__ import annotations

import os
import threading
import unittest
import unittest.mock

import paths  # noqa: F401
import speed


class SpeedTest(unittest.TestCase):
    def test_the_mean_of_what_was_seen_while_it_was_entered(self) -> None:
        own = os.sched_getaffinity(0)
        told = iter([1.0, 4.0] + [1.0] * 1000)
        third = threading.Event()

        def look() -> float:
            value = next(told)
            if len(seen.took) == 2:
                third.set()
            return value
        seen = speed.Speed(0.005)
        with unittest.mock.patch.object(speed, "loop_ms", look), seen:
            self.assertTrue(third.wait(10))
        count = len(seen.took)
        self.assertAlmostEqual(seen.loop_ms() or 0, (4.0 + count - 1) / count, 3)
        self.assertEqual({one.name for one in threading.enumerate()}, {threading.main_thread().name}, "it looks no longer")
        self.assertEqual(os.sched_getaffinity(0), own, "only its own thread is pinned")

    def test_nothing_seen_is_nothing_known(self) -> None:
        with speed.Speed(60) as seen:
            pass
        self.assertIsNone(seen.loop_ms())

    def test_a_loop_takes_cpu_time(self) -> None:
        self.assertGreater(speed.loop_ms(), 0)


if __name__ == "__main__":
    unittest.main()
