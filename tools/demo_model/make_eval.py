"""Writes the held-out questions for the engine as PML:  python make_eval.py
../../examples/pml/demo-eval.jsonl

One JSON object a line: {"id", "schema"} defines a schema, {"schema_id", "prompt", "expect", "kind",
"modules"} asks about it.  Entity names come from the held-out tenth that training never sees.
"""
import argparse
import json
import random
import re
from collections import Counter
from xml.sax.saxutils import escape, quoteattr

import data

# modules a prompt imports -> (schemas, look-ups of a schema, other questions of a schema, modules
# not imported)
PLAN = {2: (24, 5, 2, 2), 8: (24, 7, 4, 3), 16: (42, 13, 5, 4)}


def tag_of(m, taken):
    """A module's name: its entity in lower case."""
    name = re.sub(r"[^a-z0-9]+", "-", m.ent.lower()).strip("-")
    while name in taken:
        name += "-2"
    taken.add(name)
    return name


def module_xml(m, tag):
    words = [w for w, (_, _, is_param) in m.facts.items() if is_param]
    out, i = [], 0
    for p in m.pieces:
        if isinstance(p, str):
            out.append(escape(p))
        else:
            out.append(f'<parameter name="{words[i]}" length="{4 + p.spare}"/>')
            i += 1
    return f'<module name="{tag}">{"".join(out)}</module>'


def schema_xml(r, name, system, mods, tags):
    """Modules in order; now and then neighbours of one kind form a union of which prompts take one
    member."""
    lines, unions, i = [], [], 0
    while i < len(mods):
        pair = mods[i:i + 2]
        if r.random() < 0.15 and len(pair) == 2 and pair[0].kind == pair[1].kind != "trip":
            lines.append("  <union>" + "".join(module_xml(m, tags[id(m)])
                                               for m in pair) + "</union>")
            unions.append(pair)
            i += 2
        else:
            lines.append("  " + module_xml(mods[i], tags[id(mods[i])]))
            i += 1
    text = "\n".join([
        f'<schema name="{name}">', f"  <system>{escape(system)}</system>", *lines, "</schema>"
    ])
    return text, unions


def arguments(m):
    return "".join(f" {w}={quoteattr(v)}" for w, (_, v, is_param) in m.facts.items() if is_param)


def prompt_xml(schema, mods, tags, question):
    parts = "".join(f"<{tags[id(m)]}{arguments(m)}/>" for m in mods)
    return f'<prompt schema="{schema}">{parts}<user>{escape(question)}</user></prompt>'


def imported(r, mods, unions, about, n):
    """`n` modules to import: those the question is about, and others, of a union at most one."""
    out, blocked = list(about), set()
    for pair in unions:
        blocked |= {id(m) for m in pair} if any(m in about for m in pair) else {id(r.choice(pair))}
    rest = [m for m in mods if id(m) not in blocked and m not in about]
    r.shuffle(rest)
    out += rest[:n - len(out)]
    return [m for m in mods if m in out] if len(out) == n else None


def asked(r, mods, unions, kind):
    """-> (question, modules it is about), or None"""
    m = r.choice(mods)
    word = r.choice(list(m.facts))
    is_param = m.facts[word][2]
    if kind in (data.LOOKUP, data.PARAMETER):
        return (data.lookup(r, m, word), [m]) if is_param == (kind == data.PARAMETER) else None
    if is_param:
        return None
    if kind == data.YESNO and m.facts[word][0].make not in (data.Names.person, data.Names.hotel):
        return data.yes_no(r, m, word), [m]
    if kind == data.REVERSE and m.ent != "trip":
        q = data.reverse(r, mods, m, word)
        return (q, [m]) if q else None
    if kind == data.TWO_HOP:
        q = data.two_hop(r, mods, m, word)
        city = next((o for o in mods if o.kind == "city" and o.ent == m.facts[word][1]), None)
        if q and not any(m in pair and city in pair for pair in unions):
            return q, [m, city]
    return None


def write_schema(r, out, count, n, plan, number):
    _, lookups, others, spare = plan
    kinds = ["city", "person", "train"
             ] if number % 3 == 0 else None  # two hops need links to cities
    doc = dict(split="test", p_param=0.05, facts=(3, 4), p_trip=0.7, kinds=kinds)
    while True:
        system, mods, _ = data.make_document(r, n + spare + r.randint(0, 2), 1, **doc)
        if all("\n" not in m.text() for m in mods):
            break
    taken, name = {"system", "user", "assistant"}, f"s{number}"
    tags = {id(m): tag_of(m, taken) for m in mods}
    xml, unions = schema_xml(r, name, system, mods, tags)
    out.append(dict(id=name, schema=xml))
    other = [data.PARAMETER, data.TWO_HOP, data.YESNO, data.REVERSE]
    wanted = [data.LOOKUP] * lookups + [other[(number + i) % 4]
                                        for i in range(others)] + [data.TWO_HOP] * 2 * bool(kinds)
    seen = set()
    for kind in wanted:
        for _ in range(200):
            got = asked(r, mods, unions, kind)
            use = got and got[0].text not in seen and imported(r, mods, unions, got[1], n)
            if use:
                q = got[0]
                seen.add(q.text)
                count[n, kind] += 1
                out.append(
                    dict(schema_id=name,
                         prompt=prompt_xml(name, use, tags, q.text),
                         expect=q.expect(),
                         kind=kind,
                         modules=n))
                break


def main(path):
    r, out, count, number = random.Random(2025), [], Counter(), 0
    for n, plan in PLAN.items():
        for _ in range(plan[0]):
            write_schema(r, out, count, n, plan, number)
            number += 1
    with open(path, "w") as f:
        f.writelines(json.dumps(x) + "\n" for x in out)
    print(dict(count))


if __name__ == "__main__":
    p = argparse.ArgumentParser(description=__doc__,
                                formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("path", help="file to write")
    main(p.parse_args().path)
