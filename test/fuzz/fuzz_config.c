/* Catches: a config.json that crashes the readers of architectures, or that they accept with sizes
 * which no model has. */
#include "fuzz.h"
#include "model/load/arch.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    size_t blocks = fuzz_blocks();
    pc__arch arch;
    if (fuzz_ok(pc__arch_from_json(&arch, &fuzz_memory, (const char *)data, size, "config.json"))) {
        FUZZ_CHECK(pc__arch_check(&arch, "config.json") == PC_OK);
        FUZZ_CHECK(arch.heads % arch.kv_heads == 0 && arch.layers > 0 && *arch.name);
    } else {
        FUZZ_CHECK(!arch.rope.short_factors && !arch.layers);
    }
    pc__arch_clear(&fuzz_memory, &arch);
    fuzz_no_leak(blocks);
    return 0;
}
