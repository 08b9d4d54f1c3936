"""A job that takes checkpoints comes back by itself, whatever is killed, with the exact result, and no VM ever runs twice."""

from __future__ import annotations

import json
import os
import re
import signal
import unittest

from lib.cluster import Cluster, Json
from lib.extent import IN_FULL
from lib.migtest import MigTest, Shape
from lib.processes import QEMU, WATCHDOG, Doubles, end_at_once, has_ended, of_lab
from lib.waiting import holds_for, wait_until

POOL = "rise"
# With a collective in each iteration.
IN_STEP = Shape(ranks=3, iterations=200, barrier=True)
# Some of it is left when the second checkpoint is there, and what is done again is worth noticing.
LONG = Shape(ranks=3, iterations=200)
# And when it has come back, been saved again and moved.
LONGER = Shape(ranks=3, iterations=420)
CHECKPOINTS = {"checkpoint_every_s": 8, "checkpoints_kept": 2}


class RecoveryTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        cls.cluster = Cluster()
        cls.cluster.restore()
        cls.cluster.without_pools()

    def setUp(self) -> None:
        self.cluster.restore()
        self.vms = self.cluster.ensure_pool(POOL, 3)
        self.witness = Doubles(of_lab(self.cluster))
        self.addCleanup(self.cluster.restore)
        self.enterContext(self.witness)

    def tearDown(self) -> None:
        for job in self.cluster.items("jobs"):
            if job["state"] in ("queued", "starting", "running"):
                self.cluster.mare("job", "cancel", job["id"], check=False)

    def submitted(self, shape: Shape = LONG, **more: Json) -> MigTest:
        """A job that runs and has a checkpoint, and has gone on since."""
        job = MigTest(self.cluster, POOL, shape, **CHECKPOINTS, **more)
        job.wait_for_iterations(5)
        wait_until(lambda: self.complete(job), f"{job.id} has a checkpoint", period_s=0.3)
        job.assert_advances()
        return job

    def complete(self, job: MigTest) -> list[Json]:
        return [one for one in self.cluster.items(f"jobs/{job.id}/checkpoints") if one["state"] == "complete"]

    def assert_back(self, job: MigTest, restarts: int = 1) -> None:
        """It came back that often, and ended as if nothing had been."""
        row = job.assert_right()
        self.assertEqual(row["restarts"], restarts, row)
        for vm in job.vms():
            self.cluster.assert_runs_once(vm)
            self.cluster.assert_clean(vm)
        self.assertGreater(self.witness.looks, 20)
        self.assertEqual(self.witness.found, [])

    def recoveries(self, job: MigTest) -> list[Json]:
        return [one for one in self.cluster.items("operations?kind=recovery.run") if one["target"] == job.id]

    def test_a_checkpoint_is_one_cut_and_the_job_goes_on(self) -> None:
        job = self.submitted()
        for one in self.complete(job):
            self.assertEqual(len(one["parts"]), 3, one)
            self.assertGreater(one["size_bytes"], 3 * (8 << 20), one)
            last_stop = max(part["stopped"] for part in one["parts"])
            self.assertLessEqual(last_stop, min(part["resumed"] for part in one["parts"]), one)
        self.assert_back(job, restarts=0)

    @IN_FULL
    def test_a_checkpoint_at_a_safe_point_and_the_way_back(self) -> None:
        job = self.submitted(IN_STEP, safe_points=True, safe_point_wait_s=10)
        # The first may come before the program has called MPI_Init.
        wait_until(lambda: any(one["safe_point"] == "hit" for one in self.complete(job)), f"{job.id} is saved at a safe point",
                   period_s=0.3)
        self.assertFalse(any(one["safe_point"] == "not-asked" for one in self.complete(job)))
        self.cluster.kill_qemus(self.cluster.host_of(job.vms()[1]))
        self.assert_back(job)

    @IN_FULL
    def test_a_host_whose_vms_and_agent_are_killed(self) -> None:
        job = self.submitted()
        host = self.cluster.host_of(job.vms()[1])
        self.cluster.kill_agent(host)
        killed = self.cluster.kill_qemus(host)
        self.assertIn(job.vms()[1], killed)
        wait_until(lambda: job.row()["restarts"] == 1, f"{job.id} is put back", period_s=0.3)
        self.assertNotEqual(self.cluster.host_of(job.vms()[1]), host)
        self.assert_back(job)
        self.assertEqual([one["outcome"] for one in self.recoveries(job)], ["succeeded"])
        self.cluster.start_agent(host)
        self.cluster.wait_health(host, "up")

    def in_memory(self, job: MigTest) -> Json:
        """A checkpoint that has just come to be in the memory of partner hosts, all of it."""
        before = {one["id"] for one in self.complete(job)}

        def look() -> Json | None:
            newest = self.complete(job)[0]
            return newest if newest["id"] not in before and newest["in_memory"] == len(newest["parts"]) else None

        return wait_until(look, f"a new checkpoint of {job.id} is in memory", period_s=0.2)

    def test_a_host_is_killed_and_the_vms_go_on_from_the_memory_of_others(self) -> None:
        job = self.submitted(LONGER, checkpoint_partner=True)
        kept = self.in_memory(job)
        where = {part["vm"]: part["partner"] for part in kept["parts"]}
        for vm, partner in where.items():
            self.assertNotEqual(self.cluster.host_of(vm), partner)
        host = self.cluster.host_of(job.vms()[1])
        self.cluster.kill_agent(host)
        self.cluster.kill_qemus(host)
        wait_until(lambda: job.row()["restarts"] == 1, f"{job.id} is put back", period_s=0.3)
        # Another one may have read the part of a VM whose partner this host was, while it was fenced.
        here = [vm for vm, partner in where.items() if partner != host]
        (restore,) = [one for one in self.cluster.items("operations?kind=checkpoint.restore") if one["target"] == job.id]
        found = re.search(rf"{kept['id']}, (\d) of 3 from their hosts' memory", restore["reason"])
        self.assertTrue(found and int(found[1]) >= len(here), restore["reason"])
        for vm in here:
            self.assertEqual(self.cluster.host_of(vm), where[vm])
        self.cluster.start_agent(host)
        self.cluster.wait_health(host, "up")
        # They are VMs as any others: they can be captured, and moved.
        again = self.in_memory(job)
        self.assertIsNotNone(again["parts"][0]["base"], again)
        self.assert_back(job)
        # (A move has two processes, and so comes after the count.)
        to = next(one for one in self.cluster.hosts if one != self.cluster.host_of(here[0]))
        self.cluster.migrate(here[0], to, strategy="post-copy")
        self.assertEqual(self.cluster.assert_runs_once(here[0]), to)
        self.cluster.assert_clean(here[0])

    def evacuate(self, host: str, within_s: int) -> list[Json]:
        """What came of its VMs. The host then dies, as was foretold."""
        done = self.cluster.mare("-o", "json", "host", "evacuate", host, "--within", f"{within_s}s", "--reason", "DIMM B2 fails")
        self.cluster.kill_agent(host)
        self.cluster.kill_qemus(host)
        return json.loads(done.stdout)["request"]["fates"]

    @IN_FULL
    def test_a_host_that_will_fail_is_left_in_time(self) -> None:
        job = self.submitted()
        vm = job.vms()[1]
        host = self.cluster.host_of(vm)
        (fate,) = [one for one in self.evacuate(host, within_s=90) if one["vm"] == vm]
        self.assertEqual(fate["fate"], "moved", fate)
        self.assertNotEqual(self.cluster.host_of(vm), host)
        # Nobody noticed that it died.
        self.assert_back(job, restarts=0)
        self.assertEqual(self.recoveries(job), [])
        self.cluster.start_agent(host)
        self.cluster.wait_health(host, "up")

    @IN_FULL
    def test_a_host_that_fails_sooner_than_its_vms_can_leave(self) -> None:
        """Nobody had asked for checkpoints of this job: it is saved because of the warning."""
        job = MigTest(self.cluster, POOL, LONG)
        job.wait_for_iterations(5)
        # A VM is not carried over in 10 s so.
        self.cluster.lab("rate", "20mbit")
        vm = job.vms()[1]
        host = self.cluster.host_of(vm)
        (fate,) = [one for one in self.evacuate(host, within_s=10) if one["vm"] == vm]
        self.cluster.lab("rate", "1gbit")
        self.assertEqual(fate["fate"], "covered", fate)
        self.assert_back(job)
        self.assertEqual([one["outcome"] for one in self.recoveries(job)], ["succeeded"])
        self.cluster.start_agent(host)
        self.cluster.wait_health(host, "up")

    @IN_FULL
    def test_an_agent_that_is_killed_takes_its_vms_along(self) -> None:
        """The host is only silent: its VMs run on. The watchdog ends them, and only then they run elsewhere."""
        job = self.submitted()
        vm = job.vms()[2]
        host = self.cluster.host_of(vm)
        self.cluster.kill_agent(host)
        wait_until(lambda: host not in self.cluster.copies(vm), f"{vm} has ended on {host}")
        self.assert_back(job)
        self.cluster.start_agent(host)
        self.cluster.wait_health(host, "up")
        # It may be used again. (A move has two processes, and so comes after the count.)
        self.cluster.migrate(vm, host)
        self.assertEqual(self.cluster.assert_runs_once(vm), host)

    def guards(self, host: str) -> list[int]:
        """Whoever could end its VMs."""
        watchdogs = [one.pid for one in of_lab(self.cluster).look() if one.kind == WATCHDOG and one.host == host]
        agent = self.cluster.agent_pid(host)
        self.assertTrue(agent and watchdogs)
        return [agent, *watchdogs]

    @IN_FULL
    def test_an_agent_and_its_watchdog_that_are_killed_at_once(self) -> None:
        """The kernel ends its VMs when the lease is over."""
        job = self.submitted()
        host = self.cluster.host_of(job.vms()[2])
        end_at_once(self.guards(host))
        self.assert_back(job)
        self.cluster.start_agent(host)
        self.cluster.wait_health(host, "up")

    @IN_FULL
    def test_a_host_that_stands_still_and_goes_on(self) -> None:
        """All that is left of its VMs by then is what never runs again: there is no moment in which two copies do."""
        job = self.submitted()
        host = self.cluster.host_of(job.vms()[2])
        qemus = [one.pid for one in of_lab(self.cluster).look() if one.kind == QEMU and one.host == host]
        guards = self.guards(host)
        for pid in (*guards, *qemus):
            os.kill(pid, signal.SIGSTOP)
        try:
            wait_until(lambda: job.row()["restarts"] == 1, f"{job.id} is put back", period_s=0.3)
            self.assertTrue(all(has_ended(pid) for pid in qemus))
        finally:
            for pid in guards:
                os.kill(pid, signal.SIGCONT)
        self.assert_back(job)
        self.cluster.wait_health(host, "up")

    def test_mared_that_is_away_ends_nothing(self) -> None:
        """The storage speaks for the hosts, for far longer than a lease lasts."""
        job = self.submitted()
        self.cluster.kill_mared()
        holds_for(lambda: all(list(self.cluster.copies(vm).values()) == ["running"] for vm in self.vms),
                  "all VMs run", 8)
        self.cluster.start_mared()
        self.assert_back(job, restarts=0)

    @IN_FULL
    def test_a_vm_that_is_killed(self) -> None:
        job = self.submitted()
        self.cluster.kill_qemus(self.cluster.host_of(job.vms()[0]))
        self.assert_back(job)
