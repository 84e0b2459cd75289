"""Pictures for notebooks: the layout of a schema, where the tokens of a prompt and of an answer
come from. Plain SVG and HTML, readable on light and dark pages."""
from __future__ import annotations

import html
import re
from typing import TYPE_CHECKING, Any, Iterable, List, NamedTuple, Tuple

from . import _api

if TYPE_CHECKING:
    from ._generate import Answer
    from ._prompt import Prompt
    from ._schema import Schema

WIDTH = 900.0
ROW = 26
COLOURS = {
    "module": "#4e79a7", "text": "#b8c4d0", "parameter": "#f2a541", "slot": "#f2a541",
    "cached": "#4e79a7", "argument": "#f2a541", "uncached": "#b07aa1", "new": "#59a14f",
    "encoded": "#8cb5dc", "repaired": "#b07aa1", "memo": "#76b7b2",
}


# What no document of XML may have, even escaped.
_NO_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def escape(text: str) -> str:
    """Text for SVG and HTML."""
    return html.escape(_NO_XML.sub("\ufffd", text))


class Box(NamedTuple):
    """A run of positions."""

    start: int
    length: int
    label: str
    colour: str
    title: str
    depth: int = 0


def _rows(boxes: Iterable[Box]) -> List[List[Box]]:
    """Boxes in rows without overlaps: deeper ones below, members of a union below each other."""
    rows: List[List[Box]] = []
    for box in boxes:
        at = box.depth
        while True:
            while len(rows) <= at:
                rows.append([])
            if not any(box.start < other.start + other.length and other.start < box.start
                       + box.length for other in rows[at]):
                rows[at].append(box)
                break
            at += 1
    return rows


def _svg(boxes: Iterable[Box], length: int, legend: Iterable[Tuple[str, str]]) -> str:
    rows = _rows(boxes)
    scale = WIDTH / max(1, length)
    height = ROW * len(rows) + 40
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH:.0f} {height}" '
           f'width="100%" style="max-width:{WIDTH:.0f}px" font-family="sans-serif" '
           f'font-size="11">']
    for index, row in enumerate(rows):
        y = index * ROW + 2
        for box in row:
            x, width = box.start * scale, max(1.0, box.length * scale - 1)
            out.append(f'<rect x="{x:.1f}" y="{y}" width="{width:.1f}" height="{ROW - 6}" rx="2" '
                       f'fill="{box.colour}"><title>{escape(box.title)}</title></rect>')
            room = int(width / 6.5)
            if room >= 2 and box.label:
                label = box.label if len(box.label) <= room else box.label[:room - 1] + "…"
                out.append(f'<text x="{x + 3:.1f}" y="{y + 14}" fill="#fff" pointer-events="none">'
                           f'{escape(label)}</text>')
    y = len(rows) * ROW + 12
    out.append(f'<text x="0" y="{y}" fill="#888">0</text><text x="{WIDTH:.0f}" y="{y}" fill="#888" '
               f'text-anchor="end">{length}</text>')
    x = 0.0
    for name, colour in legend:
        out.append(f'<rect x="{x:.0f}" y="{y + 8}" width="10" height="10" rx="2" fill="{colour}"/>'
                   f'<text x="{x + 14:.0f}" y="{y + 17}" fill="#888">{escape(name)}</text>')
        x += 26 + 7 * len(name)
    return "".join(out) + "</svg>"


def layout_svg(schema: Schema) -> str:
    """The layout of a schema: modules at their positions."""
    boxes = []
    for item in schema.items:
        kind = str(item.kind)
        if item.kind is _api.ItemKind.UNION:
            continue
        label = item.path.rsplit("/", 1)[-1]
        if item.kind is _api.ItemKind.TEXT:
            label = ""
            if item.depth:
                continue  # it fills its module
        title = f"{kind} {item.path}: positions {item.start} to {item.start + item.length}"
        if item.text:
            title += f"\n{item.text[:200]}"
        boxes.append(Box(item.start, item.length, label, COLOURS.get(kind, "#888"), title,
                         item.depth))
    return _svg(boxes, schema.length, [(name, COLOURS[name])
                                       for name in ("module", "text", "parameter", "slot")])


def prompt_svg(prompt: Prompt) -> str:
    """Where the tokens of a prompt come from, at their positions."""
    boxes, end = [], 0
    for part in prompt.parts:
        kind = str(part.kind)
        text = prompt.model.detokenize(part.tokens, special=True)
        count = len(part.tokens)
        title = f"{kind} {part.path}: {count} tokens from position {part.start}\n{text[:200]}"
        boxes.append(Box(part.start, count, part.path.rsplit("/", 1)[-1],
                         COLOURS["new" if kind == "text" else kind], title))
        end = max(end, part.start + count)
    return _svg(boxes, end, [("from the cache", COLOURS["cached"]),
                             ("argument", COLOURS["argument"]), ("new text", COLOURS["new"]),
                             ("computed each time", COLOURS["uncached"])])


def _bar(parts: Iterable[Tuple[str, int]]) -> str:
    boxes, at = [], 0
    listed = [(name, count) for name, count in parts if count]
    for name, count in listed:
        boxes.append(Box(at, count, f"{name} {count}", COLOURS[name], f"{name}: {count} tokens"))
        at += count
    return _svg(boxes, at, [(name, COLOURS[name]) for name, _ in listed])


def answer_html(answer: Answer) -> str:
    """An answer with where its prompt's tokens came from."""
    stats: Any = answer.stats
    bar = _bar((name, getattr(stats, "tokens_" + name))
               for name in ("cached", "encoded", "repaired", "new", "memo"))
    facts = (f"{stats.tokens_prompt} tokens of the prompt, {stats.tokens_generated} of the answer; "
             f"first token after {stats.seconds_ttft * 1e3:.1f} ms; {stats.exactness}, "
             f"ended by {stats.finish}")
    texts = "".join(f"<p style='white-space:pre-wrap'>{escape(text)}</p>" for text in answer.texts)
    return f"{texts}{bar}<p style='color:#888'>{escape(facts)}</p>"
