"""A program that begins to write when its VM is on its way: the move is given up, and begun anew by what ends."""

from __future__ import annotations

import unittest

from lib.cluster import Cluster, Json
from lib.extent import IN_FULL
from lib.waiting import wait_until

POOL = "late"
# Waits for a word in a file, then writes 2.5 times as fast as 100 Mbit/s carry, wherever in 48 MiB. The file is there from
# the start and is opened each time: NFS looks again at what is opened, but keeps for up to 30 s that a name was not there,
# and the VM had moved before it wrote. Over 200 Mbit/s, too, it had moved, in 2.6 s.
WRITER = (": >begin; until read -r word <begin && [ $word = yes ]; do sleep 0.1; done;"
          " exec writer --pattern random --size-mib 48 --rate-mib 30 --seconds 1000 --until enough")


class OverrunTest(unittest.TestCase):
    def setUp(self) -> None:
        self.cluster = Cluster()
        self.cluster.restore()
        self.cluster.without_pools()
        self.vm, = self.cluster.ensure_pool(POOL, 1, memory_mib=256)
        self.addCleanup(self.cluster.without_pools)
        self.addCleanup(self.cluster.lab, "rate", "1gbit")

    def operation(self, operation: Json) -> Json:
        return self.cluster.get(f"operations/{operation['id']}")

    @IN_FULL
    def test_it_is_forecast_anew_and_ends_by_another_strategy(self) -> None:
        job = self.cluster.submit("POST", "jobs", {"pool": POOL, "command": ["sh", "-c", WRITER], "ranks": 1})["target"]
        directory = self.cluster.state / "jobs" / job
        wait_until(lambda: self.cluster.get(f"jobs/{job}")["state"] == "running", f"{job} runs")
        wait_until((directory / "begin").exists, "the program waits")
        source = self.cluster.host_of(self.vm)
        destination = self.cluster.another_host(source)
        self.cluster.lab("rate", "100mbit")
        # By it a VM at rest is sent compressed. By least-stall a hybrid is as good to a ms or so, which ends whatever is written.
        operation = self.cluster.submit("POST", f"vms/{self.vm}/migrations", {"destination": destination, "priority": "least-traffic"})
        wait_until(lambda: self.operation(operation)["state"] == "PreCopying", "it is being sent", period_s=0.1)
        (directory / "begin").write_text("yes\n")
        self.cluster.finish(operation)
        record = self.cluster.get(f"migrations/{operation['id']}")
        self.assertGreaterEqual(len(record["earlier"]), 1, record)
        given_up = record["earlier"][0]
        self.assertNotEqual(given_up["strategy"], record["strategy"], record)
        self.assertGreater(given_up["lasted_ms"] / 1000, given_up["said_s"]["high"], record)
        self.assertGreater(given_up["sent_bytes"], 64 << 20, record)
        self.assertEqual(self.cluster.assert_runs_once(self.vm), destination)
        said = self.cluster.get(f"forecasts/{operation['id']}")
        self.assertIn("it was tried", next(one["why_not"] for one in said["strategies"] if one["strategy"] == given_up["strategy"]))
        self.assertIn("was given up after", self.cluster.mare("explain", operation["id"]).stdout)
        self.cluster.lab("rate", "1gbit")
        (directory / "enough").touch()
        wait_until(lambda: self.cluster.get(f"jobs/{job}")["state"] in ("succeeded", "failed"), f"{job} ends")
        self.assertIn("verified=yes", (directory / "output").read_text())
        self.cluster.assert_clean(self.vm)


if __name__ == "__main__":
    unittest.main()
