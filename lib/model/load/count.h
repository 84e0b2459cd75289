/* The numbers of a model file, by what they count. Every reader checks a number here when it reads
 * it: what follows may loop to it, multiply two of them, and convert them. */
#ifndef PC_MODEL_COUNT_H
#define PC_MODEL_COUNT_H

#include <promptcache.h>

typedef enum pc__count {
    PC__COUNT_LAYERS,
    PC__COUNT_LAYER, /* the number of one layer, or every how many layers something is */
    PC__COUNT_HEADS,
    PC__COUNT_HEAD_DIM,
    PC__COUNT_WIDTH,
    PC__COUNT_VOCABULARY,
    PC__COUNT_POSITIONS,
    PC__COUNT_DISTANCE, /* between positions; each has an entry in a table */
    PC__COUNT_EXPERTS,
    PC__COUNT_FEW /* of what models have a handful */
} pc__count;

enum { PC__MAX_LAYERS = 1024, PC__COUNT_WORDS = 80 };

int64_t pc__count_most(pc__count kind);
/* Whether a model can have so many, from one on. */
int pc__count_has(pc__count kind, int64_t value);
/* "a number of layers from 1 to 1024" */
const char *pc__count_words(pc__count kind, char words[PC__COUNT_WORDS]);
/* PC_ERR_FORMAT: "where: what: 0 is not a number of layers from 1 to 1024". */
pc_status pc__count_check(pc__count kind, int64_t value, const char *where, const char *what);

/* Whether a factor, a base or an epsilon is one that computing with floats stands: 0, or of a size
 * from 1e-18 to 1e18. Two of them have a finite product in fp32. */
int pc__factor_has(double value);
#define PC__FACTOR_WORDS "0 or a number of a size from 1e-18 to 1e18"

#endif
