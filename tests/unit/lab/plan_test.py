"""Names, addresses, rates: the arithmetic of a lab, and what it refuses."""

import unittest
from pathlib import Path
from typing import Any

import paths  # noqa: F401
from mare_lab import network
from mare_lab.plan import Plan, burst_bytes, make_plan, rate_bits
from mare_lab.util import LabError


def plan(**changes: Any) -> Plan:
    options: dict[str, Any] = {
        "name": "mare", "hosts": 3, "subnet": "10.77.0.0/16", "rate": "1gbit", "memory_mib": 4096,
        "state": Path("/state"), "images": Path("/images"), "rest_port": 7410}
    return make_plan(**(options | changes))


class Addresses(unittest.TestCase):
    def test_hosts_the_nfs_server_and_mared_have_the_documented_addresses(self) -> None:
        lab = plan()
        self.assertEqual(lab.host_names(), ["h1", "h2", "h3"])
        self.assertEqual([lab.host_address(host) for host in lab.host_names()],
                         ["10.77.0.11", "10.77.0.12", "10.77.0.13"])
        self.assertEqual((lab.control_address, lab.nfs_address), ("10.77.0.1", "10.77.0.2"))
        self.assertEqual(lab.vm_subnet, "10.77.1.0/24")

    def test_every_address_of_the_largest_lab_in_the_smallest_subnet_is_inside_it(self) -> None:
        lab = plan(hosts=200, subnet="192.168.4.0/22")
        import ipaddress
        for host in lab.host_names():
            self.assertIn(ipaddress.ip_address(lab.host_address(host)), lab.network)
        self.assertTrue(ipaddress.ip_network(lab.vm_subnet).subnet_of(lab.network))
        self.assertEqual(len({lab.host_address(host) for host in lab.host_names()}), 200)

    def test_bridges_have_local_unicast_addresses_of_their_own_also_in_two_labs(self) -> None:
        macs = [lab.bridge_mac(host) for lab in (plan(), plan(subnet="10.78.0.0/16"))
                for host in lab.host_names()]
        self.assertEqual(len(set(macs)), len(macs))
        for mac in macs:
            self.assertEqual(int(mac[:2], 16) & 3, 2)

    def test_migrations_have_addresses_of_their_own_where_the_lab_is_asked_for_a_network(self) -> None:
        self.assertEqual(plan().migration_address("h2"), plan().host_address("h2"))
        self.assertEqual(plan().links(), ("main",))
        two = plan(migration_network="10.80.0.0/24", hosts=200)
        self.assertEqual(two.links(), ("main", "migration"))
        self.assertEqual((two.migration_address("h2"), two.host_address("h2")), ("10.80.0.12", "10.77.0.12"))
        self.assertEqual(two.migration_address("h200"), "10.80.0.210")
        self.assertEqual(two.address_on("main", "h1"), "10.77.0.11")
        self.assertEqual(two.address_on("migration", "h1"), "10.80.0.11")

    def test_interface_names_fit_into_linux(self) -> None:
        self.assertLessEqual(len(plan(name="elevenchars").control_interface), 15)
        self.assertLessEqual(max(map(len, network.ends_of("h200", "migration"))), 15)


class Refusals(unittest.TestCase):
    def refused(self, word: str, **changes: Any) -> None:
        with self.assertRaises(LabError) as caught:
            plan(**changes)
        self.assertIn(word, str(caught.exception))

    def test_each_bad_option_is_named(self) -> None:
        self.refused("--name", name="twelve12char")
        self.refused("--name", name="a-b")
        self.refused("--hosts", hosts=0)
        self.refused("--hosts", hosts=201)
        self.refused("--subnet", subnet="10.77.0.1/16")
        self.refused("--subnet", subnet="10.77.0.0/24")
        self.refused("--subnet", subnet="8.8.0.0/16")
        self.refused("--subnet", subnet="nonsense")
        self.refused("--migration-network", migration_network="nonsense")
        self.refused("--migration-network", migration_network="8.8.8.0/24")
        self.refused("--migration-network", migration_network="10.80.0.0/25")
        self.refused("overlaps", migration_network="10.77.9.0/24")
        self.refused("--memory-mib", memory_mib=1)
        self.refused("--rest-port", rest_port=0)
        self.refused("--state", state=Path("/with space"))
        self.refused("rate", rate="fast")
        self.refused("rate", rate="1bit")

    def test_a_plan_survives_its_way_through_json(self) -> None:
        self.assertEqual(Plan.from_json(plan().to_json()), plan())
        two = plan(migration_tls=True, migration_network="10.80.0.0/24")
        self.assertEqual(Plan.from_json(two.to_json()), two)

    def test_the_plan_of_an_older_lab_has_no_network_for_migrations(self) -> None:
        old = plan().to_json()
        del old["migration_network"]
        self.assertEqual(Plan.from_json(old), plan())


class Rates(unittest.TestCase):
    def test_units_are_decimal_bits(self) -> None:
        self.assertEqual(rate_bits("1gbit"), 10**9)
        self.assertEqual(rate_bits("2.5Gbit"), 2_500_000_000)
        self.assertEqual(rate_bits("100kbit"), 100_000)

    def test_the_bucket_holds_a_millisecond_but_at_least_32_kib(self) -> None:
        self.assertEqual(burst_bytes(10**9), 125_000)
        self.assertEqual(burst_bytes(10**6), 32 * 1024)


class Routes(unittest.TestCase):
    def conflict(self, routes: list[dict[str, object]]) -> str | None:
        lab = plan()
        return network.conflicting_route(routes, lab.network, lab.control_interface)

    def test_an_overlapping_route_is_named(self) -> None:
        self.assertEqual(self.conflict([{"dst": "10.77.5.0/24", "dev": "eth1"}]),
                         "10.77.5.0/24 dev eth1")
        self.assertEqual(self.conflict([{"dst": "10.0.0.0/8", "dev": "tun0"}]),
                         "10.0.0.0/8 dev tun0")
        self.assertEqual(self.conflict([{"dst": "10.77.0.9", "dev": "eth1", "type": "local"}]),
                         "10.77.0.9 dev eth1")

    def test_the_default_route_and_other_ranges_and_the_labs_own_are_no_conflict(self) -> None:
        self.assertIsNone(self.conflict([
            {"dst": "default", "dev": "eth0"}, {"dst": "192.0.2.0/24", "dev": "eth0"},
            {"dst": "10.77.0.0/16", "dev": "mare-ctl"},
            {"dst": "10.77.255.255", "dev": "eth1", "type": "broadcast"}]))


if __name__ == "__main__":
    unittest.main()
