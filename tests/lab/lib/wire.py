"""What passes on a host's interface: how much, by the kernel's counters, and how each TCP connection to some ports begins, by
its packets as they arrive there.

As a program it runs on that host, and looks until its standard input ends: wire.py INTERFACE FIRST_PORT LAST_PORT."""

from __future__ import annotations

import dataclasses
import json
import pathlib
import select
import socket
import struct
import subprocess
import sys

# Of a packet: the headers, and more of its payload than is told.
SNAP = 256
# 0.5 s of 1 Gbit/s: a packet waits there whole, whatever is read of it.
QUEUE = 64 << 20
SYN, ACK = 2, 16
SO_RCVBUFFORCE = 33  # Python has no name for it
TOLD = 8
#: A handshake of TLS (RFC 8446, 5.1), of whatever version its record says; a migration of QEMU begins with "QEVM".
TLS_HANDSHAKE = b"\x16\x03"


@dataclasses.dataclass(frozen=True)
class Segment:
    """TCP over IPv4."""

    connection: str
    port: int  # where to
    opens: bool  # by who connects; it has no payload then
    sequence: int
    payload: bytes  # its first bytes


def read_segment(frame: bytes) -> Segment | None:
    """Of an Ethernet frame; None for all else."""
    if len(frame) < 54 or frame[12:14] != b"\x08\x00" or frame[14] >> 4 != 4 or frame[23] != socket.IPPROTO_TCP:
        return None
    ip_header, (ip_length,) = (frame[14] & 15) * 4, struct.unpack("!H", frame[16:18])
    tcp = frame[14 + ip_header:]
    if len(tcp) < 20:
        return None
    source_port, port, sequence = struct.unpack("!HHI", tcp[:8])
    tcp_header = (tcp[12] >> 4) * 4
    # Short frames are padded; the length says where the payload ends. 0: the sending card cuts it up, it is longer than that tells.
    carried = ip_length - ip_header - tcp_header if ip_length else len(tcp) - tcp_header
    payload = tcp[tcp_header:tcp_header + min(TOLD, max(carried, 0))]
    connection = f"{socket.inet_ntoa(frame[26:30])}:{source_port}>{socket.inet_ntoa(frame[30:34])}:{port}"
    return Segment(connection, port, tcp[13] & (SYN | ACK) == SYN, sequence, payload)


class Beginnings:
    """How each connection begins, from its segments in any order; "" of one whose first bytes were not seen."""

    def __init__(self) -> None:
        self.found: dict[str, str] = {}
        self._at: dict[str, int] = {}

    def add(self, segment: Segment) -> None:
        if segment.opens:
            self._at[segment.connection] = (segment.sequence + 1) % 2**32
            self.found.setdefault(segment.connection, "")
        elif segment.payload and self._at.get(segment.connection) == segment.sequence:
            self.found[segment.connection] = segment.payload.hex()


def watch(interface: str, first: int, last: int) -> dict[str, str]:
    """Connection -> the first bytes that it carried, as hexadecimal digits."""
    beginnings = Beginnings()
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x0003)) as packets:
        packets.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, QUEUE)
        packets.bind((interface, 0))
        print("ready", flush=True)
        while True:
            readable, _, _ = select.select([packets, sys.stdin], [], [])
            if packets in readable:
                segment = read_segment(packets.recv(SNAP))
                if segment and first <= segment.port <= last:
                    beginnings.add(segment)
            elif not sys.stdin.read(1):
                return beginnings.found


class Watch:
    """While it is entered, watches an interface of a host of the lab; `begins` afterwards: connection -> its first bytes."""

    def __init__(self, lab: list[str], host: str, interface: str, ports: tuple[int, int]) -> None:
        """`lab`: the words of a command that runs another one on that host."""
        self.begins: dict[str, bytes] = {}
        self._argv = [*lab, host, "--", sys.executable, str(pathlib.Path(__file__).resolve()), interface, *map(str, ports)]

    def __enter__(self) -> "Watch":
        self._process = subprocess.Popen(self._argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        if self._process.stdout.readline().strip() != "ready":
            self._process.wait()
            raise AssertionError(f"{' '.join(self._argv)} does not watch")
        return self

    def __exit__(self, *_: object) -> None:
        told, _ = self._process.communicate(timeout=30)
        self.begins = {connection: bytes.fromhex(text) for connection, text in json.loads(told).items()}


if __name__ == "__main__":
    print(json.dumps(watch(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))))
