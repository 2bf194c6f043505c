r"""Which floats can a textbook sampler reach? Outputs that one input cannot produce give it away.

A float64 Laplace sampler computes ``location ± scale * log(u)`` from a uniform ``u`` on a grid of :math:`2^{-53}` or
:math:`2^{-52}`. Most floats are not reachable, and which ones are depends on the location (Mironov, CCS 2012).
Attainability is decided by preimage: invert the formula near the output, run the sampler's own floating-point
operations on the few grid points there, and compare bits.

Two scores come out of it. ``Attainable`` needs the formula, the location and the scale; ``find_lattice`` finds them
from a small sample, trying simple locations and scales, because only the right guess explains *every* output.
``LowBit`` (in ``scores``) needs nothing: adding noise to 1.0 cannot produce a float finer than the grid around 1.0.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ledgerwood.errors import ParameterError
from ledgerwood.verification.auditor.encoding import Encoded, low_bit
from ledgerwood.verification.auditor.scores import Fixed
from ledgerwood.verification.auditor.tuning import TUNING

__all__ = ["FORMULAS", "Attainable", "attainable", "find_lattice"]

Floats = NDArray[np.float64]


#: Samplers known by their own floating-point operations on a uniform u on the grid of 2^-53.
FORMULAS = ("numpy laplace", "inverse-cdf laplace", "log1p laplace")


def attainable(
    values: Floats, *, location: float, scale: float, formula: str = "numpy laplace", reach: int = 3
) -> NDArray[np.bool_]:
    """Which values the sampler can produce at this location and scale, by preimage search on its grid.

    ``reach`` grid points to each side of the real preimage are tried: the rounding of ``exp``, ``log``, product and sum
    moves the preimage by at most two. Outputs whose noise is so small that many grid points round to them are
    attainable in any case.

    Examples
    --------
    >>> rng = np.random.default_rng(1)
    >>> y = rng.laplace(1.0, 10.0, 10_000)
    >>> attainable(y, location=1.0, scale=10.0).all()
    np.True_
    >>> bool(attainable(y, location=0.0, scale=10.0).mean() < 0.5)
    True
    """
    if formula not in FORMULAS:
        raise ParameterError("formula", f"be one of {FORMULAS}", formula)
    if not (0 < scale < math.inf):
        raise ParameterError("scale", "be positive and finite", scale)
    from ledgerwood.verification.auditor._kernels import has_preimage

    values = np.ascontiguousarray(values, dtype=np.float64)
    found = has_preimage(values, float(location), float(scale), FORMULAS.index(formula), reach)
    # Where one ulp of the output holds more grid points than were tried, the sampler reaches every float.
    dense = scale * 2.0**-53 * (2 * reach + 1) < np.spacing(np.abs(values))
    return np.asarray(found | dense | ~np.isfinite(values))


@dataclass(frozen=True, slots=True)
class Attainable(Fixed):
    """1 where a field could come from the sampler at this location and scale, else 0."""

    index: int
    field: str
    formula: str
    location: float
    scale: float

    @property
    def name(self) -> str:
        return f"attainability of {self.field} by {self.formula}({self.location:g}, {self.scale:g})"

    def __call__(self, encoded: Encoded) -> Floats:
        values = encoded.numbers[:, self.index]
        return attainable(values, location=self.location, scale=self.scale, formula=self.formula).astype(np.float64)


def find_lattice(encoded: Encoded, hints: Iterable[float] = (), *, probe: int = 200) -> list[Attainable]:
    """The samplers that explain every one of the given outputs, field by field.

    Locations tried: the hints (numbers of the input, its sums), and simple numbers near the median; scales: the hints'
    and simple numbers near the mean deviation. A wrong guess explains a small part of ``probe`` outputs only.
    """
    found: list[Attainable] = []
    searched = 0
    extra = [float(h) for h in hints if math.isfinite(h)]
    for j, name in enumerate(encoded.names):
        values = encoded.numbers[:, j]
        values = values[np.isfinite(values)]
        if values.size < 20 or not _uses_all_bits(values[:100]):
            continue
        # Fields of one model share their noise: where it is known, only the location is sought.
        known = list(dict.fromkeys((each.formula, each.scale) for each in found))
        match = next((hit for noise in known if (hit := _explain(values, probe, extra, noise))), None)
        if match is None and searched < TUNING.lattice_searched:
            searched += 1
            match = _explain(values, probe, extra)
        if match:
            found.append(Attainable(j, name, *match))
        if len(found) == TUNING.lattice_found:
            break
    return found


def _uses_all_bits(values: Floats) -> bool:
    """Whether most values have set bits below the 46th of their 53: rounded outputs lie on no sampler's lattice."""
    _, exponent = np.frexp(values)
    return bool(np.median(exponent - low_bit(values)) > 46)


def _explain(
    values: Floats, probe: int, extra: list[float], noise: tuple[str, float] | None = None
) -> tuple[str, float, float] | None:
    """Formula, location and scale that explain the values; ``noise`` is a formula and a scale to try alone."""
    from ledgerwood.verification.auditor._kernels import first_explanation

    with np.errstate(over="ignore", invalid="ignore"):
        center = float(np.median(values))
        spread = float(np.mean(np.abs(values - center)))
    error = 6.0 * spread / math.sqrt(values.size)
    if not math.isfinite(center) or not math.isfinite(error):  # near the largest float: no scale that people write
        return None
    near = sorted(
        (x for x in {*_simple(center, error), *extra} if abs(x - center) <= error), key=lambda x: abs(x - center)
    )
    wide = sorted((s for s in {*_simple(spread, error), *map(abs, extra)} if s > 0), key=lambda s: abs(s - spread))
    if noise is not None:
        wide = [noise[1]]
    locations, scales = (np.asarray(guesses[: TUNING.lattice_guesses], dtype=np.float64) for guesses in (near, wide))
    for k, formula in enumerate(FORMULAS):
        if noise is not None and formula != noise[0]:
            continue
        a, b = first_explanation(np.ascontiguousarray(values[:12]), locations, scales, k, 3)
        if a < 0:
            continue
        location, scale = float(locations[a]), float(scales[b])
        elsewhere = attainable(values[:12], location=location + spread / 3, scale=scale, formula=formula)
        if not elsewhere.all() and attainable(values[:probe], location=location, scale=scale, formula=formula).all():
            return formula, location, scale
    return None


def _simple(center: float, error: float) -> list[float]:
    """Numbers people write, near ``center``: multiples of 1, 1/2, 1/4, 1/10, 1/100 and their reciprocals."""
    numbers: list[float] = []
    for unit in (1.0, 0.5, 0.25, 0.1, 0.01):
        first, last = math.ceil((center - error) / unit), math.floor((center + error) / unit)
        numbers += [k * unit for k in range(first, min(last, first + 40) + 1)]
        numbers += [k / (1.0 / unit) for k in range(first, min(last, first + 40) + 1)]
    if center - error > 0:
        low, high = 1.0 / (center + error), 1.0 / (center - error)
        for unit in (1.0, 0.5, 0.1, 0.01):
            first, last = math.ceil(low / unit), math.floor(high / unit)
            numbers += [1.0 / (k * unit) for k in range(first, min(last, first + 40) + 1) if k]
    return list(dict.fromkeys(numbers))


def hints_of(data: Any) -> list[float]:
    """Numbers that a query may return on this input: its entries, their sum, mean, extremes, and its length."""
    try:
        array = np.asarray(data, dtype=np.float64).ravel()
    except (TypeError, ValueError):
        return []
    if array.size == 0 or not np.all(np.isfinite(array)):
        return [0.0]
    whole = [array.sum(), array.mean(), array.min(), array.max(), float(array.size), float(len(np.atleast_1d(data)))]
    return list(dict.fromkeys([*array[:50].tolist(), *map(float, whole)]))
