#!/usr/bin/python3
"""Bans words: reading the time or waiting behind the clock's back, chance without a seed, names of
one machine or one registry, files that grew past their limit."""

from __future__ import annotations

import argparse
import dataclasses
import pathlib
import re
import sys

import common
from common import Finding


@dataclasses.dataclass(frozen=True)
class Ban:
    """A pattern, where it counts, where it does not, and what to do instead."""

    pattern: re.Pattern[str]
    suffixes: frozenset[str]
    rule: str
    under: tuple[str, ...] = ("",)
    allowed: tuple[str, ...] = ()

    def covers(self, path: str) -> bool:
        file = pathlib.PurePosixPath(path)
        suffix = file.suffix or "(script)"
        inside = suffix in self.suffixes and path.startswith(self.under)
        return inside and not (self.allowed and path.startswith(self.allowed))


CPP = frozenset({".h", ".cpp"})
ANY = frozenset({".h", ".cpp", ".c", ".py", ".sh", ".md", ".txt", ".cmake", ".json", ".proto", "(script)"})
PYTHON = frozenset({".py", "(script)"})
CORE = ("orchestrator/core/",)
GUEST = ("images/",)  # plain C that runs in VMs, where core is not

BANS = (
    Ban(re.compile(r"\b(?:system|steady|high_resolution|utc|file)_clock\b"), CPP,
        "pass a Clock& (orchestrator/core/clock.h)", allowed=CORE),
    Ban(re.compile(r"\b(?:clock_gettime|gettimeofday|localtime|clock_nanosleep)\b|\btime\((?:nullptr|NULL|0|&)"),
        CPP, "pass a Clock& (orchestrator/core/clock.h)", allowed=CORE + GUEST),
    Ban(re.compile(r"\bthis_thread::sleep_|\b(?:usleep|nanosleep)\b|(?<![\w.>:])sleep\("), CPP,
        "wait by Clock::sleep_for or for an event", allowed=CORE + GUEST),
    Ban(re.compile(r"\brandom_device\b|\bmt19937|\bstd::rand\b|(?<![\w.>:])s?rand\("), CPP,
        "pass an Rng& (orchestrator/core/rng.h)", allowed=CORE),
    Ban(re.compile(r"\bthrow\b(?!\s*\()"), CPP, "our code does not throw: return a Result",
        allowed=("tests/", "rest/server/cpprest_server.cpp")),
    Ban(re.compile(r"\bstd::w?s?regex|#\s*include\s*<regex>"), CPP,
        "g++ 12 takes it for uninitialized under the address sanitizer, which is an error: split the text"),
    # Tests wait for conditions; the one loop that may wait is the helper of each suite.
    Ban(re.compile(r"\btime\.sleep\("), PYTHON,
        "wait for a condition by the suite's wait_until, not for time",
        under=("tests/",), allowed=("tests/guest/harness.py", "tests/lab/lib/waiting.py", "tests/lint/")),
    Ban(re.compile(r"(?<![\w./-])/(?:home/|work/|Users/|tmp/w/|root/(?=\.|mare|src))[\w.-]+"), ANY,
        "a path of one machine", allowed=("tests/lint/",)),
    Ban(re.compile(r"\b(?:deb|security|snapshot|archive|ftp)\.(?:debian|ubuntu)\.(?:org|com)\b|\bpypi\.org\b|"
                   r"\bregistry\.npmjs\.org\b|\bproxy\.golang\.org\b|\bdocker\.io\b|\bcrates\.io\b"), ANY,
        "a registry's host name: take what the machine is configured with", allowed=("tests/lint/",)),
    Ban(re.compile(r"\bXXX\b|\bFIXME\b|\bTODO\b"), ANY, "finish it, or write down why not",
        allowed=("tests/lint/",)),
)

# House style: 400 lines are typical, past 800 there is a second noun in it.
MOST_LINES = 800
# C++ is for the format lint to break, which leaves texts alone; for the rest this is where it gets unreadable.
COLUMNS = {".py": 160, "(script)": 160}
SIZED = common.CODE | COLUMNS.keys()


def is_comment(line: str, suffix: str) -> bool:
    """A comment may name what it warns of; only code does it."""
    text = line.strip()
    return text.startswith(("//", "*", "/*")) if suffix in common.CODE else text.startswith("#")


def check_text(path: str, text: str) -> list[Finding]:
    suffix = pathlib.PurePosixPath(path).suffix or "(script)"
    if suffix == "(script)" and not text.startswith("#!"):
        return []
    found = []
    lines = text.splitlines()
    bans = [ban for ban in BANS if ban.covers(path)]
    for number, line in enumerate(lines, 1):
        for ban in bans:
            everywhere = ban.suffixes is ANY
            if (everywhere or not is_comment(line, suffix)) and (hit := ban.pattern.search(line)):
                found.append(Finding(path, number, f"'{hit[0].strip()}': {ban.rule}"))
        most = COLUMNS.get(suffix)
        if most and len(line) > most:
            found.append(Finding(path, number, f"{len(line)} columns: at most {most}"))
    if suffix in SIZED and len(lines) > MOST_LINES:
        found.append(Finding(path, MOST_LINES + 1,
                             f"{len(lines)} lines: at most {MOST_LINES}; find the second noun in it"))
    return found


def check_tree(root: pathlib.Path) -> tuple[list[Finding], int]:
    found: list[Finding] = []
    looked_at = 0
    for file in common.sources(root):
        text = common.read(root, file)
        if text is None:
            continue
        looked_at += 1
        found += check_text(file.as_posix(), text)
    return found, looked_at


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--root", type=pathlib.Path, default=common.ROOT, help="the tree to check")
    return common.finish("words lint", *check_tree(parser.parse_args().root.resolve()))


if __name__ == "__main__":
    sys.exit(main())
