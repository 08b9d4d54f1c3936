"""Ganeti's htools as baseline and as judge: programs on a text file, their CPU seconds and answers."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import pathlib
import pty
import re
import resource
import shutil
import subprocess
import tempfile
from typing import Any

from plan_clusters import GROUP, Model


@dataclasses.dataclass
class Ran:
    code: int
    output: str
    error: str
    cpu_s: float


def measured(words: list[str], limit_cpu_s: int = 0, terminal: bool = False) -> Ran:
    """Runs a program. On a terminal it writes line by line, so that what was said is kept when the limit
    ends it."""
    def limited() -> None:
        if limit_cpu_s:
            resource.setrlimit(resource.RLIMIT_CPU, (limit_cpu_s, limit_cpu_s + 5))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))

    with tempfile.TemporaryFile() as errors:
        reading, writing = pty.openpty() if terminal else os.pipe()
        child = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=writing, stderr=errors,
                                 preexec_fn=limited)  # noqa: PLW1509: no threads here
        os.close(writing)
        said = bytearray()
        with contextlib.suppress(OSError):  # a terminal ends with EIO
            while chunk := os.read(reading, 1 << 16):
                said += chunk
        os.close(reading)
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        errors.seek(0)
        return Ran(child.returncode, said.decode(errors="replace"), errors.read().decode(errors="replace"),
                   usage.ru_utime + usage.ru_stime)


class Ganeti:
    def __init__(self, folder: pathlib.Path, limit_cpu_s: int):
        self.folder, self.limit = folder, limit_cpu_s

    def version(self) -> str:
        return measured(["hbal", "--version"]).output.splitlines()[0]

    def _file(self, model: Model, mirrored: bool = False) -> str:
        file = self.folder / "cluster.data"
        file.write_text(model.as_ganeti(mirrored))
        return str(file)

    def score(self, model: Model) -> float:
        """hbal's own, with no move allowed."""
        ran = measured(["hbal", "-t", self._file(model), "--ignore-dynu", "-l", "0", "-v", "-v"])
        found = re.search(r"Initial coefficients: overall ([\d.]+)", ran.output)
        if not found:
            raise RuntimeError(f"hbal did not score the cluster: {ran.output[-300:]} {ran.error[-300:]}")
        return float(found.group(1))

    def exposed(self, model: Model) -> int | None:
        """For how many nodes Ganeti itself finds no way to restart what they run. It takes 31 CPU seconds for 100
        nodes with 1000 instances, and more than 300 for ten times that: nothing is answered then."""
        if len(model.hosts) > 100:
            return None
        ran = measured(["hcheck", "-t", self._file(model), "--ignore-dynu", "--no-simulation", "--machine-readable"],
                       self.limit)
        fails = re.search(r"INIT_CLUSTER_GN1_FAIL=(\d+)", ran.output)
        return int(fails.group(1)) if fails else None

    def balance(self, model: Model, options: list[str], mirrored: bool = False) -> dict[str, Any]:
        file = self._file(model, mirrored)
        ran = measured(["hbal", "-t", file, "--ignore-dynu", *options], self.limit, terminal=True)
        steps = re.findall(r"^\s*\d+\. (\S+)\s+\S+\s+=> (\S+)\s+([\d.]+) ", ran.output, re.MULTILINE)
        out = {"cpu_s": round(ran.cpu_s, 3), "finished": ran.code == 0, "moves": len(steps)}
        if mirrored:
            return {**out, "score": float(steps[-1][2]) if steps else None}
        after = model.moved([(name, host) for name, host, _ in steps])
        return {**out, "score": self.score(after), "exposed": after.exposed()}

    def place(self, model: Model, name: str, memory: int, vcpus: int, n_plus_one: bool) -> dict[str, Any]:
        request = {"type": "allocate", "name": name, "memory": memory, "disks": [{"size": 0, "mode": "w"}],
                   "disk_space_total": 0, "disk_template": "ext", "vcpus": vcpus, "tags": [], "os": "os",
                   "nics": [], "required_nodes": 1, "spindle_use": 1, "hypervisor": "kvm"}
        file = self.folder / "request.json"
        file.write_text(json.dumps({"version": 2, "cluster_name": "c", "cluster_tags": [], "enabled_hypervisors": ["kvm"],
                                    "nodegroups": {GROUP: self._group()}, "nodes": {}, "instances": {},
                                    "request": request}))
        check = [] if n_plus_one else ["--no-capacity-checks"]
        # hail is no command of its own in every package; the one program takes its role from here.
        role = ["env", "HTOOLS=hail", os.path.realpath(shutil.which("hbal") or "hbal")]
        ran = measured([*role, "-t", self._file(model), "--ignore-dynu", *check, str(file)], self.limit)
        with contextlib.suppress(ValueError):
            answer = json.loads(ran.output)
            if answer.get("success"):
                return {"cpu_s": round(ran.cpu_s, 3), "host": answer["result"][0]}
            return {"cpu_s": round(ran.cpu_s, 3), "host": None, "info": answer.get("info")}
        return {"cpu_s": round(ran.cpu_s, 3), "host": None, "info": (ran.error or "unfinished").strip()[-200:]}

    @staticmethod
    def _group() -> dict[str, Any]:
        spec = {"nic-count": 1, "disk-size": 0, "disk-count": 1, "memory-size": 1, "cpu-count": 1, "spindle-use": 1}
        most = {key: 999999 for key in spec}
        return {"name": "group", "alloc_policy": "preferred", "networks": [], "tags": [],
                "ipolicy": {"std": spec, "minmax": [{"min": spec, "max": most}], "disk-templates": ["ext", "drbd"],
                            "vcpu-ratio": 100.0, "spindle-ratio": 1000.0}}
