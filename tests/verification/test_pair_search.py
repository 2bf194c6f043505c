"""Pairs made from a schema are neighbours under it, and lie where flaws hide."""

import numpy as np
import pytest

from ledgerwood.errors import ParameterError
from ledgerwood.verification.auditor.pairs import candidate_pairs, refine


@pytest.mark.parametrize("moves", ["each", "one"])
def test_query_pairs_move_no_answer_by_more_than_the_sensitivity(moves):
    schema = {"queries": 6, "sensitivity": 0.5, "moves": moves, "thresholds": [3.0]}
    pairs = candidate_pairs(schema)
    for pair in pairs + [new for old in pairs for new in refine(old, schema)]:
        change = np.abs(np.asarray(pair.first) - np.asarray(pair.second))
        assert 0 < change.max() <= 0.5 + 1e-12
        if moves == "one":
            assert np.count_nonzero(change) == 1
    assert any("at 3" in pair.origin for pair in pairs)


@pytest.mark.parametrize("relation", ["add_remove", "replace_one"])
def test_table_pairs_differ_in_one_row_within_the_bounds(relation):
    schema = {"columns": [(0, 1), (-2, 2)], "rows": 12, "relation": relation, "thresholds": [5], "edges": [[0.5], []]}
    pairs = candidate_pairs(schema)
    for pair in pairs + [new for old in pairs for new in refine(old, schema)]:
        first, second = sorted(map(tuple, pair.first)), sorted(map(tuple, pair.second))
        if relation == "add_remove":
            assert len(first) == len(second) + 1
        else:
            assert len(first) == len(second)
        rest = list(first)
        for row in second:
            if row in rest:
                rest.remove(row)
        assert len(rest) == 1
        assert all(0 <= a <= 1 and -2 <= b <= 2 for a, b in first + second)
    counts = {sum(row[0] == 0 for row in pair.first) for pair in pairs}
    assert 5 in counts


def test_values_are_paired_with_each_other():
    assert len(candidate_pairs({"values": ["a", "b", "c"]})) == 3


@pytest.mark.parametrize(
    "schema", [{}, {"queries": 0}, {"queries": 2, "sensitivity": -1}, {"columns": [(2, 1)]}, ["columns"]]
)
def test_a_schema_that_says_nothing_is_refused(schema):
    with pytest.raises(ParameterError, match="schema"):
        candidate_pairs(schema)


@pytest.mark.parametrize(
    ("schema", "rule"),
    [
        ({"columns": []}, "at least one column"),
        ({"columns": [(0, 1)], "rows": -3}, "at least one row"),
        ({"columns": [(0, 1)], "relation": "swap"}, "relation"),
        ({"columns": [(0, 1)], "thresholds": 5}, "list of thresholds"),
        ({"columns": [(0, 1)], "thresholds": [0]}, "at least one row"),
        ({"columns": [(0, 1)], "edges": [[0.5], [0.3]]}, "edges per column"),
        ({"columns": [(0, 1)], "treshold": [5]}, "nothing else"),
        ({"queries": 3, "moves": "two"}, "moves"),
        ({"values": [1]}, "two values"),
    ],
)
def test_a_schema_that_says_nothing_usable_is_refused(schema, rule):
    """A relation that is not known was once read as add or remove, a mistyped fact passed over."""
    with pytest.raises(ParameterError, match=rule):
        candidate_pairs(schema)
