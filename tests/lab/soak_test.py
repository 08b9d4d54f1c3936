"""A sample of the soak bench (tests/bench/run soak), as a test; all of it with --full."""

from __future__ import annotations

import json
import unittest

from lib.cluster import Cluster
from lib.extent import FULL
from lib.soak import run_soak


class SoakTest(unittest.TestCase):
    def test_there_and_back_again_and_again(self) -> None:
        wanted = 50 if FULL else 2
        cluster = Cluster()
        cluster.restore()
        cluster.without_pools()
        results = run_soak(cluster, wanted)
        shown = json.dumps(results, indent=1)
        self.assertEqual(results["problems"], [], shown)
        self.assertEqual(results["migrations"], wanted)
        self.assertEqual(results["console_faults"], {})
        self.assertTrue(results["checksum_right_and_no_iteration_lost"])
        self.assertGreater(results["job_advanced_during_migrations"], wanted / 2, "the job hardly ran while it moved")
        self.assertEqual(results["downtime_ms"]["peers"]["count"], wanted)


if __name__ == "__main__":
    unittest.main()
