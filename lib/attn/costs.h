/* What a pass of attention over K and V costs by the number of query vectors that read it together:
 * from it the planner decides how many rows share a pass. Built in for every set of kernels, or
 * measured on the machine (pc_calibrate) and kept in a file. */
#ifndef PC_ATTN_COSTS_H
#define PC_ATTN_COSTS_H

#include "base/context.h"

typedef struct pc__costs {
    struct pc__costs *next; /* of those that the context frees at its end */
    pc_costs public;
} pc__costs;

/* Those in force. Never NULL; lives as long as the context. Any thread. */
const pc__costs *pc__costs_of(pc_context *context);
/* Puts measured ones in force. */
pc_status pc__costs_use(pc_context *context, const pc_costs *costs);
/* For `rows` query vectors: nanoseconds a token of one K/V head, which comes from the cache or from
 * memory. */
double pc__cost(const pc__costs *costs, size_t rows, int cached);
/* How many of `slots` rows, each of `group` query vectors, read a stretch together, at most `most`:
 * as many as possible unless fewer are clearly cheaper. 1: every row reads for itself. `cached`:
 * the stretch stays in the cache for the next who reads it. */
size_t pc__cost_tile(const pc__costs *costs, size_t slots, size_t group, size_t most, int cached);

/* costs_file.c: where they are kept ("" if there is no such place, or its path is longer than
 * `size`), reading and writing. A file of another CPU or other kernels is PC_ERR_MISMATCH. */
enum { PC__COSTS_PATH = 4096 };
void pc__costs_path(char *path, size_t size);
pc_status pc__costs_read(const pc_allocator *mem, const char *path, const char *kernels,
                         pc_costs *costs);
pc_status pc__costs_write(const pc_allocator *mem, const char *path, const pc_costs *costs);
void pc__cpu_name(char *name, size_t size);

#endif
