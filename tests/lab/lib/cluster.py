"""The lab as a test sees it: its programs, its REST API, and libvirt on each host asked directly.

tests/lab/run brings the lab up and says where it is by the environment: MARE_LAB_STATE (the lab's
state directory), MARE_TEST_BUILD (where the programs were built), MARE_TEST_IMAGE (the image's name).
"""

from __future__ import annotations

import dataclasses
import json
import os
import pathlib
import re
import signal
import subprocess
import urllib.error
import urllib.request
from typing import Any

from lib.waiting import wait_until

ROOT = pathlib.Path(__file__).resolve().parents[3]
CONSOLE_FAULT = re.compile(r"\bBUG:|\bOops\b|general protection|Call Trace|Kernel panic|^WARNING:|\] WARNING:", re.MULTILINE)

Json = Any


@dataclasses.dataclass(frozen=True)
class Answer:
    """What the API said."""

    status: int
    body: Json

    def fault(self) -> str:
        """A problem's words and remedies, for comparing."""
        parts = [self.body.get("title", ""), self.body.get("detail", "")]
        parts += [f"{one.get('pointer', '')} {one.get('detail', '')}" for one in self.body.get("errors", [])]
        return " ".join(part for part in parts if part)


class Cluster:
    """One lab that is up: that of the tests, or the one in a given directory."""

    def __init__(self, state: pathlib.Path | None = None) -> None:
        try:
            self.state = state or pathlib.Path(os.environ["MARE_LAB_STATE"])
            self.build = pathlib.Path(os.environ["MARE_TEST_BUILD"])
            self.image = os.environ["MARE_TEST_IMAGE"]
        except KeyError as missing:
            raise AssertionError(f"{missing} is not set: these tests are run by tests/lab/run") from None
        first = self.status()
        self.hosts: list[str] = [host["name"] for host in first["hosts"]]
        self.url: str = first["mared"]["url"]
        self.token_file = pathlib.Path(first["mared"]["token_file"])
        self._uris = {host["name"]: host["libvirt_uri"] for host in first["hosts"]}
        self._networks = {host["name"]: host["netns"] for host in first["hosts"]}
        self._mared_argv = self.argv_of(first["mared"]["pid"]) if first["mared"]["pid"] else None

    # --- programs -----------------------------------------------------------------------------------

    def program(self, name: str) -> str:
        places = {"mare": "ui/cli", "mared": "orchestrator/daemon", "mare-agent": "hypervisor/agent",
                  "migtest": "guest-stage/bin", "heat": "guest-stage/bin", "mare-announce": "netarp"}
        return str(self.build / places[name] / name)

    def lab_argv(self, verb: str, *words: str) -> list[str]:
        return [str(ROOT / "hypervisor/lab/mare-lab"), verb, "--state", str(self.state), *words]

    def lab(self, *words: str, check: bool = True, timeout: float = 300) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(self.lab_argv(*words), capture_output=True, text=True, timeout=timeout, check=False, stdin=subprocess.DEVNULL)
        if check and done.returncode != 0:
            raise AssertionError(f"mare-lab {' '.join(words)} ended with {done.returncode}: {done.stderr.strip()}")
        return done

    def status(self) -> Json:
        done = self.lab("status", "-o", "json", check=False)
        if not done.stdout:
            raise AssertionError(f"the lab does not answer: {done.stderr.strip()}")
        return json.loads(done.stdout)

    def environment(self) -> dict[str, str]:
        kept = {key: value for key, value in os.environ.items() if not key.startswith("MARE_")}
        return kept | {"MARE_URL": self.url, "MARE_TOKEN_FILE": str(self.token_file), "NO_COLOR": "1"}

    def mare(self, *words: str, check: bool = True, timeout: float = 600) -> subprocess.CompletedProcess[str]:
        """The command line, as a user types it."""
        done = subprocess.run([self.program("mare"), *words], capture_output=True, text=True, env=self.environment(),
                              timeout=timeout, check=False, stdin=subprocess.DEVNULL)
        if check and done.returncode != 0:
            raise AssertionError(f"mare {' '.join(words)} ended with {done.returncode}: {done.stderr.strip()}")
        return done

    def api(self, method: str, path: str, body: Json = None) -> Answer:
        request = urllib.request.Request(f"{self.url}/api/v1/{path}", method=method)
        request.add_header("Authorization", "Bearer " + self.token_file.read_text().strip())
        data = None
        if body is not None:
            data = json.dumps(body).encode()
            request.add_header("Content-Type", "application/json")
        elif method == "POST":
            data = b""
        try:
            with urllib.request.urlopen(request, data, timeout=60) as reply:
                return Answer(reply.status, json.loads(reply.read() or b"null"))
        except urllib.error.HTTPError as error:
            return Answer(error.code, json.loads(error.read() or b"null"))

    def get(self, path: str) -> Json:
        answer = self.api("GET", path)
        if answer.status != 200:
            raise AssertionError(f"GET {path}: {answer.status} {answer.body}")
        return answer.body

    def items(self, path: str) -> list[Json]:
        found = self.get(path)
        return found["items"]

    def answers(self) -> bool:
        try:
            return self.api("GET", "hosts").status == 200
        except (OSError, ValueError):
            return False

    def submit(self, method: str, path: str, body: Json = None) -> Json:
        """A request that must be accepted; gives its operation."""
        answer = self.api(method, path, body)
        if answer.status != 202:
            raise AssertionError(f"{method} {path}: {answer.status} {answer.body}")
        return answer.body

    def finish(self, operation: Json, outcome: str = "succeeded") -> Json:
        """Waits for an operation's end; it must be the given one."""
        ended = self.ended(operation["id"])
        if outcome != ended["outcome"]:
            raise AssertionError(f"{ended['id']} ({ended['kind']} {ended['target']}) {ended['outcome']}, not {outcome}: "
                                 f"{ended['reason']}")
        return ended

    def ended(self, operation_id: str) -> Json:
        def look() -> Json:
            try:
                row = self.get(f"operations/{operation_id}")
            except OSError:
                return None  # mared is being restarted
            return row if row["outcome"] != "pending" else None
        return wait_until(look, f"operation {operation_id} ended", period_s=0.2)

    # --- what is really there -----------------------------------------------------------------------

    def virsh_command(self, host: str, *words: str) -> list[str]:
        return ["virsh", "-c", self._uris[host], *words]

    def virsh(self, host: str, *words: str) -> str:
        done = subprocess.run(self.virsh_command(host, *words), capture_output=True, text=True, timeout=60,
                              check=False, stdin=subprocess.DEVNULL)
        if done.returncode != 0:
            raise AssertionError(f"virsh {' '.join(words)} on {host}: {done.stderr.strip()}")
        return done.stdout

    def copies(self, vm: str) -> dict[str, str]:
        """Host -> state of every copy of a VM, from all libvirts, without Maré in between."""
        found = {}
        for host in self.hosts:
            for line in self.virsh(host, "list", "--all").splitlines()[2:]:
                words = line.split(maxsplit=2)
                if len(words) == 3 and words[1] == vm:
                    found[host] = words[2].strip()
        return found

    def qemus(self) -> list[str]:
        """Names of all VMs that have a QEMU process, from the kernel. Templates that are being made are none."""
        return sorted(vm["name"] for host in self.status()["hosts"] for vm in host["vms"]
                      if not vm["name"].startswith("mare-template-"))

    def assert_runs_once(self, vm: str) -> str:
        """One running copy on one host, no other in any state; Maré's row agrees. Gives the host."""
        def look() -> str | None:
            seen = self.copies(vm)
            return next(iter(seen)) if list(seen.values()) == ["running"] else None
        try:
            host = wait_until(look, f"{vm} runs once", patience_s=30)
        except AssertionError:
            raise AssertionError(f"{vm} does not run exactly once: {self.copies(vm)}") from None
        row = self.get(f"vms/{vm}")
        if row["host"] != host or row["state"] != "running":
            raise AssertionError(f"{vm} runs on {host}, but its row says {row['state']} on {row['host']}")
        return host

    def console(self, vm: str) -> str:
        """Everything the VM's copies wrote on their consoles, on all hosts."""
        logs = sorted((self.state / "hosts").glob(f"*/agent/console/{vm}.log*"))
        return "\n".join(log.read_text(errors="replace") for log in logs)

    def assert_clean(self, vm: str) -> None:
        """No fault on the console."""
        text = self.console(vm)
        if not text.strip():
            raise AssertionError(f"{vm} has no console log, or an empty one: nothing to judge by")
        if fault := CONSOLE_FAULT.search(text):
            raise AssertionError(f"the console of {vm} shows: {text[max(0, fault.start() - 200):fault.end() + 800]}")

    # --- faults -------------------------------------------------------------------------------------

    @staticmethod
    def argv_of(pid: int) -> list[str]:
        return pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().decode().rstrip("\0").split("\0")

    def kill_mared(self) -> None:
        self.lab("stop-mared", "--kill")

    def start_mared(self) -> None:
        self.lab("start-mared")
        wait_until(self.answers, "mared answers", patience_s=60)

    def start_mared_with(self, failpoints: str, *options: str) -> "subprocess.Popen[bytes]":
        """mared as the lab starts it, but with failpoints, and with more options. It must not run."""
        assert self._mared_argv, "mared did not run when the tests began"
        for old in (self.state / "mared").glob("failpoint.*"):
            old.unlink()
        # With the lab's mark, so that `mare-lab down` ends it should this test not get to it.
        environment = {"PATH": os.environ["PATH"], "LANG": "C.UTF-8", "_MARE_LAB_STATE": str(self.state),
                       "MARE_FAILPOINTS": failpoints}
        with open(self.state / "logs" / "mared.log", "ab") as log:
            process = subprocess.Popen([*self._mared_argv, *options], stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                       env=environment, start_new_session=True, cwd="/")
        wait_until(lambda: self.answers() or process.poll() is not None, "mared answers", patience_s=60)
        return process

    def failpoint(self, kind: str, state: str) -> pathlib.Path:
        return self.state / "mared" / f"failpoint.{kind}.{state}"

    def agent_pid(self, host: str) -> int | None:
        return next(one["agent"] for one in self.status()["hosts"] if one["name"] == host)

    def kill_agent(self, host: str) -> None:
        self.lab("kill-agent", host)

    def kill_qemus(self, host: str) -> list[str]:
        """kill -9 of every VM's process there, at once; their names."""
        found = next(one["vms"] for one in self.status()["hosts"] if one["name"] == host)
        for vm in found:
            os.kill(vm["pid"], signal.SIGKILL)
        return [vm["name"] for vm in found]

    def cut_off(self, host: str) -> None:
        """Takes the host's cable out. What runs there runs on; VMs beside each other still hear each other."""
        self._cable(host, "down")

    def plug_in(self, host: str) -> None:
        """Whether it was cut off or not."""
        self._cable(host, "up")

    def _cable(self, host: str, state: str) -> None:
        done = subprocess.run(["ip", "-n", self._networks[host], "link", "set", "dev", "up0", state], capture_output=True, text=True,
                              timeout=60, check=False, stdin=subprocess.DEVNULL)
        if done.returncode != 0:
            raise AssertionError(f"the cable of {host} could not be set {state}: {done.stderr.strip()}")

    def start_agent(self, host: str) -> None:
        self.lab("start-agent", host)

    def host_health(self, host: str) -> str:
        return self.get(f"hosts/{host}")["health"]

    def wait_health(self, host: str, health: str) -> None:
        wait_until(lambda: self.host_health(host) == health, f"host {host} is {health}", patience_s=60)

    # --- the usual state ----------------------------------------------------------------------------

    def restore(self) -> None:
        """Everything runs, all hosts are up and active, links are whole and fast: whatever a test left behind."""
        for host in self.hosts:
            self.plug_in(host)
        self.lab("up", *self._plan_options())
        wait_until(self.answers, "mared answers", patience_s=60)
        self.lab("rate", "1gbit")
        for host in self.hosts:
            self.wait_health(host, "up")
            if self.get(f"hosts/{host}")["admin"] != "active":
                self.mare("host", "activate", host)

    def _plan_options(self) -> list[str]:
        plan = json.loads((self.state / "lab.json").read_text())["plan"]
        more = ["--migration-tls"] if plan["migration_tls"] else []
        if plan["migration_network"]:
            more += ["--migration-network", plan["migration_network"]]
        return [*more, "--name", plan["name"], "--hosts", str(plan["hosts"]), "--subnet", plan["subnet"], "--rate", plan["rate"],
                "--memory-mib", str(plan["memory_mib"]), "--images", plan["images"], "--rest-port",
                str(plan["rest_port"]), "--bin", str(self.build)]

    def templates_in_the_making(self) -> list[str]:
        """They take the memory of a VM meanwhile."""
        return [one["name"] for host in self.status()["hosts"] for one in host["vms"] if one["name"].startswith("mare-template-")]

    def ensure_pool(self, name: str, size: int, hosts: list[str] | None = None, memory_mib: int = 192,
                    vcpus: int = 1) -> list[str]:
        """A pool whose VMs all run; an existing one of that shape is as good. Gives its VMs."""
        names = [f"{name}-{index}" for index in range(size)]
        vms = {vm["id"]: vm for vm in self.items(f"vms?pool={name}")} if self.has_pool(name) else {}
        fit = sorted(vms) == names and all(
            vm["state"] == "running" and (vm["memory_mib"], vm["vcpus"]) == (memory_mib, vcpus) for vm in vms.values())
        if fit:
            return names
        if self.has_pool(name):
            self.delete_pool(name)
        body: dict[str, Json] = {"id": name, "image": self.image, "size": size, "memory_mib": memory_mib, "vcpus": vcpus}
        if hosts:
            body["hosts"] = hosts
        self.finish(self.submit("POST", "pools", body))
        return names

    def without_pools(self) -> None:
        """As after `up`: the room of every host is free."""
        for pool in self.items("pools"):
            self.delete_pool(pool["id"])

    def has_pool(self, name: str) -> bool:
        return self.api("GET", f"pools/{name}").status == 200

    def delete_pool(self, name: str) -> None:
        self.finish(self.submit("DELETE", f"pools/{name}?force=true"))

    def host_of(self, vm: str) -> str:
        return self.get(f"vms/{vm}")["host"]

    def another_host(self, *taken: str) -> str:
        return next(host for host in self.hosts if host not in taken)

    def spread(self, vms: list[str]) -> None:
        """Each on a host of its own, as far as there are hosts."""
        taken: set[str] = set()
        for vm in vms:
            host = self.host_of(vm)
            free = [one for one in self.hosts if one not in taken]
            if host in taken and free:
                # Not where one sits that has yet to be looked at, if there is another.
                others = {self.host_of(other) for other in vms}
                host = next((one for one in free if one not in others), free[0])
                self.migrate(vm, host)
            taken.add(host)

    def crowding_vcpus(self) -> int:
        """vCPUs of a VM such that two of them fill a host and a third is too many, whatever this machine has: so a job
        with more than two ranks on a host gains by being spread."""
        return (min(host["cpus"] for host in self.items("hosts")) + 1) // 2

    def migrate(self, vm: str, destination: str, **options: Json) -> Json:
        """Moves a VM and waits; gives the migration's record."""
        operation = self.submit("POST", f"vms/{vm}/migrations", {"destination": destination, **options})
        self.finish(operation)
        return self.get(f"migrations/{operation['id']}")


def kill(process: "subprocess.Popen[bytes]") -> None:
    """SIGKILL to a process of ours, and its end."""
    if process.poll() is None:
        process.send_signal(signal.SIGKILL)
    process.wait()
