"""A start for training: random weights, and a retrieval circuit laid into the first two layers.

Looking a value up by the words before it takes two attention layers that work
together: heads that bring the last few tokens to each position, and a head that
finds the place in the context whose last tokens are the same.  Neither part is
of use alone, so a random start has to stumble on both at once, which takes small
models very long.  Here both are laid out roughly; training does the rest.

The residual stream is divided so (only at the start; training may use it as it likes):
dimension 0 holds a constant, 1..E the token, then one slice for each head of the
first layer: the tokens 1, 2, 3 back and a blend of those 4 to 6 back.
"""
import math

import torch

TOKEN, SLICE = 95, 40
OFFSETS = (1, 2, 3, 5)
PAIRS = 12  # quickest rotations used; too few, and far tokens look near by chance
LEVEL = 0.5                                             # size of an entry of the token's vector


def slots(d):
    at = [1 + TOKEN + i * SLICE for i in range(len(OFFSETS))]
    assert at[-1] + SLICE <= d, "the hidden size is too small for the laid-out start"
    return at


def frequencies(c, hd):
    return c["rope_theta"] ** (-torch.arange(0, hd, 2).double() / hd)


def lay_tokens(model, g):
    model.emb.zero_()
    model.emb[:, 0] = 3 * LEVEL
    x = torch.randn(model.emb.shape[0], TOKEN, generator=g)
    x *= LEVEL * TOKEN**0.5 / x.norm(
        dim=1, keepdim=True)  # one length for all: the constant must stay one after the norm
    model.emb[:, 1:1 + TOKEN] = x
    model.norm.fill_(0.1)
    model.norm[0] = 0.0


def lay_previous(block, c, hd, look):
    """Heads that attend a fixed number of tokens back: the scores come from the rotation alone."""
    freq, d, half = frequencies(c, hd), c["hidden_size"], hd // 2
    rms = math.sqrt((TOKEN * LEVEL ** 2 + 9 * LEVEL ** 2) / d)
    const = 3 * LEVEL / rms                             # what the constant is after the norm
    block.q.zero_(), block.k.zero_(), block.v.zero_(), block.o.zero_()
    pairs = torch.arange(PAIRS)
    kv = c["num_key_value_heads"]
    rep = len(OFFSETS) // kv
    for h in range(kv):
        block.k[h * hd + pairs, 0] = 1 / const
        block.v[h * hd:h * hd + SLICE, 1:1 + TOKEN] = look
    for h, (off, at) in enumerate(zip(OFFSETS, slots(d))):
        lo, gain = (3, 8.0) if off == 5 else (0, 9.0)     # the blend leaves out the quick rotations
        p = pairs[lo:]
        amount = gain * hd ** 0.5 / const
        block.q[h * hd + p, 0] = (amount * torch.cos(freq[p] * off)).float()
        block.q[h * hd + half + p, 0] = (-amount * torch.sin(freq[p] * off)).float()
        block.o[at:at + SLICE, h * hd:h * hd + SLICE] = torch.eye(SLICE) * rms
    assert rep * kv == len(OFFSETS)


def lay_match(block, c, hd, look, g, gain=5.0):
    """Heads whose query is the last tokens and whose key is the tokens before; they copy the token
    they find."""
    d, half = c["hidden_size"], hd // 2
    freq = frequencies(c, hd)
    still = torch.nonzero(freq * c["max_position_embeddings"] < 0.35).flatten()
    dims = torch.cat([still, half + still])              # hardly rotated at all: content decides
    n = len(dims) // 4
    rms = math.sqrt((TOKEN * LEVEL ** 2 + 9 * LEVEL ** 2 + 4 * SLICE * LEVEL ** 2) / d)
    at = slots(d)
    rep = c["num_attention_heads"] // c["num_key_value_heads"]
    block.q[:rep * hd].zero_(), block.k[:hd].zero_()
    for i in range(4):
        w = torch.randn(n, SLICE, generator=g) / SLICE**0.5 * math.sqrt(gain *
                                                                        (2.5 if i == 3 else 1.0))
        rows = dims[i * n:(i + 1) * n]
        w = w * math.sqrt(8 / n)
        key = at[min(i, 2)] if i < 3 else at[3]
        block.k[rows, key:key + SLICE] = w
        for h in range(rep):
            if i == 0:
                block.q[h * hd + rows, 1:1 + TOKEN] = w @ look
            else:
                q = at[i - 1] if i < 3 else at[3]
                block.q[h * hd + rows, q:q + SLICE] = w
    copy = torch.randn(hd, TOKEN, generator=g) / TOKEN ** 0.5
    block.v[:hd].zero_()
    block.v[:hd, 1:1 + TOKEN] = copy
    for h in range(rep):
        block.o[:, h * hd:(h + 1) * hd].zero_()
        block.o[1:1 + TOKEN, h * hd:(h + 1) * hd] = copy.T * rms * TOKEN / hd * 3 / rep


@torch.no_grad()
def lay_out(model, seed=0):
    c, hd = model.config, model.hd
    assert c["num_attention_heads"] == len(OFFSETS)
    g = torch.Generator().manual_seed(seed)
    look = torch.randn(SLICE, TOKEN, generator=g) / TOKEN ** 0.5
    lay_tokens(model, g)
    for i, b in enumerate(model.blocks):
        b.down.zero_()
        if i != 0:
            b.o.zero_()
    lay_previous(model.blocks[0], c, hd, look)
    lay_match(model.blocks[1], c, hd, look, g)
