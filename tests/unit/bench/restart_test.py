"""The bench `restart`: what of an operation's history counts, and what is made of the rows."""

from __future__ import annotations

import unittest

import paths  # noqa: F401
import restart
from restart import EAGER, LAZY, results_of, steps_of

WHOLE = "2 of 2 from their hosts' memory"


def row(memory_mib: int, kind: str, loading_s: float, at_work_s: float, load: float = 1.0, said: str | None = None) -> restart.Row:
    return {"memory_mib": memory_mib, "held_mib": memory_mib // 2, "kind": kind,
            "loading_s": loading_s, "answers_s": loading_s + 0.2, "at_work_s": at_work_s, "load": load,
            "size_bytes": 1000, "written_bytes": 500, "from_memory": said if said is not None else WHOLE if kind == LAZY else ""}


class RestartTest(unittest.TestCase):
    def test_a_state_counts_from_when_it_was_first_reached(self) -> None:
        events = [{"to": "Loading", "at": "2026-01-01T00:00:01.000000Z"}, {"to": "Resuming", "at": "2026-01-01T00:00:03.500000Z"},
                  {"to": "Resuming", "at": "2026-01-01T00:00:09.000000Z"}]
        came = steps_of(events)
        self.assertAlmostEqual(came["Resuming"] - came["Loading"], 2.5, 3)

    def test_each_size_and_kind_is_a_cell(self) -> None:
        found = results_of([row(256, LAZY, 0.4, 1.0), row(256, EAGER, 1.0, 2.0), row(512, LAZY, 0.5, 1.2), row(512, EAGER, 2.0, 3.0),
                            row(256, LAZY, 0.6, 1.4)])
        cells = found["results"]["cells"]
        self.assertEqual([(one["memory_mib"], one["kind"], one["count"]) for one in cells],
                         [(256, LAZY, 2), (256, EAGER, 1), (512, LAZY, 1), (512, EAGER, 1)])
        self.assertAlmostEqual(cells[0]["at_work_s"]["median"], 1.2)
        self.assertTrue(found["bars"]["at_work_s"]["holds"])
        self.assertTrue(found["bars"]["not_as_asked"]["holds"])

    def test_rows_of_a_busy_machine_are_told_and_not_counted(self) -> None:
        found = results_of([row(256, LAZY, 0.4, 1.0), row(256, LAZY, 9.0, 9.0, load=restart.LOAD_LIMIT + 1)])
        self.assertEqual(found["results"]["dropped_for_load"], 1)
        self.assertEqual(found["results"]["cells"][0]["at_work_s"]["max"], 1.0)
        self.assertFalse(results_of([row(256, LAZY, 1, 1, load=99)])["bars"]["at_work_s"]["holds"])

    def test_a_restart_that_was_not_as_asked_shows(self) -> None:
        partly = "1 of 2 from their hosts' memory"
        for wrong in (row(256, LAZY, 1, 1, said=partly), row(256, LAZY, 1, 1, said=""), row(256, EAGER, 1, 1, said=WHOLE)):
            self.assertFalse(results_of([wrong])["bars"]["not_as_asked"]["holds"], wrong)


if __name__ == "__main__":
    unittest.main()
