"""Is what is sent to a VM that stands still on its way answered when it runs, or lost?

A stop-and-copy takes long enough to ask in the middle of it, once: nobody asks again.
"""

from __future__ import annotations

import socket
import unittest

from lib import echo
from lib.cluster import Cluster
from lib.waiting import wait_until

POOL = "still"
#: All that it takes to move a VM that stands still.
PATIENCE_S = 90.0
#: A port of the guest that refuses: that comes from itself, so it runs.
NOBODY_LISTENS = 9


class StandingStillTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        cls.cluster = Cluster()
        cls.cluster.restore()
        cls.cluster.without_pools()
        cls.vm = cls.cluster.ensure_pool(POOL, 2)[1]
        row = cls.cluster.get(f"vms/{cls.vm}")
        cls.ip = row["ip"]
        echo.fix_neighbour(cls, cls.ip, row["mac"])

    def setUp(self) -> None:
        self.cluster.restore()
        self.source = self.cluster.host_of(self.vm)
        self.destination = self.cluster.another_host(self.source)
        self.peer = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.addCleanup(self.peer.close)
        self.peer.connect((self.ip, echo.PORT))

    def ask(self, number: int) -> None:
        self.peer.send(echo.question(number))

    def answer(self, patience_s: float) -> int | None:
        self.peer.settimeout(patience_s)
        try:
            return echo.answered(self.peer.recv(64))
        except socket.timeout:
            return None

    def begin(self) -> str:
        """A move whose VM stands still; its operation."""
        self.cluster.lab("rate", "100mbit")
        self.addCleanup(self.cluster.lab, "rate", "1gbit")
        drawn = self.drawn()
        operation = self.cluster.submit("POST", f"vms/{self.vm}/migrations",
                                        {"destination": self.destination, "strategy": "stop-and-copy"})
        wait_until(lambda: self.cluster.copies(self.vm).get(self.source) == "paused", "the VM stands still", period_s=0.05)
        wait_until(lambda: self.drawn() > drawn, "the destination draws its frames", period_s=0.05)
        return str(operation["id"])

    def drawn(self) -> int:
        log = self.cluster.state / "logs" / f"agent-{self.destination}.log"
        return log.read_text(errors="replace").count(f"'{self.vm}' stands still on its way here; its frames come here now")

    def test_a_question_waits_for_the_vm(self) -> None:
        operation = self.begin()
        self.ask(7)
        self.assertIsNone(self.answer(1.0), "it does not stand still: nothing is shown")
        self.assertEqual(self.cluster.copies(self.vm).get(self.source), "paused", "the question came too late to show anything")
        self.assertEqual(self.answer(PATIENCE_S), 7, "the question was lost")
        self.assertEqual(self.cluster.ended(operation)["outcome"], "succeeded")
        self.assertEqual(self.cluster.assert_runs_once(self.vm), self.destination)

    def test_a_rank_that_has_not_met_it_yet_waits_for_it(self) -> None:
        """Open MPI connects ranks when they first talk; one that is told that there is no such host hangs."""
        operation = self.begin()
        said = self.cluster.mare("job", "submit", POOL, "-n", "1", "--follow", "--", "bash", "-c",
                                 f"exec 3<>/dev/tcp/{self.ip}/{NOBODY_LISTENS}", check=False).stdout
        self.assertIn("Connection refused", said, "it did not wait until the VM ran again")
        self.assertEqual(self.cluster.ended(operation)["outcome"], "succeeded")

    def test_a_vm_that_stays_after_all_is_found(self) -> None:
        operation = self.begin()
        self.cluster.submit("POST", f"migrations/{operation}:cancel", {})
        self.assertEqual(self.cluster.ended(operation)["outcome"], "cancelled")
        self.assertEqual(self.cluster.assert_runs_once(self.vm), self.source)
        for number in range(3):
            self.ask(number)
            self.assertEqual(self.answer(2.0), number, "its frames still go elsewhere")


if __name__ == "__main__":
    unittest.main()
