"""The first layer: Debian with Open MPI, made by mmdebstrap and kept as a tar under the digest of
its inputs.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from mare_image import apt
from mare_image.util import (ImageError, digest_file, need_program, remove_tree, run,
                             write_atomically)

# hpcc is always there: its HPL is the example program that nobody here wrote.
PACKAGES = ("busybox-static", "hpcc", "iproute2", "kmod", "libopenmpi3", "openmpi-bin", "procps")

# Raised when the recipe below changes in a way that its inputs do not show.
RECIPE = 2

# A fixed moment for every file that would carry the time of the build. 2025-01-01T00:00:00Z.
SOURCE_DATE_EPOCH = 1735689600

# Nobody reads manual pages in a job VM; together this is 60 MB.
EXCLUDED = ("/usr/share/man/*", "/usr/share/locale/*", "/usr/share/doc/*", "/usr/share/info/*",
            "/usr/share/lintian/*", "/usr/share/bug/*")
INCLUDED = ("/usr/share/doc/*/copyright",)


@dataclass(frozen=True)
class Base:
    tar: Path
    sha256: str
    packages: list[str]
    suite: str
    reused: bool


def recipe_digest(packages: Sequence[str], suite: str, sources: Sequence[str]) -> str:
    inputs = {"recipe": RECIPE, "packages": sorted(set(packages)), "suite": suite,
              "sources": list(sources), "excluded": EXCLUDED}
    return hashlib.sha256(json.dumps(inputs, sort_keys=True).encode()).hexdigest()[:16]


def check_packages(packages: Sequence[str]) -> None:
    """Name an unknown package now, rather than after half a minute of mmdebstrap."""
    for name in packages:
        if apt.candidate(name) is None:
            raise ImageError(f"there is no package '{name}' in this machine's package lists: check "
                             "the name with `apt-cache search`, or run `apt-get update`")


def ensure(cache: Path, extra: Sequence[str], suite: str, sources: Sequence[str], fresh: bool,
           step: Callable[[str], None]) -> Base:
    packages = sorted(set(PACKAGES) | set(extra))
    name = recipe_digest(packages, suite, sources)
    tar, record = cache / f"{name}.tar", cache / f"{name}.json"
    if not fresh and tar.exists() and record.exists():
        known = json.loads(record.read_text(encoding="utf-8"))
        if known["size_bytes"] == tar.stat().st_size:
            step(f"base: {len(packages)} packages already built ({tar.name})")
            return Base(tar, known["sha256"], packages, suite, True)
    check_packages(packages)
    _bootstrap(tar, packages, suite, sources, step)
    sha256 = digest_file(tar)
    write_atomically(record, json.dumps({"sha256": sha256, "size_bytes": tar.stat().st_size,
                                         "packages": packages, "suite": suite}, indent=2) + "\n")
    return Base(tar, sha256, packages, suite, False)


def _bootstrap(tar: Path, packages: Sequence[str], suite: str, sources: Sequence[str],
               step: Callable[[str], None]) -> None:
    mmdebstrap = need_program("mmdebstrap", "mmdebstrap")
    partial = tar.with_name(f"{tar.stem}.{os.getpid()}.partial")
    scratch = tar.parent / f"scratch.{os.getpid()}.partial"
    remove_tree(scratch)
    scratch.mkdir()
    # In a process namespace of its own, so that all of it dies with the builder: mmdebstrap works
    # through children which would otherwise go on writing into what the next build clears away.
    argv = [need_program("unshare", "util-linux"), "--pid", "--fork", "--kill-child",
            mmdebstrap, "--variant=minbase", "--mode=root", "--format=tar",
            f"--include={','.join(packages)}"]
    argv += [f"--dpkgopt=path-exclude={pattern}" for pattern in EXCLUDED]
    argv += [f"--dpkgopt=path-include={pattern}" for pattern in INCLUDED]
    # The scratch directory need not survive a power cut; waiting for the disk after every file took
    # minutes on a machine that was writing elsewhere.
    argv.append("--dpkgopt=force-unsafe-io")
    argv += ['--aptopt=Apt::Install-Recommends "false"', '--aptopt=Acquire::Languages "none"']
    argv += [f"--aptopt={option}" for option in apt.host_options()]
    # Traces of the build that differ from run to run, and what a read-only root has no use for.
    argv.append('--customize-hook=cd "$1" && rm -rf var/log/* var/cache/ldconfig/* '
                'var/cache/debconf/*-old '
                "var/lib/apt/lists/* usr/share/zoneinfo/right && : > etc/machine-id")
    argv += [suite, str(partial), *sources]
    environment = dict(os.environ, SOURCE_DATE_EPOCH=str(SOURCE_DATE_EPOCH), TMPDIR=str(scratch),
                       LC_ALL="C")
    step(f"base: mmdebstrap {suite} with {len(packages)} packages (about a minute)")

    def follow(text: str) -> None:
        if text.startswith("I: ") and ("..." in text or "success" in text):
            step(f"base: {text[3:]}")

    try:
        run(argv, "building the base system with mmdebstrap", env=environment, line=follow)
        os.replace(partial, tar)
    finally:
        remove_tree(partial)
        remove_tree(scratch)
