"""A host's /run is in memory, whatever an older lab left there."""

import shutil
import tempfile
import unittest
from pathlib import Path

import paths  # noqa: F401
from mare_lab.plan import make_plan, memory_directory
from mare_lab.services import make_run_directory


class Run(unittest.TestCase):
    def setUp(self) -> None:
        state = Path(tempfile.mkdtemp(prefix="mare-run-test"))
        self.addCleanup(shutil.rmtree, state)
        self.addCleanup(shutil.rmtree, memory_directory(state), ignore_errors=True)
        self.plan = make_plan(name="mare", hosts=3, subnet="10.77.0.0/16", rate="1gbit", memory_mib=4096, state=state,
                              images=Path("/images"), rest_port=7410)
        self.run_directory = self.plan.host_directory("h1") / "run"

    def assert_new_in_memory(self) -> None:
        make_run_directory(self.plan, "h1")
        self.assertTrue(self.run_directory.resolve().is_relative_to("/dev/shm"), self.run_directory.resolve())
        self.assertEqual(list(self.run_directory.iterdir()), [])

    def test_of_a_new_lab(self) -> None:
        self.assert_new_in_memory()

    def test_nothing_of_the_last_boot_is_left(self) -> None:
        self.assert_new_in_memory()
        (self.run_directory / "libvirtd.pid").write_text("7")
        self.assert_new_in_memory()

    def test_memory_that_a_restart_emptied_is_made_anew(self) -> None:
        self.assert_new_in_memory()
        shutil.rmtree(memory_directory(self.plan.directory))
        self.assert_new_in_memory()

    def test_an_older_lab_had_it_on_its_disk(self) -> None:
        self.run_directory.mkdir(parents=True)
        (self.run_directory / "libvirtd.pid").write_text("7")
        self.assert_new_in_memory()


if __name__ == "__main__":
    unittest.main()
