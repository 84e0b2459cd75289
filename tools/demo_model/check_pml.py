"""Answers PML prompts with the model, without the engine:

    python check_pml.py MODEL_FOLDER demo-eval.jsonl [--modes prefill sink] [--limit 200]
    python check_pml.py MODEL_FOLDER employees.pml employees-prompt.pml

An answer is right when the greedy text equals the expected one.
"""
import argparse
import json
from collections import defaultdict

import torch

import pml
from model import load_hf
from tokenizer import END, Encoder

MODES = ("packed", "prefill", "independent", "sink")


def mask_of(r, mode):
    """Additive mask: groups see themselves (sink: the leading text too), new tokens see all up to
    their position."""
    ids = {g: i for i, g in enumerate(dict.fromkeys(r.group))}
    group = torch.tensor([ids[g] for g in r.group])
    pos, seen = torch.tensor(r.pos), torch.tensor(r.seen)
    new = group == ids[pml.NEW]
    same = group[:, None] == group[None]
    see = same & ~new[:, None] | new[:, None] & seen[None]
    if mode == "sink":
        see = see | (group == group[0])[None] & ~new[:, None]
    return torch.where(see & (pos[None] <= pos[:, None]), 0.0, -1e4)[None, None]


class Answerer:
    def __init__(self, folder):
        self.model, self.enc = load_hf(folder), Encoder(folder)
        self.reader = pml.Reader(self.enc)

    @torch.no_grad()
    def choices(self, r, mode, last):
        x = self.model(torch.tensor([r.ids]), torch.tensor([r.pos]), mask_of(r, mode))
        return x[0, -last:].argmax(-1).tolist()

    def right(self, schema, use, question, mode, expect):
        """Whether greedy decoding gives `expect`: first by one pass over it, token by token where
        that fails."""
        r = pml.rows(self.enc, schema, use, question, mode)
        want = self.enc(expect)
        r.put(want, r.pos[-1] + 1, pml.NEW)
        if self.choices(r, mode, len(want) + 1) == want + [END]:
            return True, expect
        got = self.greedy(schema, use, question, mode, len(want) + 6)
        return got == expect, got

    def greedy(self, schema, use, question, mode, limit=48):
        r, out = pml.rows(self.enc, schema, use, question, mode), []
        while len(out) < limit:
            t = self.choices(r, mode, 1)[0]
            if t == END:
                break
            out.append(t)
            r.put([t], r.pos[-1] + 1, pml.NEW)
        return self.enc.tok.decode(out)


def run_jsonl(a, answerer):
    schemas, hits = {}, defaultdict(lambda: [0, 0])
    done = 0
    with open(a.files[0]) as f:
        for line in f:
            x = json.loads(line)
            if "prompt" not in x:
                schemas[x["id"]] = answerer.reader.schema(x["schema"])
                continue
            if a.every > 1 and done % a.every:
                done += 1
                continue
            done += 1
            use, q = answerer.reader.prompt(x["prompt"])
            for mode in a.modes:
                ok, got = answerer.right(schemas[x["schema_id"]], use, q, mode, x["expect"])
                h = hits[mode, x["modules"], x["kind"]]
                h[0], h[1] = h[0] + ok, h[1] + 1
                if a.verbose and not ok:
                    print(f"{mode} {x['modules']} {x['kind']}: {q} "
                          f"expected {x['expect']!r} got {got!r}")
    for (mode, n, kind), (right, asked) in sorted(hits.items()):
        print(f"{mode:12} {n:3d} {kind:10} {100 * right / asked:6.1f} % of {asked}")


def run_files(a, answerer):
    with open(a.files[0]) as f:
        schema = answerer.reader.schema(f.read())
    print(f"{a.files[0]}: {schema.length} positions")
    for path in a.files[1:]:
        with open(path) as f:
            use, q = answerer.reader.prompt(f.read())
        for mode in a.modes:
            print(f"  {q}  [{mode}] {answerer.greedy(schema, use, q, mode)}")


if __name__ == "__main__":
    p = argparse.ArgumentParser(description=__doc__,
                                formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("folder")
    p.add_argument("files", nargs="+")
    p.add_argument("--modes", nargs="+", default=MODES, choices=MODES)
    p.add_argument("--every", type=int, default=1, help="ask only every so manieth question")
    p.add_argument("--threads", type=int, default=2)
    p.add_argument("--verbose", action="store_true")
    opts = p.parse_args()
    torch.set_num_threads(opts.threads)
    (run_jsonl if opts.files[0].endswith(".jsonl") else run_files)(opts, Answerer(opts.folder))
