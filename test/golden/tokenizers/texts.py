"""Texts that show how a tokenizer splits: scripts, digits, blanks, marks, emoji, cases."""
import glob
import json
import os
import random

SENTENCES = """Die Katze sitzt auf der Fensterbank und schaut den Vögeln zu.
Größe und Gewicht der Maschine stehen auf der Rückseite; STRASSE, Straße.
Le petit garçon mange une pêche près de la forêt où il habite. L'été, j'ai vu.
El niño pequeño corrió mañana por la calle y ¿quién sabe adónde? ¡Olé!
Привет, мир! Как дела сегодня, друзья мои? В 1998 году было 1000000 книг.
Καλημέρα κόσμε, τι κάνεις σήμερα; ΣΊΣΥΦΟΣ
北京是中国的首都，今天天气很好。我们有12345个苹果！
今日は良い天気ですね。東京は大きな都市です。カタカナとひらがな。
안녕하세요 세계, 오늘 날씨가 좋습니다.
مرحبا بالعالم، كيف حالك اليوم؟ ١٢٣٤٥
שלום עולם, מה שלומך היום? שָׁלוֹם
नमस्ते दुनिया, आप कैसे हैं? १२३ किताबें।
สวัสดีชาวโลก วันนี้อากาศดี น้ำ
Zażółć gęślą jaźń, powiedział chłopiec.
Türkiye'de İstanbul büyük bir şehirdir, ışık ve gölge.
Xin chào thế giới, hôm nay trời đẹp. Cửa Việt
ქართული ენა და Հայերեն լեզու ᲥᲐᲠᲗᲣᲚᲘ
កាន់តែពិសេសអាចខលចេញ မြန်မာ བོད་ཡིག
The quick brown fox doesn't jump; it'll've been WE'RE I'D you'Ll.
HTTPServer getElementById camelCase snake_case SCREAMING_CASE iPhone eBay McDonald
def f(x):\n    if x > 10:\n        return x * 2  # twice\n\n\treturn {'a': [1, 2.5e-10]}\n
"""
CASES = [
    "", " ", "  ", "   ", "\t", "\n", "\n\n", "\n\n\n", " \n", "\n ", "\t\n\t", "\r\n", "\r",
    " \r\n \n", "a", " a", "a ", "  a  b  ", "a\n\n\n b", "\n\n  a", "   \n   \n  x",
    "Hello world", "Hello  world ", "Hello, world!\n", "x\n", "x \n y", "\n\n\n\n\n\n\n\n",
    "            code", "\t\t\t\tcode\t\t", "a" * 40, " " * 33 + "x", "=" * 70, "\n" * 40 + "z",
    "1", "12", "123", "1234", "12345", "123456", "1234567", " 1234567890123", "3.14159,2,71",
    "1,000,000 and 1000000", "\u00bd\u00b2\u00b3\u2460\u2167 \u0661\u0662\u0663\u0664",
    "\uff11\uff12\uff13\uff14 \u4e00\u4e8c", "0x1F 1e10 v2.0.1 2024-05-17T12:00:00Z",
    "I'm you're HE'LL we'Ve 'S 'T don\u2019t 'twas o'clock's", "'s't're've'm'll'd", "'\u017f 'K",
    "na\u00efve caf\u00e9 cafe\u0301 A\u030a \u00c5 \u212b o\u0302\u0323 \u1ed9",
    "\u0301\u0308 marks \u0301", "q\u0307\u0323 \u1e9b\u0323", "\u1100\u1161\u11a8 \uac01",
    "\u2581x", "\u2581\u2581 a", "a\u2581b", "<s>", "a<s>b</s>c", "<unk> <x> [INST]x[/INST]",
    "<|endoftext|>", "a <|endoftext|> b<|im_start|>c", "<bos><start_of_turn>user\nHi<end_of_turn>",
    "x<|user|>  \u3000\u00a0 y<|end|>\n\nz", "<think>hm</think>", "<|end|>",
    "\U0001f600\U0001f469\u200d\U0001f469\u200d\U0001f467\U0001f1e9\U0001f1ea \U0001f44d\U0001f3fd",
    "\u2764\ufe0f \u2603 snow \u2603\u2603", "\U0001f9d1\u200d\U0001f680!!!???...\u2026",
    "zero\u200bwidth\ufeffjoin\u2060er", "\u00a0nb\u00a0sp\u3000\u2003wide\u2028line\u2029par",
    "mongolian\u180evowel \u180e separator\u180e", "\u0085next \u0085 line", "v\x0btab\x0cfeed",
    "\x00nul\x01\x1f\x7f control", "\ue000\uf8ff \U000f0000", "\U000e0001\U0010ffff\ufffe\uffff",
    "\ufffd\ufffd broken \ufffd", "#include <stdio.h>\nint main(void)\n{\n\treturn 0;\n}\n",
    "https://example.org/a/b?c=d&e=%20f#g", "C:\\path\\to\\file.txt", "a/b//c///\n//d/\r\n/e",
    "$5.00 \u20ac10 \u00a31,000 50% #1 @you ~x^2 `y`", "(((a)))[[b]]{{c}}<<d>>", "--flag=value -x",
    "### Title\n# x\n##\n", "end,\nnext,", "a.b.c...d. .e", "1a 22b 333c_4 5\u0301x", "aeiou xyz",
    "UPPERlower UPPERCase XMLHttpRequest \u01c5x \u01c8Y \u02b0\u02b7 \u00aa\u00ba \u2160\u2170",
    "\u03a3\u03a3\u03c3\u03c2 \u0130\u0131 \u1e9e\u00df \ufb01\ufb02",
    "\u4e2d\u6587English\u6df7\u5408123\u6587\u5b57",
    "IMGIMGABCZ <sentinel:12> A", "\u0e01\u0e33\u0e01\u0e34\u0e19 \u0915\u094d\u0937\u093f",
    "\uff01\uff02\uff5e\u3001\u3002\u300c\u300d\u2018\u2019\u201c\u201d",
    "\u24b6\u24d0\u2460 \u2080\u00b9",
    "\u0600\u0601 \u06dd \u070f",
    "\u202eRTL\u202c \u2066iso\u2069", "\U0001d400\U0001d7ce \U00010400\U00010428",
    "\u3007\u3021 \u3400\U00020000\u2e80\u3005", "\ua9cf\u0e46\u3031 \u30fc",
    "tab\there  two   three    four",
]


def mutate(rng, text):
    """Something like it, damaged or joined."""
    kind = rng.randrange(8)
    at = rng.randrange(len(text) + 1)
    if kind == 0:
        return text[:at] + rng.choice(CASES) + text[at:]
    if kind == 1:
        return text[at:] + text[:at]
    if kind == 2:
        return text.upper() if rng.random() < 0.5 else text.swapcase()
    if kind == 3:
        return text.replace(" ", rng.choice(["  ", "\n", "\t", "\u00a0", "", " \n", "\u3000"]))
    if kind == 4:
        return text[:at] + str(rng.randrange(10 ** rng.randrange(1, 15))) + text[at:]
    if kind == 5:
        return "".join(c + rng.choice(["", "", "", "\u0301", "\u200d", "'"]) for c in text[:80])
    if kind == 6:
        return "".join(rng.sample(text, len(text)))[:120]
    return text[:at] + rng.choice([" ", "\n"]) * rng.randrange(1, 40) + text[at:]


def anything(rng):
    """Characters of all planes that Unicode 14 knows as blocks, in short runs."""
    blocks = [(0x20, 0x7e), (0x20, 0x7e), (0, 0x1f), (0x80, 0x24f), (0x250, 0x36f), (0x370, 0x52f),
              (0x530, 0x5f4), (0x600, 0x6ff), (0x900, 0x97f), (0xe00, 0xe5b), (0x10a0, 0x10ff),
              (0x1780, 0x17f9), (0x1e00, 0x1eff), (0x2000, 0x206f), (0x2070, 0x20bf),
              (0x2100, 0x218b), (0x2190, 0x23ff), (0x2460, 0x24ff), (0x2500, 0x27bf),
              (0x3000, 0x30ff), (0x4e00, 0x9fa5), (0xac00, 0xd7a3), (0xfb00, 0xfb06),
              (0xff01, 0xffbe), (0x1d400, 0x1d7ff), (0x1f300, 0x1f64f), (0xe000, 0xe010)]
    out = []
    while len(out) < 60 and (not out or rng.random() < 0.95):
        low, high = rng.choice(blocks)
        for _ in range(rng.randrange(1, 5)):
            out.append(chr(rng.randint(low, high)))
        if rng.random() < 0.2:
            out.append(rng.choice([" ", "\n", "'s", "12"]))
    return "".join(out)


def lines_of(data):
    """Lines of the texts of a folder of data sets."""
    out = []
    for name in ("wikitext2/*.txt", "tinyshakespeare/*.txt", "war-and-peace/*.txt",
                 "gsm8k/*.jsonl", "squad/*.json"):
        for path in sorted(glob.glob(os.path.join(data, name))):
            with open(path, encoding="utf-8", errors="replace") as f:
                text = f.read(3 << 20)
            if path.endswith(".jsonl"):
                text = "\n\n".join(json.loads(line).get("question", "") + "\n" +
                                   json.loads(line).get("answer", "")
                                   for line in text.split("\n")[:2000] if line.endswith("}"))
            elif path.endswith(".json"):
                text = "\n\n".join(p["context"] for a in json.loads(open(path).read())["data"]
                                   for p in a["paragraphs"])
            out += [text[i:i + 300] for i in range(0, len(text), 300)]
    return out


def texts(count, data=None):
    rng = random.Random(20)
    sentences = [s.replace("\\n", "\n").replace("\\t", "\t") for s in SENTENCES.split("\n")[:-1]]
    out = CASES + sentences
    pool = sentences + (lines_of(data) if data else [])
    if data:
        out = out + rng.sample(pool, min(len(pool), count // 2))
    while len(out) < count:
        out.append(anything(rng) if rng.random() < 0.3 else mutate(rng, rng.choice(pool)))
    return out[:count]
