"""Robust linear regression for times: few unknowns, noise that grows with the figure, and a
minority of points that follow another law altogether (queues, retries, caches nobody told of).

An M-estimate with a redescending weight (Yohai 1987 has the idea) by iteratively reweighted least
squares: least absolute deviations first, which no wild point can pull far; from there Tukey's
biweight, which leaves wild points out. All residuals are relative to the fitted value.
Deterministic, and independent of the points' order but for rounding.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import median

Vector = Sequence[float]
Matrix = list[list[float]]
Point = tuple[Vector, float]  # what is known, and the figure that follows from it

ROUNDS = 15  # of each phase; both settle within ten on all that we recorded
BIWEIGHT = 4.685  # Tukey's constant for 95 % of least squares' efficiency on normal noise
NORMAL_MAD = 1.4826  # from a median absolute deviation to a standard deviation
LEAST_SCALE = 0.005  # no clock and no service repeats itself better than to half a percent
LEAST_FIGURE = 0.1  # of the median figure: below it noise does not shrink any further
SINGULAR = 1e-9  # a pivot of the normalised matrix below this is rounding


@dataclass(frozen=True, slots=True)
class Regression:
    """`scale`: the standard deviation of relative residuals, wild ones left out."""

    coefficients: tuple[float, ...]
    scale: float
    inverse: Matrix  # of the weighted normal matrix

    def value(self, x: Vector) -> float:
        return dot(self.coefficients, x)

    def doubt(self, x: Vector) -> float:
        """The standard error of the fitted value at x."""
        spread = sum(
            x[i] * x[j] * v for i, row in enumerate(self.inverse) for j, v in enumerate(row)
        )
        return self.scale * math.sqrt(max(0.0, spread))


def dot(one: Vector, two: Vector) -> float:
    return sum(a * b for a, b in zip(one, two, strict=True))


def regress(points: Sequence[Point]) -> Regression | None:
    """The coefficients that most points agree on; None where the points do not determine them."""
    usual = median(y for _, y in points) if points else 0.0
    if usual <= 0:
        return None
    sizes = [max(y, usual / 2) for _, y in points]
    weights = [1.0] * len(points)
    scale = 1.0
    coefficients: list[float] = []
    inverse: Matrix | None = None
    for number in range(2 * ROUNDS):
        scaled = [w / (size * size) for w, size in zip(weights, sizes, strict=True)]
        inverse = _inverted(_normal_matrix(points, scaled))
        if inverse is None:
            return None
        target = _target(points, scaled)
        coefficients = [dot(row, target) for row in inverse]
        fitted = [dot(coefficients, x) for x, _ in points]
        sizes = [max(f, LEAST_FIGURE * usual) for f in fitted]
        off = [abs(y - f) / s for (_, y), f, s in zip(points, fitted, sizes, strict=True)]
        scale = max(NORMAL_MAD * median(off), LEAST_SCALE)
        weights = list(_absolute(off) if number < ROUNDS else _biweight(off, scale))
    return None if inverse is None else Regression(tuple(coefficients), scale, inverse)


def _absolute(off: Sequence[float]) -> Iterator[float]:
    """Weights under which squares add up to absolute deviations."""
    return (1 / max(o, LEAST_SCALE) for o in off)


def _biweight(off: Sequence[float], scale: float) -> Iterator[float]:
    reach = BIWEIGHT * scale
    return ((1 - (o / reach) ** 2) ** 2 if o < reach else 0.0 for o in off)


def _normal_matrix(points: Sequence[Point], weights: Sequence[float]) -> Matrix:
    size = range(len(points[0][0]))
    matrix = [[0.0 for _ in size] for _ in size]
    for (x, _), w in zip(points, weights, strict=True):
        for i in size:
            if x[i]:
                for j in size:
                    matrix[i][j] += w * x[i] * x[j]
    return matrix


def _target(points: Sequence[Point], weights: Sequence[float]) -> list[float]:
    size = range(len(points[0][0]))
    return [sum(w * x[i] * y for (x, y), w in zip(points, weights, strict=True)) for i in size]


def _inverted(matrix: Matrix) -> Matrix | None:
    """By Gauss and Jordan, columns brought to one length first; None where it is singular."""
    size = len(matrix)
    lengths = [math.sqrt(matrix[i][i]) for i in range(size)]
    if not all(lengths):
        return None
    rows = [
        [v / lengths[i] / lengths[j] for j, v in enumerate(row)]
        + [float(i == j) for j in range(size)]
        for i, row in enumerate(matrix)
    ]
    for i in range(size):
        pivot = max(range(i, size), key=lambda k: abs(rows[k][i]))
        if abs(rows[pivot][i]) < SINGULAR:
            return None
        rows[i], rows[pivot] = rows[pivot], rows[i]
        rows[i] = [v / rows[i][i] for v in rows[i]]
        for k in range(size):
            if k != i:
                rows[k] = [v - rows[k][i] * p for v, p in zip(rows[k], rows[i], strict=True)]
    return [[rows[i][size + j] / lengths[i] / lengths[j] for j in range(size)] for i in range(size)]
