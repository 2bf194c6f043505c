r"""Exact samplers: random bits in, the stated distribution out, with no floating-point inverse-CDF anywhere.

**The principle.** Let U be uniform on [0, 1), its binary digits being the random bits, and let F be the distribution
function on the integers. The output is the k with F(k-1) <= U < F(k): inversion, exact by definition. No finite
number of bits of U and no rounded F is ever *trusted*: a comparison is made with an enclosure of both sides, and if
the enclosures overlap the comparison is *undecided*: more bits of U are drawn and F is enclosed more closely, with
integers (:mod:`.arithmetic`), until it is decided. As the boundaries have no preferred digits this ends with
probability one, after the first word or two in all but about one of 10^9 cases.

**Two programs, one distribution.** :mod:`.exact` is the sampler in plain Python integers, word by word.
:mod:`._kernels` is a numba kernel that reads the same words and either returns the same answer or gives up
("undecided"), and then the plain program is run on *the same words*. So the answer is always the plain program's, and
the kernel is only an accelerator. When a block of words ends in the middle of a draw the words of that draw are kept
and read again in front of the next block: starting it afresh with new words would favor short draws.

**Four building blocks.**

* ``direct``: inversion in a table of F for a distribution on integers (discrete Laplace, discrete Gaussian, Poisson).
* ``refined``: a coarse index i by inversion, a uniform u in [0, 1) beside it, accepted with probability exp(-x(i,
  u)); i + u is then a standard exponential or half-normal variable in units of 1/256, with as many digits of u as
  anyone asks for (:class:`LazyReals`), or, if u is a multiple of 2^-m, a discrete variable on a fine grid.
* ``coins``: Bernoulli(exp(-x)) for many rational x.
* ``choice``: one of many candidates with probability proportional to exp(-x).
"""
