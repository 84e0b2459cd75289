// Fibers: stacks of their own within one thread of the system, which switch by hand.
#ifndef PC_TEST_FIBER_H
#define PC_TEST_FIBER_H

#include <stddef.h>
#include <stdint.h>

#if defined(__SANITIZE_ADDRESS__)
#define GPU_MODEL_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define GPU_MODEL_ASAN 1
#endif
#endif
#ifndef GPU_MODEL_ASAN
#define GPU_MODEL_ASAN 0
#endif

#if !defined(__x86_64__) && !defined(GPU_MODEL_UCONTEXT)
#define GPU_MODEL_UCONTEXT 1
#endif
#ifdef GPU_MODEL_UCONTEXT
#include <ucontext.h>
#endif

namespace gpu_model {

struct fiber {
#ifdef GPU_MODEL_UCONTEXT
    ucontext_t context;
#else
    void *saved; // its stack pointer while another one runs
#endif
    uint8_t *stack; // lowest address
    size_t size;
    void *fake; // AddressSanitizer's second stack
};

// The caller's own stack as a fiber, to be switched back to.
void fiber_of_caller(fiber *f);
// A fiber that begins in `entry` when it is first switched to. `entry` never returns; it calls
// fiber_begun first.
void fiber_make(fiber *f, uint8_t *stack, size_t size, void (*entry)());
void fiber_begun();
// `ends`: nobody switches back to `from`.
void fiber_switch(fiber *from, fiber *to, bool ends);

// Stacks in one piece of address space, each with a page below it that no access survives.
void stacks_reserve(size_t count);
uint8_t *stack_at(size_t index, size_t *size);
// Not a power of 2: the tops of all stacks would fall into the same few lines of the CPU's caches.
const size_t GUARD_SIZE = 4096, STACK_SIZE = (GPU_MODEL_ASAN ? 256 : 64) * 1024 + GUARD_SIZE;
extern uint8_t *stacks;
extern size_t stack_count;
inline bool in_stacks(const void *at) // including the pages between
{
    return (size_t)((const uint8_t *)at - stacks) < stack_count * STACK_SIZE;
}
inline bool in_stack_guard(const void *at)
{
    return in_stacks(at) && (size_t)((const uint8_t *)at - stacks) % STACK_SIZE < GUARD_SIZE;
}

} // namespace gpu_model

#endif
