#!/usr/bin/python3
"""Carries a file from one host of the lab to another over one TCP connection, so that it crosses the link between
them: the hosts share this machine's files, and a copy would not.

`carry.py receive ADDRESS FILE` says "ready PORT"; `carry.py send ADDRESS PORT FILE` says "ready", waits for a line,
sends, and says how many seconds went by until the other end had it all.
"""

from __future__ import annotations

import pathlib
import socket
import sys
import time

PATIENCE_S = 300
CHUNK = 1 << 20


def receive(address: str, file: pathlib.Path) -> None:
    with socket.create_server((address, 0)) as server:
        server.settimeout(PATIENCE_S)
        print("ready", server.getsockname()[1], flush=True)
        link, _ = server.accept()
    buffer = bytearray(CHUNK)
    with link, open(file, "wb") as out:
        link.settimeout(PATIENCE_S)
        while count := link.recv_into(buffer):
            out.write(memoryview(buffer)[:count])
        out.flush()
        link.sendall(b"k")


def send(address: str, port: int, file: pathlib.Path) -> float:
    print("ready", flush=True)
    sys.stdin.readline()
    begun = time.monotonic()
    with socket.create_connection((address, port), timeout=PATIENCE_S) as link, open(file, "rb") as source:
        link.sendfile(source)
        link.shutdown(socket.SHUT_WR)
        if link.recv(1) != b"k":
            raise OSError(f"{address}:{port} did not take all of {file}")
    return time.monotonic() - begun


def main(words: list[str]) -> int:
    try:
        if len(words) == 3 and words[0] == "receive":
            receive(words[1], pathlib.Path(words[2]))
        elif len(words) == 4 and words[0] == "send":
            print(send(words[1], int(words[2]), pathlib.Path(words[3])), flush=True)
        else:
            print("usage: carry.py receive ADDRESS FILE | send ADDRESS PORT FILE", file=sys.stderr)
            return 2
    except OSError as error:
        print(f"carry.py: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
