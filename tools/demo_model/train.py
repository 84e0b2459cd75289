"""Trains the demo model from scratch:  python train.py OUT --minutes 33

The schedule (curriculum, learning rate) follows the clock, not the step count,
so that a run on a shared machine ends in time.  Resumes from OUT/checkpoint.pt,
which keeps the minutes used; a higher --minutes then goes on.
"""
import argparse
import json
import os
import random
import time

import torch
import torch.nn.functional as F

import batch as batching
import tokenizer as tokenizing
from model import CONFIG, Llama, save_hf
from muon import Muon
from start import lay_out


def plan(r, done, a):
    """Mode, modules, questions and facts of one batch; `done` is the share of the time that is
    over."""
    grown = min(1.0, done / a.grow) if a.grow else 1.0
    top = round(a.modules[0] + (a.modules[1] - a.modules[0]) * grown)
    n = r.randint(2, top) if r.random() < 0.5 else r.randint(max(2, top // 2), top)
    mode = r.choices(batching.MODES, a.mode_mix)[0]
    hi = r.randint(2, 4)
    return mode, n, (hi - 1, hi), min(a.questions, n * (hi - 1))


def lr_scale(done, step, a):
    if step < a.warmup:
        return (step + 1) / a.warmup
    return max(0.0, min(1.0, (1 - done) / a.tail))


class Run:
    def __init__(self, a):
        self.a = a
        os.makedirs(a.out, exist_ok=True)
        if not os.path.exists(a.out + "/tokenizer.json"):
            tokenizing.train(a.out)
        self.enc = tokenizing.Encoder(a.out)
        shape = {k: v for k, v in vars(a).items() if k in CONFIG}
        self.model = Llama(dict(shape, vocab_size=self.enc.tok.get_vocab_size())).to(a.device)
        self.model.dtype = getattr(torch, a.dtype)
        if a.start == "laid":
            lay_out(self.model, a.seed)
        mats = [p for b in self.model.blocks for p in b.parameters() if p.ndim == 2]
        self.rest = [self.model.emb] + [p for p in self.model.parameters() if p.ndim == 1]
        self.muon = Muon(mats, a.lr)
        self.adam = torch.optim.AdamW(self.rest,
                                      lr=a.adam_lr,
                                      betas=(0.9, 0.97),
                                      weight_decay=0.0,
                                      fused=True)
        self.step, self.used, self.tokens, self.by = 0, 0.0, 0, {}
        self.path = a.out + "/checkpoint.pt"
        if os.path.exists(self.path):
            s = torch.load(self.path, map_location=a.device)
            for k in ("model", "muon", "adam"):
                getattr(self, k).load_state_dict(s[k])
            self.step, self.used, self.tokens = s["step"], s["used"], s["tokens"]

    def save(self):
        state = {k: getattr(self, k).state_dict() for k in ("model", "muon", "adam")}
        torch.save(dict(state, step=self.step, used=self.used, tokens=self.tokens),
                   self.path + ".tmp")
        os.replace(self.path + ".tmp", self.path)
        save_hf(self.model, self.a.out)

    def batch(self, done):
        a = self.a
        r = random.Random(f"{a.seed}/{self.step}")
        mode, n, facts, q = plan(r, done, a)
        each = n * (11 * facts[1] + 4) + q * 26
        size = max(1, int(a.tokens // each))
        b = batching.make_batch(r,
                                self.enc,
                                mode,
                                size,
                                n,
                                q,
                                facts=facts,
                                mix=a.mix,
                                ctx_frac=a.text_share)
        return mode, n, b

    def train_step(self, done):
        a, m = self.a, self.model
        mode, n, b = self.batch(done)
        g = {k: v.to(a.device) for k, v in b.items() if torch.is_tensor(v)}
        h = m.hidden(*(g[k] for k in batching.INPUTS))
        out = m.logits(h.reshape(-1, h.shape[-1])[g["idx"]])
        ce = F.cross_entropy(out, g["target"], reduction="none")
        ans = g["question"] >= 0
        loss = ce[ans].mean() + a.text_weight * ce[~ans].mean()
        for p in m.parameters():
            p.grad = None
        loss.backward()
        good = torch.ones(len(b["kinds"]), device=out.device)
        good.index_reduce_(0, g["question"][ans], (out[ans].argmax(-1) == g["target"][ans]).float(),
                           "amin")
        scale = lr_scale(done, self.step, a)
        torch.nn.utils.clip_grad_norm_(self.rest, 1.0)
        for group in self.adam.param_groups:
            group["lr"] = a.adam_lr * scale
        self.muon.step(scale)
        self.adam.step()
        self.step += 1
        self.tokens += b["tokens"]
        for k, v in zip(b["kinds"], good.tolist()):
            self.note(k, v, 0.995)
        self.note("<=6" if n <= 6 else "<=12" if n <= 12 else ">12", good.mean().item(), 0.95)
        self.note("ind" if mode[0] == "i" else "cau", good.mean().item(), 0.95)
        self.note("ce", ce[ans].mean().item(), 0.9)
        self.note("text", ce[~ans].mean().item(), 0.9)
        return scale

    def note(self, key, v, keep):
        self.by[key] = self.by[key] * keep + v * (1 - keep) if key in self.by else v

    def loop(self):
        a, started, saved = self.a, time.time(), time.time()
        first, first_tokens = self.step, self.tokens
        while self.used < a.minutes * 60:
            t = time.time()
            scale = self.train_step(self.used / (a.minutes * 60))
            self.used += time.time() - t
            if self.step % a.report == 0:
                el = time.time() - started
                line = dict(step=self.step,
                            minutes=round(self.used / 60, 2),
                            lr=round(scale, 3),
                            s_step=round(el / (self.step - first), 3),
                            tok_s=int((self.tokens - first_tokens) / el),
                            **{k: round(v, 3)
                               for k, v in sorted(self.by.items())})
                print(json.dumps(line), flush=True)
            if time.time() - saved > a.save_every:
                self.save()
                saved = time.time()
        self.save()


def options():
    p = argparse.ArgumentParser(description=__doc__,
                                formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("out")
    p.add_argument("--minutes", type=float, default=33)
    p.add_argument("--tokens", type=int, default=4000, help="tokens of a step, about")
    p.add_argument("--lr", type=float, default=0.005)
    p.add_argument("--adam-lr", type=float, default=0.002)
    p.add_argument("--warmup", type=int, default=40)
    p.add_argument("--tail",
                   type=float,
                   default=0.6,
                   help="share of the time in which the learning rate falls to zero")
    p.add_argument("--text-weight", type=float, default=0.15)
    p.add_argument("--text-share",
                   type=float,
                   default=0.12,
                   help="share of the context's tokens that are predicted too")
    p.add_argument("--modules",
                   type=int,
                   nargs=2,
                   default=(12, 20),
                   help="most modules at the start and at the end")
    p.add_argument("--grow",
                   type=float,
                   default=0.3,
                   help="share of the time in which the number of modules grows")
    p.add_argument("--questions", type=int, default=16, help="most questions of a document")
    p.add_argument("--mix",
                   type=float,
                   nargs=3,
                   default=(0.10, 0.12, 0.15),
                   help="shares of yes/no, reverse and two-hop questions")
    p.add_argument("--mode-mix", type=float, nargs=4, default=(15, 25, 30, 30))
    for k, v in CONFIG.items():
        if k != "vocab_size":
            p.add_argument("--" + k.replace("_", "-"), type=type(v), default=v)
    p.add_argument("--start", choices=("laid", "random"), default="laid", help="see start.py")
    p.add_argument("--dtype", default="bfloat16")
    p.add_argument("--threads", type=int, default=2)
    p.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--report", type=int, default=25)
    p.add_argument("--save-every", type=float, default=60)
    return p.parse_args()


if __name__ == "__main__":
    opts = options()
    torch.set_num_threads(opts.threads)
    torch.manual_seed(opts.seed)
    Run(opts).loop()
