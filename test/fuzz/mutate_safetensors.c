/* The mutator of safetensors: changes the JSON of the header, and its length with it. */
#include <string.h>

#include "mutate.h"

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t room, unsigned seed)
{
    uint64_t state = seed, header = 0;
    if (size > 8)
        memcpy(&header, data, 8);
    if (size > 8 && header <= size - 8 && mutate_draw(&state, 8)) {
        size_t n = mutate_json(data, 8, 8 + (size_t)header, size, room, &state);
        header += n - size;
        if (n) {
            memcpy(data, &header, 8);
            return n;
        }
    }
    return LLVMFuzzerMutate(data, size, room);
}
