"""install-packages, as far as it can be tried without installing anything."""

import subprocess
import unittest

import paths

SCRIPT = paths.LAB / "install-packages"


def run(*argv: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run([str(SCRIPT), *argv], capture_output=True, text=True, check=False)


def packages(group: str) -> list[str]:
    text = (paths.LAB / "packages" / f"{group}.txt").read_text(encoding="utf-8")
    return [row for row in text.splitlines() if row and not row.startswith("#")]


class Lists(unittest.TestCase):
    def test_they_are_sorted_and_without_repetition(self) -> None:
        for group in ("build", "run", "test"):
            with self.subTest(group):
                self.assertEqual(packages(group), sorted(set(packages(group))))

    def test_what_the_lab_asks_for_is_in_the_run_list(self) -> None:
        from mare_lab import checks
        for package in set(" ".join(checks.PROGRAMS.values()).split()):
            self.assertIn(package, packages("run"))


class Script(unittest.TestCase):
    def test_it_is_valid_bash(self) -> None:
        done = subprocess.run(["bash", "-n", str(SCRIPT)], capture_output=True, text=True,
                              check=False)
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_show_changes_nothing_and_tells_how_to_undo(self) -> None:
        done = run("--show")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("--undo", done.stdout)

    def test_an_unknown_option_is_wrong_usage(self) -> None:
        self.assertEqual(run("--nonsense").returncode, 2)

    def test_help_names_every_option(self) -> None:
        text = run("--help").stdout
        for option in ("--build-deps", "--run-deps", "--test-deps", "--show", "--undo"):
            self.assertIn(option, text)


if __name__ == "__main__":
    unittest.main()
