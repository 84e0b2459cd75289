"""What tokenizer.json of each family says, but for the vocabulary: normalizer, pre-tokenizers,
post-processor, decoder, added tokens. FAMILIES: {name: {...}} with the keys of the file and

    vocab   "bytes": byte-level BPE; "pieces": SentencePiece's BPE
    model   settings of the model, as far as they are not the usual ones
    gguf    {key: value} of GGUF, tokenizer.ggml.model and tokenizer.ggml.pre first; or absent
"""
MARK = "\u2581"
CONTRACTION = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
TAIL = r"\s*[\r\n]+|\s+(?!\S)|\s+"


def cl100k(digits):
    return (CONTRACTION + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}" + digits +
            r"| ?[^\s\p{L}\p{N}]+[\r\n]*|" + TAIL)


def o200k(contraction, digits, but="", slash="/"):
    upper = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}" + but + "]"
    lower = r"[\p{Ll}\p{Lm}\p{Lo}\p{M}" + but + "]"
    return (r"[^\r\n\p{L}\p{N}]?" + upper + "*" + lower + "+" + contraction +
            r"|[^\r\n\p{L}\p{N}]?" + upper + "+" + lower + "*" + contraction + r"|\p{N}" + digits +
            r"| ?[^\s\p{L}\p{N}]+[\r\n" + slash + "]*|" + TAIL)


GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
O200K = o200k(CONTRACTION + "?", "{1,3}")
TEKKEN = o200k("", "")
CJK3 = "[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+"
CJK = "[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+"
WORDS3 = ("[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?"
          "[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\r\n]*|\\s*[\r\n]+|\\s+(?!\\S)|\\s+")
# Latin, Greek, Cyrillic, Armenian … with case
CASED = (
    "\\s?[A-Za-z\u00b5\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u01ba\u01bc-\u01bf\u01c4-\u0293"
    "\u0295-\u02af\u0370-\u0373\u0376\u0377\u037b-\u037d\u037f\u0386\u0388-\u038a\u038c"
    "\u038e-\u03a1\u03a3-\u03f5\u03f7-\u0481\u048a-\u052f\u0531-\u0556\u10a0-\u10c5"
    "\u13a0-\u13f5\u13f8-\u13fd\u1c90-\u1cba\u1cbd-\u1cbf\u1d00-\u1d2b\u1d6b-\u1d77"
    "\u1d79-\u1d9a\u1e00-\u1f15\u1f18-\u1f1d\u1f20-\u1f45\u1f48-\u1f4d\u1f50-\u1f57\u1f59"
    "\u1f5b\u1f5d\u1f5f-\u1f7d\u1f80-\u1fb4\u1fb6-\u1fbc\u1fbe\u1fc2-\u1fc4\u1fc6-\u1fcc"
    "\u1fd0-\u1fd3\u1fd6-\u1fdb\u1fe0-\u1fec\u1ff2-\u1ff4\u1ff6-\u1ffc\u2102\u2107"
    "\u210a-\u2113\u2115\u2119-\u211d\u2124\u2126\u2128\u212a-\u212d\u212f-\u2134\u2139"
    "\u213c-\u213f\u2145-\u2149\u214e\u2183\u2184\u2c00-\u2c7b\u2c7e-\u2ce4\u2ceb-\u2cee"
    "\u2cf2\u2cf3\ua640-\ua66d\ua680-\ua69b\ua722-\ua76f\ua771-\ua787\ua78b-\ua78e"
    "\uab70-\uabbf\ufb00-\ufb06\ufb13-\ufb17\uff21-\uff3a\uff41-\uff5a"
    "\U00010400-\U0001044f\U000104b0-\U000104d3\U000104d8-\U000104fb\U00010c80-\U00010cb2"
    "\U00010cc0-\U00010cf2\U000118a0-\U000118df\U0001e900-\U0001e943]+")
BLOOM = " ?[^(\\s|[.,!?\u2026\u3002\uff0c\u3001\u0964\u06d4\u060c])]+"


def byte_level(use_regex, add_prefix_space=False):
    return {"type": "ByteLevel", "add_prefix_space": add_prefix_space, "trim_offsets": True,
            "use_regex": use_regex}


def split(regex, behavior="Isolated", invert=False):
    return {"type": "Split", "pattern": {"Regex": regex}, "behavior": behavior, "invert": invert}


def sequence(*parts):
    return {"type": "Sequence", "pretokenizers": list(parts)}


def splits(*regexes):
    return sequence(*[split(r) for r in regexes], byte_level(False))


DIGITS = {"type": "Digits", "individual_digits": True}
NFC = {"type": "NFC"}
REPLACE = {"type": "Replace", "pattern": {"String": " "}, "content": MARK}
PREPEND = {"type": "Prepend", "prepend": MARK}


def added(text, special=True, **more):
    return dict({"content": text, "single_word": False, "lstrip": False, "rstrip": False,
                 "normalized": False, "special": special}, **more)


def template(*before, after=(), byte=False):
    names = list(before) + list(after)
    one = {"type": "TemplateProcessing",
           "single": [{"SpecialToken": {"id": t, "type_id": 0}} for t in before] +
                     [{"Sequence": {"id": "A", "type_id": 0}}] +
                     [{"SpecialToken": {"id": t, "type_id": 0}} for t in after],
           "pair": [{"Sequence": {"id": "A", "type_id": 0}},
                    {"Sequence": {"id": "B", "type_id": 1}}],
           "special_tokens": {t: {"id": t, "ids": [None], "tokens": [t]} for t in names}}
    return {"type": "Sequence", "processors": [byte_level(True), one]} if byte else one


def bytes_family(pre_tokenizer, pre, tokens=("<|endoftext|>",), normalizer=None, post=None,
                 added_tokens=(), **more):
    family = {"vocab": "bytes", "normalizer": normalizer, "pre_tokenizer": pre_tokenizer,
              "post_processor": post, "decoder": byte_level(True, True),
              "added_tokens": [added(t) for t in tokens] + list(added_tokens), **more}
    if pre:
        family["gguf"] = {"tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": pre}
    return family


def pieces_decoder(strip):
    parts = [{"type": "Replace", "pattern": {"String": MARK}, "content": " "},
             {"type": "ByteFallback"}, {"type": "Fuse"}]
    if strip:
        parts.append({"type": "Strip", "content": " ", "start": 1, "stop": 0})
    return {"type": "Sequence", "decoders": parts}


def metaspace(scheme, split_words):
    return {"type": "Metaspace", "replacement": MARK, "prepend_scheme": scheme,
            "split": split_words}


def pieces_family(normalizer, pre_tokenizer, decoder, tokens=(), post=None, added_tokens=(),
                  gguf=None, **more):
    return dict({"vocab": "pieces", "normalizer": normalizer, "pre_tokenizer": pre_tokenizer,
                 "post_processor": post, "decoder": decoder,
                 "added_tokens": [added(t) for t in ("<unk>", "<s>", "</s>") + tuple(tokens)] +
                 list(added_tokens), "gguf": gguf}, **more)


def runs(text, low, high, **more):
    return [added(text * n, special=False, **more) for n in range(high, low - 1, -1)]


INVERTED = {"behavior": "Removed", "invert": True}
CL100K_TOKENS = ("<|endoftext|>", "<|fim_prefix|>", "<|im_start|>", "<|im_end|>")
LLAMA3 = ("<|begin_of_text|>", "<|end_of_text|>", "<|start_header_id|>", "<|end_header_id|>",
          "<|eot_id|>")
GEMMA = ("<pad>", "<eos>", "<bos>", "<start_of_turn>", "<end_of_turn>")
GEMMA_SPLIT = {"type": "Split", "pattern": {"String": " "}, "behavior": "MergedWithPrevious",
               "invert": False}
LLAMA_NORMALIZER = {"type": "Sequence", "normalizers": [PREPEND, REPLACE]}

FAMILIES = {
    # byte-level
    "gpt_oss": bytes_family(splits(O200K), "gpt-4o", ("<|startoftext|>", "<|endoftext|>",
                            "<|return|>", "<|channel|>", "<|start|>", "<|end|>", "<|message|>")),
    # GGUF does not say that blanks after a token belong to it
    "phi4_mini": bytes_family(sequence(split(O200K, **INVERTED), byte_level(False)), None,
                              added_tokens=[added("<|user|>", rstrip=True),
                                            added("<|end|>", rstrip=True)]),
    "llama4": bytes_family(splits(O200K), "llama4", ("<|begin_of_text|>", "<|eot|>"),
                           post=template("<|begin_of_text|>", byte=True)),
    "qwen2": bytes_family(splits(cl100k("")), "qwen2", CL100K_TOKENS, NFC, byte_level(False)),
    "qwen35": bytes_family(splits(
        CONTRACTION + r"|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}"
        r"| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|" + TAIL), "qwen35", CL100K_TOKENS),
    "deepseek_llm": bytes_family(sequence(
        split("[\r\n]"), split(CASED),
        split("\\s?[!-/:-~\uff01-\uff0f\uff1a-\uff5e\u2018-\u201f\u3000-\u3002]+"),
        split("\\s+$"), split(CJK), DIGITS, byte_level(False)), "deepseek-llm",
        normalizer={"type": "Sequence", "normalizers": []}),
    "deepseek_coder": bytes_family(sequence(
        split("[\r\n]"), split("\\s?\\p{L}+"), split("\\s?\\p{P}+"), split(CJK), DIGITS,
        byte_level(False)), "deepseek-coder"),
    "deepseek_v3": bytes_family(splits("\\p{N}{1,3}", CJK3, WORDS3), "deepseek-v3",
                                ("<\uff5cbegin\u2581of\u2581sentence\uff5c>", "<\uff5cUser\uff5c>"),
                                added_tokens=[added("<think>", False, normalized=True)]),
    "command_r": bytes_family(sequence(DIGITS, byte_level(True)), "command-r",
                              ("<BOS_TOKEN>", "<|END_OF_TURN_TOKEN|>"), NFC,
                              template("<BOS_TOKEN>")),
    "mistral_nemo": bytes_family(splits(TEKKEN), "tekken", ("<unk>", "<s>", "</s>", "[INST]",
                                 "[/INST]"), post=template("<s>"),
                                 model={"ignore_merges": True}),
    "llama3": bytes_family(splits(cl100k("{1,3}")), "llama-bpe", LLAMA3,
                           post=template(LLAMA3[0], byte=True), model={"ignore_merges": True}),
    "smollm2": bytes_family(sequence(DIGITS, byte_level(True)), "smollm",
                            ("<|endoftext|>", "<|im_start|>", "<|im_end|>")),
    "smollm3": bytes_family(splits(cl100k("{1,3}")), "smaug-bpe", LLAMA3,
                            model={"ignore_merges": True}),
    "olmo2": bytes_family(sequence(split(cl100k("{1,3}"), **INVERTED), byte_level(False)), "dbrx",
                          CL100K_TOKENS, added_tokens=[added("<|extra_id_0|>", False)]),
    "starcoder2": bytes_family(sequence(DIGITS, byte_level(True)), "starcoder",
                               ("<|endoftext|>", "<fim_prefix>")),
    "granite3": bytes_family(sequence(DIGITS, byte_level(True)), "refact",
                             ("<|end_of_text|>", "<|start_of_role|>")),
    "stablelm2": bytes_family(sequence(split(cl100k(""), **INVERTED), byte_level(False)),
                              "stablelm2", CL100K_TOKENS),
    "glm4": bytes_family(splits(cl100k("{1,3}")), "glm4", ("[gMASK]", "<sop>", "<|user|>"),
                         post=template("[gMASK]", "<sop>", byte=True)),
    "gpt_neox": bytes_family(byte_level(True), "olmo", ("<|endoftext|>", "<|padding|>"), NFC,
                             byte_level(True),
                             added_tokens=runs(" ", 2, 24, normalized=True)),
    "phi2": bytes_family(byte_level(True), "phi-2",
                         added_tokens=runs(" ", 2, 31) + runs("\t", 2, 9)),
    "kimi_k2": bytes_family(splits("[\\p{Han}]+|" + o200k(CONTRACTION + "?", "{1,3}",
                                                           "&&[^\\p{Han}]", "")), "kimi-k2"),
    "tiny_aya": bytes_family(splits(r"\d{1,3}(?=(?:\d{3})*\b)", O200K), "tiny_aya"),
    "superbpe": bytes_family(splits(r"\p{N}+", r"(?=(\d{3})+(?!\d))"), "superbpe"),
    "bloom": bytes_family(splits(BLOOM), "bloom"),
    "viking": bytes_family(splits(BLOOM, r"\p{N}"), "viking"),
    "bailingmoe": bytes_family(splits(
        r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*"
        r"|\s*[\r\n]|\s+(?!\S)|\s+"), "bailingmoe"),
    "seed_coder": bytes_family(splits(
        CONTRACTION + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1}| ?[^\s\p{L}\p{N}\r\n]+|" + TAIL),
        "seed-coder"),
    "exaone_moe": bytes_family(splits(
        CONTRACTION + r"|[^\r\n\p{L}\p{N}]?(?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+|\p{N}"
        r"| ?[^\s\p{L}\p{N}]+[\r\n/]?|\s*[\r\n]|\s+(?!\S)|\s+"), "exaone-moe"),
    "laguna": bytes_family(splits("[^\\n]+|[\\n]+", cl100k("")), "laguna"),
    "minicpm5": bytes_family(splits(r"\p{N}{1,3}", cl100k("+")), "minicpm5",
                             model={"ignore_merges": True}),
    "spark2_5": bytes_family(splits(
        "\\p{N}{1,3}", CJK3, WORDS3.replace("[\r\n]*|\\s*[\r\n]+", "|[\r\n]"), "\\p{N}"),
        "spark2_5"),
    "chameleon": bytes_family(splits(
        "<sentinel:[0-9]+>", "(IMGIMG)((A|B|C|D|E|F|G|H|I){1,4})Z", "([\\t\\n]|    |  )",
        "\\p{N}", "[\\p{P}!-/:-@\\[-`{-~]", GPT2), "chameleon"),
    "punctuation": bytes_family(sequence(
        {"type": "Punctuation", "behavior": "Contiguous"}, byte_level(True),
        split("[0-9][0-9][0-9]")), None),
    "merged": bytes_family(sequence(
        {"type": "Split", "pattern": {"String": "."}, "behavior": "MergedWithNext",
         "invert": False}, split(r"\d\w", "MergedWithPrevious"), split(r"^#+|,$", "Contiguous"),
        split("[aeiou]", "MergedWithNext", True), split("\t", "Removed"), byte_level(False)), None),
    # SentencePiece
    "gemma": pieces_family(REPLACE, GEMMA_SPLIT, pieces_decoder(False), GEMMA, template("<bos>"),
                           runs("\n", 2, 31) + runs(MARK, 2, 31) + [added("<table>", False)],
                           {"tokenizer.ggml.model": "gemma4"}),
    "mistral_v3": pieces_family(None, metaspace("first", False), pieces_decoder(True),
                                ("[INST]", "[/INST]"), template("<s>")),
    "phi3": pieces_family(LLAMA_NORMALIZER, None, pieces_decoder(True), (), template("<s>"),
                          [added("<|user|>", rstrip=True), added("<|end|>", rstrip=True)]),
    "words": pieces_family(None, metaspace("always", True), pieces_decoder(True)),
}
