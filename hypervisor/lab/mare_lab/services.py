"""The daemons of the lab: libvirtd and mare-agent on every host, the NFS server, mared.

Each `ensure_*` looks first and starts only what is not alive, so `up` on a lab that is up repairs
it. Starting and waiting are apart: all hosts start together, then each is waited for.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import time
from pathlib import Path

from mare_lab import config, namespaces, network, procs
from mare_lab.plan import AGENT_PORT, Plan, memory_directory
from mare_lab.procs import Process
from mare_lab.state import LabState
from mare_lab.util import LabError, find_program, run, tail, wait_until, write_atomically

# Private directories of a host: name under STATE/hosts/hN, and where its processes see it.
PRIVATE = {"run": "/run", "etc-libvirt": "/etc/libvirt", "lib-libvirt": "/var/lib/libvirt",
           "cache-libvirt": "/var/cache/libvirt", "log-libvirt": "/var/log/libvirt"}

# In a build tree programs are in their room's folder; installed, daemons are in sbin.
PLACES = {"mared": ("mared", "../sbin/mared", "orchestrator/daemon/mared"),
          "mare": ("mare", "ui/cli/mare"),
          "mare-agent": ("mare-agent", "../sbin/mare-agent", "hypervisor/agent/mare-agent"),
          "mare-qemu": ("mare-qemu", "../sbin/mare-qemu", "hypervisor/libvirt/mare-qemu")}

# The first look at an emulator under load takes libvirt up to a minute; see warm_capabilities().
LIBVIRT_PATIENCE = 120.0


def program(bin_directory: str, name: str) -> str | None:
    for place in PLACES[name]:
        path = Path(bin_directory) / place
        if path.is_file() and os.access(path, os.X_OK):
            return str(path)
    return None


def need_program(bin_directory: str, name: str) -> str:
    path = program(bin_directory, name)
    if path is None:
        raise LabError(f"no '{name}' in {bin_directory}: build it (`cmake --build BUILD --target "
                       f"{name}`) and give --bin BUILD, or bring the lab up without it "
                       "(--no-agents --no-mared)")
    return path


def log_of(plan: Plan, part: str) -> Path:
    return plan.directory / "logs" / f"{part.replace(':', '-')}.log"


def namespace_pid(state: LabState, key: str) -> int:
    """A living process in the namespaces of a host, of the switch or of the NFS server."""
    for part in (f"holder:{key}", f"libvirtd:{key}", f"agent:{key}",
                 "ganesha" if key == "nfs" else ""):
        process = state.alive(part)
        if process is not None:
            return process.pid
    raise LabError(f"'{key}' is not up: run `mare-lab up`")


# --- namespaces -----------------------------------------------------------------------------------


def ensure_holder(state: LabState, key: str) -> int:
    """The namespaces of 'sw', 'nfs' or a host, kept alive by a process. Returns its pid."""
    plan = state.plan
    part = f"holder:{key}"
    process = state.alive(part)
    if process is None:
        process = _adopt(state, key) or _new_holder(plan, key)
        state.record(part, process)
        inode = procs.namespace_of(process.pid, "net")
        if inode is not None:
            state.networks[key] = inode
            state.save()
    network.name_namespace(plan.netns_name(key), process.pid)
    return process.pid


def _adopt(state: LabState, key: str) -> Process | None:
    """The holder died but its namespaces did not, thanks to a QEMU or libvirtd in them, or to the
    name.
    """
    inode = state.networks.get(key)
    if inode is None or not state.same_boot:
        return None
    neighbours = procs.in_network([inode])
    if neighbours:
        return namespaces.start_holder_beside(f"holder:{key}", state.plan.directory,
                                              neighbours[0].pid)
    if key == "sw" and named_inode(state.plan, key) == inode:
        return namespaces.start_holder_in_named(f"holder:{key}", state.plan.directory,
                                                Path("/run/netns") / state.plan.netns_name(key))
    return None


def survives(state: LabState, key: str) -> bool:
    """Whether the namespaces of a part are still there. The switch is a network and no more, so its
    name is enough; a host has mounts too, which only a process keeps."""
    inode = state.networks.get(key)
    return (state.alive(f"holder:{key}") is not None
            or (inode is not None and bool(procs.in_network([inode])))
            or (key == "sw" and inode is not None and named_inode(state.plan, key) == inode))


def named_inode(plan: Plan, key: str) -> int | None:
    try:
        return (Path("/run/netns") / plan.netns_name(key)).stat().st_ino
    except OSError:
        return None


def _new_holder(plan: Plan, key: str) -> Process:
    flags = namespaces.CLONE_NEWNET
    if key == "sw":
        return namespaces.start_holder(f"holder:{key}", plan.directory, flags,
                                       namespaces.loopback_up)
    flags |= namespaces.CLONE_NEWNS | namespaces.CLONE_NEWUTS
    setup = (lambda: _enter_nfs(plan)) if key == "nfs" else (lambda: _enter_host(plan, key))
    (_prepare_nfs if key == "nfs" else _prepare_host)(plan, key)
    return namespaces.start_holder(f"holder:{key}", plan.directory, flags, setup)


def _prepare_host(plan: Plan, host: str) -> None:
    """Files of a host, made before anything of it runs. What belongs to a boot is made anew."""
    directory = plan.host_directory(host)
    make_run_directory(plan, host)
    for name in (*PRIVATE, "agent"):
        (directory / name).mkdir(parents=True, exist_ok=True)
    for target in PRIVATE.values():
        Path(target).mkdir(parents=True, exist_ok=True)
    write_atomically(directory / "etc-libvirt" / "libvirtd.conf", config.libvirtd_conf(plan, host))
    write_atomically(directory / "etc-libvirt" / "qemu.conf", config.qemu_conf(plan, host))
    write_atomically(directory / "hosts", config.hosts_file(plan))
    Path("/etc/hosts").touch(exist_ok=True)  # A mount needs something to be mounted on.


def make_run_directory(plan: Plan, host: str) -> None:
    """In memory, as on any machine: libvirtd writes there what a VM is doing, with an fsync each
    time. On a disk that is 4 to 100 ms for each step of a move."""
    run_directory = plan.host_directory(host) / "run"
    run_directory.parent.mkdir(parents=True, exist_ok=True)
    in_memory = memory_directory(plan.directory) / f"{host}.run"
    shutil.rmtree(in_memory, ignore_errors=True)
    in_memory.mkdir(parents=True)
    if run_directory.is_symlink():
        run_directory.unlink()
    shutil.rmtree(run_directory, ignore_errors=True)  # of an older lab
    run_directory.symlink_to(in_memory)


def _prepare_nfs(plan: Plan, _: str) -> None:
    directory = plan.directory / "nfs"
    shutil.rmtree(directory / "run", ignore_errors=True)
    for name in ("run", "var-lib-nfs", "root"):
        (directory / name).mkdir(parents=True, exist_ok=True)
    Path("/var/lib/nfs").mkdir(parents=True, exist_ok=True)
    (directory / "var-lib-nfs" / "ganesha").mkdir(exist_ok=True)


def _enter_host(plan: Plan, host: str) -> None:
    """In the holder: what this host sees that differs from the machine."""
    directory = plan.host_directory(host)
    namespaces.detach_mounts()
    for name, target in PRIVATE.items():
        namespaces.bind(directory / name, target)
    namespaces.bind(directory / "hosts", "/etc/hosts")
    # A sysfs shows the network that it was mounted in; libvirt looks for bridges there.
    namespaces.mount("sysfs", "/sys", "sysfs", 0)
    socket.sethostname(host)
    namespaces.loopback_up()


def _enter_nfs(plan: Plan) -> None:
    directory = plan.directory / "nfs"
    namespaces.detach_mounts()
    namespaces.ensure_root_is_mounted(directory / "root")
    namespaces.bind(directory / "run", "/run")
    namespaces.bind(directory / "var-lib-nfs", "/var/lib/nfs")
    socket.sethostname("nfs")
    namespaces.loopback_up()


# --- libvirtd -------------------------------------------------------------------------------------


def libvirt_socket(plan: Plan, host: str) -> Path:
    return plan.host_directory(host) / "run" / "libvirt" / "libvirt-sock"


def start_libvirtd(state: LabState, host: str) -> bool:
    """True if it had to be started."""
    part = f"libvirtd:{host}"
    if state.alive(part) is not None:
        return False
    plan = state.plan
    directory = plan.host_directory(host)
    # A killed libvirtd leaves its pid file and sockets; its VMs live on and are found by the new
    # one.
    for name in ("libvirtd.pid", "libvirt/libvirt-sock", "libvirt/libvirt-sock-ro",
                 "libvirt/libvirt-admin-sock"):
        (directory / "run" / name).unlink(missing_ok=True)
    _seed_capabilities(plan, host)
    # QEMUs outlive the process that starts them, and libvirtd holds a VM's lock until its QEMU has
    # been waited for. systemd does that at once; what else is process 1 may take seconds.
    reaper = [find_program("tini") or "tini", "-s", "--", "setpriv", "--pdeathsig", "KILL"]
    process = procs.start([*reaper, find_program("libvirtd") or "libvirtd", "--listen"],
                          log_of(plan, part), plan.directory,
                          namespaces.entering(namespace_pid(state, host)))
    state.record(part, process)
    return True


def wait_libvirtd(state: LabState, host: str) -> None:
    plan = state.plan
    part = f"libvirtd:{host}"
    socket_path = libvirt_socket(plan, host)
    if not wait_until(lambda: network.connects_unix(socket_path) or state.alive(part) is None,
                      LIBVIRT_PATIENCE):
        raise LabError(f"libvirtd of {host} does not listen on {socket_path}; its "
                       f"log:\n{tail(log_of(plan, part))}")
    if state.alive(part) is None:
        raise LabError(f"libvirtd of {host} ended; its log "
                       f"({log_of(plan, part)}):\n{tail(log_of(plan, part))}")


def virsh(state: LabState, host: str, *words: str, timeout: float = 60) -> str:
    return run(["virsh", "-c", "qemu:///system", *words], f"asking libvirtd of {host}",
               timeout=timeout,
               preexec=namespaces.entering(namespace_pid(state, host)))


def _capability_files(plan: Plan, host: str) -> Path:
    return plan.host_directory(host) / "cache-libvirt" / "qemu" / "capabilities"


def _seed_capabilities(plan: Plan, host: str) -> None:
    """What libvirt learned about the emulators before is copied; it checks for itself that it still
    fits.
    """
    target = _capability_files(plan, host)
    target.mkdir(parents=True, exist_ok=True)
    for path in (plan.directory / "cache" / "capabilities").glob("*.xml"):
        if not (target / path.name).exists():
            shutil.copy2(path, target / path.name)


def capabilities_known(plan: Plan) -> bool:
    return any((plan.directory / "cache" / "capabilities").glob("*.xml"))


def warm_capabilities(state: LabState, host: str) -> None:
    """Let one libvirtd probe the emulators, and keep the answer for the others and for the next
    time.
    """
    virsh(state, host, "capabilities", timeout=LIBVIRT_PATIENCE)
    virsh(state, host, "domcapabilities", "--virttype", "qemu", timeout=LIBVIRT_PATIENCE)
    if emulator := program(state.bin, "mare-qemu"):  # of templates and clones
        virsh(state, host, "domcapabilities", "--virttype", "qemu", "--emulatorbin", emulator,
              timeout=LIBVIRT_PATIENCE)
    store = state.plan.directory / "cache" / "capabilities"
    store.mkdir(parents=True, exist_ok=True)
    known = {path.name: path for path in _capability_files(state.plan, host).glob("*.xml")}
    for path in store.glob("*.xml"):
        if path.name not in known:
            path.unlink()
    for name, path in known.items():
        shutil.copy2(path, store / name)


# --- NFS ------------------------------------------------------------------------------------------


def start_nfs(state: LabState) -> bool:
    if state.alive("ganesha") is not None:
        return False
    plan = state.plan
    Path(plan.images).mkdir(parents=True, exist_ok=True)
    (plan.directory / "jobs").mkdir(parents=True, exist_ok=True)
    # Agents take storage that is not there for storage that is not mounted.
    (plan.directory / "checkpoints").mkdir(exist_ok=True)
    # Jobs run as root in their VM, or as a user of theirs: either may make directories here.
    os.chmod(plan.directory / "jobs", 0o1777)
    directory = plan.directory / "nfs"
    write_atomically(directory / "ganesha.conf", config.ganesha_conf(plan))
    argv = [find_program("ganesha.nfsd") or "ganesha.nfsd", "-F", "-f",
            str(directory / "ganesha.conf"),
            "-L", str(log_of(plan, "ganesha")), "-p", "/run/ganesha.pid"]
    state.record("ganesha", procs.start(argv, log_of(plan, "ganesha-stderr"), plan.directory,
                                        namespaces.entering(namespace_pid(state, "nfs"))))
    return True


def wait_nfs(state: LabState) -> None:
    plan = state.plan
    log = log_of(plan, "ganesha")
    if not wait_until(lambda: network.connects(plan.nfs_address,
                                               2049) or state.alive("ganesha") is None, 30):
        raise LabError(f"the NFS server does not answer on {plan.nfs_address}:2049; its log "
                       f"({log}):\n{tail(log)}")
    if state.alive("ganesha") is None:
        raise LabError(f"the NFS server ended; its log ({log}):\n{tail(log)}")


# --- Maré's own daemons ---------------------------------------------------------------------------


def start_agent(state: LabState, host: str) -> bool:
    part = f"agent:{host}"
    if state.alive(part) is not None:
        return False
    plan = state.plan
    argv = config.agent_argv(plan, host, need_program(state.bin, "mare-agent"))
    enter = namespaces.with_cpu_groups(namespaces.entering(namespace_pid(state, host)))
    state.record(part, procs.start(argv, log_of(plan, part), plan.directory, enter))
    return True


def wait_agent(state: LabState, host: str) -> None:
    plan = state.plan
    part = f"agent:{host}"
    address = plan.host_address(host)
    if not wait_until(lambda: network.connects(address, AGENT_PORT) or state.alive(part) is None,
                      30):
        raise LabError(f"mare-agent of {host} does not listen on {address}:{AGENT_PORT}; its log:\n"
                       f"{tail(log_of(plan, part))}")
    if state.alive(part) is None:
        raise LabError(f"mare-agent of {host} ended; its log "
                       f"({log_of(plan, part)}):\n{tail(log_of(plan, part))}")


def start_mared(state: LabState) -> bool:
    if state.alive("mared") is not None:
        return False
    plan = state.plan
    taken = procs.listener(plan.rest_port)
    if taken is not None:
        raise LabError(f"port {plan.rest_port} on 127.0.0.1, which mared needs for REST, is taken "
                       f"by {taken}: stop that, or choose another with --rest-port")
    (plan.directory / "mared").mkdir(parents=True, exist_ok=True)
    argv = config.mared_argv(plan, need_program(state.bin, "mared"))
    state.record("mared", procs.start(argv, log_of(plan, "mared"), plan.directory))
    return True


def wait_mared(state: LabState) -> None:
    plan = state.plan
    log = log_of(plan, "mared")
    if not wait_until(lambda: network.connects("127.0.0.1",
                                               plan.rest_port) or state.alive("mared") is None, 30):
        raise LabError(f"mared does not listen on 127.0.0.1:{plan.rest_port}; its log "
                       f"({log}):\n{tail(log)}")
    if state.alive("mared") is None:
        raise LabError(f"mared ended; its log ({log}):\n{tail(log)}")


def cli_environment(plan: Plan) -> dict[str, str]:
    return {"MARE_URL": f"http://127.0.0.1:{plan.rest_port}",
            "MARE_TOKEN_FILE": str(plan.directory / "mared" / "token")}


def known_hosts(state: LabState) -> set[str]:
    cli = need_program(state.bin, "mare")
    environment = dict(os.environ, **cli_environment(state.plan))
    listed = json.loads(run([cli, "host", "list", "-o", "json"], "listing mared's hosts",
                            env=environment))
    return {str(row["id"]) for row in listed["items"]}


def add_hosts(state: LabState) -> list[str]:
    """Tell mared of the hosts that it does not know yet."""
    # All at once: each addition waits for the agent's first answer.
    cli = need_program(state.bin, "mare")
    plan = state.plan
    environment = dict(os.environ, **cli_environment(plan))
    known = known_hosts(state)
    added = [host for host in plan.host_names() if host not in known]
    running = [(host, subprocess.Popen(
        [cli, "host", "add", host, "--address", f"{plan.host_address(host)}:{AGENT_PORT}"],
        env=environment,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        text=True)) for host in added]
    deadline = time.monotonic() + 60
    problems = []
    for host, child in running:
        try:
            said, _ = child.communicate(timeout=max(1.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            child.kill()
            said, _ = child.communicate()
            said += " (no answer within 60 s)"
        if child.returncode != 0:
            problems.append(f"adding {host} to mared failed: {said.strip()}")
    if problems:
        raise LabError("\n".join(problems) + f"\nmared's log is {log_of(plan, 'mared')}")
    return added
