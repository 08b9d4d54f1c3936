"""Figures and text of the quick start's report. Pure: values in, values and text out.

Times are seconds. An iteration's start and duration come from rank 0's own clock; `align` puts them on
this machine's clock, on which the migration's times are given.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime
from statistics import median
from typing import Any

ITERATION = re.compile(r"^migtest: iteration=(\d+) start_us=(\d+) duration_us=(\d+)$")
VERDICT = re.compile(r"^migtest: ranks=(\d+) iterations=(\d+) checksum=([0-9a-f]+)(?: verified=(\w+))?")


@dataclass(frozen=True)
class Iteration:
    index: int
    start: float
    duration: float

    @property
    def end(self) -> float:
        return self.start + self.duration


@dataclass(frozen=True)
class Line:
    """A line of the job's output and when it came here."""
    arrived: float
    text: str


def iterations_of(lines: list[Line]) -> list[Iteration]:
    """On rank 0's clock."""
    found = []
    for line in lines:
        match = ITERATION.match(line.text)
        if match:
            index, start, duration = (int(group) for group in match.groups())
            found.append(Iteration(index, start / 1e6, duration / 1e6))
    return found


def verdict_of(lines: list[str]) -> dict[str, Any] | None:
    for text in reversed(lines):
        match = VERDICT.match(text)
        if match:
            ranks, iterations, checksum, verified = match.groups()
            return {"ranks": int(ranks), "iterations": int(iterations), "checksum": checksum,
                    "verified": verified == "yes"}
    return None


def align(lines: list[Line]) -> float | None:
    """This machine's clock minus rank 0's.

    A line arrives after its iteration's end, by how long mared takes to fetch it; the quickest of many is
    nearly right (about 0.1 s too late at most).
    """
    offsets = []
    for line in lines:
        match = ITERATION.match(line.text)
        if match:
            offsets.append(line.arrived - (int(match[2]) + int(match[3])) / 1e6)
    return min(offsets) if offsets else None


def shifted(iterations: list[Iteration], offset: float) -> list[Iteration]:
    return [Iteration(it.index, it.start + offset, it.duration) for it in iterations]


def missing_indices(iterations: list[Iteration], expected: int) -> list[int]:
    return sorted(set(range(1, expected + 1)) - {it.index for it in iterations})


def periods(iterations: list[Iteration]) -> list[tuple[float, float]]:
    """Start of each iteration and the time from there to the next one's start (the last: its duration).

    The distance of starts holds everything: a stall between two iterations is in no duration.
    """
    rows = [(a.start, b.start - a.start) for a, b in zip(iterations, iterations[1:])]
    if iterations:
        rows.append((iterations[-1].start, iterations[-1].duration))
    return rows


def added_job_time(iterations: list[Iteration], begin: float, end: float) -> dict[str, Any] | None:
    """What the migration cost the job.

    The sum, over the iterations that overlap [begin, end], of how much longer they took than the median of
    those that do not. For comparison the same sum over every equally long stretch outside: its spread is
    what a figure without any migration looks like.
    """
    rows = periods(iterations)
    inside = [(start, length) for start, length in rows if start < end and start + length > begin]
    outside = [(start, length) for start, length in rows if start >= end or start + length <= begin]
    if not inside or len(outside) < 5:
        return None
    usual = median(length for _, length in outside)
    span = len(inside)
    sums = []
    for part in (
            [length for start, length in outside if start < begin],
            [length for start, length in outside if start >= end]):
        for at in range(0, len(part) - span + 1):
            sums.append(sum(length - usual for length in part[at:at + span]))
    return {
        "added_job_time_s": sum(length - usual for _, length in inside),
        "iterations_overlapping": span,
        "usual_iteration_s": usual,
        "longest_iteration_s": max(length for _, length in inside),
        "noise_s": [min(sums), max(sums)] if sums else None,
    }


def parse_time(text: str | None) -> float | None:
    if not text:
        return None
    return datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()


# --- text ---------------------------------------------------------------------------------------------


def seconds(value: float | None) -> str:
    if value is None:
        return "unknown"
    if abs(value) < 1:
        return f"{value * 1000:.0f} ms"
    return f"{value:.2f} s" if abs(value) < 10 else f"{value:.1f} s"


def milliseconds(value: float | None) -> str:
    if value is None:
        return "unknown"
    if value < 100:
        return f"{value:.2f} ms" if value < 10 else f"{value:.1f} ms"
    return seconds(value / 1000)


def size(value: float | None) -> str:
    if value is None:
        return "unknown"
    return f"{value / 1048576:.1f} MiB" if value >= 1048576 else f"{value / 1024:.0f} KiB"


def rates(iterations: list[Iteration], begin: float, end: float, columns: int) -> list[float]:
    """Iterations a second in each of `columns` equal slices; one that spans slices counts in shares."""
    width = (end - begin) / columns
    counts = [0.0] * columns
    for start, length in periods(iterations):
        if length <= 0:
            continue
        first = max(0, int((start - begin) / width))
        last = min(columns - 1, int((start + length - begin) / width))
        for column in range(first, last + 1):
            left = begin + column * width
            overlap = min(start + length, left + width) - max(start, left)
            counts[column] += max(0.0, overlap) / length
    return [count / width for count in counts]


def time_line(iterations: list[Iteration], marks: list[tuple[float, float, str]], columns: int = 72,
              rows: int = 8) -> str:
    """Iterations a second over time as bars; `marks` (begin, end, what) stand below."""
    begin, end = iterations[0].start, iterations[-1].end
    width = (end - begin) / columns
    values = rates(iterations, begin, end, columns)
    top = max(values)
    lines = []
    for row in range(rows, 0, -1):
        label = f"{top * row / rows:6.1f}" if row in (rows, rows // 2) else " " * 6
        cells = "".join("#" if value > top * (row - 0.5) / rows else " " for value in values)
        lines.append(f"{label} |{cells}".rstrip())
    lines.append(f"{0:6.1f} +" + "-" * columns)
    scale = [" "] * (columns + 8)
    for share in range(0, 5):
        text = f"{(end - begin) * share / 4:.0f} s"
        at = min(columns * share // 4, columns + 8 - len(text))
        scale[at:at + len(text)] = text
    lines.append(" " * 8 + "".join(scale).rstrip())
    for first, last, what in marks:
        left = min(columns - 1, max(0, int((first - begin) / width)))
        right = min(columns - 1, max(left, int((last - begin) / width)))
        row_text = " " * (8 + left) + "^" * (right - left + 1)
        lines.append(f"{row_text} {what}" if right < columns * 0.6 else
                     f"{' ' * max(0, 7 + left - len(what))}{what} " + "^" * (right - left + 1))
    return "\n".join(lines)


def rounds_table(rounds: list[dict[str, Any]]) -> str:
    lines = [f"    {'round':>5}  {'started':>9}  {'duration':>9}  {'sent':>10}  {'dirty rate':>12}  {'remaining':>10}"]
    for entry in rounds:
        dirty = entry.get("dirty_bytes_per_s") or 0
        lines.append(f"    {entry['index']:>5}  {milliseconds(entry['started_ms']):>9}  "
                     f"{milliseconds(entry['duration_ms']):>9}  {size(entry['sent_bytes']):>10}  "
                     f"{(size(dirty) + '/s') if dirty else '-':>12}  {size(entry['remaining_bytes']):>10}")
    return "\n".join(lines)


def migration_text(migration: dict[str, Any], cost: dict[str, Any] | None) -> str:
    down = migration.get("downtime_ms") or {}
    total = migration.get("total_time_ms")
    lines = [
        f"  {migration['id']}: {migration['vm']} from {migration['source']} to {migration['destination']}",
        rounds_table(migration.get("rounds") or []),
        f"    sent            {size(migration.get('transferred_bytes'))} of a memory of "
        f"{size(migration.get('memory_total_bytes'))}",
        f"    total time      {milliseconds(total)}",
        f"    downtime        {milliseconds(down.get('hypervisor'))} by the hypervisor's count",
        f"                    {milliseconds(down.get('guest'))} lost by the guest's clock",
        f"                    {milliseconds(down.get('peers'))} without an answer to its peers",
    ]
    if cost:
        noise = cost.get("noise_s")
        lines.append(f"    added job time  {seconds(cost['added_job_time_s'])} over "
                     f"{cost['iterations_overlapping']} iterations (usual: {seconds(cost['usual_iteration_s'])}, "
                     f"longest: {seconds(cost['longest_iteration_s'])})")
        if noise:
            lines.append(f"                    for comparison: {seconds(noise[0])} to {seconds(noise[1])} over as many "
                         "iterations without a migration")
    else:
        lines.append("    added job time  unknown: too few iterations")
    delay = migration.get("announce_delay_ms")
    lines.append("    announcement    " + (f"first ARP on the wire {milliseconds(delay)} after the VM ran on "
                                           f"{migration['destination']}, {migration.get('announcements')} frames in all"
                                           if delay is not None else "unknown"))
    return "\n".join(lines)
