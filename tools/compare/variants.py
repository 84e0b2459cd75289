#!/usr/bin/env python3
"""Compares promptcache with transformers on many configurations of every family of models.

    variants.py --bench PROMPTCACHE_BENCH --work DIR [--only REGEX] [--mixed N]

For each family it writes small models with random weights: one for each value of each key that
changes the forward pass, and N with values of several keys drawn together. Each is saved in three
forms: as transformers saves it, with the older spelling of the RoPE keys, and without the keys
that are at their defaults (and without layer_types). transformers loads each folder and computes
the logits of 26 tokens in double precision; `promptcache-bench check` compares them. A line tells
of each folder that differs, that is refused, or that transformers itself cannot run. The status is
1 if a folder differs. Needs torch and transformers (5.23) from PyPI; nothing else is downloaded.
The families and their keys are in variant_families.py.
"""
import argparse
import contextlib
import copy
import json
import math
import os
import random
import re
import shutil
import subprocess
import sys
import zlib

os.environ["HF_HUB_OFFLINE"] = "1"
import torch
import transformers
from safetensors.torch import save_file
from transformers.utils import logging

from variant_families import FAMILIES

logging.set_verbosity_error()
logging.disable_progress_bar()
torch.set_num_threads(1)
TOKENS = 26
LEGACY_ROPE = {"gpt_neox": ("rotary_emb_base", "rotary_pct")}
SMALL = ("embed", "wte", "wpe")  # by default so small that the epsilon of a norm counts
DERIVED = ("layer_types", "no_rope_layers")
KEPT = ("model_type", "num_key_value_heads", "hidden_size",
        "n_head", "num_experts_per_tok")  # files always have them


@contextlib.contextmanager
def double():
    """Everything that is float32 by name is float64."""
    old = (torch.float32, torch.float, torch.Tensor.float, torch.get_default_dtype())
    torch.set_default_dtype(torch.float64)
    torch.float32 = torch.float = torch.float64
    torch.Tensor.float = torch.Tensor.double
    try:
        yield
    finally:
        torch.float32, torch.float, torch.Tensor.float = old[:3]
        torch.set_default_dtype(old[3])


def spread(name, shape, family, embedded=0.005, sharp=1.5):
    """Deviation and mean of a tensor's weights: gains near one (or zero, where one is added),
    biases that count, sharp attention. `embedded`: deviation of embeddings."""
    name = name.lower()
    if any(s in name for s in SMALL) and len(shape) == 2:
        return embedded, 0.0
    if len(shape) == 1 or "norm" in name:
        zero = name.endswith("bias") or "sinks" in name or family.startswith("gemma")
        return 0.3, 0.0 if zero or family == "nemotron" else 1.0
    return sharp / math.sqrt(min(shape[-2:])), 0.0


def randomise(model, family):
    extra = [b for b in model.named_buffers() if b[0].endswith("e_score_correction_bias")]
    with torch.no_grad():
        for name, p in list(model.named_parameters()) + extra:
            deviation, mean = spread(name, p.shape, family)
            p.normal_(mean, deviation)


def legacy(config):
    """The older spelling of RoPE."""
    rope = config.pop("rope_parameters", None) or {}
    if "full_attention" in rope:
        config["rope_local_base_freq"] = rope["sliding_attention"]["rope_theta"]
        rope = rope["full_attention"]
    theta, partial = LEGACY_ROPE.get(config["model_type"], ("rope_theta", "partial_rotary_factor"))
    for key, name in (("rope_theta", theta), ("partial_rotary_factor", partial)):
        if key in rope:
            config[name] = rope.pop(key)
    kind = rope.pop("rope_type", "default")
    config["rope_scaling"] = None
    if kind != "default":
        name = "type" if config["model_type"] != "gemma3_text" else "rope_type"
        config["rope_scaling"] = dict(rope, **{name: kind})
    if "dtype" in config:
        config["torch_dtype"] = config.pop("dtype")
    return config


def sparse(config, defaults):
    """Without the keys at the class's default, and without those that follow from others."""
    for key in list(config):
        if key in DERIVED or (key not in KEPT and key in defaults
                              and config[key] == defaults[key]):
            del config[key]
    rope = config.get("rope_parameters", {})
    if rope.get("rope_theta") == defaults.get("rope_parameters", {}).get("rope_theta"):
        rope.pop("rope_theta", None)
    if rope.get("rope_type") == "default":
        del rope["rope_type"]
    if not rope:
        config.pop("rope_parameters", None)
    return config


def expected(folder, cls, ids):
    """Logits by transformers in double precision; of encoders without a head the hidden rows."""
    attention = "eager"
    config = json.load(open(folder + "/config.json"))
    if config["model_type"] == "falcon" and config.get("alibi"):
        attention = "sdpa"  # the eager path adds the bias twice
    model = cls.from_pretrained(folder, attn_implementation=attention, dtype=torch.float32,
                                experts_implementation="eager")
    head = model.get_output_embeddings()
    if head is not None and head.weight is not model.get_input_embeddings().weight:
        model.config.tie_word_embeddings = False  # the file has a head of its own
    with double(), torch.no_grad():
        model.config._attn_implementation = attention
        other = type(model)(model.config).eval().double()
        other.load_state_dict(model.state_dict())
        out = other(ids[None], output_hidden_states=True)
    if getattr(out, "logits", None) is not None and not cls.__name__.endswith("MaskedLM"):
        return {"plain/logits": out.logits[0].float().contiguous()}
    return {"plain/hidden": torch.stack([h[0] for h in out.hidden_states]).float()}


def compare(bench, folder, cls, ids):
    """None if the logits agree, else why not."""
    try:
        tensors = expected(folder, cls, ids)
    except Exception as e:  # whatever transformers refuses
        return "transformers: " + str(e).strip().split("\n")[0][:150]
    if not all(bool(t.isfinite().all()) for t in tensors.values()):
        return "transformers: not finite"
    tensors["plain/ids"] = ids.int()
    if "logits" in str(list(tensors)) and not hasattr(cls, "encoder") and is_decoder(cls):
        tensors["plain/pos"] = torch.arange(len(ids), dtype=torch.int32)
    save_file(tensors, folder + "/golden.safetensors")
    json.dump({"cases": {"plain": {"rope_len": len(ids)}}}, open(folder + "/golden.json", "w"))
    run = subprocess.run([bench, "check", "--model", folder, "--golden",
                          folder + "/golden.safetensors"], capture_output=True, text=True)
    if run.returncode == 0:
        return None
    if "MISSED" in run.stdout:
        return "DIFFERS: rel " + " ".join(run.stdout.split("rel")[1].split()[:1])
    text = run.stderr.replace(folder, "").split("model: ")[-1].split("\n")[0]
    return "refused: " + text[:230]


def is_decoder(cls):
    return cls.__name__.endswith(("CausalLM", "LMHeadModel", "ConditionalGeneration"))


def variants(family, mixed):
    """(name, keys) of every variant of a family."""
    base, axes = family["base"], family["axes"]
    yield "base", {}
    single = {axis: [(f"{axis}={v}", v if axis.startswith("*") else {axis: v}) for v in values]
              for axis, values in axes.items()}
    for values in single.values():
        yield from values
    for n in range(mixed):
        draw = random.Random(n * 7919 + zlib.crc32(family["class"].encode()))
        chosen = [draw.choice(v) for v in single.values() if draw.random() < 0.35]
        keys = {}
        for _, value in chosen:
            keys.update(copy.deepcopy(value))
        yield f"mixed{n}: " + ", ".join(name for name, _ in chosen), keys


def build(folder, name, family, keys):
    """Saves one model; returns its class."""
    cls = getattr(transformers, family["class"])
    keys = dict(copy.deepcopy(family["base"]), **copy.deepcopy(keys))
    save = {"max_shard_size": keys.pop("_shard", "1GB")}
    dtype, base = keys.pop("_dtype", "float32"), keys.pop("_base", False)
    cls = getattr(transformers, keys.pop("_class", family["class"]))
    config = cls.config_class(**keys)
    config._attn_implementation = "eager"
    torch.manual_seed(zlib.crc32(folder.encode()))
    model = cls(config)
    randomise(model, name)
    part = model.base_model if base else model
    part.to(getattr(torch, dtype)).save_pretrained(folder, **save)
    return cls


def forms(folder, cls):
    """The saved folder, and the others with another config.json."""
    yield "saved", folder
    config = json.load(open(folder + "/config.json"))
    if "text_config" in config:
        return
    old = legacy(copy.deepcopy(config))
    few = sparse(copy.deepcopy(config), cls.config_class().to_dict())
    for form, other in (("legacy", old), ("sparse", few)):
        path = f"{folder}-{form}"
        shutil.copytree(folder, path)
        json.dump(other, open(path + "/config.json", "w"), indent=1)
        yield form, path


def run_family(name, args):
    family, total, good = FAMILIES[name], 0, 0
    ids = torch.randint(3, 128, (TOKENS,), generator=torch.Generator().manual_seed(5))
    for number, (label, keys) in enumerate(variants(family, args.mixed)):
        folder = f"{args.work}/{name}-{number}"
        for path in (folder, folder + "-legacy", folder + "-sparse"):
            shutil.rmtree(path, ignore_errors=True)
        try:
            cls = build(folder, name, family, keys)
        except Exception as e:
            print(f"{name} [{label}] not built: {str(e).strip().splitlines()[0][:150]}", flush=True)
            continue
        outcomes = {}
        for form, path in forms(folder, cls):
            why = compare(args.bench, path, cls, ids)
            outcomes.setdefault(why, []).append(form)
            total += not (why or "").startswith("transformers")
            good += not why
        for why, which in outcomes.items():
            if why:
                print(f"{name}-{number} [{label}] {'+'.join(which)}: {why}", flush=True)
    print(f"{name}: {good} of {total} agree", flush=True)
    return total - good


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--bench", required=True)
    parser.add_argument("--work", required=True)
    parser.add_argument("--only", default="")
    parser.add_argument("--mixed", type=int, default=8)
    args = parser.parse_args()
    os.makedirs(args.work, exist_ok=True)
    bad = sum(run_family(name, args) for name in FAMILIES if re.fullmatch(args.only or ".*", name))
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
