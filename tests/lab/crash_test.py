"""kill -9 of mared, of the source's agent and of the destination's, in every state of a migration.

mared's failpoints stop it right after it committed a state: "kill" ends it there, "hold" keeps its
engine there while an agent is killed. One MPI job runs through all of it. After each case: the VM
runs once (both libvirts are asked), the operation's row tells an end, the job advances.
"""

from __future__ import annotations

import dataclasses
import http.client
import sqlite3
import subprocess
import unittest

from lib.cluster import Cluster, Json, kill
from lib.extent import FULL
from lib.migtest import MigTest, Shape
from lib.waiting import wait_until

POOL = "crash"
STATES = ("Planned", "Reserved", "PreCopying", "Switching", "Committed", "Aborting")
VICTIMS = ("mared", "source", "destination")
# When time is short: each state once, each victim twice.
SAMPLE = {("Planned", "mared"), ("Reserved", "destination"), ("PreCopying", "source"), ("Switching", "mared"),
          ("Committed", "destination"), ("Aborting", "source")}
HOLD_MS = 4000
CASES = [(state, victim) for state in STATES for victim in VICTIMS if FULL or (state, victim) in SAMPLE]


@dataclasses.dataclass(frozen=True)
class Case:
    state: str
    victim: str

    def failpoints(self) -> str:
        action = "kill" if self.victim == "mared" else f"hold:{HOLD_MS}"
        return f"vm.migrate:{self.state}={action}"


class CrashTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        cls.cluster = Cluster()
        cls.cluster.restore()
        cls.cluster.without_pools()
        cls.vms = cls.cluster.ensure_pool(POOL, 3)
        # Outlives the cases: each takes 6 to 17 s, 10 in the mean, an iteration at least a tenth of a second.
        cls.job = MigTest(cls.cluster, POOL, Shape(ranks=2, iterations=140 * len(CASES), wws_mib=8))
        cls.job.wait_for_iterations(5)

    def tearDown(self) -> None:
        # No mared with failpoints stays behind, whatever happened.
        for process in getattr(self, "processes", []):
            kill(process)
        self.cluster.restore()

    def test_z_the_job_ends_right(self) -> None:
        """Last by its name: the job that ran through all of the above."""
        self.job.assert_right()
        for vm in self.vms:
            with self.subTest("clean console", vm=vm):
                self.cluster.assert_clean(vm)

    def run_case(self, case: Case) -> str:
        vm = self.job.vms()[1]
        source = self.cluster.assert_runs_once(vm)
        destination = self.cluster.another_host(source)
        self.cluster.lab("stop-mared")
        mared = self.cluster.start_mared_with(case.failpoints())
        self.processes = [mared]
        for host in self.cluster.hosts:
            self.cluster.wait_health(host, "up")
        self.shape_links(case)
        operation = self.start_migration(case, vm, destination)
        self.strike(case, mared, source, destination, operation)
        ended = self.cluster.ended(operation["id"])
        self.judge(case, vm, source, destination, ended)
        return f"{case.state} x {case.victim}: {ended['outcome']} ({ended['reason'] or 'no remark'})"

    def shape_links(self, case: Case) -> None:
        # A switch that lasts: the last round must be seen, and be hit.
        self.cluster.lab("rate", "100mbit" if case.state == "Switching" else "1gbit")

    def start_migration(self, case: Case, vm: str, destination: str) -> Json:
        body: dict[str, Json] = {"destination": destination, "strategy": "pre-copy"}
        if case.state == "Switching":
            body["downtime_limit_ms"] = 3000
        if case.state == "Aborting":
            body["bandwidth_limit_bytes_per_s"] = 2 << 20
        try:
            operation = self.cluster.submit("POST", f"vms/{vm}/migrations", body)
        except (OSError, http.client.HTTPException):
            # mared died of the failpoint before it could answer, but not before it had committed.
            if (case.state, case.victim) != ("Planned", "mared"):
                raise
            return self.newest_operation(vm)
        if case.state == "Aborting":
            wait_until(lambda: self.cluster.get(f"migrations/{operation['id']}")["transferred_bytes"] > 0,
                       "the migration sends")
            self.cluster.submit("POST", f"migrations/{operation['id']}:cancel")
        return operation

    def strike(self, case: Case, mared: "subprocess.Popen[bytes]", source: str, destination: str,
               operation: Json) -> None:
        """Kills the victim while the operation is durably in the state, and brings it back."""
        wait_until(self.cluster.failpoint("vm.migrate", case.state).exists, f"the migration came to {case.state}")
        if case.victim == "mared":
            mared.wait(timeout=60)
            self.assertEqual(self.state_of(operation["id"]), case.state)
            self.cluster.start_mared()
            return
        self.assertEqual(self.state_of(operation["id"]), case.state)
        host = source if case.victim == "source" else destination
        self.cluster.kill_agent(host)
        self.cluster.start_agent(host)

    def newest_operation(self, vm: str) -> Json:
        with sqlite3.connect(f"file:{self.cluster.state}/mared/mare.db?mode=ro", uri=True) as database:
            row = database.execute("SELECT id FROM operation WHERE kind = 'vm.migrate' AND target = ? AND outcome = 'pending'",
                                   (vm,)).fetchone()
        assert row, "no operation was committed"
        return {"id": row[0]}

    def state_of(self, operation_id: str) -> str:
        """From the database, which is there whether or not mared is."""
        with sqlite3.connect(f"file:{self.cluster.state}/mared/mare.db?mode=ro", uri=True) as database:
            row = database.execute("SELECT state FROM operation WHERE id = ?", (operation_id,)).fetchone()
        return row[0]

    def judge(self, case: Case, vm: str, source: str, destination: str, ended: Json) -> None:
        where = self.cluster.assert_runs_once(vm)
        self.assertIn(ended["outcome"], ("succeeded", "failed", "cancelled"), ended["reason"])
        self.assertEqual(where, destination if ended["outcome"] == "succeeded" else source, ended["reason"])
        if ended["outcome"] != "succeeded":
            self.assertTrue(ended["reason"], "an end without success says why")
        if case.state == "Committed":
            self.assertEqual(ended["outcome"], "succeeded", "a committed migration does not go back")
        if case.state == "Aborting":
            self.assertNotEqual(ended["state"], "Done", "it was cancelled long before the switch")
        history = self.cluster.items(f"operations/{ended['id']}/events")
        self.assertEqual(history[-1]["to"], ended["state"])
        if case.victim == "mared":
            taken_up = [event["from"] for event in history if event["event"] == "Recover"]
            self.assertEqual(taken_up, [case.state], "a second process took it up where the first one died")
        self.job.assert_advances()
        self.cluster.assert_clean(vm)


def add_cases() -> None:
    """A test for every case, in the order of the states."""
    for number, (state, victim) in enumerate(CASES):
        def test(self: CrashTest, case: Case = Case(state, victim)) -> None:
            print(f"         {self.run_case(case)}", flush=True)
        setattr(CrashTest, f"test_{number:02}_{state.lower()}_x_{victim}", test)


add_cases()

if __name__ == "__main__":
    unittest.main()
