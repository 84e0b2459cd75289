/* Arrays that end right before a page that must not be touched, with poison before their start. */
#ifndef PC_TEST_GUARDED_H
#define PC_TEST_GUARDED_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { GUARDED_POISON = 0xA5 };

typedef struct guarded {
    uint8_t *map;
    size_t map_bytes;
    uint8_t *data; /* poisoned too until it is written */
    size_t bytes;
} guarded;

/* Aligned as the size is: a multiple of 64 bytes gives an array aligned to 64. */
static inline guarded guarded_new(size_t bytes)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    guarded g = {.map_bytes = (bytes + 256 + page - 1) / page * page + page, .bytes = bytes};
    void *map = mmap(NULL, g.map_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (map == MAP_FAILED || mprotect((uint8_t *)map + g.map_bytes - page, page, PROT_NONE)) {
        perror("guarded memory");
        exit(1);
    }
    g.map = map;
    g.data = g.map + g.map_bytes - page - bytes;
    memset(g.map, GUARDED_POISON, g.map_bytes - page);
    return g;
}

/* Nothing was written before the array. */
static inline int guarded_intact(const guarded *g)
{
    for (const uint8_t *p = g->map; p < g->data; p++)
        if (*p != GUARDED_POISON)
            return 0;
    return 1;
}

static inline void guarded_free(guarded *g)
{
    munmap(g->map, g->map_bytes);
    *g = (guarded){0};
}

#endif
