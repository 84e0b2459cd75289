"""Catches: a picture of `promptcache show --svg` that is not XML; boxes beyond the picture or their
frame; boxes that overlap; labels that leave their box; members of a union that do not stand side
by side; missing modules.

    python3 test_layout_svg.py SOURCE_FOLDER PROGRAM
"""
import json
import os
import subprocess
import sys
import tempfile
import unicodedata
import xml.etree.ElementTree as tree

SVG = "{http://www.w3.org/2000/svg}"
CELL = 6.62  # width of a character: 0.602 em of DejaVu Sans Mono at 11 px
STRANGE = """<schema name="strange">é日本語のテキスト日本語のテキスト😀
averyveryveryverylongwordwithoutanyblanks{long}
<module name="fresh" cache="false">&lt;b&gt; &amp; "q"<module name="inner">in<parameter name="{p}"
length="1"/></module></module>
<module name="empty"/><union>{members}</union></schema>"""


def width(text):
    return CELL * sum(2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)


def inside(a, b):
    return (a["x"] >= b["x"] and a["y"] >= b["y"] and a["x"] + a["width"] <= b["x"] + b["width"]
            and a["y"] + a["height"] <= b["y"] + b["height"])


def apart(a, b):
    return (a["x"] + a["width"] <= b["x"] or b["x"] + b["width"] <= a["x"]
            or a["y"] + a["height"] <= b["y"] or b["y"] + b["height"] <= a["y"])


def boxes_of(root):
    """The rectangles of the layout with what is written into each."""
    boxes = []
    for e in root:
        if e.tag == SVG + "rect" and e.find(SVG + "title") is not None:
            box = {k: float(e.get(k)) for k in ("x", "y", "width", "height")}
            boxes.append({
                **box, "kind": e.get("class").split()[0], "title": e.find(SVG + "title").text,
                "texts": []
            })
        elif e.tag == SVG + "text" and boxes:
            boxes[-1]["texts"].append(e)
    return boxes


def faults_of(svg, items):
    root = tree.parse(svg).getroot()
    canvas = {
        "x": 0, "y": 0, "width": float(root.get("width")), "height": float(root.get("height"))
    }
    boxes = boxes_of(root)
    if len(boxes) != len(items):
        yield f"{len(boxes)} boxes for {len(items)} items"
    for i, box in enumerate(boxes):
        if not inside(box, canvas):
            yield f"{box['title']}: outside of the picture"
        for text in box["texts"]:
            left, right = box["x"], box["x"] + box["width"]
            if text.get("class") == "range":
                left += width(box["texts"][0].text or "")
                start, end = float(text.get("x")) - width(text.text or ""), float(text.get("x"))
            else:
                start, end = float(text.get("x")), float(text.get("x")) + width(text.text or "")
            if start < left or end > right:
                yield (f"{box['title'][:60]}: '{text.text}' "
                       f"runs from {start} to {end} of {left} to {right}")
        for other in boxes[i + 1:]:
            if not apart(box, other) and not inside(other, box):
                yield f"{box['title'][:60]} and {other['title'][:60]} overlap"
        if box["kind"] == "union":
            within = [b for b in boxes[i + 1:] if b["kind"] == "module" and inside(b, box)]
            members = [b for b in within if not any(inside(b, c) and b is not c for c in within)]
            if len({b["y"] for b in members}) > 1:
                yield f"{box['title']}: its members do not stand side by side"


def main(source, program):
    model = os.path.join(source, "models/demo/demo.gguf")
    examples = os.path.join(source, "examples/pml")
    published = os.path.join(os.environ.get("PC_TEST_DATA", os.path.join(source, "../shared")),
                             "data/promptcache-pml")
    schemas = [
        os.path.join(examples, f) for f in ("city-guide.pml", "employees.pml", "catalogue.pml")
    ]
    schemas += [
        os.path.join(published, f) for f in ("parameterized_prompts.xml", "schema_mbti_short.xml")
        if os.path.isdir(published)
    ]
    with tempfile.TemporaryDirectory() as folder:
        for members in (1, 9):
            path = os.path.join(folder, f"strange{members}.pml")
            with open(path, "w", encoding="utf-8") as f:
                f.write(
                    STRANGE.format(
                        long="x" * 200,
                        p="p" * 60,
                        members="".join(
                            f'<module name="{"m" * 40}{i}">some words {"日" * i}</module>'
                            for i in range(members))))
            schemas.append(path)
        bad = 0
        for schema in schemas:
            svg = os.path.join(folder, "out.svg")
            run = subprocess.run(
                [program, "show", schema, "--model", model, "--svg", svg, "--json"],
                capture_output=True,
                text=True,
                check=False)
            if run.returncode == 3 and "the model has" in run.stderr:
                continue  # longer than the demo model's context
            if run.returncode:
                faults = [run.stderr]
            else:
                faults = list(faults_of(svg, json.loads(run.stdout)["items"]))
            for fault in faults:
                print(f"{schema}: {fault}")
            bad += len(faults)
    print(f"{len(schemas)} pictures, {bad} faults")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2]))
