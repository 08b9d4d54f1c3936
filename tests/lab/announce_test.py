"""Does traffic find a silent VM after it moved, because of our announcement alone?

QEMU's own announcement is off on every destination (announce-rounds=0, which also keeps the guest's
driver from announcing), and the guest only speaks when spoken to. A peer on the switch asks its echo
port every few milliseconds. With our announcement the answers are back at once; without it, the
switch sends the questions to the old host until something else teaches it better. The peer's ARP entry is
fixed in both cases: else its kernel broadcasts after some seconds, and the guest's answer heals as well.
"""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import os
import pathlib
import re
import socket
import stat
import subprocess
import threading
import time
import unittest
from collections.abc import Iterator

from lib import echo
from lib.cluster import Cluster, Json, kill
from lib.waiting import wait_until

POOL = "quiet"
QEMU = pathlib.Path("/usr/bin/qemu-system-x86_64")
PERIOD_S = 0.005
# Long enough to tell a switch that does not know from one that is slow.
CONTROL_SILENCE_S = 2.0
# Where a guest gets a word in all the same, that try tells nothing.
CONTROL_TRIES = 6


class Peer:
    """Asks a guest's echo port without end, in a thread, and notes when answers come."""

    def __init__(self, ip: str) -> None:
        self.answers: list[float] = []
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.connect((ip, echo.PORT))
        self._socket.settimeout(PERIOD_S)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._ask, daemon=True)
        self._thread.start()

    def _ask(self) -> None:
        number = 0
        while not self._stop.is_set():
            number += 1
            next_at = time.monotonic() + PERIOD_S
            try:
                self._socket.send(echo.question(number))
            except OSError:
                pass  # no route for a moment: a question without an answer
            while (left := next_at - time.monotonic()) > 0:
                self._socket.settimeout(left)
                try:
                    if echo.answered(self._socket.recv(64)) is not None:
                        self.answers.append(time.monotonic())
                except OSError:
                    pass

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()
        self._socket.close()

    def silence_at_end(self) -> float:
        return time.monotonic() - self.answers[-1] if self.answers else 0.0

    def longest_silence(self) -> float:
        """Between two answers."""
        return max((after - before for before, after in zip(self.answers, self.answers[1:])), default=0.0)


@dataclasses.dataclass(frozen=True)
class Frame:
    """One line of tshark about a frame."""

    at: float
    source: str
    destination: str
    kind: str     # arp.opcode: 1 request, 2 reply, 3 RARP request; empty: not ARP
    sender_mac: str
    sender_ip: str
    target_ip: str
    udp_source: str
    protocols: str

    @property
    def announces(self) -> bool:
        return self.kind == "3" or (self.kind in ("1", "2") and self.sender_ip == self.target_ip)


def parse(capture: pathlib.Path) -> list[Frame]:
    """By tshark, which knows nothing of our builder."""
    fields = ("frame.time_epoch", "eth.src", "eth.dst", "arp.opcode", "arp.src.hw_mac", "arp.src.proto_ipv4",
              "arp.dst.proto_ipv4", "udp.srcport", "frame.protocols")
    words = [word for field in fields for word in ("-e", field)]
    done = subprocess.run(["tshark", "-r", str(capture), "-T", "fields", "-E", "separator=;", *words],
                          capture_output=True, text=True, check=True)
    rows = [line.split(";") for line in done.stdout.splitlines()]
    return [Frame(float(row[0]), *row[1:]) for row in rows]


class AnnounceTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        cls.cluster = Cluster()
        cls.cluster.restore()
        cls.cluster.without_pools()
        cls.silence_qemu()
        cls.addClassCleanup(cls.unsilence_qemu)
        cls.vm = cls.cluster.ensure_pool(POOL, 1)[0]
        row = cls.cluster.get(f"vms/{cls.vm}")
        cls.mac, cls.ip = row["mac"], row["ip"]
        echo.fix_neighbour(cls, cls.ip, cls.mac)

    def setUp(self) -> None:
        self.agents: list["subprocess.Popen[bytes]"] = []
        self.addCleanup(self.restore_agents)

    @classmethod
    def silence_qemu(cls) -> None:
        """On each host, the emulator's path leads to a script that adds one option."""
        real = cls.cluster.state / "qemu-real"
        script = cls.cluster.state / "qemu-silent"
        real.touch()
        # -L: it looks for its firmware beside itself.
        script.write_text(f'#!/bin/sh\nexec {real} "$@" -L /usr/share/qemu -L /usr/share/seabios '
                          "-global migration.announce-rounds=0\n")
        script.chmod(script.stat().st_mode | stat.S_IXUSR)
        for host in cls.cluster.hosts:
            cls.cluster.lab("exec", host, "--", "mount", "--bind", str(QEMU), str(real))
            cls.cluster.lab("exec", host, "--", "mount", "--bind", str(script), str(QEMU))
            # The emulator changed: libvirt asks it anew what it can, which takes a while.
            cls.cluster.virsh(host, "domcapabilities", "--virttype", "qemu")

    @classmethod
    def unsilence_qemu(cls) -> None:
        cls.cluster.delete_pool(POOL)
        for host in cls.cluster.hosts:
            cls.cluster.lab("exec", host, "--", "umount", str(QEMU))
            cls.cluster.lab("exec", host, "--", "umount", str(cls.cluster.state / "qemu-real"))
            cls.cluster.virsh(host, "domcapabilities", "--virttype", "qemu")
            # Agents that began meanwhile asked the script what it can.
            cls.cluster.kill_agent(host)
        cls.cluster.restore()

    def restore_agents(self) -> None:
        for process in self.agents:
            kill(process)
        self.cluster.restore()

    def start_silent_agent(self, host: str) -> None:
        """The host's agent, as the lab starts it, but without announcements."""
        pid = self.cluster.agent_pid(host)
        assert pid
        argv = [*self.cluster.argv_of(pid), "--no-announce"]
        self.cluster.kill_agent(host)
        with open(self.cluster.state / "logs" / f"agent-{host}.log", "ab") as log:
            command = [str(self.lab_program()), "exec", "--state", str(self.cluster.state), host, "--", *argv]
            self.agents.append(subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=dict(
                os.environ, _MARE_LAB_STATE=str(self.cluster.state))))
        wait_until(lambda: self.cluster.get(f"hosts/{host}")["health"] == "up", f"{host} is up again", patience_s=60)

    @staticmethod
    def lab_program() -> pathlib.Path:
        return pathlib.Path(__file__).resolve().parents[2] / "hypervisor/lab/mare-lab"

    def capture(self, host: str) -> tuple["subprocess.Popen[bytes]", pathlib.Path]:
        """Frames that leave a host towards the switch, with the kernel's time stamps.

        At once: else the kernel hands them over a second late, when a short try is over.
        """
        file = self.cluster.state / f"announce-{host}.pcap"
        file.unlink(missing_ok=True)
        process = subprocess.Popen([str(self.lab_program()), "exec", "--state", str(self.cluster.state), host, "--", "tcpdump",
                                    "-i", "up0", "-Q", "out", "-U", "--immediate-mode", "-w", str(file), f"ether src {self.mac}"],
                                   stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        assert process.stderr
        process.stderr.readline()  # "listening on": from now on it sees everything
        return process, file

    def new_peer(self) -> Peer:
        peer = Peer(self.ip)
        self.addCleanup(peer.stop)
        wait_until(lambda: len(peer.answers) > 100, "the guest answers its peer")
        return peer

    def cut_off(self, host: str) -> None:
        """On its own bridge the guest is found no more.

        Else it may have unread questions at the switch, answers them when it arrives, and so announces itself.
        """
        tap = self.cluster.virsh(host, "domiflist", self.vm).splitlines()[2].split()[0]
        for words in (("link", "set", "dev", tap, "flood", "off", "learning", "off"),
                      ("fdb", "del", self.mac, "dev", tap, "master")):
            self.cluster.lab("exec", host, "--", "bridge", *words)

    def move(self, watch: str) -> tuple[Json, Peer, list[Frame]]:
        """A migration to `watch`, under the eyes of a peer and of tshark."""
        peer = self.new_peer()
        process, file = self.capture(watch)
        record = self.cluster.migrate(self.vm, watch, strategy="pre-copy")
        return record, peer, self.frames(process, file)

    def frames(self, process: "subprocess.Popen[bytes]", file: pathlib.Path) -> list[Frame]:
        process.terminate()
        process.wait()
        return parse(file)

    def test_our_announcement_heals(self) -> None:
        destination = self.cluster.another_host(self.cluster.host_of(self.vm))
        record, peer, frames = self.move(destination)
        answered = len(peer.answers)
        wait_until(lambda: len(peer.answers) > answered + 50, "the guest answers after its move", patience_s=10)
        with_ours = peer.longest_silence()
        peer.stop()
        self.assert_ours([frame for frame in frames if frame.kind], record)
        print(f"         with our announcement: peers saw {with_ours * 1000:.0f} ms of silence, hypervisor "
              f"{record['downtime_ms']['hypervisor']:.0f} ms", flush=True)
        self.assertGreater(CONTROL_SILENCE_S, with_ours, "ours is no faster than a guest that nobody announces")

        for host in self.cluster.hosts:
            self.start_silent_agent(host)
            self.silence_guest(host)
        for _ in range(CONTROL_TRIES):
            if self.control(self.cluster.another_host(self.cluster.host_of(self.vm))):
                return
        self.fail(f"the guest spoke up by itself in each of {CONTROL_TRIES} tries: no control")

    def control(self, home: str) -> bool:
        """A move without any announcement; false if the guest spoke up by itself, which tells nothing."""
        source = self.cluster.host_of(self.vm)
        peer = self.new_peer()
        process, file = self.capture(home)
        self.cut_off(source)
        # Not longer than until the announcement: a guest that is asked may have to find out who asks.
        with self.dropped(home, "-p", "ARP"):
            # Not waited for: its end comes when the guest is found again, by whatever means.
            operation = self.cluster.submit("POST", f"vms/{self.vm}/migrations", {"destination": home, "strategy": "pre-copy"})
            wait_until(lambda: self.cluster.copies(self.vm) == {home: "running"}, "the VM runs at its destination alone")
            arrived, heard = time.monotonic(), len(peer.answers)
            wait_until(lambda: time.monotonic() - arrived > CONTROL_SILENCE_S or len(peer.answers) > heard,
                       "time enough passed to be found")
            found = len(peer.answers) > heard
            before, at = len(peer.answers), time.monotonic()
            if not found:
                self.announce_by_hand(home)
        if not found:
            wait_until(lambda: len(peer.answers) > before + 20, "an announcement by hand heals", patience_s=10)
        self.cluster.finish(operation)
        peer.stop()
        frames = self.frames(process, file)
        self.assertTrue(frames, "the capture saw nothing of the guest")
        first = frames[0]
        # Its first word is an answer only if a question found it, and nothing but the switch could have done that.
        self.assertNotEqual(first.udp_source, str(echo.PORT), "something else told the switch: the control controls nothing")
        if found:
            self.assertFalse(first.announces, f"somebody announced the VM: the control controls nothing: {first}")
        if not first.announces:
            print(f"         the guest spoke up by itself ({first.protocols}): tried again", flush=True)
            return False
        healed = peer.answers[before] - at
        print(f"         without: {peer.answers[before] - peer.answers[before - 1]:.1f} s, ended by an announcement by "
              f"hand after {healed * 1000:.0f} ms", flush=True)
        self.assertLess(healed, 2.0, "it was not the announcement that healed")
        self.assertEqual(self.cluster.get(f"migrations/{operation['id']}")["announcements"], 0)
        self.assertEqual(self.cluster.assert_runs_once(self.vm), home)
        return True

    def assert_ours(self, frames: list[Frame], record: Json) -> None:
        """What tshark saw: gratuitous ARP of both forms, with the VM's MAC in both places, and no RARP."""
        self.assertTrue(frames, "tshark saw no announcement")
        self.assertEqual({frame.kind for frame in frames}, {"1", "2"}, "request and reply form, and no RARP of QEMU's")
        for frame in frames:
            self.assertEqual((frame.source, frame.sender_mac), (self.mac, self.mac))
            self.assertEqual(frame.destination, "ff:ff:ff:ff:ff:ff")
            self.assertEqual((frame.sender_ip, frame.target_ip), (self.ip, self.ip))
        stamp = re.sub(r"Z$", "+00:00", record["switched"])
        switched = datetime.datetime.fromisoformat(stamp).timestamp()
        first = min(frame.at for frame in frames)
        self.assertLess(abs(first - switched), 1.0, "the first announcement is not near the switch")

    def silence_guest(self, host: str) -> None:
        """Nothing of the guest leaves the host but answers of its agent, and ARP.

        It speaks up by itself in most tries else: its NFS client, its router solicitations.
        """
        ip = ("-p", "IPv4", "--ip-proto")
        others = ("--ip-sport", "!", str(echo.PORT))
        for rule in (("-p", "IPv6"), (*ip, "tcp", *others), (*ip, "udp", *others)):
            self.enterContext(self.dropped(host, *rule))

    @contextlib.contextmanager
    def dropped(self, host: str, *rule: str) -> Iterator[None]:
        """On the host's bridge; what the host itself sends, as announcements, does not pass there."""
        words = ("FORWARD", "-s", self.mac, "-o", "up0", *rule, "-j", "DROP")
        self.cluster.lab("exec", host, "--", "ebtables", "-A", *words)
        try:
            yield
        finally:
            self.cluster.lab("exec", host, "--", "ebtables", "-D", *words)

    def announce_by_hand(self, host: str) -> None:
        self.cluster.lab("exec", host, "--", self.cluster.program("mare-announce"), "--interface", "br0", "--mac", self.mac,
                         "--ip", self.ip, "--count", "2")


if __name__ == "__main__":
    unittest.main()
