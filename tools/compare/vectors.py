#!/usr/bin/env python3
"""Writes the vectors of test/golden/models: what small models of every family must compute.

    vectors.py OUT [--only REGEX]

For each model of vector_models.py it writes OUT/NAME.json (configuration, names, shapes and
distribution of the weights, the cases) and OUT/NAME.safetensors (inputs and results). Weights are
not written: they follow from their names (seeded.py), and test/support/write_models.c makes the
same. The results are those of transformers in double precision, rounded to fp32 at the end. It
is given positions and masks for the cases in which tokens do not stand one after the other, and
the frequencies of one length where these depend on the length. Versions that wrote the files:
torch 2.15.0 (CPU), transformers 5.23.0, numpy 2.4.6, safetensors 0.8.0, from PyPI.

Cases: `plain`, a run and how it goes on; `modular_*`, three modules encoded alone at places with
holes between them, then new tokens that see all modules (`all`) or what stands before them (`pos`);
`joint`, the same tokens in one run; `shared`, the chains of a tree; `relocate`, one module at two
places; `cross`, a run that leaves the length of training, with the frequencies of its end
(`pinned`), of each length (`fresh`), or as transformers goes on (`cached`); `mapreuse`, a run with
the attention maps of another; of encoders `plain` and `padded`.
"""
import argparse
import contextlib
import copy
import inspect
import json
import math
import os
import re
import sys
import tempfile
import types

import torch
import transformers
from safetensors import safe_open
from safetensors.torch import save_file
from transformers import DynamicCache

import seeded
from variant_families import FAMILIES
from variants import double, legacy, spread
from vector_models import MODELS, SMALL

OWN = ("_cases", "_legacy", "_seed")  # keys that are not of the model
PLAIN, CROSS, ORIGINAL, LENGTH = 24, 40, 36, 66
MODULES = ((2, 10), (20, 9), (41, 7))  # first position, tokens
NEW = [12, 13, 14, 29, 30, 62, 63, 64, 65]
ENDS = 4  # of NEW, behind all modules
MARGIN = 0.02  # between the best two logits of a greedy answer


# ------------------------------------------------------------------ models


class DeepseekFirst(transformers.LlamaForCausalLM):
    """The first DeepSeek with experts, which transformers does not have: Llama's attention, with
    the experts of the second DeepSeek behind the first layer."""

    def __init__(self, config):
        super().__init__(config)
        from transformers.models.deepseek_v2 import modeling_deepseek_v2 as second
        experts = transformers.DeepseekV2Config(**{
            k: getattr(config, k) for k in ("hidden_size", "moe_intermediate_size",
                                            "n_routed_experts", "n_shared_experts", "hidden_act",
                                            "num_experts_per_tok", "norm_topk_prob")})
        experts._experts_implementation = "eager"
        for layer in self.model.layers[config.first_k_dense_replace:]:
            layer.mlp = second.DeepseekV2Moe(experts)
        self.post_init()


DEEPSEEK = dict(n_routed_experts=8, n_shared_experts=2, num_experts_per_tok=3, norm_topk_prob=False,
                moe_intermediate_size=12, first_k_dense_replace=1, num_key_value_heads=4)


def class_and_keys(name):
    family, own = MODELS[name]
    if family == "deepseek":
        keys = dict(SMALL, pad_token_id=0, **dict(DEEPSEEK, **own))
        return DeepseekFirst, {k: v for k, v in keys.items() if k not in OWN}, family
    base = copy.deepcopy(FAMILIES[family]["base"])
    cls = getattr(transformers, FAMILIES[family]["class"])
    keys = dict(base, **{k: v for k, v in SMALL.items() if k in base})
    keys.update(own)
    return cls, {k: v for k, v in keys.items() if k not in OWN}, family


def split_experts(name, shape):
    """The names that files of the first DeepSeek have: a matrix for each expert."""
    if name.endswith("mlp.experts.gate_up_proj"):
        for expert in range(shape[0]):
            for part in ("gate_proj", "up_proj"):
                yield (name.replace("gate_up_proj", f"{expert}.{part}.weight"),
                       [shape[1] // 2, shape[2]])
    elif name.endswith("mlp.experts.down_proj"):
        for expert in range(shape[0]):
            yield name.replace("down_proj", f"{expert}.down_proj.weight"), list(shape[1:])
    else:
        yield name, list(shape)


def shapes_in_file(model, folder):
    if isinstance(model, DeepseekFirst):
        return dict(pair for name, p in model.state_dict().items()
                    for pair in split_experts(name, p.shape))
    model.save_pretrained(folder)
    with safe_open(folder + "/model.safetensors", "pt") as file:
        return {name: list(file.get_slice(name).get_shape()) for name in file.keys()}


def first_deepseek(cls, config, weights):
    model = cls(config)
    state = {}
    for name in model.state_dict():
        for part, number in (("gate_up_proj", 2), ("down_proj", 1)):
            if name.endswith("mlp.experts." + part):
                one = (lambda e, p: weights[name.replace(part, f"{e}.{p}.weight")])
                state[name] = torch.stack([torch.cat(
                    [one(e, p) for p in (("gate_proj", "up_proj") if number == 2 else (part,))])
                    for e in range(config.n_routed_experts)])
        state.setdefault(name, weights.get(name))
    model.load_state_dict(state)
    return model


def described(name):
    """(model in double precision, description for the JSON file)."""
    cls, keys, family = class_and_keys(name)
    seed = name + MODELS[name][1].get("_seed", "")
    config = cls.config_class(**keys)
    config._attn_implementation = "eager"
    with tempfile.TemporaryDirectory() as folder:
        shapes = shapes_in_file(cls(config), folder)
        tensors = [[n, s, *spread(n, s, family, 0.4, 1.2)] for n, s in sorted(shapes.items())]
        weights = {n: seeded.values(f"{seed}/{n}", s, scale, shift)
                   for n, s, scale, shift in tensors}
        digest = seeded.digest(weights.values())
        weights = {n: torch.from_numpy(w) for n, w in weights.items()}
        if cls is DeepseekFirst:
            model = first_deepseek(cls, config, weights)
            saved = dict(config.to_dict(), model_type="deepseek",
                         architectures=["DeepseekForCausalLM"], scoring_func="softmax",
                         moe_layer_freq=1)
        else:
            save_file(weights, folder + "/model.safetensors", metadata={"format": "pt"})
            model = cls.from_pretrained(folder, attn_implementation="eager", dtype=torch.float32,
                                        experts_implementation="eager")
            saved = json.load(open(folder + "/config.json"))
    for key in ("transformers_version", "dtype", "_name_or_path"):
        saved.pop(key, None)
    description = {"config": saved, "seed": seed, "tensors": tensors, "digest": digest}
    if "text_config" not in saved and MODELS[name][1].get("_legacy", True):
        description["legacy"] = legacy(copy.deepcopy(saved))
    if "alibi" in saved and saved["alibi"] is True:
        model.config._attn_implementation = "sdpa"  # falcon's eager path adds the bias twice
    exact = type(model)(model.config).eval().double()
    exact.load_state_dict(model.state_dict())
    return exact, description


# ------------------------------------------------------------------ runs with positions and masks


class Run:
    """What a pass gives: hidden rows by layer, K and V by layer, logits, …"""


class Decoder:
    def __init__(self, model):
        self.model, self.config = model, getattr(model.config, "text_config", model.config)
        self.body = next(m for m in model.modules() if hasattr(m, "rotary_emb") or type(
            m).__name__ in ("BloomModel", "MptModel", "OPTDecoder", "GPT2Model"))
        self.layers = next(getattr(self.body, n) for n in ("layers", "h", "blocks")
                           if hasattr(self.body, n))
        self.latent = hasattr(self.layers[0], "self_attn") and hasattr(
            self.layers[0].self_attn, "kv_a_layernorm")
        self.mapping = "causal_mask_mapping := attention_mask" in inspect.getsource(
            type(self.body).forward)

    def pin(self, length):
        """Frequencies of this length from now on, whatever the positions."""
        rotary = getattr(self.body, "rotary_emb", None)
        kind = getattr(rotary, "rope_type", None)
        if kind in ("dynamic", "longrope", "pinned"):
            rotary.rope_type = self.config.rope_parameters["rope_type"]
            rotary(torch.zeros(1, 1, 1), torch.tensor([[0]]))  # forgets an earlier length
            rotary(torch.zeros(1, 1, 1), torch.tensor([[length - 1]]))
            rotary.rope_type = "pinned"

    def kinds(self):
        kinds = getattr(self.config, "layer_types", None)
        if kinds is None:
            window = getattr(self.config, "sliding_window", None)
            kinds = ["sliding_attention" if window else "full_attention"] * len(self.layers)
        return kinds

    def mask(self, visible, q, k):
        """Additive masks for each kind of layer. visible: [queries, keys]."""
        masks, apart = {}, q[:, None] - k[None, :]
        for kind in set(self.kinds()):
            seen = visible
            if kind == "sliding_attention":
                seen = seen & (apart < self.config.sliding_window)
            if kind == "chunked_attention":
                size = self.config.attention_chunk_size
                seen = seen & ((q // size)[:, None] == (k // size)[None, :])
            least = torch.finfo(torch.float64).min
            masks[kind] = torch.where(seen, 0.0, least).double()[None, None]
        if type(self.body).__name__ == "MptModel":
            masks = {kind: m != 0 for kind, m in masks.items()}
        return masks if self.mapping else next(iter(masks.values()))

    @contextlib.contextmanager
    def biased(self, keys, positions, past):
        """ALiBi and the temperature of Llama 4 by positions in place of slots."""
        undo = []

        def patch(owner, name, value):
            undo.append((owner, name, getattr(owner, name)))
            setattr(owner, name, value)

        kind, heads = type(self.body).__name__, getattr(self.config, "n_head", None)
        home = sys.modules[type(self.body).__module__]
        if kind == "BloomModel":
            slopes = home._get_alibi_slopes(heads, "cpu").double()
            patch(self.body, "build_alibi_tensor",
                  lambda mask, n, dtype: slopes[:, None, None] * keys)
        if kind == "MptModel":
            whole = home.build_mpt_alibi_tensor(self.body.num_heads, 3).double()
            patch(self.body, "build_mpt_alibi_tensor",
                  lambda *a, **k: (whole[:, :, 2:] - whole[:, :, 1:2]) * keys)
        if kind == "FalconModel" and self.body.use_alibi:
            one = home.build_alibi_tensor(torch.ones(1, 2).long(), self.body.num_heads,
                                          torch.float64)
            patch(home, "build_alibi_tensor", lambda mask, n, dtype: one[:, :, 1:] * keys)
        if kind == "Llama4TextModel":
            changed = types.SimpleNamespace(**vars(torch))
            changed.arange = lambda *a, **k: positions - past
            patch(home, "torch", changed)
        try:
            yield
        finally:
            for owner, name, value in reversed(undo):
                setattr(owner, name, value)

    def __call__(self, ids, positions, visible=None, cache=None, keys=()):
        """One pass. cache, keys: what is there already, and its positions. visible: [new tokens,
        all keys]; without it, causal."""
        n, past, run, hooks = len(ids), len(keys), Run(), []
        positions = torch.as_tensor(positions)
        every = torch.cat([torch.as_tensor(keys).long(), positions])
        if visible is None:
            visible = torch.arange(past + n)[None, :] <= torch.arange(past, past + n)[:, None]
        run.cache = cache if cache is not None else DynamicCache()
        run.hidden, run.parts = [None] * (len(self.layers) + 1), {}

        def before(index):
            def look(module, args, kwargs):
                run.hidden[index] = (args[0] if args else kwargs["hidden_states"])[0]
            return look

        def after(module, args, out):
            run.hidden[-1] = (out if torch.is_tensor(out) else out[0])[0]

        for i, layer in enumerate(self.layers):
            hooks.append(layer.register_forward_pre_hook(before(i), with_kwargs=True))
            if self.latent:
                hooks.append(layer.self_attn.kv_a_proj_with_mqa.register_forward_hook(
                    lambda m, a, out: run.parts.setdefault("raw", []).append(out[0])))
        hooks.append(self.layers[-1].register_forward_hook(after))
        head = self.model.get_output_embeddings()
        hooks.append(head.register_forward_pre_hook(
            lambda m, args: setattr(run, "final", args[0][0])))
        with self.biased(every, positions, past):
            out = self.model(torch.as_tensor(ids)[None], position_ids=positions[None],
                             attention_mask=self.mask(visible, positions, every),
                             past_key_values=run.cache, use_cache=True)
        for hook in hooks:
            hook.remove()
        run.logits, run.keys = out.logits[0], every
        return run

    def latents(self, run, first=0):
        """Latents and the part of the keys that turns, of the cache; in the order of the file."""
        turned = [self.in_order(layer.values[0, 0, first:]) for layer in run.cache.layers]
        return torch.stack([layer.keys[0, 0, first:] for layer in run.cache.layers]), torch.stack(
            turned)

    def in_order(self, rotary):
        if getattr(self.config, "rope_interleave", False):  # even dimensions stand first here
            half = rotary.shape[-1] // 2
            return torch.stack([rotary[..., :half], rotary[..., half:]], -1).flatten(-2)
        return rotary

    def states(self, run, first=0):
        """K and V of all layers: [layer, head, token, dim]."""
        k, v = [], []
        for layer, cached in zip(self.layers, run.cache.layers):
            keys, values = cached.keys, cached.values
            if self.latent:
                plain = self.config.qk_nope_head_dim
                keys, values = layer.self_attn.expand_kv(keys, values)
                keys = torch.cat([keys[..., :plain], self.in_order(keys[..., plain:])], -1)
            each = keys.shape[1] // self.kv_heads(keys.shape[1])
            k.append(keys[0, ::each, first:])
            v.append(values[0, ::each, first:])
        return torch.stack(k), torch.stack(v)

    def kv_heads(self, cached):
        """Falcon keeps a copy for each query head."""
        copies = getattr(self.config, "new_decoder_architecture", False)
        return self.config.num_kv_heads if copies else cached

    def greedy(self, run, count, rule="causal"):
        """Goes on with the best token; None if two are too near each other."""
        out, logits, position = [], run.logits[-1], int(run.keys[-1])
        for _ in range(count):
            best = logits.topk(2)
            if best.values[0] - best.values[1] < MARGIN:
                return None
            out.append(int(best.indices[0]))
            position += 1
            keys = run.keys
            every = torch.cat([keys, torch.tensor([position])])
            visible = torch.ones(1, len(every)).bool() if rule != "pos" else every[None] <= position
            run = self([out[-1]], [position], visible, run.cache, keys)
            logits = run.logits[-1]
        return out


def joined(runs):
    """One cache with the states of several."""
    out = DynamicCache()
    for i in range(len(runs[0].cache.layers)):
        out.update(torch.cat([r.cache.layers[i].keys for r in runs], -2),
                   torch.cat([r.cache.layers[i].values for r in runs], -2), i)
    return out


# ------------------------------------------------------------------ cases


class Again(Exception):
    """Two tokens of an answer are too near each other: other inputs are needed."""


class Cases:
    def __init__(self, decoder, name, attempt, vocab):
        self.d, self.out, self.info = decoder, {}, {"cases": {}, "inputs": {}}
        self.random = torch.Generator().manual_seed(
            seeded.name_seed(name + "/inputs") % 2**40 + attempt)
        self.vocab = vocab

    def ids(self, count):
        return torch.randint(3, self.vocab, (count,), generator=self.random).tolist()

    def case(self, name, length):
        self.info["cases"][name] = {"rope_len": length}
        self.d.pin(length)

    def put(self, name, value):
        if value is None:
            raise Again(name)
        self.out[name] = value if torch.is_tensor(value) else torch.tensor(value)

    def put_states(self, prefix, run, first=0):
        k, v = self.d.states(run, first)
        self.put(prefix + "/k", k)
        self.put(prefix + "/v", v)

    def plain(self, count):
        ids, positions = self.ids(count), list(range(count))
        self.case("plain", count)
        run = self.d(ids, positions)
        self.put("plain/ids", ids)
        self.put("plain/pos", positions)
        self.put("plain/logits", run.logits)
        self.put("plain/hidden", torch.stack(run.hidden))
        if run.final.shape[-1] == run.hidden[0].shape[-1]:
            self.put("plain/final", run.final)
        self.put_states("plain", run)
        if self.d.latent:
            rank = self.d.config.kv_lora_rank
            raw = torch.stack(run.parts["raw"])
            latent, turned = self.d.latents(run)
            self.put("plain/latent_raw", raw[..., :rank])
            self.put("plain/latent", latent)
            self.put("plain/k_rope_pre", raw[..., rank:])
            self.put("plain/k_rope", turned)
        self.put("plain/greedy", self.d.greedy(run, 8))

    def modular(self):
        parts = [(self.ids(n), list(range(at, at + n))) for at, n in MODULES]
        new = self.ids(len(NEW))
        for m, (ids, positions) in enumerate(parts):
            self.put(f"modular/m{m}/ids", ids)
            self.put(f"modular/m{m}/pos", positions)
        self.put("modular/new/ids", new)
        self.put("modular/new/pos", NEW)
        for rule in ("all", "pos"):
            name = "modular_" + rule
            self.case(name, LENGTH)
            runs = [self.d(*part) for part in parts]
            keys = torch.cat([r.keys for r in runs])
            at, count, place = torch.tensor(NEW), len(NEW), torch.arange(len(NEW))
            if rule == "all":
                visible = torch.cat([torch.ones(count, len(keys)).bool(),
                                     place[None] <= place[:, None]], 1)
                for m, run in enumerate(runs):
                    self.put_states(f"modular/m{m}", run)
                    self.put(f"modular/m{m}/hidden_last", run.hidden[-1])
            else:
                visible = torch.cat([keys, at])[None] <= at[:, None]
            run = self.d(new, NEW, visible, joined(runs), keys)
            self.put(name + "/logits", run.logits)
            self.put_states(name, run, len(keys))
            self.put(name + "/greedy", self.d.greedy(run, 4, rule))
        together = sorted((p, i) for ids, places in parts + [(new, NEW)]
                          for p, i in zip(places, ids))
        ids, positions = [i for _, i in together], [p for p, _ in together]
        self.case("joint", LENGTH)
        self.put("joint/ids", ids)
        self.put("joint/pos", positions)
        self.put("joint/logits", self.d(ids, positions).logits[-ENDS:])

    def shared(self):
        root, middles = self.ids(32), [self.ids(8), self.ids(5)]
        parents, leaves = [0, 1, 0, 1, 0], [self.ids(n) for n in (1, 4, 8, 2, 6)]
        self.case("shared", 48)
        self.info["inputs"]["shared"] = {"leaves": [{"parent": f"mid{p}"} for p in parents]}
        self.put("shared/root_ids", root)
        for m, ids in enumerate(middles):
            self.put(f"shared/mid{m}_ids", ids)
        logits, final = [], []
        for i, (parent, leaf) in enumerate(zip(parents, leaves)):
            self.put(f"shared/leaf{i}_ids", leaf)
            chain = root + middles[parent] + leaf
            run = self.d(chain, range(len(chain)))
            logits.append(run.logits[-1])
            final.append(run.final[-1])
        self.put("shared/logits", torch.stack(logits))
        if final[0].shape[-1] == run.hidden[0].shape[-1]:
            self.put("shared/final", torch.stack(final))

    def relocate(self):
        ids, places = self.ids(9), (5, 40)
        self.case("relocate", LENGTH)
        self.info["inputs"]["relocate"] = {"from_pos": places[0], "to_pos": places[1]}
        runs = [self.d(ids, range(p, p + len(ids))) for p in places]
        keys = [self.d.latents(r)[1] if self.d.latent else self.d.states(r)[0] for r in runs]
        self.put("relocate/ids", ids)
        self.put("relocate/k_from", keys[0])
        self.put("relocate/k_fresh", keys[1])
        self.put("relocate/v", self.d.states(runs[0])[1])
        self.put("relocate/hidden_last", runs[0].hidden[-1])

    def cross(self):
        first = CROSS - 8
        ids = self.out["plain/ids"].tolist() + self.ids(8)
        self.case("cross", CROSS)
        self.put("cross/ids", ids)
        self.put("cross/logits_pinned", self.d(ids, range(CROSS)).logits[first - 1:])
        self.put("cross/greedy_pinned", self.d.greedy(self.d(ids[:first], range(first)), 8))
        rows, kept = [], None
        for n in range(first, CROSS + 1):
            self.d.pin(n)
            run = self.d(ids[:n], range(n))
            rows.append(run.logits[-1])
            if kept is None:
                kept, old = run, [run.logits[-1]]
            else:
                kept = self.d(ids[n - 1:n], [n - 1], None, kept.cache, kept.keys)
                old.append(kept.logits[-1])
        self.put("cross/logits_fresh", torch.stack(rows))
        if self.d.config.rope_parameters["rope_type"] == "dynamic":
            self.put("cross/logits_cached", torch.stack(old))
        for n in range(first, CROSS + 1):  # answers do not end by chance
            for length, more in ((n, 2), (ORIGINAL, 5), (CROSS, 8))[:3 if n == first else 1]:
                self.d.pin(length)
                if min(self.d.greedy(self.d(ids[:n], range(n)), more) or [0]) < 3:
                    raise Again("cross")
        answer = list(ids[:first])
        for n in range(first, CROSS):
            self.d.pin(n)
            best = self.d(answer, range(n)).logits[-1].topk(2)
            if best.values[0] - best.values[1] < MARGIN:
                raise Again("cross")
            answer.append(int(best.indices[0]))
        if min(answer) < 3:
            raise Again("cross")
        self.put("cross/greedy_fresh", answer[first:])


# ------------------------------------------------------------------ given maps


@contextlib.contextmanager
def softmax_with(maps):
    """The attention of layer i is maps[i] where that is not None."""
    plain, layer = torch.nn.functional.softmax, iter(range(len(maps)))
    several = torch.softmax

    def given(scores, *args, **kwargs):
        weights = plain(scores, *args, **kwargs)
        if scores.ndim != 4 or scores.shape[-2] != maps[-1].shape[-2]:
            return weights
        wanted = maps[next(layer)]
        if wanted is None:
            return weights
        out = torch.zeros_like(weights)  # gpt-oss has a column for its sinks
        out[..., :wanted.shape[-1]] = wanted
        return out

    torch.nn.functional.softmax = torch.softmax = given
    try:
        yield
    finally:
        torch.nn.functional.softmax, torch.softmax = plain, several


def map_reuse(model, cases, call, hidden_of):
    x, y = cases.ids(PLAIN), cases.ids(PLAIN)
    cases.info["cases"]["mapreuse"] = {}
    cases.put("mapreuse/x_ids", x)
    cases.put("mapreuse/y_ids", y)
    first = call(x, output_attentions=True)
    with softmax_with(first.attentions):
        second = call(y)
    cases.put("mapreuse/x_probs", torch.cat(first.attentions))
    cases.put("mapreuse/x_logits", first.logits[0])
    cases.put("mapreuse/y_logits_reuse", second.logits[0])
    cases.put("mapreuse/y_hidden_reuse", hidden_of(second))


# ------------------------------------------------------------------ encoders


class Encoder:
    def __init__(self, model):
        self.model, self.config = model, model.config
        self.last = model.classifier.out_proj if hasattr(model.classifier, "out_proj") else (
            model.classifier)

    def __call__(self, ids, **kwargs):
        kept = {}
        hook = self.last.register_forward_pre_hook(
            lambda m, args: kept.update(pooled=args[0][0]))
        out = self.model(torch.as_tensor(ids)[None], output_hidden_states=True, **kwargs)
        hook.remove()
        out.pooled = kept["pooled"]
        return out

    def hidden(self, out, count=None):
        return torch.stack([h[0, :count] for h in out.hidden_states])

    def values(self, ids, **kwargs):
        """V of every layer: what its attention gives with the identity as its map."""
        layers, heads = self.config.num_hidden_layers, self.config.num_attention_heads
        out = []
        for layer in range(layers):
            attention = self.model.base_model.encoder.layer[layer].attention.self
            kept = []
            hook = attention.register_forward_hook(
                lambda m, a, o: kept.append(o[0] if isinstance(o, tuple) else o))
            maps = [None] * layers + [torch.eye(len(ids)).double()]
            maps[layer] = torch.eye(len(ids)).double().expand(1, heads, -1, -1)
            with softmax_with(maps):
                self(ids, **kwargs)
            hook.remove()
            out.append(kept[0][0].view(len(ids), heads, -1).transpose(0, 1))
        return torch.stack(out)


def encoder_cases(model, cases):
    e = Encoder(model)
    ids, padded, count = cases.ids(PLAIN), cases.ids(PLAIN), PLAIN - 9
    types = [0] * 10 + [1 if e.config.type_vocab_size > 1 else 0] * (PLAIN - 10)
    kwargs = {"token_type_ids": torch.tensor([types])} if e.config.type_vocab_size else {}
    padded[count:] = [e.config.pad_token_id] * (PLAIN - count)
    mask = [1] * count + [0] * (PLAIN - count)
    cases.put("plain/ids", ids)
    cases.put("plain/type_ids", types)
    cases.put("padded/ids", padded)
    cases.put("padded/mask", mask)
    for name, text, rows, more in (("plain", ids, PLAIN, {}), ("padded", padded, count, {
            "attention_mask": torch.tensor([mask])})):
        cases.info["cases"][name] = {}
        out = e(text, output_attentions=True, **kwargs, **more)
        cases.put(name + "/hidden", e.hidden(out, rows))
        cases.put(name + "/probs", torch.cat(out.attentions)[:, :, :rows])
        cases.put(name + "/pooled", out.pooled)
        cases.put(name + "/logits", out.logits[0])
    cases.put("plain/v", e.values(ids, **kwargs))
    map_reuse(model, cases, e, e.hidden)


# ------------------------------------------------------------------ all


def decoder_cases(model, cases, name, config):
    d = cases.d
    wanted = MODELS[name][1].get("_cases", ())
    cases.plain(CROSS - 8 if "cross" in wanted else PLAIN)
    if "text_config" in config:
        return
    cases.modular()
    cases.shared()
    rotary = hasattr(d.body, "rotary_emb") and not getattr(d.config, "alibi", False)
    if rotary and name not in ("llama4", "ministral3"):  # whose keys or queries know their place
        cases.relocate()
    if "cross" in wanted:
        cases.cross()
    if "mapreuse" in wanted:
        def call(ids, **kwargs):
            hidden = []
            hooks = [layer.register_forward_pre_hook(
                lambda m, a, k: hidden.append((a[0] if a else k["hidden_states"])[0]),
                with_kwargs=True) for layer in d.layers]
            hooks.append(d.layers[-1].register_forward_hook(
                lambda m, a, o: hidden.append((o if torch.is_tensor(o) else o[0])[0])))
            out = model(torch.as_tensor(ids)[None], use_cache=False, **kwargs)
            for hook in hooks:
                hook.remove()
            out.rows = torch.stack(hidden)
            return out
        map_reuse(model, cases, call, lambda out: out.rows)


def rounded(value):
    if value.dtype == torch.int64:
        return value.int()
    if not bool(value.isfinite().all()):
        raise ValueError("not finite")
    return value.to(torch.float32).contiguous()


def write(name, out):
    model, description = described(name)
    vocab = getattr(model.config, "text_config", model.config).vocab_size
    encoder = hasattr(model, "classifier")
    for attempt in range(1000):
        cases = Cases(None if encoder else Decoder(model), name, attempt, vocab)
        try:
            with double(), torch.no_grad():
                if encoder:
                    encoder_cases(model, cases)
                else:
                    decoder_cases(model, cases, name, description["config"])
            break
        except Again:
            continue
    else:
        sys.exit(f"{name}: no inputs with clear answers")
    description.update(cases.info)
    # torch.float32 is what it says again
    save_file({k: rounded(v) for k, v in sorted(cases.out.items())}, f"{out}/{name}.safetensors")
    with open(f"{out}/{name}.json", "w") as file:
        file.write(json.dumps(description, sort_keys=False, separators=(",", ":")) + "\n")
    top = {k: float(v.abs().max()) for k, v in cases.out.items() if k.endswith("logits")}
    print(name, f"{os.path.getsize(f'{out}/{name}.safetensors')} bytes, attempt {attempt},", top)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("out")
    parser.add_argument("--only", default=".*")
    args = parser.parse_args()
    for name in MODELS:
        if re.fullmatch(args.only, name):
            write(name, args.out)


if __name__ == "__main__":
    main()
