"""The measures of LongBench, written from their published definitions, in the plainest way: what
`promptcache eval` is compared with. Texts are str; every score is from 0 to 1."""
import math
import re
import string
from collections import Counter

CHINESE_SIGNS = set("！？｡。＂＃＄％＆＇（）＊＋，－／：；＜＝＞＠［＼］＾＿｀｛｜｝～｟｠｢｣､、〃》「」『』"
                    "【】〔〕〖〗〘〙〚〛〜〝〞〟〰〾〿–—‘’‛“”„‟…‧﹏.")


def english_words(text):
    text = "".join(c for c in text.lower() if c not in string.punctuation)
    return re.sub(r"\b(a|an|the)\b", " ", text).split()


def is_chinese(c):
    return any(low <= ord(c) < high for low, high in
               ((0x2e80, 0xfb00), (0xfe30, 0xfe50), (0xff00, 0xfff0), (0x20000, 0x40000)))


def chinese_words(text, keeps_signs=False):
    """Each Chinese character, and each run of others; signs between words, or words themselves."""
    words, run = [], ""
    for c in (text if keeps_signs else text.lower()) + " ":
        is_sign = c in string.punctuation or c in CHINESE_SIGNS
        if c.isspace() or is_sign or is_chinese(c):
            words += [run] if run else []
            run = ""
        if is_sign and keeps_signs or is_chinese(c) and not is_sign and not c.isspace():
            words.append(c)
        elif not c.isspace() and not is_sign:
            run += c
    return words


def f1(answer, reference, words=english_words):
    answer, reference = words(answer), words(reference)
    common = sum((Counter(answer) & Counter(reference)).values())
    if not common:
        return 0.0
    precision, recall = common / len(answer), common / len(reference)
    return 2 * precision * recall / (precision + recall)


def exact(answer, reference, words=english_words):
    return float(words(answer) == words(reference))


def common_subsequence(x, y):
    """One longest common subsequence: from the ends, x gets shorter only where that is longer."""
    table = [[0] * (len(y) + 1) for _ in range(len(x) + 1)]
    for i, a in enumerate(x):
        for j, b in enumerate(y):
            table[i + 1][j + 1] = table[i][j] + 1 if a == b else max(table[i][j + 1],
                                                                     table[i + 1][j])
    i, j, out = len(x), len(y), []
    while i and j:
        if x[i - 1] == y[j - 1]:
            i, j = i - 1, j - 1
            out.append(x[i])
        elif table[i - 1][j] > table[i][j - 1]:
            i -= 1
        else:
            j -= 1
    return out


def plain_words(sentence):
    return " ".join(sentence.split()).split(" ")


def rouge_l(answer, reference, words=plain_words):
    answer = [words(s) or [""] for s in answer.split(".") if s]
    reference = [words(s) or [""] for s in reference.split(".") if s]
    if not answer or not reference:
        return 0.0
    common = {w for r in reference for a in answer for w in common_subsequence(r, a)}
    precision = len(common) / len({w for s in answer for w in s})
    recall = len(common) / len({w for s in reference for w in s})
    return 2 * (precision * recall / (precision + recall + 1e-8))


def numbers(answer, right):
    found = re.findall(r"[0-9]+", answer)
    return sum(n == right for n in found) / len(found) if found else 0.0


def classes(answer, reference, names):
    """The published loop takes names out of the list that it walks through."""
    named = [name for name in names if name in answer]
    for name in named:
        if name in reference and name != reference:
            named.remove(name)
    return 1 / len(named) if reference in named else 0.0


def code(answer, reference):
    lines = [line for line in answer.lstrip("\n").split("\n")
             if "`" not in line and "#" not in line and "//" not in line]
    line = lines[0] if lines else ""
    if line == reference:
        return 1.0
    lengths = [0] * (len(reference) + 1)
    for a in line:
        diagonal = 0
        for j, b in enumerate(reference, 1):
            above = lengths[j]
            lengths[j] = diagonal + 1 if a == b else max(above, lengths[j - 1])
            diagonal = above
    # half-way percentages are rounded to the even one
    return round(100 * (2 * lengths[-1] / (len(line) + len(reference)))) / 100


def score(metric, answer, reference, names=()):
    zh = metric.endswith("-zh")
    kind = metric[:-3] if zh else metric
    if kind in ("f1", "exact"):
        return (f1 if kind == "f1" else exact)(answer, reference,
                                               chinese_words if zh else english_words)
    if kind == "rouge-l":
        return rouge_l(answer, reference,
                       (lambda s: chinese_words(s, True)) if zh else plain_words)
    if kind == "retrieval":
        return numbers(answer, re.search(r"[0-9]+", reference)[0])
    if kind == "count":
        return numbers(answer, reference)
    return classes(answer, reference, names) if kind == "classification" else code(answer,
                                                                                   reference)


def best(metric, answer, references, names=()):
    return max(score(metric, answer, reference, names) for reference in references)


def near(a, b):
    return math.isclose(a, b, rel_tol=0, abs_tol=1e-12)
