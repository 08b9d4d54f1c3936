"""A program that nobody here wrote: HPL from Debian's hpcc, whose residual tells whether a move broke it."""

from __future__ import annotations

import unittest

from lib.cluster import Cluster
from lib.waiting import wait_until

POOL = "hpl"
# So that a fast machine is not done before the VM has moved; an emulated one takes seconds for each.
REPEATS, REPEATS_EMULATED = 20, 8


def command(cluster: Cluster) -> list[str]:
    emulated = all("(tcg)" in host["hypervisor"] for host in cluster.items("hosts"))
    return ["mare-hpl", "--n", "640", "--repeat", str(REPEATS_EMULATED if emulated else REPEATS)]


class HplTest(unittest.TestCase):
    def test_the_residual_passes_with_a_migration_in_the_middle(self) -> None:
        cluster = Cluster()
        cluster.restore()
        vms = cluster.ensure_pool(POOL, 2, memory_mib=256)
        self.addCleanup(cluster.delete_pool, POOL)
        operation = cluster.submit("POST", "jobs", {"pool": POOL, "command": command(cluster), "ranks": 2})
        job = operation["target"]
        wait_until(lambda: "section HPL" in cluster.mare("job", "output", job).stdout, "HPL itself has begun",
                   patience_s=400)
        vm = cluster.get(f"jobs/{job}")["vms"][1]
        destination = cluster.another_host(*{cluster.host_of(one) for one in vms})
        cluster.migrate(vm, destination)
        self.assertEqual(cluster.get(f"jobs/{job}")["state"], "running",
                         "HPL ended before the migration did: the test shows nothing; give it a larger --n")
        cluster.assert_runs_once(vm)
        row = wait_until(lambda: (lambda one: one if one["ended"] else None)(cluster.get(f"jobs/{job}")), "HPL ended",
                         patience_s=600)
        output = cluster.mare("job", "output", job).stdout
        self.assertEqual((row["state"], row["exit_code"]), ("succeeded", 0), output[-3000:])
        self.assertIn("PASSED", output)
        self.assertNotIn("FAILED", output)
        for one in vms:
            cluster.assert_clean(one)


if __name__ == "__main__":
    unittest.main()
