/* Tiers for tests: one in memory, and one in front of another tier that is slow, stalls, fails or
 * damages records on demand. Both can be changed while threads use them. */
#ifndef PC_SLOW_TIER_H
#define PC_SLOW_TIER_H

#include "store/cache_internal.h"

/* Keeps records in memory without a budget, under the name of any tier. */
pc__tier *pc_memory_tier_new(uint32_t id);
size_t pc_memory_tier_count(pc__tier *tier);

typedef struct pc_faults {
    /* Microseconds: of opening, of each reading of a piece, of writing. */
    atomic_uint open_delay, read_delay, put_delay;
    atomic_uint stall;   /* 1: reading answers only at the deadline, as timed out */
    atomic_uint fail;    /* 1: opening fails (PC_ERR_IO); 2: reading does; 3: writing does */
    atomic_uint helpers; /* 1: only threads that have not opened the record stall and fail (2) */
    atomic_uint maps;    /* 1: records are mapped; touching a page has the faults of reading */
    atomic_uint damage;  /* 1: a bit of each block that is read is another one */
    atomic_uint good_blocks; /* so many readings of blocks go well before the faults begin */
    atomic_uint blocks;      /* readings of blocks so far that good_blocks has let pass */
    /* If not NULL: readings that are not good wait for this to be above 0, for
     * PC_AWAITED_SECONDS at most; then they stall for 0.1 s only. Set while no thread reads. */
    const atomic_uint_fast64_t *awaited;
    atomic_uint opens, reads, touches, puts, open_now, most_open; /* counted here */
} pc_faults;

#define PC_AWAITED_SECONDS 10.0

/* What goes wrong; PC_FAULT_SLOW: ten times the delay. */
enum {
    PC_FAULT_NONE = 0,
    PC_FAULT_SLOW,
    PC_FAULT_STALLS,
    PC_FAULT_OPENING,
    PC_FAULT_READING,
    PC_FAULT_DAMAGED,
    PC_FAULTS
};
extern const char *const pc_fault_names[PC_FAULTS];
void pc_faults_set(pc_faults *faults, int fault, unsigned read_delay);

/* A cache over one such tier in memory, in the place of DISK; `faults` starts as none. */
pc_cache *pc_slow_cache_new(pc_context *context, pc_faults *faults, uint64_t flags,
                            double deadline);

/* Takes `inner` over, on failure too. `faults` is the caller's and outlives it. */
pc__tier *pc_slow_tier_new(pc__tier *inner, pc_faults *faults);

#endif
