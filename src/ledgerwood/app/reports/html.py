"""Pieces of a report: one HTML page that loads nothing, reads well at phone width, in dark and by keyboard."""

from __future__ import annotations

import base64
import html
import io
import struct
from collections.abc import Callable, Iterable, Sequence
from typing import Any

_DENSITY = 2  # pixels of a picture for each pixel of the page
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
_STYLE = """
:root { --ink: #1d2421; --soft: #56615b; --paper: #f6f4ee; --card: #fffefb; --line: #d9d6cb; --green: #17624a;
  color-scheme: light dark; }
body { font: 16px/1.55 system-ui, "Segoe UI", Arial, sans-serif; color: var(--ink); background: var(--paper); margin: 0;
  overflow-wrap: anywhere; }
main { max-width: 900px; margin: 0 auto; padding: 1.5rem; }
h1, h2 { font-family: Georgia, serif; line-height: 1.25; } h1 { margin-bottom: .2rem; } h2 { margin-top: 2rem; }
.kind { color: var(--soft); margin: 0 0 1.2rem; }
section, blockquote, dl > div { background: var(--card); border: 1px solid var(--line); border-radius: 12px; }
section { padding: .6rem 1.2rem 1rem; }
blockquote { border-left: 5px solid var(--green); margin: 0; padding: .4rem 1.2rem; }
blockquote p:first-child { font-size: 1.1rem; }
dl { display: grid; grid-template-columns: repeat(auto-fit, minmax(10rem, 1fr)); gap: .8rem; margin: 0; }
dl > div { padding: .6rem 1rem; }
dt { color: var(--soft); font-size: .85rem; } dd { margin: 0; font-size: 1.15rem; font-weight: 600; }
.warn { border: 1px solid #9a3412; border-radius: 12px; padding: .8rem 1.2rem; background: #fdeee4; color: #7c2d12;
  font-weight: 600; }
.scroll { overflow-x: auto; overflow-wrap: normal; } .scroll + .scroll { margin-top: 1.5rem; }
table { border-collapse: collapse; width: 100%; font-size: .92rem; font-variant-numeric: tabular-nums; }
th, td { text-align: left; padding: .35rem .8rem .35rem 0; border-bottom: 1px solid var(--line); vertical-align: top; }
tr:last-child td { border-bottom: 0; }
th.number, td.number { text-align: right; white-space: nowrap; padding-right: 1.6rem; }
.bar { width: 45%; } .bar span { display: block; height: .8rem; margin-top: .35rem; border-radius: 3px;
  background: var(--green); }
pre { background: var(--paper); border: 1px solid var(--line); border-radius: 8px; padding: .7rem; overflow: auto;
  max-height: 28rem; overflow-wrap: normal; font-size: .85rem; }
summary { cursor: pointer; color: var(--green); }
figure { margin: 1rem 0 0; } img { max-width: 100%; height: auto; }
figcaption { color: var(--soft); font-size: .9rem; }
.pair { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(20rem, 100%), 1fr)); gap: 0 1.5rem; }
@media (max-width: 500px) { main { padding: .8rem; } section { padding: .4rem .8rem .8rem; } }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e9ece8; --soft: #a9b5ae; --paper: #12171a; --card: #1a2125; --line: #323c40; --green: #5fc19c; }
  img { filter: invert(.92) hue-rotate(180deg); }
  .warn { background: #3a231a; color: #ffb088; }
}
@media print { body { background: #fff; } section, blockquote { break-inside: avoid-page; } }
"""


def document(name: str, body: Iterable[str]) -> str:
    """Return the whole page."""
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
        f"<title>{text(name)}: privacy report</title><style>{_STYLE}</style></head>"
        f'<body><main><h1>{text(name)}</h1><p class="kind">Privacy report</p>{"".join(body)}</main></body></html>\n'
    )


def text(value: Any) -> str:
    """Return a value as text that cannot be taken for markup."""
    return html.escape(str(value))


def paragraph(words: Any) -> str:
    """Return a paragraph."""
    return f"<p>{text(words)}</p>"


def section(title: str, body: str) -> str:
    """Return a part of the page with its heading."""
    return f"<h2>{text(title)}</h2><section>{body}</section>"


def statement(paragraphs: Iterable[str]) -> str:
    """Return the sentences that may be published."""
    return f"<h2>What may be published</h2><blockquote>{''.join(map(paragraph, paragraphs))}</blockquote>"


def key_values(named: Iterable[tuple[str, str]]) -> str:
    """Return the few numbers to see first."""
    return f"<dl>{''.join(f'<div><dt>{text(name)}</dt><dd>{text(value)}</dd></div>' for name, value in named)}</dl>"


def table(label: str, columns: Sequence[str], rows: Iterable[Sequence[Any]], *, numbers: Sequence[str] = ()) -> str:
    """Return a table that scrolls by itself where it is too wide; the columns in ``numbers`` are set to the right."""
    align = [' class="number"' if column in numbers else "" for column in columns]
    head = "".join(f'<th scope="col"{side}>{text(column)}</th>' for column, side in zip(columns, align, strict=True))
    lines = ("".join(f"<td{side}>{text(cell)}</td>" for cell, side in zip(row, align, strict=True)) for row in rows)
    return _framed(label, head, lines)


def bars(label: str, columns: tuple[str, str], rows: Sequence[tuple[str, float]]) -> str:
    """Return named parts of a whole as a table with bars."""
    head = f'<th scope="col">{text(columns[0])}</th><th scope="col" class="number">{text(columns[1])}</th>'
    longest = max((value for _, value in rows), default=0.0) or 1.0
    lines = (
        f'<td>{text(name)}</td><td class="number">{value:.3f}</td>'
        f'<td class="bar" aria-hidden="true"><span style="width: {100 * value / longest:.1f}%"></span></td>'
        for name, value in rows
    )
    return _framed(label, f'{head}<td class="bar" aria-hidden="true"></td>', lines)


def pre(label: str, words: Any) -> str:
    """Return text as it is; what may scroll is reached by keyboard and has a name."""
    return f'<pre tabindex="0" role="region" aria-label="{text(label)}">{text(words)}</pre>'


def folded(label: str, words: Any) -> str:
    """Return text that opens when asked for."""
    return f"<details><summary>{text(label)}</summary>{pre(label, words)}</details>"


def figure(draw: Callable[[], Any], caption: str, says: str = "") -> str:
    """Return a picture with its caption; ``says`` describes it for somebody who cannot see it."""
    drawn = draw()
    stream = io.BytesIO()
    whole = getattr(drawn, "figure", None) or drawn
    whole.savefig(stream, format="png", dpi=96 * _DENSITY, bbox_inches="tight", transparent=True)
    picture = stream.getvalue()
    width, height = (side // _DENSITY for side in struct.unpack(">II", picture[16:24]))
    encoded = base64.b64encode(picture).decode()
    image = (
        f'<img alt="{text(says or caption)}" width="{width}" height="{height}" src="data:image/png;base64,{encoded}">'
    )
    return f"<figure>{image}<figcaption>{text(caption)}</figcaption></figure>"


def side_by_side(*figures: str) -> str:
    """Return pictures beside each other where there is room."""
    return f'<div class="pair">{"".join(figures)}</div>'


def _framed(label: str, head: str, lines: Iterable[str]) -> str:
    body = "".join(f"<tr>{line}</tr>" for line in lines)
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{text(label)}">'
        f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )
