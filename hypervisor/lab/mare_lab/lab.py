"""up, down and status: the order of things. Every step looks before it acts, so each can be
repeated.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

from mare_lab import checks, namespaces, network, pki, procs, services
from mare_lab.mounts import mounts
from mare_lab.plan import MAIN, Plan, memory_directory
from mare_lab.procs import Process
from mare_lab.state import LabState, Lock, boot_id, load
from mare_lab.util import LabError, Progress


def open_lab(directory: Path) -> LabState:
    state = load(directory)
    if state is None or not state.same_boot:
        raise LabError(f"no lab is up in {directory}: start one with `mare-lab up`")
    return state


# --- up -------------------------------------------------------------------------------------------


def up(plan: Plan, bin_directory: str, agents: bool, mared: bool,
       progress: Progress) -> dict[str, Any]:
    with Lock(plan.directory):
        for remark in checks.check_machine():
            progress.step(f"note: {remark}")
        _check_programs(bin_directory, agents, mared)
        state = _begin(plan, bin_directory, agents, mared, progress)
        already = state.complete
        changed = _build(state, progress)
        state.complete = True
        state.save()
        if not already:
            progress.step("the lab is up")
        elif changed:
            progress.step(f"the lab is up again; repaired: {', '.join(changed)}")
        else:
            progress.step("the lab is already up, nothing to repair")
        return dict(status(state), changed=changed, seconds=round(progress.seconds(), 1))


def _begin(plan: Plan, bin_directory: str, agents: bool, mared: bool,
           progress: Progress) -> LabState:
    """The state to go on from: that of a lab which is up or half up, or a new one if nothing is in
    the way.
    """
    state = load(plan.directory)
    if state is not None and state.same_boot:
        if state.plan != plan:
            raise LabError(f"a lab with other options is up in {plan.directory} "
                           f"({_difference(state.plan, plan)}): end it first with `mare-lab down`")
        if not state.complete:
            progress.step("an earlier `up` was interrupted: going on from there")
        state.bin, state.agents, state.mared = bin_directory, agents, mared
        if _complete_networks(state):
            return state
        progress.step("the namespaces of the last lab are gone: starting it anew")
        _sweep(state, plan, progress)
    elif state is not None:
        progress.step("the machine was restarted since the last `up`: starting the lab anew")
    stray = procs.marked(plan.directory)
    if stray:
        raise LabError(f"processes of an earlier lab in {plan.directory} are alive "
                       f"({', '.join(str(p.pid) for p in stray)}): end them with `mare-lab down`")
    _check_free(plan, mared)
    new = LabState(plan=plan, boot=boot_id(), bin=bin_directory, agents=agents, mared=mared)
    if state is not None:
        new.rates = state.rates
    new.save()
    return new


def _difference(old: Plan, new: Plan) -> str:
    before, after = old.to_json(), new.to_json()
    return ", ".join(f"{key} is {before[key]}, not {after[key]}" for key in before
                     if before[key] != after[key])


def _complete_networks(state: LabState) -> bool:
    """False if a namespace that was there has died out: then its cables are gone too, and a mixture
    of old hosts and new switch is harder to trust than a new lab."""
    return all(services.survives(state, key) for key in state.networks)


def _check_free(plan: Plan, mared: bool) -> None:
    """Refuse to touch anything that somebody else made, before the first change."""
    for key in ("sw", "nfs", *plan.host_names()):
        path = Path("/run/netns") / plan.netns_name(key)
        if path.exists() and os.path.ismount(path):
            raise LabError(f"network namespace '{path.name}' exists and is not of this lab: delete "
                           f"it (`ip netns delete {path.name}`), or choose another name with "
                           "--name")
    if network.link_exists(None, plan.control_interface):
        raise LabError(f"interface '{plan.control_interface}' exists and is not of this lab: "
                       f"delete it (`ip link delete {plan.control_interface}`), or choose another "
                       "name with --name")
    network.check_routes(plan)
    taken = procs.listener(plan.rest_port) if mared else None
    if taken is not None:
        raise LabError(f"port {plan.rest_port} on 127.0.0.1, which mared needs for REST, is taken "
                       f"by {taken}: stop that, or choose another with --rest-port")


def _check_programs(bin_directory: str, agents: bool, mared: bool) -> None:
    names = (["mare-agent"] if agents else []) + (["mared", "mare"] if mared else [])
    for name in names:
        services.need_program(bin_directory, name)


def _build(state: LabState, progress: Progress) -> list[str]:
    """Make or repair everything. Returns what had to be started."""
    plan = state.plan
    changed: list[str] = []
    made = pki.ensure(plan)
    if made:
        progress.step(f"certificates: {', '.join(made)}")
    _build_networks(state, progress, changed)
    hosts = plan.host_names()
    if services.start_nfs(state):
        changed.append("nfs")
    # The emulators are probed once, by the first libvirtd; the others get the answer as a file.
    known = services.capabilities_known(plan)
    first = [host for host in (hosts if known else hosts[:1])
             if services.start_libvirtd(state, host)]
    if not known:
        services.wait_libvirtd(state, hosts[0])
        progress.step("libvirt looks at the emulators, once (up to a minute)")
        services.warm_capabilities(state, hosts[0])
        first += [host for host in hosts[1:] if services.start_libvirtd(state, host)]
    changed += [f"libvirtd:{host}" for host in first]
    for host in first:
        services.wait_libvirtd(state, host)
    if known and first:
        services.warm_capabilities(state, hosts[0])
    if first:
        progress.step(f"libvirtd runs on {', '.join(first)}")
    services.wait_nfs(state)
    if "nfs" in changed:
        progress.step(f"NFS server: {plan.nfs_address}:/images (read-only), /jobs")
    _build_mare(state, progress, changed)
    return changed


def _build_networks(state: LabState, progress: Progress, changed: list[str]) -> None:
    plan = state.plan
    fresh = [key for key in ("sw", "nfs", *plan.host_names())
             if state.alive(f"holder:{key}") is None]
    complete = state.complete and not fresh and network.link_exists(None, plan.control_interface)
    if complete:
        return
    switch = services.ensure_holder(state, "sw")
    network.set_up_switch(switch)
    network.set_up_control(plan, switch)
    network.set_up_nfs(plan, services.ensure_holder(state, "nfs"), switch)
    pids: dict[str, int] = {}
    for host in plan.host_names():
        pid = services.ensure_holder(state, host)
        network.set_up_host(plan, host, pid, switch)
        pids[host] = pid
    if plan.migration_network is not None:
        network.set_up_migration_network(plan, pids, switch)
    for host, pid in pids.items():
        for link in plan.links():
            network.shape(host, link, pid, switch, state.rate(host, link))
    changed += [f"network:{key}" for key in fresh]
    progress.step(f"network: {plan.hosts} hosts on a switch, {plan.rate} each, {plan.subnet}")
    if plan.migration_network is not None:
        progress.step(f"migrations have a network of their own: {plan.migration_network}")


def _build_mare(state: LabState, progress: Progress, changed: list[str]) -> None:
    if state.agents:
        started = [host for host in state.plan.host_names() if services.start_agent(state, host)]
        for host in started:
            services.wait_agent(state, host)
        changed += [f"agent:{host}" for host in started]
        if started:
            progress.step(f"mare-agent runs on {', '.join(started)}")
    if state.mared:
        if services.start_mared(state):
            changed.append("mared")
            services.wait_mared(state)
            progress.step(f"mared answers on 127.0.0.1:{state.plan.rest_port}")
        if state.agents:
            added = services.add_hosts(state)
            changed += [f"host:{host}" for host in added]
            if added:
                progress.step(f"mared knows {', '.join(added)}")


# --- down -----------------------------------------------------------------------------------------


def down(directory: Path, purge: bool, progress: Progress) -> dict[str, Any]:
    """End everything the lab started and remove what it made. Images and results of jobs stay."""
    if not directory.exists():
        return {"ended": 0}
    with Lock(directory):
        state = load(directory)
        ended = _sweep(state, state.plan if state is not None else None, progress, directory)
        _put_away(directory, purge, progress)
        progress.step(f"the lab is down ({ended} processes ended)")
        return {"ended": ended, "seconds": round(progress.seconds(), 1)}


def _sweep(state: LabState | None, plan: Plan | None, progress: Progress,
           directory: Path | None = None) -> int:
    """Processes, then names and interfaces."""
    where = directory or (plan.directory if plan is not None else Path())
    mine = state is not None and state.same_boot
    holders, others = _processes(state if mine else None, where)
    if others or holders:
        progress.step(f"ending {len(others) + len(holders)} processes")
    left = procs.end(others) + procs.end(holders)
    if left:
        raise LabError(f"processes {', '.join(str(p.pid) for p in left)} do not end, even by "
                       "SIGKILL (stuck in the kernel): look at /proc/PID/stack, and restart the "
                       "machine if they stay")
    if plan is not None and mine:
        network.remove_control(plan)
        for key in ("sw", "nfs", *plan.host_names()):
            network.unname_namespace(plan.netns_name(key))
    return len(holders) + len(others)


def _processes(state: LabState | None, directory: Path) -> tuple[list[Process], list[Process]]:
    """(holders, all others): recorded ones, marked ones, and whatever runs in the lab's networks.
    """
    recorded = {part: p for part, p in (state.processes if state else {}).items() if p.alive()}
    marked = procs.marked(directory)
    holders = {p for part, p in recorded.items() if part.startswith("holder:")}
    holders |= {p for p in marked if procs.argv_of(p.pid)[:2] == ["sleep", "infinity"]}
    networks = set(_living_networks(state, holders, marked))
    everything = set(recorded.values()) | set(marked) | set(procs.in_network(networks))
    return list(holders), list(everything - holders)


def _living_networks(state: LabState | None, holders: set[Process],
                     marked: list[Process]) -> list[int]:
    """Namespaces that are surely ours: those of our living processes, and recorded ones that still
    carry the name we gave them. A bare number could have been given to somebody else's namespace
    since."""
    own = procs.namespace_of(os.getpid(), "net")
    inodes = {procs.namespace_of(p.pid, "net") for p in [*holders, *marked]}
    if state is not None:
        for key, inode in state.networks.items():
            if services.named_inode(state.plan, key) == inode:
                inodes.add(inode)
    return [inode for inode in inodes if inode is not None and inode != own]


def _check_mounts(directory: Path) -> None:
    """The lab mounts nothing outside of its namespaces; what somebody else mounted here must not be
    deleted with the directory."""
    left = _mounts_under(directory)
    if left:
        raise LabError(f"{left[0]} is mounted inside the lab's directory, and not by the lab: unmount "
                       f"it (`umount {left[0]}`), then run `mare-lab down` again")


def _mounts_under(directory: Path) -> list[str]:
    return [one.point for one in mounts() if one.point.startswith(f"{directory}/")]


def _put_away(directory: Path, purge: bool, progress: Progress) -> None:
    """A new lab starts with an empty mared, and job numbers start again: the last lab's database,
    job directories and consoles are set aside (one generation), so that nothing of theirs is taken
    for the new ones'."""
    _check_mounts(directory)
    shutil.rmtree(directory / "nfs", ignore_errors=True)
    shutil.rmtree(memory_directory(directory), ignore_errors=True)
    for name in ("mared", "jobs", "checkpoints", "hosts"):
        previous = directory / f"{name}.previous"
        if purge:
            shutil.rmtree(directory / name, ignore_errors=True)
            shutil.rmtree(previous, ignore_errors=True)
        elif (directory / name).is_dir() and any((directory / name).iterdir()):
            shutil.rmtree(previous, ignore_errors=True)
            (directory / name).rename(previous)
            progress.step(f"kept: {previous}")
    (directory / "lab.json").unlink(missing_ok=True)
    if purge:
        for name in ("pki", "cache", "logs"):
            shutil.rmtree(directory / name, ignore_errors=True)


# --- status ---------------------------------------------------------------------------------------


def guests_of(state: LabState, host: str) -> list[dict[str, Any]]:
    """VMs on a host, told by its QEMU processes: also right when libvirtd is not there to be asked.
    """
    inode = state.networks.get(host)
    found = []
    for process in procs.in_network([inode] if inode is not None else []):
        argv = procs.argv_of(process.pid)
        if not argv or "qemu-system" not in argv[0]:
            continue
        name = next((argv[i + 1] for i, word in enumerate(argv[:-1]) if word == "-name"), "")
        fields = dict(part.partition("=")[::2] for part in name.split(","))
        found.append({"name": fields.get("guest", name.split(",")[0]), "pid": process.pid})
    return sorted(found, key=lambda guest: str(guest["name"]))


def status(state: LabState) -> dict[str, Any]:
    plan = state.plan

    def pid(part: str) -> int | None:
        process = state.alive(part)
        return process.pid if process is not None else None

    hosts = []
    for host in plan.host_names():
        hosts.append({
            "name": host, "address": plan.host_address(host),
            "rate": state.rate(host, MAIN),
            "migration_address": plan.migration_address(host),
            "migration_rate": state.rate(host, plan.links()[-1]),
            "netns": plan.netns_name(host), "holder": pid(f"holder:{host}"),
            "libvirtd": pid(f"libvirtd:{host}"),
            "agent": pid(f"agent:{host}"), "vms": guests_of(state, host),
            "libvirt_uri": f"qemu+unix:///system?socket={services.libvirt_socket(plan, host)}",
        })
    expected = ["holder:sw", "holder:nfs", "ganesha", *(["mared"] if state.mared else [])]
    for host in plan.host_names():
        expected += [f"holder:{host}", f"libvirtd:{host}",
                     *([f"agent:{host}"] if state.agents else [])]
    dead = [part for part in expected if state.alive(part) is None]
    return {
        "up": state.complete and not dead, "name": plan.name, "state": plan.state,
        "images": plan.images,
        "subnet": plan.subnet, "migration_network": plan.migration_network,
        "migration_tls": plan.migration_tls, "rate": plan.rate, "memory_mib": plan.memory_mib, "hosts": hosts,
        "nfs": {"address": plan.nfs_address, "pid": pid("ganesha")},
        "mared": {"url": f"http://127.0.0.1:{plan.rest_port}", "pid": pid("mared"),
                  "token_file": str(plan.directory / "mared" / "token")},
        "dead": dead,
    }


def measure(state: LabState, first: str, second: str, link: str) -> int:
    return network.measure(state.plan, services.namespace_pid(state, first),
                           services.namespace_pid(state, second),
                           state.plan.address_on(link, second))
