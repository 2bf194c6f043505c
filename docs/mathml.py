"""Formulas as MathML, made when the pages are built: no script from elsewhere is needed to read them."""

from __future__ import annotations

import re
from typing import Any

from docutils import nodes
from docutils.utils.math import latex2mathml

#: what docutils does not know, in words that it does
SPELLED = ((r"\\dots\b", r"\\ldots"), (r"\\([bB]ig)(?![a-z])", r"\\\1l"), (r"\\tag\{(.*?)\}", r"\\qquad (\1)"))


def mathml(formula: str, *, block: bool) -> str:
    """Return a formula as MathML; an unknown command is an error."""
    for pattern, known in SPELLED:
        formula = re.sub(pattern, known, formula)
    return str(latex2mathml.tex2mathml(formula, as_block=block))


def inline(writer: Any, node: nodes.math) -> None:
    """Write a formula within a line."""
    writer.body.append(mathml(node.astext(), block=False))
    raise nodes.SkipNode


def displayed(writer: Any, node: nodes.math_block) -> None:
    """Write a formula on lines of its own."""
    writer.body.append(f'<div class="formula">{mathml(node.astext(), block=True)}</div>')
    raise nodes.SkipNode


def trimmed(app: Any, doctree: nodes.document) -> None:
    """Examples end with an empty line for the tests' sake; readers need none."""
    for block in doctree.findall(nodes.literal_block):
        text = block.astext().rstrip()
        block.rawsource, block.children = text, [nodes.Text(text)]


def setup(app: Any) -> dict[str, bool]:
    """Called by Sphinx."""
    app.add_html_math_renderer("mathml", (inline, None), (displayed, None))
    app.connect("doctree-read", trimmed)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
