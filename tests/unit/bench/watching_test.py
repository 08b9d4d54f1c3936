"""What is seen of a move from outside: the text that virsh prints, and threads that wait for pages."""

from __future__ import annotations

import itertools
import pathlib
import shutil
import sys
import tempfile
import unittest
from unittest import mock

import paths  # noqa: F401
import watching
from emulators import YOUNG_S, Emulators
from lib.waiting import wait_until

TOLD = """Job type:         Unbounded
Operation:        Outgoing migration
Time elapsed:     1412         ms
Data processed:   92.168 MiB
Expected downtime: {} ms
Setup time:       41           ms
"""


def thread(folder: pathlib.Path, process: int, number: int, name: str, sleeps_in: str) -> pathlib.Path:
    made = folder / str(process) / "task" / str(number)
    made.mkdir(parents=True)
    (made / "comm").write_text(name + "\n")
    (made / "wchan").write_text(sleeps_in)
    return made


def named(folder: pathlib.Path, process: int, name: str, uuid: str) -> None:
    (folder / str(process) / "comm").write_text(name + "\n")
    (folder / str(process) / "cmdline").write_bytes(f"/usr/bin/program\0-uuid\0{uuid}\0".encode())


class WatchingTest(unittest.TestCase):
    def setUp(self) -> None:
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.proc = pathlib.Path(scratch.name)
        thread(self.proc, 7, 71, "CPU 0/TCG", "handle_userfault")
        thread(self.proc, 7, 72, "CPU 1/TCG", "futex_wait_queue")
        thread(self.proc, 7, 73, "multifdrecv_0", "handle_userfault")
        thread(self.proc, 8, 81, "CPU 0/TCG", "handle_userfault")
        named(self.proc, 7, "qemu-system-x86", "aaaa")
        named(self.proc, 8, "qemu-system-x86", "bbbb")
        (self.proc / "version").write_text("")

    def test_qemus_guess_is_read_with_its_unit(self) -> None:
        self.assertAlmostEqual(watching.expected_downtime_s(TOLD.format(237)) or 0, 0.237)
        self.assertIsNone(watching.expected_downtime_s("Job type:         None\n"))
        self.assertIsNone(watching.expected_downtime_s("Total downtime:   31  ms\n"), "of one that is over")

    def test_qemus_last_guess_is_told_by_one_shell(self) -> None:
        # As virsh: it says what it reads, and answers; the third time the VM is gone.
        shell = ("import sys\n"
                 "for number, line in enumerate(sys.stdin, 1):\n"
                 "    print('virsh # ' + line, end='')\n"
                 "    if line == 'domjobinfo vm-1\\n' and number < 3: print(f'Expected downtime: {100 * number}  ms', flush=True)\n"
                 "    else: sys.exit('error: failed to get domain')\n")
        guess = watching.ExpectedDowntime([sys.executable, "-c", shell], "vm-1", 0.01)
        self.assertFalse(hasattr(guess, "_shell"), "nobody looks yet, and perhaps nobody will")
        with guess:
            wait_until(lambda: guess._shell.poll() is not None, "the shell has ended", period_s=0.01)  # noqa: SLF001
        self.assertEqual(guess.last_s, 0.2)
        self.assertFalse(guess._thread.is_alive() or guess._reader.is_alive())  # noqa: SLF001

    def test_the_cpus_of_one_vm_are_found(self) -> None:
        self.assertEqual(Emulators("aaaa", self.proc).vcpus(), [(7, 71), (7, 72)])
        self.assertEqual(Emulators("cccc", self.proc).vcpus(), [])
        self.assertEqual(Emulators("", self.proc).vcpus(), [(7, 71), (7, 72), (8, 81)])

    def test_an_emulator_is_found_when_it_has_become_one(self) -> None:
        found = Emulators("cccc", self.proc)
        thread(self.proc, 9, 91, "rpc-libvirtd", "do_poll")
        named(self.proc, 9, "libvirtd", "cccc")
        self.assertEqual(found.vcpus(), [], "a child of libvirt's")
        named(self.proc, 9, "qemu-system-x86", "cccc")
        self.assertEqual(found.vcpus(), [])
        (self.proc / "9" / "task" / "91" / "comm").write_text("CPU 0/TCG\n")
        self.assertEqual(found.vcpus(), [(9, 91)])
        shutil.rmtree(self.proc / "9")
        self.assertEqual(found.vcpus(), [])

    def test_what_is_old_is_not_looked_at_again(self) -> None:
        thread(self.proc, 9, 91, "main", "do_poll")
        named(self.proc, 9, "bash", "cccc")
        found = Emulators("cccc", self.proc)
        self.assertEqual(found.vcpus(100.0), [])
        named(self.proc, 9, "qemu-system-x86", "cccc")
        self.assertEqual(found.vcpus(100.0 + YOUNG_S + 0.1), [])

    def stalled(self) -> float:
        """Of ten looks, a second apart."""
        with mock.patch.object(watching.time, "monotonic", side_effect=itertools.count(100.0)):
            stalls = watching.PageStalls("aaaa", proc=self.proc)
            for _ in range(10):
                stalls._look()  # noqa: SLF001
        return stalls.seconds

    def test_waiting_for_pages_counts_by_cpu(self) -> None:
        self.assertEqual(self.stalled(), 5.0)

    def test_it_looks_by_itself_while_it_is_entered(self) -> None:
        stalls = watching.PageStalls("aaaa", 0.001, self.proc)
        with stalls:
            wait_until(lambda: stalls.seconds > 0, "it has seen one that waits", period_s=0.001)
        self.assertFalse(stalls._thread.is_alive())  # noqa: SLF001

    def test_the_source_has_nothing_to_wait_for(self) -> None:
        # The same VM's other emulator.
        thread(self.proc, 9, 91, "CPU 0/TCG", "do_poll")
        thread(self.proc, 9, 92, "CPU 1/TCG", "do_poll")
        named(self.proc, 9, "qemu-system-x86", "aaaa")
        self.assertEqual(self.stalled(), 5.0)

    def test_a_thread_that_ends_does_not_wait(self) -> None:
        (self.proc / "7" / "task" / "71" / "wchan").unlink()
        self.assertEqual(self.stalled(), 0.0)


if __name__ == "__main__":
    unittest.main()
