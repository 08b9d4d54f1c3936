"""Migrations as an operator would make them with virsh, beside Maré: the baselines of the bench `move`."""

from __future__ import annotations

import dataclasses
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

from lib.cluster import ROOT, Cluster
from lib.waiting import wait_until

CARRY = ROOT / "tests" / "bench" / "carry.py"
PATIENCE_S = 300


@dataclasses.dataclass(frozen=True)
class Method:
    """A way to move a VM with virsh."""

    name: str
    options: list[str]
    #: Switched to post-copy after its first pass, as the manual says.
    after_pass: bool = False


METHODS = [Method("virsh", ["--live"]), Method("virsh --auto-converge", ["--live", "--auto-converge"]),
           Method("virsh --postcopy", ["--live", "--postcopy"], after_pass=True), Method("virsh, paused", [])]
#: Saved at the source, the file carried over the link, restored at the destination: checkpoint, transfer, restart.
SAVE_RESTORE = Method("virsh save, copy, virsh restore", [])


@dataclasses.dataclass(frozen=True)
class Phases:
    """Of SAVE_RESTORE; the VM stands still in all three."""

    check_s: float
    transfer_s: float
    restart_s: float
    image_bytes: int


UNITS = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}


@dataclasses.dataclass(frozen=True)
class Figures:
    """Of a migration that succeeded."""

    total_time_s: float
    downtime_s: float
    sent_bytes: float


def figures_in(told: str) -> Figures | None:
    """From the text of `virsh domjobinfo --completed`."""
    fields = {name.strip(): value.split() for name, _, value in (line.partition(":") for line in told.splitlines())}
    try:
        sent, unit = fields["Data processed"]
        return Figures(float(fields["Time elapsed"][0]) / 1000, float(fields["Total downtime"][0]) / 1000, float(sent) * UNITS[unit])
    except (KeyError, ValueError, IndexError):
        return None


@dataclasses.dataclass(frozen=True)
class Move:
    """What was seen of one."""

    begun: float
    ended: float
    done: bool
    phases: Phases | None = None
    #: From when it ran at the destination, where that was before its end.
    switched: float | None = None
    #: As libvirt tells them afterwards.
    figures: Figures | None = None


class ByHand:
    """Moves a VM behind Maré's back; it does not run meanwhile, and finds the VM where it was, afterwards."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.addresses = {host["name"]: host["address"] for host in cluster.status()["hosts"]}

    def _virsh(self, host: str, *words: str) -> list[str]:
        return ["virsh", "-q", "-c", self.cluster._uris[host], *words]  # noqa: SLF001

    def _description(self, vm: str, source: str, destination: str) -> pathlib.Path:
        """The VM's own, with the destination's console file."""
        xml = self.cluster.virsh(source, "dumpxml", "--migratable", "--security-info", vm)
        file = pathlib.Path(tempfile.mkstemp(suffix=".xml")[1])
        file.write_text(xml.replace(f"/hosts/{source}/", f"/hosts/{destination}/"))
        return file

    def move(self, vm: str, source: str, destination: str, method: Method, limit_s: float) -> Move:
        """Given up after `limit_s`: the VM is then where it was."""
        if method is SAVE_RESTORE:
            return self._save_restore(vm, source, destination)
        file = self._description(vm, source, destination)
        address = self.addresses[destination]
        begun = time.time()
        process = subprocess.Popen(
            self._virsh(source, "migrate", vm, f"qemu+tcp://{address}/system", f"tcp://{address}", "--p2p", "--xml",
                        str(file), *method.options), stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        switched = not method.after_pass
        switched_at: float | None = None
        while process.poll() is None:
            if not switched and self._passes(source, vm) > 1:
                switched = subprocess.run(self._virsh(source, "migrate-postcopy", vm), check=False,
                                          capture_output=True).returncode == 0
                switched_at = time.time() if switched else None
            if time.time() - begun > limit_s and switched and not method.after_pass:
                subprocess.run(self._virsh(source, "domjobabort", vm), check=False, capture_output=True)
            try:
                process.wait(0.1)
            except subprocess.TimeoutExpired:
                pass
        ended = time.time()
        file.unlink()
        told = subprocess.run(self._virsh(destination, "domjobinfo", "--completed", vm), check=False, capture_output=True, text=True).stdout
        return Move(begun, ended, process.returncode == 0, switched=switched_at, figures=figures_in(told))

    def halt(self, vm: str, host: str, seconds: float) -> tuple[Move, float]:
        """Suspended for about so long and resumed where it is; and for how long it was."""
        begun = time.time()
        self.cluster.virsh(host, "suspend", vm)
        still = time.time()
        wait_until(lambda: time.time() > still + seconds, f"{vm} stands still for {seconds} s", period_s=0.01)
        self.cluster.virsh(host, "resume", vm)
        ended = time.time()
        return Move(begun, ended, True), ended - still

    def _passes(self, host: str, vm: str) -> int:
        told = subprocess.run(self._virsh(host, "domjobinfo", vm), check=False, capture_output=True, text=True).stdout
        found = [line.split()[-1] for line in told.splitlines() if line.startswith("Iteration:")]
        return int(found[0]) if found else 0

    def _save_restore(self, vm: str, source: str, destination: str) -> Move:
        file = self._description(vm, source, destination)
        folder = pathlib.Path(tempfile.mkdtemp())
        saved, arrived = folder / f"{vm}.{source}", folder / f"{vm}.{destination}"
        address = self.addresses[destination]
        carriers: list[subprocess.Popen[str]] = []
        try:
            carriers.append(self._on(destination, "receive", address, str(arrived)))
            carriers.append(self._on(source, "send", address, self._ready(carriers[0])[1], str(saved)))
            self._ready(carriers[1])
            begun = time.time()
            self.cluster.virsh(source, "save", vm, str(saved))
            checked = time.time()
            carried_s = self._carried_s(*carriers)
            carried = time.time()
            self.cluster.virsh(destination, "restore", str(arrived), "--xml", str(file), "--running")
            ended = time.time()
            phases = Phases(checked - begun, carried_s, ended - carried, arrived.stat().st_size)
            return Move(begun, ended, True, phases)
        finally:
            for process in carriers:
                process.kill()
                process.communicate()
            shutil.rmtree(folder)
            file.unlink()

    def _on(self, host: str, *words: str) -> "subprocess.Popen[str]":
        """carry.py as if on that host: in its network."""
        return subprocess.Popen(
            [str(ROOT / "hypervisor/lab/mare-lab"), "exec", "--state", str(self.cluster.state), host, "--", sys.executable,
             str(CARRY), *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    @staticmethod
    def _ready(process: "subprocess.Popen[str]") -> list[str]:
        assert process.stdout
        words = process.stdout.readline().split()
        if words[:1] != ["ready"]:
            raise AssertionError(f"{CARRY.name} is not ready: {process.communicate()[1].strip()}")
        return words

    @staticmethod
    def _carried_s(receiver: "subprocess.Popen[str]", sender: "subprocess.Popen[str]") -> float:
        """Nothing of the VM runs meanwhile: when this fails, only its file is left, and the bench ends."""
        told, wrong = sender.communicate("go\n", timeout=PATIENCE_S)
        if sender.returncode != 0 or receiver.wait(PATIENCE_S) != 0:
            raise AssertionError(f"the saved VM was not carried over: {wrong.strip()}")
        return float(told)

    def bring_back(self, vm: str, home: str) -> None:
        """By the surest way, on a fast link."""
        copies = self.cluster.copies(vm)
        if home in copies:
            return
        self.cluster.lab("rate", "1gbit")
        (away,) = copies
        back = self.move(vm, away, home, METHODS[3], 120)
        wait_until(lambda: back.done and self.cluster.copies(vm) == {home: "running"}, f"{vm} is at {home} again")
