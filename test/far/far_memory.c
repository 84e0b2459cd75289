/* Memory that the library cannot see: first fit in one file that is mapped twice. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "far.h"

#define FAR_BYTES ((size_t)4 << 30) /* of addresses; pages are there when they are used */
enum { ALIGNMENT = 64 };

pc_status far_memory_open(far_memory *memory)
{
    memory->far = memory->near = MAP_FAILED;
    pthread_mutex_init(&memory->lock, NULL);
    memory->file = memfd_create("far", 0);
    if (memory->file < 0 || ftruncate(memory->file, (off_t)FAR_BYTES))
        return pc__fail(PC_ERR_NOMEM, "far: no memory file");
    memory->far = mmap(NULL, FAR_BYTES, PROT_NONE, MAP_SHARED | MAP_NORESERVE, memory->file, 0);
    memory->near = mmap(NULL, FAR_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE,
                        memory->file, 0);
    memory->parts = calloc(1, sizeof *memory->parts);
    if (memory->far == MAP_FAILED || memory->near == MAP_FAILED || !memory->parts)
        return pc__fail(PC_ERR_NOMEM, "far: no mapping");
    memory->parts->bytes = FAR_BYTES;
    memory->limit = getenv("PC_TEST_FAR_MEMORY") ? strtoull(getenv("PC_TEST_FAR_MEMORY"), NULL, 10)
                                                 : FAR_BYTES;
    close(memory->file); /* the mappings keep it */
    memory->file = -1;
    return PC_OK;
}

void far_memory_close(far_memory *memory)
{
    for (far_part *part = memory->parts, *next; part; part = next) {
        next = part->next;
        if (part->used) { /* nobody but the library takes memory here */
            fprintf(stderr, "far: %zu bytes were not given back\n", part->bytes);
            abort();
        }
        free(part);
    }
    if (memory->far != MAP_FAILED)
        munmap(memory->far, FAR_BYTES);
    if (memory->near != MAP_FAILED)
        munmap(memory->near, FAR_BYTES);
    if (memory->file >= 0)
        close(memory->file);
    pthread_mutex_destroy(&memory->lock);
}

/* Cuts what is left behind `bytes` off into a part of its own. */
static int cut(far_part *part, size_t bytes)
{
    far_part *rest = part->bytes > bytes ? calloc(1, sizeof *rest) : NULL;
    if (part->bytes > bytes) {
        if (!rest)
            return 0;
        *rest = (far_part){part->at + bytes, part->bytes - bytes, 0, part->next};
        part->next = rest;
        part->bytes = bytes;
    }
    return part->used = 1;
}

void *far_take(far_memory *memory, size_t bytes)
{
    size_t whole = bytes ? (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT : ALIGNMENT;
    far_part *part;
    int cut_off = 0;
    pthread_mutex_lock(&memory->lock);
    for (part = memory->parts; part && (part->used || part->bytes < whole);)
        part = part->next;
    if (part && whole >= bytes && whole <= memory->limit - memory->used)
        cut_off = cut(part, whole);
    memory->used += cut_off ? whole : 0;
    pthread_mutex_unlock(&memory->lock);
    if (cut_off)
        return memory->far + part->at;
    pc__fail(PC_ERR_NOMEM, "far: out of memory (%zu bytes)", bytes);
    return NULL;
}

static void join_free(far_memory *memory)
{
    for (far_part *part = memory->parts; part; part = part->next)
        while (!part->used && part->next && !part->next->used) {
            far_part *next = part->next;
            part->bytes += next->bytes;
            part->next = next->next;
            free(next);
        }
}

void far_give(far_memory *memory, void *at)
{
    size_t place = (size_t)((uint8_t *)at - memory->far);
    pthread_mutex_lock(&memory->lock);
    for (far_part *part = memory->parts; part; part = part->next)
        if (part->used && part->at == place) {
            memset(memory->near + place, 0xff, part->bytes < 1 << 20 ? part->bytes : 1 << 20);
            part->used = 0;
            memory->used -= part->bytes;
            join_free(memory);
            break;
        }
    pthread_mutex_unlock(&memory->lock);
}

void *far_near(const far_memory *memory, const void *at)
{
    uintptr_t place = (uintptr_t)at - (uintptr_t)memory->far;
    return place < FAR_BYTES ? memory->near + place : (void *)(uintptr_t)at;
}
