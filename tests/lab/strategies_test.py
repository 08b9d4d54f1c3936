"""Every strategy once, with a job whose memory is checked to the last page, and the ways in which each can be stopped."""

from __future__ import annotations

import re
import time
import unittest

from lib.cluster import Cluster, Json
from lib.extent import FULL, IN_FULL
from lib.migtest import MigTest, Shape
from lib.sockets import BULK, USUAL, connections
from lib.waiting import wait_until

POOL = "strat"
# Set by hand, where the forecast would choose.
KNOBS = {"rate-controlled": {"rate_min_bytes_per_s": 20e6, "rate_gain": 2}, "throttled": {"throttle_initial_percent": 33},
         "hybrid": {"pre_copy_rounds": 2}}
STRATEGIES = ("pre-copy", "rate-controlled", "throttled", "compressed", "post-copy", "hybrid", "stop-and-copy", "checkpoint-restart")
# Where libvirt has a QEMU listen for a VM that comes.
QEMU_PORTS = (49152, 49215)
# As dirtylog::unread_limit() for a short way over a link of 100 Mbit/s.
UNREAD_LIMIT = 512 * 1024
# Longer than hosts may be silent, shorter than a guest's kernel complains of having stood still (20 s).
CABLE_OUT_S = 12
# It rewrites its memory faster than this link carries: without a limit such a migration does not end.
BUSY = Shape(ranks=2, iterations=320, size_mib=64, wws_mib=48, interval_ms=20)


class StrategiesTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        cls.cluster = Cluster()
        cls.cluster.restore()
        cls.cluster.without_pools()
        cls.vms = cls.cluster.ensure_pool(POOL, 2)

    def setUp(self) -> None:
        self.cluster.restore()
        self.vms = self.cluster.ensure_pool(POOL, 2)

    def tearDown(self) -> None:
        for job in self.cluster.items("jobs"):
            if job["state"] in ("queued", "starting", "running"):
                self.cluster.mare("job", "cancel", job["id"], check=False)

    def test_each_moves_a_rank_and_the_job_ends_right(self) -> None:
        job = MigTest(self.cluster, POOL, Shape(ranks=2, iterations=600))
        job.wait_for_iterations(5)
        vm = job.vms()[1]
        for strategy in STRATEGIES:
            with self.subTest(strategy=strategy):
                source = self.cluster.host_of(vm)
                destination = self.cluster.another_host(source)
                knobs = KNOBS.get(strategy, {})
                record = self.cluster.migrate(vm, destination, strategy=strategy, knobs=knobs)
                self.assertEqual(record["strategy"], strategy)
                sent = self.cluster.get(f"forecasts/{record['id']}")["sending"]
                self.assertEqual({name: sent[name] for name in knobs}, knobs)
                self.assertEqual(self.cluster.assert_runs_once(vm), destination)
                job.assert_advances()
                self.assert_rounds(record)
        job.assert_right()
        for name in self.vms:
            self.cluster.assert_clean(name)

    def assert_rounds(self, record: Json) -> None:
        """They follow each other, and end within the migration."""
        self.assertTrue(record["rounds"], record)
        for before, after in zip(record["rounds"], record["rounds"][1:]):
            self.assertGreaterEqual(after["started_ms"] + 1, before["started_ms"] + before["duration_ms"], record)
            if before["remaining_bytes"] > 0:
                self.assertGreater(after["sent_bytes"], 0, record)
        self.assertGreater(record["transferred_bytes"], 4 << 20, record)
        self.assertIsNotNone(record["total_time_ms"], record)

    def test_the_command_line_names_a_strategy(self) -> None:
        vm = self.vms[0]
        destination = self.cluster.another_host(self.cluster.host_of(vm))
        self.cluster.mare("migrate", vm, "--to", destination, "--strategy", "compressed", "--wait")
        self.assertEqual(self.cluster.assert_runs_once(vm), destination)
        self.assertEqual(self.cluster.items(f"migrations?vm={vm}")[0]["strategy"], "compressed")

    def test_a_move_through_a_file_tells_its_three_times(self) -> None:
        job = MigTest(self.cluster, POOL, Shape(ranks=2, iterations=200))
        job.wait_for_iterations(5)
        vm = job.vms()[1]
        destination = self.cluster.another_host(self.cluster.host_of(vm))
        self.cluster.mare("migrate", vm, "--to", destination, "--strategy", "checkpoint-restart", "--wait")
        self.assertEqual(self.cluster.assert_runs_once(vm), destination)
        record = self.cluster.items(f"migrations?vm={vm}")[0]
        self.assertEqual(record["strategy"], "checkpoint-restart")
        for phase in ("check_ms", "trans_ms", "restart_ms"):
            self.assertGreater(record[phase], 0, record)
        together = record["check_ms"] + record["trans_ms"] + record["restart_ms"]
        self.assertAlmostEqual(together, record["downtime_ms"]["hypervisor"], delta=1)
        self.assertGreater(record["total_time_ms"], together, record)
        job.assert_advances()
        job.assert_right()
        self.cluster.assert_clean(vm)

    @IN_FULL
    def test_a_move_through_a_file_is_cancelled_while_it_is_written(self) -> None:
        job, vm, source, operation = self.begin_slow("checkpoint-restart")
        self.wait_state(operation, "Saving")
        self.cancel_slow(job, vm, source, operation)

    def begin_slow(self, strategy: str, **options: Json) -> tuple[MigTest, str, str, Json]:
        """A migration at 100 Mbit/s that is under way."""
        job = MigTest(self.cluster, POOL, BUSY)
        job.wait_for_iterations(3)
        vm = job.vms()[1]
        source = self.cluster.host_of(vm)
        self.cluster.lab("rate", "100mbit")
        # Where no rank is: a cut of its cable takes nobody else's files away.
        destination = self.cluster.another_host(*(self.cluster.host_of(one) for one in job.vms()))
        body = {"destination": destination, "strategy": strategy, **options}
        return job, vm, source, self.cluster.submit("POST", f"vms/{vm}/migrations", body)

    def cancel_slow(self, job: MigTest, vm: str, source: str, operation: Json) -> None:
        """Its VM stays, and its job goes on and ends right."""
        self.cluster.submit("POST", f"migrations/{operation['id']}:cancel", {})
        self.cluster.finish(operation, "cancelled")
        self.assertEqual(self.cluster.assert_runs_once(vm), source)
        self.cluster.lab("rate", "1gbit")
        job.assert_advances()
        job.assert_right()

    def wait_state(self, operation: Json, state: str) -> Json:
        return wait_until(lambda: (row := self.cluster.get(f"operations/{operation['id']}"))["state"] == state and row,
                          f"{operation['id']} is {state}", patience_s=60, period_s=0.05)

    def test_at_the_time_limit_each_action_ends_what_would_not(self) -> None:
        # What the others do is in the driver's contract, too.
        for action in ("cancel", "stop-and-copy", "post-copy") if FULL else ("post-copy",):
            with self.subTest(action=action):
                job, vm, source, operation = self.begin_slow("pre-copy", time_limit_s=6, at_limit=action)
                ended = self.cluster.ended(operation["id"])
                self.assertEqual(ended["outcome"], "failed" if action == "cancel" else "succeeded", ended["reason"])
                self.assertEqual(self.cluster.assert_runs_once(vm) == source, action == "cancel")
                self.cluster.lab("rate", "1gbit")
                job.assert_advances()
                job.assert_right()
                self.cluster.assert_clean(vm)

    def test_a_cancel_before_the_switch_leaves_the_vm_where_it_was(self) -> None:
        # The driver's contract cancels a move by every strategy, of a VM without a job.
        for strategy in ("pre-copy", "throttled", "rate-controlled") if FULL else ("throttled",):
            with self.subTest(strategy=strategy):
                job, vm, source, operation = self.begin_slow(strategy)
                self.wait_state(operation, "PreCopying")
                self.cancel_slow(job, vm, source, operation)

    @IN_FULL
    def test_qemu_stops_by_the_rate_of_the_link_as_it_was_measured(self) -> None:
        for strategy in ("pre-copy", "throttled"):
            with self.subTest(strategy=strategy):
                job, vm, source, operation = self.begin_slow(strategy)
                self.wait_state(operation, "PreCopying")
                said = self.cluster.get(f"forecasts/{operation['id']}")
                told = said["sending"]["switchover_bandwidth_bytes_per_s"]
                self.assertGreater(told, 0.85 * said["link"]["goodput_bytes_per_s"])
                self.assertLessEqual(told, said["link"]["goodput_bytes_per_s"])
                wait_until(lambda vm=vm, source=source, told=told: f"avail-switchover-bandwidth: {told:.0f} " in self.cluster.virsh(
                    source, "qemu-monitor-command", vm, "--hmp", "info migrate_parameters"), f"QEMU was told {told:.0f}", patience_s=5)
                self.cancel_slow(job, vm, source, operation)

    @IN_FULL
    def test_what_waits_to_be_read_at_the_destination_is_bounded(self) -> None:
        job, vm, source, operation = self.begin_slow("compressed")
        self.wait_state(operation, "PreCopying")
        destination = self.cluster.get(f"migrations/{operation['id']}")["destination"]

        def buffers() -> list[int]:
            told = self.cluster.lab("exec", destination, "--", "ss", "-tmHn", "state", "established", f"sport >= :{QEMU_PORTS[0]}",
                                    "and", f"sport <= :{QEMU_PORTS[1]}").stdout
            return [int(size) for size in re.findall(r"skmem:\(r\d+,rb(\d+),", told)]
        # One for the stream, and a channel each; the kernel lets them grow to megabytes by itself.
        wait_until(lambda: len(sizes := buffers()) > 1 and set(sizes) == {UNREAD_LIMIT},
                   f"{vm}'s connections at {destination} are bounded", patience_s=10)
        self.cancel_slow(job, vm, source, operation)

    def test_post_copy_has_no_way_back(self) -> None:
        job, vm, source, operation = self.begin_slow("post-copy")
        self.wait_state(operation, "PostCopying")
        refused = self.cluster.api("POST", f"migrations/{operation['id']}:cancel", {})
        self.assertEqual(refused.status, 409, refused.body)
        self.assert_waited_for_pages_pass(vm)
        self.cluster.finish(operation)
        self.assertNotEqual(self.cluster.assert_runs_once(vm), source)
        self.cluster.lab("rate", "1gbit")
        job.assert_right()
        self.cluster.assert_clean(vm)

    def assert_waited_for_pages_pass(self, vm: str) -> None:
        """The pages that its guest waits for have a connection that does not let others pass, as the stream's does; and they are
        asked for at once."""
        uuid = self.cluster.get(f"vms/{vm}")["uuid"]

        def is_so() -> bool:
            seen = connections(uuid)
            sends = sorted(one.priority for one in seen if QEMU_PORTS[0] <= one.peer_port <= QEMU_PORTS[1])
            asks = [one.at_once for one in seen if QEMU_PORTS[0] <= one.port <= QEMU_PORTS[1]]
            return sends == [USUAL, BULK] and asks == [True, True]
        wait_until(is_so, f"the two connections of {vm} are told apart", patience_s=5)

    @IN_FULL
    def test_a_vm_in_post_copy_waits_for_a_cable_that_is_out(self) -> None:
        job, vm, source, operation = self.begin_slow("post-copy")
        self.wait_state(operation, "PostCopying")
        self.addCleanup(self.cluster.lab, "exec", "sw", "--", "ip", "link", "set", source, "up")
        self.cluster.lab("exec", "sw", "--", "ip", "link", "set", source, "down")
        out = time.monotonic()
        wait_until(lambda: time.monotonic() > out + CABLE_OUT_S, f"{source}'s cable was out for {CABLE_OUT_S} s", patience_s=2 * CABLE_OUT_S)
        self.assertEqual(self.cluster.get(f"operations/{operation['id']}")["state"], "PostCopying", "its pages are at the source")
        self.cluster.lab("exec", "sw", "--", "ip", "link", "set", source, "up")
        self.cluster.finish(operation)
        self.assertNotEqual(self.cluster.assert_runs_once(vm), source)
        self.cluster.lab("rate", "1gbit")
        job.assert_right()
        self.cluster.assert_clean(vm)

    def test_a_link_cut_in_post_copy_is_mended_or_the_vm_is_reported_as_lost(self) -> None:
        # Whatever comes of it, the tests after it begin with VMs of their own.
        self.addCleanup(self.cluster.delete_pool, POOL)
        _, vm, source, operation = self.begin_slow("post-copy")
        self.wait_state(operation, "PostCopying")
        # libvirt breaks the connection between the two QEMUs, as a cut link does in the end.
        self.cluster.virsh(source, "domjobabort", vm, "--postcopy")
        ended = self.cluster.ended(operation["id"])
        row = self.cluster.get(f"vms/{vm}")
        if ended["outcome"] == "needs_operator":
            self.assertIn("post-copy failed", self.cluster.virsh(source, "domstate", "--reason", vm))
            self.assertEqual(row["state"], "lost")
            self.assertNotEqual(row["host"], source, "the row names the only copy that could go on")
            self.cluster.mare("vm", "stop", vm, "--force", "--wait")
            self.assert_starts_anew(vm)
        elif ended["outcome"] == "failed":
            # A QEMU whose stream breaks in the first moments of post-copy does not pause, but ends.
            self.assertIn("the VM is lost", ended["reason"])
            self.assertEqual((row["state"], row["host"]), ("failed", None))
            self.assert_starts_anew(vm)
        else:
            self.assertEqual((ended["outcome"], row["state"]), ("succeeded", "running"))
            self.cluster.assert_runs_once(vm)

    def assert_starts_anew(self, vm: str) -> None:
        """What the hosts have left of it is ended, as its row names no host any more; then it can be started."""
        wait_until(lambda: self.cluster.copies(vm) == {}, f"no copy of {vm} is left", patience_s=60)
        self.cluster.mare("vm", "start", vm, "--wait")
        self.cluster.assert_runs_once(vm)

    @IN_FULL
    def test_a_link_cut_in_pre_copy_leaves_the_vm_at_its_source(self) -> None:
        job, vm, source, operation = self.begin_slow("pre-copy")
        self.wait_state(operation, "PreCopying")
        destination = self.cluster.get(f"migrations/{operation['id']}")["destination"]
        self.addCleanup(self.cluster.lab, "exec", "sw", "--", "ip", "link", "set", destination, "up")
        self.cluster.lab("exec", "sw", "--", "ip", "link", "set", destination, "down")
        # libvirt notices by its keep-alive.
        self.cluster.finish(operation, "failed")
        self.cluster.lab("exec", "sw", "--", "ip", "link", "set", destination, "up")
        self.cluster.lab("rate", "1gbit")
        self.assertEqual(self.cluster.assert_runs_once(vm), source)
        job.assert_right()


class SweepTest(unittest.TestCase):
    """A program that rewrites its memory in order, several times as fast as the link carries it."""

    POOL = "sweep"

    def setUp(self) -> None:
        self.cluster = Cluster()
        self.cluster.restore()
        self.cluster.without_pools()
        self.vm, = self.cluster.ensure_pool(self.POOL, 1, memory_mib=256)
        self.addCleanup(self.cluster.without_pools)

    def forecast(self, destination: str) -> Json:
        operation = self.cluster.submit("POST", f"vms/{self.vm}/migrations?dry_run=true", {"destination": destination})
        self.cluster.finish(operation)
        return self.cluster.get(f"forecasts/{operation['id']}")

    @IN_FULL
    def test_it_is_switched_by_where_it_is(self) -> None:
        command = ["writer", "--pattern", "sweep", "--size-mib", "112", "--rate-mib", "32", "--seconds", "1000", "--until", "enough"]
        job = self.cluster.submit("POST", "jobs", {"pool": self.POOL, "command": command, "ranks": 1})["target"]
        output = self.cluster.state / "jobs" / job / "output"
        wait_until(lambda: output.exists() and "iteration=40 " in output.read_text(), f"{job} is at work")
        destination = self.cluster.another_host(self.cluster.host_of(self.vm))
        self.cluster.lab("rate", "100mbit")
        seen = wait_until(lambda: (one := self.forecast(destination))["profile"]["sweep"] and one, "its sweeps are seen", period_s=2)
        # 112 MiB at 32 MiB/s; an emulated guest on a busy machine is slower, hardly ever quicker.
        self.assertGreater(seen["profile"]["sweep"]["period_ms"], 2800)
        logs = {log: log.stat().st_size for log in (self.cluster.state / "logs").glob("agent*.log")}
        record = self.cluster.migrate(self.vm, destination, strategy="hybrid")
        made = self.cluster.get(f"forecasts/{record['id']}")
        self.assertTrue(made["sending"]["sweep_switch"], made)
        self.assertEqual(made["sending"]["sweep_switch"]["descending"], made["profile"]["sweep"]["descending"])
        said = "".join(log.read_bytes()[begin:].decode(errors="replace") for log, begin in logs.items())
        self.assertIn(f"migration of '{self.vm}': completed", said)
        self.assertNotIn("switches at once", said, "the agent found where it was")
        self.cluster.lab("rate", "1gbit")
        (self.cluster.state / "jobs" / job / "enough").touch()
        wait_until(lambda: self.cluster.get(f"jobs/{job}")["state"] in ("succeeded", "failed"), f"{job} ends")
        self.assertIn("verified=yes", output.read_text())
        self.assertEqual(self.cluster.assert_runs_once(self.vm), destination)
        self.cluster.assert_clean(self.vm)


if __name__ == "__main__":
    unittest.main()
