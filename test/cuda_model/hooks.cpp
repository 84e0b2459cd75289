// Kernels are compiled with -fsanitize=thread and linked without its library: these functions,
// which the compiler calls before each access to memory, lead to the shadow memory instead.
#include "machine.h"

#if !GPU_MODEL_ASAN

using namespace gpu_model;

#define CALLER __builtin_return_address(0)

#define HOOK(name, kind, bytes)                   \
    void __tsan_##name##bytes(void *at)           \
    {                                             \
        if (machine.looks_at == VALUES)           \
            return;                               \
        check_aligned(at, bytes, CALLER);         \
        access(at, bytes, kind, CALLER);          \
    }                                             \
    void __tsan_unaligned_##name##bytes(void *at) \
    {                                             \
        access(at, bytes, kind, CALLER);          \
    }

extern "C" {
HOOK(read, READ, 1)
HOOK(read, READ, 2)
HOOK(read, READ, 4)
HOOK(read, READ, 8)
HOOK(read, READ, 16)
HOOK(write, WRITE, 1)
HOOK(write, WRITE, 2)
HOOK(write, WRITE, 4)
HOOK(write, WRITE, 8)
HOOK(write, WRITE, 16)

void __tsan_read_range(void *at, size_t bytes)
{
    access(at, bytes, READ, CALLER);
}
void __tsan_write_range(void *at, size_t bytes)
{
    access(at, bytes, WRITE, CALLER);
}
void __tsan_func_entry(void *)
{
}
void __tsan_func_exit()
{
}
void __tsan_init()
{
}
}

#endif
