"""TCP connections of a VM's emulators, and how the kernel was told to treat them."""

from __future__ import annotations

import ctypes
import dataclasses
import os
import pathlib
import socket

from lib.processes import PROC, read_arguments

PIDFD_OPEN, PIDFD_GETFD = 434, 438  # on every architecture; Python has no call for the second
#: linux/pkt_sched.h: of TC_PRIO_BESTEFFORT and TC_PRIO_BULK.
USUAL, BULK = 0, 2


@dataclasses.dataclass(frozen=True)
class Connection:
    """One end of it."""

    port: int
    peer_port: int
    priority: int
    at_once: bool


def connections(uuid: str) -> list[Connection]:
    """Of all emulators of that VM, on all hosts of the lab."""
    return [one for process in PROC.iterdir() if process.name.isdigit() and is_emulator(process, uuid) for one in connections_of(process)]


def is_emulator(process: pathlib.Path, uuid: str) -> bool:
    try:
        words = (process / "cmdline").read_bytes().decode(errors="replace").split("\0")
    except OSError:
        return False  # it has ended
    known = read_arguments(words)
    return known is not None and known[2] == uuid


def connections_of(process: pathlib.Path) -> list[Connection]:
    found = []
    try:
        numbers = [int(file.name) for file in (process / "fd").iterdir() if os.readlink(file).startswith("socket:")]
    except OSError:
        return []
    for number in numbers:
        taken = take(int(process.name), number)
        if taken is None:
            continue
        with taken:
            if taken.family not in (socket.AF_INET, socket.AF_INET6) or taken.type != socket.SOCK_STREAM:
                continue
            try:
                peer = taken.getpeername()
            except OSError:
                continue  # it listens
            found.append(Connection(taken.getsockname()[1], peer[1], taken.getsockopt(socket.SOL_SOCKET, socket.SO_PRIORITY),
                                    taken.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) != 0))
    return found


def take(pid: int, number: int) -> socket.socket | None:
    """A duplicate; closing it harms nobody."""
    libc = ctypes.CDLL(None)
    process = libc.syscall(PIDFD_OPEN, pid, 0)
    if process < 0:
        return None
    try:
        descriptor = libc.syscall(PIDFD_GETFD, process, number, 0)
    finally:
        os.close(process)
    try:
        return socket.socket(fileno=descriptor) if descriptor >= 0 else None
    except OSError:
        os.close(descriptor)
        return None
