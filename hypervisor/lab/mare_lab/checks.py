"""What the lab needs of the machine, checked before anything is touched; each lack with its remedy.

"""

from __future__ import annotations

import os
import re
import stat
import subprocess
from pathlib import Path

from mare_lab import namespaces
from mare_lab.util import LabError, find_program

PROGRAMS = {
    "ip": "iproute2", "tc": "iproute2", "libvirtd": "libvirt-daemon-system",
    "virsh": "libvirt-clients",
    "qemu-system-x86_64": "qemu-system-x86", "ganesha.nfsd": "nfs-ganesha nfs-ganesha-vfs",
    "openssl": "openssl", "tini": "tini",
}
# Where ganesha looks for its VFS module, by architecture.
VFS_MODULES = ("/usr/lib/x86_64-linux-gnu/ganesha/libfsalvfs.so", "/usr/lib/ganesha/libfsalvfs.so")

# Earlier ones lose writes of a migrating TCG guest: its kernel or its job dies after a "successful"
# move.
MIN_TCG_QEMU = (9, 0)


def has_virtualisation(cpuinfo: str | None = None) -> bool:
    """True where KVM can work: /dev/kvm opens on machines without it too."""
    if cpuinfo is None:
        cpuinfo = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    return re.search(r"^flags\s*:.*\b(vmx|svm)\b", cpuinfo,
                     re.MULTILINE) is not None and os.path.exists("/dev/kvm")


def parse_qemu_version(text: str) -> tuple[int, int] | None:
    found = re.search(r"version (\d+)\.(\d+)", text)
    return (int(found.group(1)), int(found.group(2))) if found else None


def check_machine() -> list[str]:
    """Raises LabError with everything that is missing; returns remarks that do not stop the lab."""
    if os.geteuid() != 0:
        raise LabError("the lab makes network namespaces and needs root: run it as root")
    missing = {program: package for program, package in PROGRAMS.items()
               if find_program(program) is None}
    if "ganesha.nfsd" not in missing and not any(Path(path).exists() for path in VFS_MODULES):
        missing["ganesha's VFS module"] = "nfs-ganesha-vfs"
    if missing:
        packages = " ".join(sorted(set(" ".join(missing.values()).split())))
        raise LabError(f"not installed: {', '.join(sorted(missing))}; run "
                       "hypervisor/lab/install-packages --run-deps, or `apt-get install "
                       f"--no-install-recommends {packages}`")
    _check_tun()
    namespaces.check_permission()
    return _check_qemu()


def _check_tun() -> None:
    path = Path("/dev/net/tun")
    try:
        if not stat.S_ISCHR(path.stat().st_mode):
            raise OSError
        os.close(os.open(path, os.O_RDWR))
    except OSError:
        raise LabError("/dev/net/tun cannot be opened, and VMs need it for their network cards: "
                       "load the module (`modprobe tun`), or make the device: `mkdir -p /dev/net "
                       "&& mknod /dev/net/tun c 10 200`") from None


def _check_qemu() -> list[str]:
    program = find_program("qemu-system-x86_64") or "qemu-system-x86_64"
    done = subprocess.run([program, "--version"], stdin=subprocess.DEVNULL, capture_output=True,
                          text=True, check=False)
    version = parse_qemu_version(done.stdout)
    if version is None:
        raise LabError(f"`{program} --version` failed: {done.stderr.strip()}; reinstall "
                       "qemu-system-x86")
    if has_virtualisation():
        return []
    if version < MIN_TCG_QEMU:
        raise LabError(
            f"QEMU {version[0]}.{version[1]} corrupts emulated guests that migrate, and this "
            "machine has no hardware virtualisation: install 9.0 or later "
            "(hypervisor/lab/install-packages --run-deps takes it from backports)")
    return ["no hardware virtualisation (vmx, svm): VMs are emulated, about 6 times slower, "
            "doubles 200 times"]
