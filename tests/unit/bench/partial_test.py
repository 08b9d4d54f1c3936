"""Rows that outlive the run that measured them."""

from __future__ import annotations

import json
import tempfile
import unittest
from pathlib import Path

import paths  # noqa: F401
from partial import Partial, Row, place_of

HEAD = {"bench": "made", "seed": 1}


class Kept(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.file = Path(folder.name) / "made.json.partial"
        self.measured: list[str] = []

    def row(self, key: str) -> Row:
        self.measured.append(key)
        return {"of": key, "value": len(self.measured) + 0.5}

    def measure(self, partial: Partial, *keys: str) -> list[Row]:
        return [partial.once(key, lambda key=key: self.row(key)) for key in keys]  # type: ignore[misc]

    def test_what_is_there_is_not_measured_again(self) -> None:
        first = self.measure(Partial(self.file, HEAD), "a", "b")
        again = self.measure(Partial(self.file, HEAD), "a", "b", "c")
        self.assertEqual(again[:2], first)
        self.assertEqual(self.measured, ["a", "b", "c"])
        self.assertEqual(list(Partial(self.file, HEAD).rows), ["a", "b", "c"])

    def test_a_row_that_was_being_written_is_not_there(self) -> None:
        self.measure(Partial(self.file, HEAD), "a", "b")
        whole = self.file.read_bytes()
        self.file.write_bytes(whole[:-7])
        self.measure(Partial(self.file, HEAD), "a", "b")
        self.assertEqual(self.measured, ["a", "b", "b"])
        self.assertEqual([json.loads(line)["key"] for line in self.file.read_text().splitlines()[1:]], ["a", "b"])

    def test_a_head_that_was_being_written_is_written_again(self) -> None:
        Partial(self.file, HEAD)
        self.file.write_bytes(self.file.read_bytes()[:-3])
        self.measure(Partial(self.file, HEAD), "a")
        self.assertEqual(list(Partial(self.file, HEAD).rows), ["a"])

    def test_what_failed_is_no_row(self) -> None:
        def fails() -> Row:
            raise AssertionError("the lab is not there")
        with self.assertRaises(AssertionError):
            Partial(self.file, HEAD).once("a", fails)
        self.assertEqual(Partial(self.file, HEAD).rows, {})

    def test_rows_of_another_run_are_refused_and_stay(self) -> None:
        self.measure(Partial(self.file, HEAD), "a")
        before = self.file.read_bytes()
        with self.assertRaisesRegex(ValueError, r"made\.json\.partial is of another run \(seed is 1, not 2\): delete it"):
            Partial(self.file, HEAD | {"seed": 2})
        self.assertEqual(self.file.read_bytes(), before)

    def test_a_file_that_is_something_else_is_refused_and_stays(self) -> None:
        self.file.write_text("dear diary\n")
        with self.assertRaisesRegex(ValueError, "not what a bench wrote"):
            Partial(self.file, HEAD)
        self.assertEqual(self.file.read_text(), "dear diary\n")

    def test_nothing_is_left_of_one_that_is_done(self) -> None:
        partial = Partial(self.file, HEAD)
        self.measure(partial, "a")
        partial.done()
        self.assertFalse(self.file.exists())

    def test_without_a_place_rows_are_kept_for_the_run(self) -> None:
        partial = Partial(place_of(None), HEAD)
        self.measure(partial, "a", "a")
        partial.done()
        self.assertEqual(self.measured, ["a"])
        self.assertEqual(place_of(Path("x/made.json")), Path("x/made.json.partial"))


if __name__ == "__main__":
    unittest.main()
