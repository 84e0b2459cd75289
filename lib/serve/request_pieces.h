/* A request whose tokens are computed in pieces, in passes that it shares with others: the modules
 * and blocks that the cache lacks (encode calls), then the rows of its sequence. Looking up,
 * loading, storing and attaching happen between the pieces. The result has the bits of
 * pc__request_run. */
#ifndef PC_SERVE_REQUEST_PIECES_H
#define PC_SERVE_REQUEST_PIECES_H

#include "model/model_states.h"
#include "serve/gather.h"
#include "serve/request_internal.h"

enum { PC__CALLS_AT_ONCE = 8 };

/* An encode call of a prompt. It stays where it is. */
typedef struct pc__open_call {
    int prepared; /* by the gather, to be opened; or open */
    pc__encode_call call;
    pc__encoding *encoding; /* NULL: it is not open */
    size_t given;           /* tokens of it in the pass under way */
    double seconds;         /* of it, so far */
} pc__open_call;

typedef struct pc__pieces {
    pc__request request;
    pc__placed_prompt out;
    enum { PC__PIECES_FIND, PC__PIECES_MODULES, PC__PIECES_TEXT, PC__PIECES_ROWS } stage;
    pc__gather *gather;
    int loads; /* they may be waited for, before `gather` computes anything */
    pc__open_call calls[PC__CALLS_AT_ONCE];
    size_t most, at_once; /* of pc__pieces_advance */
    int looks_again;      /* another request may have stored what this one misses */
    int ended_call;       /* the last pass has ended an encode call of it */
    uint64_t seen;        /* for the batch: the number of encode calls when it looked */
    pc__assembly assembly;
    float *logits; /* [vocab] behind the prompt, if rows follow those that give them; or NULL */
} pc__pieces;

/* 1: the model's work can be cut, and the request has no baseline and no memo. */
int pc__pieces_can(const pc_prompt *prompt, const pc__generation *generation);
/* As pc__request_init. To be freed, which gives up what is not finished. */
pc_status pc__pieces_new(pc__pieces **out, const pc_prompt *prompt, pc_cache *cache,
                         const pc__generation *generation, size_t pushed);
void pc__pieces_free(pc__pieces *pieces);
/* Does what needs no rows. PC_OK: there are tokens to compute; PC_END: none are left; PC_AGAIN:
 * loads should come soon. pc__pieces_await_loads waits for those. An encode call of an
 * application's model is computed here, one of about `most` tokens: then pieces->at_once is their
 * number, and no others are ready. */
pc_status pc__pieces_advance(pc__pieces *pieces, size_t most);
void pc__pieces_await_loads(pc__pieces *pieces);
/* Opens a call that pc__pieces_advance has prepared. Until then it may wait for another one that
 * computes the same. */
pc_status pc__pieces_open(pc__pieces *pieces, pc__open_call *call);
size_t pc__pieces_done(const pc__pieces *pieces); /* tokens of parts without segments */
size_t pc__pieces_left(const pc__pieces *pieces); /* tokens that the next pass may have */
/* The next `count` of them in encode calls, `to` [PC__CALLS_AT_ONCE]: returns how many. 0: they are
 * rows (pc__assembly_rows). */
size_t pc__pieces_give(pc__pieces *pieces, size_t count, pc__encode_piece *to);
/* Those `count` tokens are computed; `seconds` is their share of the pass. An error ends the
 * request. */
pc_status pc__pieces_computed(pc__pieces *pieces, size_t count, double seconds);
/* Hands the sequence over; the request has computed everything. */
void pc__pieces_finish(pc__pieces *pieces, pc__placed_prompt *out);

#endif
