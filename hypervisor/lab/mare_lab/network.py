"""Links of the lab: a switch, a cable to every host and to the NFS server, one into the root
namespace.

    root: NAME-ctl ---\\
    nfs:  eth0 --------+-- switch: br0 with ports ctl, nfs, h1, h2, ...
    hN:   br0 - up0 --/    (tbf on both ends of every host's cable)
          mig0 ----------- switch: br1 with ports h1-mig, h2-mig, ...

The second cable and br1 are there where migrations have a network of their own.
"""

from __future__ import annotations

import ipaddress
import json
import os
import socket
import subprocess
import sys
from pathlib import Path

from mare_lab import namespaces, procs
from mare_lab.plan import MAIN, MIGRATION, Plan, burst_bytes, rate_bits
from mare_lab.util import LabError, find_program, run

# Ethernet, IPv4 and TCP (with time stamps) headers: 1448 of 1514 bytes of a full frame are payload,
# and 24 more pass on a real wire that tbf does not count.
GOODPUT_SHARE = 1448 / 1514
# A host's, for each priority: with the usual 1000 a guest's bulk would wait for seconds at 100 Mbit/s.
QUEUE_FRAMES = 256


def ip_batch(pid: int | None, commands: list[str], what: str) -> None:
    """Several ip(8) commands at once, in the network of a process, or here."""
    preexec = namespaces.in_network_of(pid) if pid is not None else None
    run(["ip", "-batch", "-"], what, text="\n".join(commands) + "\n", preexec=preexec)


def link_exists(pid: int | None, name: str) -> bool:
    argv = [_ip(), "link", "show", "dev", name]
    preexec = namespaces.in_network_of(pid) if pid is not None else None
    return subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, check=False,
                          preexec_fn=preexec).returncode == 0


def _ip() -> str:
    return find_program("ip") or "ip"


def conflicting_route(routes: list[dict[str, object]], network: ipaddress.IPv4Network,
                      own: str) -> str | None:
    """The first of this machine's routes that overlaps the lab's subnet, as text; pure."""
    for route in routes:
        destination = str(route.get("dst", ""))
        device = str(route.get("dev", ""))
        other_kind = route.get("type") in ("broadcast", "multicast")
        if destination == "default" or device == own or other_kind:
            continue
        try:
            other = ipaddress.IPv4Network(destination, strict=False)
        except ValueError:
            continue
        if other.prefixlen > 0 and other.overlaps(network):
            return f"{destination} dev {device}" if device else destination
    return None


def check_routes(plan: Plan) -> None:
    routes = json.loads(run(["ip", "-j", "-4", "route", "show", "table", "all"],
                            "reading routes") or "[]")
    found = conflicting_route(routes, plan.network, plan.control_interface)
    if found is not None:
        raise LabError(f"this machine already has a route that overlaps {plan.subnet}: `{found}`; "
                       "choose another range with --subnet, such as 10.78.0.0/16")


def set_up_switch(pid: int) -> None:
    if not link_exists(pid, "br0"):
        # No learning delay, no spanning tree, no snooping: announcements must pass at once.
        ip_batch(pid, ["link add br0 type bridge forward_delay 0 stp_state 0 mcast_snooping 0"],
                 "making the switch")
    ip_batch(pid, ["link set br0 up"], "switch up")
    no_netfilter_on_bridges(pid)


def no_netfilter_on_bridges(pid: int) -> None:
    """Where br_netfilter is loaded, the machine's firewall would otherwise filter bridged frames.
    """
    argv = [sys.executable, "-c",
            "import pathlib\n"
            "for f in pathlib.Path('/proc/sys/net/bridge').glob('bridge-nf-call-*'): "
            "f.write_text('0')"]
    # The failure is harmless: without the module there is no such directory.
    subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, check=False,
                   preexec_fn=namespaces.in_network_of(pid))


def set_up_host(plan: Plan, host: str, pid: int, switch: int) -> None:
    """Bridge, address and cable of one host."""
    if not link_exists(pid, "br0"):
        ip_batch(pid, [f"link add br0 address {plan.bridge_mac(host)} type bridge forward_delay 0 "
                       "stp_state 0 mcast_snooping 0"], f"making the bridge of {host}")
    if not link_exists(pid, "up0"):
        _cable(pid, "up0", switch, host, f"making the cable of {host}")
    ip_batch(pid, [f"addr replace {plan.host_address(host)}/{plan.prefix_length} dev br0",
                   "link set up0 master br0", "link set up0 up", "link set br0 up"],
             f"network of {host}")
    ip_batch(switch, [f"link set {host} master br0", f"link set {host} up"],
             f"switch port of {host}")
    no_netfilter_on_bridges(pid)


def set_up_migration_network(plan: Plan, pids: dict[str, int], switch: int) -> None:
    """A second cable for every host, to a switch of its own: nothing of the other network passes there."""
    assert plan.migration_network is not None
    if not link_exists(switch, "br1"):
        ip_batch(switch, ["link add br1 type bridge forward_delay 0 stp_state 0 mcast_snooping 0"],
                 "making the switch for migrations")
    ip_batch(switch, ["link set br1 up"], "switch for migrations up")
    prefix = ipaddress.IPv4Network(plan.migration_network).prefixlen
    for host, pid in pids.items():
        device, port = ends_of(host, MIGRATION)
        if not link_exists(pid, device):
            _cable(pid, device, switch, port, f"making the migration cable of {host}")
        ip_batch(pid, [f"addr replace {plan.migration_address(host)}/{prefix} dev {device}",
                       f"link set {device} up"], f"migration network of {host}")
        ip_batch(switch, [f"link set {port} master br1", f"link set {port} up"],
                 f"migration port of {host}")


def set_up_nfs(plan: Plan, pid: int, switch: int) -> None:
    if not link_exists(pid, "eth0"):
        _cable(pid, "eth0", switch, "nfs", "making the cable of the NFS server")
    ip_batch(pid, [f"addr replace {plan.nfs_address}/{plan.prefix_length} dev eth0",
                   "link set eth0 up"], "network of the NFS server")
    ip_batch(switch, ["link set nfs master br0", "link set nfs up"],
             "switch port of the NFS server")


def set_up_control(plan: Plan, switch: int) -> None:
    """The cable into the root namespace, where mared and the user are."""
    name = plan.control_interface
    if not link_exists(None, name):
        run(["ip", "link", "add", name, "type", "veth", "peer", "name", "ctl", "netns",
             str(switch)],
            f"making the interface {name}")
    ip_batch(None, [f"addr replace {plan.control_address}/{plan.prefix_length} dev {name}",
                    f"link set {name} up"], f"interface {name}")
    ip_batch(switch, ["link set ctl master br0", "link set ctl up"],
             "switch port of the root namespace")


def _cable(left: int, left_name: str, right: int, right_name: str, what: str) -> None:
    """A veth pair with an end in each of two networks; the root namespace never sees it."""
    # A half that an interrupted `up` left on the switch is in the way.
    if link_exists(right, right_name):
        ip_batch(right, [f"link del {right_name}"], what)
    run(["ip", "link", "add", left_name, "mtu", "1500", "netns", str(left), "type", "veth", "peer",
         "name",
         right_name, "mtu", "1500", "netns", str(right)], what)


def ends_of(host: str, link: str) -> tuple[str, str]:
    """A cable's interface on the host, and its port on the switch."""
    return ("up0", host) if link == MAIN else ("mig0", f"{host}-mig")


def shape(host: str, link: str, pid: int, switch: int, rate: str) -> None:
    """Both directions of a host's cable, by a token bucket at the sending end.

    What waits at the host is queued as Linux hosts do it, by priorities; the switch knows none.
    """
    bits = rate_bits(rate)
    device, port = ends_of(host, link)
    for where, end in ((pid, device), (switch, port)):
        # 50 ms of queue: what a good switch has, and enough for TCP to fill the link.
        run(["tc", "qdisc", "replace", "dev", end, "root", "handle", "1:", "tbf", "rate",
             f"{bits}bit", "burst", str(burst_bytes(bits)), "latency", "50ms"],
            f"shaping the {link} link of {host}", preexec=namespaces.in_network_of(where))
    ip_batch(pid, [f"link set {device} txqueuelen {QUEUE_FRAMES}"], f"queueing at {host}")
    run(["tc", "qdisc", "replace", "dev", device, "parent", "1:1", "handle", "10:", "pfifo_fast"],
        f"queueing at {host}", preexec=namespaces.in_network_of(pid))


def name_namespace(name: str, pid: int) -> None:
    """For people: `ip netns exec NAME`. The lab itself goes by process."""
    path = Path("/run/netns") / name
    if path.exists() and path.stat().st_ino == procs.namespace_of(pid, "net"):
        return
    unname_namespace(name)
    run(["ip", "netns", "attach", name, str(pid)], f"naming network namespace {name}")


def unname_namespace(name: str) -> None:
    path = Path("/run/netns") / name
    try:
        namespaces.unmount(str(path))
    except OSError:
        pass  # Never mounted: the name is an empty file left by a crash, or there is none.
    path.unlink(missing_ok=True)


def remove_control(plan: Plan) -> None:
    if link_exists(None, plan.control_interface):
        subprocess.run([_ip(), "link", "del", plan.control_interface], stdin=subprocess.DEVNULL,
                       capture_output=True,
                       check=False)


SINK = """\
import socket, sys, time
server = socket.create_server((sys.argv[1], 5201))
server.settimeout(20)
print("ready", flush=True)
connection, _ = server.accept()
warm, seconds = float(sys.argv[2]), float(sys.argv[3])
buffer, total, begin, now = bytearray(1 << 20), 0, None, 0.0
first = time.monotonic()
while True:
    count = connection.recv_into(buffer)
    now = time.monotonic()
    if count == 0 or (begin is not None and now - begin >= seconds):
        break
    if begin is None:
        if now - first >= warm:
            begin = now
    else:
        total += count
print(int(total * 8 / (now - begin)) if begin is not None and now > begin else 0, flush=True)
"""


def measure(plan: Plan, source: int, destination: int, address: str, seconds: float = 2.0) -> int:
    """Bits a second that one TCP connection carries from host to host, as payload, in the steady
    state.
    """
    sink = subprocess.Popen([sys.executable, "-c", SINK, address, "0.5", str(seconds)],
                            stdin=subprocess.DEVNULL,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                            preexec_fn=namespaces.in_network_of(destination))
    assert sink.stdout is not None and sink.stderr is not None
    try:
        if sink.stdout.readline().strip() != "ready":
            raise LabError(f"cannot measure: {sink.stderr.read().strip().splitlines()[-1:]}")
        child = subprocess.Popen(
            [sys.executable, "-c",
             "import socket, sys\n"
             "link = socket.create_connection((sys.argv[1], 5201), timeout=10)\n"
             "data = bytes(1 << 16)\n"
             "try:\n"
             "    while True: link.sendall(data)\n"
             "except OSError: pass\n", address],
            stdin=subprocess.DEVNULL, preexec_fn=namespaces.in_network_of(source))
        try:
            return int(sink.stdout.readline() or 0)
        finally:
            child.terminate()
            child.wait()
    finally:
        sink.terminate()
        sink.wait()


def connects(address: str, port: int, timeout: float = 0.5) -> bool:
    try:
        with socket.create_connection((address, port), timeout=timeout):
            return True
    except OSError:
        return False


def connects_unix(path: Path) -> bool:
    """A UNIX socket's path may have 107 characters; a long state directory goes through its
    descriptor.
    """
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
        sock.settimeout(1)
        try:
            directory = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
        except OSError:
            return False
        try:
            sock.connect(f"/proc/self/fd/{directory}/{path.name}")
            return True
        except OSError:
            return False
        finally:
            os.close(directory)


