"""When a migration begins: in a rank's next MPI collective. (A trough is known after six cycles of the dirty-page log, of 64 s each: see the simulator.)"""

from __future__ import annotations

import unittest

from lib.cluster import Cluster
from lib.extent import IN_FULL
from lib.migtest import MigTest, Shape

POOL = "moment"


class MomentTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        cls.cluster = Cluster()
        cls.cluster.restore()
        cls.cluster.without_pools()
        cls.cluster.ensure_pool(POOL, 2)

    @classmethod
    def tearDownClass(cls) -> None:
        cls.cluster.without_pools()

    def tearDown(self) -> None:
        for job in self.cluster.items("jobs"):
            if job["state"] in ("queued", "starting", "running"):
                self.cluster.mare("job", "cancel", job["id"], check=False)

    def history(self, operation: str) -> str:
        return "\n".join(line["detail"] or "" for line in self.cluster.items(f"operations/{operation}/events"))

    def test_the_next_collective(self) -> None:
        job = MigTest(self.cluster, POOL, Shape(ranks=2, iterations=300, interval_ms=50, barrier=True), safe_points=True)
        job.wait_for_iterations(5)
        vm = job.vms()[1]
        destination = self.cluster.another_host(*(self.cluster.host_of(one) for one in job.vms()))
        record = self.cluster.migrate(vm, destination, strategy="stop-and-copy", moment="safe-point")
        self.assertRegex(self.history(record["id"]), r"at a safe point, after \d+ ms")
        self.assertEqual(self.cluster.assert_runs_once(vm), destination)
        job.assert_right()
        self.cluster.assert_clean(vm)

    @IN_FULL
    def test_a_program_that_announces_none_is_moved_at_once_and_it_is_said(self) -> None:
        job = MigTest(self.cluster, POOL, Shape(ranks=2, iterations=300))
        job.wait_for_iterations(5)
        vm = job.vms()[1]
        destination = self.cluster.another_host(*(self.cluster.host_of(one) for one in job.vms()))
        record = self.cluster.migrate(vm, destination, moment="safe-point")
        self.assertIn("announce no safe points", self.history(record["id"]))
        job.assert_right()


if __name__ == "__main__":
    unittest.main()
