"""From the request for a VM to its guest's answer: clones against boots, one at a time and several at once, and what an
idle clone takes of its host's memory. And what a pool that follows a figure is worth to a job (ruled.py)."""

from __future__ import annotations

import argparse
import datetime
import pathlib
import re
import statistics
import subprocess
import sys
import time
from typing import Any

import ruled
from lib.cluster import Cluster, kill
from lib.waiting import holds_for, wait_until

POOL = "grow"
MEMORY_MIB = 256
SETTLE_S = 10.0
CLONE_S = 1.0
CLONE_PSS_MIB = 64


def say(words: str) -> None:
    print(f"grow: {words}", file=sys.stderr, flush=True)


def moment(text: str) -> float:
    return datetime.datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()


def start_of(cluster: Cluster, vm: str) -> tuple[float, str]:
    """Seconds from the request to the guest's answer, and how it came to run."""
    starts = [one for one in cluster.items("operations?limit=500")
              if one["kind"] == "vm.start" and one["target"] == vm]
    newest = max(starts, key=lambda one: moment(one["created"]))
    how = " ".join(line["detail"] or "" for line in cluster.items(f"operations/{newest['id']}/events"))
    return moment(newest["ended"]) - moment(newest["created"]), "clone" if "as a clone" in how else "boot"


def grow(cluster: Cluster, pool: str, before: int, after: int) -> dict[str, Any]:
    began = time.monotonic()
    cluster.finish(cluster.submit("PATCH", f"pools/{pool}", {"size": after}))
    whole = time.monotonic() - began
    starts = [start_of(cluster, f"{pool}-{index}") for index in range(before, after)]
    return {"vms": after - before, "pool_s": round(whole, 3), "each_s": [round(each, 3) for each, _ in starts],
            "how": sorted({how for _, how in starts})}


def pss_mib(cluster: Cluster, vm: str) -> float:
    pid = next(one["pid"] for host in cluster.status()["hosts"] for one in host["vms"] if one["name"] == vm)
    found = re.search(r"^Pss:\s+(\d+) kB", pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text(), re.MULTILINE)
    if not found:
        raise AssertionError(f"the kernel does not tell what QEMU of {vm} takes")
    return int(found[1]) / 1024


def idle(cluster: Cluster, vm: str) -> None:
    holds_for(lambda: cluster.get(f"vms/{vm}")["state"] == "running", f"{vm} runs and has nothing to do", SETTLE_S, 1)


def warm(cluster: Cluster, hosts: int) -> None:
    """One VM on each host boots; then every host makes its template."""
    cluster.ensure_pool(POOL, 1, memory_mib=MEMORY_MIB)

    def all_clones() -> bool:
        cluster.finish(cluster.submit("PATCH", f"pools/{POOL}", {"size": 1}))
        return grow(cluster, POOL, 1, 1 + 2 * hosts)["how"] == ["clone"]
    wait_until(all_clones, "templates on all hosts", 180)
    cluster.finish(cluster.submit("PATCH", f"pools/{POOL}", {"size": 1}))


def switches(help_text: str) -> tuple[list[str], list[str]]:
    """Options of mared, as it lists them itself, that have VMs start as clones, and that have them boot. Either may be
    its default, and then there may be no option for it."""
    offered = set(re.findall(r"--[a-z][a-z-]*", help_text))
    return [one for one in ("--clones",) if one in offered], [one for one in ("--no-clones",) if one in offered]


class Mared:
    """mared with options of the bench, in the place of the lab's."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        said = subprocess.run([cluster.program("mared"), "--help"], capture_output=True, text=True, timeout=60, check=False)
        self.clones, self.boots = switches(said.stdout + said.stderr)
        cluster.kill_mared()
        self._process: "subprocess.Popen[bytes] | None" = None

    def start(self, options: list[str]) -> None:
        self.stop()
        self._process = self._cluster.start_mared_with("", *options)
        if self._process.poll() is not None:
            raise AssertionError(f"mared {' '.join(options)} ended at once with {self._process.returncode}: see its log")

    def stop(self) -> None:
        if self._process:
            kill(self._process)


def run(cluster: Cluster, options: argparse.Namespace) -> dict[str, Any]:
    repeats = 2 if options.quick else max(5, options.repeat)
    several = 4 if options.quick else 8
    mared = Mared(cluster)
    try:
        mared.start(mared.clones)
        say("templates")
        warm(cluster, len(cluster.hosts))
        found = measured(cluster, repeats, several)
        rows = by_rule(cluster, mared, 1 if options.quick else 3, several)
        found["setup"] |= {"rule": ruled.RULE, "program": ruled.WORK, "started_with": {"clones": mared.clones, "boots": mared.boots}}
        ruled.add_to(found, rows)
        cluster.delete_pool(POOL)
        return found
    finally:
        mared.stop()
        cluster.start_mared()


def by_rule(cluster: Cluster, mared: Mared, turns: int, several: int) -> list[ruled.Row]:
    """Boots and clones by turns, one VM and several in each."""
    rows: list[ruled.Row] = []
    for turn in range(turns):
        # No host has a template of that size: where clones can't be turned off they boot all the same.
        cold = f"cool-{turn}"
        mared.start(mared.boots)
        cluster.ensure_pool(cold, 1, memory_mib=MEMORY_MIB - 16 - turn)
        for wanted, pool in (("boot", cold), ("clone", POOL)):
            if wanted == "clone":
                cluster.delete_pool(cold)
                mared.start(mared.clones)
            with ruled.Rule(cluster, pool, 1 + several) as rule:
                for count in (1, several):
                    row = rule.grow_and_shrink(count)
                    kinds = {start_of(cluster, vm)[1] for vm in row["vms"]}
                    rows.append({"wanted": wanted, "kinds": sorted(kinds), **row})
                    say(f"by a rule, {turn + 1} of {turns}: {count} {wanted}: {row['grow_s']:.2f} s until ranks work there, "
                        f"{row['shrink_s']:.2f} s until they are gone")
    return rows


def measured(cluster: Cluster, repeats: int, several: int) -> dict[str, Any]:
    ones, boots, pss = [], [], []
    for turn in range(repeats):
        # A size that no host has a template of: that VM boots.
        cold = f"cold-{turn}"
        cluster.finish(cluster.submit("POST", "pools", {"id": cold, "image": cluster.image, "size": 1,
                                                        "memory_mib": MEMORY_MIB - 1 - turn}))
        boots.append(start_of(cluster, f"{cold}-0")[0])
        cluster.delete_pool(cold)
        wait_until(lambda: not cluster.templates_in_the_making(), "a template of that size", 120)
        ones.append(grow(cluster, POOL, 1, 2))
        idle(cluster, f"{POOL}-1")
        pss.append(pss_mib(cluster, f"{POOL}-1"))
        cluster.finish(cluster.submit("PATCH", f"pools/{POOL}", {"size": 1}))
        say(f"{turn + 1} of {repeats}: clone {ones[-1]['each_s'][0]} s, boot {boots[-1]:.2f} s, {pss[-1]:.0f} MiB")
    many = grow(cluster, POOL, 1, 1 + several)
    idle(cluster, f"{POOL}-{several}")
    many["pss_mib"] = [round(pss_mib(cluster, f"{POOL}-{index}"), 1) for index in range(1, 1 + several)]
    cluster.finish(cluster.submit("PATCH", f"pools/{POOL}", {"size": 1}))
    clone_s = round(statistics.median(one["each_s"][0] for one in ones), 3)
    clone_pss = round(statistics.median(pss), 1)
    return {
        "setup": {"memory_mib": MEMORY_MIB, "vcpus": 1, "hosts": len(cluster.hosts), "repeats": repeats,
                  "order": "boot, clone, boot, clone, ..."},
        "results": {"one": ones, "one_pss_mib": [round(value, 1) for value in pss], "several": many},
        "baselines": {"boot_s": [round(value, 3) for value in boots],
                      "boot_s_median": round(statistics.median(boots), 3)},
        "bars": {
            "clone_s": {"value": clone_s, "bar": CLONE_S, "unit": "s", "holds": clone_s <= CLONE_S},
            "clone_pss_mib": {"value": clone_pss, "bar": CLONE_PSS_MIB, "unit": "MiB",
                              "holds": clone_pss <= CLONE_PSS_MIB},
        },
    }
