"""Who runs which VM, from a made table of processes; and ends of real ones."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

import paths  # noqa: F401
from lib.processes import LOOKS_TO_BE_SURE, QEMU, WATCHDOG, Doubles, Processes, Seen, end_at_once, has_ended, read_arguments, twice
from lib.waiting import wait_until

UUID = "4b2f7c1e-0000-4000-8000-00000000000{}"


def qemu(vm: str, uuid: str) -> list[str]:
    return ["/usr/bin/qemu-system-x86_64", "-name", f"guest={vm},debug-threads=on", "-S", "-uuid", uuid, "-m", "192"]


class Table(Processes):
    """A made /proc of two hosts and of something else."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for name in ("h1", "h2", "elsewhere"):
            (folder / name).touch()
        (folder / "proc").mkdir()
        super().__init__({(folder / name).stat().st_ino: name for name in ("h1", "h2")}, folder / "proc")

    def begin(self, pid: int, host: str, argv: list[str]) -> None:
        place = self.folder / "proc" / str(pid)
        (place / "ns").mkdir(parents=True)
        os.link(self.folder / host, place / "ns" / "net")
        (place / "cmdline").write_bytes("".join(word + "\0" for word in argv).encode())

    def become(self, pid: int, argv: list[str]) -> None:
        (self.folder / "proc" / str(pid) / "cmdline").write_bytes("".join(word + "\0" for word in argv).encode())

    def compute(self, pid: int, nanoseconds: int) -> None:
        """So long its virtual CPU has run in all; another thread of it more."""
        for tid, name, ran in ((pid, "qemu-system-x86", nanoseconds + 9_000_000), (pid + 1000, "CPU 0/TCG", nanoseconds)):
            thread = self.folder / "proc" / str(pid) / "task" / str(tid)
            thread.mkdir(parents=True, exist_ok=True)
            (thread / "comm").write_text(f"{name}\n")
            (thread / "schedstat").write_text(f"{ran} 77 3\n")

    def end(self, pid: int) -> None:
        """As the kernel does it: a process that ends has no arguments any more, but is still listed."""
        self.become(pid, [])


class Looks(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.table = Table(Path(folder.name))

    def test_arguments(self) -> None:
        self.assertEqual(read_arguments(qemu("rise-1", UUID.format(1))), (QEMU, "rise-1", UUID.format(1)))
        self.assertEqual(read_arguments(["/opt/mare/mare-watchdog", "lease", "status"]), (WATCHDOG, "", ""))
        for other in ([], ["sleep", "infinity"], qemu("mare-template-3", UUID.format(2)), ["qemu-system-x86_64", "-machine", "none"]):
            self.assertIsNone(read_arguments(other), other)

    def test_each_on_its_host_and_nobody_elses(self) -> None:
        self.table.begin(10, "h1", qemu("rise-0", UUID.format(0)))
        self.table.begin(11, "h2", ["/x/mare-watchdog", "a", "b"])
        self.table.begin(12, "elsewhere", qemu("other-0", UUID.format(3)))
        self.table.begin(13, "h1", ["libvirtd"])
        self.assertEqual(sorted(self.table.look(), key=lambda one: one.pid),
                         [Seen(10, "h1", QEMU, "rise-0", UUID.format(0)), Seen(11, "h2", WATCHDOG)])

    def test_a_process_that_becomes_a_vm_is_seen(self) -> None:
        self.table.begin(20, "h1", ["libvirtd"])
        for _ in range(LOOKS_TO_BE_SURE // 2):
            self.assertEqual(self.table.look(), [])
        self.table.become(20, qemu("rise-0", UUID.format(0)))
        self.assertEqual([one.vm for one in self.table.look()], ["rise-0"])
        self.table.end(20)
        self.assertEqual(self.table.look(), [])

    def test_twice_on_two_hosts(self) -> None:
        self.table.begin(10, "h1", qemu("rise-0", UUID.format(0)))
        self.table.begin(11, "h2", qemu("rise-1", UUID.format(1)))
        self.assertEqual(twice(self.table), [])
        self.table.begin(12, "h2", qemu("rise-0", UUID.format(0)))
        (both,) = twice(self.table)
        self.assertEqual({one.host for one in both}, {"h1", "h2"})
        self.table.end(10)
        self.assertEqual(twice(self.table), [])

    def test_one_that_ends_while_another_begins_is_not_twice(self) -> None:
        self.table.begin(10, "h1", qemu("rise-0", UUID.format(0)))
        self.table.begin(12, "h2", qemu("rise-0", UUID.format(0)))
        look = self.table.look

        def look_and_end() -> list[Seen]:
            found = look()
            self.table.end(10)
            return found
        self.table.look = look_and_end  # type: ignore[method-assign]
        self.assertEqual(twice(self.table), [])

    def test_a_double_is_found_once_and_kept(self) -> None:
        self.table.begin(10, "h1", qemu("rise-0", UUID.format(0)))
        with Doubles(self.table) as doubles:
            wait_until(lambda: doubles.looks >= 2, "two looks", 10, 0.01)
            self.assertEqual(doubles.found, [])
            self.table.begin(12, "h2", qemu("rise-0", UUID.format(0)))
            wait_until(lambda: doubles.found, "the double", 10, 0.01)
            looks = doubles.looks
            wait_until(lambda: doubles.looks >= looks + 2, "two looks more", 10, 0.01)
        self.assertEqual(len(doubles.found), 1)
        self.assertIn("rise-0: ", doubles.found[0])
        self.assertIn("h2 (process 12)", doubles.found[0])

    def test_a_copy_that_was_loaded_and_never_ran_is_no_double(self) -> None:
        for pid, host, ran_ns in ((10, "h1", 5_000_000_000), (12, "h2", 300_000)):
            self.table.begin(pid, host, qemu("rise-0", UUID.format(0)))
            self.table.compute(pid, ran_ns)
        with Doubles(self.table) as doubles:
            wait_until(lambda: doubles.loaded, "the copy", 10, 0.01)
            self.assertEqual(doubles.found, [])
            self.table.compute(12, 30_000_000)
            wait_until(lambda: doubles.found, "the double", 10, 0.01)


class Ends(unittest.TestCase):
    def test_all_end_at_once(self) -> None:
        program = [sys.executable, "-c", "import signal; signal.pause()"]
        processes = [subprocess.Popen(program) for _ in range(2)]
        for one in processes:
            self.addCleanup(one.communicate)
        self.assertFalse(has_ended(processes[0].pid))
        before = time.time()
        begun = end_at_once([one.pid for one in processes])
        self.assertTrue(before <= begun <= time.time())
        self.assertTrue(all(has_ended(one.pid) for one in processes))

    def test_one_that_went_before_is_no_trouble(self) -> None:
        process = subprocess.Popen([sys.executable, "-c", ""])
        process.communicate()
        end_at_once([process.pid])
        self.assertTrue(has_ended(process.pid))


if __name__ == "__main__":
    unittest.main()
