// Switching between fibers: 16 instructions on x86-64, ucontext elsewhere. AddressSanitizer is told
// of every switch.
#include "fiber.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>
#if GPU_MODEL_ASAN
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

namespace gpu_model {

uint8_t *stacks;
size_t stack_count;

void stacks_reserve(size_t count)
{
    if (count <= stack_count)
        return;
    if (stacks) {
#if GPU_MODEL_ASAN // or the next owner of these addresses would inherit what functions marked there
        __asan_unpoison_memory_region(stacks, stack_count * STACK_SIZE);
#endif
        munmap(stacks, stack_count * STACK_SIZE);
    }
    void *at = mmap(NULL, count * STACK_SIZE, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED) {
        perror("cuda model: no room for the stacks of the threads");
        abort();
    }
    stacks = (uint8_t *)at;
    stack_count = count;
    for (size_t i = 0; i < count; i++)
        mprotect(stacks + i * STACK_SIZE, GUARD_SIZE, PROT_NONE);
}

uint8_t *stack_at(size_t index, size_t *size)
{
    *size = STACK_SIZE - GUARD_SIZE - index % 32 * 128; // each begins in other cache lines
    return stacks + index * STACK_SIZE + GUARD_SIZE;
}

void fiber_of_caller(fiber *f)
{
    f->stack = NULL;
    f->size = 0;
    f->fake = NULL;
#if GPU_MODEL_ASAN
    pthread_attr_t attributes; // asking takes long
    void *stack;
    if (!pthread_getattr_np(pthread_self(), &attributes)) {
        pthread_attr_getstack(&attributes, &stack, &f->size);
        pthread_attr_destroy(&attributes);
        f->stack = (uint8_t *)stack;
    }
#endif
}

#ifndef GPU_MODEL_UCONTEXT

extern "C" void gpu_model_switch(void **save, void *to);
asm(R"(
    .text
    .globl gpu_model_switch
    .type gpu_model_switch, @function
gpu_model_switch:
    push %rbp
    push %rbx
    push %r12
    push %r13
    push %r14
    push %r15
    mov %rsp, (%rdi)
    mov %rsi, %rsp
    pop %r15
    pop %r14
    pop %r13
    pop %r12
    pop %rbx
    pop %rbp
    ret
    .size gpu_model_switch, . - gpu_model_switch
)");

static void prepare(fiber *f, void (*entry)())
{
    void **top = (void **)(f->stack + f->size - 64);
    *--top = NULL;          // the stack is aligned as after a call
    *--top = (void *)entry; // where the first switch returns to
    for (int saved = 0; saved < 6; saved++)
        *--top = NULL;
    f->saved = top;
}

static void change(fiber *from, fiber *to)
{
    gpu_model_switch(&from->saved, to->saved);
}

#else

static void prepare(fiber *f, void (*entry)())
{
    getcontext(&f->context);
    f->context.uc_stack.ss_sp = f->stack;
    f->context.uc_stack.ss_size = f->size;
    f->context.uc_link = NULL;
    makecontext(&f->context, entry, 0);
}

static void change(fiber *from, fiber *to)
{
    swapcontext(&from->context, &to->context);
}

#endif

void fiber_make(fiber *f, uint8_t *stack, size_t size, void (*entry)())
{
    f->stack = stack;
    f->size = size;
    f->fake = NULL;
#if GPU_MODEL_ASAN
    __asan_unpoison_memory_region(stack, size); // what an earlier fiber has left
#endif
    prepare(f, entry);
}

void fiber_begun()
{
#if GPU_MODEL_ASAN
    __sanitizer_finish_switch_fiber(NULL, NULL, NULL);
#endif
}

void fiber_switch(fiber *from, fiber *to, bool ends)
{
    (void)ends;
#if GPU_MODEL_ASAN
    __sanitizer_start_switch_fiber(ends ? NULL : &from->fake, to->stack, to->size);
#endif
    change(from, to);
#if GPU_MODEL_ASAN
    __sanitizer_finish_switch_fiber(from->fake, NULL, NULL);
#endif
}

} // namespace gpu_model
