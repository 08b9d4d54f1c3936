"""A pool that follows a figure: from the figure that makes its rule fire to ranks at work on the new VMs, and from the
end of the last of these ranks to their VMs being gone.

The pool's first VM has a rank all the time. Jobs of one rank each wait in the queue for the VMs that are to come. A rank
tells by files in its job's directory, which are on this machine as soon as they are made: its output is fetched
twice a second only. That a VM is gone is asked of the kernel.
"""

from __future__ import annotations

import os
import pathlib
import statistics
import time
from typing import Any

from lib.cluster import Cluster, Json
from lib.waiting import wait_until

Row = dict[str, Any]
RULE: dict[str, Any] = {"source": "posted", "total": True, "target": 1, "tolerance": 0, "min": 1, "down": {"stabilisation_s": 0}}
WORK = "writer --pattern idle --size-mib 4 --rate-mib 1 --period-ms 500 --seconds 100000 --until enough"
#: `began`: an iteration of an MPI program has been printed. `ended`: its rank has left MPI and exited.
SCRIPT = f'{WORK} | {{ read -r first && : > began && echo "$first"; cat; }}; : > ended'
LOOK_S = 0.01
GROW_S = 3.0
SHRINK_S = 1.0


def lives(pid: int) -> bool:
    """A process that nobody has waited for yet is none."""
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


class Rule:
    """While it is entered, the pool follows the figure, from 1 VM to `most`. It must have one VM."""

    def __init__(self, cluster: Cluster, pool: str, most: int) -> None:
        self.cluster, self.pool, self.most = cluster, pool, most
        self._holder = ""

    def __enter__(self) -> "Rule":
        self._holder = self._submit()
        self._see([self._holder], "began")
        self._set("PUT", "autoscale", RULE | {"max": self.most})
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is None:
            self._set("DELETE", "autoscale")
            self._enough(self._holder)
            self._wait_success([self._holder])

    def grow_and_shrink(self, count: int) -> Row:
        """By `count` VMs, which are its last ones then, and back to one. Times are seconds."""
        load = os.getloadavg()[0]
        jobs = [self._submit() for _ in range(count)]
        fired = time.time()
        self._set("POST", "metrics", {"value": 1 + count})
        worked = self._see(jobs, "began")
        vms = sorted(self.cluster.get(f"jobs/{job}")["vms"][0] for job in jobs)
        if vms != (new := sorted(f"{self.pool}-{index}" for index in range(1, 1 + count))):
            raise AssertionError(f"{jobs} ran on {vms}, not on the new VMs {new}")
        self._settle(1 + count)
        pids = [one["pid"] for host in self.cluster.status()["hosts"] for one in host["vms"] if one["name"] in vms]
        if len(pids) != count:
            raise AssertionError(f"{count} new VMs have {len(pids)} QEMUs")
        for job in jobs:
            self._enough(job)
        left = max(self._see(jobs, "ended").values())
        self._wait_success(jobs)
        over = time.time()
        self._set("POST", "metrics", {"value": 1})
        wait_until(lambda: not any(lives(pid) for pid in pids), f"{vms} are gone", period_s=LOOK_S)
        gone = time.time()
        self._settle(1)
        return {"count": count, "vms": vms, "load": max(load, os.getloadavg()[0]), "grow_s": max(worked.values()) - fired,
                "first_rank_s": min(worked.values()) - fired, "shrink_s": gone - left, "jobs_end_s": over - left,
                "vms_end_s": gone - over}

    def _submit(self) -> str:
        body = {"pool": self.pool, "command": ["sh", "-c", SCRIPT], "ranks": 1}
        return self.cluster.submit("POST", "jobs", body)["target"]

    def _set(self, method: str, what: str, body: Json = None) -> None:
        answer = self.cluster.api(method, f"pools/{self.pool}/{what}", body)
        if answer.status != 200:
            raise AssertionError(f"{method} pools/{self.pool}/{what}: {answer.status} {answer.body}")

    def _directory(self, job: str) -> pathlib.Path:
        return self.cluster.state / "jobs" / job

    def _enough(self, job: str) -> None:
        (self._directory(job) / "enough").touch()

    def _see(self, jobs: list[str], file: str) -> dict[str, float]:
        """When each job's file was there."""
        seen: dict[str, float] = {}

        def look() -> bool:
            for job in jobs:
                if job not in seen and (self._directory(job) / file).exists():
                    seen[job] = time.time()
            return len(seen) == len(jobs)
        wait_until(look, f"{', '.join(jobs)} made '{file}'", period_s=LOOK_S)
        return seen

    def _wait_success(self, jobs: list[str]) -> None:
        def look() -> bool:
            rows = {row["id"]: row for row in self.cluster.items(f"jobs?pool={self.pool}&limit=200")}
            bad = [row for job, row in rows.items() if job in jobs and row["state"] in ("failed", "cancelled")]
            if bad:
                raise AssertionError(f"{bad[0]['id']} {bad[0]['state']}: {bad[0]['reason']}")
            return all(job in rows and rows[job]["state"] == "succeeded" for job in jobs)
        wait_until(look, f"{', '.join(jobs)} succeeded", period_s=0.05)
        for job in jobs:
            if "verified=yes" not in self.cluster.mare("job", "output", job).stdout:
                raise AssertionError(f"{job} did not end right: {self.cluster.get(f'jobs/{job}')}")

    def _settle(self, size: int) -> None:
        """The pool has that size, and nothing changes it any more."""
        def look() -> bool:
            operation = self.cluster.get(f"pools/{self.pool}/autoscale")["operation"]
            return self.cluster.get(f"pools/{self.pool}")["size"] == size and bool(operation) and \
                self.cluster.get(f"operations/{operation}")["outcome"] == "succeeded"
        wait_until(look, f"pool '{self.pool}' has {size} VMs", period_s=0.2)


def middles(rows: list[Row], wanted: str) -> dict[str, dict[str, float]]:
    """Medians of the rows whose VMs all started in the wanted way, by how many VMs came."""
    kept = [row for row in rows if row["wanted"] == wanted and row["kinds"] == [wanted]]
    return {str(count): {name: round(statistics.median(row[name] for row in kept if row["count"] == count), 3)
                         for name in ("grow_s", "first_rank_s", "shrink_s", "jobs_end_s", "vms_end_s")}
            for count in sorted({row["count"] for row in kept})}


def add_to(found: dict[str, Any], rows: list[Row]) -> None:
    """Puts them into the bench's results, with bars for one VM and for the most."""
    clones, boots = middles(rows, "clone"), middles(rows, "boot")
    dropped = sum(row["kinds"] != [row["wanted"]] for row in rows)
    found["results"]["by_rule"] = {"rows": rows, "dropped": dropped, "clones": clones}
    found["baselines"]["by_rule"] = {"boots": boots}
    several = str(max(row["count"] for row in rows))

    def bar(count: str, name: str, limit: float) -> dict[str, Any]:
        value = clones.get(count, {}).get(name)
        return {"value": value, "bar": limit, "unit": "s", "holds": value is not None and value <= limit}
    found["bars"] |= {"grow_s": bar("1", "grow_s", GROW_S), "grow_several_s": bar(several, "grow_s", GROW_S),
                      "shrink_s": bar("1", "shrink_s", SHRINK_S), "shrink_several_s": bar(several, "shrink_s", SHRINK_S)}
