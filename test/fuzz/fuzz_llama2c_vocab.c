/* Catches: llama2.c's tokenizer.bin with pieces longer than the file, or with another number of
 * pieces than the model has tokens. The first two bytes of an input are that number. */
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char text[] = "the ab  the\n<s> \xc3\xa9\xe4\xb8\xad\xff aaaaaaaaaaaaaaaa";
    size_t blocks = fuzz_blocks(), count;
    pc__tokenizer *tokenizer;
    if (size < 2)
        return 0;
    count = data[0] | (size_t)data[1] << 8;
    if (fuzz_ok(pc__tokenizer_from_llama2c(&tokenizer, &fuzz_memory,
                                           fuzz_file(data + 2, size - 2, ""), count))) {
        FUZZ_CHECK(pc__tokenizer_count(tokenizer) == count);
        fuzz_round(tokenizer, text, sizeof text - 1, PC_TOKENIZE_SPECIAL | PC_TOKENIZE_BOS, 0);
    } else {
        FUZZ_CHECK(!tokenizer);
    }
    pc__tokenizer_free(tokenizer);
    fuzz_no_leak(blocks);
    return 0;
}
