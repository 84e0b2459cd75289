/* The model handle: tokenizer, chat template, and the operations that PML, cache and serving use.
 * Native models implement the same pc_model_ops as an application does (forward/native_ops.c);
 * model_states.h has what the folders above ask beyond those. */
#ifndef PC_MODEL_MODEL_H
#define PC_MODEL_MODEL_H

#include <promptcache/extend.h>
#include <pthread.h>

#include "base/context.h"
#include "base/digest.h"
#include "text/chat.h"

typedef struct pc__native pc__native; /* model/forward/native.h */

struct pc_model {
    atomic_size_t references;
    pc_context *context;
    pc_model_ops ops;
    void *user;
    void (*on_free)(void *user);
    pc_model_info info;
    pc__tokenizer *tokenizer; /* NULL: ops.tokenize is used, if set */
    pc__chat *chat;           /* never NULL */
    pc__id tokenizer_id;      /* zero if the application tokenises */
    pc__native *native;       /* NULL: an application's model, or a vocabulary only */
    /* pc__model_enter. Who has `turn` gets ops_lock next. Calls about stored states also have
     * `behind`, so that at most one of them comes before another call. */
    pthread_mutex_t ops_lock, turn, behind;
    atomic_uintptr_t ops_owner; /* who has ops_lock, and may make calls within; 0: nobody */
    int ops_depth, ops_behind;  /* of that thread */
    pthread_mutex_t imports_lock;
    struct pc__import
        /* states on their way into an application's model (serve/segment_image_internal.h) */
        *imports;
    int can_compute; /* 0: vocabulary only; ops has only describe */
};

/* An empty model; holds a reference to the context. */
pc_status pc__model_new(pc_model **out, pc_context *context);
pc_model *pc__model_ref(const pc_model *model);
void pc__model_unref(pc_model *model);
PC__HOLDABLE(pc_model, pc__model_ref, pc__model_unref)

/* Every call of an application's operation stands between these two, so that calls do not overlap,
 * but for those that its model allows to. `overlap`: the flag of that function (PC_OVERLAP_…), or
 * 0. Calls about stored states (PC_OVERLAP_STATES), which threads of a cache make one after the
 * other, give way to all others. Within a call its own thread may make others. They do nothing for
 * native models, whose operations may overlap. The first forgets earlier texts of pc_error_set. */
void pc__model_enter(const pc_model *model, uint64_t overlap);
void pc__model_leave(const pc_model *model, uint64_t overlap);
/* Returns `status` of operation `name`. Error text: the name, and what the application has set or
 * what the status means. */
pc_status pc__model_status(const pc_model *model, const char *name, pc_status status);
/* PC_ERR_UNSUPPORTED: a vocabulary only. */
pc_status pc__model_can_compute(const pc_model *model);
/* PC_ERR_UNSUPPORTED: an encoder, in which every token sees the whole input. */
pc_status pc__model_has_order(const pc_model *model);
pc_status pc__model_can_go_on(const pc_model *model); /* both */
/* PC_ERR_INTERNAL: no number of `row` is finite. Every result of a pass goes through this before
 * the caller gets it. It ends at the first finite number, so it costs nothing. For the error text:
 * `what` the row is, the kind of work and its number, the position of its token. */
pc_status pc__model_check_row(const pc_model *model, const float *row, size_t count,
                              const char *what, const char *of, size_t number, int64_t position);

/* A model may have more rows of logits than its tokenizer has tokens; the others are never drawn.
 * An application's tokenizer is not asked. */
size_t pc__model_drawn_vocabulary(const pc_model *model);

/* Tokens of a text, in memory of the context's allocator (never NULL on success). */
pc_status pc__model_tokens(const pc_model *model, const char *text, size_t size, uint64_t flags,
                           int32_t **tokens, size_t *count);

#endif
