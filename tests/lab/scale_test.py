"""Pools that grow and shrink under a job that runs, on real libvirt, QEMU, NFS and Open MPI."""

from __future__ import annotations

import unittest

from lib.cluster import Cluster, Json
from lib.extent import IN_FULL
from lib.migtest import MigTest, Shape
from lib.waiting import wait_until

POOL = "elastic"
# What a rank can tell about the machine that it is on.
WHO = "echo who: $(hostname) $(hostname -I) $(cat /sys/class/net/e*/address) $(cat /proc/sys/kernel/random/boot_id)"


class ScaleTest(unittest.TestCase):
    """A pool of two VMs before each test."""

    @classmethod
    def setUpClass(cls) -> None:
        cls.cluster = Cluster()
        cls.cluster.restore()
        cls.cluster.without_pools()

    def setUp(self) -> None:
        self.cluster.restore()
        self.cluster.ensure_pool(POOL, 2)

    def tearDown(self) -> None:
        self.cluster.restore()
        self.cluster.delete_pool(POOL)

    def ask(self, size: int, **options: Json) -> Json:
        return self.cluster.submit("PATCH", f"pools/{POOL}", {"size": size, **options})

    def scale(self, size: int, **options: Json) -> Json:
        return self.cluster.finish(self.ask(size, **options))

    def assert_size(self, size: int) -> list[str]:
        """The pool's row, its VMs' rows, all libvirts and the kernel tell the same. Gives the VMs."""
        self.assertEqual(self.cluster.get(f"pools/{POOL}")["size"], size)
        names = sorted(vm["id"] for vm in self.cluster.items(f"vms?pool={POOL}"))
        self.assertEqual(len(names), size)
        for vm in names:
            self.cluster.assert_runs_once(vm)
        self.assertEqual([vm for vm in self.cluster.qemus() if vm.startswith(POOL + "-")], names)
        return names

    def identities(self, ranks: int) -> list[list[str]]:
        """Host name, address, MAC and boot of each rank's VM, as the VM itself sees them."""
        done = self.cluster.mare("job", "submit", POOL, "-n", str(ranks), "--follow", "--", "sh", "-c", WHO)
        found = [line.split()[1:] for line in done.stdout.splitlines() if line.startswith("who: ")]
        self.assertEqual(len(found), ranks, done.stdout)
        return found

    @IN_FULL
    def test_it_grows_under_a_job_and_the_new_vms_are_each_their_own(self) -> None:
        job = MigTest(self.cluster, POOL, Shape(ranks=2, iterations=300))
        job.wait_for_iterations(5)
        ended = self.scale(4)
        self.assertEqual(ended["reason"], "the pool has 4 VMs")
        names = self.assert_size(4)
        job.assert_advances()
        # While the first job runs, a second one begins where there is room now.
        second = self.identities(2)
        self.assertTrue({one[0] for one in second}.isdisjoint(job.vms()), "two ranks shared a VM")
        job.assert_right()
        everybody = self.identities(4)
        self.assertEqual(sorted(one[0] for one in everybody), names)
        for what, values in zip(("address", "MAC", "boot"), list(zip(*everybody))[1:]):
            self.assertEqual(len(set(values)), 4, f"VMs that share an {what}: {everybody}")
        for vm in names:
            self.cluster.assert_clean(vm)

    def test_it_shrinks_and_never_takes_a_rank(self) -> None:
        self.scale(4)
        job = MigTest(self.cluster, POOL, Shape(ranks=2, iterations=250))
        job.wait_for_iterations(3)
        kept = sorted(job.vms())
        refused = self.cluster.api("PATCH", f"pools/{POOL}", {"size": 1})
        self.assertEqual(refused.status, 409, refused.body)
        self.assertIn(job.id, refused.fault())
        self.scale(2)
        self.assertEqual(self.assert_size(2), kept)
        job.assert_advances()
        job.assert_right()
        some = self.cluster.finish(self.ask(1, best_effort=True))
        self.assertEqual(some["reason"], "the pool has 1 VM")
        self.assert_size(1)

    def test_more_than_there_is_room_for(self) -> None:
        refused = self.cluster.api("PATCH", f"pools/{POOL}", {"size": 900})
        self.assertEqual(refused.status, 409, refused.body)
        self.assertIn("more VMs have a place", refused.fault())
        self.assert_size(2)

    def test_asked_twice_it_is_done_once(self) -> None:
        first = self.ask(3)
        again = self.ask(3)
        self.assertEqual(again["id"], first["id"])
        self.assertEqual(self.cluster.api("PATCH", f"pools/{POOL}", {"size": 4}).status, 409)
        self.cluster.finish(first)
        self.assert_size(3)

    def test_mared_that_dies_in_the_middle_goes_on(self) -> None:
        operation = self.ask(4)
        wait_until(lambda: self.cluster.get(f"operations/{operation['id']}")["state"] == "Growing", "it grows", period_s=0.02)
        self.cluster.kill_mared()
        self.cluster.start_mared()
        self.cluster.finish(operation)
        self.assert_size(4)

    @IN_FULL
    def test_it_follows_the_queue_of_its_jobs(self) -> None:
        self.cluster.mare("pool", "autoscale", POOL, "--source", "queue", "--target", "1", "--max", "3", "--down-window", "5s")
        job = MigTest(self.cluster, POOL, Shape(ranks=3, iterations=20))
        job.assert_right()
        # The pool's size is the new one from the beginning of a shrink on; its VMs are gone at its end.
        wait_until(lambda: self.cluster.get(f"pools/{POOL}")["size"] == 1, "it is to be as small as the rule allows")
        self.cluster.finish(self.cluster.get(f"operations/{self.cluster.get(f'pools/{POOL}/autoscale')['operation']}"))
        self.cluster.mare("pool", "autoscale", POOL, "--off")
        self.assert_size(1)


if __name__ == "__main__":
    unittest.main()
