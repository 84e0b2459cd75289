/* What one reading of K and V costs, by the number of query vectors that share it. The planner uses
 * these costs to decide how many rows read together. They are built in for every set of kernels, or
 * measured on the machine (pc_calibrate) and kept in a file. */
#ifndef PC_ATTN_COSTS_H
#define PC_ATTN_COSTS_H

#include "base/context.h"

#include <promptcache/admin.h>

typedef struct pc__cost_table {
    struct pc__cost_table *next; /* in the list that the context frees at its end */
    pc_costs public;
} pc__cost_table;

/* The costs in force. Never NULL; they live as long as the context. Any thread. */
const pc__cost_table *pc__costs_of(pc_context *context);
/* Puts measured costs in force. */
pc_status pc__costs_use(pc_context *context, const pc_costs *costs);
/* Nanoseconds per token of one K/V head for `rows` query vectors, if K and V come from the cache or
 * from memory. */
double pc__cost(const pc__cost_table *costs, size_t rows, int cached);
/* How many of `slots` rows, each of `group` query vectors, read a section together, at most `most`:
 * as many as possible unless fewer are clearly cheaper. 1: every row reads for itself. `cached`:
 * the section stays in the cache until its next reader. */
size_t pc__cost_tile(const pc__cost_table *costs, size_t slots, size_t group, size_t most,
                     int cached);

/* costs_file.c: the path of the file ("" if there is none, or if it is longer than `size`), reading
 * and writing. A file of another CPU or of other kernels is PC_ERR_MISMATCH. */
enum { PC__COSTS_PATH = 4096 };
void pc__costs_path(char *path, size_t size);
pc_status pc__costs_read(const pc_allocator *mem, const char *path, const char *kernels,
                         pc_costs *costs);
pc_status pc__costs_write(const pc_allocator *mem, const char *path, const pc_costs *costs);
void pc__cpu_name(char *name, size_t size);

#endif
