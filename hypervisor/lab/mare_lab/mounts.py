"""What is mounted, as the caller sees it: in a chroot, what lies below its root."""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Mount:
    point: str
    kind: str
    options: tuple[str, ...]


def mounts(table: str = "/proc/self/mounts") -> list[Mount]:
    """In the order in which they were mounted: a later one may lie over an earlier."""
    with open(table, encoding="utf-8") as lines:
        rows = [line.split() for line in lines]
    return [Mount(_plain(point), kind, tuple(options.split(","))) for _, point, kind, options, *_ in rows]


def _plain(text: str) -> str:
    """The kernel writes blanks and backslashes as three octal digits."""
    return re.sub(r"\\([0-7]{3})", lambda found: chr(int(found[1], 8)), text)
