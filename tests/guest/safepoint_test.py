"""libmare-safepoint.so in real MPI programs, C and Fortran, and what mare-guestd says of them."""

from __future__ import annotations

import contextlib
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import unittest

from examples_test import mpirun, run, value
from harness import Client, GuestdTest, program, wait_until

SOURCES = pathlib.Path(__file__).parent
LIBRARY = pathlib.Path(program("mare-guestd")).parent.parent / "lib/libmare-safepoint.so"
CHECK = os.environ.get("MARE_SAFEPOINT_CHECK", "")
PAGES = pathlib.Path("/dev/shm")
RANKS = 3
# Of safepoint_check, before its last barrier: 14 kinds, Allreduce twice.
COLLECTIVES = 15
# A library that comes before that of AddressSanitizer is what we want here.
ASAN = {"ASAN_OPTIONS": "detect_leaks=0:verify_asan_link_order=0"}
LAUNCH = ("mpirun", "--oversubscribe", "--allow-run-as-root", "--mca", "btl", "tcp,self", "--mca",
          "btl_tcp_if_include", "lo", "-np", str(RANKS))


def preloaded(job: str) -> tuple[str, ...]:
    """As policy/mpirun.cpp has it."""
    return ("-x", f"LD_PRELOAD={LIBRARY}", "-x", f"MARE_SAFE_POINTS={job}")


def pages(job: str) -> list[str]:
    return sorted(path.name for path in PAGES.glob(f"mare-safe-point.{job}.*"))


@unittest.skipUnless(shutil.which("mpirun"), "mpirun is not installed: openmpi-bin")
class SafePoints(GuestdTest):
    def setUp(self) -> None:
        super().setUp()
        folder = tempfile.TemporaryDirectory(prefix="mare-safepoint-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.job = f"test-{os.getpid()}-{id(self)}"
        self.addCleanup(self.remove_pages)

    def remove_pages(self) -> None:
        for name in pages(self.job):
            (PAGES / name).unlink(missing_ok=True)

    def fortran(self, name: str, *options: str) -> str:
        if not shutil.which("mpif90"):
            self.skipTest("mpif90 is not installed: gfortran, libopenmpi-dev")
        built = self.folder / name
        done = run("mpif90", "-O1", *options, str(SOURCES / "safepoint_check.F90"), "-o", str(built),
                   folder=str(self.folder))
        self.assertEqual(done.returncode, 0, done.stderr)
        return str(built)

    def ask(self, client: Client) -> dict[str, int]:
        return {key: int(text) for key, text in client.ask("SAFEPOINT", ("id", self.job)).items()}

    def assert_same_with_and_without(self, ranks: int, *arguments: str) -> None:
        without = mpirun(ranks, *arguments, **ASAN)
        self.assertEqual(without.returncode, 0, without.stdout + without.stderr)
        with_it = mpirun(ranks, *preloaded(self.job), *arguments, **ASAN)
        self.assertEqual((with_it.returncode, with_it.stdout), (0, without.stdout), with_it.stderr)
        self.assertEqual(pages(self.job), [], "they go at MPI_Finalize")

    def late(self, check: str) -> tuple[subprocess.Popen[str], pathlib.Path]:
        """Ranks 1 and 2 are in a barrier, until the file is there."""
        file = self.folder / "go"
        job = subprocess.Popen([*LAUNCH, *preloaded(self.job), check, str(file)], text=True,
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env={**os.environ, **ASAN},
                               start_new_session=True)

        def end() -> None:
            if job.poll() is None:
                os.killpg(job.pid, signal.SIGKILL)
            job.wait()
            assert job.stdout
            job.stdout.close()

        self.addCleanup(end)
        assert job.stdout
        self.assertEqual(job.stdout.readline(), "late\n")
        return job, file

    def assert_guestd_sees(self, check: str) -> None:
        job, file = self.late(check)
        client = self.connect()
        # Rank 0 leaves the last collective first: the others may still be in that one.
        entered = RANKS * COLLECTIVES + RANKS - 1
        wait_until(lambda: self.ask(client)["entered"] >= entered, "the others are in the barrier")
        seen = self.ask(client)
        self.assertEqual({key: seen[key] for key in ("ranks", "inside", "entered")},
                         {"ranks": RANKS, "inside": RANKS - 1, "entered": entered})
        self.assertEqual(len(pages(self.job)), RANKS)
        wait_until(lambda: self.ask(client)["outside_ms"] > seen["outside_ms"] + 100, "time passes for rank 0")
        self.assertEqual(self.ask(client)["inside"], RANKS - 1)
        self.assertEqual(client.ask("SAFEPOINT", ("id", self.job[:-1]))["ranks"], "0", "another job's")
        file.touch()
        assert job.stdout
        self.assertEqual(job.stdout.read().count("hash="), RANKS)
        self.assertEqual(job.wait(), 0)
        self.assertEqual(self.ask(client), {"ranks": 0, "inside": 0, "entered": 0})
        self.assertEqual(pages(self.job), [])

    def test_c_programs_give_the_same_result(self) -> None:
        self.assert_same_with_and_without(RANKS, CHECK)
        self.assert_same_with_and_without(1, CHECK)
        for example, options in (("heat", ["--nx", "40", "--ny", "37", "--steps", "150"]),
                                 ("migtest", ["--size-mib", "2", "--wws-mib", "1", "--iterations", "20", "--barrier"]),
                                 ("matmul", ["--n", "61", "--products", "4"])):
            of_ranks = ["--ranks", str(RANKS)] if example == "migtest" else []
            expected = value(run(program(example), "--expect", *of_ranks, *options), "checksum")
            result = mpirun(RANKS, *preloaded(self.job), program(example), *options, **ASAN)
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertEqual(value(result, "checksum"), expected, example)

    def test_fortran_programs_give_the_same_result(self) -> None:
        self.assert_same_with_and_without(RANKS, self.fortran("with-mpi"))

    def test_modern_fortran_programs_give_the_same_result(self) -> None:
        self.assert_same_with_and_without(RANKS, self.fortran("with-mpi-f08", "-DMODERN"))

    def test_guestd_sees_who_is_in_a_collective(self) -> None:
        self.assert_guestd_sees(CHECK)

    def test_guestd_sees_fortran_programs(self) -> None:
        self.assert_guestd_sees(self.fortran("with-mpi"))

    def test_guestd_sees_modern_fortran_programs(self) -> None:
        self.assert_guestd_sees(self.fortran("with-mpi-f08", "-DMODERN"))

    def test_without_the_variable_there_is_no_page(self) -> None:
        before = set(PAGES.glob("mare-safe-point.*"))
        result = mpirun(2, "-x", f"LD_PRELOAD={LIBRARY}", CHECK, **ASAN)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertLessEqual(set(PAGES.glob("mare-safe-point.*")), before)

    def test_a_page_that_cannot_be_made_changes_nothing(self) -> None:
        expected = mpirun(RANKS, CHECK, **ASAN).stdout
        for job in ("x" * 300, "../etc/x", "no/such/folder", ""):
            result = mpirun(RANKS, *preloaded(job), CHECK, **ASAN)
            self.assertEqual((result.returncode, result.stdout, result.stderr), (0, expected, ""), job[:20])

    def test_programs_without_mpi_do_not_notice(self) -> None:
        for eager in ("", "1"):
            result = run("sh", "-c", "echo unharmed; exit 7", LD_PRELOAD=str(LIBRARY), MARE_SAFE_POINTS=self.job,
                         LD_BIND_NOW=eager, **ASAN)
            self.assertEqual((result.returncode, result.stdout, result.stderr), (7, "unharmed\n", ""))
        self.assertEqual(pages(self.job), [])

    def test_an_mpi_that_was_loaded_late_is_found(self) -> None:
        """As interpreters load it: out of everybody's sight but that of the module which needs it."""
        module = os.environ["MARE_SAFEPOINT_MODULE"]
        script = (f"import ctypes, sys\nmodule = ctypes.CDLL({module!r}, mode=ctypes.RTLD_LOCAL)\n"
                  "name = (ctypes.c_char_p * 2)(b'check', None)\nsys.exit(module.main(1, name))\n")
        result = mpirun(2, *preloaded(self.job), "python3", "-c", script, **ASAN)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(result.stdout.count("hash="), 2)

    def test_pages_of_processes_that_were_killed_are_removed(self) -> None:
        job, _ = self.late(CHECK)
        left = pages(self.job)
        self.assertEqual(len(left), RANKS)
        # Standing still first: who saw another one die could end by itself, and remove its page.
        for how in (signal.SIGSTOP, signal.SIGKILL):
            for name in left:
                with contextlib.suppress(ProcessLookupError):  # mpirun ends the others, too
                    os.kill(int(name.rsplit(".", 1)[1]), how)
        job.wait()
        self.assertEqual(pages(self.job), left, "nobody was left to remove them")
        client = self.connect()
        wait_until(lambda: self.ask(client)["ranks"] == 0, "the processes are gone")
        self.assertEqual(pages(self.job), [])

    def test_what_is_no_page_is_not_taken_for_one(self) -> None:
        client = self.connect()
        own = PAGES / f"mare-safe-point.{self.job}.{os.getpid()}"
        for content in (b"", b"x" * 200, b"SP01"):
            own.write_bytes(content)
            self.assertEqual(self.ask(client)["ranks"], 0)
        own.unlink()
        own.symlink_to("/dev/zero")
        self.assertEqual(self.ask(client)["ranks"], 0)
        own.unlink()
        os.mkfifo(own)
        self.assertEqual(self.ask(client)["ranks"], 0, "and it does not wait for a writer")

    def test_wrong_requests(self) -> None:
        client = self.connect()
        self.assert_refused("bad-request", client, "SAFEPOINT")
        self.assert_refused("bad-request", client, "SAFEPOINT", ("id", "../x"))
        self.assert_refused("bad-request", client, "SAFEPOINT", ("id", "job-1"), ("dir", "/x"))


if __name__ == "__main__":
    unittest.main()
