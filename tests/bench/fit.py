"""Least squares with a constant, as the benches fit their figures. Pure: values in, values out."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

#: Of inputs that are standardised: below this, one follows from the others.
SINGULAR = 1e-9


@dataclasses.dataclass(frozen=True)
class Fit:
    """output = c_0 + c_1 input_1 + ... over some samples."""

    coefficients: list[float]  # the constant, then one for each input
    residuals: list[float]     # measured less fitted, in the order of the samples
    #: Of the coefficients; none without a degree of freedom, as then every line goes through all points.
    errors: list[float] | None
    #: 1 - residual / total sum of squares; none without a degree of freedom, or when all outputs are the same.
    r2: float | None

    @property
    def freedom(self) -> int:
        return len(self.residuals) - len(self.coefficients)

    @property
    def spread(self) -> float | None:
        """Standard deviation of the residuals."""
        return math.sqrt(sum(one * one for one in self.residuals) / self.freedom) if self.freedom > 0 else None

    def at(self, inputs: list[float]) -> float:
        return predict(self.coefficients, inputs)

    def as_json(self, names: list[str]) -> dict[str, Any]:
        """`names` are those of the inputs."""
        return {"inputs": names, "coefficients": self.coefficients, "standard_errors": self.errors, "r2": self.r2,
                "residual_sd": self.spread, "residual_max": max(abs(one) for one in self.residuals),
                "samples": len(self.residuals), "freedom": self.freedom}


def predict(coefficients: list[float], inputs: list[float]) -> float:
    return coefficients[0] + sum(factor * value for factor, value in zip(coefficients[1:], inputs))


def least_squares(inputs: list[list[float]], outputs: list[float]) -> Fit | None:
    """None: fewer samples than coefficients, or inputs that do not vary or follow from each other.

    Inputs are standardised before the normal equations are solved: with bytes beside a constant of 1 these would
    lose all their digits.
    """
    count = len(outputs)
    width = len(inputs[0]) if inputs else 0
    if count < width + 1:
        return None
    columns = [[row[i] for row in inputs] for i in range(width)]
    means = [math.fsum(column) / count for column in columns]
    centred = [[value - mean for value in column] for column, mean in zip(columns, means)]
    norms = [math.sqrt(math.fsum(value * value for value in column)) for column in centred]
    if any(norm <= SINGULAR * max(abs(value) for value in column) for norm, column in zip(norms, columns)):
        return None
    unit = [[value / norm for value in column] for column, norm in zip(centred, norms)]
    inverse = _inverse([[_dot(a, b) for b in unit] for a in unit])
    if inverse is None:
        return None
    middle = math.fsum(outputs) / count
    right = [_dot(column, [value - middle for value in outputs]) for column in unit]
    slopes = [_dot(row, right) / norm for row, norm in zip(inverse, norms)]
    coefficients = [middle - _dot(slopes, means), *slopes]
    residuals = [value - predict(coefficients, row) for value, row in zip(outputs, inputs)]
    return _judged(coefficients, residuals, outputs, [
        [inverse[i][j] / norms[i] / norms[j] for j in range(width)] for i in range(width)], means)


def _judged(coefficients: list[float], residuals: list[float], outputs: list[float], covariance: list[list[float]],
            means: list[float]) -> Fit:
    """`covariance` is that of the slopes for residuals of variance 1."""
    freedom = len(residuals) - len(coefficients)
    left = math.fsum(one * one for one in residuals)
    middle = math.fsum(outputs) / len(outputs)
    total = math.fsum((value - middle) ** 2 for value in outputs)
    if freedom <= 0:
        return Fit(coefficients, residuals, None, None)
    of_mean = 1 / len(outputs) + _dot(means, [_dot(row, means) for row in covariance])
    variances = [of_mean, *(covariance[i][i] for i in range(len(means)))]
    errors = [math.sqrt(left / freedom * variance) for variance in variances]
    return Fit(coefficients, residuals, errors, 1 - left / total if total > 0 else None)


def _dot(left: list[float], right: list[float]) -> float:
    return math.fsum(a * b for a, b in zip(left, right))


def _inverse(matrix: list[list[float]]) -> list[list[float]] | None:
    """By Gauss and Jordan with pivots; None where there is none."""
    size = len(matrix)
    rows = [[*row, *(1.0 if i == j else 0.0 for j in range(size))] for i, row in enumerate(matrix)]
    for i in range(size):
        pivot = max(range(i, size), key=lambda r: abs(rows[r][i]))
        if abs(rows[pivot][i]) < SINGULAR:
            return None
        rows[i], rows[pivot] = rows[pivot], rows[i]
        rows[i] = [value / rows[i][i] for value in rows[i]]
        for j in range(size):
            if j != i:
                rows[j] = [a - rows[j][i] * b for a, b in zip(rows[j], rows[i])]
    return [row[size:] for row in rows]
