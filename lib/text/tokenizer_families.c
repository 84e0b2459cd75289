/* The pre-tokenizers that GGUF files name (tokenizer.ggml.pre): the names that llama.cpp's
 * converter writes, and the expressions of the models' own tokenizer.json. Names with equal
 * expressions share a row. */
#include "text/tokenizer_internal.h"

#define CONTRACTION "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define TAIL "\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
/* cl100k of tiktoken, with runs of so many digits */
#define CL100K(digits)                                         \
    CONTRACTION "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}" digits \
                "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|" TAIL
/* o200k of tiktoken: words end where lower case is followed by upper case. `upper`, `lower`: the
 * classes of characters before and after such a place. */
#define O200K_CLASSES(upper, lower, contraction, digits, marks)                              \
    "[^\\r\\n\\p{L}\\p{N}]?" upper "*" lower "+" contraction "|[^\\r\\n\\p{L}\\p{N}]?" upper \
    "+" lower "*" contraction "|\\p{N}" digits "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n" marks "]*|" TAIL
#define O200K(contraction, digits)                                                         \
    O200K_CLASSES("[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]", "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]", \
                  contraction, digits, "/")
#define NO_HAN(letters) "[" letters "&&[^\\p{Han}]]"
#define KIMI                                                                                      \
    "[\\p{Han}]+|" O200K_CLASSES(NO_HAN("\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}"),                    \
                                 NO_HAN("\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}"), CONTRACTION "?", "{1,3}", \
                                 "")
/* digits in groups of three from the right */
#define DIGIT_GROUPS "\\d{1,3}(?=(?:\\d{3})*\\b)"
#define DEEPSEEK3_CJK "[\\x{4e00}-\\x{9fa5}\\x{3040}-\\x{309f}\\x{30a0}-\\x{30ff}]+"
#define DEEPSEEK3_WORDS(newlines)                                                        \
    "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?" \
    "[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+" newlines "|\\s+(?!\\S)|\\s+"
#define BLOOM " ?[^(\\s|.,!?\\x{2026}\\x{3002}\\x{ff0c}\\x{3001}\\x{964}\\x{6d4}\\x{60c})]+"
#define CJK "[\\x{4e00}-\\x{9fa5}\\x{0800}-\\x{4e00}\\x{ac00}-\\x{d7ff}]+"
/* letters with case, as the DeepSeek tokenizer lists them: Latin, Greek, Cyrillic, Armenian,
 * Georgian, Cherokee … */
#define CASED                                                                                   \
    "\\s?[A-Za-z\\x{b5}\\x{c0}-\\x{d6}\\x{d8}-\\x{f6}\\x{f8}-\\x{1ba}\\x{1bc}-\\x{1bf}"         \
    "\\x{1c4}-\\x{293}\\x{295}-\\x{2af}\\x{370}-\\x{373}\\x{376}\\x{377}\\x{37b}-\\x{37d}"      \
    "\\x{37f}\\x{386}\\x{388}-\\x{38a}\\x{38c}\\x{38e}-\\x{3a1}\\x{3a3}-\\x{3f5}"               \
    "\\x{3f7}-\\x{481}\\x{48a}-\\x{52f}\\x{531}-\\x{556}\\x{10a0}-\\x{10c5}\\x{13a0}-\\x{13f5}" \
    "\\x{13f8}-\\x{13fd}\\x{1c90}-\\x{1cba}\\x{1cbd}-\\x{1cbf}\\x{1d00}-\\x{1d2b}"              \
    "\\x{1d6b}-\\x{1d77}\\x{1d79}-\\x{1d9a}\\x{1e00}-\\x{1f15}\\x{1f18}-\\x{1f1d}"              \
    "\\x{1f20}-\\x{1f45}\\x{1f48}-\\x{1f4d}\\x{1f50}-\\x{1f57}\\x{1f59}\\x{1f5b}\\x{1f5d}"      \
    "\\x{1f5f}-\\x{1f7d}\\x{1f80}-\\x{1fb4}\\x{1fb6}-\\x{1fbc}\\x{1fbe}\\x{1fc2}-\\x{1fc4}"     \
    "\\x{1fc6}-\\x{1fcc}\\x{1fd0}-\\x{1fd3}\\x{1fd6}-\\x{1fdb}\\x{1fe0}-\\x{1fec}"              \
    "\\x{1ff2}-\\x{1ff4}\\x{1ff6}-\\x{1ffc}\\x{2102}\\x{2107}\\x{210a}-\\x{2113}\\x{2115}"      \
    "\\x{2119}-\\x{211d}\\x{2124}\\x{2126}\\x{2128}\\x{212a}-\\x{212d}\\x{212f}-\\x{2134}"      \
    "\\x{2139}\\x{213c}-\\x{213f}\\x{2145}-\\x{2149}\\x{214e}\\x{2183}\\x{2184}"                \
    "\\x{2c00}-\\x{2c7b}\\x{2c7e}-\\x{2ce4}\\x{2ceb}-\\x{2cee}\\x{2cf2}\\x{2cf3}"               \
    "\\x{a640}-\\x{a66d}\\x{a680}-\\x{a69b}\\x{a722}-\\x{a76f}\\x{a771}-\\x{a787}"              \
    "\\x{a78b}-\\x{a78e}\\x{ab70}-\\x{abbf}\\x{fb00}-\\x{fb06}\\x{fb13}-\\x{fb17}"              \
    "\\x{ff21}-\\x{ff3a}\\x{ff41}-\\x{ff5a}\\x{10400}-\\x{1044f}\\x{104b0}-\\x{104d3}"          \
    "\\x{104d8}-\\x{104fb}\\x{10c80}-\\x{10cb2}\\x{10cc0}-\\x{10cf2}\\x{118a0}-\\x{118df}"      \
    "\\x{1e900}-\\x{1e943}]+"

typedef struct family {
    const char *names; /* separated by blanks */
    int32_t bos;       /* BOS is added unless the file says no */
    int32_t ignore_merges, nfc;
    const char *expression[PC__MAX_EXPRESSIONS];
} family;

static const family families[] = {
    {"gpt-2 gpt2 mpt jais phi-2 gpt-neox gpt_neox trillion roberta-bpe jina-es jina-de jina-v1-en "
     "jina-v2-es jina-v2-de jina-v2-code a.x-4.0 mellum modern-bert gigachat exaone4 "
     "granite-docling",
     0,
     0,
     0,
     {PC__GPT2_EXPRESSION}},
    {"olmo", 0, 0, 1, {PC__GPT2_EXPRESSION}}, /* GPT-NeoX and what derives from it */
    {"llama3 llama-v3 llama-bpe falcon3 falcon-h1 pixtral midm-2.0 lfm2 jina-v5-nano",
     1,
     1,
     0,
     {CL100K("{1,3}")}},
    {"dbrx smaug-bpe", 0, 1, 0, {CL100K("{1,3}")}},
    {"glm4 chatglm-bpe", 0, 0, 0, {CL100K("{1,3}")}},
    {"qwen2", 0, 0, 1, {CL100K("")}},
    {"stablelm2 hunyuan megrez deepseek-r1-qwen solar-open kormo f2llmv2 grok-2",
     0,
     0,
     0,
     {CL100K("")}},
    {"qwen35",
     0,
     0,
     0,
     {CONTRACTION "|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}"
                  "| ?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*|" TAIL}},
    {"gpt-4o llama4 kanana2 talkie minimax-m2", 0, 0, 0, {O200K(CONTRACTION "?", "{1,3}")}},
    {"granite-embed-multi-97m", 0, 1, 0, {O200K(CONTRACTION "?", "{1,3}")}},
    {"tekken", 1, 1, 0, {O200K("", "")}},
    {"kimi-k2", 0, 0, 0, {KIMI}},
    {"tiny_aya cohere2moe", 0, 0, 0, {DIGIT_GROUPS, O200K(CONTRACTION "?", "{1,3}")}},
    {"youtu",
     0,
     1,
     0,
     {"[\\x{ac00}-\\x{d7a3}\\x{3131}-\\x{318e}]+|[\\x{ff01}\\x{2026}\\x{201c}\\x{201d}\\x{2018}"
      "\\x{2019}\\x{2014}\\x{ff1a}\\x{ff1b}\\x{ff0c}\\x{3001}-\\x{303f}\\x{fe30}-\\x{fe4f}]+"
      "|[\\x{3105}-\\x{312f}]+|" DEEPSEEK3_CJK,
      O200K(CONTRACTION "?", "")}},
    {"falcon", 0, 0, 0, {"[\\p{P}\\$\\+<=>\\^~\\|`]+", PC__GPT2_EXPRESSION, "[0-9][0-9][0-9]"}},
    {"starcoder refact smollm codeshell exaone minerva-7b mellum2",
     0,
     0,
     0,
     {"\\p{N}", PC__GPT2_EXPRESSION}},
    {"command-r", 0, 0, 1, {"\\p{N}", PC__GPT2_EXPRESSION}},
    {"deepseek-coder", 0, 0, 0, {"[\\r\\n]", "\\s?\\p{L}+", "\\s?\\p{P}+", CJK, "\\p{N}"}},
    {"deepseek-llm",
     0,
     0,
     0,
     {"[\\r\\n]", CASED,
      "\\s?[!-/:-~\\x{ff01}-\\x{ff0f}\\x{ff1a}-\\x{ff5e}\\x{2018}-\\x{201f}\\x{3000}-\\x{3002}]+",
      "\\s+$", CJK, "\\p{N}"}},
    {"deepseek-v3 hunyuan-dense joyai-llm hy_v4",
     0,
     0,
     0,
     {"\\p{N}{1,3}", DEEPSEEK3_CJK, DEEPSEEK3_WORDS("[\\r\\n]*|\\s*[\\r\\n]+")}},
    {"spark2_5", 0, 0, 0, {"\\p{N}{1,3}", DEEPSEEK3_CJK, DEEPSEEK3_WORDS("|[\\r\\n]"), "\\p{N}"}},
    {"afmoe",
     0,
     0,
     0,
     {"\\p{N}{1,3}(?=(?:\\p{N}{3})*(?!\\p{N}))",
      "[\\x{4e00}-\\x{9fff}\\x{3400}-\\x{4dbf}\\x{f900}-\\x{faff}\\x{3040}-\\x{309f}"
      "\\x{30a0}-\\x{30ff}\\x{ff65}-\\x{ff9f}\\x{2f00}-\\x{2fdf}\\x{e40}-\\x{e7f}"
      "\\x{e80}-\\x{eff}\\x{1780}-\\x{17ff}\\x{1000}-\\x{109f}\\x{aa60}-\\x{aa7f}"
      "\\x{a9e0}-\\x{a9ff}\\x{ac00}-\\x{d7af}\\x{1100}-\\x{11ff}]+",
      DEEPSEEK3_WORDS("[\\r\\n]*|\\s*[\\r\\n]+")}},
    {"superbpe", 0, 0, 0, {"\\p{N}+", "(?=(\\d{3})+(?!\\d))"}},
    {"bailingmoe bailingmoe2 llada-moe",
     0,
     0,
     0,
     {"'(?i:[sdmt]|ll|ve|re)|[^\\r\\n\\p{L}\\p{N}]?+\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]++[\\r\\n]*"
      "|\\s*[\\r\\n]|\\s+(?!\\S)|\\s+"}},
    {"seed-coder",
     0,
     0,
     0,
     {CONTRACTION "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1}| ?[^\\s\\p{L}\\p{N}\\r\\n]+|" TAIL}},
    {"ufakzeka",
     0,
     0,
     0,
     {"[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|" TAIL}},
    {"laguna", 0, 0, 0, {"[^\\n]+|[\\n]+", CL100K("")}},
    {"exaone-moe",
     0,
     0,
     0,
     {CONTRACTION "|[^\\r\\n\\p{L}\\p{N}]?(?:\\p{L}\\p{M}*(?: \\p{L}\\p{M}*)*)+|\\p{N}"
                  "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]?|\\s*[\\r\\n]|\\s+(?!\\S)|\\s+"}},
    {"minicpm5", 0, 1, 0, {"\\p{N}{1,3}", CL100K("+")}},
    {"jais-2",
     0,
     0,
     0,
     {CONTRACTION "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*"
                  "|\\s*[\\r\\n]+|\\s{512}(?!\\S)|\\s{256}(?!\\S)|\\s{128}(?!\\S)|\\s{64}(?!\\S)"
                  "|\\s{32}(?!\\S)|\\s{16}(?!\\S)|\\s{8}(?!\\S)|\\s{4}(?!\\S)|\\s{1,2}(?!\\S)"
                  "|\\s{1}"}},
    {"chameleon",
     1,
     0,
     0,
     {"<sentinel:[0-9]+>", "(IMGIMG)((A|B|C|D|E|F|G|H|I){1,4})Z", "([\\t\\n]|    |  )", "\\p{N}",
      "[\\p{P}!-/:-@\\[-`{-~]", PC__GPT2_EXPRESSION}},
    {"bloom poro-chat gpt3-finnish", 0, 0, 0, {BLOOM}},
    {"viking", 0, 0, 0, {BLOOM, "\\p{N}"}},
    {"default",
     0,
     0,
     0,
     {"[\\p{P}\\$\\+<=>\\^~\\|]+", PC__GPT2_EXPRESSION, "\\p{N}+", "[0-9][0-9][0-9]"}},
};

static const family *find_family(const char *name)
{
    for (size_t i = 0; i < sizeof families / sizeof *families; i++)
        if (pc__is_listed(families[i].names, name))
            return &families[i];
    return NULL;
}

int pc__family_adds_bos(const char *name)
{
    const family *f = name ? find_family(name) : NULL;
    return f && f->bos;
}

pc_status pc__expressions_of(pc__tokenizer *t, const char *name, const char *where)
{
    const family *f = find_family(name);
    if (!f)
        return pc__fail(PC_ERR_UNSUPPORTED, "%s: pre-tokenizer '%s' is not known", where, name);
    t->rules.ignore_merges |= f->ignore_merges;
    t->rules.nfc |= f->nfc;
    for (size_t e = 0; e < PC__MAX_EXPRESSIONS && f->expression[e]; e++)
        PC__TRY_RETURN(pc__expression_add(t, &(pc__split){.expression = f->expression[e]}, where));
    return PC_OK;
}
