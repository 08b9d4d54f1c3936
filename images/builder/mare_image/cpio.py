"""A cpio archive (newc), the form the kernel takes an initramfs in. Pure: bytes in, bytes out.

Written here rather than by cpio(1) so that the same inputs give the same bytes (no inode numbers,
no times). Left uncompressed: unpacking gzip costs an emulated guest 0.7 s, reading 7 MB costs
nothing.
"""

from __future__ import annotations

import stat
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Entry:
    name: str
    mode: int
    data: bytes = b""
    device: tuple[int, int] = (0, 0)


def directory(name: str, permissions: int = 0o755) -> Entry:
    return Entry(name, stat.S_IFDIR | permissions)


def file(name: str, data: bytes, permissions: int = 0o644) -> Entry:
    return Entry(name, stat.S_IFREG | permissions, data)


def symlink(name: str, target: str) -> Entry:
    return Entry(name, stat.S_IFLNK | 0o777, target.encode())


def character_device(name: str, major: int, minor: int, permissions: int = 0o600) -> Entry:
    return Entry(name, stat.S_IFCHR | permissions, b"", (major, minor))


def _pad(data: bytes) -> bytes:
    return data + b"\0" * (-len(data) % 4)


def _record(entry: Entry, inode: int) -> bytes:
    name = entry.name.encode() + b"\0"
    fields = (inode, entry.mode, 0, 0, 1, 0, len(entry.data), 0, 0, *entry.device, len(name), 0)
    header = b"070701" + b"".join(b"%08X" % field for field in fields)
    return _pad(header + name) + _pad(entry.data)


def archive(entries: Iterable[Entry]) -> bytes:
    records = [_record(entry, number) for number, entry in enumerate(entries, start=1)]
    records.append(_record(Entry("TRAILER!!!", 0), 0))
    return b"".join(records)
