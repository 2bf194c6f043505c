r"""Passes over the rows of a training: scores, gradients, routes and sums, fused block by block.

**A record's pair** (gradient, hessian) is one int32: ``g << 16 | in << 15 | h``, where ``in`` says that the record is
in the sample. A record outside the sample is 0. A sum packs two of them in one int64, ``g << 32 | second``, so that a
bin costs one addition; ``2**19`` rows fit because ``|g|, h <= 2**12``, and callers unpack before that.

**Routes** are computed for a whole block of rows at a time, node by node, from the bottom of the tree to its root: the
leaf number below a node is the one below its right child plus a step where the bin code goes right, else the one below
its left child. That is two or three vector instructions for each node and 32 rows, where a walk down the tree takes
some twenty instructions for each row and waits for memory at every level. A node of a symmetric level is one bit.

All helpers live in this file because numba's cache of a kernel is renewed when the kernel's own file changes.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

BLOCK = 2048
"""Rows routed at a time: their codes, routes and pairs stay in the first level of cache."""

TABLE, SQUARED = 0, 1  # any other kind is softmax

# Helpers are compiled into the kernels that call them, and need no entry of their own from Python.
_ENTRIES: dict[str, Any] = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}
_helper = njit(nogil=True, **_ENTRIES)

_U8 = NDArray[np.uint8]
_I32 = NDArray[np.int32]
_I64 = NDArray[np.int64]
_U64 = NDArray[np.uint64]


@_helper
def _rotate(x: np.uint64, by: np.uint64) -> np.uint64:
    return (x << by) | (x >> (np.uint64(64) - by))


@_helper
def _sip_round(
    v0: np.uint64, v1: np.uint64, v2: np.uint64, v3: np.uint64
) -> tuple[np.uint64, np.uint64, np.uint64, np.uint64]:
    v0 += v1
    v2 += v3
    v1 = _rotate(v1, np.uint64(13)) ^ v0
    v3 = _rotate(v3, np.uint64(16)) ^ v2
    v0 = _rotate(v0, np.uint64(32))
    v2 += v1
    v0 += v3
    v1 = _rotate(v1, np.uint64(17)) ^ v2
    v3 = _rotate(v3, np.uint64(21)) ^ v0
    v2 = _rotate(v2, np.uint64(32))
    return v0, v1, v2, v3


@_helper
def _drop_unsampled(key: _U64, numerator: int, first: int, size: int, pairs: _I32) -> None:
    """Clear the pairs of records whose keyed hash, SipHash-2-4 of (round, record), is not below the rate.

    ``key`` is the key and the round; if more follows, it is the number of each record, which else is its place.
    """
    for i in range(size):
        v0 = np.uint64(0x736F6D6570736575) ^ key[0]
        v1 = np.uint64(0x646F72616E646F6D) ^ key[1]
        v2 = np.uint64(0x6C7967656E657261) ^ key[0]
        v3 = np.uint64(0x7465646279746573) ^ key[1]
        for step in range(3):
            word = np.uint64(16 << 56)
            if step == 0:
                word = key[2]
            elif step == 1:
                word = key[3 + first + i] if key.size > 3 else np.uint64(first + i)
            v3 ^= word
            for _ in range(2):
                v0, v1, v2, v3 = _sip_round(v0, v1, v2, v3)
            v0 ^= word
        v2 ^= np.uint64(0xFF)
        for _ in range(4):
            v0, v1, v2, v3 = _sip_round(v0, v1, v2, v3)
        if np.int64((v0 ^ v1 ^ v2 ^ v3) & np.uint64(0xFFFFFFFF)) >= numerator:
            for k in range(pairs.shape[0]):
                pairs[k, i] = 0


@_helper
def _root(value: np.int64) -> np.int64:
    """Return the integer square root of a number below 2**52."""
    root = np.int64(np.sqrt(np.float64(value)))
    if root * root > value:
        root -= 1
    return root


@_helper
def _shorten(norm: int, size: int, pairs: _I32) -> None:
    """Shorten the pairs of records whose squares sum to more than norm**2, towards zero."""
    most = np.int64(norm) * np.int64(norm)
    for i in range(size):
        square = np.int64(0)
        for k in range(pairs.shape[0]):
            g, h = np.int64(pairs[k, i]) >> 16, np.int64(pairs[k, i]) & 0x7FFF
            square += g * g + h * h
        if square > most:
            for k in range(pairs.shape[0]):
                g, h = np.int64(pairs[k, i]) >> 16, np.int64(pairs[k, i]) & 0x7FFF
                short = _root(g * g * most // square)
                g = short if g > 0 else -short
                pairs[k, i] = np.int32((g << 16) | 0x8000 | _root(h * h * most // square))


@_helper
def _softmax(scores: _I32, labels: _I32, lo: int, size: int, exps: _I64, hessian: _I32, pairs: _I32) -> None:
    outputs = scores.shape[0]
    for i in range(size):
        top = np.int64(scores[0, lo + i])
        for k in range(1, outputs):
            top = max(top, np.int64(scores[k, lo + i]))
        total = np.int64(0)
        for k in range(outputs):
            total += exps[min((top - np.int64(scores[k, lo + i]) + 128) >> 8, np.int64(4096))]
        for k in range(outputs):
            p = (exps[min((top - np.int64(scores[k, lo + i]) + 128) >> 8, np.int64(4096))] << 12) // total
            g = p - (4096 if labels[lo + i] == k else 0)
            pairs[k, i] = np.int32((g << 16) | 0x8000 | np.int64(hessian[p]))


@_helper
def _gradients(
    scores: _I32,
    labels: _I32,
    lo: int,
    size: int,
    rule: _I64,
    table: _I32,
    exps: _I64,
    hessian: _I32,
    key: _U64,
    pairs: _I32,
) -> None:
    """Write the pairs of rows lo .. lo + size; rule: kind, clip, constant hessian, sample numerator, first record."""
    if rule[0] == TABLE:
        f = scores[0, lo : lo + size]
        y = labels[lo : lo + size]
        out = pairs[0, :size]
        for i in range(size):
            place = min(max(((f[i] + np.int32(128)) >> np.int32(8)) + np.int32(2048), np.int32(0)), np.int32(4096))
            out[i] = place + y[i]
        for i in range(size):  # apart from the arithmetic: together they take twice as long
            out[i] = table[np.uint32(out[i])]
    elif rule[0] == SQUARED:
        for i in range(size):
            g = (np.int64(scores[0, lo + i]) - np.int64(labels[lo + i]) + 8) >> 4
            pairs[0, i] = np.int32((min(max(g, -rule[1]), rule[1]) << 16) | 0x8000 | rule[2])
    else:
        _softmax(scores, labels, lo, size, exps, hessian, pairs)
        if rule[1] > 0:
            _shorten(rule[1], size, pairs)
    if rule[3] < 4294967296:
        _drop_unsampled(key, rule[3], rule[4] + lo, size, pairs)


@_helper
def _add_leaves(scores: _I32, lo: int, size: int, leaf: _U8, weights: _I32) -> None:
    """Add a tree's weights to the scores of a block."""
    for k in range(scores.shape[0]):
        f = scores[k, lo : lo + size]
        w = weights[k]
        for i in range(size):
            f[i] += w[leaf[i]]


@_helper
def _look_up(column: _U8, left: _U8, out: _U8) -> None:
    for i in range(column.size):
        out[i] = left[column[i]] ^ np.uint8(1)


@_helper
def _first_bit(column: _U8, threshold: np.uint8, skip: np.uint8, out: _U8) -> None:
    for i in range(column.size):
        c = column[i]
        out[i] = np.uint8((c >= threshold) & (c != skip))


@_helper
def _next_bit(column: _U8, threshold: np.uint8, skip: np.uint8, out: _U8) -> None:
    for i in range(column.size):
        c = column[i]
        out[i] = np.uint8(out[i] << np.uint8(1)) | np.uint8((c >= threshold) & (c != skip))


@_helper
def _join(column: _U8, threshold: np.uint8, skip: np.uint8, below: _U8, right: _U8, step: np.uint8) -> None:
    for i in range(column.size):
        c = column[i]
        below[i] = np.uint8(right[i] + step) if (c >= threshold) & (c != skip) else below[i]


@_helper
def _route(
    bin_codes: _U8, lo: int, size: int, depth: int, symmetric: int, feature: _I32, rule: _U8, left: _U8, stack: _U8
) -> None:
    """Write the leaf numbers of rows lo .. lo + size in stack[0].

    Node ``v`` sends a bin code right if it is at least ``rule[v, 0]`` and not ``rule[v, 1]``; where ``rule[v, 2]`` is
    set, if ``left[v, code]`` is 0: then the looked up bits take the place of the column, with the rule "at least 1".
    """
    bits = stack[depth + 1, :size]
    if depth == 0:
        for i in range(size):
            stack[0, i] = 0
        return
    if symmetric:
        out = stack[0, :size]
        for level in range(depth):
            v = (1 << level) - 1
            column, threshold, skip = bin_codes[feature[v], lo : lo + size], rule[v, 0], rule[v, 1]
            if rule[v, 2]:
                _look_up(column, left[v], bits)
                column = bits
            if level == 0:
                _first_bit(column, threshold, skip, out)
            else:
                _next_bit(column, threshold, skip, out)
        return
    top = 0
    for place in range(1 << (depth - 1)):
        v = (1 << (depth - 1)) - 1 + place
        column, threshold, skip = bin_codes[feature[v], lo : lo + size], rule[v, 0], rule[v, 1]
        if rule[v, 2]:
            _look_up(column, left[v], bits)
            column = bits
        _first_bit(column, threshold, skip, stack[top, :size])
        # A right child completes its parent: the two topmost routes become one, as carries in a binary counter.
        above, level, step = place, depth - 2, 2
        while above & 1:
            above >>= 1
            v = (1 << level) - 1 + above
            column, threshold, skip = bin_codes[feature[v], lo : lo + size], rule[v, 0], rule[v, 1]
            if rule[v, 2]:
                _look_up(column, left[v], bits)
                column = bits
            _join(column, threshold, skip, stack[top - 1, :size], stack[top, :size], np.uint8(step))
            top -= 1
            level -= 1
            step <<= 1
        top += 1


@njit(cache=True, nogil=True)
def leaf_pass(
    bin_codes: _U8,
    scores: _I32,
    labels: _I32,
    lo: int,
    hi: int,
    rule: _I64,
    table: _I32,
    exps: _I64,
    hessian: _I32,
    key: _U64,
    due: _U8,
    which: _I32,
    weights: _I32,
    depth: int,
    symmetric: _U8,
    feature: _I32,
    split: _U8,
    left: _U8,
    shift: int,
    mask: int,
    sums: _I64,
    ids: _U8,
    keep: int,
    kept: _I32,
) -> None:
    """Flush what is due to the scores, then add the packed sums of rows lo .. hi in the leaves of a batch of trees.

    ``weights[t]`` are added to the scores by the numbers ``due[which[t]]``: leaves kept before, or a column of bin
    codes. Then ``ids[t]`` becomes the leaf of tree t, for the first ``keep`` trees. ``sums`` is int64[4, trees,
    outputs, leaves]: neighbouring rows go to four different tables, so that an addition does not wait for the one
    before it. ``kept``, if it has room, receives the pairs.
    """
    outputs = scores.shape[0]
    stack = np.empty((depth + 2, BLOCK), dtype=np.uint8)
    pairs = np.empty((outputs, BLOCK), dtype=np.int32)
    for start in range(lo, hi, BLOCK):
        size = min(BLOCK, hi - start)
        for t in range(weights.shape[0]):
            _add_leaves(scores, start, size, due[which[t], start : start + size], weights[t])
        _gradients(scores, labels, start, size, rule, table, exps, hessian, key, pairs)
        if kept.shape[1] > 0:
            for k in range(outputs):
                for i in range(size):
                    kept[k, start + i] = pairs[k, i]
        for t in range(feature.shape[0]):
            look = left[t if left.shape[0] > 1 else 0]
            _route(bin_codes, start, size, depth, symmetric[t], feature[t], split[t], look, stack)
            for k in range(outputs):
                for i in range(size):
                    pair = np.int64(pairs[k, i])
                    sums[i & 3, t, k, stack[0, i]] += ((pair >> 16) << 32) + ((pair >> shift) & mask)
            if t < keep:
                for i in range(size):
                    ids[t, start + i] = stack[0, i]


@njit(cache=True, nogil=True)
def column_pass(
    bin_codes: _U8,
    scores: _I32,
    labels: _I32,
    lo: int,
    hi: int,
    rule: _I64,
    table: _I32,
    exps: _I64,
    hessian: _I32,
    key: _U64,
    due: _U8,
    which: _I32,
    weights: _I32,
    columns: _I32,
    shift: int,
    mask: int,
    sums: _I64,
) -> None:
    """Flush as :func:`leaf_pass` does, then add the packed sums of rows lo .. hi by the bin codes of columns.

    A tree of one feature needs no route: its leaves are sets of codes. ``sums`` is int64[4, columns, outputs, codes].
    """
    outputs = scores.shape[0]
    pairs = np.empty((outputs, BLOCK), dtype=np.int32)
    packed = np.empty(BLOCK, dtype=np.int64)
    for start in range(lo, hi, BLOCK):
        size = min(BLOCK, hi - start)
        for t in range(weights.shape[0]):
            _add_leaves(scores, start, size, due[which[t], start : start + size], weights[t])
        _gradients(scores, labels, start, size, rule, table, exps, hessian, key, pairs)
        fours = size & ~3
        for k in range(outputs):
            for i in range(size):
                pair = np.int64(pairs[k, i])
                packed[i] = ((pair >> 16) << 32) + ((pair >> shift) & mask)
            for t in range(columns.size):
                column = bin_codes[columns[t], start : start + size]
                s0, s1, s2, s3 = sums[0, t, k], sums[1, t, k], sums[2, t, k], sums[3, t, k]
                for i in range(0, fours, 4):
                    s0[column[i]] += packed[i]
                    s1[column[i + 1]] += packed[i + 1]
                    s2[column[i + 2]] += packed[i + 2]
                    s3[column[i + 3]] += packed[i + 3]
                for i in range(fours, size):
                    s0[column[i]] += packed[i]


@njit(cache=True, nogil=True)
def fold(sums: _I64, place: _U8, out: _I64) -> None:
    """Add packed sums, int64[4, trees, outputs, codes], to out[tree, output, place[tree, code]], and clear them."""
    for part in range(sums.shape[0]):
        for t in range(sums.shape[1]):
            for k in range(sums.shape[2]):
                source, to = sums[part, t, k], out[t, k]
                for c in range(source.size):
                    value = source[c]
                    to[place[t, c], 0] += value >> 32
                    to[place[t, c], 1] += value & 0xFFFFFFFF
                    source[c] = 0


@njit(cache=True, nogil=True)
def add_columns(bin_codes: _U8, scores: _I32, lo: int, hi: int, which: _I32, weights: _I32) -> None:
    """Add to the scores of rows lo .. hi the weights of the codes in some columns."""
    for t in range(which.size):
        _add_leaves(scores, lo, hi - lo, bin_codes[which[t], lo:hi], weights[t])


@njit(cache=True, nogil=True)
def add_pass(
    bin_codes: _U8,
    scores: _I32,
    lo: int,
    hi: int,
    depth: int,
    symmetric: _U8,
    feature: _I32,
    split: _U8,
    left: _U8,
    weights: _I32,
) -> None:
    """Add the weights of a batch of trees to the scores of rows lo .. hi."""
    stack = np.empty((depth + 2, BLOCK), dtype=np.uint8)
    for start in range(lo, hi, BLOCK):
        size = min(BLOCK, hi - start)
        for t in range(feature.shape[0]):
            look = left[t if left.shape[0] > 1 else 0]
            _route(bin_codes, start, size, depth, symmetric[t], feature[t], split[t], look, stack)
            _add_leaves(scores, start, size, stack[0, :size], weights[t])


@njit(cache=True, nogil=True)
def level_pass(
    bin_codes: _U8,
    rows: _U8,
    features: _I32,
    pairs: _I32,
    lo: int,
    hi: int,
    depth: int,
    symmetric: _U8,
    feature: _I32,
    split: _U8,
    left: _U8,
    slots: _I32,
    width: int,
    shift: int,
    mask: int,
    sums: _I64,
) -> None:
    """Add the packed histograms of rows lo .. hi at the open nodes that have a slot.

    ``sums`` is flat, int64[outputs * slots * features * width]. ``rows`` holds the bin codes row by row, the layout in
    which a row's additions are independent of each other; without it (no rows) the chosen columns are read instead.
    """
    stack = np.empty((depth + 2, BLOCK), dtype=np.uint8)
    chosen = np.empty(BLOCK, dtype=np.int32)
    base = np.empty(BLOCK, dtype=np.int64)
    packed = np.empty(BLOCK, dtype=np.int64)
    n_features = features.size
    one_node = np.int64(n_features) * width
    one_output = sums.size // pairs.shape[0]
    for start in range(lo, hi, BLOCK):
        size = min(BLOCK, hi - start)
        _route(bin_codes, start, size, depth, symmetric[0], feature[0], split[0], left[0], stack)
        count = np.int64(0)
        for i in range(size):
            slot = slots[stack[0, i]]
            chosen[count] = start + i
            base[count] = slot * one_node
            count += np.int64(slot >= 0)
        for k in range(pairs.shape[0]):
            for j in range(count):
                pair = np.int64(pairs[k, chosen[j]])
                packed[j] = ((pair >> 16) << 32) + ((pair >> shift) & mask)
            here = sums[k * one_output : (k + 1) * one_output]
            if rows.shape[0] > 0:
                for j in range(count):
                    row = rows[chosen[j]]
                    at = np.uint64(base[j])
                    value = packed[j]
                    for q in range(n_features):
                        here[at + np.uint64(row[q])] += value
                        at += np.uint64(width)
            else:
                for q in range(n_features):
                    column = bin_codes[features[q]]
                    shifted = here[q * width :]
                    for j in range(count):
                        shifted[np.uint64(base[j]) + np.uint64(column[np.uint64(chosen[j])])] += packed[j]


@njit(cache=True, nogil=True)
def unpack(sums: _I64, nodes: _I64, out: _I64) -> None:
    """Add packed histograms, int64[outputs, slots, features * width], to out[:, nodes], and clear them."""
    for k in range(sums.shape[0]):
        for s in range(sums.shape[1]):
            to = out[k, nodes[s]]
            source = sums[k, s]
            for c in range(source.size):
                value = source[c]
                to[c, 0] += value >> 32
                to[c, 1] += value & 0xFFFFFFFF
                source[c] = 0


@njit(cache=True, nogil=True)
def subtract(parents: _I64, nodes: _I64, out: _I64) -> None:
    """Write the sibling of every given node: its parent less the node."""
    for k in range(out.shape[0]):
        for s in range(nodes.size):
            v = nodes[s]
            parent, known, to = parents[k, v >> 1], out[k, v], out[k, v ^ 1]
            for c in range(parent.shape[0]):
                to[c, 0] = parent[c, 0] - known[c, 0]
                to[c, 1] = parent[c, 1] - known[c, 1]
