/* The mutator of fuzzers whose input begins with a JSON text, up to the first NUL byte. */
#include <string.h>

#include "mutate.h"

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t room, unsigned seed)
{
    uint64_t state = seed;
    const uint8_t *begin = size ? memchr(data, '{', size) : NULL,
                  *nul = size ? memchr(data, 0, size) : NULL;
    size_t end = nul ? (size_t)(nul - data) : size;
    if (begin && mutate_draw(&state, 8)) {
        size_t n = mutate_json(data, (size_t)(begin - data), end, size, room, &state);
        if (n)
            return n;
    }
    return LLVMFuzzerMutate(data, size, room);
}
