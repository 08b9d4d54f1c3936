"""Migrations that are encrypted and go over a network of their own, seen on the hosts' wires, in a lab that has both."""

from __future__ import annotations

import re
import unittest

from lib import second_lab
from lib.extent import IN_FULL
from lib.migtest import MigTest, Shape
from lib.waiting import wait_until
from lib.wire import TLS_HANDSHAKE, Watch

POOL = "secret"
NETWORK = "10.80.0.0/24"
MAIN, MIGRATION = "up0", "mig0"
# Where libvirt has a QEMU listen for a VM that comes.
QEMU_PORTS = (49152, 49215)
STRATEGIES = ("pre-copy", "compressed", "post-copy", "hybrid")


class MigrationNetworkTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        cls.cluster = second_lab.bring_up("--migration-tls", "--migration-network", NETWORK)
        cls.addClassCleanup(second_lab.end)
        cls.cluster.ensure_pool(POOL, 2)

    def setUp(self) -> None:
        self.cluster.restore()
        self.vms = self.cluster.ensure_pool(POOL, 2)

    def sent(self, host: str) -> dict[str, int]:
        """Bytes that a host has sent so far, by interface."""
        files = [f"/sys/class/net/{one}/statistics/tx_bytes" for one in (MAIN, MIGRATION)]
        told = self.cluster.lab("exec", host, "--", "cat", *files).stdout.split()
        return dict(zip((MAIN, MIGRATION), map(int, told)))

    def sent_since(self, host: str, before: dict[str, int]) -> dict[str, int]:
        return {one: bytes_ - before[one] for one, bytes_ in self.sent(host).items()}

    def watch(self, host: str, interface: str) -> Watch:
        return Watch(self.cluster.lab_argv("exec"), host, interface, QEMU_PORTS)

    def test_each_strategy_moves_a_rank_over_it_and_encrypts_all_connections(self) -> None:
        job = MigTest(self.cluster, POOL, Shape(ranks=2, iterations=320))
        job.wait_for_iterations(5)
        vm = job.vms()[1]
        for strategy in STRATEGIES:
            with self.subTest(strategy=strategy):
                source = self.cluster.host_of(vm)
                destination = self.cluster.another_host(source)
                before = self.sent(source)
                with self.watch(destination, MIGRATION) as watched, self.watch(destination, MAIN) as other:
                    record = self.cluster.migrate(vm, destination, strategy=strategy)
                sent = self.sent_since(source, before)
                self.assertEqual(record["strategy"], strategy)
                self.assertEqual(self.cluster.assert_runs_once(vm), destination)
                self.assertGreaterEqual(sent[MIGRATION], record["transferred_bytes"], record)
                self.assertLess(sent[MAIN], record["transferred_bytes"] / 4, record)
                self.assert_encrypted(watched.begins, strategy)
                self.assertEqual(other.begins, {}, "the other network carries none of it")
                self.assertEqual(job.row()["state"], "running", "it was to run through all moves")
                job.assert_advances()
        # QEMU is asked for it past libvirt, and is not to encrypt what goes to a file.
        self.cluster.finish(self.cluster.submit("POST", f"jobs/{job.id}:checkpoint"))
        job.assert_right()
        for name in self.vms:
            self.cluster.assert_clean(name)

    def assert_encrypted(self, begins: dict[str, bytes], strategy: str) -> None:
        """Every one of the connections of a move, of which a compressed one has several."""
        self.assertGreater(len(begins), 1 if strategy == "compressed" else 0, begins)
        for connection, first in begins.items():
            self.assertTrue(first.startswith(TLS_HANDSHAKE), f"{connection} begins with {first!r}")

    def test_the_link_that_a_forecast_goes_by_is_measured_on_it(self) -> None:
        # mared is content with what it measured within a minute, and forgets it with its end.
        self.cluster.kill_mared()
        self.cluster.start_mared()
        for host in self.cluster.hosts:
            self.cluster.wait_health(host, "up")
        vm = self.vms[0]
        source = self.cluster.host_of(vm)
        self.cluster.lab("rate", "100mbit", "--link", "migration")
        before = self.sent(source)
        operation = self.cluster.submit("POST", f"vms/{vm}/migrations?dry_run=true", {"destination": self.cluster.another_host(source)})
        self.cluster.finish(operation)
        link = self.cluster.get(f"forecasts/{operation['id']}")["link"]
        sent = self.sent_since(source, before)
        self.assertGreaterEqual(sent[MIGRATION], link["sent_bytes"], link)
        self.assertLess(sent[MAIN], link["sent_bytes"] / 4, link)
        # The other network is ten times as fast.
        self.assertLess(link["goodput_bytes_per_s"], 100e6 / 8, link)

    def test_hosts_tell_where_they_take_vms_and_that_they_encrypt(self) -> None:
        for host, address in zip(self.cluster.hosts, ("10.80.0.11", "10.80.0.12")):
            row = self.cluster.get(f"hosts/{host}")
            self.assertEqual((row["migration_address"], row["migration_tls"]), (address, True))
            self.assertGreater(row["cpu_speed"], 0)
            shown = self.cluster.mare("host", "show", host).stdout
            self.assertRegex(shown, rf"(?m)^migrates at +{re.escape(address)}$")
            self.assertRegex(shown, r"(?m)^tls +yes$")

    def test_a_host_with_the_certificate_of_another_gets_no_vm(self) -> None:
        vm = self.vms[0]
        source = self.cluster.host_of(vm)
        destination = self.cluster.another_host(source)
        self.show_certificate(destination, of=source)
        self.addCleanup(self.show_certificate, destination, of=destination)
        operation = self.cluster.submit("POST", f"vms/{vm}/migrations", {"destination": destination, "strategy": "pre-copy"})
        ended = self.cluster.finish(operation, "failed")
        address = self.cluster.get(f"hosts/{destination}")["migration_address"]
        self.assertIn(f"Certificate does not match the hostname {address}", ended["reason"])
        self.assertIn(f"certificates for QEMU that are of one CA, the destination's for {address}", ended["reason"])
        self.assertEqual(self.cluster.assert_runs_once(vm), source)
        self.show_certificate(destination, of=destination)
        self.cluster.migrate(vm, destination, strategy="pre-copy")
        self.assertEqual(self.cluster.assert_runs_once(vm), destination)
        self.cluster.assert_clean(vm)

    def show_certificate(self, host: str, of: str) -> None:
        """Has the QEMUs that VMs come to on a host show that of one of the hosts."""
        for name, target in (("server-cert.pem", f"../../{of}.pem"), ("server-key.pem", f"../../{of}.key")):
            link = self.cluster.state / "pki" / "qemu" / host / name
            link.unlink()
            link.symlink_to(target)

    @IN_FULL
    def test_a_cut_of_it_leaves_the_vm_at_its_source_and_both_hosts_up(self) -> None:
        job = MigTest(self.cluster, POOL, Shape(ranks=2, iterations=200))
        job.wait_for_iterations(3)
        vm = job.vms()[1]
        source = self.cluster.host_of(vm)
        destination = self.cluster.another_host(source)
        self.cluster.lab("rate", "20mbit", "--link", "migration")
        operation = self.cluster.submit("POST", f"vms/{vm}/migrations", {"destination": destination, "strategy": "pre-copy"})
        wait_until(lambda: self.cluster.get(f"operations/{operation['id']}")["state"] == "PreCopying", "it is being sent")
        self.addCleanup(self.set_cable, destination, "up")
        self.set_cable(destination, "down")
        # libvirt notices by its keep-alive.
        self.cluster.finish(operation, "failed")
        self.assertEqual([self.cluster.host_health(host) for host in self.cluster.hosts], ["up", "up"])
        self.assertEqual(self.cluster.assert_runs_once(vm), source)
        self.set_cable(destination, "up")
        job.assert_right()
        self.cluster.assert_clean(vm)

    def set_cable(self, host: str, state: str) -> None:
        self.cluster.lab("exec", host, "--", "ip", "link", "set", MIGRATION, state)


if __name__ == "__main__":
    unittest.main()
