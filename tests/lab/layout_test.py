"""A running job whose VMs go over more hosts and come together again, asked for or by themselves, on real libvirt, QEMU,
NFS and Open MPI."""

from __future__ import annotations

import datetime
import json
import unittest

from lib.cluster import Cluster, Json
from lib.extent import IN_FULL
from lib.migtest import MigTest, Shape
from lib.waiting import holds_for, wait_until

POOL = "layout"
SHAPE = Shape(ranks=4, iterations=550, size_mib=16, wws_mib=2)
SHORT = Shape(ranks=4, iterations=350, size_mib=16, wws_mib=2)
LONG_S = 1200


class LayoutTest(unittest.TestCase):
    """Four VMs, all on the first host, where they want twice the CPUs that it has."""

    @classmethod
    def setUpClass(cls) -> None:
        cls.cluster = Cluster()
        cls.cluster.restore()
        cls.cluster.without_pools()
        cls.home, *others = cls.cluster.hosts
        # VMs go to active hosts only. Limiting the pool would hold for good.
        for host in others:
            cls.cluster.mare("host", "drain", host)
        cls.vms = cls.cluster.ensure_pool(POOL, SHAPE.ranks, vcpus=cls.cluster.crowding_vcpus())
        for host in others:
            cls.cluster.mare("host", "activate", host)

    @classmethod
    def tearDownClass(cls) -> None:
        cls.cluster.mare("rebalance", "set", "--mode", "manual")
        cls.cluster.restore()
        cls.cluster.delete_pool(POOL)

    def where(self) -> dict[str, str]:
        """Host of each VM: by all libvirts, by Maré's rows, and by the kernel, which has one QEMU for each."""
        found = {vm: self.cluster.assert_runs_once(vm) for vm in self.vms}
        self.assertEqual([vm for vm in self.cluster.qemus() if vm.startswith(POOL + "-")], self.vms)
        return found

    def moves(self) -> int:
        return len(self.cluster.items("operations?kind=vm.migrate&limit=500"))

    def change(self, job: MigTest, verb: str, **wish: Json) -> Json:
        ended = self.cluster.finish(self.cluster.submit("POST", f"jobs/{job.id}:{verb}", wish))
        self.assertEqual((ended["kind"], ended["state"]), ("layout.change", "Done"))
        job.assert_advances()
        return ended

    def assert_dry_run_plans_and_moves_nothing(self, job: MigTest) -> None:
        before = self.where(), self.moves()
        done = self.cluster.mare("-o", "json", "job", "spread", job.id, "--remaining", f"{LONG_S}s", "--dry-run")
        plan = json.loads(done.stdout)["request"]["plan"]
        self.assertTrue(plan["worth"], plan)
        self.assertEqual((plan["hosts_before"], plan["hosts_after"], len(plan["moves"])), (1, 3, 2), plan)
        self.assertAlmostEqual(plan["slowdown_before"], 2 * plan["slowdown_after"], 6, plan)
        self.assertEqual({move["from"] for move in plan["moves"]}, {self.home}, plan)
        self.assertEqual(len({move["to"] for move in plan["moves"]}), 2, plan)
        self.assertTrue(all(move["bytes"] > 0 for move in plan["moves"]), plan)
        self.assertGreater(plan["gain_s"], plan["added_job_time_s"])
        self.assertEqual((self.where(), self.moves()), before)

    def assert_refused_when_nearly_over(self, job: MigTest) -> None:
        """What 50 ms could gain is less than any move costs."""
        before = self.where(), self.moves()
        refused = self.cluster.mare("job", "spread", job.id, "--remaining", "50ms", check=False)
        self.assertEqual(refused.returncode, 1, refused.stdout + refused.stderr)
        for words in (f"job '{job.id}' stays: 2 moves to 3 hosts would gain 0.0 s over the 0 s that remain, not more than the",
                      "s that they cost", "as stated", "with force"):
            self.assertIn(words, refused.stderr)
        self.assertEqual((self.where(), self.moves()), before)

    def assert_switched_together(self, count: int) -> None:
        """The newest moves: their VMs ran at their destinations within a moment, for the first of them held its switch."""
        moves = self.cluster.items("operations?kind=vm.migrate&limit=500")[:count]
        rows = [self.cluster.get(f"migrations/{move['id']}") for move in moves]
        rows.sort(key=lambda row: row["switched"])
        # The first waited for the others, unless it had sent all there was at the end of a round: such a guest QEMU can't hold.
        held = rows[0]["held_ms"] is not None and rows[0]["switched_with"] == count - 1
        had_sent_all = any(one["remaining_bytes"] == 0 for one in rows[0]["rounds"][:-1])
        self.assertTrue(held or had_sent_all, rows)
        at = sorted(datetime.datetime.fromisoformat(row["switched"]) for row in rows)
        self.assertLess((at[-1] - at[0]).total_seconds(), 1.5, rows)

    @IN_FULL
    def test_a_job_is_spread_and_packed_while_it_runs(self) -> None:
        self.assertEqual(set(self.where().values()), {self.home})
        job = MigTest(self.cluster, POOL, SHAPE)
        job.wait_for_iterations(5)
        self.assert_dry_run_plans_and_moves_nothing(job)
        self.assert_refused_when_nearly_over(job)

        made = self.moves()
        # Which strategy is cheapest is the forecasts' affair; one that holds its switch is wanted here.
        self.cluster.mare("pool", "set-policy", POOL, "--strategy", "pre-copy")
        spread = self.change(job, "spread", remaining_s=LONG_S)
        self.assertEqual(spread["reason"], "2 moves made; the job's VMs are on 3 hosts")
        hosts = list(self.where().values())
        self.assertEqual(sorted(hosts.count(host) for host in set(hosts)), [1, 1, 2])
        self.assert_switched_together(2)
        self.cluster.mare("pool", "set-policy", POOL, "--reset")

        packed = self.change(job, "pack", hosts=1, force=True)
        self.assertEqual(packed["reason"], "2 moves made; the job's VMs are on 1 host")
        self.assertEqual(set(self.where().values()), {self.home})
        self.assertEqual(self.moves(), made + 4)

        job.assert_right()
        for vm in self.vms:
            self.cluster.assert_clean(vm)
        late = self.cluster.api("POST", f"jobs/{job.id}:spread", {})
        self.assertEqual(late.status, 409, late.body)
        self.assertIn(f"job '{job.id}' is succeeded", late.fault())

    def rounds(self) -> list[Json]:
        return self.cluster.items("operations?kind=cluster.rebalance&limit=500")

    @IN_FULL
    def test_the_vms_of_a_crowded_host_are_evened_out_by_themselves(self) -> None:
        for vm in self.vms:
            if self.cluster.host_of(vm) != self.home:
                self.cluster.migrate(vm, self.home)
        job = MigTest(self.cluster, POOL, SHORT)
        job.wait_for_iterations(5)
        made, before = self.moves(), self.rounds()
        planned = json.loads(self.cluster.mare("-o", "json", "rebalance", "--dry-run").stdout)["request"]["plan"]
        self.assertLess(planned["score_after"], planned["score_before"], planned)
        self.assertTrue(all(move["bytes"] > 0 for move in planned["moves"]), planned)
        self.assertEqual((set(self.where().values()), self.moves(), self.rounds()), ({self.home}, made, before))

        # Some of them have moved just now.
        self.cluster.mare("rebalance", "set", "--mode", "automatic", "--hold", "1s", "--cooldown", "0", "--rest", "0")
        wait_until(lambda: len(self.rounds()) > len(before) and self.rounds()[0]["outcome"] != "pending",
                   "a round of rebalancing has ended", patience_s=300, period_s=0.5)
        first = self.rounds()[-1 - len(before)]
        self.assertEqual((first["state"], first["outcome"]), ("Done", "succeeded"), first)
        self.assertEqual(len(set(self.where().values())), len(self.cluster.hosts))
        # Nothing goes to and fro: it looks every 10 s.
        moved = self.moves()
        holds_for(lambda: self.moves() == moved, "no further move", 25)
        job.assert_right()
        for vm in self.vms:
            self.cluster.assert_clean(vm)


if __name__ == "__main__":
    unittest.main()
