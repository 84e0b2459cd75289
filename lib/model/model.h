/* The model handle: a tokenizer and chat template, and the operations that PML, cache and serving
 * use. Our own models implement the same pc_model_ops that an application does (native_ops.c); what
 * the folders above ask beyond those is in model_states.h. */
#ifndef PC_MODEL_MODEL_H
#define PC_MODEL_MODEL_H

#include <pthread.h>

#include "base/context.h"
#include "base/digest.h"
#include "text/chat.h"

typedef struct pc__native pc__native; /* arch, weights, backend: lib/model/forward/native.h */

struct pc_model {
    atomic_size_t references;
    pc_context *context;
    pc_model_ops ops;
    void *user;
    void (*on_free)(void *user);
    pc_model_info info;
    pc__tokenizer *tokenizer; /* NULL: ops.tokenize, or none */
    pc__chat *chat;           /* never NULL */
    pc__id tokenizer_id;      /* zero where the host tokenises */
    pc__native *native;       /* NULL: a host's model, or vocabulary only */
    pthread_mutex_t ops_lock; /* pc__model_enter */
    pthread_mutex_t imports_lock;
    struct pc__import
        *imports;    /* states that are on their way into a host's model (serve/segment_image.c) */
    int can_compute; /* 0: vocabulary only, ops hold nothing but describe */
};

/* An empty one that holds a reference to the context. */
pc_status pc__model_new(pc_model **out, pc_context *context);
pc_model *pc__model_ref(const pc_model *model);
void pc__model_unref(pc_model *model);

/* Calls of a host's operations never overlap: whoever calls one stands between these two. They do
 * nothing for models of our own, whose operations may run at the same time. The first forgets what
 * the host has said by pc_error_set before. */
void pc__model_enter(const pc_model *model);
void pc__model_leave(const pc_model *model);
/* Gives `status` of operation `name` on; the text is the operation's name and what the host has
 * said, or else what the status means. */
pc_status pc__model_status(const pc_model *model, const char *name, pc_status status);
/* PC_OK, or PC_ERR_UNSUPPORTED where the model cannot compute (vocabulary only). */
pc_status pc__model_can_compute(const pc_model *model);
/* PC_ERR_UNSUPPORTED where no token may be computed before all others are known: encoders. */
pc_status pc__model_has_order(const pc_model *model);
pc_status pc__model_can_go_on(const pc_model *model); /* both */

/* Tokens of a text into a block of the context's allocator (never NULL on success). */
pc_status pc__model_tokens(const pc_model *model, const char *text, size_t size, uint64_t flags,
                           int32_t **tokens, size_t *count);

#endif
