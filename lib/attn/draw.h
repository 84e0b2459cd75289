/* Tokens that a backend draws from logits in its memory, so that the logits need not come to the
 * host: what pc__backend_ops.sample is given, and what it gives.
 *
 * A token is the one that serve/sampler.c draws from the same numbers. First the logits are
 * changed. Then it is the largest one, of equal ones the lower id; or min p, top k and top p choose
 * among them and the random number decides, as in pc_sampling. A NaN counts as -infinity. */
#ifndef PC_ATTN_DRAW_H
#define PC_ATTN_DRAW_H

#include <stddef.h>
#include <stdint.h>

enum { PC__DRAW_MOST_VOCAB = 1 << 24 };

/* What is done to a logit. Only PC__CHANGE_ADD changes one that is not finite; the others compute
 * in double, and what is too large for fp32 becomes its largest number. */
enum {
    PC__CHANGE_ADD,     /* + a, in fp32 */
    PC__CHANGE_DIVIDE,  /* / a if it is positive, else * a */
    PC__CHANGE_SUBTRACT /* - a, - b */
};

typedef struct pc__logit_change {
    int32_t token;
    uint32_t kind; /* PC__CHANGE_… */
    double a, b;
} pc__logit_change;

typedef struct pc__draw {
    size_t row;                      /* of the logits; each row once at most */
    size_t vocab;                    /* its first logits count; at most PC__DRAW_MOST_VOCAB */
    const pc__logit_change *changes; /* [change_count] made in this order */
    size_t change_count;
    double random;      /* in [0, 1) */
    float temperature;  /* 0: the largest logit */
    float top_p, min_p; /* as in pc_sampling */
    uint32_t top_k;     /* 0: all */
    uint32_t logprob;   /* 1: log-probabilities are wanted: of the logits before all changes */
    uint32_t likely;    /* of so many likeliest tokens too */
} pc__draw;

enum {
    PC__NOT_DRAWN,
    PC__DRAWN,
    PC__DRAWN_NO_NUMBER, /* no logit is finite, before all changes */
    PC__DRAWN_NOTHING,   /* no logit is above -infinity */
    PC__DRAWN_INFINITE   /* that of `token` is infinite */
};

/* The result of a row; pc__likely [pc__draws.likely] stand behind it. */
typedef struct pc__drawn {
    double logprob; /* of the token, if it is wanted */
    int32_t token;
    uint32_t outcome; /* PC__DRAWN… */
} pc__drawn;

typedef struct pc__likely {
    double logprob;
    int32_t token; /* -1, behind the last one that is possible */
    uint32_t unused;
} pc__likely;

typedef struct pc__draws {
    const pc__draw *list; /* [count] by ascending rows */
    size_t count;
    size_t first;  /* number of the first row of the logits */
    size_t likely; /* room behind each result: at least the `likely` of any row */
    void *drawn;   /* [count][pc__drawn_bytes(likely)] memory of the host */
} pc__draws;

static inline size_t pc__drawn_bytes(size_t likely)
{
    return sizeof(pc__drawn) + likely * sizeof(pc__likely);
}

static inline pc__drawn *pc__drawn_at(const pc__draws *draws, size_t i)
{
    return (pc__drawn *)(void *)((uint8_t *)draws->drawn + i * pc__drawn_bytes(draws->likely));
}

static inline const pc__likely *pc__likely_of(const pc__drawn *drawn)
{
    return (const pc__likely *)(const void *)(drawn + 1);
}

#endif
