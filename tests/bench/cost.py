"""What a move cost its job, by when its iterations end, or begin. Pure: values in, values out."""

from __future__ import annotations

import dataclasses

#: After a move TCP still waits for its timers: what they cost is the move's, too.
SETTLE_S = 2.0
#: By a job whose pace changed by more than this over the move, its cost is not told.
MOST_NOISE_S = 1.0
#: Iterations in a quiet stretch: with fewer there is no usual length.
FEWEST = 3


@dataclasses.dataclass(frozen=True)
class Cost:
    """All in seconds."""

    added: float
    #: How far `added` may be wrong, since the job was not equally quick before and after.
    noise: float
    usual: float  # of an iteration

    def tells(self) -> bool:
        """Whether the job kept its pace well enough for what a move took to be seen at all."""
        return self.noise <= MOST_NOISE_S


@dataclasses.dataclass(frozen=True)
class Told:
    """A line that tells of an iteration, written at its end."""

    arrived: float  # this machine's clock
    start: float  # the clock of the VM that wrote it
    end: float


def starts_across(told: list[Told], begun: float, ended: float, quiet_s: float) -> list[float]:
    """Starts of iterations on this machine's clock, around a move of the VM that told them.

    Starts, since a program that waits for a clock keeps these, however long its work takes. The VM's clock stands still
    with it, so the quickest line before tells how it went then and the quickest after how it goes since. In between a line
    counts as of when it came.
    """
    # Not a line of before the quiet stretch: the VM may have stood still there, and its clock with it.
    before = [one for one in told if begun - quiet_s <= one.arrived <= begun]
    within = [one.arrived for one in told if begun < one.arrived <= ended]
    after = [one for one in told if ended < one.arrived <= ended + quiet_s + 2 * SETTLE_S]
    starts = list(within)
    for part in (before, after):
        offset = min((one.arrived - one.end for one in part), default=0.0)
        starts += [one.start + offset for one in part]
    return sorted(starts)


def added_job_time(ends: list[float], begun: float, ended: float, quiet_s: float, switched: float | None = None) -> Cost | None:
    """What the job did not do from its last iteration before the move to one well after it, at its usual pace.

    Both times are ends of iterations (or starts, all of them), so no part of one is counted wrong. The usual pace is that of the quiet
    stretches of `quiet_s` before and after; where it is known when the VM `switched`, that of before holds until then and
    that of after from then on: two emulators of one guest differ by some percent, which is nothing that a move of 40 s
    takes from the job. None: too few iterations there.
    """
    before = [end for end in ends if begun - quiet_s <= end <= begun]
    after = [end for end in ends if ended + SETTLE_S <= end <= ended + SETTLE_S + quiet_s]
    if len(before) <= FEWEST or len(after) <= FEWEST:
        return None
    first, last = before[-1], after[0]
    iterations = sum(1 for end in ends if first < end <= last)
    paces = [(part[-1] - part[0]) / (len(part) - 1) for part in (before, after)]
    usual = (before[-1] - before[0] + after[-1] - after[0]) / (len(before) + len(after) - 2)
    if switched is None:
        return Cost(last - first - iterations * usual, iterations * abs(paces[0] - paces[1]) / 2, usual)
    there = sum(1 for end in ends if first < end <= switched)
    done = there * paces[0] + (iterations - there) * paces[1]
    return Cost(last - first - done, 0.0, usual)
