r"""Shamir's secret sharing: any ``threshold`` shares give a secret back, fewer say nothing about it.

The secret is the constant term of a polynomial of degree threshold − 1 over the integers modulo the prime :math:`p =
2^{521} - 1`, with its other coefficients uniform; party *i* holds the value at *i* + 1. For fewer shares than the
threshold every secret is consistent with exactly one polynomial for each choice of the missing values, so the shares
are uniform and independent of the secret (Shamir 1979).
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping

from ledgerwood.errors import ParameterError

PRIME = 2**521 - 1
SECRET_BYTES = 32
SHARE_BYTES = 66


def split(secret: bytes, *, parties: int, threshold: int) -> list[bytes]:
    """Return one share per party.

    >>> shares = split(bytes(range(32)), parties=5, threshold=3)
    >>> recover({i: shares[i] for i in (4, 0, 2)}, threshold=3) == bytes(range(32))
    True
    """
    if len(secret) != SECRET_BYTES:
        raise ParameterError("secret", f"have {SECRET_BYTES} bytes", f"<{len(secret)} bytes>")
    if not 1 <= threshold <= parties:
        raise ParameterError("threshold", "lie between 1 and the number of parties", threshold)
    coefficients = [int.from_bytes(secret, "big"), *(secrets.randbelow(PRIME) for _ in range(threshold - 1))]
    return [_value(coefficients, i + 1).to_bytes(SHARE_BYTES, "big") for i in range(parties)]


def recover(shares: Mapping[int, bytes], *, threshold: int) -> bytes:
    """Return the secret from ``threshold`` shares, by the index of their party (Lagrange's formula at zero).

    Raises
    ------
    ParameterError
        Too few shares, or shares that belong to no secret of 32 bytes.
    """
    if len(shares) < threshold:
        raise ParameterError("shares", f"be at least {threshold}", len(shares))
    points = [(i + 1, int.from_bytes(share, "big")) for i, share in sorted(shares.items())[:threshold]]
    total = 0
    for x, y in points:
        numerator = denominator = 1
        for other, _ in points:
            if other != x:
                numerator = numerator * other % PRIME
                denominator = denominator * (other - x) % PRIME
        total = (total + y * numerator * pow(denominator, -1, PRIME)) % PRIME
    if total.bit_length() > 8 * SECRET_BYTES:
        raise ParameterError("shares", "belong to one secret", "<shares of different secrets>")
    return total.to_bytes(SECRET_BYTES, "big")


def _value(coefficients: list[int], x: int) -> int:
    total = 0
    for coefficient in reversed(coefficients):
        total = (total * x + coefficient) % PRIME
    return total
