"""The one place of the lab's tests that waits: for a condition, never for time."""

from __future__ import annotations

import time
from typing import Callable, TypeVar

T = TypeVar("T")

# Emulated guests on two busy cores: far above what anything takes when all is well.
PATIENCE_S = 240.0


def wait_until(look: Callable[[], T | None], what: str, patience_s: float = PATIENCE_S, period_s: float = 0.1) -> T:
    """Looks until there is something to see, and gives that; says what it waited for when it gives up."""
    deadline = time.monotonic() + patience_s
    while True:
        seen = look()
        if seen:
            return seen
        if time.monotonic() > deadline:
            raise AssertionError(f"still not after {patience_s:.0f} s: {what}")
        time.sleep(period_s)


def holds_for(look: Callable[[], bool], what: str, seconds: float, period_s: float = 0.2) -> None:
    """Looks again and again for a while: for what must not happen."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if not look():
            raise AssertionError(f"did not hold for {seconds:.0f} s: {what}")
        time.sleep(period_s)
