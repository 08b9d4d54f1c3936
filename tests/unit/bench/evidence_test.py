"""A bench that failed leaves what tells why."""

from __future__ import annotations

import pathlib
import sqlite3
import tempfile
import unittest

import paths  # noqa: F401
import evidence


class EvidenceTest(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.state = pathlib.Path(folder.name) / "lab"
        self.result = pathlib.Path(folder.name) / "move.json"

    def write(self, name: str, text: str) -> None:
        (self.state / name).parent.mkdir(parents=True, exist_ok=True)
        (self.state / name).write_text(text)

    def test_logs_outputs_consoles_and_the_database_are_kept(self) -> None:
        self.write("logs/mared.log", "why")
        self.write("jobs/job-1/output", "line")
        self.write("hosts/h1/agent/console/vm-0.log", "panic")
        (self.state / "mared").mkdir()
        with sqlite3.connect(self.state / "mared/mare.db") as database:
            database.execute("create table job (id text)")
            database.execute("insert into job values ('job-1')")
        folder = evidence.keep(self.state, self.result)
        self.assertEqual(folder.name, "move.json.failed")
        self.assertEqual((folder / "logs/mared.log").read_text(), "why")
        self.assertEqual((folder / "jobs/job-1/output").read_text(), "line")
        self.assertEqual((folder / "h1-vm-0.log").read_text(), "panic")
        self.assertEqual(sqlite3.connect(folder / "mare.db").execute("select id from job").fetchall(), [("job-1",)])

    def test_of_an_earlier_failure_nothing_stays_and_a_lab_that_never_was_is_none(self) -> None:
        self.write("logs/mared.log", "first")
        evidence.keep(self.state, self.result)
        (self.state / "logs/mared.log").unlink()
        (self.state / "logs").rmdir()
        folder = evidence.keep(self.state, self.result)
        self.assertFalse((folder / "logs").exists())


if __name__ == "__main__":
    unittest.main()
