"""What several tests share: oracles, judges and small mechanisms.

Tests import it one way, ``from tests.kit.module import name``.

- ``sampler_distribution``: the exact output distribution of a sampler's code, by feeding it every bit string.
- ``digit_trees``: the same for code that compares lazily known reals, by going through their digits.
- ``goodness_of_fit``: judges for samplers, exact ones and a chi-square test with a stated false-alarm rate.
- ``reference_tree``: a private tree learner with rational probabilities, small enough to be enumerated.
- ``tree_definitions``: what the kernels of tree learning compute, by its definition.
- ``linear_parts``, ``parts``: linear sums over several parts of a table, and a part that a function makes.
- ``toy_learners``: a private classifier and regressor with one release, for tests of the base classes.
- ``samplers``: mechanisms on a grid for tests of the auditor.

mypy checks this package as strictly as the library.
"""
