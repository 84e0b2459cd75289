/* The common state of the kinds of gathering, and a table of operations for each. */
#ifndef PC_SERVE_GATHER_INTERNAL_H
#define PC_SERVE_GATHER_INTERNAL_H

#include "serve/gather.h"

typedef struct pc__gather_ops {
    size_t size; /* of a gather of this kind */
    /* Decides which parts need a segment and names those. */
    pc_status (*name)(pc__gather *gather);
    int (*needs)(const pc__gather *gather, size_t part);
    /* It needs one, which comes from the cache or goes there. */
    int (*is_kept)(const pc__gather *gather, size_t part);
    /* The facts of the part's segment, without `content`, which is the key of its tokens alone. */
    pc__segment_facts (*facts)(const pc__gather *gather, size_t part);
    pc__id (*content)(const pc__gather *gather, size_t part); /* or NULL */
    /* Before the tiers below RAM are asked, and after it has waited for them. NULL: nothing. */
    pc_status (*begin_loads)(pc__gather *gather);
    void (*end_loads)(pc__gather *gather);
    /* Seconds that computing the part should take. */
    double (*cost)(pc__gather *gather, size_t part);
    void (*loaded)(pc__gather *gather, size_t part); /* a load has brought it. NULL: nothing */
    /* The call computes the part. */
    int (*is_under_way)(const pc__encode_call *call, size_t part);
    /* pc__gather_next, when some part is missing, pc__gather_drop and pc__gather_take. */
    pc_status (*next)(pc__gather *gather, size_t most, pc__encode_call *call);
    void (*drop)(pc__encode_call *call);
    /* 1: the call under way counts on the parts that are missing now. NULL: none does */
    int (*is_busy)(const pc__gather *gather);
    pc_status (*take)(pc__gather *gather, pc__encode_call *call, pc_status status,
                      double token_seconds);
    void (*judge)(pc__gather *gather);
    void (*free)(pc__gather *gather);
} pc__gather_ops;

/* The first member of each kind. */
struct pc__gather {
    const pc__gather_ops *ops;
    pc__request *request;
    pc_cache *cache; /* NULL: nothing is looked up or stored */
    size_t parts;    /* [0, parts) may need a segment */
    pc__fetch fetch; /* by part */
    /* A call under way may end early for some of its parts, if their loads save more than has been
     * spent on it; otherwise only for all of them. */
    int may_split;
};

extern const pc__gather_ops pc__gather_exact_ops, pc__gather_units_ops, pc__gather_new_text_ops;

/* Needs a segment and has none yet. */
int pc__gather_is_missing(const pc__gather *gather, size_t part);
/* Gives the part the segment that its load has brought. */
void pc__gather_load(pc__gather *gather, size_t part);
void pc__gather_load_all(pc__gather *gather);
/* A call is prepared. */
void pc__gather_start(pc__gather *gather, pc__encode_call *call);

#endif
