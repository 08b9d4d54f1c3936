"""What a lab consists of: names, addresses, directories. Pure arithmetic on the options of `up`."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from mare_lab.util import LabError

# Linux allows 15 characters in an interface's name; the longest that the lab makes is NAME-ctl.
MAX_NAME = 11
MAX_HOSTS = 200
AGENT_PORT = 7412
LIBVIRT_PORT = 16509
# Of a host's cables: all that is no migration, and migrations where they have a network of their own.
MAIN = "main"
MIGRATION = "migration"


def memory_directory(directory: Path) -> Path:
    """Where the hosts of the lab in that directory keep what a real host keeps in memory: their
    templates' pages, and /run."""
    return Path("/dev/shm") / ("mare" + str(directory).replace("/", "-"))


@dataclass(frozen=True)
class Plan:
    """The options of a lab that is up; kept in lab.json, so that `up` again means the same lab."""

    name: str
    hosts: int
    subnet: str
    rate: str
    memory_mib: int
    state: str
    images: str
    rest_port: int
    migration_tls: bool = False
    migration_network: str | None = None

    @property
    def network(self) -> ipaddress.IPv4Network:
        return ipaddress.IPv4Network(self.subnet)

    @property
    def directory(self) -> Path:
        return Path(self.state)

    @property
    def prefix_length(self) -> int:
        return self.network.prefixlen

    @property
    def control_interface(self) -> str:
        return f"{self.name}-ctl"

    @property
    def control_address(self) -> str:
        return self.address_at(1)

    @property
    def nfs_address(self) -> str:
        return self.address_at(2)

    def address_at(self, offset: int) -> str:
        return str(self.network.network_address + offset)

    def host_names(self) -> list[str]:
        return [f"h{number}" for number in range(1, self.hosts + 1)]

    def host_address(self, host: str) -> str:
        """h1 is .0.11, h2 .0.12, and so on."""
        return self.address_at(10 + int(host[1:]))

    def migration_address(self, host: str) -> str:
        """Where other hosts send VMs: .11 of the migration network is h1, or the host's only address."""
        if self.migration_network is None:
            return self.host_address(host)
        first = ipaddress.IPv4Network(self.migration_network).network_address
        return str(first + 10 + int(host[1:]))

    def links(self) -> tuple[str, ...]:
        """What every host's cables are for."""
        return (MAIN,) if self.migration_network is None else (MAIN, MIGRATION)

    def address_on(self, link: str, host: str) -> str:
        return self.migration_address(host) if link == MIGRATION else self.host_address(host)

    @property
    def vm_subnet(self) -> str:
        """The VMs' range: the second /24 of the subnet (10.77.1.0/24), apart from the hosts' own.
        """
        return f"{self.network.network_address + 256}/24"

    def netns_name(self, key: str) -> str:
        return f"{self.name}-{key}"

    def host_directory(self, host: str) -> Path:
        return self.directory / "hosts" / host

    def bridge_mac(self, host: str) -> str:
        """A fixed address for br0: left alone, a bridge takes the lowest of its ports and changes
        it as VMs come and go, and the hosts' neighbours lose sight of it."""
        number = int(host[1:])
        low = int(self.network.network_address) >> 16 & 0xFFFF
        return f"02:4d:{low >> 8:02x}:{low & 0xFF:02x}:00:{number:02x}"

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @staticmethod
    def from_json(value: dict[str, Any]) -> "Plan":
        return Plan(**{key: value[key] for key in Plan.__dataclass_fields__ if key in value})


def make_plan(*, name: str, hosts: int, subnet: str, rate: str, memory_mib: int, state: Path,
              images: Path,
              rest_port: int, migration_tls: bool = False,
              migration_network: str | None = None) -> Plan:
    """Check every option and say which one is wrong, before anything is touched."""
    if not re.match(r"^[a-z][a-z0-9]*$", name) or len(name) > MAX_NAME:
        raise LabError(f"--name {name}: lower-case letters and digits, at most {MAX_NAME} of them "
                       "(interfaces are named after it)")
    if not 1 <= hosts <= MAX_HOSTS:
        raise LabError(f"--hosts {hosts}: between 1 and {MAX_HOSTS}")
    network = _private_network("--subnet", subnet, 22, "hosts use the first /24, VMs the second")
    if migration_network is not None:
        _check_migration_network(migration_network, network)
    rate_bits(rate)
    if memory_mib < 256:
        raise LabError(f"--memory-mib {memory_mib}: a host needs at least 256 MiB for its VMs")
    if not 1 <= rest_port <= 65535:
        raise LabError(f"--rest-port {rest_port}: not a port")
    if any(character in str(state) + str(images) for character in ' "\\\n'):
        raise LabError("--state and --images must not contain spaces, quotes or backslashes")
    return Plan(name, hosts, str(network), rate, memory_mib, str(state), str(images), rest_port,
                migration_tls, migration_network)


def _private_network(option: str, text: str, longest: int, why: str) -> ipaddress.IPv4Network:
    try:
        network = ipaddress.IPv4Network(text)
    except ValueError as error:
        raise LabError(f"{option} {text}: {error}") from None
    if not 8 <= network.prefixlen <= longest:
        raise LabError(f"{option} {text}: its prefix must be between /8 and /{longest} ({why})")
    if not network.is_private:
        raise LabError(f"{option} {text}: use a private range (10.0.0.0/8, 172.16.0.0/12, "
                       "192.168.0.0/16)")
    return network


def _check_migration_network(text: str, hosts: ipaddress.IPv4Network) -> None:
    network = _private_network("--migration-network", text, 24,
                               "each host has an address in the first /24")
    if network.overlaps(hosts):
        raise LabError(f"--migration-network {text} overlaps the hosts' own network {hosts}: "
                       "choose another range, or another --subnet")


RATE_UNITS = {"bit": 1, "kbit": 10**3, "mbit": 10**6, "gbit": 10**9}


def rate_bits(rate: str) -> int:
    """Bits a second of a rate in tc's notation."""
    found = re.match(r"^(\d+(?:\.\d+)?)(bit|kbit|mbit|gbit)$", rate.lower())
    if not found:
        raise LabError(f"rate '{rate}': write a number and a unit, such as 100mbit or 1gbit")
    bits = int(float(found.group(1)) * RATE_UNITS[found.group(2)])
    if not 10**5 <= bits <= 10**11:
        raise LabError(f"rate '{rate}': between 100kbit and 100gbit")
    return bits


def burst_bytes(bits: int) -> int:
    """tbf's bucket: 1 ms of the rate, at least 32 KiB.

    The bucket must hold what arrives between two timer ticks, and a whole 64 KiB segment of TCP
    helps (tbf cuts larger ones up, at a price). A larger bucket would let short transfers run
    unshaped.
    """
    return max(bits // 8 // 1000, 32 * 1024)
