"""Where images are: IMAGES/NAME/VERSION/, and IMAGES/NAME/current, which names the version to boot.

A version appears by one rename and is never changed afterwards, because guests have it mounted: an
NFS server that sees files change under it hands out stale handles. What a killed build left ends in
`.partial` and is removed by the next one.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mare_image.util import ImageError, remove_tree, write_atomically

NAME_PATTERN = re.compile(r"^[a-z0-9][a-z0-9._-]{0,62}$")


@dataclass(frozen=True)
class Version:
    name: str
    version: str
    directory: Path
    manifest: dict[str, Any]
    current: bool


def check_name(name: str) -> str:
    if not NAME_PATTERN.match(name) or name.endswith(".partial") or name == "current":
        raise ImageError(f"'{name}' is not a name for an image: use lower-case letters, digits, "
                         "'.', '_' and '-', at most 63, the first a letter or a digit")
    return name


def current_version(images: Path, name: str) -> str | None:
    try:
        return (images / name / "current").read_text(encoding="utf-8").strip() or None
    except OSError:
        return None


def set_current(images: Path, name: str, version: str) -> None:
    write_atomically(images / name / "current", version + "\n")


def versions(images: Path, name: str | None = None) -> list[Version]:
    """All complete versions, oldest first within a name."""
    found: list[Version] = []
    if not images.is_dir():
        return found
    for image in sorted(images.iterdir()):
        if image.name.startswith(".") or not image.is_dir():
            continue
        if name is not None and image.name != name:
            continue
        current = current_version(images, image.name)
        for directory in image.iterdir():
            manifest = _manifest(directory)
            if manifest is not None:
                found.append(Version(image.name, directory.name, directory, manifest,
                                     directory.name == current))
    return sorted(found, key=lambda v: (v.name, str(v.manifest.get("created")), v.version))


def _manifest(directory: Path) -> dict[str, Any] | None:
    if directory.name.endswith(".partial"):
        return None
    try:
        manifest = json.loads((directory / "manifest.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return manifest if isinstance(manifest, dict) else None


def clean_up(images: Path) -> list[Path]:
    """Remove what a killed build left. Only under the lock, where nothing partial can be in the
    making.
    """
    leftovers = list(images.glob("*/*.partial")) + list((images / ".cache").glob("*.partial"))
    for path in leftovers:
        remove_tree(path)
    return leftovers


def users_of(version: Version) -> list[str]:
    """VMs on this machine that run from this version, told by the kernel line of their QEMU.

    VMs on other machines that mount our export are not seen from here; that is why `delete` says
    so.
    """
    needle = f"/{version.name}/{version.version}/".encode()
    users = []
    for process in Path("/proc").iterdir():
        if not process.name.isdigit():
            continue
        try:
            argv = (process / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if b"qemu" not in argv[0] or not any(b"mare.root=" in word and needle in word
                                             for word in argv):
            continue
        guest = next((word for word in argv if word.startswith(b"guest=")),
                     b"").decode(errors="replace")
        users.append(guest.removeprefix("guest=").split(",")[0] or f"pid {process.name}")
    return sorted(users)


def delete(images: Path, name: str, version: str | None, force: bool) -> list[str]:
    """Delete one version, or the whole image; refuses what VMs here use or what `current` names."""
    known = [v for v in versions(images, name) if version is None or v.version == version]
    if not known:
        what = name if version is None else f"{name}/{version}"
        raise ImageError(f"no image '{what}' in {images}: see `mare-image list`")
    for entry in known:
        users = users_of(entry)
        if users and not force:
            raise ImageError(f"image '{name}/{entry.version}' is the root of running VMs "
                             f"({', '.join(users)}): stop them first, or use --force and see them "
                             "fail")
        if entry.current and version is not None and not force:
            raise ImageError(f"image '{name}/{version}' is the current one: build another first, "
                             f"delete the whole image with `mare-image delete {name}`, or use "
                             "--force")
    if version is None or any(entry.current for entry in known):
        (images / name / "current").unlink(missing_ok=True)
    for entry in known:
        # Renamed first: a crash in the middle leaves a .partial, never a version with half its
        # files.
        doomed = entry.directory.with_name(entry.directory.name + ".partial")
        entry.directory.rename(doomed)
        remove_tree(doomed)
    if version is None:
        remove_tree(images / name)
    return [entry.version for entry in known]


def keep_newest(images: Path, name: str, count: int) -> list[str]:
    """Delete all but the newest `count` versions; the current one and those in use always stay."""
    removed = []
    known = versions(images, name)
    for entry in known[:max(0, len(known) - count)]:
        if not entry.current and not users_of(entry):
            removed += delete(images, name, entry.version, force=False)
    return removed
