/* Tiers for tests: one in memory, and one in front of another tier that is slow, stalls, fails or
 * damages records on demand. Both can be changed while threads use them. */
#ifndef PC_SLOW_TIER_H
#define PC_SLOW_TIER_H

#include "store/cache_internal.h"

/* Keeps records in memory without a budget, under the name of any tier. */
pc__tier *pc_memory_tier_new(uint32_t id);
size_t pc_memory_tier_count(pc__tier *tier);

typedef struct pc_faults {
    atomic_uint open_delay, read_delay,
        put_delay;       /* microseconds: of opening, of each reading of a piece, of writing */
    atomic_uint stall;   /* 1: reading answers only at the deadline, as timed out */
    atomic_uint fail;    /* 1: opening fails (PC_ERR_IO); 2: reading does; 3: writing does */
    atomic_uint helpers; /* 1: stall and fail 2 are those of other threads than the one that opened
                            the record */
    atomic_uint maps; /* 1: records are mapped: a page is as slow, as broken and as wrong when it is
                         touched as a reading would be */
    atomic_uint damage; /* 1: a bit of each block that is read is another one */
    atomic_uint
        good_blocks;    /* so many readings of blocks go well before the faults of reading begin */
    atomic_uint blocks; /* readings of blocks so far that good_blocks has let pass */
    atomic_uint opens, reads, touches, puts, open_now, most_open; /* counted here */
} pc_faults;

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
