/* Catches: vocabularies in tiktoken's text form with bad base64, ranks out of order or an end
 * inside a line, and those of tekken.json (an input that begins with "{"). An input that would
 * count as a protobuf is read from its second byte on. */
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char text[] =
        "the ab  the\n<|eot_id|> \xc3\xa9\xe4\xb8\xad\xff aaaaaaaaaaaaaaaa 1234";
    size_t blocks = fuzz_blocks(), from = size && data[0] == 0x0a;
    pc__tokenizer *tokenizer;
    const char *path = fuzz_file(data + from, size - from, "");
    if (fuzz_ok(size && *data == '{'
                    ? pc__tokenizer_from_tekken(&tokenizer, &fuzz_memory, path)
                    : pc__tokenizer_from_sentencepiece(&tokenizer, &fuzz_memory, path))) {
        FUZZ_CHECK(pc__tokenizer_count(tokenizer) > 0);
        fuzz_round(tokenizer, text, sizeof text - 1, PC_TOKENIZE_SPECIAL | PC_TOKENIZE_BOS, 0);
    } else {
        FUZZ_CHECK(!tokenizer);
    }
    pc__tokenizer_free(tokenizer);
    fuzz_no_leak(blocks);
    return 0;
}
