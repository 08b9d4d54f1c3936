"""Moments in which a machine does something else are told by its load, and by what others take of its CPUs."""

from __future__ import annotations

import pathlib
import tempfile
import unittest
import unittest.mock

import paths  # noqa: F401  first: it puts the others on the path

import calm

BEFORE = "cpu  100 10 50 800 5 0 5 30 7 0\ncpu0 1 1 1 1 1 1 1 1 0 0\nintr 5\n"
#: 200 ticks later, of which 12 were stolen.
AFTER = "cpu  150 10 60 925 5 0 8 42 9 0\ncpu0 2 2 2 2 2 2 2 2 0 0\nintr 9\n"


class CalmTest(unittest.TestCase):
    def test_what_is_stolen_is_a_share_of_all_time(self) -> None:
        with tempfile.TemporaryDirectory() as folder, unittest.mock.patch("os.getloadavg", side_effect=[(2.5, 0, 0), (1.5, 0, 0)]):
            stat = pathlib.Path(folder) / "stat"
            stat.write_text(BEFORE)
            watch = calm.Watch(stat)
            stat.write_text(AFTER)
            self.assertEqual(watch.seen(), {"load": 2.5, "stolen": 0.06})

    def test_a_kernel_that_does_not_tell(self) -> None:
        self.assertEqual(calm.cpu_time("cpu  1 2 3 4\n"), (0, 10))

    def test_this_machines_own(self) -> None:
        seen = calm.Watch().seen()
        self.assertGreaterEqual(seen["load"], 0)
        self.assertTrue(0 <= seen["stolen"] <= 1)

    def test_what_counts_goes_by_load_alone(self) -> None:
        self.assertTrue(calm.is_calm({"load": 6.0, "stolen": 0.5}))
        self.assertFalse(calm.is_calm({"load": 6.1, "stolen": 0.0}))
        self.assertFalse(calm.is_calm({"load": 4.0}, 3.0), "by an older result's own")


if __name__ == "__main__":
    unittest.main()
