#!/usr/bin/python3
"""Checks that C and C++ are formatted by the repository's .clang-format. --fix formats them."""

from __future__ import annotations

import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import common
from common import Finding

# Versions differ in what they make of the same style: this one is Debian 12's.
PROGRAM = "clang-format-14"
COMPLAINT = re.compile(r"^(.*?):(\d+):\d+: error: ")
BATCH = 12


def check_batch(root: pathlib.Path, batch: list[str]) -> list[Finding]:
    done = subprocess.run([PROGRAM, "--dry-run", "-Werror", *batch], cwd=root, capture_output=True,
                          text=True, check=False)
    found: dict[str, Finding] = {}
    for line in done.stderr.splitlines():
        if match := COMPLAINT.match(line):
            rule = f"not formatted: {PROGRAM} -i {match[1]}"
            found.setdefault(match[1], Finding(match[1], int(match[2]), rule))
    if done.returncode != 0 and not found:
        raise SystemExit(f"{PROGRAM} failed: {done.stderr.strip()}")
    return list(found.values())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--root", type=pathlib.Path, default=common.ROOT, help="the tree to check")
    parser.add_argument("--fix", action="store_true", help="format instead of complaining")
    options = parser.parse_args()
    root = options.root.resolve()
    if not shutil.which(PROGRAM):
        print(f"format lint: {PROGRAM} is missing: apt-get install {PROGRAM}", file=sys.stderr)
        return 1
    files = [file.as_posix() for file in common.sources(root) if file.suffix in common.CODE]
    if options.fix:
        return subprocess.run([PROGRAM, "-i", *files], cwd=root, check=False).returncode
    batches = [files[i:i + BATCH] for i in range(0, len(files), BATCH)]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        found = [finding for part in pool.map(lambda b: check_batch(root, b), batches) for finding in part]
    return common.finish("format lint", found, len(files))


if __name__ == "__main__":
    sys.exit(main())
