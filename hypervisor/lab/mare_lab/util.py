"""Errors, progress, small file helpers."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

SEARCH_PATH = os.environ.get("PATH", "/usr/bin:/bin") + ":/usr/sbin:/sbin"


class LabError(Exception):
    """Something the user can act on: what failed, on which object, and the remedy."""


class Progress:
    """Lines on stderr with the seconds since the start."""

    def __init__(self, quiet: bool = False) -> None:
        self._start = time.monotonic()
        self._quiet = quiet

    def seconds(self) -> float:
        return time.monotonic() - self._start

    def step(self, text: str) -> None:
        if not self._quiet:
            print(f"[{self.seconds():6.1f}s] {text}", file=sys.stderr, flush=True)


def find_program(name: str) -> str | None:
    return shutil.which(name, path=SEARCH_PATH)


def run(argv: Sequence[str], what: str, *, text: str | None = None,
        preexec: Callable[[], None] | None = None,
        timeout: float = 60, env: dict[str, str] | None = None) -> str:
    """Run to the end and return stdout; LabError with the program's own words if it fails."""
    try:
        done = subprocess.run([find_program(argv[0]) or argv[0], *argv[1:]], input=text or "",
                              text=True,
                              capture_output=True, preexec_fn=preexec, timeout=timeout, check=False,
                              env=env)
    except FileNotFoundError:
        raise LabError(f"{what}: '{argv[0]}' is not installed: see "
                       "hypervisor/lab/install-packages") from None
    except subprocess.TimeoutExpired:
        raise LabError(f"{what}: `{' '.join(argv)}` gave no answer within {timeout:g} s") from None
    if done.returncode != 0:
        said = (done.stderr.strip() or done.stdout.strip() or f"status {done.returncode}")
        raise LabError(f"{what}: `{' '.join(argv)}` failed: {said}")
    return done.stdout


def wait_until(condition: Callable[[], bool], seconds: float, gap: float = 0.05) -> bool:
    """Ask until true or until the time is over; the gap grows so that a slow start costs few
    questions.
    """
    deadline = time.monotonic() + seconds
    while True:
        if condition():
            return True
        if time.monotonic() >= deadline:
            return False
        time.sleep(gap)
        gap = min(gap * 1.3, 0.5)


def write_atomically(path: Path, text: str, mode: int = 0o644) -> None:
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
    with open(descriptor, "w", encoding="utf-8") as out:
        out.write(text)
        out.flush()
        os.fsync(out.fileno())
    os.replace(temporary, path)


def tail(path: Path, count: int = 8) -> str:
    """The last lines of a log, indented for an error message."""
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return "  (no log)"
    return "\n".join(f"  {line}" for line in lines[-count:]) or "  (the log is empty)"
