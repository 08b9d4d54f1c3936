"""A MigTest job: a real MPI program that notices when its VM loses a page, a packet or an iteration."""

from __future__ import annotations

import dataclasses
import re
import subprocess

from lib.cluster import Cluster, Json
from lib.waiting import wait_until

LINE = re.compile(r"^migtest: iteration=(\d+) start_us=(\d+) duration_us=(\d+)$", re.MULTILINE)
END = re.compile(r"^migtest: ranks=(\d+) iterations=(\d+) checksum=(\w+) verified=(\w+)", re.MULTILINE)


@dataclasses.dataclass(frozen=True)
class Shape:
    """What the program is asked to do."""

    ranks: int = 2
    iterations: int = 300
    size_mib: int = 32
    wws_mib: int = 4
    interval_ms: int = 100
    barrier: bool = False

    def content(self) -> list[str]:
        """The options that decide about the checksum."""
        return ["--size-mib", str(self.size_mib), "--wws-mib", str(self.wws_mib), "--iterations", str(self.iterations)]

    def command(self) -> list[str]:
        # The working directory is the job's own, on NFS.
        return ["migtest", *self.content(), "--interval-ms", str(self.interval_ms), "--log", "times",
                *(["--barrier"] if self.barrier else [])]


@dataclasses.dataclass(frozen=True)
class Iteration:
    index: int
    start_us: int
    duration_us: int


class MigTest:
    """One job, from its submission to its verdict."""

    def __init__(self, cluster: Cluster, pool: str, shape: Shape, **more: Json) -> None:
        self.cluster = cluster
        self.shape = shape
        body = {"pool": pool, "command": shape.command(), "ranks": shape.ranks, **more}
        self.operation = cluster.submit("POST", "jobs", body)
        self.id: str = self.operation["target"]

    def row(self) -> Json:
        return self.cluster.get(f"jobs/{self.id}")

    def vms(self) -> list[str]:
        """Rank i runs in the i-th."""
        return wait_until(lambda: self.row()["vms"], f"{self.id} has its VMs")

    def output(self) -> str:
        return self.cluster.mare("job", "output", self.id).stdout

    def done(self) -> int:
        """Iterations that rank 0 has reported."""
        return len(LINE.findall(self.output()))

    def wait_for_iterations(self, count: int) -> None:
        def look() -> bool:
            row = self.row()
            if row["state"] in ("failed", "cancelled"):
                raise AssertionError(f"{self.id} {row['state']}: {row['reason']}; its output:\n{self.output()[-2000:]}")
            return self.done() >= count
        wait_until(look, f"{self.id} has done {count} iterations", period_s=0.3)

    def assert_advances(self) -> None:
        """Or has done all of its iterations by now."""
        self.wait_for_iterations(min(self.done() + 3, self.shape.iterations))

    def wait_end(self) -> Json:
        def look() -> Json:
            try:
                row = self.row()
            except OSError:
                return None  # mared is being restarted
            return row if row["state"] in ("succeeded", "failed", "cancelled") else None
        patience = 240 + self.shape.iterations * (self.shape.interval_ms + 500) / 1000
        return wait_until(look, f"{self.id} ended", patience_s=patience, period_s=0.3)

    def expected_checksum(self) -> str:
        """By the same program without MPI, without VMs, without moves."""
        done = subprocess.run([self.cluster.program("migtest"), "--expect", "--ranks", str(self.shape.ranks),
                               *self.shape.content()], capture_output=True, text=True, check=True, timeout=300)
        found = re.search(r"checksum=(\w+)|^(\w{8,})$", done.stdout, re.MULTILINE)
        if not found:
            raise AssertionError(f"migtest --expect said {done.stdout!r}")
        return found[1] or found[2]

    def logged(self, rank: int) -> list[Iteration]:
        """A rank's own log, from the NFS server's side."""
        text = (self.cluster.state / "jobs" / self.id / f"times.{rank}").read_text()
        rows = [[int(word) for word in re.findall(r"\d+", line)[:3]] for line in text.splitlines()
                if line and line[0].isdigit()]
        return [Iteration(*row) for row in rows]

    def assert_right(self) -> Json:
        """Ended well, with the checksum of a run that never moved, and no iteration lost or done twice."""
        row = self.wait_end()
        output = self.output()
        if row["state"] != "succeeded" or row["exit_code"] != 0:
            raise AssertionError(f"{self.id} {row['state']}, exit code {row['exit_code']}: {row['reason']}\n{output[-3000:]}")
        end = END.search(output)
        if not end:
            raise AssertionError(f"{self.id} has no last line:\n{output[-2000:]}")
        verdict = (int(end[1]), int(end[2]), end[3], end[4])
        wanted = (self.shape.ranks, self.shape.iterations, self.expected_checksum(), "yes")
        if verdict != wanted:
            raise AssertionError(f"{self.id} ended with {verdict}, not {wanted}")
        whole = list(range(1, self.shape.iterations + 1))
        if [int(found[0]) for found in LINE.findall(output)] != whole:
            raise AssertionError(f"{self.id}: iterations are lost or doubled in the output")
        for rank in range(self.shape.ranks):
            if [one.index for one in self.logged(rank)] != whole:
                raise AssertionError(f"{self.id}: iterations are lost or doubled in the log of rank {rank}")
        return row
