#!/usr/bin/env python3
"""promptcache.transformers.Host on small random models, against the library's own forward pass.
Catches: states or logits of a model of transformers that are not those of the same weights in the
library (a whole prompt, modules in place, with gaps and moved, forks, batches, truncation, repair,
both visibilities), states that do not come back from a folder bit by bit, a chat template that is
used otherwise than as it is, an exception or cancellation that gets lost, and models that would
compute something else and are not refused.

usage: test_transformers.py ROOT [NAME...]     ROOT: of the project; PYTHONPATH has the package.
torch and transformers are taken from ROOT/build/transformers (fetch_transformers.py) if it is
there, else from where this Python has them."""
import contextlib
import functools
import io
import json
import math
import os
import re
import runpy
import sys
import tempfile
import threading
import time

ROOT = os.path.abspath(sys.argv[1])
sys.path.append(os.path.join(ROOT, "test", "support"))
FETCHED = os.path.join(ROOT, "build", "transformers")
if os.path.isdir(FETCHED):
    sys.path.insert(0, FETCHED)  # with all that they need: the system may have older ones
os.environ["HF_HUB_OFFLINE"] = "1"
try:
    import torch
    import transformers
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
except ImportError as error:
    print(f"skipped: {error} (bindings/python/test/fetch_transformers.py)")
    sys.exit(77)

import promptcache as pc
from page_blocks import blocks_of
from promptcache._raw import ffi, lib
from promptcache.transformers import Host, Refused, passes
from promptcache.transformers.states import Sequence

BLOCK, passes.ROWS = passes.ROWS, 24  # short prompts are several blocks, too
NEAR = 1e-4  # logits, as a part of the largest, or of 1; states
VOCAB = 262  # of the tokenizer
FIXED = ("gpt2", "opt")  # learned positions
NAMES = ("llama_gqa", "llama_rope_llama3", "llama_rope_yarn", "mistral_swa", "qwen2", "qwen3",
         "gemma", "gemma3_text", "gpt_neox", "phi", "phi3_longrope_short", "falcon_new", "bloom",
         "mpt", "gpt2", "opt", "starcoder2", "cohere2", "mixtral", "deepseek_v2")
TEMPLATE = ("\n{{ bos_token }}{% for m in messages %}"
            "{{ '<|' + m['role'] + '|>' + m['content'] + '<|end|>' }}"
            "{% endfor %}{% if add_generation_prompt %}{{ '<|assistant|>' }}{% endif %}")
SPECIAL = ["<unk>", "<s>", "<|end|>", "<|user|>", "<|assistant|>", "<|system|>"]
SCHEMA = """<schema name="trip">You plan trips.
<module name="city">The city has <parameter name="what" length="12"/> and a river.</module>
<union><module name="walk">They like to walk.</module>
<module name="bus">They take the bus, and it is slow.</module></union>
<module name="food">Bread and soup.</module></schema>"""
PROMPTS = {
    "in place": '<prompt schema="trip"><city what="two bridges"/><bus/><food/>Where?</prompt>',
    "with gaps": '<prompt schema="trip"><walk/><food/>Where?</prompt>',
    "member": '<prompt schema="trip"><city/><walk/>And then?</prompt>',
}

# ---- Models


def tokenizer():
    """Bytes, and a few special tokens."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocab = {token: i for i, token in enumerate(SPECIAL + alphabet)}
    made = Tokenizer(models.BPE(vocab=vocab, merges=[]))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    made.decoder = decoders.ByteLevel()
    made.add_special_tokens(SPECIAL)
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=made, bos_token="<s>", eos_token="<|end|>", unk_token="<unk>",
        chat_template=TEMPLATE, clean_up_tokenization_spaces=False)


def randomise(model):
    """Weights with which attention is sharp, gains and biases count."""
    torch.manual_seed(7)
    plus_one = type(model).__name__.startswith("Gemma")  # a gain is added to one
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if weight.dim() == 1:
                gain = not name.endswith("bias") and not plus_one
                weight.copy_(0.3 * torch.randn(weight.shape) + gain)
            elif "embed" in name or "wte" in name or "wpe" in name:
                weight.copy_(0.4 * torch.randn(weight.shape))
            else:
                weight.copy_(1.2 / math.sqrt(min(weight.shape[-2:])) * torch.randn(weight.shape))


def save(name, folder):
    with open(f"{ROOT}/test/golden/models/{name}.json", encoding="utf-8") as file:
        keys = dict(json.load(file)["config"], vocab_size=VOCAB, eos_token_id=2, bos_token_id=None,
                    pad_token_id=None)
    for part in (keys, keys.get("rope_parameters") or {}):
        for key in ("max_position_embeddings", "n_positions", "max_seq_len",
                    "original_max_position_embeddings"):
            if key in part:
                part[key] = 512
    os.makedirs(folder)
    with open(folder + "/config.json", "w", encoding="utf-8") as file:
        json.dump(keys, file)
    model = transformers.AutoModelForCausalLM.from_config(
        transformers.AutoConfig.from_pretrained(folder))
    randomise(model)
    model.save_pretrained(folder)
    tokenizer().save_pretrained(folder)


class Pair:
    """A model in transformers, behind the library, and loaded by it."""

    def __init__(self, name, folder, **options):
        self.name, self.folder = name, folder
        if not os.path.exists(folder):
            save(name, folder)
        self.hf = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
        self.tokens = transformers.AutoTokenizer.from_pretrained(folder)
        self.host = Host(self.hf, self.tokens, **options)
        self.mine = self.host.model
        self.native = pc.Model.load(folder, compute="f32")
        self.both = (self.mine, self.native)


def near(what, mine, other):
    mine, other = (torch.as_tensor(t).double() for t in (mine, other))
    assert mine.shape == other.shape, f"{what}: {tuple(mine.shape)}, {tuple(other.shape)}"
    far, limit = (mine - other).abs().max().item(), NEAR * max(1.0, other.abs().max().item())
    assert far <= limit, f"{what} differ by {far:.2e}, more than {limit:.2e}"
    worst[0] = max(worst[0], far / max(1.0, other.abs().max().item()))


def started(prompt, cache=None, steps=1, **options):
    """A sequence behind its first steps, in a batch of its own."""
    sequence = pc.Sequence(prompt, cache, keep=True, logits=True, ignore_end=True,
                           **dict({"max_tokens": 50}, **options))
    batch = pc.Batch(prompt.model)
    batch.add(sequence)
    for _ in range(steps):
        batch.step()
    if sequence.error:
        raise sequence.error
    return sequence


def logits(sequence):
    return torch.tensor(sequence.logits.copy())


# ---- Tests of every model


def native_states(sequence, model, layer):
    """{position: (K, V)} of what a sequence of the library holds."""
    info, count = model.info, ffi.new("size_t *")
    spans = ffi.new("pc_span[]", 256)
    assert lib.pc_sequence_spans(sequence._pointer, spans, ffi.sizeof("pc_span"), 256, count) == 0
    states = {}
    for span in spans[0:count[0]]:
        size = ffi.new("size_t *")
        lib.pc_segment_tokens(span.segment, size)
        shape = (info.kv_heads, size[0], info.head_dim)
        k, v = (torch.zeros(shape) for _ in range(2))
        assert lib.pc_segment_read(span.segment, layer, span.start,
                                   ffi.cast("float *", k.data_ptr()),
                                   ffi.cast("float *", v.data_ptr())) == 0
        raw = ffi.new("pc_raw *")
        lib.pc_raw_init(raw, ffi.sizeof("pc_raw"))
        assert lib.pc_segment_raw(span.segment, raw) == 0
        for j in range(span.lo, span.hi or size[0]):
            at = raw.relative[j] if raw.relative else j
            states[span.start + at] = (k[:, j], v[:, j])
    for span in spans[0:count[0]]:
        lib.pc_segment_free(ffi.cast("pc_segment *", span.segment))
    return states


def same_states(pair, mine, native, what):
    """K and V of all layers of a sequence, by position."""
    if pair.name.startswith("deepseek"):
        return  # there it is latents, which the library shows as K and V of every head
    own = [s for s in pair.host._own.objects.values() if isinstance(s, Sequence)][-1]
    places = own.positions.tolist()
    for layer in range(pair.native.info.layers):
        states = native_states(native, pair.native, layer)
        assert sorted(states) == sorted(places), f"{what}: positions"
        for side, tensors in enumerate((own.keys, own.values)):
            copies = tensors[layer].shape[1] // pair.native.info.kv_heads  # Falcon
            near(f"{what}: {'KV'[side]} of layer {layer}", tensors[layer][0, ::copies],
                 torch.stack([states[p][side] for p in places], 1))


def test_whole(pair):
    ids = [(37 * i + 5) % VOCAB for i in range(70)]
    pairs = [started(pc.Prompt.from_tokens(m, ids)) for m in pair.both]
    near("logits of a whole prompt", *map(logits, pairs))
    same_states(pair, *pairs, "whole prompt")
    with torch.no_grad():
        plain = pair.hf(torch.tensor([ids])).logits[0, -1]
    near("logits of transformers itself", logits(pairs[0]), plain)


def test_modules(pair):
    caches = [pc.Cache(), pc.Cache()]
    schemas = [pc.Schema.parse(m, SCHEMA) for m in pair.both]
    for name, text in PROMPTS.items():
        for encoding in ("independent", "sink", "joint", "exact"):
            for visibility in ("by_position", "all"):
                got = [started(pc.Prompt.parse(s, text), c, encoding=encoding,
                               visibility=visibility) for s, c in zip(schemas, caches)]
                what = f"{name}, {encoding}, {visibility}"
                assert got[0].stats.tokens_cached == got[1].stats.tokens_cached, what
                near(f"logits of modules {what}", *map(logits, got))
                if visibility == "by_position":
                    same_states(pair, *got, what)
                for sequence in got:
                    sequence.close()


def test_repair(pair):
    caches = [pc.Cache(), pc.Cache()]
    schemas = [pc.Schema.parse(m, SCHEMA) for m in pair.both]
    several = [{"repair": "first", "repair_tokens": 3}, {"repair": "full"}]
    if not pair.name.startswith("deepseek"):  # there deviations are those of latents
        several.append({"repair": "top", "repair_percent": 20})
    for options in several:
        got = [started(pc.Prompt.parse(s, PROMPTS["in place"]), c, **options)
               for s, c in zip(schemas, caches)]
        near(f"logits of repair {options}", *map(logits, got))
        assert got[0].stats.tokens_repaired == got[1].stats.tokens_repaired, options


def test_conversation(pair):
    """Modules stand where the messages name them: their states move."""
    caches = [pc.Cache(), pc.Cache()]
    schemas = [pc.Schema.parse(m, """<schema name="d"><module name="a">The river is long.</module>
        <module name="b">The hill is high.</module></schema>""", compact=True) for m in pair.both]
    plain = [("system", "Be brief."), ("user", "Where is <|end|> it?")]
    text = pair.tokens.apply_chat_template(
        [{"role": r, "content": c} for r, c in plain], add_generation_prompt=True, tokenize=False)
    got = []
    for model, schema, cache in zip(pair.both, schemas, caches):
        messages = [{"role": r, "content": c} for r, c in plain]
        assert pc.format_chat(model, messages) == text, "the chat template"
        got.append(started(pc.Prompt.from_messages(model, messages), cache))
        if not pair.host.relocatable:
            continue
        messages = [{"role": "user", "content": "Look.", "modules": ["b", "a"]}]
        for _ in range(2):  # the second one has both modules from the cache
            prompt = pc.Prompt.from_messages(model, messages, schema=schema)
            got.append(started(prompt, cache))
        assert got[-1].stats.tokens_cached, "nothing was reused"
    for mine, native in zip(got[:len(got) // 2], got[len(got) // 2:]):
        assert mine.stats.tokens_cached == native.stats.tokens_cached
        near("logits of a conversation", logits(mine), logits(native))


def test_batch(pair):
    """Prompts of several lengths, a fork that goes another way, and a truncation."""
    texts = ("A", "The city of bridges", "It is a long way down to the river and back again")
    runs = []
    for model in pair.both:
        cache, batch, seen = pc.Cache(), pc.Batch(model), []
        sequences = [batch.add(pc.Sequence(pc.Prompt.from_text(model, t), cache, keep=True,
                                           logits=True, max_tokens=40, ignore_end=True))
                     for t in texts]
        for step in range(6):
            batch.step()
            if step == 2:
                fork = sequences[1].fork()  # it joins the batch
                fork.push([77, 78])
                sequences.append(fork)
            if step == 4:
                sequences[2].truncate(2)
            seen += [logits(s) for s in sequences if s.logits is not None]
        runs.append((seen, [s.tokens for s in sequences]))
    for i, (mine, native) in enumerate(zip(runs[0][0], runs[1][0])):
        near(f"logits {i} of a batch", mine, native)
    assert runs[0][1] == runs[1][1], "tokens of a batch"


def test_disk(pair):
    """What was written by one cache comes back in another one, bit by bit."""
    with tempfile.TemporaryDirectory() as folder:
        first = pc.Cache(disk_path=folder)
        schema = pc.Schema.parse(pair.mine, SCHEMA)
        prompt = pc.Prompt.parse(schema, PROMPTS["with gaps"])
        started(prompt, first)
        before = logits(started(prompt, first))
        assert first.flush(), "something was not written"
        first.close()
        second = pc.Cache(disk_path=folder, always_load=True)
        again = started(prompt, second)
        tiers = again.stats.tokens_tier
        assert tiers[lib.PC_TIER_DISK] == again.stats.tokens_cached > 0, tiers
        assert torch.equal(before, logits(again)), "states of a folder are not those of before"


def test_embed(pair):
    """Last hidden states; prompts behind modules and of several lengths go through together."""
    vectors = []
    for model in pair.both:
        cache, schema = pc.Cache(), pc.Schema.parse(model, SCHEMA)
        prompts = [pc.Prompt.parse(schema, PROMPTS["with gaps"]),
                   pc.Prompt.from_text(model, "A river"), pc.Prompt.from_text(model, "The hill.")]
        vectors.append(pc.embed(prompts, cache, pool="last").vectors)
    near("embeddings", *vectors)


# ---- Tests of one model


def test_formats(folder):
    """bfloat16 and float16: states come back from every tier bit by bit."""
    for dtype in (torch.bfloat16, torch.float16):
        hf = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=dtype)
        model = Host(hf, transformers.AutoTokenizer.from_pretrained(folder)).model
        prompt = pc.Prompt.parse(pc.Schema.parse(model, SCHEMA), PROMPTS["in place"])
        for options in ({"disk_codec": "raw"}, {"disk_codec": "zstd"}):
            with tempfile.TemporaryDirectory() as records:
                first = pc.Cache(disk_path=records, **options)
                started(prompt, first)
                before = logits(started(prompt, first))
                first.flush()
                first.close()
                second = pc.Cache(disk_path=records, always_load=True, **options)
                again = started(prompt, second)
                assert again.stats.tokens_tier[lib.PC_TIER_DISK] > 0
                assert torch.equal(before, logits(again)), (dtype, options)


def test_errors(folder):
    """An exception comes out as it was raised; what was before goes on."""
    pair = Pair("", folder)
    prompt = pc.Prompt.from_text(pair.mine, "The city")
    before = prompt.generate(max_tokens=4).text

    class Odd(Exception):
        pass

    def fail(*_):
        raise Odd("the third layer is tired")
    hook = pair.hf.base_model.register_forward_pre_hook(fail)
    try:
        prompt.generate(max_tokens=4)
        raise AssertionError("no exception")
    except Odd as error:
        assert "tired" in str(error)
    hook.remove()
    assert prompt.generate(max_tokens=4).text == before
    calls = []
    try:
        prompt.generate(max_tokens=4, cancelled=lambda: calls.append(1) or len(calls) > 3)
        raise AssertionError("not cancelled")
    except pc.CancelledError:
        pass
    assert prompt.generate(max_tokens=4).text == before
    # also within a pass: the last layer is not computed any more
    body, layers = pair.hf.base_model, []
    hooks = [layer.register_forward_hook(lambda *_: layers.append(1)) for layer in body.layers]
    hooks.append(body.register_forward_pre_hook(lambda *_: calls.append(1)))
    del calls[:]
    try:
        prompt.generate(max_tokens=4, cancelled=lambda: len(calls) > 0)
        raise AssertionError("not cancelled")
    except pc.CancelledError:
        assert calls and not layers, (calls, layers)
    for hook in hooks:
        hook.remove()
    try:
        prompt.generate(max_tokens=4, adapter=bytes(32))
        raise AssertionError("an adapter that it does not have")
    except pc.UnsupportedError as error:
        assert "adapter" in str(error), error


def test_memory(folder):
    """Memory that is full: the library frees segments that nobody uses, and asks again."""
    pair = Pair("", folder)
    cache = pc.Cache()
    for i in range(4):
        pc.Prompt.from_tokens(pair.mine, [i + 3] * 200).generate(cache, max_tokens=1)
    before = cache.stats.segments
    tries, always = [], []

    def full(*_):
        tries.append(1)
        if len(tries) < 3 or always:
            raise MemoryError("no room on the device")
    hook = pair.hf.base_model.register_forward_pre_hook(full)
    prompt = pc.Prompt.from_tokens(pair.mine, [9] * 70)
    assert prompt.generate(cache, max_tokens=1).stats.tokens_generated == 1
    assert len(tries) > 2 and cache.stats.segments < before, (before, cache.stats)
    always.append(1)
    try:
        prompt.generate(max_tokens=1)
        raise AssertionError("no error")
    except pc.LimitError as error:
        assert "no room on the device" in str(error), error
    hook.remove()


def test_threads(folder):
    """Prompts of several threads at once, with writes to a folder beside them, and objects that
    are collected at any time: all answers are those of one thread."""
    pair = Pair("", folder)
    schema = pc.Schema.parse(pair.mine, SCHEMA)
    prompts = [pc.Prompt.parse(schema, text) for text in PROMPTS.values()]
    want, got = [p.generate(max_tokens=5).text for p in prompts], {}
    with tempfile.TemporaryDirectory() as records, pc.Cache(disk_path=records) as cache:
        def work(number):
            for turn in range(4):
                at = (number + turn) % len(prompts)
                sequence = pc.Sequence(prompts[at], cache, max_tokens=5)
                batch = pc.Batch(pair.mine)
                batch.add(sequence)
                batch.run()
                got[number, turn] = sequence.text == want[at]
        threads = [threading.Thread(target=work, args=(i,)) for i in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert len(got) == 12 and all(got.values()), got


def test_fingerprint(folder):
    """Changes with weights, number format and configuration, and with nothing else."""
    def of(change=lambda hf: None, dtype=torch.float32):
        hf = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=dtype)
        with torch.no_grad():
            change(hf)
        return Host(hf).model.info.fingerprint

    def weight(hf):
        hf.base_model.layers[1].self_attn.v_proj.weight[3, 4] += 1e-3

    def theta(hf):
        hf.config.rope_parameters["rope_theta"] *= 2
    assert of() == of()
    assert len({of(), of(weight), of(theta), of(dtype=torch.bfloat16)}) == 4


def refused(why, make):
    try:
        make()
    except Refused as error:
        assert why in str(error), f"{error} does not say: {why}"
        return
    raise AssertionError(f"not refused: {why}")


def test_refusals(folder):
    hf = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    refused("training mode", lambda: Host(hf.train()))
    hf.eval()
    refused("torch.float64", lambda: Host(hf.double()))
    hf.float()
    blind = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    plain = blind.base_model.forward
    blind.base_model.forward = lambda *a, attention_mask=None, **k: plain(*a, **k)
    refused("differ from the model's own", lambda: Host(blind))
    deaf = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    own = deaf.base_model.forward
    deaf.base_model.forward = lambda *a, position_ids=None, **k: own(*a, **k)
    refused("differ from the model's own", lambda: Host(deaf))
    hf.config._attn_implementation = "flash_attention_2"
    refused("flash_attention_2", lambda: Host(hf))
    for name, why in (("falcon_rw", "ALiBi"), ("llama4", "chunked_attention"),
                      ("bert", "see what stands behind")):
        with tempfile.TemporaryDirectory() as parent:
            save(name, parent + "/m")
            other = transformers.AutoModelForCausalLM.from_pretrained(parent + "/m")
            refused(why, lambda: Host(other))


@contextlib.contextmanager
def loading():
    """Caches load what is there, also where computing promises to be faster."""
    kept = pc.Cache
    pc.Cache = functools.partial(kept, always_load=True)
    try:
        yield
    finally:
        pc.Cache = kept


def test_page(folder):
    """The snippets of doc/transformers.md, with a model of our own."""
    blocks = blocks_of(f"{ROOT}/doc/transformers.md")
    snippets = [block.text for block in blocks if block.kind == "python"]
    with tempfile.TemporaryDirectory() as states, loading():
        for _ in range(2):
            space, said = {}, io.StringIO()
            for snippet in snippets:
                for text, ours in (("Qwen/Qwen3-0.6B", folder), ('"states"', repr(states))):
                    assert text in snippet or snippet is not snippets[0], text
                    snippet = snippet.replace(text, ours)
                with contextlib.redirect_stdout(said):
                    exec(snippet, space)
            tier = space["cache"].tier_stats("disk")
            space["cache"].close()
        assert len(snippets) == 2 and said.getvalue() and tier.hits, tier


def test_example(folder):
    """examples/python/transformers_chat.py: the second time the files come from the folder."""
    with tempfile.TemporaryDirectory() as work, loading():
        for name in ("bridges", "hills"):
            with open(f"{work}/{name}.txt", "w", encoding="utf-8") as file:
                file.write(f"All about {name}. " * 4)
        said, kept = [], (sys.argv, sys.stdin)
        for _ in range(2):
            sys.argv = ["chat", folder, work + "/states", work + "/bridges.txt",
                        work + "/hills.txt"]
            sys.stdin, out = io.StringIO("Which?\nAnd then?\n"), io.StringIO()
            try:
                with contextlib.redirect_stdout(out):
                    space = runpy.run_path(ROOT + "/examples/python/transformers_chat.py")
            finally:
                sys.argv, sys.stdin = kept
            space["cache"].close()
            said.append(out.getvalue())
        numbers = [[int(n) for n in re.findall(r"(\d+) of (\d+) tokens of the prompt", s)[0]]
                   for s in said]
        assert numbers[0][0] < numbers[1][0] > numbers[1][1] / 2, numbers
        assert said[0].rpartition("\n")[0].count("\n") >= 2, said


def test_time(_):
    """The first token behind a long module takes less work if the module is in the cache."""
    torch.manual_seed(3)
    passes.ROWS = BLOCK
    config = transformers.LlamaConfig(
        vocab_size=VOCAB, hidden_size=256, intermediate_size=704, num_hidden_layers=6,
        num_attention_heads=8, num_key_value_heads=4, max_position_embeddings=4096)
    hf = transformers.LlamaForCausalLM(config).eval()
    model = Host(hf, tokenizer()).model
    schema = pc.Schema.parse(model, '<schema name="long"><module name="text">'
                             + "The river goes under the old bridge. " * 54 + "</module></schema>")
    prompt = pc.Prompt.parse(schema, '<prompt schema="long"><text/>Where does it go?</prompt>')
    cache = pc.Cache()
    count = prompt.generate(cache, max_tokens=1).stats.tokens_prompt
    full = timed(lambda: prompt.generate(max_tokens=1))
    cached = timed(lambda: prompt.generate(cache, max_tokens=1))
    assert cached < full / 2, (cached, full)
    if not os.environ.get("PC_TEST_VERBOSE"):
        return
    ids, plain = torch.randint(0, VOCAB, (1, count)), pc.Prompt.from_tokens(model, [5] * 300)

    def alone(tokens):
        return timed(lambda: hf.generate(ids[:, :300], max_new_tokens=tokens, do_sample=False,
                                         min_new_tokens=tokens, pad_token_id=0))

    def together(number, tokens):
        def work():
            batch = pc.Batch(model)
            for _ in range(number):
                batch.add(pc.Sequence(plain, cache, max_tokens=tokens, ignore_end=True))
            batch.run()
        return timed(work) / number
    together(1, 1)
    with torch.no_grad():
        whole = timed(lambda: hf(ids, logits_to_keep=1))
    print(f"{count} tokens, ms of work until the first one: {cached:.0f} cached, {full:.0f} full, "
          f"{whole:.0f} by transformers alone\nms a token behind 300: "
          f"{(alone(41) - alone(1)) / 40:.1f} by transformers alone", *(
              f"{(together(n, 41) - together(n, 1)) / 40:.1f} of {n} together" for n in (1, 8)),
          sep=", ")


def timed(work):
    """Milliseconds of a processor, which others on the machine change less than those of a clock;
    the best of three."""
    best = math.inf
    for _ in range(3):
        began = time.process_time()
        work()
        best = min(best, time.process_time() - began)
    return best * 1e3


EACH = (test_whole, test_modules, test_repair, test_conversation, test_batch, test_disk,
        test_embed)
ONCE = (test_formats, test_errors, test_memory, test_threads, test_fingerprint,
        test_refusals, test_page, test_example, test_time)
worst = [0.0]


def run(label, test, *args):
    try:
        test(*args)
        return True
    except Exception as error:  # the others run, too
        if os.environ.get("PC_TEST_VERBOSE"):
            import traceback
            traceback.print_exc()
        print(f"FAILED {label}: {type(error).__name__}: {error}")
        return False


def main():
    transformers.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    torch.set_num_threads(1)
    names, good, bad = sys.argv[2:] or NAMES, 0, 0
    with tempfile.TemporaryDirectory() as parent, contextlib.suppress(KeyboardInterrupt):
        for name in names:
            worst[0] = 0.0
            pair = Pair(name, f"{parent}/{name}")
            assert pair.host.relocatable == (name not in FIXED), pair.host.why_fixed
            assert pair.host.batches == (name != "mpt"), name
            results = [run(f"{name}: {t.__name__}", t, pair) for t in EACH]
            good, bad = good + sum(results), bad + len(results) - sum(results)
            print(f"{name}: largest difference {worst[0]:.1e}", flush=True)
        folder = f"{parent}/{NAMES[0]}"
        if not os.path.exists(folder):
            save(NAMES[0], folder)
        results = [run(t.__name__, t, folder) for t in ONCE]
        good, bad = good + sum(results), bad + len(results) - sum(results)
    print(f"{good} passed, {bad} failed")
    sys.exit(1 if bad or not good else 0)


if __name__ == "__main__":
    main()
