"""Clusters from a seed, as `mare plan` reads them and as Ganeti's text backend does."""

from __future__ import annotations

import dataclasses
import heapq
import random
from typing import Any

# Two generations of hosts: memory in MiB, cpus.
HOST_KINDS = ((65536, 32), (98304, 48))
VM_MEMORY = (1024, 2048, 4096, 6144, 8192)
VM_CPUS = (1, 2, 4)
GROUP = "11111111-1111-1111-1111-111111111111"
DISK = 1 << 20


@dataclasses.dataclass
class Vm:
    name: str
    memory: int
    vcpus: int
    host: str | None
    secondary: str  # for the mirrored variant only


@dataclasses.dataclass
class Model:
    hosts: dict[str, tuple[int, int]]  # memory, cpus
    vms: list[Vm]

    def moved(self, moves: list[tuple[str, str]]) -> Model:
        to = dict(moves)
        return Model(self.hosts, [dataclasses.replace(vm, host=to.get(vm.name, vm.host)) for vm in self.vms])

    def with_new_vm(self, name: str, memory: int, vcpus: int) -> Model:
        return Model(self.hosts, [*self.vms, Vm(name, memory, vcpus, None, "")])

    def exposed(self) -> int:
        """Hosts whose VMs, largest first, do not go each to the emptiest of the other hosts: for sizes that
        Ganeti's own check does not end for. It may count a host too many, never one too few."""
        free = {name: memory for name, (memory, _) in self.hosts.items()}
        of: dict[str, list[int]] = {name: [] for name in self.hosts}
        for vm in self.vms:
            if vm.host:
                free[vm.host] -= vm.memory
                of[vm.host].append(vm.memory)
        count = 0
        for failing, memories in of.items():
            # No more hosts can be needed than VMs.
            others = [-room for name, room in free.items() if name != failing]
            room = heapq.nsmallest(len(memories), others)
            heapq.heapify(room)
            for memory in sorted(memories, reverse=True):
                if not room or -room[0] < memory:
                    count += 1
                    break
                heapq.heapreplace(room, room[0] + memory)
        return count

    def as_json(self) -> dict[str, Any]:
        hosts = [{"id": name, "memory_mib": memory, "cpus": cpus} for name, (memory, cpus) in self.hosts.items()]
        vms = [{"id": vm.name, "memory_mib": vm.memory, "vcpus": vm.vcpus, **({"host": vm.host} if vm.host else {})}
               for vm in self.vms]
        return {"hosts": hosts, "vms": vms}

    def as_ganeti(self, mirrored: bool) -> str:
        """Five sections of man htools: groups, nodes, instances, cluster tags, policies."""
        free = {name: memory for name, (memory, _) in self.hosts.items()}
        for vm in self.vms:
            if vm.host:
                free[vm.host] -= vm.memory
        # The last four: no exclusive storage, no spindles free, no cpu taken by the node itself, speed 1.
        nodes = [f"{name}|{memory}|0|{free[name]}|{DISK}|{DISK}|{cpus}|N|{GROUP}|1||N|0|0|1"
                 for name, (memory, cpus) in self.hosts.items()]
        instances = [self._instance(vm, mirrored) for vm in self.vms if vm.host]
        anything = "1,1,0,1,1,1;999999,999,999999,99,9,99"
        # Without a policy of its own a group has the default one, which allows 4 vcpus for each cpu.
        policies = [f"{owner}|1,1,1,1,1,1|{anything}|drbd,ext|100.0|1000.0" for owner in ("", "group")]
        return "\n".join([f"group|{GROUP}|preferred||", "", *nodes, "", *instances, "", "", *policies]) + "\n"

    def _instance(self, vm: Vm, mirrored: bool) -> str:
        second = vm.secondary if mirrored else ""
        kind = "drbd" if mirrored else "ext"
        return f"{vm.name}|{vm.memory}|0|{vm.vcpus}|running|Y|{vm.host}|{second}|{kind}||1"


def make(hosts: int, vms: int, seed: int) -> Model:
    """Placed at random where there is room: about 10 VMs and 55% of the memory on each host."""
    chance = random.Random(f"{seed} {hosts} {vms}")
    sizes = {f"h{i}": HOST_KINDS[i % len(HOST_KINDS)] for i in range(hosts)}
    free = {name: memory for name, (memory, _) in sizes.items()}
    names = list(sizes)
    out = []
    for i in range(vms):
        memory, vcpus = chance.choice(VM_MEMORY), chance.choice(VM_CPUS)
        host = next(name for name in iter(lambda: chance.choice(names), "") if free[name] >= memory)
        free[host] -= memory
        second = next(name for name in iter(lambda: chance.choice(names), "") if name != host)
        out.append(Vm(f"v{i}", memory, vcpus, host, second))
    return Model(sizes, out)
