"""The examples under a native mpirun: right answers, and wrong ones that are noticed."""

from __future__ import annotations

import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

from harness import program

TIMEOUT_S = 300


def run(*arguments: str, folder: str | None = None,
        **environment: str) -> subprocess.CompletedProcess[str]:
    # LeakSanitizer sees what Open MPI leaves behind at exit; that is not ours.
    full = {**os.environ, "ASAN_OPTIONS": "detect_leaks=0", **environment}
    return subprocess.run(arguments, capture_output=True, text=True, timeout=TIMEOUT_S, cwd=folder,
                          env=full, check=False)


def mpirun(ranks: int, *arguments: str, folder: str | None = None,
           **environment: str) -> subprocess.CompletedProcess[str]:
    return run("mpirun", "--oversubscribe", "--allow-run-as-root", "--mca", "btl", "tcp,self",
               "--mca",
               "btl_tcp_if_include", "lo", "-np", str(ranks), *arguments, folder=folder,
               **environment)


def value(result: subprocess.CompletedProcess[str], key: str) -> str:
    found = re.findall(rf"\b{key}=(\S+)", result.stdout)
    if not found:
        raise AssertionError(f"no {key}= in {result.stdout!r} {result.stderr!r}")
    return found[-1]


@unittest.skipUnless(shutil.which("mpirun"), "mpirun is not installed: openmpi-bin")
class ExampleTest(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory(prefix="mare-examples-")
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def assert_right(self, result: subprocess.CompletedProcess[str]) -> None:
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)


class Migtest(ExampleTest):
    def check(self, ranks: int, *options: str) -> None:
        result = mpirun(ranks, program("migtest"), *options, folder=self.folder)
        self.assert_right(result)
        expected = run(program("migtest"), "--expect", "--ranks", str(ranks), *options)
        self.assert_right(expected)
        self.assertEqual(value(result, "checksum"), value(expected, "checksum"))
        self.assertEqual(value(result, "verified"), "yes")
        self.assertEqual(value(result, "ranks"), str(ranks))

    def test_has_the_expected_checksum(self) -> None:
        self.check(3, "--size-mib", "8", "--wws-mib", "2", "--iterations", "10")

    def test_with_other_options(self) -> None:
        self.check(3, "--size-mib", "4", "--wws-mib", "4", "--iterations", "5", "--incompressible",
                   "--seed", "99", "--work", "1")
        self.check(1, "--size-mib", "1", "--wws-mib", "0", "--iterations", "3")
        self.check(2, "--size-mib", "2", "--wws-mib", "1", "--iterations", "4", "--interval-ms",
                   "20", "--barrier")

    def test_options_that_matter_change_the_checksum(self) -> None:
        base = {"--size-mib": "4", "--wws-mib": "2", "--iterations": "5", "--seed": "1",
                "--ranks": "2", "--work": "0"}
        seen = set()
        for change in ({}, {"--size-mib": "5"}, {"--wws-mib": "3"}, {"--iterations": "6"},
                       {"--seed": "2"}, {"--ranks": "3"},
                       {"--work": "1"}):
            options = [word for pair in {**base, **change}.items() for word in pair]
            seen.add(value(run(program("migtest"), "--expect", *options), "checksum"))
        self.assertEqual(len(seen), 7)

    def test_every_iteration_is_logged_by_every_rank(self) -> None:
        result = mpirun(3, program("migtest"), "--size-mib", "2", "--wws-mib", "1", "--iterations",
                        "30", "--log", "times",
                        folder=self.folder)
        self.assert_right(result)
        for rank in range(3):
            lines = (pathlib.Path(self.folder) / f"times.{rank}").read_text().splitlines()
            self.assertIn(f"rank {rank} of 3", lines[0])
            numbers = [[int(word) for word in line.split()] for line in lines[1:]]
            self.assertEqual([row[0] for row in numbers], list(range(1, 31)))
            for this, following in zip(numbers, numbers[1:]):
                self.assertGreaterEqual(following[1], this[1] + this[2],
                                        "iterations do not overlap")
        on_stdout = re.findall(r"iteration=(\d+) start_us=(\d+) duration_us=(\d+)", result.stdout)
        self.assertEqual([int(row[0]) for row in on_stdout], list(range(1, 31)))

    def test_a_flipped_bit_is_found(self) -> None:
        for iteration in (1, 3, 5):  # In the first, in the middle, and after the last rewriting.
            result = mpirun(3, program("migtest"), "--size-mib", "2", "--wws-mib", "1",
                            "--iterations", "5", "--corrupt-at",
                            str(iteration), folder=self.folder)
            self.assertEqual(result.returncode, 1, result.stdout + result.stderr)
            self.assertIn("verified=no", result.stdout)
            self.assertIn("rank 2", result.stderr)
            self.assertNotIn("verified=yes", result.stdout)
        outside = mpirun(2, program("migtest"), "--size-mib", "2", "--wws-mib", "0", "--iterations",
                         "2", "--corrupt-at", "1")
        self.assertEqual(outside.returncode, 1, "also in memory that is never rewritten")

    def test_a_log_that_cannot_be_written(self) -> None:
        result = mpirun(2, program("migtest"), "--iterations", "2", "--log", "/nonexistent/times")
        self.assertEqual(result.returncode, 2)
        self.assertIn("/nonexistent/times", result.stderr)

    def test_a_full_disk_is_not_silent(self) -> None:
        (pathlib.Path(self.folder) / "times.0").symlink_to("/dev/full")
        result = mpirun(1, program("migtest"), "--size-mib", "1", "--wws-mib", "1", "--iterations",
                        "2", "--log", "times",
                        folder=self.folder)
        self.assertEqual(result.returncode, 1)
        self.assertIn("incomplete", result.stderr)

    def test_wrong_options(self) -> None:
        for wrong in (["--size-mib", "0"], ["--size-mib", "1", "--wws-mib", "2"],
                      ["--iterations", "x"], ["--nonsense"],
                      ["--seed", "-1"], ["argument"]):
            self.assertEqual(run(program("migtest"), *wrong).returncode, 2, wrong)


class Writer(ExampleTest):
    PATTERNS = ("idle", "sweep", "random", "hot", "burst", "sort", "lu")

    def test_every_pattern_verifies_what_it_wrote(self) -> None:
        for pattern in self.PATTERNS:
            with self.subTest(pattern):
                result = mpirun(2, program("writer"), "--pattern", pattern, "--size-mib", "2", "--seconds", "1",
                                "--burst-ms", "200")
                self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
                self.assertEqual(value(result, "verified"), "yes")
                self.assertEqual(int(re.findall(r"pages=(\d+) verified", result.stdout)[0]) > 0, pattern != "idle")

    def test_a_flipped_bit_is_found(self) -> None:
        # Of a sort, its place may be one that is overwritten before it is read.
        for pattern in ("idle", "sweep", "random", "hot", "burst", "lu"):
            with self.subTest(pattern):
                result = mpirun(2, program("writer"), "--pattern", pattern, "--size-mib", "1", "--seconds", "1",
                                "--corrupt-at", "3")
                self.assertEqual(result.returncode, 1, result.stdout + result.stderr)
                self.assertIn("verified=no", result.stdout)

    def test_a_factorisation_waits_for_the_rest_of_its_period(self) -> None:
        result = mpirun(1, program("writer"), "--pattern", "lu", "--size-mib", "1", "--seconds", "2", "--period-ms", "100",
                        "--busy-percent", "20")
        self.assertEqual(value(result, "verified"), "yes")
        starts = [int(found) for found in re.findall(r"start_us=(\d+)", result.stdout)]
        self.assertGreater(len(starts), 2)
        # By a clock's ticks: one iteration may begin late, and the next does not.
        self.assertGreaterEqual(starts[-1] - starts[0], 100_000 * (len(starts) - 1) - 5_000)

    def test_ends_when_told(self) -> None:
        (pathlib.Path(self.folder) / "enough").touch()
        result = mpirun(2, program("writer"), "--seconds", "600", "--until", "enough", "--size-mib", "1",
                        folder=self.folder)
        self.assertEqual(result.returncode, 0)

    def test_wrong_options(self) -> None:
        for wrong in (["--pattern", "x"], ["--size-mib", "0"], ["--seconds", "0"], ["--busy-percent", "0"],
                      ["--busy-percent", "101"], ["argument"]):
            self.assertEqual(run(program("writer"), *wrong).returncode, 2, wrong)


class Matmul(ExampleTest):
    def test_right_whatever_the_ranks_and_the_kind_of_number(self) -> None:
        for kind in ([], ["--double"]):
            options = ["--n", "61", "--products", "4", *kind]
            expected = value(run(program("matmul"), "--expect", *options), "checksum")
            for ranks in (1, 2, 3):
                result = mpirun(ranks, program("matmul"), *options)
                self.assert_right(result)
                self.assertEqual((value(result, "checksum"), value(result, "verified")),
                                 (expected, "yes"))

    def test_more_slaves_than_rows(self) -> None:
        result = mpirun(4, program("matmul"), "--n", "2", "--products", "2")
        self.assert_right(result)
        self.assertEqual(value(result, "checksum"),
                         value(run(program("matmul"), "--expect", "--n", "2", "--products", "2"),
                               "checksum"))

    def test_a_wrong_number_is_found(self) -> None:
        for ranks in (1, 3):
            result = mpirun(ranks, program("matmul"), "--n", "40", "--products", "3",
                            "--corrupt-at", "2")
            self.assertEqual(result.returncode, 1)
            self.assertIn("product 2 is wrong", result.stderr)
            self.assertEqual(value(result, "verified"), "no")


class Heat(ExampleTest):
    def test_the_same_whatever_the_ranks(self) -> None:
        for kind in ([], ["--double"]):
            options = ["--nx", "40", "--ny", "37", "--steps", "150", *kind]
            expected = value(run(program("heat"), "--expect", *options), "checksum")
            for ranks in (1, 2, 3):
                result = mpirun(ranks, program("heat"), *options)
                self.assert_right(result)
                self.assertEqual(value(result, "checksum"), expected, f"{ranks} ranks {kind}")

    def test_every_step_changes_the_plate(self) -> None:
        """The checksum is not just a constant."""
        sums = {value(run(program("heat"), "--expect", "--nx", "20", "--ny", "20", "--steps",
                          str(steps)), "checksum")
                for steps in (1, 2, 50)}
        self.assertEqual(len(sums), 3)

    def test_a_changed_point_changes_the_checksum(self) -> None:
        options = ["--nx", "40", "--ny", "40", "--steps", "100"]
        result = mpirun(2, program("heat"), *options, "--corrupt-at", "50")
        self.assert_right(result)
        self.assertNotEqual(value(result, "checksum"),
                            value(run(program("heat"), "--expect", *options), "checksum"))

    def test_more_ranks_than_rows(self) -> None:
        result = mpirun(3, program("heat"), "--ny", "2")
        self.assertEqual(result.returncode, 2)
        self.assertIn("3 ranks for 2 rows", result.stderr)


class Hpl(ExampleTest):
    def fake_hpcc(self, verdict: str, code: int = 0) -> str:
        """An hpcc whose result is known, for what a real one cannot be made to do."""
        folder = pathlib.Path(self.folder) / "fake"
        folder.mkdir()
        script = folder / "hpcc"
        script.write_text("#!/bin/sh\ncat > hpccoutf.txt <<X\nWALL 100 PASSED\n"
                          f"Begin of HPL section.\n{verdict}\n"
                          f"End of HPL section.\nX\nexit {code}\n")
        script.chmod(0o755)
        return f"{folder}:{os.environ['PATH']}"

    @unittest.skipUnless(shutil.which("hpcc"), "hpcc is not installed")
    def test_the_real_one_passes(self) -> None:
        for ranks, grid in ((1, "P=1 Q=1"), (2, "P=1 Q=2"), (4, "P=2 Q=2")):
            result = mpirun(ranks, program("mare-hpl"), "--n", "100", folder=self.folder)
            self.assert_right(result)
            self.assertIn(grid, result.stdout)
            self.assertIn("residual check PASSED", result.stdout)

    @unittest.skipUnless(shutil.which("hpcc"), "hpcc is not installed")
    def test_every_repetition_is_checked(self) -> None:
        result = mpirun(2, program("mare-hpl"), "--n", "100", "--repeat", "3", folder=self.folder)
        self.assert_right(result)
        self.assertEqual(result.stdout.count("PASSED\n"), 4, result.stdout)
        self.assertIn("section HPL\n", result.stdout)

    def test_one_of_several_is_missing(self) -> None:
        path = self.fake_hpcc("||Ax-b||_oo/(eps*N)= 0.1 ...... PASSED")
        result = run(program("mare-hpl"), "--repeat", "2", folder=self.folder, PATH=path)
        self.assertEqual(result.returncode, 1)
        self.assertIn("1 of 2 passed", result.stdout)
        self.assertEqual(run(program("mare-hpl"), folder=self.folder, PATH=path).returncode, 0)

    def test_a_failed_residual(self) -> None:
        path = self.fake_hpcc("||Ax-b||_oo/(eps*N)= 99.0 ...... FAILED")
        result = run(program("mare-hpl"), folder=self.folder, PATH=path)
        self.assertEqual(result.returncode, 1)
        self.assertIn("FAILED", result.stdout)

    def test_no_verdict_is_no_success(self) -> None:
        path = self.fake_hpcc("nothing here")
        self.assertEqual(run(program("mare-hpl"), folder=self.folder, PATH=path).returncode, 1)

    def test_an_hpcc_that_crashes(self) -> None:
        path = self.fake_hpcc("||Ax-b||_oo/(eps*N)= 0.1 ...... PASSED", 139)
        result = run(program("mare-hpl"), folder=self.folder, PATH=path)
        self.assertEqual(result.returncode, 1)
        self.assertIn("139", result.stderr)

    def test_wrong_use(self) -> None:
        path = self.fake_hpcc("")
        for wrong in (["--n"], ["--n", "0"], ["--n", "x"], ["--nonsense"], ["--p", "2"],
                      ["--p", "2", "--q", "2"],
                      ["--n", "9999999999999999999999"], ["--repeat", "21"]):
            self.assertEqual(run(program("mare-hpl"), *wrong, folder=self.folder,
                                 PATH=path).returncode, 2, wrong)


if __name__ == "__main__":
    unittest.main()
