/* Traces of requests: JSON lines with "hash_ids", the blocks of each prompt in order; an id stands
 * for a block and all before it (the form of the Mooncake traces). And the hits that a simulated
 * store of a given size has. */
#ifndef TRACE_H
#define TRACE_H

#include <stddef.h>
#include <stdint.h>

typedef struct trace {
    uint32_t *blocks;     /* of all requests, one after the other; numbered by first use, from 0 */
    size_t *first;        /* [request_count + 1] the first block of each */
    unsigned char *novel; /* [request_count] 1: part of the flood, not counted */
    size_t request_count;
    size_t look_ups;    /* blocks of the counted requests */
    size_t distinct;    /* different blocks of them */
    size_t block_count; /* different blocks of all requests */
} trace;

/* flood: after every second request, one of so many blocks that are never used again; 0: none. An
 * exit code. */
int trace_read(trace *t, const char *path, size_t flood);
void trace_free(trace *t);

/* The cost to compute the block at this place of a prompt; 1 is that of the first. */
double trace_cost(size_t place);

typedef struct trace_result {
    size_t hits;
    double saved; /* cost of the hits */
} trace_result;

double trace_cost_of_all(const trace *t);
/* Evicts the least recently used block. */
int trace_lru(const trace *t, size_t room, trace_result *out);
/* Evicts the block that is used latest in the future, or does not store it (Belady 1966): no policy
 * has more hits. */
int trace_best(const trace *t, size_t room, trace_result *out);

#endif
