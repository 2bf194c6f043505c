"""The tuning constants of the auditor: they decide how much is found, never whether a certificate holds.

Values that compare scores and events were tuned together on the zoo: the median certified epsilon of each entry at two
million outputs (``benchmarks/auditor.py``), on seeds other than those of the published table. They were not measured
one by one. Groups with another reason say so. Constants that a proof relies on stay beside the proof, in
``certificate``.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["TUNING", "Tuning"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tuning:
    """All constants of one auditor; ``TUNING`` holds the defaults. "Rows" are outputs per input."""

    # How the outputs are divided (audit.py)
    selection_share: float = 0.15  # chooses the first event
    first_block_share: float = 0.25  # counts that event, and then helps to choose a better one for the rest
    selection_share_of_few: float = 0.1  # the same where the mechanism has few outputs: no score has to be learned
    first_block_share_of_few: float = 0.2
    profile_selection_share: float = 0.45  # chooses the only event of a profile, which has one block
    strong_epsilon: float = 2.0  # an estimated bound from which a leak is strong
    look_share: float = 0.25  # of the error, for a look at the first block that may end the audit
    lattice_share: float = 0.1  # of the error, for floating-point patterns: all or nothing, so this costs them 0.4
    most_events: int = 3  # on values that share the error: a lucky choice costs more than a smaller share
    least_outputs: int = 100  # per input: with fewer there is no audit

    # The pilot run (pilot.py): chosen to be short, not measured
    pilot_outputs: int = 400
    pilot_seconds: float = 2.0  # about what a slow mechanism may take per input
    pilot_share: float = 0.05  # of a time budget, per input
    replay_seconds: float = 0.1  # for each of two runs with one seed

    # Drawing (sampling.py): chosen by CPU time
    batch: int = 100_000  # outputs per call of a vectorized mechanism
    parallel_seconds: float = 20.0  # expected, from which other cores are used
    most_iterated: int = 1_000_000  # items read of an iterator, which may be endless
    copy_depth: int = 4  # levels of lists and mappings that are copied

    # Encoding (encoding.py): limits of memory, not measured
    most_columns: int = 2000
    most_items: int = 20_000  # elements read of one array; a hash stands for the rest
    compared_outputs: int = 200  # rows that say which fields to keep, where there are too many
    text_rows: int = 2000  # texts per input whose pieces are counted
    text_letters: int = 300  # read of each text
    text_pieces: int = 32  # columns for pieces of texts
    text_z: float = 4.0  # standard errors between the frequencies of an informative piece on the two inputs

    # Learning scores (scores.py)
    classifier_rows: int = 150_000  # that a classifier is learned from again
    tree_rows: int = 600_000  # and a tree
    tree_leaves: int = 128
    leaf_rows: int = 100  # of a leaf, at least this many
    leaf_share: int = 400  # and at least one row in this many
    repeated_value: int = 5  # times that one value is seen, for frequencies to be counted where others hardly repeat

    # Smoothing counts along a score (smoothing.py)
    unsmoothed_cells: int = 8  # this many or fewer are left alone
    smoothing_groups: int = 200  # that cells are merged into
    even_groups: float = 30.0  # the larger, the more of them lie in the middle
    roughness: tuple[float, ...] = (3e5, 1e4, 300.0, 10.0, 0.3)  # values of lambda, smoothest first
    newton_steps: int = 8  # each value of lambda starts from the fit before it
    freedom_price: float = 6.0  # of a degree of freedom, in log-likelihood (Akaike's is 1): a lucky tail gains a few
    ramp_knots: int = 16  # places where a ramp may begin or end, before they are refined

    # Comparing scores and events (choice.py, events.py)
    quick_rows: int = 20_000  # for the first comparison of scores
    weak_bound: float = 0.1  # an estimated bound below which that comparison takes more rows
    learning_rows: int = 60_000  # that scores of many fields are learned from before they are compared
    few_fields: int = 6  # up to which all rows teach
    compared_scores: int = 6  # compared again on all rows
    separating_rows: int = 4_000  # that say which fields differ most
    few_values: int = 40  # of a field that is not cut into bins, or of an output whose values are all counted
    hardly_repeating: float = 0.2  # share of different values, from which frequencies say little
    most_thresholds: int = 500
    unsmoothed_ratios: int = 50  # values of a learned ratio: each stands for itself, the worst event may be one alone
    margin: float = 2.33  # standard errors between an estimate and its bound at 99 %
    extra_margins: tuple[float, ...] = (0.0, 1.4, 4.0)  # bold thresholds for rare events, careful ones for frequent
    luck: float = 0.7  # standard errors taken off for the luckiest of the rules compared
    learned_luck: float = 1.0  # and more for a learned score: it has to beat the plain ones clearly
    unsure: float = 10.0  # standard errors of an estimate below which counts are smoothed before rules are compared
    nearly: float = 0.2  # standard errors by which a surer rule may be estimated below the best one
    nearly_alike: float = 3.0  # the same where rules are expected to be about as good
    few_outputs_margin: float = 1.0  # where a rule is learned, cut and compared on the same rows
    few_outputs_shrinkage: float = 4.0  # standard errors by which log-ratios are drawn to 0 there
    compared_events: int = 12  # among which different ones are sought
    as_good: float = 0.5  # standard errors by which an event may be below the best one and still be certified
    same_event: float = 0.7  # correlation from which two events count as the same

    # Floating-point attacks (float_attacks.py, selection.py): chosen by CPU time
    lattice_rows: int = 90_000  # on which such events are compared
    lattice_guesses: int = 100  # locations and scales tried
    lattice_searched: int = 400  # fields whose noise is sought among all of them
    lattice_found: int = 500  # fields explained

    # Searching a pair (pairs.py): chosen on the zoo's schemas
    most_pairs: int = 64
    trial_rows: int = 2000  # in the first round, at most
    least_trial_rows: int = 20
    plain_violation: float = 8.0  # standard errors beyond a profile that leave no doubt
    trial_confidence: float = 0.9999  # of a trial that leaves none
    trial_limit: float = 2.4  # a trial certifies at most ln(rows) - 2.2 at that confidence


TUNING = Tuning()
