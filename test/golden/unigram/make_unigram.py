"""Writes the files of this folder: small Unigram vocabularies, and the results of the libraries
that define them for some texts.

    python3 make_unigram.py CORPUS      (tokenizers 0.23.3, sentencepiece 0.2.3)

CORPUS is a text to learn English from.

spm.model, spm_bytes.model   trained by sentencepiece, with our own map of characters (RULES);
                             the second has byte fallback
t5.gguf                      spm.model as a GGUF of tokenizer.ggml.model "t5"
forms.json                   {FORM: tokenizer.json}: the pieces behind the normalizers and
                             pre-tokenizers of XLM-RoBERTa (both forms), ALBERT, DeBERTa-v3, T5 and
                             others; an empty list of pieces stands for that of xlmr
expected.json                {"texts": [...], "spm": [[id]], "spm_bytes": ..., FORM: ...,
                             "decoded": {FORM: [text]}}
"""
import base64
import io
import json
import os
import random
import struct
import sys
import tempfile

import sentencepiece
import tokenizers

MARK = "\u2581"
SENTENCES = """Die Katze sitzt auf der Fensterbank und schaut den Vögeln zu.
Größe und Gewicht der Maschine stehen auf der Rückseite.
Le petit garçon mange une pêche près de la forêt où il habite.
L'été dernier, nous étions à Genève avec ma sœur.
El niño pequeño corrió mañana por la calle y ¿quién sabe adónde?
Привет, мир! Как дела сегодня, друзья мои?
Книга лежит на столе, а кошка спит под стулом.
Καλημέρα κόσμε, τι κάνεις σήμερα;
北京是中国的首都,今天天气很好。
我们明天去学校学习中文。
今日は良い天気ですね。東京は大きな都市です。
안녕하세요 세계, 오늘 날씨가 좋습니다.
مرحبا بالعالم، كيف حالك اليوم؟
שלום עולם, מה שלומך היום?
नमस्ते दुनिया, आप कैसे हैं?
สวัสดีชาวโลก วันนี้อากาศดี
Zażółć gęślą jaźń, powiedział chłopiec.
Türkiye'de İstanbul büyük bir şehirdir, ışık ve gölge.
Xin chào thế giới, hôm nay trời đẹp.
"""
# what the map of characters replaces: source, target
RULES = [("\t", " "), ("\n", " "), ("\r", " "), ("\u00a0", " "), ("\u3000", " "), ("\u200b", ""),
         ("\u2018", "'"), ("\u2019", "'"), ("\u201c", '"'), ("\u201d", '"'), ("\u2026", "..."),
         ("\ufb01", "fi"), ("\ufb02", "fl"), ("\u00bd", "1/2"), ("\u2122", "TM"),
         ("e\u0301", "\u00e9"), ("a\u0308", "\u00e4"), ("o\u0308", "\u00f6"), ("\uff21", "A"),
         ("\uff22", "B"), ("\uff01", "!"), ("\uff76\uff9e", "\u30ac"), ("\uff76", "\u30ab"),
         ("\u2460", "1"), ("\u2461", "2"), ("\u210c", "H"), ("\ufdfa", "\u0635 \u0644"),
         ("\U0001d7d8", "0"), ("\u0e33", "\u0e4d\u0e32"), ("\r\n", " ")]
TEXTS = ["", " ", "   ", "a", " a", "a ", "  a  b  ", "Hello  world ", "Hello world",
         "``quoted'' text", "na\u00efve caf\u00e9 cafe\u0301", "\u2581x", "\u2581\u2581 a",
         "<mask> a", "a <mask> b", "<s>", "a<s>b</s>c", "\u0130stanbul", "a\r\nb\tc\nd",
         "\u2460\u2461 \uff21\uff22\uff01", "\uff76\uff9e\uff76", "\ufdfa",
         "\u2603 snow \u2603\u2603\u2603", "\u2603", "x\u2603\U0001f600y",
         "\U0001f469\u200d\U0001f469\u200d\U0001f467 family \U0001f1e9\U0001f1ea",
         "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "================", "1234567890 3.14159",
         "don't can't I'm we'll", "\u201cYes,\u201d he said\u2026 \u2018no\u2019.",
         "\ufb01nd the \ufb02ag, \u00bd of it\u2122", "\u0e19\u0e49\u0e33 \u0e17\u0e33",
         "zero\u200bwidth", "\u00a0nb\u00a0sp\u3000", "\u0301\u0308 marks", "A\u030a \u00c5 \u212b",
         "\u1100\u1161\u11a8 \uac01", "tab\tand\nline", "\ue000\uf8ff", "\U000e0001",
         "UPPER lower MiXeD \u0391\u03a3", "<unk> <x>", "\x01\x1f\x7f control"]
FORMS = ["xlmr", "xlmr_new", "albert", "deberta", "t5", "first", "nmt", "never", "bytes"]


def train(folder, corpus):
    random.seed(1)
    lines = [line.strip() for line in open(corpus, encoding="utf-8") if 40 < len(line) < 400]
    lines = random.sample(lines, 1500) + SENTENCES.split("\n")[:-1] * 20
    here = os.getcwd()
    os.chdir(folder)  # the models hold the path of the rules
    with open("rules.tsv", "w", encoding="utf-8") as f:
        for a, b in RULES:
            f.write(" ".join("%X" % ord(c) for c in a) + "\t" + " ".join("%X" % ord(c) for c in b)
                    + "\n")
    for name, more in (("spm", {}),
                       ("spm_bytes", {"byte_fallback": True, "remove_extra_whitespaces": False})):
        model = io.BytesIO()
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(lines), model_writer=model, vocab_size=1000,
            model_type="unigram", character_coverage=0.995, normalization_rule_tsv="rules.tsv",
            pad_id=3, minloglevel=2, num_threads=1, **more)
        with open(os.path.join(here, name + ".model"), "wb") as f:
            f.write(model.getvalue())
    os.chdir(here)


def fields(data):
    """(number, value) of a protobuf."""
    at = 0

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value
    while at < len(data):
        tag = varint()
        kind = tag & 7
        if kind == 0:
            yield tag >> 3, varint()
        else:
            size = varint() if kind == 2 else {1: 8, 5: 4}[kind]
            yield tag >> 3, data[at:at + size]
            at += size


def read_model(name):
    """Pieces [(text, score, type)] and the map of characters."""
    pieces, charsmap = [], b""
    for number, value in fields(open(name + ".model", "rb").read()):
        if number == 1:
            piece = dict(fields(value))
            pieces.append((piece[1].decode(), struct.unpack("<f", piece[2])[0], piece.get(3, 1)))
        elif number == 3:
            charsmap = dict(fields(value)).get(2, b"")
    return pieces, charsmap


def write_gguf(path, pieces, charsmap):
    def text(s):
        return struct.pack("<Q", len(s.encode())) + s.encode()

    def array(kind, count, data):
        return struct.pack("<IIQ", 9, kind, count) + data
    keys = {"general.architecture": struct.pack("<I", 8) + text("t5"),
            "tokenizer.ggml.model": struct.pack("<I", 8) + text("t5"),
            "tokenizer.ggml.tokens": array(8, len(pieces), b"".join(text(p[0]) for p in pieces)),
            "tokenizer.ggml.scores": array(6, len(pieces),
                                           b"".join(struct.pack("<f", p[1]) for p in pieces)),
            "tokenizer.ggml.token_type": array(
                5, len(pieces), b"".join(struct.pack("<i", p[2]) for p in pieces)),
            "tokenizer.ggml.precompiled_charsmap": array(0, len(charsmap), charsmap),
            "tokenizer.ggml.remove_extra_whitespaces": struct.pack("<I?", 7, True),
            "tokenizer.ggml.add_space_prefix": struct.pack("<I?", 7, True),
            "tokenizer.ggml.unknown_token_id": struct.pack("<II", 4, 0),
            "tokenizer.ggml.eos_token_id": struct.pack("<II", 4, 2)}
    with open(path, "wb") as f:
        f.write(b"GGUF" + struct.pack("<IQQ", 3, 0, len(keys))
                + b"".join(text(k) + v for k, v in keys.items()))


def write_form(form, pieces, charsmap):
    def sequence(key, *parts):
        return {"type": "Sequence", key: list(parts)}

    def replace(pattern, content, kind="String"):
        return {"type": "Replace", "pattern": {kind: pattern}, "content": content}

    def metaspace(scheme, split=True):
        return {"type": "Metaspace", "replacement": MARK, "prepend_scheme": scheme, "split": split}
    characters = {"type": "Precompiled",
                  "precompiled_charsmap": base64.b64encode(charsmap).decode()}
    strip = {"type": "Strip", "strip_left": True, "strip_right": True}
    one_blank = replace(" {2,}", " ", "Regex")
    words = sequence("pretokenizers", {"type": "WhitespaceSplit"}, metaspace("always"))
    normalizer, pre = {
        "xlmr": (characters, words),
        "xlmr_new": (sequence("normalizers", characters, one_blank), metaspace("always")),
        "albert": (sequence("normalizers", replace("``", '"'), replace("''", '"'), {"type": "NFKD"},
                            {"type": "StripAccents"}, {"type": "Lowercase"}, characters), words),
        "deberta": (sequence("normalizers", strip, characters, one_blank), metaspace("always")),
        "t5": (sequence("normalizers", characters, one_blank), metaspace("always", False)),
        "first": ({"type": "NFKC"}, metaspace("first", False)),
        "nmt": (sequence("normalizers", {"type": "Nmt"}, {"type": "NFC"}, replace(" ", MARK),
                         {"type": "Prepend", "prepend": MARK}), None),
        "never": ({"type": "NFD"}, metaspace("never")),
        "bytes": (characters, metaspace("always"))}[form]
    added = [{"id": i, "content": pieces[i][0], "special": True} for i in range(4)]
    added.append({"id": len(pieces), "content": "<mask>", "special": True, "lstrip": True})
    for token in added:
        token.update(single_word=False, lstrip=token.get("lstrip", False), rstrip=False,
                     normalized=False)
    template = [{"SpecialToken": {"id": "<s>", "type_id": 0}},
                {"Sequence": {"id": "A", "type_id": 0}},
                {"SpecialToken": {"id": "</s>", "type_id": 0}}]
    post = {"type": "TemplateProcessing", "single": template[form == "t5":],
            "pair": template[form == "t5":],
            "special_tokens": {t: {"id": t, "ids": [i], "tokens": [t]}
                               for t, i in (("<s>", 1), ("</s>", 2))}}
    decoder = metaspace("never" if form == "never" else "first" if form == "first" else "always")
    if form == "bytes":
        decoder = sequence("decoders", {"type": "ByteFallback"}, decoder)
    root = {"version": "1.0", "truncation": None, "padding": None, "added_tokens": added,
            "normalizer": normalizer, "pre_tokenizer": pre, "post_processor": post,
            "decoder": decoder,
            "model": {"type": "Unigram", "unk_id": 0, "byte_fallback": form == "bytes",
                      "vocab": [[p[0], p[1]] for p in pieces]}}
    return json.dumps(root, ensure_ascii=False)


def main(corpus):
    with tempfile.TemporaryDirectory() as folder:
        train(folder, corpus)
    texts = TEXTS + SENTENCES.split("\n")[:-1] + [SENTENCES]
    expected = {"texts": texts, "decoded": {}}
    for name in ("spm", "spm_bytes"):
        model = sentencepiece.SentencePieceProcessor(model_file=name + ".model")
        expected[name] = [model.encode(t) for t in texts]
    pieces, charsmap = read_model("spm")
    with_bytes, _ = read_model("spm_bytes")
    write_gguf("t5.gguf", pieces, charsmap)
    forms = {}
    for form in FORMS:
        text = write_form(form, with_bytes if form == "bytes" else pieces, charsmap)
        tokenizer = tokenizers.Tokenizer.from_str(text)
        expected[form] = [tokenizer.encode(t).ids for t in texts]
        expected["decoded"][form] = [tokenizer.decode(ids, skip_special_tokens=True)
                                     for ids in expected[form]]
        root = json.loads(text)
        if form not in ("xlmr", "bytes"):  # the pieces are those of xlmr
            root["model"]["vocab"] = []
        forms[form] = root
    with open("forms.json", "w", encoding="utf-8") as f:
        json.dump(forms, f, ensure_ascii=False, separators=(",", ":"))
    with open("expected.json", "w", encoding="utf-8") as f:
        json.dump(expected, f, ensure_ascii=False, separators=(",", ":"))


main(sys.argv[1])
