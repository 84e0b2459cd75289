/* Catches: SentencePiece models (protobuf) whose lengths lead outside of the file, and accepted
 * vocabularies that cannot encode a text. */
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char text[] = "the ab  the\n<s> \xc3\xa9\xe4\xb8\xad\xff aaaaaaaaaaaaaaaa";
    size_t blocks = fuzz_blocks();
    pc__tokenizer *tokenizer;
    if (fuzz_ok(pc__tokenizer_from_sentencepiece(&tokenizer, &fuzz_memory,
                                                 fuzz_file(data, size, "")))) {
        FUZZ_CHECK(pc__tokenizer_count(tokenizer) > 0);
        fuzz_round(tokenizer, text, sizeof text - 1, PC_TOKENIZE_SPECIAL | PC_TOKENIZE_BOS, 0);
    } else {
        FUZZ_CHECK(!tokenizer);
    }
    pc__tokenizer_free(tokenizer);
    fuzz_no_leak(blocks);
    return 0;
}
