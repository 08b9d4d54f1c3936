"""The echo port of a guest, and a peer whose kernel need not ask first where the guest is."""

from __future__ import annotations

import struct
import subprocess
import unittest

PORT = 7411


def question(number: int) -> bytes:
    return b"MAREPING" + struct.pack(">Q", number)


def answered(text: bytes) -> int | None:
    """The question's number; None: it is no answer."""
    return int(struct.unpack(">Q", text[8:16])[0]) if text.startswith(b"MAREPONG") and len(text) >= 16 else None


def fix_neighbour(test: type[unittest.TestCase], ip: str, mac: str) -> None:
    """Until the end of the class. Else the kernel broadcasts after some seconds, or gives up."""
    route = subprocess.run(["ip", "-o", "route", "get", ip], capture_output=True, text=True, check=True).stdout.split()
    device = route[route.index("dev") + 1]
    subprocess.run(["ip", "neigh", "replace", ip, "lladdr", mac, "dev", device, "nud", "permanent"], check=True)
    test.addClassCleanup(subprocess.run, ["ip", "neigh", "del", ip, "dev", device], check=False)
