#!/usr/bin/python3
"""The mare command as users run it, against a server that answers as mared does.

Usage: command_test.py PATH_OF_MARE [unittest's own options]
"""

from __future__ import annotations

import datetime
import json
import os
import pathlib
import pty
import signal
import subprocess
import sys
import tempfile
import threading
import unittest
import urllib.parse
from typing import Any

from fake_mared import TOKEN, FakeMared, Handler

MARE = ""


def operation(outcome: str = "pending", **more: Any) -> dict[str, Any]:
    state = {"pending": "planned", "succeeded": "done"}.get(outcome, "failed")
    return {"id": "op-1", "kind": "vm.start", "target": "demo-0", "state": state, "outcome": outcome, **more}


def in_turn(*answers: Any) -> Any:
    """Each request gets the next answer, the last one again and again."""
    left = list(answers)
    return lambda h: h.reply(200, left.pop(0) if len(left) > 1 else left[0])


class CommandTest(unittest.TestCase):
    def setUp(self) -> None:
        self.server = FakeMared()
        self.addCleanup(self.server.close)

    def environment(self, **more: str) -> dict[str, str]:
        clean = {k: v for k, v in os.environ.items() if not k.startswith("MARE_") and k != "NO_COLOR"}
        return {**clean, "MARE_URL": f"http://127.0.0.1:{self.server.port}", "MARE_TOKEN": TOKEN, **more}

    def mare(self, *words: str, code: int = 0, **environment: str) -> subprocess.CompletedProcess[str]:
        done = subprocess.run([MARE, *words], env=self.environment(**environment), text=True,
                              capture_output=True, timeout=60)
        self.assertEqual(done.returncode, code, f"{words}\nout: {done.stdout}\nerr: {done.stderr}")
        return done

    def sent(self, method: str) -> list[tuple[str, Any]]:
        return [(path, body) for verb, path, body, _ in self.server.requests if verb == method]


class Plans(CommandTest):
    """What if: nobody is asked, so the address leads nowhere."""

    EXAMPLE = str(pathlib.Path(__file__).resolve().parents[3] / "docs" / "examples" / "cluster.json")

    def plan(self, *words: str, code: int = 0) -> Any:
        done = self.mare("-o", "json", "plan", "--from", self.EXAMPLE, *words, code=code, MARE_URL="http://127.0.0.1:1")
        return json.loads(done.stdout)

    def test_the_documented_example_is_rebalanced(self) -> None:
        plan = self.plan()
        self.assertGreater(len(plan["moves"]), 0, plan["reason"])
        self.assertLess(plan["score_after"], plan["score_before"])
        self.assertEqual(plan["moves"][0]["from"], "h1", "its ranks have two cpus for four")
        self.assertEqual(len(self.plan("--max-moves", "1")["moves"]), 1)
        table = self.mare("plan", "--from", self.EXAMPLE)
        self.assertIn("STEP", table.stdout)
        self.assertIn("the score falls from", table.stderr)

    def test_drain_place_spread_and_pack(self) -> None:
        self.assertEqual({move["from"] for move in self.plan("--drain", "h2")["moves"]}, {"h2"})
        self.assertEqual(self.plan("--place")["placed"][0]["vm"], "web-0")
        self.assertTrue(self.plan("--spread", "job-1")["worth"])
        packed = self.plan("--pack", "job-1", "--hosts", "1")
        self.assertFalse(packed["worth"])
        self.assertIn("stays", packed["reason"])
        self.assertEqual(self.server.requests, [])

    def test_what_has_no_place_is_exit_4_and_named(self) -> None:
        with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
            json.dump({"hosts": [{"id": "h1", "memory_mib": 512, "cpus": 1}],
                       "vms": [{"id": "v1", "memory_mib": 600}, {"id": "v2", "memory_mib": 100, "host": "h1"}]}, file)
            file.flush()
            done = self.mare("plan", "--from", file.name, "--place", "--no-n-plus-one", code=4)
            self.assertIn("'v1': it needs 600 MiB and the most that is free is 412 MiB on 'h1'", done.stderr)
            self.assertIn("'h9'", self.mare("plan", "--from", file.name, "--drain", "h9", code=3).stderr)
            done = self.mare("plan", "--from", file.name, "--drain", "h1", code=4)
            self.assertIn("can't be emptied", done.stderr)

    def test_faults_of_the_file_are_all_told(self) -> None:
        with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
            json.dump({"hosts": [{"id": "h1", "memory_mib": -1, "cpus": 1}, {"id": "h1", "memory_mib": 1, "cpus": 1}],
                       "vms": [{"id": "v1", "memory_mib": 5, "host": "h7", "colour": "red"}]}, file)
            file.flush()
            done = self.mare("plan", "--from", file.name, code=2)
            for words in ("/hosts/0/memory_mib", "'h1' occurs twice", "no host 'h7'", "/vms/0/colour"):
                self.assertIn(words, done.stderr)
        self.assertIn("can't read", self.mare("plan", "--from", "/nowhere/at/all", code=3).stderr)
        self.mare("plan", "--from", self.EXAMPLE, "--drain", "h1", "--place", code=2)


class Lists(CommandTest):
    def test_table_json_names_and_pages(self) -> None:
        def page(h: Handler) -> None:
            second = "page_token=next" in h.path
            items = [{"id": "b", "state": "running"}] if second else [{"id": "a", "state": "failed"}]
            h.reply(200, {"items": items, "next_page_token": None if second else "next"})
        self.server.on("GET", "/vms", page)
        table = self.mare("vm", "list").stdout.splitlines()
        self.assertEqual([line.split()[0] for line in table], ["ID", "a", "b"])
        self.assertEqual(self.mare("vm", "list", "-o", "name").stdout, "a\nb\n")
        self.assertEqual(self.mare("-o", "name", "vm", "list").stdout, "a\nb\n")
        self.assertEqual(len(json.loads(self.mare("vm", "list", "-o", "json").stdout)["items"]), 2)

    def test_filters_are_encoded(self) -> None:
        self.server.on("GET", "/vms", {"items": []})
        done = self.mare("vm", "list", "--pool", "a b&c")
        self.assertIn("pool=a%20b%26c", self.server.requests[0][1])
        self.assertEqual(done.stdout, "")

    def test_no_colour_outside_terminals_and_with_no_color(self) -> None:
        self.server.on("GET", "/vms", {"items": [{"id": "a", "state": "running"}]})
        self.assertNotIn("\033", self.mare("vm", "list").stdout)
        self.assertIn("\033[32m", self.on_terminal({"TERM": "xterm"}))
        self.assertNotIn("\033[32m", self.on_terminal({"TERM": "xterm", "NO_COLOR": "1"}))

    def on_terminal(self, environment: dict[str, str]) -> str:
        main, end = pty.openpty()
        subprocess.run([MARE, "vm", "list"], env=self.environment(**environment), stdout=end, timeout=60)
        os.close(end)
        text = os.read(main, 65536).decode()
        os.close(main)
        return text

    def test_a_closed_pipe_ends_quietly(self) -> None:
        self.server.on("GET", "/vms", {"items": [{"id": f"vm-{i}"} for i in range(20000)]})
        done = subprocess.run(["sh", "-c", '"$0" vm list | head -1', MARE], env=self.environment(),
                              text=True, capture_output=True, timeout=60)
        self.assertEqual(done.stderr, "")
        self.assertTrue(done.stdout.startswith("ID"))


class Errors(CommandTest):
    def test_each_kind_has_its_exit_code_and_words(self) -> None:
        cases = [(400, "invalid_argument", 2), (404, "not_found", 3), (409, "already_exists", 4),
                 (409, "conflict", 4), (409, "failed_precondition", 4), (409, "resource_exhausted", 4),
                 (503, "unavailable", 5), (500, "internal", 1)]
        for status, code, expected in cases:
            self.server.on("GET", "/vms/x", lambda h, s=status, c=code: h.problem(s, c, "it hurts", "rest"))
            done = self.mare("vm", "show", "x", code=expected)
            self.assertIn("it hurts", done.stderr)
            self.assertIn("rest", done.stderr)
            self.assertEqual(done.stdout, "")

    def test_a_wrong_token_says_where_it_came_from(self) -> None:
        with tempfile.NamedTemporaryFile("w") as file:
            file.write("wrong\n")
            file.flush()
            done = self.mare("vm", "list", "--token-file", file.name, code=1)
            self.assertIn(file.name, done.stderr)
        self.assertIn("MARE_TOKEN", self.mare("vm", "list", code=1, MARE_TOKEN="wrong").stderr)

    def test_a_token_file_that_is_not_there(self) -> None:
        done = self.mare("vm", "list", "--token-file", "/nonexistent/token", code=2)
        self.assertIn("/nonexistent/token", done.stderr)
        self.assertEqual(self.server.requests, [])

    def test_nobody_there(self) -> None:
        done = self.mare("vm", "list", code=5, MARE_URL="http://127.0.0.1:1")
        self.assertIn("http://127.0.0.1:1", done.stderr)
        self.assertIn("MARE_URL", done.stderr)

    def test_another_program_at_the_address(self) -> None:
        def html(h: Handler) -> None:
            h.send_response(200)
            h.send_header("Content-Length", "6")
            h.end_headers()
            h.wfile.write(b"<html>")
        self.server.on("GET", "/vms", html)
        self.assertIn("JSON", self.mare("vm", "list", code=1).stderr)

    def test_wrong_usage(self) -> None:
        for words in ([], ["vm"], ["vms", "list"], ["vm", "show"], ["migrate", "a", "--bandwidth", "5Mb"],
                      ["pool", "create", "p", "--size", "0"], ["pool", "create", "p", "-m", "lots"],
                      ["job", "submit", "demo"], ["job", "submit", "demo", "prog", "--its-option"],
                      ["vm", "list", "-o", "xml"], ["vm", "list", "--timeout", "soon"]):
            done = self.mare(*words, code=2)
            self.assertNotEqual(done.stderr, "", words)
            self.assertEqual(done.stdout, "", words)
        self.assertEqual(self.server.requests, [])

    def test_a_write_is_never_sent_twice(self) -> None:
        self.server.on("POST", "/vms/demo-0:start", lambda h: h.hang_up())
        self.mare("vm", "start", "demo-0", code=1)
        self.assertEqual(len(self.sent("POST")), 1)


class Waiting(CommandTest):
    def test_waits_for_success(self) -> None:
        self.server.on("POST", "/vms/demo-0:start", operation(), 202)
        self.server.on("GET", "/operations/op-1", in_turn(operation(), operation("succeeded")))
        done = self.mare("vm", "start", "demo-0", "--host", "h2")
        self.assertEqual(self.sent("POST"), [("/api/v1/vms/demo-0:start", {"host": "h2"})])
        self.assertIn("demo-0", done.stderr)

    def test_failure_is_exit_1_with_the_reason(self) -> None:
        self.server.on("POST", "/vms/demo-0:start", operation(), 202)
        self.server.on("GET", "/operations/op-1", operation("failed", reason="no room anywhere"))
        done = self.mare("vm", "start", "demo-0", code=1)
        self.assertIn("no room anywhere", done.stderr)
        self.assertIn("op-1", done.stderr)

    def test_no_wait_prints_the_operation(self) -> None:
        self.server.on("POST", "/vms/demo-0:stop", operation(), 202)
        self.assertEqual(self.mare("vm", "stop", "demo-0", "--no-wait", "-o", "name").stdout, "op-1\n")
        self.assertEqual(self.sent("GET"), [])

    def test_timeout_is_124_and_says_how_to_go_on(self) -> None:
        self.server.on("POST", "/vms/demo-0:start", operation(), 202)
        self.server.on("GET", "/operations/op-1", operation())
        done = self.mare("vm", "start", "demo-0", "--timeout", "300ms", code=124)
        self.assertIn("mare operation cancel op-1", done.stderr)

    def test_ctrl_c_ends_the_waiting_only(self) -> None:
        asked = threading.Event()

        def pending(h: Handler) -> None:
            h.reply(200, operation())
            asked.set()
        self.server.on("POST", "/vms/demo-0:start", operation(), 202)
        self.server.on("GET", "/operations/op-1", pending)
        run = subprocess.Popen([MARE, "vm", "start", "demo-0"], env=self.environment(), text=True,
                               stderr=subprocess.PIPE)
        self.assertTrue(asked.wait(30))
        run.send_signal(signal.SIGINT)
        _, err = run.communicate(timeout=30)
        self.assertEqual(run.returncode, 130)
        self.assertIn("mare operation cancel op-1", err)
        self.assertEqual(len(self.sent("POST")), 1)

    def test_sits_out_a_restart_of_mared(self) -> None:
        asked = threading.Event()

        def pending(h: Handler) -> None:
            h.reply(200, operation())
            h.close_connection = True
            asked.set()
        self.server.on("POST", "/vms/demo-0:start", operation(), 202)
        self.server.on("GET", "/operations/op-1", pending)
        run = subprocess.Popen([MARE, "vm", "start", "demo-0"], env=self.environment(), text=True,
                               stderr=subprocess.PIPE)
        self.assertTrue(asked.wait(30))
        port = self.server.port
        self.server.close()
        assert run.stderr is not None
        for line in run.stderr:  # ends, with the test, when it never says so
            if "does not answer" in line:
                break
        self.server = FakeMared(port)
        self.server.on("GET", "/operations/op-1", operation("succeeded"))
        _, err = run.communicate(timeout=60)
        self.assertEqual(run.returncode, 0, err)

    def test_a_migration_shows_rounds_and_figures(self) -> None:
        moving = {"id": "op-1", "vm": "demo-1", "source": "h1", "destination": "h3", "state": "pre_copying",
                  "memory_total_bytes": 1 << 28, "remaining_bytes": 1 << 26, "transferred_bytes": 1 << 28,
                  "rounds": [{"index": 0, "sent_bytes": 1 << 28, "duration_ms": 1000, "dirty_bytes_per_s": 1e6}],
                  "total_time_ms": 2000, "downtime_ms": {"hypervisor": 80, "guest": 85, "peers": 90},
                  "announce_delay_ms": 2}
        begun = {**operation(), "kind": "vm.migrate", "state": "pre_copying"}
        self.server.on("POST", "/vms/demo-1/migrations", begun, 202)
        self.server.on("GET", "/migrations/op-1", moving)
        self.server.on("GET", "/operations/op-1", in_turn(begun, operation("succeeded")))
        done = self.mare("migrate", "demo-1", "--to", "h3", "--bandwidth", "50MB/s", "--max-downtime", "300ms",
                         "--timeout", "1m", "--priority", "least-traffic", "--force")
        self.assertEqual(self.sent("POST")[0], ("/api/v1/vms/demo-1/migrations", {
            "destination": "h3", "priority": "least-traffic", "bandwidth_limit_bytes_per_s": 5e7,
            "downtime_limit_ms": 300, "timeout_s": 60, "force": True}))
        self.assertIn("demo-1 moved from h1 to h3 in 2 s", done.stdout)
        self.assertIn("round 0", done.stderr)


class Policies(CommandTest):
    POOL = {"id": "demo", "size": 2, "move_policy": {
        "priority": "least-traffic", "strategy": None, "bandwidth_limit_bytes_per_s": 5e7, "downtime_limit_ms": 300,
        "time_limit_s": 60, "at_limit": "cancel", "knobs": {"rate_gain": 0.5}}}

    def policy(self, *words: str) -> Any:
        self.server.requests.clear()
        self.server.on("PATCH", "/pools/demo", self.POOL)
        self.mare("pool", "set-policy", "demo", *words)
        return self.sent("PATCH")[0][1]["move_policy"]

    def test_a_pools_policy_is_changed_field_by_field(self) -> None:
        self.assertEqual(self.policy("--bandwidth", "50MB/s", "--time-limit", "60s"),
                         {"bandwidth_limit_bytes_per_s": 5e7, "time_limit_s": 60})
        self.assertEqual(self.policy("--strategy", "none", "--max-downtime", "none"),
                         {"strategy": None, "downtime_limit_ms": None})
        self.assertEqual(self.policy("--reset", "--at-limit", "post-copy"), {
            "priority": "least-stall", "strategy": None, "bandwidth_limit_bytes_per_s": None,
            "downtime_limit_ms": None, "time_limit_s": None, "at_limit": "post-copy", "drop_page_cache": False,
            "knobs": None})
        self.assertEqual(self.policy("--drop-page-cache", "yes"), {"drop_page_cache": True})
        self.assertEqual(self.policy("--strategy", "rate-controlled", "--rate-min", "10MB/s", "--rate-gain", "0.5"), {
            "strategy": "rate-controlled", "knobs": {"rate_min_bytes_per_s": 1e7, "rate_gain": 0.5}})
        self.assertEqual(self.policy("--strategy", "hybrid", "--pre-copy-rounds", "3")["knobs"], {"pre_copy_rounds": 3})
        self.mare("pool", "set-policy", "demo", "--rate-max", "fast", code=2)
        self.mare("pool", "set-policy", "demo", "--throttle-step", "much", code=2)
        self.mare("pool", "set-policy", "demo", "--bandwidth", "much", code=2)

    def test_a_pool_is_scaled(self) -> None:
        scaled = {**operation(), "kind": "pool.scale", "target": "demo"}
        self.server.on("PATCH", "/pools/demo", scaled, 202)
        self.server.on("GET", "/vms", {"items": [{"id": "demo-0", "state": "running"}]})
        self.server.on("GET", "/operations/op-1",
                       in_turn(scaled, operation("succeeded", reason="the pool has 3 VMs")))
        done = self.mare("pool", "scale", "demo", "3")
        self.assertEqual(self.sent("PATCH"), [("/api/v1/pools/demo", {"size": 3})])
        self.assertIn("the pool has 3 VMs", done.stderr)
        self.assertIn("demo-0", done.stdout)
        self.server.on("GET", "/operations/op-1",
                       operation("failed", reason="no room; the pool has 2 VMs, 3 were asked for"))
        done = self.mare("pool", "scale", "demo", "3", "--best-effort", code=1)
        self.assertEqual(self.sent("PATCH")[1][1], {"size": 3, "best_effort": True})
        self.assertIn("the pool has 2 VMs, 3 were asked for", done.stderr)
        self.assertEqual(self.mare("pool", "scale", "demo", "3", "--no-wait", "-o", "name").stdout, "op-1\n")
        for words in (["demo"], ["demo", "0"], ["demo", "many"]):
            self.mare("pool", "scale", *words, code=2)

    def test_a_projects_quota(self) -> None:
        project = {"id": "physics", "pools": ["demo"], "vms": 4, "memory_mib": 768, "hosts": ["h1", "h2"],
                   "quota": {"vms": 16, "memory_mib": None, "hosts": None}}
        self.server.on("GET", "/projects", {"items": [project]})
        self.server.on("GET", "/projects/physics", project)
        for method in ("PUT", "DELETE"):
            self.server.on(method, "/projects/physics/quota", project)
        listed = self.mare("project", "list").stdout
        self.assertIn("4 of 16", listed)
        self.assertIn("768 MiB", listed)
        self.assertIn("4 of 16", self.mare("project", "quota", "physics").stdout, "a look")
        self.assertEqual(self.sent("PUT"), [])
        self.mare("project", "quota", "physics", "--vms", "16", "--memory", "4GiB")
        self.assertEqual(self.sent("PUT"), [("/api/v1/projects/physics/quota", {"vms": 16, "memory_mib": 4096, "hosts": None})])
        self.assertEqual(self.mare("project", "quota", "physics", "--none", "-o", "name").stdout, "physics\n")
        for words in (["--vms", "-1"], ["--memory", "much"], ["--none", "--vms", "1"]):
            self.mare("project", "quota", "physics", *words, code=2)

    def test_a_pool_follows_a_figure(self) -> None:
        rule = {"pool": "demo", "source": "posted", "total": True, "target": 15, "min": 1, "max": 8, "metric": 21,
                "desired": 3, "reason": "grows from 2 to 3", "up": {"stabilisation_s": 0, "cooldown_s": 180, "step": 0},
                "down": {"stabilisation_s": 300, "cooldown_s": 0, "step": 2}}
        for method in ("GET", "PUT"):
            self.server.on(method, "/pools/demo/autoscale", rule)
        done = self.mare("pool", "autoscale", "demo", "--target", "15", "--total", "--max", "8", "--up-cooldown", "180s",
                         "--down-step", "2")
        self.assertEqual(self.sent("PUT"), [("/api/v1/pools/demo/autoscale", {
            "source": "posted", "total": True, "stale_after_s": 60, "target": 15, "tolerance": 0.1, "min": 1, "max": 8,
            "up": {"stabilisation_s": 0, "cooldown_s": 180, "step": 0},
            "down": {"stabilisation_s": 300, "cooldown_s": 0, "step": 2}})])
        self.assertIn("grows from 2 to 3", done.stdout)
        self.assertIn("posted, of the pool", self.mare("pool", "autoscale", "demo").stdout)
        self.assertEqual(len(self.sent("PUT")), 1, "a look changes nothing")
        self.server.on("DELETE", "/pools/demo/autoscale", {"id": "demo", "size": 3})
        self.assertIn("stays at 3 VMs", self.mare("pool", "autoscale", "demo", "--off").stderr)
        self.server.on("POST", "/pools/demo/metrics", rule)
        self.assertEqual(self.mare("pool", "metric", "demo", "42.5", "-o", "name").stdout, "demo\n")
        self.assertEqual(self.sent("POST"), [("/api/v1/pools/demo/metrics", {"value": 42.5})])
        self.mare("pool", "autoscale", "demo", "--target", "2", "--max", "3", "--source", "prometheus",
                  "--prometheus-url", "http://prometheus:9090", "--query", "sum(up)", "--query-timeout", "1s")
        sent = self.sent("PUT")[-1][1]
        self.assertEqual({name: sent[name] for name in ("source", "url", "query", "query_timeout_s")}, {
            "source": "prometheus", "url": "http://prometheus:9090", "query": "sum(up)", "query_timeout_s": 1})
        for words in (["--source", "prometheus"], ["--query", "up"], ["--source", "queue", "--query-timeout", "1s"],
                      ["--source", "prometheus", "--query", "up"]):
            self.mare("pool", "autoscale", "demo", "--target", "2", "--max", "3", *words, code=2)
        self.assertEqual(len(self.sent("PUT")), 2)
        for words in (["--target", "15"], ["--max", "3"], ["--target", "0", "--max", "3"], ["--source", "queue"],
                      ["--down-step", "2"], ["--off", "--target", "1", "--max", "2"], ["--target", "1", "--max", "2", "--source", "moon"]):
            self.mare("pool", "autoscale", "demo", *words, code=2)
        self.mare("pool", "metric", "demo", "-1", code=2)

    def test_rebalancing(self) -> None:
        moves = [{"vm": "demo-1", "from": "h1", "to": "h2", "added_job_time_s": None, "bytes": None, "reason": "levels memory"}]
        now = {"mode": "manual", "threshold": 0.1, "hold_s": 60, "margin": 0.05, "cooldown_s": 300, "max_moves": 4,
               "rest_s": 600, "pools": {"demo": "partial"}, "score": 0.3121, "broken_rules": 0, "reason": "proposes 1 move",
               "above_since": "2026-11-21T04:00:00Z", "operation": None, "ended": None, "rounds": 0, "moves": 0, "refusals": 0,
               "proposal": {"made": "2026-11-21T04:00:00Z", "operation": None, "reason": "1 move: better", "moves": moves}}
        for method in ("GET", "PUT"):
            self.server.on(method, "/rebalancing", now)
        shown = self.mare("rebalance", "show").stdout
        for words in ("0.3121", "demo partial", "proposed 2026-11-21 04:00:00Z: 1 move: better", "levels memory"):
            self.assertIn(words, shown)
        self.mare("rebalance", "set", "--mode", "automatic", "--threshold", "0.2", "--hold", "30s", "--margin", "0.1",
                  "--cooldown", "0", "--max-moves", "2", "--rest", "5m", "--pool", "demo=none", "--pool", "other=manual")
        self.assertEqual(self.sent("PUT"), [("/api/v1/rebalancing", {
            "mode": "automatic", "threshold": 0.2, "hold_s": 30, "margin": 0.1, "cooldown_s": 0, "max_moves": 2,
            "rest_s": 300, "pools": {"other": "manual"}})])
        self.mare("rebalance", "set", "--hold", "10s")
        sent = self.sent("PUT")[1][1]
        self.assertEqual((sent["mode"], sent["threshold"], sent["hold_s"]), ("manual", 0.1, 10), "the rest stays")
        planned = {**operation("succeeded", reason="1 move: better"), "kind": "plan.rebalance",
                   "request": {"plan": {"moves": moves}}}
        self.server.on("POST", "/rebalancing:run", {**operation(), "kind": "plan.rebalance"}, 202)
        self.server.on("GET", "/operations/op-1", planned)
        dry = self.mare("rebalance", "--dry-run").stdout
        self.assertIn("demo-1", dry)
        self.assertIn("1 move: better", dry)
        self.server.on("GET", "/operations/op-1", operation("succeeded", reason="1 move made"))
        self.assertIn("op-1: 1 move made", self.mare("rebalance").stdout)
        for words in (["--mode", "often"], ["--margin", "1"], ["--hold", "soon"], ["--max-moves", "-1"], ["--pool", "demo"],
                      ["--pool", "demo=always"]):
            self.mare("rebalance", "set", *words, code=2)

    def test_it_is_shown_in_words(self) -> None:
        self.server.on("GET", "/pools", {"items": [self.POOL]})
        self.assertIn("least-traffic, at most 50 MB/s, downtime 300 ms, within 60 s or cancel",
                      self.mare("pool", "list", "-o", "wide").stdout)


class Forecasts(CommandTest):
    FORECAST = {"id": "op-1", "vm": "demo-1", "source": "h1", "destination": "h3", "choice": "pre-copy",
                "reason": "Pre-copy: because", "outcome": None, "strategies": [
                    {"strategy": "pre-copy", "offered": True, "why_not": None, "converges": True,
                     **{name: {"value": 2, "low": 1, "high": 3} for name in
                        ("total_time_s", "sent_bytes", "downtime_s", "added_job_time_s")}}]}

    def test_a_dry_run_prints_the_table_and_the_reason(self) -> None:
        self.server.on("POST", "/vms/demo-1/migrations", operation(), 202)
        self.server.on("GET", "/operations/op-1", in_turn(operation(), operation("succeeded")))
        self.server.on("GET", "/forecasts/op-1", self.FORECAST)
        lines = self.mare("migrate", "demo-1", "--to", "h3", "--dry-run").stdout.splitlines()
        self.assertEqual(self.sent("POST")[0][0], "/api/v1/vms/demo-1/migrations?dry_run=true")
        self.assertRegex(lines[2], r"^\*  pre-copy +2 s \(1 s to 3 s\)")
        self.assertEqual(lines[-1], "Pre-copy: because")
        as_json = self.mare("migrate", "demo-1", "--dry-run", "-o", "json").stdout
        self.assertEqual(json.loads(as_json), self.FORECAST)
        self.assertEqual(self.mare("migrate", "demo-1", "--dry-run", "-o", "name").stdout, "op-1\n")

    def test_a_dry_run_that_fails_says_why(self) -> None:
        self.server.on("POST", "/vms/demo-1/migrations", operation(), 202)
        self.server.on("GET", "/operations/op-1", operation("failed", reason="host 'h1' has no dirty-page log"))
        self.assertIn("no dirty-page log", self.mare("migrate", "demo-1", "--dry-run", code=1).stderr)

    def test_a_drain_is_forecast_vm_by_vm(self) -> None:
        figures = {name: {"value": 2, "low": 1, "high": 3} for name in
                   ("total_time_s", "sent_bytes", "downtime_s", "added_job_time_s")}
        move = {"vm": "demo-1", "to": "h3", "strategy": "pre-copy", "wave": 1, "forecast": "op-2", **figures}
        plan = {"moves": [move], "stay": [], "waves": [], "total": figures}
        self.server.on("POST", "/hosts/h1:drain", operation(), 202)
        self.server.on("GET", "/operations/op-1",
                       operation("succeeded", reason="1 VM would move", request={"plan": plan}))
        self.server.on("GET", "/operations", {"items": [{"id": "op-2"}]})
        self.server.on("GET", "/forecasts/op-2", {**self.FORECAST, "id": "op-2"})
        lines = self.mare("host", "drain", "h1", "--dry-run").stdout.splitlines()
        self.assertEqual(self.sent("POST")[0][0], "/api/v1/hosts/h1:drain?dry_run=true")
        self.assertRegex(lines[1], r"^demo-1 +1 +h3 +pre-copy +2 s \(1 s to 3 s\)")
        self.assertTrue(lines[2].startswith("in all"), lines[2])
        self.assertEqual(lines[3:], ["1 VM would move"])
        wide = self.mare("host", "drain", "h1", "--dry-run", "-o", "wide").stdout.splitlines()
        self.assertIn("*  pre-copy", "\n".join(wide))
        self.assertIn("Pre-copy: because", wide)
        self.assertEqual(wide[-1], "1 VM would move")
        self.assertEqual(self.mare("host", "drain", "h1", "--dry-run", "-o", "name").stdout, "op-2\n")
        both = json.loads(self.mare("host", "drain", "h1", "--dry-run", "-o", "json").stdout)
        self.assertEqual([one["id"] for one in both["forecasts"]], ["op-2"])

        self.assertEqual(both["operation"]["request"]["plan"], plan)

    def test_a_drain_takes_a_policy_and_tells_how_to_have_it_explained(self) -> None:
        self.server.on("POST", "/hosts/h1:drain", operation(), 202)
        self.server.on("GET", "/operations/op-1", operation("succeeded"))
        done = self.mare("host", "drain", "h1", "--priority", "by-deadline", "--time-limit", "60s", "--at-limit",
                         "post-copy", "--bandwidth", "none", "--max-downtime", "300ms")
        self.assertEqual(self.sent("POST")[0], ("/api/v1/hosts/h1:drain", {
            "priority": "by-deadline", "time_limit_s": 60, "at_limit": "post-copy",
            "bandwidth_limit_bytes_per_s": None, "downtime_limit_ms": 300}))
        self.assertIn("mare explain op-1", done.stderr)
        self.mare("host", "drain", "h1", "--strategy", "teleport", code=2)

    def test_a_drain_is_explained(self) -> None:
        told = {"operation": "op-1", "host": "h1", "outcome": "succeeded", "sentence": "1 VM moved in 9 s.",
                "figures": [], "migrations": [{"migration": "op-3", "vm": "demo-1", "outcome": "succeeded"}]}
        self.server.on("GET", "/operations/op-1/explanation", told)
        text = self.mare("explain", "op-1").stdout
        self.assertIn("op-1: host h1, succeeded", text)
        self.assertIn("after: 1 VM moved in 9 s.", text)
        self.assertNotIn("DOWNTIME", text)
        self.assertIn("FORECAST DOWNTIME", self.mare("explain", "op-1", "-o", "wide").stdout)
        self.assertEqual(json.loads(self.mare("explain", "op-1", "-o", "json").stdout), told)
        self.assertEqual(self.mare("explain", "op-1", "-o", "name").stdout, "op-1\n")
        self.server.on("GET", "/operations/op-1/explanation",
                       lambda h: h.problem(404, "not_found", "operation 'op-1' is a plan.drain"))
        self.assertIn("is a plan.drain", self.mare("explain", "op-1", code=3).stderr)

    def test_an_evacuation_is_planned_and_tells_every_vm(self) -> None:
        move = {"vm": "demo-3", "to": "h2", "strategy": "pre-copy", "begins_s": 0, "ends_s": 12.5}
        self.server.on("POST", "/hosts/h1:evacuate", operation(), 202)
        self.server.on("GET", "/operations/op-1", operation(
            "succeeded", reason="1 VM can leave in time: demo-3", request={"plan": {"moves": [move]}}))
        lines = self.mare("host", "evacuate", "h1", "--within", "1m", "--dry-run").stdout.splitlines()
        self.assertEqual(self.sent("POST")[0], ("/api/v1/hosts/h1:evacuate?dry_run=true", {"within_s": 60}))
        self.assertEqual(lines[0].split()[:3], ["VM", "TO", "BY"])
        self.assertEqual(lines[1].split()[:3], ["demo-3", "h2", "pre-copy"])
        self.assertEqual(lines[-1], "1 VM can leave in time: demo-3")

        fates = [{"vm": "demo-3", "fate": "moved", "detail": "to h2"},
                 {"vm": "demo-4", "fate": "covered", "detail": "by ck-2 of job-1, 9 s old"}]
        self.server.on("GET", "/operations/op-1", operation(
            "succeeded", target="h1", reason="1 of 2 VMs moved", request={"fates": fates}))
        done = self.mare("host", "evacuate", "h1", "--within", "90s", "--reason", "DIMM B2")
        self.assertEqual(self.sent("POST")[-1][1], {"within_s": 90, "reason": "DIMM B2"})
        self.assertRegex(done.stdout, r"(?m)^demo-4 +covered +by ck-2 of job-1, 9 s old$")
        self.assertIn("host h1 can fail: 1 of 2 VMs moved", done.stdout)

        self.server.on("GET", "/operations/op-1", operation("failed", reason="1 of 2 VMs left: demo-4"))
        self.assertIn("1 of 2 VMs left: demo-4",
                      self.mare("host", "evacuate", "h1", "--within", "90s", code=1).stderr)
        self.mare("host", "evacuate", "h1", code=2)
        self.mare("host", "evacuate", "h1", "--within", "soon", code=2)

    def test_a_layout_is_planned_and_changed(self) -> None:
        move = {"vm": "demo-3", "from": "h1", "to": "h2", "bytes": 2e8, "added_job_time_s": 0.5, "reason": "crowded"}
        self.server.on("POST", "/jobs/job-1:spread", operation(), 202)
        self.server.on("GET", "/operations/op-1", operation(
            "succeeded", reason="1 move to 2 hosts", request={"plan": {"moves": [move]}}))
        lines = self.mare("job", "spread", "job-1", "--dry-run", "--hosts", "2").stdout.splitlines()
        path, body = self.sent("POST")[0]
        self.assertEqual(path, "/api/v1/jobs/job-1:spread?dry_run=true")
        self.assertEqual(body, {"hosts": 2, "remaining_s": None, "force": False})
        self.assertEqual(lines[0].split()[:3], ["VM", "FROM", "TO"])
        self.assertEqual(lines[1].split()[:3], ["demo-3", "h1", "h2"])
        self.assertEqual(lines[-1], "1 move to 2 hosts")
        self.assertEqual(self.mare("job", "spread", "job-1", "--dry-run", "-o", "name").stdout, "demo-3\n")

        self.server.on("POST", "/jobs/job-1:pack", operation(), 202)
        done = self.mare("job", "pack", "job-1", "--remaining", "2m", "--force")
        self.assertEqual(self.sent("POST")[-1], ("/api/v1/jobs/job-1:pack",
                                                 {"hosts": None, "remaining_s": 120, "force": True}))
        self.assertEqual(done.stdout, "op-1: 1 move to 2 hosts\n")
        self.server.on("GET", "/operations/op-1", operation("failed", reason="job 'job-1' stays: it loses"))
        self.assertIn("job 'job-1' stays: it loses", self.mare("job", "pack", "job-1", code=1).stderr)
        self.mare("job", "pack", "job-1", "--hosts", "0", code=2)

    def test_lists_explanations_and_memory(self) -> None:
        self.server.on("GET", "/forecasts", {"items": [self.FORECAST]})
        self.assertIn("pre-copy", self.mare("forecast", "list", "--vm", "demo-1").stdout)
        self.assertIn("vm=demo-1", self.server.requests[0][1])
        self.server.on("GET", "/forecasts/op-1", self.FORECAST)
        self.assertIn("Pre-copy: because", self.mare("forecast", "show", "op-1").stdout)
        self.server.on("GET", "/migrations/op-1/explanation", {"migration": "op-1", "sentence": "it took 2 s."})
        self.assertIn("after: it took 2 s.", self.mare("explain", "op-1").stdout)
        self.server.on("GET", "/vms/demo-1/memory", {"vm": "demo-1", "profile": {"heat": [1, 0.5]}})
        self.assertIn("[█▄]", self.mare("vm", "memory", "demo-1").stdout)
        self.server.on("GET", "/forecasts/accuracy", {"forecasts": 3})
        self.assertEqual(json.loads(self.mare("forecast", "accuracy", "-o", "json").stdout), {"forecasts": 3})

    def test_accuracy_is_split_and_limited_to_a_time(self) -> None:
        self.server.on("GET", "/forecasts/accuracy", {"forecasts": 3})

        def asked(*words: str) -> dict[str, list[str]]:
            self.server.requests.clear()
            self.mare("forecast", "accuracy", *words)
            return urllib.parse.parse_qs(urllib.parse.urlsplit(self.server.requests[-1][1]).query)

        self.assertEqual(asked(), {})
        self.assertEqual(asked("--by", "pair", "--since", "2026-11-21T04:00:00+01:00"),
                         {"by": ["pair"], "since": ["2026-11-21T04:00:00+01:00"]})
        since = datetime.datetime.fromisoformat(asked("--since", "24h")["since"][0].replace("Z", "+00:00"))
        ago = datetime.datetime.now(datetime.timezone.utc) - since
        self.assertLess(abs(ago - datetime.timedelta(days=1)), datetime.timedelta(minutes=5))
        self.mare("forecast", "accuracy", "--by", "host", code=2)
        self.assertIn("write 24h", self.mare("forecast", "accuracy", "--since", "yesterday", code=2).stderr)

    def test_what_a_move_cost_is_reported(self) -> None:
        kept = {**self.FORECAST, "outcome": {"strategy": "pre-copy", "added_job_time_s": -0.25}}
        self.server.on("POST", "/migrations/op-1:report", kept)
        done = self.mare("migration", "report", "op-1", "--added-job-time", "-0.25")
        self.assertEqual(self.sent("POST")[0], ("/api/v1/migrations/op-1:report", {"added_job_time_s": -0.25}))
        self.assertIn("of added job time", done.stdout)
        self.mare("migration", "report", "op-1", code=2)
        self.assertIn("seconds", self.mare("migration", "report", "op-1", "--added-job-time", "much", code=2).stderr)


class Jobs(CommandTest):
    def submit(self, **job: Any) -> None:
        self.server.on("POST", "/jobs", {**operation(), "kind": "job.run", "target": "job-1"}, 202)
        self.server.on("GET", "/jobs/job-1", {"id": "job-1", "name": "prog", **job})

    def test_prints_the_id_and_passes_everything_after_the_dashes(self) -> None:
        self.submit(state="queued")
        done = self.mare("job", "submit", "demo", "-n", "3", "-e", "A=1", "-e", "B=x=y", "--", "prog", "-n", "9",
                         "--wait", "--")
        self.assertEqual(done.stdout, "job-1\n")
        body = self.sent("POST")[0][1]
        self.assertEqual(body["command"], ["prog", "-n", "9", "--wait", "--"])
        self.assertEqual((body["pool"], body["ranks"]), ("demo", 3))
        self.assertEqual(body["environment"], ["A=1", "B=x=y"])

    def test_checkpoints_are_asked_for_in_words(self) -> None:
        self.submit(state="queued")
        for words, told in ((["--checkpoint-every", "90s", "--checkpoints-kept", "5"], ("every", 90, 5)),
                            (["--checkpoint-every", "optimal"], ("optimal", None, 2)),
                            ([], ("never", None, 2))):
            self.server.requests.clear()
            self.mare("job", "submit", "demo", *words, "--", "prog")
            body = self.sent("POST")[0][1]
            self.assertEqual((body["checkpoint_rule"], body.get("checkpoint_every_s"), body["checkpoints_kept"]),
                             told)
            self.assertEqual((body["checkpoint_mode"], body["checkpoint_chain"]), ("incremental", 8))
            self.assertNotIn("checkpoints_max_age_s", body)
        self.mare("job", "submit", "demo", "--checkpoint-every", "often", "--", "p", code=2)
        self.mare("job", "submit", "demo", "--checkpoint-mode", "full", "--checkpoint-chain", "3",
                  "--checkpoints-max-age", "24h", "--", "p")
        body = self.sent("POST")[-1][1]
        self.assertEqual((body["checkpoint_mode"], body["checkpoint_chain"], body["checkpoints_max_age_s"]),
                         ("full", 3, 86400))
        self.mare("job", "submit", "demo", "--checkpoint-mode", "some", "--", "p", code=2)
        self.mare("job", "submit", "demo", "--checkpoint-chain", "0", "--", "p", code=2)

    def test_safe_points_are_asked_for_in_words(self) -> None:
        self.submit(state="queued")
        for words, told in ((["--safe-points"], (True, 1)), ([], (None, None)),
                            (["--safe-points", "--safe-point-wait", "300ms"], (True, 0.3))):
            self.server.requests.clear()
            self.mare("job", "submit", "demo", *words, "--", "prog")
            body = self.sent("POST")[0][1]
            self.assertEqual((body.get("safe_points"), body.get("safe_point_wait_s")), told)
        for wrong in (["--safe-point-wait", "2s"], ["--safe-points", "--safe-point-wait", "soon"]):
            self.assertIn("safe-point", self.mare("job", "submit", "demo", *wrong, "--", "p", code=2).stderr)

    def test_a_job_tells_how_tightly_its_ranks_wait(self) -> None:
        self.submit(state="queued")
        for words, told in ((["--tightness", "0.25"], 0.25), ([], None)):
            self.mare("job", "submit", "demo", *words, "--", "prog")
            self.assertEqual(self.sent("POST")[-1][1].get("tightness"), told)
        self.assertIn("tightness", self.mare("job", "submit", "demo", "--tightness", "2", "--", "p", code=2).stderr)

    def test_partners_are_asked_for_with_and_without_a_rule(self) -> None:
        self.submit(state="queued", checkpoint_rule="never", checkpoint_partner=True)
        for words, told in ((["--checkpoint-partner"], ("never", True)), ([], ("never", None)),
                            (["--checkpoint-every", "60s", "--checkpoint-partner"], ("every", True))):
            self.mare("job", "submit", "demo", *words, "--", "prog")
            body = self.sent("POST")[-1][1]
            self.assertEqual((body["checkpoint_rule"], body.get("checkpoint_partner")), told)
        self.assertIn("never, also in memory", self.mare("job", "show", "job-1").stdout)

    def test_checkpoint_restart_and_list(self) -> None:
        done = {**operation("succeeded"), "target": "job-1"}
        self.server.on("POST", "/jobs/job-1:checkpoint", {**done, "kind": "checkpoint.take",
                                                          "reason": "ck-2: 384 MiB in 1.2 s"}, 202)
        self.server.on("POST", "/jobs/job-1:restart", {**done, "kind": "checkpoint.restore",
                                                       "reason": "job-1 goes on from ck-1"}, 202)
        self.server.on("GET", "/operations/op-1", {**done, "reason": "told"})
        self.server.on("GET", "/jobs/job-1/checkpoints",
                       {"items": [{"id": "ck-2", "state": "complete", "size_bytes": 402653184, "pause_ms": 62.5,
                                   "written_bytes": 7340032, "base": "ck-1",
                                   "skew_ms": 4.1, "safe_point": "missed", "in_memory": 2, "parts": [{}, {}, {}]},
                                  {"id": "ck-1", "state": "complete", "in_memory": 0, "parts": [{}]}],
                        "next_page_token": None})
        self.assertIn("job-1 is complete", self.mare("job", "checkpoint", "job-1").stderr)
        self.mare("job", "restart", "job-1", "--checkpoint", "ck-1", "--hosts", "h2,h3")
        self.assertEqual(self.sent("POST")[-1], ("/api/v1/jobs/job-1:restart",
                                                 {"checkpoint": "ck-1", "hosts": ["h2", "h3"]}))
        self.mare("job", "restart", "job-1", "--eager")
        self.assertEqual(self.sent("POST")[-1][1], {"hosts": [], "eager": True})
        table = self.mare("job", "checkpoints", "job-1").stdout
        for word in ("ck-2", "complete", "384 MiB", "7 MiB", "ck-1", "62.5 ms", "4.10 ms"):
            self.assertIn(word, table)
        self.assertNotIn("2/3", table)
        wide = self.mare("job", "checkpoints", "job-1", "-o", "wide").stdout
        for word in ("missed", "IN MEMORY", "2/3"):
            self.assertIn(word, wide)
        self.assertNotIn("0/1", wide)

    def test_wait_gives_the_programs_exit_code(self) -> None:
        for code in (0, 7, 137):
            self.submit(state="succeeded" if code == 0 else "failed", exit_code=code)
            self.assertEqual(self.mare("job", "submit", "demo", "--wait", "--", "p", code=code).stdout, "job-1\n")
            self.mare("job", "wait", "job-1", code=code)
        self.submit(state="failed", exit_code=None, reason="no VMs")
        self.assertIn("no VMs", self.mare("job", "wait", "job-1", code=1).stderr)

    def test_follow_copies_output_and_goes_on_where_it_broke(self) -> None:
        whole = bytes(range(256)) * 40

        def output(h: Handler) -> None:
            offset = int(h.path.split("offset=")[1].split("&")[0])
            h.begin_stream("text/plain")
            h.chunk(whole[offset:offset + 6000])
            if offset == 0:
                h.hang_up()  # in mid-stream, as a restart of mared looks
            else:
                h.chunk(b"")
        self.submit(state="succeeded", exit_code=0)
        self.server.on("GET", "/jobs/job-1/output", output)
        done = subprocess.run([MARE, "job", "submit", "demo", "--follow", "--", "p"], env=self.environment(),
                              capture_output=True, timeout=60)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout, whole)

    def test_cancel_on_interrupt(self) -> None:
        asked = threading.Event()
        state = {"id": "job-1", "name": "p", "state": "running"}

        def show(h: Handler) -> None:
            h.reply(200, state)
            asked.set()

        def cancel(h: Handler) -> None:
            state.update(state="cancelled", exit_code=143)
            h.reply(202, {**operation(), "kind": "job.run"})
        self.submit()
        self.server.on("GET", "/jobs/job-1", show)
        self.server.on("POST", "/jobs/job-1:cancel", cancel)
        run = subprocess.Popen([MARE, "job", "submit", "demo", "--wait", "--cancel-on-interrupt", "--", "p"],
                               env=self.environment(), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        self.assertTrue(asked.wait(30))
        run.send_signal(signal.SIGINT)
        _, err = run.communicate(timeout=30)
        self.assertEqual(run.returncode, 130, err)
        self.assertIn("cancelled", err)


class Events(CommandTest):
    def test_follow_resumes_after_the_last_event(self) -> None:
        def stream(h: Handler) -> None:
            last = int(h.headers.get("Last-Event-ID") or 0)
            h.begin_stream("text/event-stream")
            h.chunk(b": heartbeat\n\n")
            for seq in (last + 1, last + 2):
                event = {"seq": seq, "type": "vm.state", "subject": "demo-0", "data": {}}
                h.chunk(f"id: {seq}\nevent: vm.state\ndata: {json.dumps(event)}\n\n".encode())
            h.hang_up()
        self.server.on("GET", "/events", stream)
        run = subprocess.Popen([MARE, "events", "-f", "-o", "json", "--topics", "vm"], env=self.environment(),
                               stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        assert run.stdout is not None
        seen = [json.loads(run.stdout.readline())["seq"] for _ in range(4)]
        run.send_signal(signal.SIGINT)
        run.communicate(timeout=30)
        self.assertEqual(seen, [1, 2, 3, 4])
        self.assertEqual(run.returncode, 0)
        self.assertIn("topics=vm", self.server.requests[0][1])


class Completion(unittest.TestCase):
    def test_every_verb_that_it_offers_exists(self) -> None:
        script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../../ui/cli/completion/mare.bash")
        for noun in ("host", "pool", "vm", "job", "migration", "operation"):
            complete = (f'. "{script}"; COMP_WORDS=(mare {noun} ""); COMP_CWORD=2; _mare; echo "${{COMPREPLY[@]}}"')
            offered = subprocess.run(["bash", "-c", complete], text=True, capture_output=True, timeout=30)
            verbs = offered.stdout.split()
            self.assertGreaterEqual(len(verbs), 3, offered)
            for verb in verbs:
                done = subprocess.run([MARE, noun, verb, "--help"], capture_output=True, text=True, timeout=30)
                self.assertEqual(done.returncode, 0, f"{noun} {verb}: {done.stderr}")
                self.assertIn("Example", done.stdout, f"{noun} {verb} has no example")


if __name__ == "__main__":
    MARE = os.path.abspath(sys.argv.pop(1))
    sys.dont_write_bytecode = True
    unittest.main(verbosity=2)
