"""Ending exactly the processes that are the lab's own."""

import os
import signal
import socket
import subprocess
import tempfile
import unittest
from pathlib import Path

import paths  # noqa: F401
from mare_lab import network, procs, state
from mare_lab.util import LabError
from plan_test import plan


class Processes(unittest.TestCase):
    def setUp(self) -> None:
        self._directory = tempfile.TemporaryDirectory()
        self.directory = Path(self._directory.name)
        self.addCleanup(self._directory.cleanup)

    def child(self, *argv: str) -> tuple[subprocess.Popen[bytes], procs.Process]:
        child = subprocess.Popen(argv)
        self.addCleanup(child.wait)
        self.addCleanup(child.kill)
        process = procs.identify(child.pid)
        assert process is not None
        return child, process

    def test_a_pid_with_another_start_time_is_not_ours_and_is_left_alone(self) -> None:
        child, process = self.child("sleep", "60")
        stranger = procs.Process(process.pid, process.started + 1)
        self.assertTrue(process.alive())
        self.assertFalse(stranger.alive())
        self.assertEqual(procs.end([stranger]), [])
        self.assertIsNone(child.poll())

    def test_term_first_then_kill(self) -> None:
        polite, first = self.child("sleep", "60")
        stubborn = subprocess.Popen(["sh", "-c", "trap '' TERM; echo; while :; do sleep 1; done"],
                                    stdout=subprocess.PIPE, start_new_session=True)
        self.addCleanup(lambda: os.killpg(stubborn.pid, signal.SIGKILL))
        assert stubborn.stdout is not None
        self.addCleanup(stubborn.stdout.close)
        stubborn.stdout.readline()  # The trap is set.
        second = procs.identify(stubborn.pid)
        assert second is not None
        self.assertEqual(procs.end([first, second], patience=0.2), [])
        self.assertEqual(polite.wait(), -signal.SIGTERM)
        self.assertEqual(stubborn.wait(), -signal.SIGKILL)

    def test_a_zombie_counts_as_gone(self) -> None:
        child, process = self.child("sleep", "0.3")
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        self.assertFalse(process.alive())

    def test_what_the_lab_starts_is_found_by_its_mark_and_nothing_else_is(self) -> None:
        self.child("sleep", "60")
        ours = procs.start(["/bin/sleep", "60"], self.directory / "log", self.directory)
        self.addCleanup(os.waitpid, ours.pid, 0)
        self.addCleanup(procs.kill, ours)
        self.assertEqual(procs.marked(self.directory), [ours])
        self.assertEqual(procs.marked(self.directory / "other"), [])
        procs.kill(ours)
        self.assertEqual(procs.marked(self.directory), [])

    def test_a_program_that_is_not_there_is_named(self) -> None:
        with self.assertRaisesRegex(LabError, "/nonexistent/x"):
            procs.start(["/nonexistent/x"], self.directory / "log", self.directory)

    def test_the_owner_of_a_port_is_named(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as server:
            port = server.getsockname()[1]
            self.assertIn(f"pid {os.getpid()}", procs.listener(port) or "")
            self.assertTrue(network.connects("127.0.0.1", port))
        self.assertIsNone(procs.listener(port))

    def test_a_socket_with_a_path_too_long_for_the_kernel_is_reached(self) -> None:
        directory = self.directory / ("d" * 120)
        directory.mkdir()
        self.assertFalse(network.connects_unix(directory / "sock"))
        with socket.socket(socket.AF_UNIX) as server:
            descriptor = os.open(directory, os.O_RDONLY)
            self.addCleanup(os.close, descriptor)
            server.bind(f"/proc/self/fd/{descriptor}/sock")
            server.listen()
            self.assertTrue(network.connects_unix(directory / "sock"))


class State(unittest.TestCase):
    def setUp(self) -> None:
        self._directory = tempfile.TemporaryDirectory()
        self.directory = Path(self._directory.name)
        self.addCleanup(self._directory.cleanup)

    def test_it_comes_back_as_it_was_written(self) -> None:
        self.assertIsNone(state.load(self.directory))
        lab = state.LabState(plan=plan(state=self.directory), boot=state.boot_id())
        me = procs.identify(os.getpid())
        assert me is not None
        lab.record("mared", me)
        lab.set_rate("h1", "main", "10mbit")
        lab.set_rate("h2", "migration", "20mbit")
        self.assertEqual(state.load(self.directory), lab)
        rates = [lab.rate(host, link) for host in ("h1", "h2") for link in ("main", "migration")]
        self.assertEqual(rates, ["10mbit", "1gbit", "1gbit", "20mbit"])
        self.assertEqual(lab.alive("mared"), me)
        self.assertIsNone(lab.alive("ganesha"))

    def test_after_a_restart_of_the_machine_no_recorded_process_is_alive(self) -> None:
        me = procs.identify(os.getpid())
        assert me is not None
        lab = state.LabState(plan=plan(state=self.directory), boot="another boot",
                             processes={"mared": me})
        self.assertIsNone(lab.alive("mared"))

    def test_a_damaged_file_is_named(self) -> None:
        (self.directory / "lab.json").write_text("{", encoding="utf-8")
        with self.assertRaisesRegex(LabError, "lab.json"):
            state.load(self.directory)

    def test_a_second_mare_lab_is_told_to_wait(self) -> None:
        with state.Lock(self.directory), self.assertRaisesRegex(LabError, "another mare-lab"):
            with state.Lock(self.directory):
                pass


if __name__ == "__main__":
    unittest.main()
