// Loads and stores of given widths, functions of the C library, and the block's shared memory.
#include "machine.h"

namespace gpu_model {

#define CALLER __builtin_return_address(0)

void read(const void *at, void *value, unsigned size)
{
    check_aligned(at, size, CALLER);
    access(at, size, READ, CALLER);
    memcpy(value, at, size);
}

void write(void *at, const void *value, unsigned size)
{
    check_aligned(at, size, CALLER);
    access(at, size, WRITE, CALLER);
    memcpy(at, value, size);
}

void copy_bytes(void *to, const void *from, size_t size)
{
    if (size) {
        access(from, size, READ, CALLER);
        access(to, size, WRITE, CALLER);
    }
    memcpy(to, from, size);
}

void set_bytes(void *to, int value, size_t size)
{
    if (size)
        access(to, size, WRITE, CALLER);
    memset(to, value, size);
}

uint8_t *dynamic_shared()
{
    return machine.now->home->shared.base;
}

} // namespace gpu_model
