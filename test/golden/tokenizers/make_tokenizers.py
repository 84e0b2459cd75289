#!/usr/bin/env python3
"""Makes vectors of `tokenizers` (PyPI) for the families in families.py.

    make_tokenizers.py                  the files of this folder
    make_tokenizers.py FOLDER DATA [REAL]
                                        10 000 texts, with those of ../shared/data in DATA, for
                                        test_tokenizer_families (PC_TOKENIZER_VECTORS=FOLDER). REAL
                                        has real vocabularies; real.py says which.

The vocabulary is learned without any pre-tokenizer: its merges cross every place where a family
splits, so that a split at another place gives other ids.

vocab.json          {"bytes": {"tokens": [...], "merges": [...]}, "pieces": ...}
texts.json          [text]
families/NAME.json  "tokenizer": tokenizer.json without the vocabulary, or the name of a file
                    "vocab", "gguf": as in families.py
                    "ids": of each text, without the tokens around it; "before", "after": these
                    "decoded": of each text; null: the text
"""
import json
import os
import sys

from families import FAMILIES, MARK
from texts import SENTENCES, lines_of, texts

HERE = os.path.dirname(os.path.abspath(__file__))


def learn(kind, lines, size):
    """Tokens and merges of a byte-level vocabulary, or of one of pieces."""
    import tokenizers
    from tokenizers import models, normalizers, pre_tokenizers, trainers
    model = tokenizers.Tokenizer(models.BPE())
    if kind == "bytes":
        model.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
        alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    else:
        model.normalizer = normalizers.Replace(" ", MARK)
        alphabet = [MARK, "\n"]
    trainer = trainers.BpeTrainer(vocab_size=size, initial_alphabet=alphabet, show_progress=False,
                                  limit_alphabet=256 if kind == "bytes" else 160,
                                  max_token_length=16)
    model.train_from_iterator(lines, trainer)
    made = json.loads(model.to_str())["model"]
    tokens = sorted(made["vocab"], key=made["vocab"].get)
    if kind == "bytes":
        return {"tokens": tokens, "merges": [" ".join(m) for m in made["merges"]]}
    tokens = [t for t in tokens if t != "\0"]  # no key of our JSON reader
    bytes_ = ["<0x%02X>" % i for i in range(256)]
    tokens = bytes_ + tokens
    return {"tokens": tokens, "merges": all_merges(tokens, {t: -i for i, t in enumerate(tokens)})}


def all_merges(tokens, scores):
    """Each way to join two pieces to a third, the best score first: how transformers makes merges
    of SentencePiece's scores."""
    ids = {t: i for i, t in enumerate(tokens)}
    merges = []
    for token in tokens:
        ways = [(token[:i], token[i:]) for i in range(1, len(token))
                if token[:i] in ids and token[i:] in ids]
        merges += [(scores[token], a, b) for a, b in sorted(
            ways, key=lambda w: (ids[w[0]], ids[w[1]]))]
    merges.sort(key=lambda m: -m[0])
    return [a + " " + b for _, a, b in merges]


def complete(family, vocab):
    """tokenizer.json of a family."""
    tokens = list(vocab["tokens"])
    ids = {t: i for i, t in enumerate(tokens)}
    extra = []
    for token in family["added_tokens"]:
        if token["content"] not in ids:
            ids[token["content"]] = len(ids)
        extra.append(dict(token, id=ids[token["content"]]))
    post = json.loads(json.dumps(family["post_processor"]))
    for part in [post] + ((post or {}).get("processors") or []):
        for name, special in ((part or {}).get("special_tokens") or {}).items():
            special["ids"] = [ids[name]]
    model = {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
             "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False,
             "ignore_merges": False}
    if family["vocab"] == "pieces":
        model.update(unk_token="<unk>", fuse_unk=True, byte_fallback=True)
    model.update(family.get("model") or {})
    return {"version": "1.0", "truncation": None, "padding": None,
            "added_tokens": sorted(extra, key=lambda t: t["id"]),
            "normalizer": family["normalizer"], "pre_tokenizer": family["pre_tokenizer"],
            "post_processor": post, "decoder": family["decoder"],
            "model": dict(model, vocab=ids, merges=vocab["merges"])}


def results(tokenizer, all_texts):
    """What the library makes of the texts."""
    plain = [e.ids for e in tokenizer.encode_batch(all_texts, add_special_tokens=False)]
    around = tokenizer.encode("a").ids
    inner = tokenizer.encode("a", add_special_tokens=False).ids
    at = next(i for i in range(len(around)) if around[i:i + len(inner)] == inner)
    back = tokenizer.decode_batch(plain, skip_special_tokens=True)
    return {"ids": plain, "before": around[:at], "after": around[at + len(inner):],
            "decoded": [None if b == t else b for b, t in zip(back, all_texts)]}


def write(path, value):
    with open(path, "w", encoding="utf-8") as f:
        json.dump(value, f, ensure_ascii=True, separators=(",", ":"))
        f.write("\n")


def write_family(folder, name, made):
    """One text a line."""
    with open(os.path.join(folder, "families", name + ".json"), "w", encoding="utf-8") as f:
        f.write("{")
        for key, value in made.items():
            if key in ("ids", "decoded"):
                f.write(json.dumps(key) + ":[\n" + ",\n".join(
                    json.dumps(v, separators=(",", ":")) for v in value) + "],\n")
            else:
                f.write(json.dumps(key) + ":" + json.dumps(value, separators=(",", ":")) + ",\n")
        f.write('"texts":%d}\n' % len(made["ids"]))


def make(folder, all_texts, vocab):
    import tokenizers
    os.makedirs(os.path.join(folder, "families"), exist_ok=True)
    write(os.path.join(folder, "vocab.json"), vocab)
    write(os.path.join(folder, "texts.json"), all_texts)
    for name, family in FAMILIES.items():
        whole = complete(family, vocab[family["vocab"]])
        made = {"vocab": family["vocab"], "gguf": family.get("gguf")}
        made.update(results(tokenizers.Tokenizer.from_str(json.dumps(whole)), all_texts))
        del whole["model"]["vocab"], whole["model"]["merges"]
        write_family(folder, name, dict({"tokenizer": whole}, **made))


def main():
    try:
        import tokenizers
    except ImportError:
        print("skipped: the module tokenizers is not there (pip install tokenizers==0.23.3)")
        return 77
    if len(sys.argv) < 3:
        lines = SENTENCES.replace("\\n", "\n").split("\n") * 3
        lines += [" ".join(lines[i:i + 3]) for i in range(0, len(lines), 3)] + texts(400)
        vocab = {k: learn(k, lines, n) for k, n in (("bytes", 1600), ("pieces", 1200))}
        make(HERE, texts(190), vocab)
        return 0
    folder, data = sys.argv[1:3]
    lines = texts(12000, data)[:12000]
    vocab = {k: learn(k, lines, 6000) for k in ("bytes", "pieces")}
    all_texts = texts(10000, data)
    make(folder, all_texts, vocab)
    if len(sys.argv) > 3:
        import real
        real.make(folder, sys.argv[3], all_texts)
    return 0


if __name__ == "__main__":
    sys.exit(main())
