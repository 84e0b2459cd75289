/* Catches: text (any bytes) that crashes one of the four kinds of tokenizer, gives ids outside of
 * the vocabulary, breaks the contract of counts, or does not come back from its ids byte by byte
 * (SentencePiece, Unigram and byte-level BPE). */
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"
#include <utf8proc.h>

#include "text/tokenizer_internal.h"

/* one of each form of expressions; qwen2 normalises */
static const char *const families[] = {
    "gpt-2",        "llama-bpe",   "qwen2",  "falcon", "starcoder", "deepseek-coder",
    "deepseek-llm", "deepseek-v3", "gpt-4o", "tekken", "kimi-k2",   "tiny_aya",
    "superbpe",     "bailingmoe",  "afmoe",  "jais-2", "default",   "bloom"};
enum { FAMILIES = sizeof families / sizeof *families };

static pc__tokenizer *spm, *wordpiece, *unigram, *stepped, *bpe[FAMILIES];

/* Everything that a tokenizer.json can ask for, one after the other; the map makes "A" an "a". */
static void add_steps(pc__tokenizer *t)
{
    static const uint8_t map[] = {12, 0, 0, 0, 0, 0, 1, 0, 0x41, 0x0d, 0, 0, 0, 0, 0, 0x80, 'a', 0};
    const pc__text space = {" ", 1}, twice = {"``", 2}, quote = {"\"", 1}, blanks = {" {2,}", 5};
    FUZZ_CHECK(fuzz_ok(pc__steps_new(&t->steps, &fuzz_memory)));
    FUZZ_CHECK(
        pc__steps_add(t->steps, PC__STEP_STRIP, 3) == PC_OK
        && pc__steps_add(t->steps, PC__STEP_CONTROLS, 0) == PC_OK
        && pc__steps_add_texts(t->steps, PC__STEP_REPLACE, twice, quote, "fuzz") == PC_OK
        && pc__steps_add(t->steps, PC__STEP_UNICODE,
                         UTF8PROC_STABLE | UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT)
               == PC_OK
        && pc__steps_add(t->steps, PC__STEP_STRIP_MARKS, 0) == PC_OK
        && pc__steps_add(t->steps, PC__STEP_LOWERCASE, 0) == PC_OK
        && pc__steps_add_map(t->steps, PC__STEP_MAP_CLUSTERS, map, sizeof map, "fuzz") == PC_OK
        && pc__steps_add_map(t->steps, PC__STEP_MAP_LONGEST, map, sizeof map, "fuzz") == PC_OK
        && pc__steps_add_texts(t->steps, PC__STEP_EXPRESSION, blanks, space, "fuzz") == PC_OK
        && pc__steps_add(t->steps, PC__STEP_ONE_BLANK, 0) == PC_OK
        && pc__steps_add_texts(t->steps, PC__STEP_PREPEND, space, space, "fuzz") == PC_OK);
    t->rules.split_blanks = t->rules.split_marks = t->rules.one_prefix = 1;
}

static void start(void)
{
    spm = fuzz_tokenizer(PC__VOCAB_SPM, NULL, NULL);
    wordpiece = fuzz_tokenizer(PC__VOCAB_WORDPIECE, NULL, NULL);
    unigram = fuzz_tokenizer(PC__VOCAB_UNIGRAM, NULL, NULL);
    stepped = fuzz_tokenizer(PC__VOCAB_UNIGRAM, NULL, NULL);
    add_steps(stepped);
    for (size_t i = 0; i < FAMILIES; i++)
        bpe[i] = fuzz_tokenizer(PC__VOCAB_BPE, families[i], NULL);
}

/* SentencePiece writes blanks as U+2581, so that character itself cannot come back; the special
 * tokens' text takes no blank in front, but the text behind it does. */
static int spm_is_exact(const char *text, size_t size)
{
    for (size_t i = 0; i + 3 <= size; i++)
        if (!memcmp(text + i, "\xe2\x96\x81", 3))
            return 0;
    return 1;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *text = (const char *)data;
    size_t blocks;
    if (!spm)
        start();
    blocks = fuzz_blocks();
    fuzz_round(spm, text, size, 0, spm_is_exact(text, size));
    fuzz_round(spm, text, size, PC_TOKENIZE_SPECIAL, spm_is_exact(text, size));
    fuzz_round(spm, text, size, PC_TOKENIZE_BOS, spm_is_exact(text, size));
    fuzz_round(unigram, text, size, 0, spm_is_exact(text, size));
    fuzz_round(unigram, text, size, PC_TOKENIZE_SPECIAL, spm_is_exact(text, size));
    fuzz_round(stepped, text, size, PC_TOKENIZE_SPECIAL | PC_TOKENIZE_BOS, 0);
    fuzz_round(wordpiece, text, size, PC_TOKENIZE_SPECIAL, 0);
    for (size_t i = 0; i < FAMILIES; i++) {
        fuzz_round(bpe[i], text, size, 0, !bpe[i]->rules.nfc);
        fuzz_round(bpe[i], text, size, PC_TOKENIZE_SPECIAL, !bpe[i]->rules.nfc);
    }
    fuzz_no_leak(blocks);
    return 0;
}
