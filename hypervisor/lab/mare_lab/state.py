"""lab.json: what the lab consists of, written before and after every step, so that a kill -9 of
`up` leaves a file from which `up` can go on and `down` can clear away."""

from __future__ import annotations

import errno
import fcntl
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mare_lab.plan import MAIN, Plan
from mare_lab.procs import Process
from mare_lab.util import LabError, write_atomically


def boot_id() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="utf-8").strip()


def _rate_key(host: str, link: str) -> str:
    return host if link == MAIN else f"{host}/{link}"


@dataclass
class LabState:
    """The plan, and the processes by part: 'holder:h1', 'libvirtd:h1', 'agent:h1', 'ganesha',
    'mared'.
    """

    plan: Plan
    boot: str
    processes: dict[str, Process] = field(default_factory=dict)
    # Network namespaces by key ('h1', 'sw', 'nfs'): inode numbers, to find the QEMUs in them.
    networks: dict[str, int] = field(default_factory=dict)
    rates: dict[str, str] = field(default_factory=dict)
    bin: str = ""
    agents: bool = True
    mared: bool = True
    complete: bool = False

    @property
    def same_boot(self) -> bool:
        return self.boot == boot_id()

    def rate(self, host: str, link: str) -> str:
        """As `mare-lab rate` set it last, or `up`."""
        return self.rates.get(_rate_key(host, link), self.plan.rate)

    def set_rate(self, host: str, link: str, rate: str) -> None:
        self.rates[_rate_key(host, link)] = rate
        self.save()

    def alive(self, part: str) -> Process | None:
        process = self.processes.get(part)
        return process if process is not None and self.same_boot and process.alive() else None

    def record(self, part: str, process: Process) -> None:
        self.processes[part] = process
        self.save()

    def save(self) -> None:
        value = {
            "plan": self.plan.to_json(), "boot": self.boot, "complete": self.complete,
            "bin": self.bin,
            "agents": self.agents, "mared": self.mared, "networks": self.networks,
            "rates": self.rates,
            "processes": {part: process.to_json() for part, process in self.processes.items()},
        }
        write_atomically(self.plan.directory / "lab.json", json.dumps(value, indent=1) + "\n")


def load(directory: Path) -> LabState | None:
    path = directory / "lab.json"
    try:
        value: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        return LabState(
            plan=Plan.from_json(value["plan"]), boot=value["boot"], complete=value["complete"],
            bin=value["bin"],
            agents=value["agents"], mared=value["mared"], rates=dict(value["rates"]),
            networks={key: int(inode) for key, inode in value["networks"].items()},
            processes={part: Process(int(pid), int(started)) for part,
                       (pid, started) in value["processes"].items()})
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise LabError(f"{path} cannot be read ({error}): move it away and run `mare-lab "
                       "down`") from None


class Lock:
    """One mare-lab at a time changes a lab."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._path = directory / "lock"
        self._file = open(self._path, "a", encoding="utf-8")

    def __enter__(self) -> "Lock":
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            self._file.close()
            if error.errno != errno.EWOULDBLOCK:
                raise
            raise LabError(f"another mare-lab is changing this lab ({self._path} is locked): wait "
                           "until it is done") from None
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()
