#!/usr/bin/env python3
"""Draws lib/map.svg from lib/README.md: the folders of its first table, each above those that it
may use, and the numbered steps of "One request" on the folders where they happen.

    python3 tools/draw_map.py            writes lib/map.svg
    python3 tools/draw_map.py --check    exit code 1 if lib/map.svg is another one
"""
import os
import re
import sys
from html import escape

LIB = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib")
WIDTH, BOX, HEIGHT, GAP, TOP = 960, 216, 92, 44, 60

STYLE = """<style>
text { font: 12px "DejaVu Sans", Helvetica, Arial, sans-serif; fill: #222 }
.head { font-size: 15px; font-weight: bold } \
.name { font-size: 14px; font-weight: bold; fill: #1f4f8f }
.note { font-size: 11px; fill: #444 } .box { fill: #eef3fb; stroke: #4a78b8 }
.use { stroke: #9db4d3; fill: none } .way { stroke: #c9662b; stroke-width: 2; fill: none }
.step { fill: #c9662b } .number { fill: #fff; font-weight: bold; text-anchor: middle }
</style>"""


def read_map():
    text = open(os.path.join(LIB, "README.md"), encoding="utf-8").read()
    rows = re.findall(r"^\| `(\w+)/` \| (.*?) \| (.*?) \|$", text, re.M)
    folders = {name: (holds, re.findall(r"\w+", uses)) for name, holds, uses in rows}
    for name, (holds, uses) in folders.items():
        used = ([f for f in folders if f != name] if uses == ["all"]
                else [u for u in uses if u in folders])
        folders[name] = (re.sub(r"`", "", holds), used)
    request = re.search(r"^## One request.*?\n(.*?)^## ", text, re.M | re.S).group(1)
    steps = []
    for number, item in re.findall(r"^(\d+)\. (.*?)(?=^\d+\. |\Z)", request, re.M | re.S):
        named = [f for f in re.findall(r"`(\w+)/", item) if f in folders]
        steps.append((int(number), named[0] if named else steps[-1][1] if steps else None))
    return folders, [(number, folder) for number, folder in steps if folder]


def levels(folders):
    """0: uses no other folder; else one above the highest that it uses."""
    found = {}

    def level(name):
        if name not in found:
            found[name] = 1 + max([level(used) for used in folders[name][1]], default=-1)
        return found[name]
    for name in folders:
        level(name)
    return found


def wrap(text, width, most):
    lines, line = [], ""
    for word in text.split():
        if len(line) + 1 + len(word) > width:
            lines.append(line)
            line = ""
        line = (line + " " + word).strip()
    lines.append(line)
    return lines[:most - 1] + [lines[most - 1].rstrip(",;:") + " …"] if len(lines) > most else lines


def places(folders):
    level = levels(folders)
    rows = [[f for f in folders if level[f] == n] for n in range(max(level.values()), -1, -1)]
    at = {}
    for y, row in enumerate(rows):
        left = (WIDTH - len(row) * BOX - (len(row) - 1) * GAP) / 2
        for x, name in enumerate(row):
            at[name] = (left + x * (BOX + GAP), TOP + y * (HEIGHT + GAP))
    return at, TOP + len(rows) * (HEIGHT + GAP)


def direct(folders, name):
    """Those that no other used folder reaches."""
    used = folders[name][1]
    below = {deep for u in used for deep in folders[u][1]}
    return [u for u in used if u not in below]


def draw(folders, steps):
    at, height = places(folders)
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" '
           f'viewBox="0 0 {WIDTH} {height}">',
           STYLE, '<rect width="100%" height="100%" fill="#fff"/>',
           '<text x="20" y="26" class="head">lib/: a folder uses those that it stands above; '
           'numbers: one request, from pc_generate to the kernel</text>']
    for name in folders:
        x, y = at[name]
        for used in direct(folders, name):
            to_x, to_y = at[used]
            out.append(f'<path class="use" d="M{x + BOX / 2:.0f} {y + HEIGHT} '
                       f'L{to_x + BOX / 2:.0f} {to_y}"/>')
    for name, (holds, _) in folders.items():
        x, y = at[name]
        out.append(f'<rect x="{x:.0f}" y="{y}" width="{BOX}" height="{HEIGHT}" rx="5" '
                   'class="box"/>')
        out.append(f'<text x="{x + 10:.0f}" y="{y + 20}" class="name">{name}/</text>')
        out += [f'<text x="{x + 10:.0f}" y="{y + 38 + 14 * n}" class="note">{escape(line)}</text>'
                for n, line in enumerate(wrap(holds, 34, 4))]
    here = {folder: [number for number, where in steps if where == folder] for folder in folders}
    for number, folder in steps:
        x, y = at[folder]
        shift = len(here[folder]) - 1 - here[folder].index(number)
        cx, cy = x + BOX - 16 - 24 * shift, y + 15
        out.append(f'<circle cx="{cx:.0f}" cy="{cy}" r="10" class="step"/>'
                   f'<text x="{cx:.0f}" y="{cy + 4}" class="number">{number}</text>')
    return "\n".join(out + ["</svg>"]) + "\n"


def main():
    path = os.path.join(LIB, "map.svg")
    picture = draw(*read_map())
    if sys.argv[1:] == ["--check"]:
        if not os.path.exists(path) or open(path, encoding="utf-8").read() != picture:
            print("lib/map.svg is not what tools/draw_map.py makes of lib/README.md: run it")
            return 1
        return 0
    if sys.argv[1:]:
        print(__doc__)
        return 2
    with open(path, "w", encoding="utf-8") as file:
        file.write(picture)
    return 0


if __name__ == "__main__":
    sys.exit(main())
