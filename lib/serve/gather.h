/* Gathering: every cached part of a prompt gets its segment, from the cache or
 * encoded now. gather_exact.c: states that saw all that stands before them in this prompt.
 * gather_units.c: states that do not depend on the prompt; then gather_exact.c gathers the blocks
 * of new text, which saw these. */
#ifndef PC_SERVE_GATHER_H
#define PC_SERVE_GATHER_H

#include "serve/encode_call.h"
#include "serve/request.h"

typedef struct pc__gather pc__gather;

/* Of the kind that the request asks for. *out is NULL on failure. */
pc_status pc__gather_new(pc__gather **out, pc__request *request);
/* For the blocks of new text, after the schema's parts have their segments. *out is NULL on
 * failure, and if the request has none of them. */
pc_status pc__gather_new_text(pc__gather **out, pc__request *request);
void pc__gather_free(pc__gather *gather);

/* Looks up in RAM, then in the tiers below, and waits a little for loads that should come soon. */
pc_status pc__gather_find(pc__gather *gather);
/* Of a request that lets others go first: 1: it should still wait for loads before it computes.
 * pc__gather_wait does so. */
int pc__gather_waits(pc__gather *gather);
void pc__gather_wait(pc__gather *gather);
/* Encodes the parts that still have no segment, and stores them in the cache. */
pc_status pc__gather_compute(pc__gather *gather);
/* One call of it, of so many tokens; PC_END: no part is missing. */
pc_status pc__gather_compute_next(pc__gather *gather, size_t most, size_t *tokens);
/* The same in single calls, several of which may be under way. The next one, which stays where it
 * is, asks pc__gather_must_stop and is to be ended, of about `most` tokens where it can be shorter;
 * PC_END: no part is missing; PC_AGAIN: those that are missing wait for calls under way. Then what
 * became of it, with the seconds of a token: an error, unless loads have overtaken it, is returned;
 * or it is dropped: it was not computed. */
pc_status pc__gather_next(pc__gather *gather, size_t most, pc__encode_call *call);
pc_status pc__gather_take(pc__gather *gather, pc__encode_call *call, pc_status status,
                          double token_seconds);
void pc__gather_drop(pc__gather *gather, pc__encode_call *call);
/* Whether a call under way is to be given up: the `cancelled` of its arguments. */
int32_t pc__gather_must_stop(void *call);
/* Looks up in RAM what is still missing: another request may have stored it. PC_AGAIN: it did not,
 * because a call under way counts on what is missing. */
pc_status pc__gather_look_again(pc__gather *gather);
/* At the end: exactness, and why parts were not reused. */
void pc__gather_judge(pc__gather *gather);

#endif
