"""Least squares against cases computed by hand, a published one, and the paper's figures."""

from __future__ import annotations

import math
import unittest

import paths  # noqa: F401
from fit import Fit, least_squares, predict
from regressions import CHECKPOINT, PAPER, PRE_COPY

MIB = 1 << 20


def fitted(inputs: list[list[float]], outputs: list[float]) -> Fit:
    found = least_squares(inputs, outputs)
    assert found is not None
    return found


class ByHand(unittest.TestCase):
    def test_a_line_with_residuals(self) -> None:
        """x 1 2 3 4, y 1 3 2 4: Sxy = 4, Sxx = 5, so 0.5 + 0.8 x; residual sum 1.8 of 5."""
        found = fitted([[1], [2], [3], [4]], [1, 3, 2, 4])
        for value, wanted in zip(found.coefficients, (0.5, 0.8)):
            self.assertAlmostEqual(value, wanted, 12)
        for value, wanted in zip(found.residuals, (-0.3, 0.9, -0.9, 0.3)):
            self.assertAlmostEqual(value, wanted, 12)
        assert found.r2 is not None and found.spread is not None and found.errors is not None
        self.assertAlmostEqual(found.r2, 0.64, 12)
        self.assertEqual(found.freedom, 2)
        self.assertAlmostEqual(found.spread, math.sqrt(1.8 / 2), 12)
        self.assertAlmostEqual(found.errors[1], math.sqrt(0.9 / 5), 12)
        self.assertAlmostEqual(found.errors[0], math.sqrt(0.9 * (1 / 4 + 2.5 ** 2 / 5)), 12)

    def test_a_plane_with_residuals(self) -> None:
        """The corners of a square, 1 3 4 7: main effects 2.5 and 3.5, each corner off by 0.25."""
        found = fitted([[0, 0], [1, 0], [0, 1], [1, 1]], [1, 3, 4, 7])
        for value, wanted in zip(found.coefficients, (0.75, 2.5, 3.5)):
            self.assertAlmostEqual(value, wanted, 12)
        for value, wanted in zip(found.residuals, (0.25, -0.25, -0.25, 0.25)):
            self.assertAlmostEqual(value, wanted, 12)
        assert found.r2 is not None
        self.assertAlmostEqual(found.r2, 1 - 0.25 / 18.75, 12)
        self.assertAlmostEqual(found.at([2, 0]), 5.75, 12)

    def test_anscombes_first(self) -> None:
        """F. J. Anscombe 1973, as published: 3.0001 (1.1247) + 0.5001 (0.1179) x, R2 0.6665, residual sd 1.237."""
        x = [10.0, 8, 13, 9, 11, 14, 6, 4, 12, 7, 5]
        y = [8.04, 6.95, 7.58, 8.81, 8.33, 9.96, 7.24, 4.26, 10.84, 4.82, 5.68]
        found = fitted([[value] for value in x], y)
        assert found.r2 is not None and found.spread is not None and found.errors is not None
        self.assertEqual([round(value, 4) for value in found.coefficients], [3.0001, 0.5001])
        self.assertEqual([round(value, 4) for value in found.errors], [1.1247, 0.1179])
        self.assertEqual((round(found.r2, 4), round(found.spread, 3)), (0.6665, 1.237))


class ThePaper(unittest.TestCase):
    def test_predictions_of_its_tables(self) -> None:
        """Tables 7.1 and 7.2; it cuts the third decimal off in two of them."""
        by_checkpoint = PAPER[CHECKPOINT]["added_job_time_s"]["coefficients"]
        by_vm = PAPER[PRE_COPY]["added_job_time_s"]["coefficients"]
        for wanted, value in ((52.18, predict(by_checkpoint, [400e6])), (47.44, predict(by_checkpoint, [360e6])),
                              (111.19, predict(by_vm, [512e6, 400e6])), (105.25, predict(by_vm, [512e6, 360e6]))):
            self.assertAlmostEqual(value, wanted, delta=0.0051)

    def test_its_phases_add_up_to_its_cost(self) -> None:
        phases = [PAPER[CHECKPOINT][name]["coefficients"] for name in ("check_s", "transfer_s", "restart_s")]
        whole = PAPER[CHECKPOINT]["added_job_time_s"]["coefficients"]
        self.assertAlmostEqual(sum(one[0] for one in phases), whole[0], delta=0.001)
        self.assertAlmostEqual(sum(one[1] for one in phases), whole[1], delta=1e-10)

    def test_its_two_measured_points_give_a_line_and_no_more(self) -> None:
        """53.68 s at 400 MB and 51.48 s at 360 MB: 55 ns a byte, which says nothing about how good a line is."""
        found = fitted([[400e6], [360e6]], [53.68, 51.48])
        self.assertAlmostEqual(found.coefficients[1], 5.5e-8, 16)
        self.assertAlmostEqual(found.coefficients[0], 31.68, 6)
        self.assertIsNone(found.r2)
        self.assertIsNone(found.spread)
        self.assertIsNone(found.errors)

    def test_its_coefficients_come_back_from_bytes(self) -> None:
        """Bytes beside a constant of 1: sixteen digits between the squares of both."""
        wanted = PAPER[PRE_COPY]["added_job_time_s"]["coefficients"]
        inputs = [[float(m * MIB), float(w * MIB)] for m in (128, 192, 256, 320, 384, 512) for w in (1, 32, 64, 128, 256) if w <= m]
        found = fitted(inputs, [predict(wanted, row) for row in inputs])
        for value, true in zip(found.coefficients, wanted):
            self.assertAlmostEqual(value / true, 1, 11)
        assert found.r2 is not None
        self.assertAlmostEqual(found.r2, 1, 12)


class NoAnswer(unittest.TestCase):
    def test_too_few(self) -> None:
        self.assertIsNone(least_squares([], []))
        self.assertIsNone(least_squares([[1.0]], [2.0]))
        self.assertIsNone(least_squares([[1.0, 2.0], [2.0, 1.0]], [1.0, 2.0]))

    def test_inputs_that_say_nothing(self) -> None:
        self.assertIsNone(least_squares([[5.0], [5.0], [5.0]], [1.0, 2.0, 3.0]), "one that never varies")
        self.assertIsNone(least_squares([[0.0], [0.0]], [1.0, 2.0]))
        rows = [[float(i), 3.0 * i + 2e8] for i in range(5)]
        self.assertIsNone(least_squares(rows, [1.0, 2.0, 4.0, 3.0, 5.0]), "one that follows from the other")

    def test_no_r2_where_nothing_varies(self) -> None:
        found = fitted([[1.0], [2.0], [3.0]], [4.0, 4.0, 4.0])
        self.assertIsNone(found.r2)
        self.assertAlmostEqual(found.coefficients[0], 4.0)


if __name__ == "__main__":
    unittest.main()
