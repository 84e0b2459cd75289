"""Turns documents into tensors: layouts, position gaps, visibility, targets.

A sample has three parts, as the engine has them:
  groups     the cached context: groups of tokens that attend causally inside themselves only
             (one group for an ordinary prefill, one for every module for independent encoding);
  extras     tokens computed at request time before the questions: arguments of parameters, and
             the blanks between modules, which are segments of one token of their own;
  questions  each sees the visible context, the extras and itself.
"""
from dataclasses import dataclass, field

import numpy as np
import torch

import data
from tokenizer import ASSIST, BOS, END, SYS, UNK, USER

MODES = ("causal", "causal+gaps", "independent+gaps", "independent+sink")
LAST = 2048
NOTHING, ALL, ROOT = 0, 1, 2                            # what an extra token sees of the context
TEXT, WORDS = -2, -1                                    # `question` of a target that is no answer


@dataclass
class Layout:
    groups: list = field(default_factory=list)          # (ids, positions, visible)
    extras: list = field(
        default_factory=list)  # (id, position, what it sees of the context below it)
    questions: list = field(default_factory=list)  # (kind, ids, index of the first answer token)
    at: int = 0                                         # position of the questions


@dataclass
class Style:
    """How the text runs of a schema file may lie around the modules."""
    system: bool
    between: bool                                       # a blank between modules
    lead: str  # blank at the start and at the end of a module's text
    trail: str
    ask: tuple  # blanks before the question and before the answer
    blank_sees: int  # encoded on its own, or after the root's leading text

    @staticmethod
    def draw(r):
        inner = r.choices([("", ""), (" ", " "), (" ", ""), ("", " ")], [60, 25, 8, 7])[0]
        ask = r.choices([(0, 0), (1, 0), (1, 1)], [70, 20, 10])[0]
        return Style(r.random() < 0.9, r.random() < 0.6, *inner, ask, r.choice((NOTHING, ROOT)))


def gap(r, limit, size=50):
    """Positions that a module not taken, a longer union member or nothing at all leaves."""
    u = r.random()
    n = 0 if u < 0.4 else r.randint(
        0, 12) if u < 0.65 else size * r.randint(1, 3) + r.randint(-10, 10)
    return max(0, min(n, limit))


class Builder:
    """Lays out one document."""

    def __init__(self, r, enc, mode, style):
        self.r, self.enc, self.style = r, enc, style
        self.indep, self.gaps = mode.startswith("indep"), mode != "causal"
        self.sinks = mode == "independent+sink"
        self.out, self.pos, self.sink = Layout(), 0, 0
        self.blank = enc(" ")[0]

    def root(self, ids):
        """Text at the root of the schema, before the modules."""
        self.sys = list(ids)
        self.pos = len(ids)
        self.out.groups.append((self.sys, list(range(self.pos)), [1] * self.pos))
        if self.sinks and ids:
            self.sink = self.pos if self.r.random() < 0.7 else 1

    def separator(self):
        if not self.style.between:
            return
        if self.indep:                                  # a segment of one token
            self.out.extras.append((self.blank, self.pos, self.style.blank_sees))
        else:
            self.out.groups.append(([self.blank], [self.pos], [1]))
        self.pos += 1

    def module(self, m):
        ids, ps, vis = [], [], []
        if self.sink:  # a copy of the leading text: attended to, not seen twice
            ids, ps, vis = self.sys[:self.sink], list(range(self.sink)), [0] * self.sink

        def put(tokens, seen):
            ids.extend(tokens)
            ps.extend(range(self.pos, self.pos + len(tokens)))
            vis.extend([seen] * len(tokens))
            self.pos += len(tokens)
        for i, p in enumerate(m.pieces):
            if isinstance(p, str):
                lead = self.style.lead if i == 0 else ""
                put(self.enc(lead + p + (self.style.trail if i == len(m.pieces) - 1 else "")), 1)
            elif self.indep:  # cached with placeholders, the argument comes at request time
                t = self.enc(p.value)
                self.out.extras += [(x, self.pos + j, ALL) for j, x in enumerate(t)]
                put([UNK] * (len(t) + p.spare), 0)
            else:                                       # ordinary prefill: the argument in place
                put(self.enc(p.value), 1)
                self.pos += p.spare if self.gaps else 0
        self.out.groups.append((ids, ps, vis))

    def document(self, doc):
        system, mods, qs = doc
        r, enc, st = self.r, self.enc, self.style
        lens = [sum(len(enc(p)) if isinstance(p, str) else 10 for p in m.pieces) + 3 for m in mods]
        self.root([BOS, SYS] + enc(system) + [END] if st.system else enc(system))
        tail = 64                                       # room for a question and its answer
        for i, m in enumerate(mods):
            self.separator()
            if self.gaps:
                self.pos += gap(r, LAST - self.pos - sum(lens[i:]) - tail)
            self.module(m)
        self.separator()
        if self.gaps:
            self.pos += gap(r, LAST - self.pos - tail)
        if not self.indep:
            self.out.groups = [tuple(sum((g[i] for g in self.out.groups), []) for i in range(3))]
        blank = [self.blank]
        for q in qs:
            pre = blank * st.ask[0] + [USER] + enc(q.text) + [END] + blank * st.ask[1] + [ASSIST]
            ans = [x for part in q.answer for x in enc(part)]
            self.out.questions.append((q.kind, pre + ans + [END], len(pre)))
        self.out.at = self.pos
        assert self.pos + max(len(q[1]) for q in self.out.questions) <= LAST
        return self.out


def up8(n):
    return (n + 7) // 8 * 8


def make_batch(r, enc, mode, size, n_modules, n_questions, split="train", ctx_frac=0.12, **kw):
    lays = []
    for _ in range(size):
        doc = data.make_document(r, n_modules, n_questions, split, **kw)
        lays.append(Builder(r, enc, mode, Style.draw(r)).document(doc))
    B, G, Q = size, max(len(y.groups) for y in lays), max(len(y.questions) for y in lays)
    L = up8(max(len(g[0]) for y in lays for g in y.groups))
    E = max(1, max(len(y.extras) for y in lays))
    T = max(len(q[1]) for y in lays for q in y.questions)
    ci, cp, cv = (np.zeros((B, G, L), np.int64) for _ in range(3))
    ei, ep, ev, ea = (np.zeros((B, E), np.int64) for _ in range(4))
    qi, qp = np.zeros((B, Q, T), np.int64), np.zeros((B, Q, T), np.int64)
    ct, qt, qn = np.full((B, G, L), -1), np.full((B, Q, T), -1), np.full((B, Q, T), WORDS)
    kinds = []
    for b, y in enumerate(lays):
        for g, (ids, ps, vis) in enumerate(y.groups):
            n = len(ids)
            ci[b, g, :n], cp[b, g, :n], cv[b, g, :n] = ids, ps, vis
            nxt = np.array(ids[1:], np.int64)
            ct[b, g, :n - 1] = np.where(nxt == UNK, -1, nxt) if n > 1 else []
        for i, (x, p, sees) in enumerate(y.extras):
            ei[b, i], ep[b, i], ev[b, i], ea[b, i] = x, p, 1, sees
        for j, (kind, ids, start) in enumerate(y.questions):
            n = len(ids)
            qi[b, j, :n], qp[b, j] = ids, np.arange(y.at, y.at + T)
            qt[b, j, :n - 1] = ids[1:]
            qn[b, j, start - 1:n - 1] = len(kinds)
            kinds.append(kind)
    qp = np.minimum(qp, LAST - 1)
    below = cp.reshape(B, 1, -1) <= ep[:, :,
                                       None]  # extras: visible by position, or themselves only
    root = np.arange(G * L)[None, None] < L
    see_c = (cv.reshape(B, 1, -1) > 0) & below & ((ea[:, :, None] == ALL) |
                                                  (ea[:, :, None] == ROOT) & root)
    see_e = (ev[:, None, :] > 0) & (ep[:, None, :] <= ep[:, :, None]) & (
        ea[:, :, None] == ALL) | np.eye(E, dtype=bool)
    bias = lambda see: torch.from_numpy(np.where(see, np.float32(0), np.float32(-1e4)))
    t = torch.from_numpy
    pick = np.random.RandomState(r.getrandbits(31)).rand(ct.size) < ctx_frac
    c_at, q_at = np.flatnonzero((ct.reshape(-1) >= 0) & pick), np.flatnonzero(qt.reshape(-1) >= 0)
    C, N = G * L, G * L + E + Q * T
    idx = np.concatenate([c_at // C * N + c_at % C, q_at // (Q * T) * N + C + E + q_at % (Q * T)])
    return dict(ctx_ids=t(ci),
                ctx_pos=t(cp),
                ext_ids=t(ei),
                ext_pos=t(ep),
                ext_bias=bias(np.concatenate([see_c, see_e], 2)),
                new_ids=t(qi),
                new_pos=t(qp),
                new_bias=bias(np.concatenate([cv.reshape(B, -1), ev], 1) > 0),
                idx=t(idx),
                target=t(np.concatenate([ct.reshape(-1)[c_at],
                                         qt.reshape(-1)[q_at]])),
                question=t(np.concatenate([np.full(len(c_at), TEXT),
                                           qn.reshape(-1)[q_at]])),
                kinds=kinds,
                tokens=B * N)


INPUTS = ("ctx_ids", "ctx_pos", "ext_ids", "ext_pos", "ext_bias", "new_ids", "new_pos", "new_bias")
