"""What a move cost, on jobs whose loss is known by construction."""

from __future__ import annotations

import unittest

import paths  # noqa: F401
from cost import SETTLE_S, Told, added_job_time, starts_across

QUIET_S = 10.0


def ends_of(period: float, until: float, stalls: dict[int, float] | None = None) -> list[float]:
    """Iterations of `period` from 0 on; some take so much longer."""
    ends: list[float] = []
    now = 0.0
    while now < until:
        now += period + (stalls or {}).get(len(ends), 0.0)
        ends.append(now)
    return ends


class Across(unittest.TestCase):
    def test_a_clock_that_stood_still_with_its_vm_costs_what_it_stood(self) -> None:
        """Lines come up to 20 ms late, the work of an iteration takes 0.1 to 0.14 s of its 0.4; the VM's clock is behind from the
        start, and 1.5 s more after its downtime."""
        told, now = [], 0.0
        for index in range(100):
            now += 0.4 + (1.5 if index == 50 else 0.0)
            clock = now - 7.0 - (1.5 if index >= 50 else 0.0)
            work = 0.1 + 0.01 * (index * 3 % 5)
            told.append(Told(now + work + 0.001 * (index * 7 % 20), clock, clock + work))
        begun, ended = 19.9, 22.1
        starts = starts_across(told, begun, ended, QUIET_S)
        cost = added_job_time(starts, begun, ended, QUIET_S)
        assert cost is not None
        self.assertAlmostEqual(cost.added, 1.5, 3)
        self.assertEqual(starts, sorted(starts))

    def test_a_move_before_the_quiet_stretch_costs_nothing(self) -> None:
        """The VM was brought back: 11 s before this move, of which nothing else is to be seen, it stood still for 2 s."""
        told, now = [], 0.0
        for index in range(150):
            now += 0.4 + (2.0 if index == 50 else 0.0)
            clock = now - (2.0 if index >= 50 else 0.0)
            told.append(Told(now, clock - 0.1, clock))
        begun = told[50].arrived + 11
        cost = added_job_time(starts_across(told, begun, begun + 3, QUIET_S), begun, begun + 3, QUIET_S)
        assert cost is not None
        self.assertAlmostEqual(cost.added, 0, 6)

    def test_who_told_nothing_ended_nothing(self) -> None:
        self.assertEqual(starts_across([], 10, 20, QUIET_S), [])


class Added(unittest.TestCase):
    def test_a_job_that_changed_its_pace_tells_nothing(self) -> None:
        slow = ends_of(1.0, 20.0)
        quick = [slow[-1] + end for end in ends_of(0.25, 40.0)]
        cost = added_job_time([*slow, *quick], 20.0, 40.0, QUIET_S)
        assert cost is not None
        self.assertFalse(cost.tells())
        steady = added_job_time(ends_of(0.25, 60.0), 20.0, 40.0, QUIET_S)
        assert steady is not None
        self.assertTrue(steady.tells())

    def test_a_host_with_another_pace_is_no_loss(self) -> None:
        """0.2 s an iteration until 30, 0.25 s then; 1.1 s of standing still between."""
        before = ends_of(0.2, 30.0)
        ends = [*before, *(before[-1] + 1.1 + end for end in ends_of(0.25, 30.0))]
        cost = added_job_time(ends, 12.0, 31.5, QUIET_S, before[-1])
        assert cost is not None
        self.assertAlmostEqual(cost.added, 1.1, 6)
        by_their_mean = added_job_time(ends, 12.0, 31.5, QUIET_S)
        assert by_their_mean is not None
        self.assertLess(by_their_mean.added, 0.0)

    def test_a_stall_is_found_whatever_an_iteration_takes(self) -> None:
        for period in (0.1, 0.7, 1.3):
            with self.subTest(period=period):
                hit = int(20 / period)
                cost = added_job_time(ends_of(period, 60, {hit: 4.2}), hit * period + 0.4 * period, hit * period + 4.0, QUIET_S)
                assert cost is not None
                self.assertAlmostEqual(cost.added, 4.2, 6)
                self.assertAlmostEqual(cost.usual, period, 6)
                self.assertAlmostEqual(cost.noise, 0, 6)

    def test_slow_iterations_all_along_a_move_add_up(self) -> None:
        slow = {index: 0.1 for index in range(50, 90)}  # of 0.5 s: from 25 s on, 24 s long
        cost = added_job_time(ends_of(0.5, 80, slow), 25.0, 49.0, QUIET_S)
        assert cost is not None
        self.assertAlmostEqual(cost.added, 4.0, 6)

    def test_no_move_costs_nothing(self) -> None:
        cost = added_job_time(ends_of(0.3, 60), 20, 30, QUIET_S)
        assert cost is not None
        self.assertAlmostEqual(cost.added, 0, 6)

    def test_what_follows_at_once_counts(self) -> None:
        """A connection that waits for its timer after the VM is back."""
        cost = added_job_time(ends_of(0.5, 60, {40: 1.0, 43: 0.8}), 20.1, 21.2, QUIET_S)
        assert cost is not None
        self.assertAlmostEqual(cost.added, 1.8, 6)

    def test_a_pace_that_changed_is_told_as_noise(self) -> None:
        ends = ends_of(1.0, 20)
        ends += [20 + 1.1 * i for i in range(1, 40)]
        cost = added_job_time(ends, 19.5, 25.0, QUIET_S)
        assert cost is not None
        first, last = 19.0, next(end for end in ends if end >= 25.0 + SETTLE_S)
        within = sum(1 for end in ends if first < end <= last)
        self.assertAlmostEqual(cost.noise, within * 0.05, 6)

    def test_what_lies_further_away_does_not_count(self) -> None:
        ends = ends_of(0.5, 100, {10: 3.0, 130: 5.0})
        cost = added_job_time(ends, 40.1, 45.0, QUIET_S)
        assert cost is not None
        self.assertAlmostEqual(cost.added, 0, 6)

    def test_too_few_iterations_before_or_after(self) -> None:
        ends = ends_of(1.0, 30)
        self.assertIsNone(added_job_time(ends, 2.5, 10, QUIET_S))
        self.assertIsNone(added_job_time(ends, 20, 27, QUIET_S))
        self.assertIsNone(added_job_time([], 2, 3, QUIET_S))


if __name__ == "__main__":
    unittest.main()
