/* A context whose allocations a test counts and can make fail. */
#ifndef PC_COUNTED_CONTEXT_H
#define PC_COUNTED_CONTEXT_H

#include "testing.h"

/* `memory` outlives it. threads 0: the default. */
static inline pc_context *pc_test_counted_context(pc_test_memory *memory, uint32_t threads)
{
    pc_allocator mem = pc_test_allocator(memory); /* the context copies it */
    pc_context_options options = PC_CONTEXT_OPTIONS_INIT;
    pc_context *context = NULL;
    options.allocator = &mem;
    options.threads = threads;
    CHECK_OK(pc_context_new(&context, &options));
    return context;
}

#endif
