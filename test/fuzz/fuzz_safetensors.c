/* Catches: safetensors headers whose sizes, shapes or offsets lead outside of the file. */
#include "fuzz.h"
#include "model/load/safetensors.h"
#include "model/load/weights.h"

enum { SAMPLE = 1024 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static float values[SAMPLE];
    size_t blocks = fuzz_blocks();
    const char *path = fuzz_file(data, size, "");
    pc__weights *weights;
    if (fuzz_ok(pc__safetensors_open(&weights, &fuzz_memory, path))) {
        for (size_t i = 0; i < pc__weights_count(weights); i++) {
            const pc__tensor *tensor = pc__weights_at(weights, i);
            uint64_t elements = tensor->bytes / pc__ttypes[tensor->type].block_bytes;
            FUZZ_CHECK(pc__weights_find(weights, tensor->name) == tensor);
            if (fuzz_ok(pc__tensor_check(tensor, path)))
                pc__tensor_floats(tensor, 0, elements < SAMPLE ? elements : SAMPLE, values);
        }
    } else {
        FUZZ_CHECK(!weights);
    }
    pc__weights_free(weights);
    fuzz_no_leak(blocks);
    return 0;
}
