"""Exact-match accuracy on held-out names:  python eval.py MODEL_FOLDER [--questions 500] [--json
FILE]

Four modes x 2, 8, 16 modules x question kind.  An answer counts when every
token of it, and the end tag, is the model's first choice after the true
prefix, which is the same as greedy decoding giving exactly that answer.
"""
import argparse
import json
import random
from collections import defaultdict

import torch

import batch as batching
from data import KINDS_OF_QUESTION
from model import load_hf
from tokenizer import Encoder


# Ordinary documents for the look-ups; for the other kinds, documents in which they come up often.
PLAIN = dict(mix=(0.0, 0.0, 0.0))
RICH = dict(mix=(0.35, 0.35, 0.2), p_param=0.1, p_trip=1.0)
LINKED = ["city", "person", "train"]


@torch.no_grad()
def ask(model, enc, r, mode, modules, counts, **kw):
    """Asks one batch of documents; counts: {kind: [right, asked]}."""
    b = batching.make_batch(r,
                            enc,
                            mode,
                            8,
                            modules,
                            10,
                            split="test",
                            ctx_frac=0.0,
                            facts=(3, 4),
                            **kw)
    h = model.hidden(*(b[k] for k in batching.INPUTS))
    h = h.reshape(-1, h.shape[-1])[b["idx"]]
    ans = b["question"] >= 0
    hit = (model.logits(h[ans]).argmax(-1) == b["target"][ans]).float()
    good = torch.ones(len(b["kinds"])).scatter_reduce(0, b["question"][ans], hit, "amin")
    for kind, v in zip(b["kinds"], good.tolist()):
        counts[kind][0] += int(v)
        counts[kind][1] += 1


def cell(model, enc, mode, modules, questions, seed):
    """-> {kind: (right, asked)} with at least `questions` look-ups and about 100 of each other
    kind."""
    r = random.Random(f"eval/{seed}/{mode}/{modules}")
    plain, rich = (defaultdict(lambda: [0, 0]) for _ in range(2))
    while plain["lookup"][1] < questions:
        ask(model, enc, r, mode, modules, plain, **PLAIN)
    for i in range(40):
        if min(rich[k][1] for k in KINDS_OF_QUESTION[1:]) >= 100:
            break
        ask(model, enc, r, mode, modules, rich, kinds=LINKED if i % 2 else None, **RICH)
    return {k: plain[k] if k == "lookup" else rich[k] for k in KINDS_OF_QUESTION}


def show(hits):
    return f"{100 * hits[0] / hits[1]:5.1f} ({hits[1]})" if hits[1] else "-"


def options():
    p = argparse.ArgumentParser(description=__doc__,
                                formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("folder")
    p.add_argument("--questions",
                   type=int,
                   default=500,
                   help="look-ups, at least, for each mode and number of modules")
    p.add_argument("--modules", type=int, nargs="+", default=[2, 8, 16])
    p.add_argument("--seed", type=int, default=20)
    p.add_argument("--threads", type=int, default=2)
    p.add_argument("--json", default="")
    return p.parse_args()


def main(a):
    torch.set_num_threads(a.threads)
    model, enc = load_hf(a.folder), Encoder(a.folder)
    rows = []
    print(f"{'mode':18} {'modules':>7} " + " ".join(f"{k:>14}" for k in KINDS_OF_QUESTION))
    for mode in batching.MODES:
        for n in a.modules:
            hits = cell(model, enc, mode, n, a.questions, a.seed)
            rows.append(dict(mode=mode, modules=n, hits=hits))
            cells = " ".join(f"{show(hits.get(k, (0, 0))):>14}" for k in KINDS_OF_QUESTION)
            print(f"{mode:18} {n:7d} {cells}", flush=True)
    if a.json:
        with open(a.json, "w") as f:
            json.dump(rows, f, indent=1)


if __name__ == "__main__":
    main(options())
