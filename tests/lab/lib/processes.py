"""The lab's own processes on each host, from the kernel alone: who runs which VM, and whether one runs twice."""

from __future__ import annotations

import dataclasses
import os
import pathlib
import signal
import threading
import time
from typing import Iterable

from lib.cluster import Cluster
from lib.waiting import wait_until

QEMU, WATCHDOG = "qemu", "watchdog"
PROC = pathlib.Path("/proc")
#: A process that was nothing of ours in so many looks stays so: between fork and exec it is its parent's twin.
LOOKS_TO_BE_SURE = 20
LOOK_S = 0.1
#: Of a virtual CPU's thread: a guest that runs takes more at once, one that never ran has only had its thread made.
STANDS_STILL_NS = 2_000_000


@dataclasses.dataclass(frozen=True)
class Seen:
    """One process; `vm` and `uuid` are empty unless it is a VM's."""

    pid: int
    host: str
    kind: str
    vm: str = ""
    uuid: str = ""


def read_arguments(argv: list[str]) -> tuple[str, str, str] | None:
    """Kind, VM and uuid of a process by its arguments; None: nothing of ours. Templates are no VMs."""
    program = argv[0].rpartition("/")[2] if argv else ""
    if program == "mare-watchdog":
        return WATCHDOG, "", ""
    if not program.startswith("qemu-system"):
        return None
    following = dict(zip(argv, argv[1:]))
    fields = dict(part.partition("=")[::2] for part in following.get("-name", "").split(","))
    uuid, vm = following.get("-uuid", ""), fields.get("guest", "")
    return (QEMU, vm, uuid) if uuid and vm and not vm.startswith("mare-template-") else None


class Processes:
    """Looks at the processes in the networks of the hosts. Not for several threads at once."""

    def __init__(self, networks: dict[int, str], proc: pathlib.Path = PROC) -> None:
        """`networks`: inode of a network namespace -> its host."""
        self._networks, self._proc = networks, proc
        self._dull: dict[int, int] = {}

    def look(self) -> list[Seen]:
        """Those that are alive: a process that ends loses its arguments first of all."""
        pids = [int(name) for name in os.listdir(self._proc) if name.isdigit()]
        dull, found = self._dull, []
        self._dull = {}
        for pid in pids:
            looks = dull.get(pid, 0)
            seen = None if looks >= LOOKS_TO_BE_SURE else self._read(pid)
            if seen:
                found.append(seen)
            else:
                self._dull[pid] = looks + 1
        return found

    def still(self, seen: Seen) -> bool:
        return self._read(seen.pid) == seen

    def has_run(self, seen: Seen) -> bool:
        """Whether its virtual CPUs ever computed. Those of a copy that was loaded and never told to run take next to nothing."""
        nanoseconds = 0
        try:
            for thread in (self._proc / str(seen.pid) / "task").iterdir():
                if (thread / "comm").read_text().startswith("CPU "):
                    nanoseconds += int((thread / "schedstat").read_text().split()[0])
        except (OSError, IndexError, ValueError):
            return True  # it is ending, or this kernel does not count: nothing is taken back
        return nanoseconds > STANDS_STILL_NS

    def _read(self, pid: int) -> Seen | None:
        folder = self._proc / str(pid)
        try:
            argv = (folder / "cmdline").read_bytes().decode(errors="replace").split("\0")[:-1]
            known = read_arguments(argv)
            host = self._networks.get((folder / "ns" / "net").stat().st_ino) if known else None
        except OSError:
            return None  # it has ended
        return Seen(pid, host, *known) if known and host else None


def twice(processes: Processes) -> list[list[Seen]]:
    """For each VM that has more than one living process at one moment: these. One look takes a while, in which a VM may
    have ended here and begun there; so both must still be there after it."""
    by_uuid: dict[str, list[Seen]] = {}
    for one in processes.look():
        if one.kind == QEMU:
            by_uuid.setdefault(one.uuid, []).append(one)
    found = []
    for same in by_uuid.values():
        left = [one for one in same if processes.still(one)] if len(same) > 1 else []
        if len(left) > 1:
            found.append(left)
    return found


class Doubles:
    """While it is entered, counts every VM's processes again and again. Only where no VM is meant to move: a move has two.

    `found`: at least two of them have run. `loaded`: one was loaded and had not been told to run; a host that is cut off in
    the middle of a restart keeps such a copy until it is back.
    """

    def __init__(self, processes: Processes) -> None:
        self.looks = 0
        self.found: list[str] = []
        self.loaded: list[str] = []
        self._processes = processes
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> "Doubles":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ends.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._ends.wait(LOOK_S):
            for same in twice(self._processes):
                words = f"{same[0].vm}: " + ", ".join(f"{one.host} (process {one.pid})" for one in same)
                into = self.found if sum(self._processes.has_run(one) for one in same) > 1 else self.loaded
                if words not in into:
                    into.append(words)
            self.looks += 1


def of_lab(cluster: Cluster) -> Processes:
    """Of the hosts of a lab that is up."""
    hosts = cluster.status()["hosts"]
    missing = [host["name"] for host in hosts if not host["holder"]]
    if missing:
        raise AssertionError(f"the lab is not whole: {', '.join(missing)}")
    return Processes({(PROC / str(host["holder"]) / "ns" / "net").stat().st_ino: host["name"] for host in hosts})


def has_ended(pid: int) -> bool:
    """Gone, or dead and not yet buried."""
    try:
        return (PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    except OSError:
        return True


def end_at_once(pids: Iterable[int]) -> float:
    """SIGKILL to all of them, one right after the other; waits for their end. Gives the time just before the first."""
    begun = time.time()
    struck = []
    for pid in pids:
        try:
            os.kill(pid, signal.SIGKILL)
            struck.append(pid)
        except ProcessLookupError:
            pass  # it went first
    wait_until(lambda: all(has_ended(pid) for pid in struck), f"processes {struck} have ended", patience_s=30, period_s=0.01)
    return begun
