"""One forward pass of a model over keys and values that are given, with masks by position.

A model of transformers takes a cache object, a mask of four dimensions and positions. The cache
object here gives each layer what the sequence holds, and keeps what is new. So tokens may stand at
any positions, in any order and with gaps, and a pass changes nothing but its own result."""
import contextlib
import inspect

import torch
from transformers import DynamicCache

from . import errors

ROWS = 512  # most rows of a sequence in one pass: the mask of more would be large
KINDS = ("full_attention", "sliding_attention")
# Settings of masks that are not made here.
FOREIGN_MASKS = ("attention_chunk_size", "attention_types", "window_size", "block_types")


class Enough(Exception):
    """Ends a pass in whose further layers nobody is interested."""


class Given(DynamicCache):
    """keys, values: of each layer [batch, heads, tokens, dim]; None: there are none."""

    def __init__(self, keys, values, tokens, poll, last_layer=None):
        super().__init__()
        self.given, self.tokens, self.poll, self.last = (keys, values), tokens, poll, last_layer
        self.new_keys, self.new_values = {}, {}

    def update(self, key_states, value_states, layer_idx, *args, **kwargs):
        self.poll()
        if layer_idx in self.new_keys:
            raise errors.Refused(f"layer {layer_idx} gives keys twice")
        self.new_keys[layer_idx], self.new_values[layer_idx] = key_states, value_states
        if layer_idx == self.last:
            raise Enough
        if self.tokens:
            key_states = torch.cat((self.given[0][layer_idx], key_states), 2)
            value_states = torch.cat((self.given[1][layer_idx], value_states), 2)
        return key_states, value_states

    def get_seq_length(self, layer_idx=0, *args, **kwargs):
        return self.tokens

    def get_query_offset(self, layer_idx=0):
        return self.tokens

    def get_mask_sizes(self, query_length, layer_idx=0):
        rows = query_length if isinstance(query_length, int) else query_length.shape[0]
        return self.tokens + rows, 0


def body_of(model):
    """The model without what makes logits. Some do not say where it is."""
    found = (model.base_model, *(getattr(model, name, None) for name in ("model", "transformer")))
    body = next((b for b in found if isinstance(b, torch.nn.Module) and b is not model), None)
    if body is None:
        raise errors.Refused("it has no part that gives hidden states")
    return body


class Run:
    """What a pass gives: of each layer K and V of the new rows, logits of the rows that want them,
    hidden states behind the final norm."""

    def __init__(self, cache, logits=None, hidden=None):
        self.keys = [cache.new_keys[i] for i in sorted(cache.new_keys)]
        self.values = [cache.new_values[i] for i in sorted(cache.new_values)]
        self.logits, self.hidden = logits, hidden


class Passes:
    def __init__(self, model):
        self.model, self.body = model, body_of(model)
        self.config = model.config.get_text_config(decoder=True)
        self.dtype = model.dtype
        self.device = model.get_input_embeddings().weight.device
        accepted = inspect.signature(model.forward).parameters
        self.takes_positions = "position_ids" in accepted
        self.takes_rows = "logits_to_keep" in accepted
        self.alibi = next((name for name in ("build_alibi_tensor", "build_mpt_alibi_tensor")
                           if hasattr(self.body, name)), None)
        # Several sequences in one pass: MPT has one bias for all.
        self.batches = self.alibi != "build_mpt_alibi_tensor"
        self.window, self.kinds = self.masks_of()
        self.check()

    def check(self):
        how = getattr(self.config, "_attn_implementation", "eager")
        if how not in ("eager", "sdpa"):
            raise errors.Refused(f"attention by {how} takes no mask by position: load the model "
                                 "with attn_implementation='sdpa'")
        if self.model.training:
            raise errors.Refused("the model is in training mode: call model.eval()")
        if getattr(self.config, "is_encoder_decoder", False):
            raise errors.Refused("the model has an encoder: states of its decoder depend on it")
        if not self.takes_positions and not self.alibi:
            raise errors.Refused("its forward function takes no position_ids")
        if getattr(self.config, "alibi", False) is True and not self.alibi:
            raise errors.Refused("its ALiBi counts keys and knows no positions")
        for name in FOREIGN_MASKS:
            if getattr(self.config, name, None):
                raise errors.Refused(f"it has masks of another kind ({name})")

    def masks_of(self):
        """(window, kinds of the layers' masks)."""
        window = getattr(self.config, "sliding_window", None)
        if getattr(self.config, "use_sliding_window", True) is False:
            window = None
        kinds = set(getattr(self.config, "layer_types", None)
                    or [KINDS[1] if window else KINDS[0]])
        if not kinds <= set(KINDS):
            raise errors.Refused(f"it has layers of another kind: {', '.join(sorted(kinds))}")
        return window, kinds

    # ---- Masks

    def mask(self, visible, queries, keys):
        """visible [batch, queries, keys]; queries, keys: positions [batch, …]. Additive, of each
        kind of layers if they differ."""
        near = visible
        if self.window:
            near = visible & (queries[:, :, None] - keys[:, None, :] < self.window)
        masks = {kind: self.additive(near if kind == KINDS[1] else visible)
                 for kind in self.kinds}
        return masks if len(masks) > 1 else masks.popitem()[1]

    def additive(self, visible):
        if self.alibi == "build_mpt_alibi_tensor":  # MPT wants what is hidden
            return ~visible[:, None]
        hidden = torch.finfo(self.dtype).min
        zero = torch.zeros((), dtype=self.dtype, device=visible.device)
        return torch.where(visible[:, None], zero, hidden)

    @contextlib.contextmanager
    def biased(self, keys):
        """ALiBi by position of the keys [batch, keys] in place of their number. A softmax does not
        see what is added to all of a row, so biases are those of the distance to the last key."""
        if not self.alibi:
            yield
            return
        build = getattr(self.body, self.alibi)
        apart = (keys - keys.max(1, keepdim=True).values).to(torch.float32)

        def bloom(mask, heads, dtype):
            ones = torch.ones((1, 2), dtype=torch.long, device=keys.device)
            two = build(ones, heads, torch.float32)  # [heads, 1, keys]
            slopes = (two[:, :, 1] - two[:, :, 0]).flatten()
            return (slopes[None, :, None] * apart[:, None, :]).flatten(0, 1)[:, None].to(dtype)

        def mpt(heads, length, *args, **kwargs):
            three = build(heads, 3, *args, **kwargs).float()
            slopes = (three[..., 2] - three[..., 1]).flatten()
            return (slopes[:, None] * apart)[:, None].to(three.dtype)

        setattr(self.body, self.alibi, bloom if self.alibi == "build_alibi_tensor" else mpt)
        try:
            yield
        finally:
            delattr(self.body, self.alibi)

    # ---- Passes

    def call(self, cache, ids, positions, keys, visible, want=None, hidden=False):
        """ids, positions [batch, rows]; keys: positions [batch, all]; visible [batch, rows, all].
        want: rows whose logits are wanted, of each sequence the same."""
        args = {"input_ids": ids, "attention_mask": self.mask(visible, positions, keys),
                "past_key_values": cache, "use_cache": True}
        logits = last = None
        if self.takes_positions:
            args["position_ids"] = positions
        with torch.no_grad(), self.biased(keys):
            try:
                if want:
                    rows = torch.tensor(want, device=self.device)
                    if self.takes_rows:
                        logits = self.model(**args, logits_to_keep=rows).logits
                    else:
                        logits = self.model(**args).logits[:, rows]
                else:
                    out = self.body(**args)
                    last = out.last_hidden_state if hidden else None
            except Enough:
                pass
        return Run(cache, logits, last)

    def rows(self, sequence, ids, positions, visibility_all=False, want=(), hidden=False,
             poll=lambda: None, last_layer=None):
        """Computes rows of one sequence, block by block. Returns (keys, values, outputs [want]):
        keys, values of each layer [heads, rows, dim]."""
        ids = torch.tensor(ids, dtype=torch.long, device=self.device)
        positions = torch.tensor(positions, dtype=torch.long, device=self.device)
        given = (sequence.keys, sequence.values) if len(sequence) else None
        keys, outputs, runs = sequence.positions, [], []
        for first in range(0, len(ids), ROWS):
            block = slice(first, first + ROWS)
            here, wanted = positions[block], [w - first for w in want if 0 <= w - first < ROWS]
            every = torch.cat((keys, here))
            if visibility_all:
                order = torch.arange(len(every), device=self.device)
                visible = order[None, :] <= order[len(keys):, None]
            else:
                visible = every[None, :] <= here[:, None]
            cache = Given(*(given or (None, None)), tokens=len(keys), poll=poll,
                          last_layer=last_layer)
            run = self.call(cache, ids[None, block], here[None], every[None], visible[None],
                            None if hidden else wanted, hidden and bool(wanted))
            if run.logits is not None:
                outputs.append(run.logits[0])
            if run.hidden is not None:
                outputs.append(run.hidden[0, wanted])
            runs.append(run)
            if first + ROWS < len(ids):
                joined = [run.keys, run.values] if given is None else [
                    [torch.cat(pair, 2) for pair in zip(*both)]
                    for both in zip(given, (run.keys, run.values))]
                given = tuple(joined)
            keys = every
        join = (lambda name: [torch.cat(parts, 2)[0] if len(parts) > 1 else parts[0][0]
                              for parts in zip(*[getattr(r, name) for r in runs])])
        return join("keys"), join("values"), outputs

    def one_row_each(self, sequences, ids, positions, visibility_all=False, want=False,
                     hidden=False, poll=lambda: None):
        """Computes one row of each of several sequences in one pass. Shorter ones are padded with
        keys that nobody sees. Returns [(keys, values, output)]."""
        longest = max(len(s) for s in sequences)
        ids = torch.tensor(ids, dtype=torch.long, device=self.device)[:, None]
        positions = torch.tensor(positions, dtype=torch.long, device=self.device)[:, None]
        keys = torch.zeros((len(sequences), longest + 1), dtype=torch.long, device=self.device)
        visible = torch.zeros(keys.shape, dtype=torch.bool, device=self.device)
        for i, s in enumerate(sequences):
            keys[i, :len(s)] = s.positions
            visible[i, :len(s)] = True if visibility_all else s.positions <= positions[i]
        keys[:, longest:], visible[:, longest] = positions, True
        given = [self.padded(sequences, name, longest) for name in ("keys", "values")]
        run = self.call(Given(*given, tokens=longest, poll=poll), ids, positions, keys,
                        visible[:, None], [0] if want and not hidden else None, hidden)
        out = run.logits if run.logits is not None else run.hidden
        return [([k[i] for k in run.keys], [v[i] for v in run.values],
                 None if out is None else out[i, 0]) for i in range(len(sequences))]

    @staticmethod
    def padded(sequences, name, longest):
        """Of each layer [sequences, heads, longest, dim]."""
        layers = []
        example = next((getattr(s, name) for s in sequences if len(s)), None)
        for number, like in enumerate(example or []):
            out = like.new_zeros((len(sequences), like.shape[1], longest, like.shape[3]))
            for i, s in enumerate(sequences):
                if len(s):
                    out[i, :, :len(s)] = getattr(s, name)[number][0]
            layers.append(out)
        return layers
