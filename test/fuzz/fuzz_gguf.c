/* Catches: GGUF files whose counts, types, offsets or metadata crash the reader, the vocabulary,
 * the configuration, the check of the weights or a first forward pass of a model that was accepted.
 */
#include <string.h>

#include "fuzz.h"
#include "model/load/arch.h"
#include "model/load/gguf.h"

enum { SAMPLE = 256 * 4 };

static void read_tensors(const pc__weights *weights, const char *path)
{
    static float values[SAMPLE];
    for (size_t i = 0; i < pc__weights_count(weights); i++) {
        const pc__tensor *tensor = pc__weights_at(weights, i);
        uint64_t elements = tensor->bytes / pc__ttypes[tensor->type].block_bytes
                            * pc__ttypes[tensor->type].block;
        FUZZ_CHECK(pc__weights_find(weights, tensor->name) == tensor);
        if (fuzz_ok(pc__tensor_check(tensor, path)))
            pc__tensor_floats(tensor, 0, elements < SAMPLE ? elements : SAMPLE, values);
    }
}

static void read_parts(const char *path)
{
    pc__gguf *gguf;
    pc__arch arch;
    pc__tokenizer *tokenizer;
    if (!fuzz_ok(pc__gguf_open(&gguf, &fuzz_memory, path))) {
        FUZZ_CHECK(!gguf);
        return;
    }
    read_tensors(pc__gguf_weights(gguf), path);
    (void)fuzz_ok(pc__arch_from_gguf(&arch, &fuzz_memory, gguf));
    pc__arch_clear(&fuzz_memory, &arch);
    if (fuzz_ok(pc__gguf_tokenizer(&tokenizer, &fuzz_memory, gguf)))
        fuzz_round(tokenizer, "the <s>a\xff b", 10, PC_TOKENIZE_SPECIAL, 0);
    pc__tokenizer_free(tokenizer);
    pc__gguf_free(gguf);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    size_t blocks = fuzz_blocks();
    const char *path = fuzz_file(data, size, "");
    read_parts(path);
    if (size > 4 && !memcmp(data, "GGUF", 4))
        fuzz_load(path);
    fuzz_no_leak(blocks);
    return 0;
}
