/* Catches: text (any bytes) that crashes one of the three kinds of tokenizer, gives ids outside of
 * the vocabulary, breaks the contract of counts, or does not come back from its ids byte by byte
 * (SentencePiece and byte-level BPE). */
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"
#include "text/tokenizer_body.h"

static const char *const families[] = {"gpt-2",        "llama-bpe", "qwen2",
                                       "falcon",       "starcoder", "deepseek-coder",
                                       "deepseek-llm", "default",   "bloom"};
enum { FAMILIES = sizeof families / sizeof *families };

static pc__tokenizer *spm, *wordpiece, *normalised, *bpe[FAMILIES];

static void start(void)
{
    spm = fuzz_tokenizer(PC__VOCAB_SPM, NULL, NULL);
    wordpiece = fuzz_tokenizer(PC__VOCAB_WORDPIECE, NULL, NULL);
    normalised = fuzz_tokenizer(PC__VOCAB_BPE, "qwen2", NULL);
    normalised->rules.nfc = 1;
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
    fuzz_round(wordpiece, text, size, PC_TOKENIZE_SPECIAL, 0);
    fuzz_round(normalised, text, size, PC_TOKENIZE_SPECIAL, 0);
    for (size_t i = 0; i < FAMILIES; i++) {
        fuzz_round(bpe[i], text, size, 0, 1);
        fuzz_round(bpe[i], text, size, PC_TOKENIZE_SPECIAL, 1);
    }
    fuzz_no_leak(blocks);
    return 0;
}
