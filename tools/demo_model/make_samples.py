"""Writes notes and questions about them for many samples of each question.

    python make_samples.py ../../examples/samples

demo-notes.txt: the notes that all questions share. demo-votes.jsonl: questions whose answer ends
with a number. demo-candidates.jsonl: questions whose answer names what has a value.
"""
import json
import os
import random
import sys

import data

SEED, MODULES, LOOKUPS, TWO_HOPS, CANDIDATES = 5, 16, 16, 8, 16


def numbers_of(text):
    return [word for word in text.replace(".", " ").split() if word.isdigit()]


def two_hops(r, mods):
    for m in mods:
        for word in data.LINKS:
            for _ in range(8 if word in m.facts else 0):
                yield data.two_hop(r, mods, m, word)


def unique(questions, with_number=False):
    """The questions without repeats, and only those whose answer has a number."""
    seen = {}
    for q in questions:
        if q and (not with_number or numbers_of(q.expect())):
            seen.setdefault(q.text, q)
    return list(seen.values())


def votes_of(dataset, questions):
    return [{"question": q.text, "answer": f"{q.expect()} #### {numbers_of(q.expect())[-1]}",
             "dataset": dataset} for q in questions]


def write(path, rows):
    with open(path, "w", encoding="utf-8", newline="\n") as f:
        for row in rows:
            f.write(json.dumps(row) + "\n")


def main(folder, seed):
    r = random.Random(seed)
    while True:
        _, mods, _ = data.make_document(r, MODULES, 0, split="test", p_param=0, facts=(3, 4),
                                        p_trip=0, kinds=["city", "person", "train", "product",
                                                         "recipe"])
        facts = [(m, word) for m in mods for word in m.facts]
        lookups = unique([data.lookup(r, *fact) for fact in facts], True)
        hops = unique(two_hops(r, mods), True)
        candidates = unique([data.reverse(r, mods, *fact) for fact in facts])
        if (len(lookups) >= LOOKUPS and len(hops) >= TWO_HOPS
                and len(candidates) >= CANDIDATES):
            break
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "demo-notes.txt"), "w", encoding="utf-8", newline="\n") as f:
        f.write("\n\n".join(m.text().replace(". ", ".\n") for m in mods) + "\n")
    write(os.path.join(folder, "demo-votes.jsonl"),
          votes_of("demo_number", r.sample(lookups, LOOKUPS))
          + votes_of("demo_two_hop", r.sample(hops, TWO_HOPS)))
    write(os.path.join(folder, "demo-candidates.jsonl"),
          [{"prompt": q.text, "tests": [{"output": q.expect()}], "dataset": "demo_reverse"}
           for q in r.sample(candidates, CANDIDATES)])


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else SEED)
