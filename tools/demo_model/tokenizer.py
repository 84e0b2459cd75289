"""Byte-level BPE tokenizer (GPT-2 pre-tokenizer):  python tokenizer.py OUT_FOLDER

The merges are trained on the word pools themselves, so that every pool word and
every number up to 999 is one token after a space.  Any other text still encodes, byte by
byte where nothing else fits.
"""
import json
import re
import sys

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

import data
import words as W

SPECIAL = ["<unk>", "<s>", "</s>", "<|system|>", "<|user|>", "<|assistant|>", "<|end|>"]
UNK, BOS, EOS, SYS, USER, ASSIST, END = range(7)
CHAT = (
    "{{ bos_token }}{% for m in messages %}{{ '<|' + m['role'] + '|>' + m['content'] + '<|end|>' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|assistant|>' }}{% endif %}")
SPLIT = re.compile(r" ?[A-Za-z]+| ?\d+| ?[^\sA-Za-z\d]+|\s+(?!\S)|\s+"
                   )  # the GPT-2 pattern on the texts of data.py


def corpus():
    """Strings with weights: all words that should become one token."""
    for pool in W.MID_SENTENCE:
        for w in pool:
            yield " " + w, 40
    for e in W.END:
        yield e, 60
    for i in range(1000):
        yield f" {i}", 20 + (i < 100) * 40
        if i < 100:
            yield str(i), 30
    for name, k in data.KINDS.items():
        texts = list(data.SYSTEM) + list(k.heads) + [q for a in k.attrs for q in a.ask]
        for a in k.attrs:
            texts += [
                f"The {a.word} {a.prep} the is x{a.unit}.", "What is the? Yes. No.", "Tell me the",
                f"Which has the {a.word}? Is the {a.word}", f"Which {name} has the"
            ]
        for t in texts:
            yield t.replace("{e}", "").replace(" x", ""), 50


def train(path, vocab=4096):
    tok = Tokenizer(models.BPE(unk_token=None))
    tok.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    tok.decoder = decoders.ByteLevel()
    tok.train_from_iterator((s for s, n in corpus() for _ in range(n)), trainers.BpeTrainer(
        vocab_size=vocab, min_frequency=15, special_tokens=SPECIAL, show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    tok.save(path + "/tokenizer.json")
    special = {
        str(i):
        dict(content=t,
             lstrip=False,
             normalized=False,
             rstrip=False,
             single_word=False,
             special=True)
        for i, t in enumerate(SPECIAL)
    }
    cfg = dict(tokenizer_class="PreTrainedTokenizerFast",
               add_prefix_space=False,
               bos_token="<s>",
               eos_token="<|end|>",
               unk_token="<unk>",
               pad_token="</s>",
               model_max_length=2048,
               clean_up_tokenization_spaces=False,
               added_tokens_decoder=special,
               chat_template=CHAT)
    with open(path + "/tokenizer_config.json", "w") as f:
        json.dump(cfg, f, indent=1)
    return tok


class Encoder:
    """Encodes the texts of data.py by a cache of their pre-tokens: many times faster than the
    tokenizer."""

    def __init__(self, folder):
        self.tok, self.cache = Tokenizer.from_file(folder + "/tokenizer.json"), {}

    def __call__(self, text):
        out = []
        for w in SPLIT.findall(text):
            ids = self.cache.get(w)
            if ids is None:
                ids = self.cache[w] = self.tok.encode(w, add_special_tokens=False).ids
            out += ids
        return out


if __name__ == "__main__":
    t = train(sys.argv[1])
    print("tokens", t.get_vocab_size())
    split = [w for pool in W.MID_SENTENCE for w in pool if len(t.encode(" " + w).ids) > 1]
    split += [e for e in W.END if len(t.encode(e).ids) > 1
              ] + [i for i in range(1000) if len(t.encode(f" {i}").ids) > 1]
    print("words of more than one token:", split)
    pairs = [len(t.encode(f" {a}{b}").ids) for a in W.START for b in W.END]
    print("made-up cities of two tokens:", sum(p == 2 for p in pairs) / len(pairs))
    for text in ("City guide: Lisbon. The room in Lisbon is 120 euros.", " 1234 999 57 5 0",
                 "12 5 900", " Lorvan", "\u00fcn\u00efcode"):
        print(t.encode(text).tokens)
