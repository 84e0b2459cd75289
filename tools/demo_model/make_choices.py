"""Writes multiple-choice questions that the demo model can answer:  python make_choices.py SEED
COUNT > choices.jsonl

One JSON object a line: {"prompt", "choices", "answer"}. A prompt is a document of two modules, a
question about a fact, and the answer up
to the value; the choices are the value and three others of the same attribute. Names and values
differ from seed to seed.
"""
import argparse
import json
import random

import data

MODULES, CHOICES = 2, 4


def first_word(value):
    return value.split()[0]


def question(r):
    """-> (prompt, choices, index of the right one), or None where there are too few values"""
    system, mods, _ = data.make_document(r,
                                         MODULES,
                                         0,
                                         split="test",
                                         p_param=0,
                                         facts=(2, 3),
                                         p_trip=0)
    m = r.choice(mods)
    word = r.choice(list(m.facts))
    attr, value, _ = m.facts[word]
    values = [value]
    for _ in range(100):
        other = str(attr.make(data.Names(r, "test")))
        if len(values) < CHOICES and first_word(other) not in map(first_word, values):
            values.append(other)
    if len(values) < CHOICES:
        return None
    r.shuffle(values)
    asked = data.lookup(r, m, word).text
    before, _ = data.statement(m.kind, m.ent, attr)
    text = "<s><|system|>" + system + "<|end|>" + " ".join(o.text() for o in mods)
    return text + "<|user|>" + asked + "<|end|><|assistant|>" + before, [" " + v for v in values
                                                                         ], values.index(value)


def main(seed, count):
    r = random.Random(seed)
    while count:
        q = question(r)
        if q:
            print(json.dumps(dict(prompt=q[0], choices=q[1], answer=q[2])))
            count -= 1


if __name__ == "__main__":
    p = argparse.ArgumentParser(description=__doc__,
                                formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("seed", type=int)
    p.add_argument("count", type=int, help="questions")
    a = p.parse_args()
    main(a.seed, a.count)
