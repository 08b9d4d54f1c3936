"""Building a version: base layer, kernel modules, the guest's own files; then one rename."""

from __future__ import annotations

import datetime
import hashlib
import json
import os
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mare_image import apt, base, kernel, layout
from mare_image.util import (BuildLock, ImageError, Progress, digest_file, digest_tree,
                             need_program, remove_tree,
                             run, sync_directory)

HERE = Path(__file__).resolve().parent.parent
INIT = HERE / "initramfs" / "init"

# The base kernel line. tsc: with any other clock source an emulated guest crawls. random.trust_cpu:
# no wait for entropy. panic=-1: a dead guest goes away at once instead of looking alive.
# mitigations=off: jobs are root in their own VM, so there is no boundary inside the guest that they
# would protect. loglevel=5: warnings and oopses must reach the console, from which a migration is
# judged. cryptomgr.notests: testing every cipher at boot costs an emulated guest 0.7 s.
KERNEL_ARGS = ("console=ttyS0 loglevel=5 tsc=reliable clocksource=tsc random.trust_cpu=on panic=-1 "
               "mitigations=off no_timer_check rcupdate.rcu_expedited=1 cryptomgr.notests "
               "apparmor=0")

# 96 MiB reaches "ready"; below 128 mpirun is killed for want of memory. 192 is comfortable.
MIN_MEMORY_MIB = 128

# One version is 230 MB; the tar as much again, and mmdebstrap's scratch as much a third time.
NEEDED_BYTES = 1 << 30


@dataclass(frozen=True)
class Request:
    name: str
    images: Path
    packages: Sequence[str]
    add: Sequence[Path]
    guest_bin: Path
    force: bool
    keep: int
    mirror: str | None
    suite: str | None


def build(request: Request, progress: Progress) -> dict[str, Any]:
    layout.check_name(request.name)
    _check(request)
    cache = request.images / ".cache"
    cache.mkdir(parents=True, exist_ok=True)
    with BuildLock(request.images):
        for path in layout.clean_up(request.images):
            progress.step(f"removed {path}, left by a build that was interrupted")
        suite = request.suite or apt.host_codename()
        if request.mirror:
            sources = [f"deb {request.mirror} {suite} main"]
        else:
            sources = apt.host_sources(suite, cache)
        kernel_ = kernel.fetch(cache, progress.step)
        base_ = base.ensure(cache, request.packages, suite, sources, request.force, progress.step)
        return _publish(request, base_, kernel_, progress)


def _check(request: Request) -> None:
    if os.geteuid() != 0:
        raise ImageError("building an image needs root (it makes a root file system): run it as "
                         "root")
    for program in kernel.INITRAMFS_PROGRAMS:
        if not (request.guest_bin / "bin" / program).is_file():
            raise ImageError(f"{request.guest_bin} has no bin/{program}: build it with `cmake "
                             "--build BUILD --target mare-guest-stage` and give --guest-bin "
                             "BUILD/guest-stage")
    for directory in request.add:
        if not directory.is_dir():
            raise ImageError(f"--add {directory}: no such directory")
    request.images.mkdir(parents=True, exist_ok=True)
    free = shutil.disk_usage(request.images).free
    if free < NEEDED_BYTES:
        raise ImageError(f"{request.images} has {free >> 20} MiB free, a build needs "
                         f"{NEEDED_BYTES >> 20} MiB: free some space (`mare-image delete`), or "
                         "choose another --images directory")


def _inputs(request: Request, base_: base.Base, kernel_: kernel.Kernel) -> dict[str, Any]:
    return {
        "base": base_.sha256,
        "kernel": [kernel_.release, kernel_.version],
        "kernel_args": KERNEL_ARGS,
        "guest": digest_tree(request.guest_bin),
        "add": [digest_tree(directory) for directory in request.add],
        "init": digest_file(INIT),
        "builder": hashlib.sha256(b"".join(path.read_bytes() for path in sorted(
            Path(__file__).parent.glob("*.py")))).hexdigest(),
    }


def _publish(request: Request, base_: base.Base, kernel_: kernel.Kernel,
             progress: Progress) -> dict[str, Any]:
    inputs = _inputs(request, base_, kernel_)
    digest = hashlib.sha256(json.dumps(inputs, sort_keys=True).encode()).hexdigest()
    parent = request.images / request.name
    version = digest[:12]
    known = {entry.version: entry for entry in layout.versions(request.images, request.name)}
    if version in known and not request.force:
        layout.set_current(request.images, request.name, version)
        progress.step(f"image {request.name}/{version}: nothing has changed since it was built")
        return _result(request, known[version].manifest, True, progress)
    # A forced build never overwrites: guests may have the old one mounted.
    number = 2
    while (parent / version).exists():
        version = f"{digest[:12]}-{number}"
        number += 1
    partial = parent / f"{version}.partial"
    partial.mkdir(parents=True)
    try:
        manifest = _fill(request, partial, version, digest, inputs, base_, kernel_, progress)
    except BaseException:
        remove_tree(partial)
        raise
    # Not synced: on a busy disk that takes a minute, and an image can be built again. After a power
    # cut in the minute after a build, `build --force` makes a new one.
    partial.rename(parent / version)
    sync_directory(parent)
    layout.set_current(request.images, request.name, version)
    for old in layout.keep_newest(request.images, request.name,
                                  request.keep) if request.keep else []:
        progress.step(f"deleted the old version {request.name}/{old}")
    progress.step(f"image {request.name}/{version} is ready ({manifest['size_bytes'] >> 20} MiB)")
    return _result(request, manifest, False, progress)


def _fill(request: Request, partial: Path, version: str, digest: str, inputs: dict[str, Any],
          base_: base.Base,
          kernel_: kernel.Kernel, progress: Progress) -> dict[str, Any]:
    root = partial / "root"
    root.mkdir()
    progress.step("root: unpacking the base")
    tar = need_program("tar", "tar")
    run([tar, "--numeric-owner", "--xattrs", "--xattrs-include=*", "-C", str(root), "-xf",
         str(base_.tar)],
        f"unpacking {base_.tar.name}")
    progress.step("root: kernel modules, guest programs")
    modules = root / "usr" / "lib" / "modules" / kernel_.release
    shutil.copytree(kernel_.modules, modules)
    run(["chroot", str(root), "/sbin/depmod", kernel_.release], "computing module dependencies")
    for directory, target in [(request.guest_bin, root / "usr" / "local"),
                              *((directory, root) for directory in request.add)]:
        copy_over(directory, target)
    _finish_root(root)
    shutil.copyfile(kernel_.vmlinuz, partial / "vmlinuz")
    busybox = (root / "usr" / "bin" / "busybox").read_bytes()
    programs = {name: (request.guest_bin / "bin" / name).read_bytes()
                for name in kernel.INITRAMFS_PROGRAMS}
    (partial / "initrd.img").write_bytes(
        kernel.initramfs(kernel_, busybox, programs, INIT.read_bytes()))
    manifest = {
        "name": request.name,
        "version": version,
        "digest": digest,
        "created": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "kernel_args": KERNEL_ARGS,
        "kernel_release": kernel_.release,
        "min_memory_mib": MIN_MEMORY_MIB,
        "packages": base_.packages,
        "suite": base_.suite,
        "size_bytes": _size(partial),
        "inputs": inputs,
    }
    (partial / "manifest.json").write_text(json.dumps(manifest, indent=2) + "\n", encoding="utf-8")
    return manifest


def copy_over(source: Path, target: Path) -> None:
    """Copy a directory's content over another, owned by root, through links of the target (/sbin,
    /lib).
    """
    for path in sorted(source.rglob("*")):
        destination = target / path.relative_to(source)
        # Merged /usr: a given sbin/x must land in usr/sbin, without replacing the link by a
        # directory, and absolute links must not lead out of the root; Debian's own are relative.
        if path.is_dir() and not path.is_symlink():
            if not destination.is_dir():
                destination.mkdir()
            continue
        if os.path.lexists(destination):
            if destination.is_dir() and not destination.is_symlink():
                raise ImageError(f"{path} is a file, but the image has a directory at that place")
            destination.unlink()
        shutil.copy2(path, destination, follow_symlinks=False)
        os.chown(destination, 0, 0, follow_symlinks=False)


def _finish_root(root: Path) -> None:
    for directory in ("jobs", "etc/mare"):
        (root / directory).mkdir(mode=0o755, exist_ok=True)
    for name in ("poweroff", "halt", "reboot"):
        link = root / "usr" / "sbin" / name
        if not os.path.lexists(link):
            link.symlink_to("../bin/busybox")
    # Programs find the examples' libraries without anybody asking ldconfig inside a read-only root.
    run(["chroot", str(root), "/sbin/ldconfig"], "running ldconfig in the root")


def _size(directory: Path) -> int:
    done = subprocess.run(["du", "-s", "-B1", str(directory)], text=True, capture_output=True,
                          check=True)
    return int(done.stdout.split()[0])


def _result(request: Request, manifest: dict[str, Any], reused: bool,
            progress: Progress) -> dict[str, Any]:
    return {
        "name": manifest["name"], "version": manifest["version"], "digest": manifest["digest"],
        "path": str(request.images / request.name / manifest["version"]),
        "size_bytes": manifest["size_bytes"], "reused": reused,
        "seconds": round(progress.seconds(), 1),
    }
