"""Writes questions of demo-eval.jsonl in LongBench's form: the notes of a question are the
paragraphs of its context.

    python make_longbench.py ../../examples/pml/demo-eval.jsonl ../../examples/longbench/demo.jsonl
"""
import json
import re
import sys
import xml.etree.ElementTree as ET

# Kind of question -> (data set, most rows by number of notes).
SETS = {
    "lookup": ("demo_lookup", {2: 8, 8: 16, 16: 24}),
    "two-hop": ("demo_two_hop", {2: 4, 8: 8}),
    "yes/no": ("demo_yes_no", {2: 4, 8: 8, 16: 4}),
}


def text_of(module, arguments):
    """The text of a module with the arguments of a prompt."""
    parts = [module.text or ""]
    for child in module:
        parts += [arguments.get(child.get("name"), ""), child.tail or ""]
    return "".join(parts).strip()


def rows_of(lines):
    schemas, left = {}, {kind: dict(most) for kind, (_, most) in SETS.items()}
    for line in map(json.loads, lines):
        if "prompt" not in line:
            schemas[line["id"]] = ET.fromstring(line["schema"])
            continue
        kind, notes = line["kind"], line["modules"]
        if left.get(kind, {}).get(notes, 0) < 1:
            continue
        prompt = ET.fromstring(line["prompt"])
        modules = {m.get("name"): m for m in schemas[line["schema_id"]].iter("module")}
        texts = [text_of(modules[use.tag], use.attrib) for use in prompt if use.tag != "user"]
        left[kind][notes] -= 1
        yield kind, texts, prompt.find("user").text, line["expect"]


def main(source, target):
    with open(source, encoding="utf-8") as f:
        rows = list(rows_of(f))
    with open(target, "w", encoding="utf-8", newline="\n") as f:
        for number, (kind, texts, question, expect) in enumerate(rows):
            dataset, classes = SETS[kind][0], None
            answer = expect
            if kind == "yes/no":
                classes, answer = ["Yes.", "No."], re.search(r"(Yes|No)\.$", expect)[0]
            elif dataset == "demo_lookup" and re.search(r"\b\d+\b", expect):
                dataset, answer = "demo_number", re.search(r"\b\d+\b", expect)[0]
            context = "\n\n".join(texts)
            f.write(json.dumps({"input": question, "context": context, "answers": [answer],
                                "length": len(context.split()), "dataset": dataset,
                                "language": "en", "all_classes": classes,
                                "_id": f"demo-{number}"}) + "\n")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
