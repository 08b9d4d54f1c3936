"""What the tests of the guest side share: a mare-guestd on loopback, and a client.

The programs under test come from the environment, set by CTest: MARE_GUEST_BIN is their folder.
"""

from __future__ import annotations

import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import unittest
import urllib.parse
from typing import Callable

TOKEN = "test-token-0123456789"
# Generous, for loaded machines. Nothing waits this long when all is well.
PATIENCE_S = 60.0


def program(name: str) -> str:
    """The path of a program under test."""
    folder = os.environ.get("MARE_GUEST_BIN")
    if not folder:
        raise AssertionError("MARE_GUEST_BIN is not set: run the tests by ctest -L guest")
    return str(pathlib.Path(folder) / name)


def wait_until(condition: Callable[[], bool], what: str) -> None:
    """Waits for something another process does."""
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"still not after {PATIENCE_S:.0f} s: {what}")
        time.sleep(0.01)


def alive(pid: int) -> bool:
    """Whether a process runs; a zombie does not."""
    try:
        stat = pathlib.Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return stat.rsplit(")", 1)[1].split()[0] not in "ZX"


class GuestError(Exception):
    """An ERR answer."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code
        self.message = message


class Client:
    """One connection."""

    def __init__(self, address: str, port: int, token: str = TOKEN) -> None:
        self.socket = socket.create_connection((address, port), timeout=PATIENCE_S)
        self.file = self.socket.makefile("rb")
        self.token = token

    def close(self) -> None:
        self.file.close()
        self.socket.close()

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def send_line(self, verb: str, *fields: tuple[str, object]) -> None:
        encoded = "".join(f" {key}={urllib.parse.quote(str(value), safe='')}" for key,
                          value in fields)
        self.socket.sendall(f"MARE1 {self.token} {verb}{encoded}\n".encode())

    def read_answer(self) -> tuple[dict[str, str], bytes]:
        line = self.file.readline().decode()
        if not line.endswith("\n"):
            raise ConnectionError(f"the connection ended with {line!r}")
        words = line.rstrip("\n").split(" ")
        if words[0] == "ERR":
            raise GuestError(words[1], urllib.parse.unquote(words[2]))
        if words[0] != "OK":
            raise AssertionError(f"neither OK nor ERR: {line!r}")
        fields = {key: urllib.parse.unquote(value) for key,
                  value in (word.split("=", 1) for word in words[1:])}
        return fields, self.file.read(int(fields["len"])) if "len" in fields else b""

    def ask(self, verb: str, *fields: tuple[str, object]) -> dict[str, str]:
        self.send_line(verb, *fields)
        return self.read_answer()[0]

    def run(self, job: str, directory: object, *arguments: str, **more: object) -> dict[str, str]:
        fields = [("id", job), ("dir", directory)] + [("arg", argument) for argument in arguments]
        return self.ask("RUN", *fields, *more.items())

    def status(self, job: str, directory: object) -> dict[str, str]:
        return self.ask("STATUS", ("id", job), ("dir", directory))

    def output(self, directory: object, offset: int = 0, most: int = 1 << 20) -> bytes:
        self.send_line("OUTPUT", ("dir", directory), ("offset", offset), ("max", most))
        return self.read_answer()[1]

    def wait_exited(self, job: str, directory: object) -> dict[str, str]:
        wait_until(lambda: self.status(job, directory)["state"] != "running",
                   f"{job} in {directory} ended")
        return self.status(job, directory)


class Guestd:
    """A mare-guestd on a free port, with a directory of its own. Ended by stop()."""

    def __init__(self, *options: str, address: str = "127.0.0.1", prefix: tuple[str, ...] = (),
                 folder: str | None = None, port: int = 0) -> None:
        binary = program("mare-guestd")
        self.folder = pathlib.Path(folder or tempfile.mkdtemp(prefix="mare-guest-"))
        self.owns_folder = folder is None
        self.address = address
        self.token_file = self.folder / "token"
        self.token_file.write_text(TOKEN + "\n")
        self.process = subprocess.Popen(
            [*prefix, binary, "--token-file", str(self.token_file), "--listen",
             address,
             "--port", str(port), *options], stderr=subprocess.PIPE, text=True)
        assert self.process.stderr
        line = self.process.stderr.readline()
        found = re.search(r"listening on \S+ port (\d+)", line)
        if not found:
            self.process.kill()
            raise AssertionError(f"mare-guestd said {line!r}")
        self.port = int(found[1])

    def connect(self, token: str = TOKEN) -> Client:
        return Client(self.address, self.port, token)

    def environment(self) -> dict[str, str]:
        """For mare-rsh."""
        return {**os.environ, "MARE_TOKEN_FILE": str(self.token_file),
                "MARE_GUEST_PORT": str(self.port)}

    def kill(self) -> None:
        """As a crash would."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def stop(self) -> None:
        if self.process.poll() is None:
            self.kill()
        assert self.process.stderr
        self.process.stderr.close()
        if self.owns_folder:
            # A runner may be writing an exit file at this moment: until nothing is left.
            def removed() -> bool:
                shutil.rmtree(self.folder, ignore_errors=True)
                return not self.folder.exists()

            wait_until(removed, f"{self.folder} is removed")


class GuestdTest(unittest.TestCase):
    """A test with a mare-guestd."""

    options: tuple[str, ...] = ()

    def setUp(self) -> None:
        self.guestd = Guestd(*self.options)
        self.addCleanup(self.guestd.stop)

    def connect(self, token: str = TOKEN) -> Client:
        client = self.guestd.connect(token)
        self.addCleanup(client.close)
        return client

    def directory(self, name: str) -> pathlib.Path:
        return self.guestd.folder / name

    def assert_refused(self, code: str, client: Client, verb: str,
                       *fields: tuple[str, object]) -> str:
        with self.assertRaises(GuestError) as caught:
            client.ask(verb, *fields)
        self.assertEqual(caught.exception.code, code, caught.exception)
        return caught.exception.message
