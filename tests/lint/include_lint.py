#!/usr/bin/python3
"""Checks that every include and every CMake link goes along an arrow of docs/architecture.md."""

from __future__ import annotations

import argparse
import pathlib
import re
import sys

import common
import rooms
from common import Finding
from rooms import Room

INCLUDE = re.compile(r'^\s*#\s*include\s*(["<])([^">]+)[">]', re.MULTILINE)
LINK = re.compile(r"target_link_libraries\s*\(\s*(\S+)([^)]*)\)")
TABLE_ROW = re.compile(r"^\|(.+)\|(.+)\|(.+)\|(.*)\|\s*$")

BY_FOLDER = {room.folder: room for room in rooms.ROOMS}
TARGET_ROOM = {target: room.folder for room in rooms.ROOMS for target in room.targets}


def room_of(path: str) -> Room | None:
    """The deepest room that holds the path."""
    for parent in pathlib.PurePosixPath(path).parents:
        if str(parent) in BY_FOLDER:
            return BY_FOLDER[str(parent)]
    return None


def reachable(room: Room) -> set[str]:
    """Folders of all rooms that may be included: what is named, and what those may include."""
    seen: set[str] = set()
    todo = list(room.uses)
    while todo:
        folder = todo.pop()
        if folder == rooms.EVERYTHING:
            return set(BY_FOLDER)
        if folder not in seen:
            seen.add(folder)
            todo += BY_FOLDER[folder].uses
    return seen


def library_of(header: str) -> str | None:
    for name, (prefixes, _) in rooms.FOREIGN.items():
        if header.startswith(prefixes):
            return name
    return None


def check_foreign(path: str, room: Room | None, header: str) -> str | None:
    """The rule that an include of the system or of a library breaks, if any."""
    library = library_of(header)
    in_tests = path.startswith("tests/")
    if library is None:
        known = "/" not in header and "." not in header  # the standard library of C++
        known = known or header.startswith(rooms.SYSTEM_FOLDERS)
        known = known or header.removesuffix(".h") in rooms.SYSTEM_HEADERS
        return None if known else f"<{header}> is of no library that tests/lint/rooms.py knows"
    if in_tests:
        return None
    only = rooms.ONLY_IN_FILE.get(library)
    if only and path != only:
        return f"<{header}>: only {only} may include {library}"
    if room is None or library not in room.foreign:
        where = room.folder if room else path
        return f"<{header}>: {where} may not include {library}"
    return None


def check_own(path: str, room: Room | None, header: str, root: pathlib.Path) -> str | None:
    """The rule that an include of our own breaks, if any."""
    if library_of(header):
        return check_foreign(path, room, header)
    if path.startswith("tests/") or path.startswith("images/examples/"):
        return None  # tests may see everything; examples are written to be copied elsewhere
    if not (root / header).is_file():
        return f'"{header}" is not written from the repository\'s root, or does not exist'
    if room is None:
        return f"{path} belongs to no room of docs/architecture.md"
    target = room_of(header)
    if target is room or header in room.files:
        return None
    if target is None or target.folder not in reachable(room):
        return f'"{header}": {room.folder} may include only {room.words or "itself"}'
    return None


def check_code(root: pathlib.Path, path: str, text: str) -> list[Finding]:
    found = []
    room = room_of(path)
    for match in INCLUDE.finditer(text):
        check = check_own(path, room, match[2], root) if match[1] == '"' else check_foreign(
            path, room, match[2])
        if check:
            found.append(Finding(path, text.count("\n", 0, match.start(2)) + 1, check))
    return found


def check_link(path: str, target: str, scope: str, word: str) -> str | None:
    """The rule that one linked library breaks, if any."""
    room = room_of(path)
    if word in TARGET_ROOM:
        if room is None:
            return f"{path} belongs to no room of docs/architecture.md"
        other = TARGET_ROOM[word]
        shared = word in ("mare_agent_wire", "mare_agent_proto") and "grpc" in room.foreign
        if other == room.folder or other in reachable(room) or shared:
            return None
        return f"{target} links {word}: {room.folder} may use only {room.words or 'itself'}"
    for name, (_, libraries) in rooms.FOREIGN.items():
        if word not in libraries:
            continue
        if room is None or name not in room.foreign:
            return f"{target} links {word}: {room.folder if room else path} may not use {name}"
        if scope != "PRIVATE" and (target, word) not in rooms.MAY_BE_PUBLIC:
            return f"{target} links {word} {scope}: foreign libraries are linked PRIVATE"
    return None


def check_cmake(path: str, text: str) -> list[Finding]:
    found = []
    text = re.sub(r"#[^\n]*", "", text)
    for match in LINK.finditer(text):
        scope = "PUBLIC"  # what CMake takes when none is given
        line = text.count("\n", 0, match.start()) + 1
        for word in match[2].split():
            if word in ("PUBLIC", "PRIVATE", "INTERFACE"):
                scope = word
            elif rule := check_link(path, match[1], scope, word):
                found.append(Finding(path, line, rule))
    return found


def document_rooms(text: str) -> dict[str, tuple[int, str]]:
    """Folder -> (line, words) of the document's table of rooms."""
    out: dict[str, tuple[int, str]] = {}
    for number, line in enumerate(text.splitlines(), 1):
        row = TABLE_ROW.match(line)
        if not row or not row[1].strip().startswith("`"):
            continue
        folders = re.findall(r"`([^`]+)`", row[1])
        if "/" in folders[0]:
            base = folders[0].rsplit("/", 1)[0]
        else:
            base = ""
        for folder in folders:
            full = folder if "/" in folder or not base else f"{base}/{folder}"
            full = "hypervisor" if full == "hypervisor/driver.h" else full
            out[full] = (number, row[4].strip())
    return out


def check_document(root: pathlib.Path) -> list[Finding]:
    path = "docs/architecture.md"
    text = (root / path).read_text(encoding="utf-8")
    section = text.split("## Rooms", 1)[-1].split("\n## ", 1)[0]
    offset = text[:text.index(section)].count("\n")
    written = document_rooms(section)
    found = []
    for folder, (line, words) in written.items():
        room = BY_FOLDER.get(folder)
        if room is None:
            found.append(Finding(path, line + offset, f"room {folder} is not in tests/lint/rooms.py"))
        elif room.words != words:
            found.append(Finding(path, line + offset,
                                 f"{folder} may include '{words}'; tests/lint/rooms.py says '{room.words}'"))
    for folder in BY_FOLDER.keys() - written.keys() - rooms.NOT_IN_THE_DOCUMENT:
        found.append(Finding(path, 1, f"room {folder} of tests/lint/rooms.py is not in the table"))
    return found


def check_tree(root: pathlib.Path) -> tuple[list[Finding], int]:
    found = check_document(root)
    looked_at = 0
    for file in common.sources(root):
        path = file.as_posix()
        is_cmake = file.name == "CMakeLists.txt" and not path.startswith("tests/")
        if file.suffix not in common.CODE and not is_cmake:
            continue
        text = common.read(root, file)
        if text is None:
            continue
        looked_at += 1
        found += check_cmake(path, text) if is_cmake else check_code(root, path, text)
    return found, looked_at


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--root", type=pathlib.Path, default=common.ROOT, help="the tree to check")
    root = parser.parse_args().root.resolve()
    return common.finish("include lint", *check_tree(root))


if __name__ == "__main__":
    sys.exit(main())
