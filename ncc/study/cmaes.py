# SPDX-License-Identifier: BSD-3-Clause
"""CMA-ES, which searches for the least value of a function that has no gradient.

Covariance matrix adaptation with (mu/mu_w, lambda) selection (Hansen, The CMA Evolution Strategy: A Tutorial,
arXiv:1604.00772, 2016, appendix A); all weights are positive.
"""

import math

import numpy as np

from ncc.core.errors import ConfigError
from ncc.core.flows import FloatArray


class CmaEs:
    """A search: `ask` for points, `tell` their values, again and again.

    Args:
        start: first mean [n], n >= 2.
        step: first standard deviation of every coordinate, above 0.
        rng: draws the points.
        population: points of a generation, lambda >= 4; None: 4 + 3 ln n.

    Raises:
        ConfigError: an argument out of range.
    """

    def __init__(
        self, start: FloatArray, step: float, rng: np.random.Generator, *, population: int | None = None
    ) -> None:
        n = len(start)
        size = population if population is not None else 4 + int(3 * math.log(max(n, 1)))
        if n < 2 or not step > 0 or size < 4:
            raise ConfigError(
                f"CMA-ES needs at least 2 coordinates, a step above 0 and 4 points, got {n}, {step} and {size}"
            )
        self.mean, self.population, self._rng, self._n = np.array(start, np.float64), size, rng, n
        weights = math.log((size + 1) / 2) - np.log(np.arange(1, size // 2 + 1))
        self._weights = weights / weights.sum()
        mu = self._mu = 1 / float((self._weights**2).sum())
        self._c_sigma = (mu + 2) / (n + mu + 5)
        self._damps = 1 + 2 * max(0.0, math.sqrt((mu - 1) / (n + 1)) - 1) + self._c_sigma
        self._c_c = (4 + mu / n) / (n + 4 + 2 * mu / n)
        self._c_1 = 2 / ((n + 1.3) ** 2 + mu)
        self._c_mu = min(1 - self._c_1, 2 * (mu - 2 + 1 / mu) / ((n + 2) ** 2 + mu))
        self._chi = math.sqrt(n) * (1 - 1 / (4 * n) + 1 / (21 * n**2))
        self.step, self._cov = step, np.eye(n)
        self._path_sigma, self._path_c, self._generation = np.zeros(n), np.zeros(n), 0

    def ask(self) -> FloatArray:
        """Draw the points of a generation [population, n]."""
        scales, self._axes = np.linalg.eigh(self._cov)
        self._scales = np.sqrt(np.maximum(scales, 1e-20))
        drawn = self._rng.standard_normal((self.population, self._n))
        found: FloatArray = self.mean + self.step * (drawn * self._scales) @ self._axes.T
        return found

    def tell(self, points: FloatArray, values: FloatArray) -> None:
        """Move towards the points [population, n] with the least values [population].

        Raises:
            ConfigError: a value is NaN, or the shapes are others.
        """
        if points.shape != (self.population, self._n) or values.shape != (self.population,) or np.isnan(values).any():
            raise ConfigError(f"tell needs {self.population} points with {self._n} coordinates and a number for each")
        self._generation += 1
        best = points[np.argsort(values, kind="stable")[: len(self._weights)]]
        steps = (best - self.mean) / self.step
        mean_step = self._weights @ steps
        self.mean = self.mean + self.step * mean_step
        whitened = self._axes @ ((self._axes.T @ mean_step) / self._scales)
        c_s, c_c = self._c_sigma, self._c_c
        self._path_sigma = (1 - c_s) * self._path_sigma + math.sqrt(c_s * (2 - c_s) * self._mu) * whitened
        length = float(np.linalg.norm(self._path_sigma))
        faded = math.sqrt(1 - (1 - c_s) ** (2 * self._generation))
        steady = float(length / faded < (1.4 + 2 / (self._n + 1)) * self._chi)  # else the step is too short by far
        self._path_c = (1 - c_c) * self._path_c + steady * math.sqrt(c_c * (2 - c_c) * self._mu) * mean_step
        kept = 1 - self._c_1 - self._c_mu + (1 - steady) * self._c_1 * c_c * (2 - c_c)
        ranked = (self._weights[:, None] * steps).T @ steps
        self._cov = kept * self._cov + self._c_1 * np.outer(self._path_c, self._path_c) + self._c_mu * ranked
        self.step *= math.exp(min(1.0, (c_s / self._damps) * (length / self._chi - 1)))
