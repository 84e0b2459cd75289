/* Catches: checkpoints of llama2.c whose seven numbers lead outside of the file. */
#include "fuzz.h"
#include "model/load/arch.h"
#include "model/load/llama2c.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    size_t blocks = fuzz_blocks();
    const char *path = fuzz_file(data, size, "");
    pc__weights *weights;
    pc__arch arch;
    if (fuzz_ok(pc__llama2c_open(&weights, &arch, &fuzz_memory, path))) {
        FUZZ_CHECK(arch.layers > 0 && pc__weights_find(weights, "model.norm.weight"));
        for (size_t i = 0; i < pc__weights_count(weights); i++)
            (void)fuzz_ok(pc__tensor_check(pc__weights_at(weights, i), path));
    } else {
        FUZZ_CHECK(!weights && !arch.layers);
    }
    pc__weights_free(weights);
    pc__arch_clear(&fuzz_memory, &arch);
    fuzz_no_leak(blocks);
    return 0;
}
