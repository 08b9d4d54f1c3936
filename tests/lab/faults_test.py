"""Bad input and faults: each is answered with what and what to do about it, and changes nothing.

A test of a refusal compares everything that can be seen before and after: Maré's rows, and what all
libvirts run.
"""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import shutil
import socket
import subprocess
import tempfile
import unittest
from typing import Iterator

from lib.cluster import ROOT, Cluster, Json, kill
from lib.extent import IN_FULL
from lib.migtest import MigTest, Shape
from lib.waiting import holds_for, wait_until

POOL = "life"  # of lifecycle_test: three VMs that run already when that was before
OK, FAILED, USAGE, NOT_FOUND, CONFLICT, UNREACHABLE = 0, 1, 2, 3, 4, 5


class FaultTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        cls.cluster = Cluster()
        cls.cluster.restore()
        cls.vms = cls.cluster.ensure_pool(POOL, 3)

    def setUp(self) -> None:
        self.addCleanup(self.cluster.restore)

    def seen(self) -> Json:
        """All that a refused request must leave alone."""
        cluster = self.cluster
        wait_until(lambda: not cluster.templates_in_the_making(), "no host makes a template", 120)
        volatile = ("last_seen", "health", "health_reason")
        hosts = [{key: value for key, value in host.items() if key not in volatile} for host in cluster.items("hosts")]
        running = [one["id"] for one in cluster.items("operations?outcome=pending")]
        return {"hosts": hosts, "pools": cluster.items("pools"), "vms": cluster.items("vms"), "running": running,
                "copies": {vm["id"]: cluster.copies(vm["id"]) for vm in cluster.items("vms")},
                "qemus": cluster.qemus()}

    @contextlib.contextmanager
    def nothing_changes(self) -> Iterator[None]:
        before = self.seen()
        yield
        self.assertEqual(self.seen(), before)

    def assert_says(self, text: str, *words: str) -> None:
        for word in words:
            self.assertIn(word, text)

    def refused(self, code: int, *command: str) -> str:
        """What the command line says when it refuses: on stderr alone, with the right exit code."""
        done = self.cluster.mare(*command, check=False)
        self.assertEqual(done.returncode, code, f"{' '.join(command)}: {done.stdout}{done.stderr}")
        self.assertEqual(done.stdout, "")
        return done.stderr

    # --- requests that make no sense ----------------------------------------------------------------

    def test_a_pool_larger_than_the_memory(self) -> None:
        with self.nothing_changes():
            said = self.refused(CONFLICT, "pool", "create", "huge", "--image", self.cluster.image, "--size", "4",
                                "--memory", "2000")
        self.assert_says(said, "'huge'", "no host has room", "2000 MiB", "make the VMs smaller")
        self.assertFalse(self.cluster.has_pool("huge"))

    def test_a_pool_of_an_image_that_is_not_there(self) -> None:
        with self.nothing_changes():
            said = self.refused(NOT_FOUND, "pool", "create", "odd", "--image", "nosuch")
        self.assert_says(said, "nosuch", "mare image")

    def test_more_ranks_than_vms(self) -> None:
        with self.nothing_changes():
            said = self.refused(USAGE, "job", "submit", POOL, "-n", "5", "--", "true")
        self.assert_says(said, "5 ranks", f"'{POOL}'", "3 VMs", "at most 3")
        self.assertFalse([job for job in self.cluster.items("jobs") if job["ranks"] == 5])

    def test_a_migration_to_the_same_host(self) -> None:
        vm = self.vms[0]
        host = self.cluster.host_of(vm)
        with self.nothing_changes():
            said = self.refused(USAGE, "migrate", vm, "--to", host)
        self.assert_says(said, f"'{vm}'", f"'{host}'", "already", "another host")

    def test_a_migration_to_an_unknown_host(self) -> None:
        with self.nothing_changes():
            said = self.refused(NOT_FOUND, "migrate", self.vms[0], "--to", "h99")
        self.assert_says(said, "h99", "mare host list")

    def test_a_migration_of_an_unknown_vm(self) -> None:
        with self.nothing_changes():
            said = self.refused(NOT_FOUND, "migrate", "nosuch-0", "--to", "h1")
        self.assert_says(said, "nosuch-0", "mare vm list")

    def test_a_migration_to_a_host_without_room(self) -> None:
        vm = self.vms[0]
        source = self.cluster.host_of(vm)
        full = self.cluster.another_host(source)
        row = self.cluster.get(f"hosts/{full}")
        room = int(row["memory_mib"] - row["memory_allocated_mib"] - row["vm_overhead_mib"])
        self.cluster.ensure_pool("filler", 1, [full], memory_mib=room)
        self.addCleanup(self.cluster.delete_pool, "filler")
        with self.nothing_changes():
            said = self.refused(CONFLICT, "migrate", vm, "--to", full)
        self.assert_says(said, f"'{full}'", "no room", f"'{vm}'", "MiB", "another host")

    def test_a_migration_twice_at_once(self) -> None:
        vm = self.vms[1]
        source = self.cluster.host_of(vm)
        first, second = [host for host in self.cluster.hosts if host != source]
        slow = {"destination": first, "strategy": "pre-copy", "bandwidth_limit_bytes_per_s": 4 << 20}
        operation = self.cluster.submit("POST", f"vms/{vm}/migrations", slow)
        said = self.refused(CONFLICT, "migrate", vm, "--to", second)
        self.assert_says(said, f"'{vm}'", operation["id"])
        self.cluster.submit("POST", f"migrations/{operation['id']}:cancel")
        ended = self.cluster.finish(operation, "cancelled")
        self.assertIn("cancelled", ended["reason"])
        self.assertEqual(self.cluster.assert_runs_once(vm), source)

    def test_a_stop_of_a_vm_with_a_rank(self) -> None:
        job = MigTest(self.cluster, POOL, Shape(ranks=3, iterations=100))
        job.wait_for_iterations(2)
        said = self.refused(CONFLICT, "vm", "stop", self.vms[0])
        self.assert_says(said, self.vms[0], job.id, "force")
        job.assert_right()

    # --- hosts that are down ------------------------------------------------------------------------

    def test_a_host_that_is_down(self) -> None:
        vm = self.vms[0]
        host = self.cluster.another_host(self.cluster.host_of(vm))
        self.seen()  # a template that it makes would stay half made
        self.cluster.kill_agent(host)
        self.cluster.wait_health(host, "down")
        with self.nothing_changes():
            for command in (("migrate", vm, "--to", host), ("host", "drain", host)):
                with self.subTest(command):
                    self.assert_says(self.refused(UNREACHABLE, *command), f"'{host}'", "down")
            self.assertNotEqual(OK, self.cluster.mare("pool", "create", "odd", "--image", self.cluster.image, "--hosts",
                                                      host, check=False).returncode)
        # Its VMs run on: only nobody can be asked about them.
        for name in self.vms:
            self.assertEqual(list(self.cluster.copies(name).values()), ["running"])
        self.cluster.start_agent(host)
        self.cluster.wait_health(host, "up")
        self.assertEqual(self.cluster.migrate(vm, host)["outcome"], "succeeded")

    def test_a_host_that_is_not_there_cannot_be_added(self) -> None:
        with self.nothing_changes():
            done = self.cluster.mare("host", "add", "ghost", "--address", f"{self.dead_address()}:7412", "--wait",
                                     check=False)
        self.assertNotEqual(done.returncode, OK)
        self.assert_says(done.stderr, "ghost", "7412")

    def dead_address(self) -> str:
        """In the lab's subnet, and nobody's."""
        first = self.cluster.status()["hosts"][0]["address"].rsplit(".", 1)[0]
        return f"{first}.250"

    # --- mared and its surroundings -----------------------------------------------------------------

    def mared(self, *more: str) -> subprocess.CompletedProcess[str]:
        """A second mared that is expected to give up."""
        return subprocess.run([self.cluster.program("mared"), *more], capture_output=True, text=True, timeout=60,
                              check=False, stdin=subprocess.DEVNULL)

    def test_a_second_mared_on_the_same_database(self) -> None:
        pid = self.cluster.status()["mared"]["pid"]
        with self.nothing_changes():
            done = self.mared("--state-dir", str(self.cluster.state / "mared"), "--listen", "127.0.0.1:0")
        self.assertEqual(done.returncode, 1)
        self.assert_says(done.stderr, f"process {pid}", str(self.cluster.state / "mared"), "--state-dir")

    def test_a_rest_port_that_is_taken(self) -> None:
        port = self.cluster.url.rsplit(":", 1)[1]
        with self.nothing_changes(), tempfile.TemporaryDirectory() as folder:
            done = self.mared("--state-dir", folder, "--listen", f"127.0.0.1:{port}")
        self.assertEqual(done.returncode, 1)
        self.assert_says(done.stderr, port, "--listen")

    def test_mared_that_is_not_there(self) -> None:
        self.cluster.lab("stop-mared")
        said = self.refused(UNREACHABLE, "vm", "list")
        self.assert_says(said, self.cluster.url, "mared")

    def test_a_full_disk(self) -> None:
        folder = pathlib.Path(tempfile.mkdtemp(prefix="mare-full-"))
        self.addCleanup(shutil.rmtree, folder, ignore_errors=True)
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "mare-full", str(folder)], check=True)
        self.addCleanup(subprocess.run, ["umount", str(folder)], check=False)
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        with open(self.cluster.state / "logs" / "mared-full.log", "ab") as log:
            process = subprocess.Popen([self.cluster.program("mared"), "--state-dir", str(folder), "--listen",
                                        f"127.0.0.1:{port}"], stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        self.addCleanup(kill, process)
        other = Cluster()
        other.url, other.token_file = f"http://127.0.0.1:{port}", folder / "token"
        wait_until(lambda: process.poll() is not None or (other.token_file.exists() and other.answers()), "mared answers")
        other.finish(other.submit("POST", "hosts", {"id": "a", "address": "sim:///a?memory_mib=4096"}))
        self.fill(folder / "ballast")
        known = other.items("hosts")
        refused = [other.api("POST", "hosts", {"id": f"b{n}", "address": f"sim:///b{n}"}) for n in range(3)]
        for answer in refused:
            self.assertEqual((answer.status, answer.body["code"]), (503, "unavailable"), answer.body)
            self.assert_says(answer.fault(), "full", "make room on the file system")
        self.assertIsNone(process.poll(), "mared died of a full disk")
        self.assertEqual([host["id"] for host in other.items("hosts")], [host["id"] for host in known])
        (folder / "ballast").unlink()
        other.finish(other.submit("POST", "hosts", {"id": "b", "address": "sim:///b?memory_mib=4096"}))

    @staticmethod
    def fill(ballast: pathlib.Path) -> None:
        """Until not one more byte fits."""
        with open(ballast, "wb", buffering=0) as file:
            for size in (1 << 16, 1 << 10, 1):
                with contextlib.suppress(OSError):
                    while True:
                        file.write(b"\0" * size)

    # --- the lab's surroundings ---------------------------------------------------------------------

    def up_beside(self, folder: str, *more: str) -> subprocess.CompletedProcess[str]:
        """A second lab that is expected to be refused."""
        words = ["up", "--state", folder, "--name", "mtestb", "--subnet", "10.178.0.0/16", "--rest-port", "7479",
                 "--bin", str(self.cluster.build), *more]
        return subprocess.run([str(ROOT / "hypervisor/lab/mare-lab"), *words], capture_output=True, text=True, timeout=120,
                              check=False, stdin=subprocess.DEVNULL)

    def assert_lab_refused(self, words: tuple[str, ...], *options: str) -> None:
        with self.nothing_changes(), tempfile.TemporaryDirectory() as folder:
            interfaces = os.listdir("/sys/class/net")
            namespaces = os.listdir("/run/netns")
            done = self.up_beside(folder, *options)
            self.assertEqual(done.returncode, 1, done.stderr)
            self.assert_says(done.stderr, *words)
            self.assertEqual(os.listdir("/sys/class/net"), interfaces)
            self.assertEqual(os.listdir("/run/netns"), namespaces)

    def test_a_namespace_that_is_taken(self) -> None:
        subprocess.run(["ip", "netns", "add", "mtestb-h1"], check=True)
        self.addCleanup(subprocess.run, ["ip", "netns", "delete", "mtestb-h1"], check=False)
        self.assert_lab_refused(("mtestb-h1", "not of this lab", "--name"))

    def test_an_interface_that_is_taken(self) -> None:
        subprocess.run(["ip", "link", "add", "mtestb-ctl", "type", "bridge"], check=True)
        self.addCleanup(subprocess.run, ["ip", "link", "delete", "mtestb-ctl"], check=False)
        self.assert_lab_refused(("mtestb-ctl", "not of this lab", "--name"))

    def test_a_subnet_that_is_taken(self) -> None:
        subnet = self.cluster.status()["subnet"]
        self.assert_lab_refused((subnet.split("/")[0].rsplit(".", 2)[0], "--subnet"), "--subnet", subnet)

    def test_a_port_that_the_lab_needs(self) -> None:
        port = self.cluster.url.rsplit(":", 1)[1]
        self.assert_lab_refused((port, "--rest-port"), "--rest-port", port)

    def test_an_agents_port_and_bridge(self) -> None:
        host = self.cluster.hosts[0]
        pid = self.cluster.agent_pid(host)
        assert pid
        argv = self.cluster.argv_of(pid)
        with self.nothing_changes():
            taken = self.cluster.lab("exec", host, "--", *argv, check=False, timeout=60)
            self.assertEqual(taken.returncode, 1, taken.stderr)
            self.assert_says(taken.stderr, "7412")
            argv[argv.index("--bridge") + 1] = "nosuchbr"
            missing = self.cluster.lab("exec", host, "--", *argv, check=False, timeout=60)
            self.assertEqual(missing.returncode, 1, missing.stderr)
            self.assert_says(missing.stderr, "nosuchbr")

    # --- NFS ----------------------------------------------------------------------------------------

    def test_an_nfs_server_that_goes_and_comes_back_under_a_job(self) -> None:
        job = MigTest(self.cluster, POOL, Shape(ranks=3, iterations=150))
        job.wait_for_iterations(5)
        self.cluster.lab("nfs", "stop")
        stalled = job.id
        # Guests wait for their files, they do not fail; the VMs are still the same ones.
        holds_for(lambda: self.cluster.get(f"jobs/{stalled}")["state"] == "running", "the job waits", seconds=5)
        self.cluster.lab("nfs", "start")
        job.assert_right()
        for vm in self.vms:
            self.cluster.assert_runs_once(vm)

    @IN_FULL
    def test_a_pool_without_an_nfs_server(self) -> None:
        before = self.seen()
        self.cluster.lab("nfs", "stop")
        done = self.cluster.mare("pool", "create", "nofs", "--image", self.cluster.image, "--size", "1", "--wait", check=False)
        self.assertNotEqual(done.returncode, OK)
        self.assert_says(done.stderr, "nofs-0")
        self.assertRegex(done.stderr, "(?i)nfs")
        self.cluster.lab("nfs", "start")
        after = self.seen()
        self.assertEqual(after["qemus"], before["qemus"], "a VM of the failed pool was left behind")
        left = [vm for vm in after["vms"] if vm["pool"] == "nofs" and vm["state"] == "running"]
        self.assertEqual(left, [])
        if self.cluster.has_pool("nofs"):
            self.cluster.delete_pool("nofs")
        self.assertEqual(json.dumps(self.seen()["hosts"]), json.dumps(before["hosts"]), "memory stayed allocated")


if __name__ == "__main__":
    unittest.main()
