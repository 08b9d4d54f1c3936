"""The guest's kernel: fetched from the machine's mirror, cut down to what a VM on virtio needs."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from mare_image import apt, cpio
from mare_image.util import ImageError, need_program, remove_tree, run

META_PACKAGE = "linux-image-cloud-amd64"

# What the initramfs loads before there is a root.
BOOT_MODULES = ("virtio_pci", "virtio_net", "virtio_rng", "nfs", "nfsv4", "overlay")

# What the root has besides, for jobs and for later: balloon and fw_cfg for clones and checkpoints,
# packet sockets and netfilter diagnostics for users and for tools inside the VM.
ROOT_MODULES = BOOT_MODULES + (
    "virtio_balloon", "virtio_blk", "virtio_console", "virtio_mem", "qemu_fw_cfg", "af_packet",
    "tun",
    "bridge", "veth", "fuse", "loop", "nf_tables", "nft_compat", "xt_mark", "inet_diag", "tcp_diag",
    "udp_diag", "unix_diag", "netlink_diag", "af_packet_diag", "ext4", "squashfs")

APPLETS = ("echo", "insmod", "mount", "poweroff", "rm", "sh", "sleep")

# Of the guest's programs, those that must not depend on the file server.
INITRAMFS_PROGRAMS = ("mare-init", "mare-guestd")


@dataclass(frozen=True)
class Kernel:
    """An unpacked kernel in the cache."""

    release: str  # as in /lib/modules/RELEASE
    version: str  # of the Debian package
    directory: Path

    @property
    def vmlinuz(self) -> Path:
        return self.directory / "vmlinuz"

    @property
    def modules(self) -> Path:
        return self.directory / "modules"


def find_package() -> apt.Package:
    """The kernel package that the meta package stands for today."""
    meta = apt.candidate(META_PACKAGE)
    if meta is None:
        raise ImageError(f"this machine's package lists have no '{META_PACKAGE}': run `apt-get "
                         "update` (the sources must include Debian's component main)")
    found = re.search(r"\blinux-image-[^\s,|]+", meta.depends)
    package = apt.candidate(found.group(0)) if found else None
    if package is None:
        raise ImageError(f"'{META_PACKAGE}' {meta.version} depends on '{meta.depends}', which the "
                         "package lists do not have: run `apt-get update`")
    return package


def fetch(cache: Path, step: Callable[[str], None]) -> Kernel:
    """Download and unpack once; later calls find it in the cache."""
    package = find_package()
    release = package.name.removeprefix("linux-image-")
    kernel = Kernel(release, package.version, cache / f"kernel-{release}-{package.version}")
    if (kernel.directory / "complete").exists():
        return kernel
    dpkg_deb = need_program("dpkg-deb", "dpkg")
    step(f"kernel: downloading {package.name} {package.version}")
    work = cache / f"kernel.{os.getpid()}.partial"
    remove_tree(work)
    work.mkdir(parents=True)
    # The sandbox user of apt cannot write into our cache; the download is verified all the same.
    run(["apt-get", "-q", "-o", "APT::Sandbox::User=root", "download", package.name],
        f"downloading {package.name}", cwd=work)
    archives = list(work.glob("*.deb"))
    if len(archives) != 1:
        raise ImageError(f"downloading {package.name} gave {len(archives)} files instead of one")
    step("kernel: unpacking")
    run([dpkg_deb, "-x", str(archives[0]), str(work / "unpacked")], f"unpacking {package.name}")
    staged = work / "staged"
    _keep(work / "unpacked", staged, release)
    remove_tree(kernel.directory)
    os.rename(staged, kernel.directory)
    remove_tree(work)
    return kernel


def _keep(unpacked: Path, staged: Path, release: str) -> None:
    tree = _modules_directory(unpacked, release)
    available = {_module_name(path): path for path in tree.rglob("*.ko")}
    builtin = {_module_name(Path(row)) for row in
               (tree / "modules.builtin").read_text(encoding="utf-8").split()}
    depends = read_depends(available)
    # Boot modules are indispensable; of the others a kernel may lack one without harm.
    load_order(BOOT_MODULES, depends, builtin)
    wanted = [name for name in ROOT_MODULES if name in depends]
    modules = staged / "modules"
    modules.mkdir(parents=True)
    for name in load_order(wanted, depends, builtin):
        target = modules / available[name].relative_to(tree)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(available[name], target)
    for name in ("modules.builtin", "modules.builtin.modinfo", "modules.order"):
        if (tree / name).exists():
            shutil.copyfile(tree / name, modules / name)
    shutil.copyfile(unpacked / "boot" / f"vmlinuz-{release}", staged / "vmlinuz")
    (staged / "complete").touch()


def _modules_directory(unpacked: Path, release: str) -> Path:
    for parent in ("lib/modules", "usr/lib/modules"):
        if (unpacked / parent / release).is_dir():
            return unpacked / parent / release
    raise ImageError(f"the package of kernel {release} has no modules directory")


def _module_name(path: Path) -> str:
    return path.name.removesuffix(".ko").replace("-", "_")


def read_depends(files: Mapping[str, Path]) -> dict[str, list[str]]:
    return {name: depends_of(path.read_bytes()) for name, path in files.items()}


def depends_of(module: bytes) -> list[str]:
    """The modules that this one needs, from the `depends=` string of its .modinfo section."""
    found = re.search(rb"\0depends=([^\0]*)\0", module)
    if not found or not found.group(1):
        return []
    return [name.replace("-", "_") for name in found.group(1).decode().split(",")]


def load_order(wanted: tuple[str, ...] | list[str], depends: Mapping[str, list[str]],
               builtin: set[str]) -> list[str]:
    """Every wanted module and all it needs, each after what it needs; built-in ones left out."""
    order: list[str] = []
    open_: set[str] = set()

    def visit(name: str, asked_by: str) -> None:
        if name in builtin or name in order:
            return
        if name not in depends:
            raise ImageError(f"the kernel has no module '{name}' (needed by {asked_by})")
        if name in open_:
            raise ImageError(f"the kernel's modules depend on each other in a circle at '{name}'")
        open_.add(name)
        for needed in depends[name]:
            visit(needed, name)
        open_.discard(name)
        order.append(name)

    for name in wanted:
        visit(name, "the guest")
    return order


def initramfs(kernel: Kernel, busybox: bytes, programs: Mapping[str, bytes], init: bytes) -> bytes:
    """The archive that the guest boots from: busybox, programs of ours, the boot modules in order,
    and /init.
    """
    available = {_module_name(path): path for path in kernel.modules.rglob("*.ko")}
    builtin = {_module_name(Path(row)) for row in
               (kernel.modules / "modules.builtin").read_text(encoding="utf-8").split()}
    order = load_order(BOOT_MODULES, read_depends(available), builtin)
    entries = [cpio.directory(name) for name in ("bin", "dev", "lib", "lib/modules", "proc", "sys")]
    # The kernel opens /dev/console for init before anything could mount devtmpfs.
    entries.append(cpio.character_device("dev/console", 5, 1))
    entries.append(cpio.file("bin/busybox", busybox, 0o755))
    entries.extend(cpio.file(f"bin/{name}", content, 0o755) for name, content in programs.items())
    entries.extend(cpio.symlink(f"bin/{applet}", "busybox") for applet in APPLETS)
    entries.extend(cpio.file(f"lib/modules/{name}.ko",
                             available[name].read_bytes()) for name in order)
    entries.append(cpio.file("lib/modules.order", "".join(f"{name}\n" for name in order).encode()))
    entries.append(cpio.file("init", init, 0o755))
    return cpio.archive(entries)
