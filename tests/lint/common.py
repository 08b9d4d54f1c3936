"""What the lints share: which files there are, and how a finding is told."""

from __future__ import annotations

import dataclasses
import pathlib
import subprocess
import sys
from typing import Iterable, Iterator

ROOT = pathlib.Path(__file__).resolve().parents[2]
CODE = {".h", ".cpp", ".c"}


@dataclasses.dataclass(frozen=True, order=True)
class Finding:
    """One broken rule."""

    path: str
    line: int
    rule: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.rule}"


def sources(root: pathlib.Path) -> list[pathlib.Path]:
    """The files of the tree, relative to it: what git would commit, or all when there is no git."""
    listed = subprocess.run(
        ["git", "-C", str(root), "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        capture_output=True, check=False)
    if listed.returncode == 0:
        names = sorted(name for name in listed.stdout.decode().split("\0") if name)
        return [path for path in map(pathlib.Path, names) if (root / path).is_file()]
    return sorted(path.relative_to(root) for path in _walk(root))


def _walk(folder: pathlib.Path) -> Iterator[pathlib.Path]:
    for entry in folder.iterdir():
        if entry.name.startswith("build") and folder == ROOT or entry.name in (".git", "__pycache__"):
            continue
        if entry.is_dir() and not entry.is_symlink():
            yield from _walk(entry)
        elif entry.is_file():
            yield entry


def read(root: pathlib.Path, path: pathlib.Path) -> str | None:
    """The text of a file; nothing for what is not text."""
    try:
        return (root / path).read_text(encoding="utf-8")
    except UnicodeDecodeError:
        return None


def finish(name: str, findings: Iterable[Finding], looked_at: int) -> int:
    """Prints the findings and gives the exit code. A lint that saw nothing proves nothing."""
    found = sorted(findings)
    for finding in found:
        print(finding)
    if looked_at == 0:
        print(f"{name}: no files to look at", file=sys.stderr)
        return 1
    print(f"{name}: {looked_at} files, {len(found)} findings", file=sys.stderr)
    return 1 if found else 0
