/* Traces of requests as JSON lines with "hash_ids": the blocks of each prompt in order, each named
 * by what it and all before it hold (the form of the Mooncake traces); and what could be had from a
 * store of so many blocks. */
#ifndef TRACE_FILE_H
#define TRACE_FILE_H

#include <stddef.h>
#include <stdint.h>

typedef struct trace {
    uint32_t *blocks; /* of all requests, one after the other; numbered from 0 in the order of their
                         first use */
    size_t *first;    /* [request_count + 1] where each begins */
    unsigned char *novel; /* [request_count] 1: one of a flood, which is not counted */
    size_t request_count;
    size_t look_ups;    /* blocks of those that count */
    size_t distinct;    /* blocks among those */
    size_t block_count; /* distinct blocks in all */
} trace;

/* After every second request one of `flood` blocks that nobody else ever uses (0: none). An exit
 * code, with a message. */
int trace_read(trace *t, const char *path, size_t flood);
void trace_free(trace *t);

/* Seconds to compute the block at this place of a prompt, in those of the first. */
double trace_cost(size_t place);

typedef struct trace_result {
    size_t hits;
    double saved; /* cost of the hits */
} trace_result;

double trace_cost_of_all(const trace *t);
/* Least recently used goes first. */
int trace_lru(const trace *t, size_t room, trace_result *out);
/* What is used farthest in the future goes first, or is not even kept (Belady 1966): nothing has
 * more hits. */
int trace_best(const trace *t, size_t room, trace_result *out);

#endif
