/* The inside of the adapter. A host is one context of llama.cpp and what stands in its memory.
 *
 * Cells and ids. llama.cpp keeps K and V of a token in a cell, which has one position and belongs
 * to any number of sequence ids. There are few ids (256). So segments share them: a shelf is an id
 * that holds the cells of several segments whose positions do not overlap (cells.c). A running
 * sequence has an id of its own. Segments that stand where they were computed are shared by giving
 * the sequence's id to their cells. Others are copied through state bytes (state.c) and moved by
 * llama_memory_seq_add, which rotates K in the next llama_decode.
 *
 * Gaps. llama_decode takes tokens only at the position behind the highest one of their sequence. A
 * schema leaves positions out. Then the highest cell is copied once more under the position right
 * before the new tokens, with its K as it is, and takes the place of the original. Its position
 * only decides who sees it, and all later tokens do: the numbers are those of the gap. That does
 * not hold with windows or ALiBi, which read positions of cells: there gaps are refused.
 *
 * Windows. llama.cpp reuses cells that have left the window of their only sequence. So with such
 * models everything is held by two ids, a and a + 1. */
#ifndef PC_LLAMA_HOST_H
#define PC_LLAMA_HOST_H

#include <llama.h>
#include <promptcache.h>
#include <promptcache/extend.h>

#include "promptcache_llama.h"

enum { HOST_MAX_IDS = 256 };

/* Cells of positions [first, last] on a shelf. */
typedef struct place {
    int32_t shelf; /* -1: none */
    llama_pos first, last;
} place;

typedef struct interval {
    llama_pos first, last;
} interval;

typedef struct shelf {
    llama_seq_id id; /* -1: free */
    interval *taken; /* [count] ascending */
    size_t count, capacity;
} shelf;

typedef struct segment {
    uint32_t count;
    llama_pos *pos; /* [count] where its tokens were computed */
    place at;
} segment;

/* A copy of a segment at another position, kept for later requests. */
typedef struct moved {
    const segment *of;
    llama_pos delta;
    place at;
    uint64_t used; /* clock of its last use */
} moved;

typedef struct span {
    const segment *segment;
    llama_pos delta;      /* from where the segment was computed to where it stands here */
    uint32_t lo, hi;      /* tokens that have not joined yet */
    uint32_t lo_at_start; /* of the step */
} span;

typedef struct sequence {
    llama_seq_id id;
    span *spans;
    size_t span_count, span_capacity;
    llama_pos *own; /* [own_count] positions of tokens that steps appended */
    size_t own_count, own_capacity;
    llama_pos top;      /* highest position of its cells; -1: it has none */
    llama_pos attached; /* highest position of joined cells; -1: none */
    /* the step under way */
    int fresh;           /* it had no cells */
    llama_seq_id backup; /* a second id of the cells that it had; -1: not needed */
    llama_pos top_before, attached_before, first; /* first: of the rows */
    size_t own_before;
} sequence;

/* What the context's state bytes are like, learnt from one token (state.c). */
typedef struct state_form {
    int caches;            /* 1, or 2: full attention and windows */
    int transposed;        /* V is [width][cell]: no flash attention */
    int type_k, type_v;    /* ggml_type */
    uint32_t layers;       /* of all caches */
    uint64_t token_bytes;  /* K and V of one token */
    uint64_t row_k, row_v; /* bytes of a token in a layer; 0: they differ between layers */
} state_form;

typedef struct host {
    struct llama_model *weights;
    struct llama_context *memory;
    llama_memory_t cells;
    const struct llama_vocab *vocab;
    struct llama_context_params params;
    pc_model_info info;
    state_form form;
    int32_t window;    /* tokens; 0: none */
    int labels_matter; /* positions of cells change scores: gaps cannot be closed */
    int step;          /* ids that hold one thing: 1, or 2 with windows */
    uint32_t ids;      /* n_seq_max */
    uint8_t used[HOST_MAX_IDS];
    llama_seq_id source, target; /* for copies, never in use between calls */
    shelf shelves[HOST_MAX_IDS];
    moved *moved;
    size_t moved_count, moved_capacity;
    uint64_t clock, moved_cells, moved_most;
    uint8_t *bytes; /* scratch: state bytes */
    size_t bytes_capacity;
    struct llama_batch batch;
    int32_t batch_most;
    int32_t (*cancelled)(void *user); /* of the call under way */
    void *cancel_user;
    int turning; /* cells wait to be rotated: llama_decode must not stop in the middle of that */
    pc_llama_stats *stats, own_stats;
    void (*on_free)(void *user);
    void *free_user;
    struct host *next; /* of all that there are */
} host;

/* Fails with a text. */
pc_status host_fail(pc_status status, const char *format, ...)
#ifdef __GNUC__
    __attribute__((format(printf, 2, 3)))
#endif
    ;

/* ---- cells.c: ids, shelves, copies */

/* PC_ERR_LIMIT: none is left. PC_ERR_STATE: other code has tokens in it. */
pc_status ids_take(host *h, llama_seq_id *out);
/* What other code did to the context is noticed where it is cheap: an id holds another highest
 * position than the adapter left there. PC_ERR_STATE, with text. */
pc_status cells_changed(void);
/* Removes its cells, too. -1: does nothing. */
void ids_give(host *h, llama_seq_id id);
/* Gives cells of [first, end) of one id to another; -1, -1: all. */
void cells_share(host *h, llama_seq_id from, llama_seq_id to, llama_pos first, llama_pos end);
void cells_remove(host *h, llama_seq_id id, llama_pos first, llama_pos end);
/* Copies cells of positions [first, end) of `from` to `to`, `delta` further. label >= 0: all stand
 * there instead, with K of where they belong. */
pc_status cells_copy(host *h, llama_seq_id from, llama_seq_id to, llama_pos first, llama_pos end,
                     llama_pos delta, llama_pos label);
/* Room for cells of positions [first, last] on a shelf. */
pc_status shelf_take(host *h, llama_pos first, llama_pos last, place *out);
/* Removes the cells. */
void shelf_give(host *h, place *at);
llama_seq_id shelf_id(const host *h, const place *at);
/* Whether its cells are where they were left. */
pc_status segment_intact(const host *h, const segment *s);
/* Gives the tokens [lo, hi) of a segment to a sequence id. */
pc_status segment_join(host *h, llama_seq_id to, const segment *s, llama_pos delta, uint32_t lo,
                       uint32_t hi);
/* Gives one token, under another position. It may be computed by way of a call of llama_decode. */
pc_status segment_join_as(host *h, llama_seq_id to, const segment *s, llama_pos delta, uint32_t at,
                          llama_pos label);
/* Drops kept copies of a segment; NULL: the one that was not used for longest. 0: there was none.
 */
int moved_drop(host *h, const segment *of);

/* ---- state.c: state bytes */

pc_status state_grow(host *h, size_t size);
/* Bytes of all cells of an id into h->bytes. */
pc_status state_take(host *h, llama_seq_id id, size_t *size);
/* Bytes into new cells of an id, which loses what it had. */
pc_status state_put(host *h, llama_seq_id id, const uint8_t *bytes, size_t size);
/* Checks bytes of `count` cells. form NULL: they must be as h->form says; else it is learnt. pos
 * (may be NULL): [count] positions of the cells. */
pc_status state_read(const host *h, const uint8_t *bytes, size_t size, size_t count,
                     state_form *form, llama_pos *pos);
/* Whether two states of one token, of the context's form, have the same K, but for rounding. */
int state_same_keys(const uint8_t *a, const uint8_t *b, size_t size);
/* Lets all cells stand at one position. */
void state_label(uint8_t *bytes, llama_pos label);

/* ---- sequence.c: functions of pc_model_ops */

pc_status sequence_new(void *user, const pc_sequence_args *args, void **out);
pc_status sequence_attach(void *user, void *sequence, const pc_span *span);
pc_status sequence_fork(void *user, void *sequence, void **copy);
pc_status sequence_truncate(void *user, void *sequence, size_t count);
void sequence_drop(void *user, void *sequence);
/* Lets everything join that a row at `position` sees, so that llama_decode takes the row next. */
pc_status sequence_reach(host *h, sequence *s, llama_pos position);
/* The lowest position of tokens that have not joined yet; INT32_MAX: all have. */
llama_pos sequence_next(const sequence *s);
void sequence_begin(sequence *s, llama_pos first);
void sequence_undo(host *h, sequence *s);
void sequence_commit(host *h, sequence *s);
pc_status sequence_appended(host *h, sequence *s, llama_pos position);

/* ---- compute.c */

/* After each llama_decode: rows [first, end) of the call are computed. */
typedef struct harvest {
    void (*take)(host *h, struct harvest *self, size_t first, size_t end);
} harvest;
typedef struct rows {
    const pc_step_row *row; /* [count], stride */
    size_t stride, count;
    float *logits, *hidden;
    harvest *harvest; /* of one sequence alone */
} rows;
/* Appends and computes rows; all or nothing. */
pc_status rows_compute(host *h, const rows *r);
pc_status model_step(void *user, const pc_step_args *args);
pc_status model_step_hidden(void *user, const pc_step_args *args, float *hidden);

/* ---- segment.c */

pc_status segment_encode(void *user, const pc_encode_args *args, void **segments);
void segment_release(void *user, void *segment);
pc_status segment_size(void *user, void *segment, uint64_t *bytes);
pc_status segment_export(void *user, void *segment, void *data, size_t capacity, size_t *size);
pc_status segment_import(void *user, const void *data, size_t size, const int32_t *tokens,
                         size_t count, void **segment);

/* ---- model.c */

/* Whether a context has a pc_model. */
int host_exists(const struct llama_context *memory);

/* ---- describe.c: what the context is */

/* Checks of pc_llama_check. */
pc_status context_check(const struct llama_model *weights, struct llama_context *memory,
                        const struct llama_context_params *params, int any_version);
/* Learns form, facts and abilities; fingerprint: of the weights. */
pc_status context_learn(host *h, const uint8_t fingerprint[32], const void *identity,
                        size_t identity_size);

/* ---- text.c */

pc_status text_tokenize(void *user, const char *text, size_t size, uint64_t flags, int32_t *tokens,
                        size_t capacity, size_t *count);
pc_status text_detokenize(void *user, const int32_t *tokens, size_t count, uint64_t flags,
                          char *text, size_t capacity, size_t *size);

#endif
