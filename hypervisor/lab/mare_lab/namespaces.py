"""Namespaces, by the kernel's own calls.

Not by ip(8) or unshare(1): both change the propagation of "/", which is refused in a chroot, where
the lab must work too. For the same reason a process is entered with its root directory: setns()
alone leads to the root of the mount namespace, which in a chroot is outside of it.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import socket
import struct
from collections.abc import Callable
from pathlib import Path

from mare_lab import procs
from mare_lab.mounts import mounts
from mare_lab.util import LabError

CLONE_NEWNS = 0x00020000
CLONE_NEWUTS = 0x04000000
CLONE_NEWNET = 0x40000000
MS_BIND = 4096
MS_REC = 16384
MS_PRIVATE = 1 << 18
MNT_DETACH = 2

_libc = ctypes.CDLL(None, use_errno=True)


def _checked(result: int, what: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


def unshare(flags: int) -> None:
    _checked(_libc.unshare(flags), "unshare")


def mount(source: str, target: str, kind: str | None, flags: int, options: str = "") -> None:
    encoded = kind.encode() if kind else None
    data = options.encode() if options else None
    _checked(_libc.mount(source.encode(), target.encode(), encoded, ctypes.c_ulong(flags), data),
             f"mount {source} on {target}")


def unmount(target: str) -> None:
    _checked(_libc.umount2(target.encode(), MNT_DETACH), f"umount {target}")


def bind(source: Path, target: str) -> None:
    mount(str(source), target, None, MS_BIND)


def detach_mounts() -> None:
    """In a new mount namespace: nothing that is mounted from here on is seen outside, or undone there.

    In a chroot "/" is not a mount, so its propagation cannot be changed from inside. Entering the
    namespace that we are in already leads to its true root; from there it can, and then back. (Tried
    before: a recursive bind of "/" on a directory. Where the mounts are shared, undoing that bind
    also unmounts the machine's own /proc.)
    """
    inside = os.open("/", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    own = os.open("/proc/self/ns/mnt", os.O_RDONLY | os.O_CLOEXEC)
    _checked(_libc.setns(own, CLONE_NEWNS), "entering the own mount namespace")
    mount("none", "/", None, MS_REC | MS_PRIVATE)
    os.fchdir(inside)
    os.chroot(".")
    os.close(inside)
    os.close(own)


def ensure_root_is_mounted(directory: Path) -> None:
    """After detach_mounts(): in a chroot, make "/" a mount, by way of `directory`.

    An NFS server looks for the file system of what it exports in the list of mounts, and a chroot
    need not have one there.
    """
    if any(one.point == "/" for one in mounts()):
        return
    mount("/", str(directory), None, MS_BIND | MS_REC)
    os.chroot(directory)
    os.chdir("/")


def entering(pid: int, kinds: tuple[str, ...] = ("net", "mnt", "uts"),
             directory: str = "/") -> Callable[[], None]:
    """A function for a forked child: become a neighbour of `pid`, root directory included."""

    def enter() -> None:
        files = [os.open(f"/proc/{pid}/ns/{kind}", os.O_RDONLY | os.O_CLOEXEC) for kind in kinds]
        root = os.open(f"/proc/{pid}/root", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        for file, kind in zip(files, kinds):
            _checked(_libc.setns(file, 0), f"entering the {kind} namespace of process {pid}")
        if "mnt" in kinds:
            os.fchdir(root)
            os.chroot(".")
            try:
                os.chdir(directory)
            except OSError:
                os.chdir("/")

    return enter


def in_network_of(pid: int) -> Callable[[], None]:
    """Only the network: files and programs stay the caller's. For ip(8) and tc(8)."""
    return entering(pid, ("net",))


def with_cpu_groups(enter: Callable[[], None]) -> Callable[[], None]:
    """`enter`, and a mount namespace of its own in which the machine's CPU control groups are seen.

    The sysfs of a host hides them. libvirtd is not to see them: it would make groups for its VMs,
    by the same names on all hosts.
    """
    found: tuple[str, str] | None = None
    for one in mounts():
        controllers = [option for option in one.options if option in ("cpu", "cpuacct")]
        if one.kind == "cgroup2" and found is None:
            found = ("cgroup2", "")
        elif one.kind == "cgroup" and "cpu" in controllers:
            found = ("cgroup", ",".join(controllers))

    def enter_and_mount() -> None:
        enter()
        if found is None:
            return
        try:
            unshare(CLONE_NEWNS)
            mount("cgroup", "/sys/fs/cgroup", found[0], 0, found[1])
        except OSError:
            pass  # Quotas are not seen then; all else works.

    return enter_and_mount


def loopback_up() -> None:
    """Bring up lo in the caller's network namespace, by ioctl, so that no program is needed."""
    get_flags, set_flags, flag_up = 0x8913, 0x8914, 1
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        request = struct.pack("16sH14x", b"lo", 0)
        flags = struct.unpack("16sH14x", fcntl.ioctl(sock, get_flags, request))[1]
        fcntl.ioctl(sock, set_flags, struct.pack("16sH14x", b"lo", flags | flag_up))


def start_holder(key: str, state: Path, flags: int, setup: Callable[[], None]) -> procs.Process:
    """A process that does nothing but keep new namespaces alive, made ready by `setup` inside them.
    """
    read_end, write_end = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.setsid()
            os.close(read_end)
            unshare(flags)
            setup()
            null = os.open(os.devnull, os.O_RDWR)
            for descriptor in (0, 1, 2):
                os.dup2(null, descriptor)
            os.execve("/bin/sleep", ["sleep", "infinity"],
                      procs.environment(state, {"MARE_LAB_PART": key}))
        except BaseException as error:  # pylint: disable=broad-except
            os.write(write_end, str(error).encode()[:4000])
        finally:
            os._exit(1)
    os.close(write_end)
    with open(read_end, "rb") as pipe:
        problem = pipe.read().decode(errors="replace")  # Ends when exec closes the other end.
    process = procs.identify(pid)
    if problem or process is None:
        os.waitpid(pid, 0)
        raise LabError(f"cannot make the namespaces of '{key}': "
                       f"{problem or 'the process ended at once'}")
    return process


def start_holder_beside(key: str, state: Path, neighbour: int) -> procs.Process:
    """Keep namespaces whose holder died, through a process that still lives in them."""
    return start_holder(key, state, 0, entering(neighbour))


def start_holder_in_named(key: str, state: Path, name: Path) -> procs.Process:
    """Keep a network namespace whose holder died, through the name that we gave it."""

    def enter() -> None:
        descriptor = os.open(name, os.O_RDONLY | os.O_CLOEXEC)
        _checked(_libc.setns(descriptor, CLONE_NEWNET), f"entering {name}")

    return start_holder(key, state, 0, enter)


def check_permission() -> None:
    """Say what is missing when the kernel or the container does not allow namespaces."""
    pid = os.fork()
    if pid == 0:
        try:
            unshare(CLONE_NEWNS | CLONE_NEWUTS | CLONE_NEWNET)
            os._exit(0)
        except OSError as error:
            os._exit(error.errno or 1)
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    if status != 0:
        reason = os.strerror(status) if status > 0 else f"signal {-status}"
        raise LabError(f"the kernel refuses new namespaces ({reason}): the lab needs CAP_SYS_ADMIN "
                       "and CAP_NET_ADMIN; in a container, start it with --privileged")
