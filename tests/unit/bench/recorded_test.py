"""Today's models on recorded moves: a change that makes them worse than they were is seen before the next long run."""

from __future__ import annotations

import json
import lzma
import os
import pathlib
import sqlite3
import tempfile
import unittest

import paths  # noqa: F401
import recorded

PROGRAM = pathlib.Path(os.environ["MARE_REFORECAST"])
LIMITS = json.loads((recorded.FOLDER / "limits.json").read_text())


class RecordedTest(unittest.TestCase):
    def test_each_recording_has_limits_and_the_other_way_round(self) -> None:
        self.assertEqual({file.name.removesuffix(".db.xz") for file in recorded.FOLDER.glob("*.db.xz")}, set(LIMITS))

    def test_recorded_moves_are_forecast_no_worse_than_they_were(self) -> None:
        without_end = 0
        for name, limits in LIMITS.items():
            told = recorded.forecast_anew(PROGRAM, recorded.FOLDER / f"{name}.db.xz")
            self.assertGreater(told["moves"], 40, name)
            for quantity in ("total_time", "sent_bytes"):
                for error, most in limits[quantity].items():
                    self.assertLessEqual(told["now"][quantity][error], most, f"{name}: {quantity}, {error}")
            self.assertGreaterEqual(told["now"]["coverage"], limits["coverage"], name)
            self.assertLessEqual(len(recorded.wrong_verdicts(told)), limits["wrong_verdicts"], f"{name}: {recorded.wrong_verdicts(told)}")
            without_end += len(told["without_end"])
        self.assertGreater(without_end, 5, "moves that did not end are among the recorded ones, and are forecast anew as well")

    def test_a_wrong_verdict_is_one_without_a_doubt(self) -> None:
        def row(operation: str, converges: bool, unsure: bool, strategy: str = "pre-copy") -> dict[str, object]:
            return {"operation": operation, "converges": converges, "end_unsure": unsure, "strategy": strategy}
        told = {"rows": [row("right", True, False), row("open", False, True), row("wrong", False, False), row("by hand", False, False, "hybrid")],
                "without_end": [row("right too", False, False), row("open too", True, True), row("wrong too", True, False)]}
        self.assertEqual(recorded.wrong_verdicts(told), ["wrong", "wrong too"])

    def test_what_tells_nothing_of_moves_is_not_packed(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            database, file = pathlib.Path(folder) / "mare.db", pathlib.Path(folder) / "packed.db.xz"
            with sqlite3.connect(database) as made:
                for table in (*recorded.LEFT_OUT, "forecast"):
                    made.execute(f"create table {table} (id text)")
                    made.execute(f"insert into {table} values ('one')")
            recorded.pack(database, file)
            database.write_bytes(lzma.decompress(file.read_bytes()))
            with sqlite3.connect(database) as packed:
                counts = {table: packed.execute(f"select count(*) from {table}").fetchone()[0] for table in (*recorded.LEFT_OUT, "forecast")}
        self.assertEqual(counts, {**dict.fromkeys(recorded.LEFT_OUT, 0), "forecast": 1})


if __name__ == "__main__":
    unittest.main()
