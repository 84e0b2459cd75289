/* pc_pages_write for tests: fp32, tokens behind each other, without gaps. */
#ifndef PC_TEST_PAGES_WRITE_H
#define PC_TEST_PAGES_WRITE_H

#include <promptcache/attend.h>
#include <stdint.h>

static inline pc_status write_pages(const pc_attend_shape *shape, void *pages, size_t first,
                                    size_t count, const float *k, const float *v)
{
    pc_pages_args args = PC_PAGES_ARGS_INIT;
    args.shape = shape;
    args.pages = pages;
    args.first = first;
    args.count = count;
    args.k = (void *)(uintptr_t)k; /* only read */
    args.v = (void *)(uintptr_t)v;
    return pc_pages_write(&args);
}

#endif
