"""VMs that start as clones: each its own on the wire and inside."""

from __future__ import annotations

import unittest

from lib.cluster import Cluster, Json
from lib.extent import IN_FULL
from lib.migtest import MigTest, Shape
from lib.waiting import wait_until

POOL = "warm"
# What a rank can tell about the machine that it is on; the last is the first random number of its life.
WHO = ("echo who: $(hostname) $(hostname -I) $(cat /sys/class/net/eth0/address) $(cat /proc/sys/kernel/random/boot_id) "
       "$(cat /etc/machine-id) $(head -c 8 /dev/urandom | od -An -tx8)")


class ClonesTest(unittest.TestCase):
    """A pool of one VM, booted, and its host's template."""

    @classmethod
    def setUpClass(cls) -> None:
        cls.cluster = Cluster()
        cls.cluster.restore()
        cls.cluster.without_pools()
        cls.cluster.ensure_pool(POOL, 2)
        # Every host of the lab gets one: both VMs booted there, or are clones of an earlier test's.
        wait_until(lambda: cls.is_warm(), "templates on the hosts", 120)

    @classmethod
    def tearDownClass(cls) -> None:
        cls.cluster.delete_pool(POOL)
        cls.cluster.restore()

    @classmethod
    def scale(cls, size: int) -> Json:
        return cls.cluster.finish(cls.cluster.submit("PATCH", f"pools/{POOL}", {"size": size}))

    @classmethod
    def how_it_started(cls, vm: str) -> str:
        starts = [one for one in cls.cluster.items("operations?limit=1000") if one["kind"] == "vm.start" and one["target"] == vm]
        newest = max(starts, key=lambda one: one["created"])
        return " ".join(line["detail"] or "" for line in cls.cluster.items(f"operations/{newest['id']}/events"))

    @classmethod
    def is_warm(cls) -> bool:
        cls.scale(2)
        cls.scale(6)
        warm = all("as a clone" in cls.how_it_started(f"{POOL}-{index}") for index in range(2, 6))
        cls.scale(2)
        return warm

    def test_clones_are_each_their_own(self) -> None:
        self.scale(6)
        for index in range(2, 6):
            self.assertIn("as a clone", self.how_it_started(f"{POOL}-{index}"))
        done = self.cluster.mare("job", "submit", POOL, "-n", "6", "--follow", "--", "sh", "-c", WHO)
        found = [line.split()[1:] for line in done.stdout.splitlines() if line.startswith("who: ")]
        self.assertEqual(len(found), 6, done.stdout)
        self.assertEqual(sorted(one[0] for one in found), [f"{POOL}-{index}" for index in range(6)])
        for what, values in zip(("name", "address", "MAC", "boot id", "machine id", "random number"), zip(*found)):
            self.assertEqual(len(set(values)), 6, f"VMs that share a {what}: {found}")
        job = MigTest(self.cluster, POOL, Shape(ranks=6, iterations=60))
        job.assert_right()
        for index in range(6):
            self.cluster.assert_runs_once(f"{POOL}-{index}")
            self.cluster.assert_clean(f"{POOL}-{index}")
        self.scale(2)

    @IN_FULL
    def test_clones_that_move_keep_their_memory(self) -> None:
        """Each is sent from its first memory, the template's, and once more from its own."""
        self.scale(4)
        vms = [f"{POOL}-{index}" for index in (2, 3)]
        for vm in vms:
            self.assertIn("as a clone", self.how_it_started(vm))
        job = MigTest(self.cluster, POOL, Shape(ranks=4, iterations=150))
        job.wait_for_iterations(3)
        for strategy in ("pre-copy", "throttled"):
            for vm in vms:
                to = self.cluster.another_host(self.cluster.host_of(vm))
                self.cluster.migrate(vm, to, strategy=strategy)
                self.cluster.assert_runs_once(vm)
                self.cluster.assert_clean(vm)
        job.assert_right()
        for vm in vms:
            self.cluster.assert_clean(vm)
        self.scale(2)

    @IN_FULL
    def test_a_checkpoint_of_clones_does_not_wait_for_its_files(self) -> None:
        self.scale(4)
        job = MigTest(self.cluster, POOL, Shape(ranks=4, iterations=80))
        job.wait_for_iterations(3)
        self.cluster.finish(self.cluster.submit("POST", f"jobs/{job.id}:checkpoint", {}))
        logs = "".join(path.read_text() for path in (self.cluster.state / "logs").glob("agent-*.log"))
        self.assertNotIn("captured without copy-on-write", logs)
        job.assert_right()
        self.scale(2)


if __name__ == "__main__":
    unittest.main()
