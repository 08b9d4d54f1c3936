"""Errors, progress, running programs, files that appear whole or not at all."""

from __future__ import annotations

import ctypes
import errno
import fcntl
import hashlib
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path


class ImageError(Exception):
    """Something the user can act on: what failed, on which object, and the remedy."""


class Progress:
    """Lines on stderr with the seconds since the start, so that nobody stares at a silent screen.
    """

    def __init__(self) -> None:
        self._start = time.monotonic()

    def seconds(self) -> float:
        return time.monotonic() - self._start

    def step(self, text: str) -> None:
        print(f"[{self.seconds():6.1f}s] {text}", file=sys.stderr, flush=True)


def die_with_parent() -> None:
    """In a child: be killed when the builder is, so that a kill -9 leaves nothing at work."""
    pr_set_pdeathsig = 1
    ctypes.CDLL(None, use_errno=True).prctl(pr_set_pdeathsig, signal.SIGKILL, 0, 0, 0)


def need_program(name: str, package: str) -> str:
    path = shutil.which(name, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")
    if path is None:
        raise ImageError(f"'{name}' is not installed: install it with `apt-get install {package}`")
    return path


def run(argv: Sequence[str], what: str, *, env: dict[str, str] | None = None,
        cwd: Path | None = None, line: Callable[[str], None] | None = None) -> str:
    """Run to the end and return the output, stderr included; ImageError with its tail if it fails.
    """
    with subprocess.Popen(argv, env=env, cwd=cwd, stdin=subprocess.DEVNULL, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, errors="replace",
                          preexec_fn=die_with_parent) as process:
        assert process.stdout is not None
        lines: list[str] = []
        try:
            for text in process.stdout:
                lines.append(text.rstrip("\n"))
                if line is not None:
                    line(lines[-1])
        except BaseException:
            process.kill()
            raise
    if process.returncode != 0:
        raise ImageError(explain(what, lines, process.returncode))
    return "\n".join(lines)


def explain(what: str, lines: Sequence[str], status: int) -> str:
    """The message for a program that failed; known causes get their remedy."""
    text = "\n".join(lines)
    for line in lines:
        if "Unable to locate package" in line:
            name = line.rsplit(" ", 1)[-1].strip()
            return (f"{what}: there is no package '{name}' in this machine's package lists; check "
                    "the name with `apt-cache search`, or run `apt-get update`")
        if "has no installation candidate" in line:
            return f"{what}: {line.removeprefix('E: ')}; check it with `apt-cache policy`"
    if "No space left on device" in text:
        return (f"{what}: no space left on device; free some space, or choose another --images "
                "directory")
    if "Temporary failure resolving" in text or "Could not connect" in text:
        return (f"{what}: the package mirror cannot be reached; check the network and this "
                "machine's apt sources")
    # apt and mmdebstrap put the reason in E: lines; without any, the tail has to do.
    reasons = [line for line in lines if line.startswith("E:")] or list(lines[-5:])
    return f"{what}: failed with status {status}:\n  " + "\n  ".join(reasons)


def mounts_under(path: Path) -> list[str]:
    prefix = str(path.resolve())
    with open("/proc/self/mountinfo", encoding="utf-8") as table:
        points = [row.split()[4].replace("\\040", " ") for row in table]
    return sorted(p for p in points if p == prefix or p.startswith(prefix + "/"))


def remove_tree(path: Path) -> None:
    """Delete a directory; a mount that a killed run left inside is undone first."""
    if not os.path.lexists(path):
        return
    for point in reversed(mounts_under(path)):
        # Private first: where mounts are shared, unmounting a bind of /sys would unmount what is
        # mounted in the machine's own /sys as well.
        for argv in (["mount", "--make-rprivate", point], ["umount", "-l", point]):
            subprocess.run(argv, check=False, stdin=subprocess.DEVNULL, capture_output=True)
    left = mounts_under(path)
    if left:
        # Deleting would go on into it, and that may be the machine's own /dev.
        raise ImageError(f"{left[0]} is still mounted, so {path} is not deleted: unmount it first")
    if path.is_dir() and not path.is_symlink():
        for attempt in range(3):
            shutil.rmtree(path, ignore_errors=attempt < 2)
            if not path.exists():
                return
    else:
        path.unlink()


def write_atomically(path: Path, text: str) -> None:
    """Old content or new content, also after a power cut; never half of it."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    with open(temporary, "w", encoding="utf-8") as out:
        out.write(text)
        out.flush()
        os.fsync(out.fileno())
    os.replace(temporary, path)
    sync_directory(path.parent)


def sync_directory(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def digest_file(path: Path) -> str:
    with open(path, "rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


def digest_tree(root: Path) -> str:
    """A digest of names, kinds, permissions and contents; times do not matter."""
    total = hashlib.sha256()
    for path in sorted(root.rglob("*")):
        name = path.relative_to(root).as_posix()
        status = path.lstat()
        if path.is_symlink():
            content = "link " + os.readlink(path)
        elif path.is_dir():
            content = "directory"
        elif path.is_file():
            content = "file " + digest_file(path)
        else:
            raise ImageError(f"{path} is neither a file, a directory nor a link: an image cannot "
                             "take it")
        total.update(f"{name}\0{status.st_mode & 0o7777:o}\0{content}\n".encode())
    return total.hexdigest()


class BuildLock:
    """One builder at a time in an images directory; the lock ends with the process."""

    def __init__(self, images: Path) -> None:
        self._path = images / ".lock"
        self._file = open(self._path, "a+", encoding="utf-8")

    def __enter__(self) -> "BuildLock":
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno not in (errno.EWOULDBLOCK, errno.EACCES):
                raise
            self._file.seek(0)
            owner = self._file.read().strip() or "unknown"
            raise ImageError(f"another mare-image (pid {owner}) is at work in {self._path.parent}: "
                             "wait for it, or end it") from None
        self._file.truncate(0)
        self._file.write(f"{os.getpid()}\n")
        self._file.flush()
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()
