"""The pure parts of the bench `grow`, and its pool that follows a figure on a lab that costs no time."""

from __future__ import annotations

import os
import pathlib
import subprocess
import tempfile
import types
import unittest
from typing import Any
from unittest import mock

from fake_lab import Clock
import grow
import lib.waiting
import ruled
import tables
from lib.cluster import Answer, Json

COMES_S, WORKS_S, ENDS_S, SEEN_S, GOES_S = 1.5, 0.5, 0.25, 0.4, 0.3
LAG = 0.08  # of two looks


class FakeCluster:
    """VMs come one after the other; jobs begin on them in order; ranks leave files."""

    def __init__(self, clock: Clock, state: pathlib.Path) -> None:
        self.clock, self.state = clock, state
        self.size = 1
        self.rule: Json = None
        self.jobs: dict[str, dict[str, Any]] = {}
        self.done: list[str] = []
        self.gone_at: dict[int, float] = {}
        self.on_first = False

    def submit(self, method: str, path: str, body: Json) -> Json:
        assert (method, path, body["ranks"]) == ("POST", "jobs", 1)
        job = f"job-{len(self.jobs) + 1}"
        holds = not self.jobs
        self.jobs[job] = {"vm": "demo-0" if holds else None, "begins": self.clock.now + WORKS_S if holds else None, "ends": None}
        (self.state / "jobs" / job).mkdir(parents=True)
        return {"target": job}

    def api(self, method: str, path: str, body: Json = None) -> Answer:
        self.done.append(f"{method} {path} {body['value'] if method == 'POST' else ''}".strip())
        if method == "POST":
            assert self.rule
            waiting = [job for job in self.jobs.values() if not job["vm"]]
            for index, job in enumerate(waiting, 1):
                job |= {"vm": f"demo-{0 if self.on_first else index}", "begins": self.clock.now + COMES_S * index + WORKS_S}
            if body["value"] < self.size:
                self.gone_at = {index: self.clock.now + GOES_S for index in range(1, self.size)}
            self.size = body["value"]
        self.rule = body if method == "PUT" else None if method == "DELETE" else self.rule
        return Answer(200, {})

    def look(self) -> None:
        for name, job in self.jobs.items():
            folder = self.state / "jobs" / name
            if job["begins"] and job["begins"] <= self.clock.now:
                (folder / "began").touch()
            if (folder / "enough").exists():
                job["ends"] = job["ends"] or self.clock.now + ENDS_S
                if job["ends"] <= self.clock.now:
                    (folder / "ended").touch()

    def items(self, path: str) -> list[Json]:
        assert path.startswith("jobs?pool=demo")
        return [{"id": name, "reason": None, "state": "succeeded" if job["ends"] and job["ends"] + SEEN_S <= self.clock.now else "running"}
                for name, job in self.jobs.items()]

    def get(self, path: str) -> Json:
        kind, name = path.split("/")[:2]
        return {"vms": [self.jobs[name]["vm"]]} if kind == "jobs" else {"operation": "op-1", "size": self.size, "outcome": "succeeded"}

    def status(self) -> Json:
        return {"hosts": [{"vms": [{"name": f"demo-{index}", "pid": index} for index in range(self.size)]}]}

    def mare(self, *_: str) -> Any:
        return types.SimpleNamespace(stdout="writer: ranks=1 verified=yes\n")

    def lives(self, pid: int) -> bool:
        return self.gone_at.get(pid, 1e99) > self.clock.now


class Rules(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.clock = Clock()
        self.cluster = FakeCluster(self.clock, pathlib.Path(folder.name))
        sleep = self.clock.sleep

        def sleep_and_look(seconds: float) -> None:
            sleep(seconds)
            self.cluster.look()
        self.clock.sleep = sleep_and_look  # type: ignore[method-assign]
        for patch in (mock.patch.object(ruled, "time", self.clock), mock.patch.object(lib.waiting, "time", self.clock),
                      mock.patch.object(ruled, "lives", self.cluster.lives), mock.patch("os.getloadavg", lambda: (1.25, 0, 0))):
            patch.start()
            self.addCleanup(patch.stop)

    def test_from_the_figure_to_work_and_from_its_end_to_nothing(self) -> None:
        with ruled.Rule(self.cluster, "demo", 5) as rule:  # type: ignore[arg-type]
            rows = [rule.grow_and_shrink(count) for count in (1, 4)]
        for count, row in zip((1, 4), rows):
            self.assertEqual((row["count"], row["vms"]), (count, [f"demo-{index}" for index in range(1, 1 + count)]))
            self.assertAlmostEqual(row["grow_s"], count * COMES_S + WORKS_S, delta=LAG)
            self.assertAlmostEqual(row["first_rank_s"], COMES_S + WORKS_S, delta=LAG)
            self.assertAlmostEqual(row["jobs_end_s"], SEEN_S, delta=LAG)
            self.assertAlmostEqual(row["shrink_s"], SEEN_S + GOES_S, delta=LAG)
            self.assertAlmostEqual(row["shrink_s"], row["jobs_end_s"] + row["vms_end_s"])
        self.assertEqual(self.cluster.done, ["PUT pools/demo/autoscale", "POST pools/demo/metrics 2", "POST pools/demo/metrics 1",
                                             "POST pools/demo/metrics 5", "POST pools/demo/metrics 1", "DELETE pools/demo/autoscale"])

    def test_a_rank_on_the_first_vm_does_not_count(self) -> None:
        self.cluster.on_first = True
        with self.assertRaisesRegex(AssertionError, "not on the new VMs"), \
                ruled.Rule(self.cluster, "demo", 5) as rule:  # type: ignore[arg-type]
            rule.grow_and_shrink(1)


class Summary(unittest.TestCase):
    @staticmethod
    def row(wanted: str, count: int, grow_s: float, kinds: list[str] | None = None) -> ruled.Row:
        return {"wanted": wanted, "kinds": kinds or [wanted], "count": count, "grow_s": grow_s, "first_rank_s": 1.0, "shrink_s": 0.5,
                "jobs_end_s": 0.3, "vms_end_s": 0.2}

    def test_medians_and_bars(self) -> None:
        rows = [self.row("clone", 1, value) for value in (2.0, 9.0, 2.5)] + [self.row("clone", 8, 3.5), self.row("boot", 1, 12.0)]
        found: dict[str, Any] = {"results": {}, "baselines": {}, "bars": {"kept": 1}}
        ruled.add_to(found, rows)
        bars = found["bars"]
        self.assertEqual({name: (bars[name]["value"], bars[name]["holds"]) for name in bars if name != "kept"}, {
            "grow_s": (2.5, True), "grow_several_s": (3.5, False), "shrink_s": (0.5, True), "shrink_several_s": (0.5, True)})
        self.assertEqual(bars["kept"], 1)
        self.assertEqual(found["baselines"]["by_rule"]["boots"]["1"]["grow_s"], 12.0)
        self.assertEqual(found["results"]["by_rule"]["dropped"], 0)

    def test_a_clone_that_booted_is_none(self) -> None:
        found: dict[str, Any] = {"results": {}, "baselines": {}, "bars": {}}
        ruled.add_to(found, [self.row("clone", 1, 1.0, ["boot"]), self.row("clone", 4, 1.0, ["boot", "clone"])])
        self.assertEqual(found["results"]["by_rule"]["dropped"], 2)
        self.assertIsNone(found["bars"]["grow_s"]["value"])
        self.assertFalse(found["bars"]["grow_several_s"]["holds"])


    def test_table(self) -> None:
        found: dict[str, Any] = {"results": {}, "baselines": {"boot_s_median": 9.5}, "bars": {}}
        ruled.add_to(found, [self.row("clone", 1, 2.25), self.row("boot", 8, 31.0)])
        text = tables.section({"bench": "grow", "commit": None, "setup": {}, **found,
                               "machine": {"cores": 2, "kernel": "0", "load_before": 0, "load_after": 0}})
        self.assertIn("| clone | 1 | 2.25 | 1.00 | 0.50 | 0.30 | 0.20 |", text)
        self.assertIn("| boot | 8 | 31.00 | 1.00 | 0.50 | 0.30 | 0.20 |", text)
        self.assertIn("One boot, without a rule: 9.5 s.", text)


class Turns(unittest.TestCase):
    def test_boots_and_clones_take_turns_each_with_its_own_mared_and_pool(self) -> None:
        done: list[str] = []

        class FakeRule:
            def __init__(self, _: object, pool: str, most: int) -> None:
                self.pool = pool
                done.append(f"rule {pool} {most}")

            def __enter__(self) -> "FakeRule":
                return self

            def __exit__(self, *_: object) -> None:
                done.append("off")

            def grow_and_shrink(self, count: int) -> ruled.Row:
                return {"count": count, "vms": [f"{self.pool}-1"], "grow_s": 1.0, "shrink_s": 0.5}

        mared: Any = types.SimpleNamespace(clones=["--clones"], boots=[], start=lambda options: done.append(f"mared {options}"))
        cluster: Any = types.SimpleNamespace(ensure_pool=lambda name, size, memory_mib: done.append(f"pool {name} {size}"),
                                             delete_pool=lambda name: done.append(f"delete {name}"))
        with mock.patch.object(ruled, "Rule", FakeRule), \
                mock.patch.object(grow, "start_of", lambda _, vm: (1.0, "boot" if vm.startswith("cool") else "clone")):
            rows = grow.by_rule(cluster, mared, 2, 8)
        turn = ["mared []", "pool cool-{} 1", "rule cool-{} 9", "off", "delete cool-{}", "mared ['--clones']", "rule grow 9", "off"]
        self.assertEqual(done, [word.format(index) for index in range(2) for word in turn])
        self.assertEqual([(row["wanted"], row["kinds"], row["count"]) for row in rows],
                         [(kind, [kind], count) for _ in range(2) for kind in ("boot", "clone") for count in (1, 8)])


class Options(unittest.TestCase):
    def test_what_mared_lists(self) -> None:
        listed = "  --clones                    VMs start as clones\n  --boot-timeout FLOAT\n"
        self.assertEqual(grow.switches(listed), (["--clones"], []))
        self.assertEqual(grow.switches("  --clones,--no-clones{false}  default\n"), (["--clones"], ["--no-clones"]))
        self.assertEqual(grow.switches("  --no-clones  VMs boot\n"), ([], ["--no-clones"]))
        self.assertEqual(grow.switches("  --boot-timeout FLOAT\n"), ([], []))


class Script(unittest.TestCase):
    """What a rank runs, with a program in the place of the MPI one."""

    def test_files_come_with_the_first_line_and_with_the_end(self) -> None:
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            script = ruled.SCRIPT.replace(ruled.WORK, "{ test ! -e began; echo one; until test -e began; do :; done; "
                                                      "test ! -e ended && echo verified=yes; }")
            self.assertNotEqual(script, ruled.SCRIPT)
            done = subprocess.run(["sh", "-c", script], cwd=folder, capture_output=True, text=True, timeout=60, check=False)
            self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "one\nverified=yes\n", ""))
            self.assertEqual(sorted(os.listdir(folder)), ["began", "ended"])

    def test_a_program_that_prints_nothing_never_began(self) -> None:
        with tempfile.TemporaryDirectory() as name:
            script = ruled.SCRIPT.replace(ruled.WORK, "false")
            subprocess.run(["sh", "-c", script], cwd=name, capture_output=True, timeout=60, check=True)
            self.assertEqual(os.listdir(name), ["ended"])

    def test_a_process_that_has_ended_does_not_live(self) -> None:
        child = subprocess.Popen(["cat"], stdin=subprocess.PIPE)
        self.assertTrue(ruled.lives(child.pid))
        assert child.stdin
        child.stdin.close()
        # Still there, but only until somebody waits for it.
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        self.assertFalse(ruled.lives(child.pid))
        child.wait()
        self.assertFalse(ruled.lives(child.pid))


if __name__ == "__main__":
    unittest.main()
