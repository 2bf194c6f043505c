"""The tuning constants of the auditor: they decide how much is found, never whether a certificate holds.

The design was compared with others on mechanisms drawn at random (``benchmarks/auditor_generated.py``) at 2,000 to
100,000 outputs per input. Within it the values are round numbers, and were not measured one by one; whoever changes one
compares the bounds before and after on fresh seeds.

``Limits`` holds bounds on memory and time that no benchmark chose. Constants that a proof relies on stay beside the
proof, in ``certificate``.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["LIMITS", "TUNING", "Limits", "Tuning"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tuning:
    """All constants of one auditor; ``TUNING`` holds the defaults. "Rows" are outputs per input."""

    first_share: float = 0.1  # of the outputs choose an event; enough if it never happens on one input
    selection_share: float = 0.3  # of the outputs choose otherwise
    selection_rows: int = 300_000  # at most
    look_rows: float = 0.3  # of the fresh outputs, after which an audit may end
    look_share: float = 0.25  # of the error, for that look
    extra_share: float = 0.1  # of the error, for each quantity beside the claim's own

    # Scores and cuts (scores.py, choice.py)
    folds: int = 3
    cuts: int = 160
    quick_rows: int = 30_000  # on which many scores are compared, before a few are compared on all
    compared_scores: int = 8
    few_fields: int = 5  # whose differences are scores
    separate_fields: int = 60  # that are scores of their own
    learned_fields: int = 40  # that classifiers see
    classifier_rows: int = 200_000
    trees: int = 100
    tree_rate: float = 0.15
    tree_leaves: int = 16

    # Searching a pair (pairs.py)
    trial_rows: int = 2000  # in the first round, at most
    plain_violation: float = 8.0  # standard errors beyond a profile that leave no doubt


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Bounds on memory and time; ``LIMITS`` holds the defaults."""

    least_outputs: int = 100  # per input: with fewer there is no audit

    # The pilot run (pilot.py)
    pilot_outputs: int = 400
    pilot_seconds: float = 2.0  # about what a slow mechanism may take per input
    pilot_share: float = 0.05  # of a time budget, per input
    replay_seconds: float = 0.1  # for each of two runs with one seed

    # Drawing (sampling.py)
    batch: int = 100_000  # outputs per call of a vectorized mechanism
    parallel_seconds: float = 20.0  # expected, from which other cores are used
    most_iterated: int = 1_000_000  # items read of an iterator, which may be endless
    copy_depth: int = 4  # levels of lists and mappings that are copied

    # Encoding (encoding.py)
    most_columns: int = 2000
    most_items: int = 20_000  # elements read of one array; a hash stands for the rest
    compared_outputs: int = 200  # rows that say which fields to keep, where there are too many
    text_rows: int = 2000  # texts per input whose pieces are counted
    text_letters: int = 300  # read of each text
    text_pieces: int = 32  # columns for pieces of texts
    text_z: float = 4.0  # standard errors between the frequencies of an informative piece on the two inputs

    # Searching a pair (pairs.py)
    most_pairs: int = 64
    least_trial_rows: int = 20


LIMITS = Limits()
TUNING = Tuning()
