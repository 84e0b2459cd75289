"""What a model is, measured, and whether it computes here what it computes by itself.

Nothing is taken from its name. If anything differs, the model is refused with the figure."""
import collections

import torch

from . import errors, rotary
from .engine import Engine
from .passes import Given

TOLERANCE = {torch.float32: 1e-4, torch.float16: 1e-2, torch.bfloat16: 5e-2}
FAR = 16384  # a text is tried so far away, if the model's context reaches that far
ANGLE = 5e-7  # error of an angle in fp32, for each position


class Facts:
    def __init__(self):
        self.rotations = []  # of each layer: of K and of V
        self.layers = self.heads = self.kv_heads = self.head_dim = self.vocab = 0
        self.key_dims, self.value_dims, self.devices = [], [], []
        self.token_bytes = self.weight_bytes = 0
        self.relocatable, self.why_fixed = False, ""
        self.context = 0
        self.alibi = False

    @property
    def scheme(self):
        """How it knows positions: a name of PositionScheme."""
        if self.alibi:
            return "ALIBI"
        turned = any(isinstance(r, rotary.Rotation) for pair in self.rotations for r in pair)
        return "ROPE" if turned else "NONE" if self.relocatable else "LEARNED"


Single = collections.namedtuple("Single", "keys values logits")


def tokens(count, vocab, seed):
    return [(7919 * (i + seed) + 13 * i * i + 11) % vocab for i in range(count)]


def context_of(config):
    """Positions that a model has with one set of frequencies. 0: no limit is named."""
    rope = getattr(config, "rope_parameters", None) or getattr(config, "rope_scaling", None) or {}
    longest = (getattr(config, "max_position_embeddings", None)
               or getattr(config, "n_positions", None) or 0)
    kinds = rope.values() if rope and all(isinstance(v, dict) for v in rope.values()) else [rope]
    for kind in kinds:
        name = kind.get("rope_type", kind.get("type"))
        if name in ("longrope", "su"):
            longest = (kind.get("original_max_position_embeddings")
                       or getattr(config, "original_max_position_embeddings", None) or longest)
        elif name == "dynamic":
            longest = kind.get("original_max_position_embeddings") or longest
    return longest


def single_tokens(passes, ids, position):
    """K and V of each layer of sequences of one token: [sequences, heads, 1, dim]."""
    keys, values, logits = [], [], []
    for one in [[i] for i in ids] if not passes.batches else [ids]:
        one = torch.tensor(one, device=passes.device)[:, None]
        places = torch.full_like(one, position)
        visible = torch.ones((len(one), 1, 1), dtype=torch.bool, device=passes.device)
        run = passes.call(Given(None, None, 0, lambda: None), one, places, places, visible, [0])
        keys.append(run.keys)
        values.append(run.values)
        logits.append(run.logits)
    keys, values = ([torch.cat(layer) for layer in zip(*side)] for side in (keys, values))
    return Single(keys, values, torch.cat(logits))


def measure(passes, context):
    facts, config = Facts(), passes.config
    facts.context = context or context_of(config)
    facts.vocab = config.vocab_size
    ids = tokens(12, config.vocab_size, 0)
    first = single_tokens(passes, ids, 0)
    if not first.keys or len(first.keys) != len(first.values):
        raise errors.Refused("its layers give no K and V to a DynamicCache")
    facts.vocab = first.logits.shape[-1]
    facts.layers = len(first.keys)
    facts.devices = [k.device for k in first.keys]
    facts.key_dims = [k.shape[-1] for k in first.keys]
    facts.value_dims = [v.shape[-1] for v in first.values]
    facts.token_bytes = sum(t[0].numel() * t.element_size() for t in first.keys + first.values)
    facts.weight_bytes = sum(p.numel() * p.element_size() for p in passes.model.parameters())
    facts.alibi = bool(passes.alibi)
    heads = {t.shape[1] for t in first.keys + first.values}
    facts.kv_heads = heads.pop() if len(heads) == 1 else 0
    facts.head_dim = max(facts.key_dims + facts.value_dims)
    facts.heads = getattr(config, "num_attention_heads", facts.kv_heads)
    steps = [s for s in rotary.STEPS if not facts.context or s < facts.context]
    moved = {s: single_tokens(passes, ids, s) for s in steps}
    frequencies = rotary.frequencies_of(passes.model, config)
    limit = TOLERANCE[passes.dtype]
    for layer in range(facts.layers):
        pair = [rotary.find(getattr(first, side)[layer],
                            {s: getattr(m, side)[layer] for s, m in moved.items()},
                            frequencies, limit) for side in ("keys", "values")]
        facts.rotations.append(pair)
        if None in pair and not facts.why_fixed:
            facts.why_fixed = (f"{'K' if pair[0] is None else 'V'} of layer {layer} depends on "
                               "position in a way that is no rotation by its frequencies")
    facts.relocatable = not facts.why_fixed
    return facts


def moves(engine):
    """Whether a text's states at one place are those at another, turned."""
    facts, passes = engine.facts, engine.passes
    length = min(24, facts.context or 24)
    last = (facts.context or FAR) - length
    ids = tokens(length, facts.vocab, 3)
    base = engine.encode(ids, list(range(length)), [], [(0, length)])[0]
    for start in sorted({min(5, last), min(FAR, last)} - {0}):
        there = engine.encode(ids, list(range(start, start + length)), [], [(0, length)])[0]
        limit = TOLERANCE[passes.dtype] + start * ANGLE
        for layer in range(facts.layers):
            far = max(rotary.apart(base.keys[layer], there.keys[layer]),
                      rotary.apart(base.values[layer], there.values[layer]))
            if far > limit:
                return f"at position {start} states of layer {layer} differ by {far:.1e}"
    return ""


def compare(what, mine, plain, dtype):
    far = rotary.apart(plain.cpu(), mine.cpu())
    if not far <= TOLERANCE[dtype]:
        raise errors.Refused(f"logits of {what} differ from the model's own by {far:.1e} of the "
                             f"largest, more than {TOLERANCE[dtype]:g}")


def plain_logits(passes, ids):
    with torch.no_grad():
        return passes.model(torch.tensor([ids], device=passes.device)).logits[0]


def whole(engine):
    """A text against one pass of the model: its middle is attached first, and its beginning is
    computed behind that, where it must not see it."""
    facts, passes = engine.facts, engine.passes
    length = min(40, facts.context or 40)
    ids, a, b = tokens(length, facts.vocab, 5), length // 3, 2 * length // 3
    left = engine.encode(ids[:a], list(range(a)), [], [(0, a)])[0]
    right = engine.encode(ids[a:b], list(range(a, b)), [(left, 0, 0, a)], [(0, b - a)])[0]
    end = list(range(b, length))
    for begin, rows in (("attached", end), ("computed", list(range(a)) + end)):
        sequence = engine.new_sequence()
        engine.attach(sequence, right, a, 0, b - a)
        if begin == "attached":
            engine.attach(sequence, left, 0, 0, a)
        out = engine.step([(sequence, i, ids[i], True) for i in rows])
        compare(f"a text of segments, its beginning {begin}", torch.cat(out),
                plain_logits(passes, ids)[rows], passes.dtype)


def several(engine):
    """Sequences of two lengths in one pass, against each by itself. Returns what is wrong."""
    facts, passes = engine.facts, engine.passes
    sequences, plain, rows = [], [], []
    for seed, length in ((7, min(17, facts.context or 17)), (9, min(11, facts.context or 11))):
        ids = tokens(length, facts.vocab, seed)
        sequence = engine.new_sequence()
        engine.step([(sequence, i, ids[i], False) for i in range(length - 1)])
        sequences.append(sequence)
        rows.append((sequence, length - 1, ids[-1], True))
        plain.append(plain_logits(passes, ids)[-1:])
    compare("sequences of one batch", torch.cat(engine.step(rows)), torch.cat(plain), passes.dtype)


def causal(passes, facts):
    ids = tokens(min(12, facts.context or 12), facts.vocab, 5)
    half, every = plain_logits(passes, ids[:len(ids) // 2]), plain_logits(passes, ids)
    if rotary.apart(every[:len(half)], half) > TOLERANCE[passes.dtype]:
        raise errors.Refused("its tokens see what stands behind them (an encoder)")


def prove(passes, context):
    """An engine for the model, or errors.Refused."""
    try:
        return proved(passes, context)
    except errors.Refused:
        raise
    except Exception as error:
        raise errors.Refused("it does not compute with positions, masks and a cache that are "
                             f"given: {type(error).__name__}: {error}") from error


def proved(passes, context):
    facts = measure(passes, context)
    causal(passes, facts)
    engine = Engine(passes, facts)
    if facts.relocatable:
        facts.why_fixed = moves(engine)
        facts.relocatable = not facts.why_fixed
    whole(engine)
    if passes.batches:
        try:
            several(engine)
        except errors.Refused:
            passes.batches = False
    return engine
