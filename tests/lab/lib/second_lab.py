"""A small lab beside that of the tests, for options that only some of them need."""

from __future__ import annotations

import os
import pathlib
import subprocess

from lib.cluster import ROOT, Cluster

OPTIONS = {"--name": "mtwo", "--subnet": "10.79.0.0/16", "--rest-port": "7479", "--hosts": "2", "--memory-mib": "2048"}
# libvirt looks at the emulators once, up to a minute on a busy machine.
PATIENCE_S = 300


def state_of(main: pathlib.Path) -> pathlib.Path:
    """Where it is, beside the lab of the tests in that directory."""
    return main.with_name(main.name + "-second")


def bring_up(*options: str) -> Cluster:
    """A new one. What an earlier run left of it is cleared away; what the first one knows of the emulators is taken over."""
    end()
    cache, state = main_state() / "cache", state_of(main_state())
    if cache.is_dir():
        state.mkdir(parents=True, exist_ok=True)
        subprocess.run(["cp", "-a", str(cache), str(state)], check=True, stdin=subprocess.DEVNULL)
    words = [word for pair in OPTIONS.items() for word in pair]
    try:
        lab("up", *words, *options, "--bin", os.environ["MARE_TEST_BUILD"])
    except AssertionError:
        end()
        raise
    return Cluster(state)


def end() -> None:
    """With all that it left. None: nothing to do."""
    lab("down", "--purge")


def main_state() -> pathlib.Path:
    return pathlib.Path(os.environ["MARE_LAB_STATE"])


def lab(verb: str, *words: str) -> None:
    argv = [str(ROOT / "hypervisor/lab/mare-lab"), verb, "--state", str(state_of(main_state())), *words]
    try:
        done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    except subprocess.TimeoutExpired as late:
        raise AssertionError(f"the second lab: {verb} did not end within {PATIENCE_S} s") from late
    if done.returncode != 0:
        raise AssertionError(f"the second lab: {verb} ended with {done.returncode}: {done.stderr.strip()}")
