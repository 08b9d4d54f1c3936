"""The life of a pool, a job and a migration, on real libvirt, QEMU, NFS and Open MPI."""

from __future__ import annotations

import json
import subprocess
import unittest

from lib.cluster import Cluster
from lib.migtest import MigTest, Shape
from lib.waiting import wait_until

POOL = "life"


class LifeTest(unittest.TestCase):
    """Three VMs that are kept for all tests of this class."""

    @classmethod
    def setUpClass(cls) -> None:
        cls.cluster = Cluster()
        cls.cluster.restore()
        cls.cluster.without_pools()
        cls.vms = cls.cluster.ensure_pool(POOL, 3)
        cls.first_hosts = [cls.cluster.host_of(vm) for vm in cls.vms]

    def setUp(self) -> None:
        self.cluster.restore()

    def test_a_pool_is_vms_that_run_once_and_answer(self) -> None:
        self.assertEqual(len(set(self.first_hosts)), 3, f"three VMs on three empty hosts: {self.first_hosts}")
        for vm in self.vms:
            self.cluster.assert_runs_once(vm)
            self.cluster.assert_clean(vm)
            self.assertIn(f"mare: guest {vm} ready", self.cluster.console(vm))

    def test_a_job_moves_in_mid_run_and_nothing_is_lost(self) -> None:
        job = MigTest(self.cluster, POOL, Shape(ranks=3, iterations=200))
        job.wait_for_iterations(10)
        vm = job.vms()[1]
        source = self.cluster.host_of(vm)
        destination = self.cluster.another_host(source)
        record = self.cluster.migrate(vm, destination)
        self.assertEqual(self.cluster.assert_runs_once(vm), destination)
        job.assert_advances()
        self.assert_sane(record, source, destination, job.id)
        job.assert_right()
        for name in self.vms:
            self.cluster.assert_clean(name)

    def assert_sane(self, record: dict, source: str, destination: str, job: str) -> None:
        """Figures that hang together; no test of speed."""
        shown = json.dumps(record, indent=1)
        self.assertEqual((record["source"], record["destination"]), (source, destination))
        self.assertEqual((record["outcome"], record["state"]), ("succeeded", "Done"))
        self.assertEqual(record["jobs"], [job])
        self.assertGreater(record["transferred_bytes"], 8 << 20, "less than what any guest has in use")
        self.assertTrue(record["rounds"], "no round was seen")
        indexes = [one["index"] for one in record["rounds"]]
        self.assertEqual(indexes, sorted(set(indexes)))
        total = record["total_time_ms"]
        downtime = record["downtime_ms"]
        self.assertGreater(total, 0)
        start_us = self.cluster.get(f"forecasts/{record['id']}")["profile"]["emulator_start_us"]
        self.assertTrue(0 < start_us < total * 1000, f"a start of {start_us} us in a move of {total} ms")
        for who in ("hypervisor", "guest", "peers"):
            self.assertIsNotNone(downtime[who], f"downtime of {who} is unknown: {shown}")
        self.assertGreater(downtime["hypervisor"], 0)
        self.assertLess(downtime["hypervisor"], total)
        # Peers see the pause and the network's part; the clock of the guest loses what the pause took.
        self.assertGreater(downtime["peers"], 0)
        self.assertGreaterEqual(downtime["peers"] + 50, downtime["guest"], shown)
        self.assertLess(downtime["guest"], total, shown)
        self.assertGreater(record["announcements"], 0, "no announcement was sent")
        self.assertIsNotNone(record["announce_delay_ms"])
        self.assertLess(record["announce_delay_ms"], 1000, "the announcement was late")

    def test_there_and_back(self) -> None:
        vm = self.vms[0]
        home = self.cluster.host_of(vm)
        away = self.cluster.another_host(home)
        uuid = self.cluster.get(f"vms/{vm}")["uuid"]
        self.cluster.migrate(vm, away)
        self.cluster.migrate(vm, home)
        self.assertEqual(self.cluster.assert_runs_once(vm), home)
        self.assertEqual(self.cluster.get(f"vms/{vm}")["uuid"], uuid)
        self.cluster.assert_clean(vm)

    def test_the_command_line_moves_a_vm_and_says_how_it_went(self) -> None:
        vm = self.vms[2]
        destination = self.cluster.another_host(self.cluster.host_of(vm))
        done = self.cluster.mare("migrate", vm, "--to", destination, "--wait")
        self.assertEqual(self.cluster.assert_runs_once(vm), destination)
        self.assertIn("downtime", done.stdout)

    def test_exit_codes_and_output_pass_through(self) -> None:
        done = self.cluster.mare("job", "submit", POOL, "-n", "2", "--follow", "--", "sh", "-c",
                                 "echo rank $OMPI_COMM_WORLD_RANK; exit 7", check=False)
        self.assertEqual(done.returncode, 7, done.stderr)
        self.assertIn("rank 0\n", done.stdout)
        self.assertIn("rank 1\n", done.stdout)

    def test_output_comes_while_the_job_runs(self) -> None:
        environment = self.cluster.environment()
        with subprocess.Popen([self.cluster.program("mare"), "job", "submit", POOL, "--follow", "--", "sh", "-c",
                               "echo begun; read -r line < /jobs/go; echo $line"],
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment) as follower:
            gate = self.cluster.state / "jobs" / "go"
            assert follower.stdout
            subprocess.run(["mkfifo", str(gate)], check=True)
            self.addCleanup(gate.unlink)
            first = follower.stdout.readline()
            self.assertEqual(first, "begun\n")
            job = self.cluster.items("jobs?limit=1")[0]
            self.assertEqual(job["state"], "running", "the line came only at the end")
            self.cluster.mare("job", "cancel", job["id"])
            follower.stdout.read()
            follower.wait(timeout=120)
        ended = wait_until(lambda: self.cluster.get(f"jobs/{job['id']}"), "the job's row")
        self.assertEqual(ended["state"], "cancelled")

    def test_a_cancelled_job_leaves_its_vms_free(self) -> None:
        job = MigTest(self.cluster, POOL, Shape(ranks=3, iterations=5000))
        job.wait_for_iterations(3)
        self.cluster.mare("job", "cancel", job.id)
        self.assertEqual(job.wait_end()["state"], "cancelled")
        after = MigTest(self.cluster, POOL, Shape(ranks=3, iterations=20, interval_ms=10))
        after.assert_right()

    def test_two_jobs_wait_for_each_other(self) -> None:
        shape = Shape(ranks=3, iterations=30, interval_ms=20)
        first, second = MigTest(self.cluster, POOL, shape), MigTest(self.cluster, POOL, shape)
        ended_first, began_second = first.assert_right()["ended"], second.assert_right()["started"]
        self.assertLessEqual(ended_first, began_second, "two ranks shared a VM")

    def test_a_drained_host_is_empty_and_its_job_goes_on(self) -> None:
        job = MigTest(self.cluster, POOL, Shape(ranks=3, iterations=250))
        job.wait_for_iterations(5)
        host = self.cluster.host_of(job.vms()[2])
        self.cluster.mare("host", "drain", host, "--wait")
        self.assertEqual(self.cluster.virsh(host, "list", "--all", "--name").split(), [])
        self.assertEqual(self.cluster.get(f"hosts/{host}")["admin"], "drained")
        for vm in self.vms:
            self.assertNotEqual(self.cluster.assert_runs_once(vm), host)
        job.assert_right()
        self.cluster.mare("host", "activate", host)
        for vm in self.vms:
            self.cluster.assert_clean(vm)


class EndTest(unittest.TestCase):
    """A pool of its own, since it is deleted."""

    def test_a_deleted_pool_leaves_nothing(self) -> None:
        cluster = Cluster()
        cluster.restore()
        vms = cluster.ensure_pool("brief", 2)
        before = {host: cluster.get(f"hosts/{host}")["memory_allocated_mib"] for host in cluster.hosts}
        self.assertTrue(any(before.values()))
        used = {vm: cluster.host_of(vm) for vm in vms}
        cluster.mare("pool", "delete", "brief", "--wait")
        self.assertFalse(cluster.has_pool("brief"))
        for vm in vms:
            self.assertEqual(cluster.copies(vm), {})
            self.assertNotIn(vm, cluster.qemus())
            self.assertEqual(cluster.api("GET", f"vms/{vm}").status, 404)
        for host in set(used.values()):
            gone = before[host] - cluster.get(f"hosts/{host}")["memory_allocated_mib"]
            self.assertGreaterEqual(gone, 192 * list(used.values()).count(host))


if __name__ == "__main__":
    unittest.main()
