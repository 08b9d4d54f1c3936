"""A campaign of kills, drawn ahead from a seed, and what came of it. Pure: values in, values out."""

from __future__ import annotations

import dataclasses
import random
from typing import Any, Iterable

from bars import at_least, at_most, exactly, figures, worst_median
from calm import LOAD_LIMIT

Json = Any
Row = dict[str, Any]

VM, HOST, CUT, AGENT, GUARDS, FROZEN, MARED = "vm", "host", "cut", "agent", "guards", "frozen", "mared"
#: What is killed, and what that is called in reports.
KINDS = {VM: "a VM's QEMU", HOST: "a host: its QEMUs, agent and watchdog", CUT: "a host's network", AGENT: "a host's agent alone",
         GUARDS: "a host's agent and watchdog, its QEMUs not", FROZEN: "a host stands still for 8 s, then goes on",
         MARED: "mared, while it recovers from the kill of a VM"}
WORK, CHECKPOINT, RESTART = "work", "checkpoint", "restart"
#: And when: between two checkpoints, while one is taken, while the job is on its way back from an earlier kill.
MOMENTS = (WORK, CHECKPOINT, RESTART)
#: Those that strike a host.
OF_A_HOST = (HOST, CUT, AGENT, GUARDS, FROZEN)
#: States of checkpoint.restore in which the second kill may come, in their order.
RESTORING = ("Clearing", "Loading", "Resuming")

DETECTION_S, RECOVERY_S, SAVED_AT_90 = 2.0, 10.0, 44.0
#: Of the run, in percent, when the curve's failures come.
FRACTIONS = (10, 30, 50, 70, 90)


@dataclasses.dataclass(frozen=True)
class Kill:
    """One kill of the campaign."""

    number: int
    kind: str
    moment: str
    #: Rank whose VM, or whose VM's host, it is; and that of the kill before it, where there is one.
    rank: int
    first_rank: int
    #: 0 to 1: of an interval after a checkpoint, or of LATE_S after the beginning of one.
    when: float
    #: Of RESTORING, for a kill during a restart.
    state: str

    @property
    def key(self) -> str:
        return f"kill-{self.number}"

    @property
    def is_second(self) -> bool:
        """It comes while the job recovers from the kill of a VM."""
        return self.moment == RESTART or self.kind == MARED

    def words(self) -> str:
        return f"{self.kind} during {self.moment}" + (f" ({self.state})" if self.moment == RESTART else "")


def plan(kills: int, ranks: int, seed: int) -> list[Kill]:
    """Every seven have each kind once, every 21 each kind at each moment; a longer plan begins with the shorter one."""
    chance = random.Random(seed)
    found: list[Kill] = []
    while len(found) < kills:
        moments = {kind: chance.sample(MOMENTS, len(MOMENTS)) for kind in KINDS}
        for turn in range(len(MOMENTS)):
            for kind in chance.sample(list(KINDS), len(KINDS)):
                found.append(Kill(len(found) + 1, kind, moments[kind][turn], chance.randrange(ranks), chance.randrange(ranks),
                                  round(chance.random(), 3), chance.choice(RESTORING)))
    return found[:kills]


# --- what the job printed -------------------------------------------------------------------------


def common(first: list[str], second: list[str]) -> int:
    """How many lines two outputs have in common from their beginning on."""
    count = 0
    for one, other in zip(first, second):
        if one != other:
            break
        count += 1
    return count


class Progress:
    """A job's lines, looked at again and again. Each tells when it began to the microsecond, so no line of a life that
    was undone is like one of the next: what both have in common is what the checkpoint held."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._looks: list[tuple[float, int, str]] = []

    def look(self, at: float, lines: list[str]) -> None:
        last = lines[-1] if lines else ""
        if not self._looks or self._looks[-1][1:] != (len(lines), last):
            self._looks.append((at, len(lines), last))
        self.lines = lines

    def advanced(self, since: float, held: int) -> float | None:
        """When a line of what is there at the end was first seen beyond the first `held`; None: never."""
        for at, count, last in self._looks:
            if at > since and held < count <= len(self.lines) and self.lines[count - 1] == last:
                return at
        return None


# --- what mared told ------------------------------------------------------------------------------


def detected_at(events: Iterable[Json], moment: Any, since: float, job: str, vms: Iterable[str], hosts: Iterable[str]) -> float | None:
    """When mared first told that something had gone: a VM failed or lost, a host down, or the job's recovery.

    `moment` makes seconds of an event's time. Of what happened since a kill of `vms` and `hosts`.
    """
    vms, hosts = set(vms), set(hosts)
    found = []
    for event in events:
        kind, subject, data = event["type"], event["subject"], event["data"]
        tells = (kind == "vm.state" and subject in vms and data["state"] in ("failed", "lost")) or \
                (kind == "host.state" and subject in hosts and data["health"] == "down") or \
                (kind == "operation.created" and data["kind"] == "recovery.run" and data["target"] == job)
        if tells and moment(event["at"]) >= since:
            found.append(moment(event["at"]))
    return min(found, default=None)


# --- results --------------------------------------------------------------------------------------


def quiet(rows: list[Row]) -> list[Row]:
    return [row for row in rows if row["load"] <= LOAD_LIMIT]


def by(rows: list[Row], name: str, group: str) -> dict[str, list[float | None]]:
    """Of those that survived on a quiet machine."""
    groups: dict[str, list[float | None]] = {}
    for row in quiet(rows):
        if row["survived"]:
            groups.setdefault(row[group], []).append(row[name])
    return groups


def groups_of(rows: list[Row], group: str, names: Iterable[str]) -> list[Row]:
    found = []
    for name in names:
        mine = [row for row in rows if row[group] == name]
        counted = [row for row in quiet(mine) if row["survived"]]
        if mine:
            found.append({group: name, "kills": len(mine), "survived": sum(row["survived"] for row in mine),
                          **{key: figures([row[key] for row in counted]) for key in ("detection_s", "recovery_s", "redone_s")}})
    return found


def saved(total_s: float, rerun_s: float) -> float:
    """Percent of a re-run's time."""
    return 100 * (1 - total_s / rerun_s)


def curve_of(plain: Row | None, rows: list[Row]) -> list[Row]:
    """Total time with checkpoints against that of a run from the start again.

    The re-run is the best there can be: it begins at the moment of the failure, with nothing lost on the way, and takes as
    long as a run without checkpoints and without a failure. Then f / (1 + f) of it can be saved at the most.
    """
    found = []
    for row in sorted(rows, key=lambda one: one["percent"]):
        good = plain is not None and plain["survived"] and row["survived"]
        rerun = plain["total_s"] * (1 + row["share"]) if good and plain else None
        found.append({**row, "load": max(row["load"], plain["load"] if plain else 0), "rerun_s": rerun,
                      "saved_percent": saved(row["total_s"], rerun) if rerun else None,
                      "possible_percent": 100 * row["share"] / (1 + row["share"])})
    return found


def saved_at(curve: list[Row], percent: int) -> float | None:
    return next((row["saved_percent"] for row in curve if row["percent"] == percent and row["load"] <= LOAD_LIMIT), None)


def results_of(kills: list[Row], plain: Row | None, failures: list[Row], wanted: int) -> Row:
    """`results`, `baselines`, `limits` and `bars` of the bench's object."""
    curve = curve_of(plain, failures)
    survived = sum(row["survived"] for row in kills)
    doubled = sum(len(row["doubled"]) for row in [*kills, *failures, *([plain] if plain else [])])
    return {
        "results": {"kills": len(kills), "survived": survived, "dropped_for_load": len(kills) - len(quiet(kills)),
                    "by_kind": groups_of(kills, "kind", KINDS), "by_moment": groups_of(kills, "moment", MOMENTS),
                    "detection_s": figures([row["detection_s"] for row in quiet(kills) if row["survived"]]),
                    "recovery_s": figures([row["recovery_s"] for row in quiet(kills) if row["survived"]]),
                    "redone_s": figures([row["redone_s"] for row in quiet(kills) if row["survived"]]),
                    "looks": sum(row["looks"] for row in kills), "curve": curve, "rows": kills},
        "baselines": {"run_s": plain["total_s"] if plain else None,
                      "rerun": "run_s x (1 + the share that was done): a re-run that begins at the moment of the failure"},
        "limits": {"saved_at_90": {"value": 100 * 0.9 / 1.9, "unit": "%", "arithmetic": "0.9 / 1.9: nothing done twice, nothing waited for"}},
        "bars": {
            "doubled": exactly(doubled, 0, "count"),
            # Of kills, or a curve, that were not asked for there is nothing to say.
            **({"kills_survived": exactly(survived, wanted, "count"),
                "detection_s": at_most(worst_median(by(kills, "detection_s", "kind")), DETECTION_S, "s"),
                "recovery_s": at_most(worst_median(by(kills, "recovery_s", "kind")), RECOVERY_S, "s")} if wanted else {}),
            **({"saved_at_90": at_least(saved_at(curve, 90), SAVED_AT_90, "%")} if any(row["percent"] == 90 for row in failures) else {}),
        },
    }
