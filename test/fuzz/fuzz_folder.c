/* Catches: Hugging Face folders whose configuration and tensors do not fit each other and that are
 * computed nevertheless. Input: config.json up to the first NUL byte, then model.safetensors. */
#include <string.h>

#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    size_t blocks = fuzz_blocks();
    const uint8_t *nul = size ? memchr(data, 0, size) : NULL;
    size_t config = nul ? (size_t)(nul - data) : size;
    const uint8_t *rest = nul ? nul + 1 : data + size;
    fuzz_load(fuzz_folder(data, config, rest, (size_t)(data + size - rest)));
    fuzz_no_leak(blocks);
    return 0;
}
