"""Which processes are the lab's own, and ending exactly those.

A process is known by its pid and its start time, so a pid that was given to somebody else meanwhile
is never touched. Everything the lab starts also carries MARKER in its environment: it finds the
process that was started just before a kill -9 of `up`, and not yet written down.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from mare_lab.util import LabError, SEARCH_PATH, wait_until

MARKER = "_MARE_LAB_STATE"


@dataclass(frozen=True)
class Process:
    pid: int
    started: int  # clock ticks after boot, field 22 of /proc/PID/stat

    def alive(self) -> bool:
        return start_time(self.pid) == self.started

    def to_json(self) -> list[int]:
        return [self.pid, self.started]


def start_time(pid: int) -> int | None:
    """Start time of a living process; None if it is gone or a zombie that nobody has reaped yet."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    # The name, in parentheses, may itself contain anything.
    fields = text.rpartition(")")[2].split()
    if fields[0] in ("Z", "X"):
        return None
    return int(fields[19])


def identify(pid: int) -> Process | None:
    started = start_time(pid)
    return None if started is None else Process(pid, started)


def all_pids() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def argv_of(pid: int) -> list[str]:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").split("\0")[:-1]
    except OSError:
        return []


def namespace_of(pid: int, kind: str) -> int | None:
    """Inode of a process's namespace: the same number means the same namespace."""
    try:
        return os.stat(f"/proc/{pid}/ns/{kind}").st_ino
    except OSError:
        return None


def in_network(inodes: Iterable[int]) -> list[Process]:
    """Every process in one of these network namespaces: QEMUs that libvirt started, a user's shell.
    """
    wanted = set(inodes)
    if not wanted:
        return []
    found = [identify(pid) for pid in all_pids() if namespace_of(pid, "net") in wanted]
    return [process for process in found if process is not None]


def environment_of(pid: int) -> list[bytes]:
    try:
        return Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")[:-1]
    except OSError:
        return []


def marked(state: Path) -> list[Process]:
    """Every process that a lab with this state directory started."""
    needle = f"{MARKER}={state}".encode()
    found = []
    for pid in all_pids():
        if needle not in environment_of(pid):
            continue
        process = identify(pid)
        if process is not None:
            found.append(process)
    return found


def environment(state: Path, extra: dict[str, str] | None = None) -> dict[str, str]:
    """What a lab process sees: nothing of the caller's session but the path and the locale."""
    base = {"PATH": SEARCH_PATH, "HOME": "/root", "LANG": "C.UTF-8", MARKER: str(state)}
    for name in ("ASAN_OPTIONS", "UBSAN_OPTIONS", "TSAN_OPTIONS", "MARE_LOG"):
        if name in os.environ:
            base[name] = os.environ[name]
    return base | (extra or {})


def start(argv: Sequence[str], log: Path, state: Path,
          enter: Callable[[], None] | None = None) -> Process:
    """Start a daemon in a session of its own, its output appended to a log."""
    log.parent.mkdir(parents=True, exist_ok=True)
    with open(log, "ab") as out:
        try:
            # Not waited for: it outlives us, and init reaps it.
            child = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=out, stderr=out,
                                     cwd="/",
                                     env=environment(state), start_new_session=True,
                                     preexec_fn=enter)
        except (OSError, subprocess.SubprocessError) as error:
            raise LabError(f"cannot start {argv[0]}: {error}") from None
    child.returncode = 0  # Keeps the interpreter from warning about a child that is meant to go on.
    process = identify(child.pid)
    if process is None:
        raise LabError(f"{argv[0]} ended at once: see {log}")
    # Popen returns as soon as exec closes its pipe, a moment before the kernel has set up the new
    # environment: until then marked() would not find the process.
    wait_until(lambda: bool(environment_of(child.pid)) or not process.alive(), 5.0, 0.001)
    return process


def _signal(process: Process, number: int) -> None:
    """Signal through a descriptor, so that the pid cannot change hands between the look and the
    act.
    """
    try:
        descriptor = os.pidfd_open(process.pid)
    except OSError:
        return
    try:
        if process.alive():
            signal.pidfd_send_signal(descriptor, number)
    except ProcessLookupError:
        pass
    finally:
        os.close(descriptor)


def end(processes: Iterable[Process], patience: float = 5.0) -> list[Process]:
    """TERM, wait, KILL, wait. Returns those that even KILL did not end (stuck in the kernel)."""
    mine = {os.getpid(), os.getppid()}
    left = [process for process in set(processes) if process.pid not in mine and process.alive()]
    for number, seconds in ((signal.SIGTERM, patience), (signal.SIGKILL, 10.0)):
        for process in left:
            _signal(process, number)
        wait_until(lambda: not any(process.alive() for process in left), seconds, 0.02)
        left = [process for process in left if process.alive()]
        if not left:
            break
    return left


def kill(process: Process) -> None:
    """KILL without ceremony: the fault that tests inject."""
    _signal(process, signal.SIGKILL)
    wait_until(lambda: not process.alive(), 10.0, 0.01)


def listener(port: int, address: str = "127.0.0.1") -> str | None:
    """Who listens on a TCP port of this network namespace: 'name (pid N)', or None if it is free.
    """
    inodes = set()
    for table in ("tcp", "tcp6"):
        try:
            rows = Path(f"/proc/self/net/{table}").read_text(encoding="utf-8").splitlines()[1:]
        except OSError:
            continue
        for row in rows:
            fields = row.split()
            where, _, number = fields[1].partition(":")
            if fields[3] != "0A" or int(number, 16) != port:
                continue
            if table == "tcp6" or where in ("00000000", _hex_address(address)):
                inodes.add(f"socket:[{fields[9]}]")
    if not inodes:
        return None
    for pid in all_pids():
        try:
            for name in os.listdir(f"/proc/{pid}/fd"):
                if os.readlink(f"/proc/{pid}/fd/{name}") in inodes:
                    return f"{(argv_of(pid) or ['?'])[0]} (pid {pid})"
        except OSError:
            continue
    return "an unknown process"


def _hex_address(address: str) -> str:
    return "".join(f"{int(part):02X}" for part in reversed(address.split(".")))
