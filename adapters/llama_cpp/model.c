/* promptcache_llama.h: a host is made, becomes a pc_model, and goes with it. */
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host.h"

/* The calls that the adapter relies on. A llama.h with others does not compile. */
#define CALL_IS(name, type)                                                                     \
    _Static_assert(_Generic(&name, type : 1, default : 0), #name " of this llama.h is another " \
                                                                 "one")
CALL_IS(llama_memory_seq_rm, bool (*)(llama_memory_t, llama_seq_id, llama_pos, llama_pos));
CALL_IS(llama_memory_seq_cp,
        void (*)(llama_memory_t, llama_seq_id, llama_seq_id, llama_pos, llama_pos));
CALL_IS(llama_memory_seq_add,
        void (*)(llama_memory_t, llama_seq_id, llama_pos, llama_pos, llama_pos));
CALL_IS(llama_memory_seq_pos_max, llama_pos (*)(llama_memory_t, llama_seq_id));
CALL_IS(llama_memory_can_shift, bool (*)(llama_memory_t));
CALL_IS(llama_get_memory, llama_memory_t (*)(const struct llama_context *));
CALL_IS(llama_state_seq_get_size, size_t (*)(struct llama_context *, llama_seq_id));
CALL_IS(llama_state_seq_get_data,
        size_t (*)(struct llama_context *, uint8_t *, size_t, llama_seq_id));
CALL_IS(llama_state_seq_set_data,
        size_t (*)(struct llama_context *, const uint8_t *, size_t, llama_seq_id));
CALL_IS(llama_decode, int32_t (*)(struct llama_context *, struct llama_batch));
CALL_IS(llama_get_logits_ith, float *(*)(struct llama_context *, int32_t));
_Static_assert(sizeof(llama_pos) == 4 && sizeof(llama_token) == 4, "positions and tokens");

pc_status host_fail(pc_status status, const char *format, ...)
{
    char text[512];
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    pc_error_set(text);
    return status;
}

const char *pc_llama_built_with(void)
{
    return PC_LLAMA_VERSION;
}

const char *pc_llama_runs_with(void)
{
    return llama_version();
}

void pc_llama_params(struct llama_context_params *params)
{
    size_t most = llama_max_parallel_sequences();
    if (!params)
        return;
    params->kv_unified = true;
    params->swa_full = true;
    params->embeddings = false;
    if (params->n_seq_max < 2)
        params->n_seq_max = 64;
    if (params->n_seq_max > most)
        params->n_seq_max = (uint32_t)most;
    /* llama.cpp aborts where one of these is smaller; n_batch becomes n_ctx at most */
    if (params->n_batch < params->n_seq_max)
        params->n_batch = params->n_seq_max;
    if (params->n_ctx && params->n_ctx < params->n_seq_max)
        params->n_ctx = params->n_seq_max;
    if (params->n_outputs_max && params->n_outputs_max < params->n_seq_max)
        params->n_outputs_max = params->n_seq_max;
}

pc_status pc_llama_check(const struct llama_model *weights, struct llama_context *memory,
                         const struct llama_context_params *params)
{
    return context_check(weights, memory, params, 0);
}

pc_status pc_llama_stop_tokens(const struct llama_model *weights, int32_t *tokens, size_t capacity,
                               size_t *count)
{
    const struct llama_vocab *vocab = weights ? llama_model_get_vocab(weights) : NULL;
    size_t found = 0;
    if (!vocab || !count || (capacity && !tokens))
        return host_fail(PC_ERR_INVALID, "pc_llama_stop_tokens: an argument is NULL");
    for (int32_t t = 0; t < llama_vocab_n_tokens(vocab); t++)
        if (llama_vocab_is_eog(vocab, t)) {
            if (found < capacity)
                tokens[found] = t;
            found++;
        }
    *count = found;
    return capacity && found > capacity ? host_fail(PC_ERR_LIMIT, "%zu stop tokens", found) : PC_OK;
}

/* -------------------------------------------------------------- options */

static pc_status read_options(pc_llama_options *out, const pc_llama_options *options)
{
    size_t size;
    *out = (pc_llama_options)PC_LLAMA_OPTIONS_INIT;
    if (!options)
        return host_fail(PC_ERR_INVALID, "pc_llama_model_new: options is NULL");
    memcpy(&size, options, sizeof size);
    if (size < sizeof size)
        return host_fail(PC_ERR_INVALID, "pc_llama_options is not initialised");
    for (size_t i = sizeof *out; i < size; i++)
        if (((const unsigned char *)options)[i])
            return host_fail(PC_ERR_UNSUPPORTED, "pc_llama_options: a field of a newer adapter");
    memcpy(out, options, size < sizeof *out ? size : sizeof *out);
    if (out->flags & ~(uint64_t)PC_LLAMA_ANY_VERSION || out->reserved)
        return host_fail(PC_ERR_INVALID, "pc_llama_options: an unknown flag, or reserved is set");
    if (!out->params || (!out->fingerprint && !(out->files && out->file_count)))
        return host_fail(PC_ERR_INVALID, "pc_llama_options: %s",
                         out->params ? "neither fingerprint nor files" : "params is NULL");
    if (out->identity_size && !out->identity)
        return host_fail(PC_ERR_INVALID, "pc_llama_options: identity is NULL");
    if (out->stats && out->stats->struct_size < sizeof *out->stats)
        return host_fail(PC_ERR_INVALID, "pc_llama_stats is not initialised");
    return PC_OK;
}

/* ----------------------------------------------------------------- host */

/* llama.cpp asks between parts of a computation. While cells are being rotated it must not stop. */
static bool must_stop(void *user)
{
    const host *h = user;
    return h->cancelled && !h->turning && h->cancelled(h->cancel_user);
}

static pthread_mutex_t hosts_mutex = PTHREAD_MUTEX_INITIALIZER;
static host *hosts;

int host_exists(const struct llama_context *memory)
{
    int found = 0;
    pthread_mutex_lock(&hosts_mutex);
    for (const host *h = hosts; h && !found; h = h->next)
        found = h->memory == memory;
    pthread_mutex_unlock(&hosts_mutex);
    return found;
}

static void hosts_remove(const host *h)
{
    pthread_mutex_lock(&hosts_mutex);
    for (host **at = &hosts; *at; at = &(*at)->next)
        if (*at == h) {
            *at = h->next;
            break;
        }
    pthread_mutex_unlock(&hosts_mutex);
}

static void host_free(void *user)
{
    host *h = user;
    hosts_remove(h);
    llama_set_abort_callback(h->memory, NULL, NULL);
    while (moved_drop(h, NULL))
        continue;
    for (int i = 0; i < HOST_MAX_IDS; i++)
        free(h->shelves[i].taken);
    if (h->batch.token)
        llama_batch_free(h->batch);
    if (h->on_free)
        h->on_free(h->free_user);
    free(h->moved);
    free(h->bytes);
    free(h);
}

static host *host_make(struct llama_model *weights, struct llama_context *memory,
                       const pc_llama_options *o)
{
    host *h = calloc(1, sizeof *h);
    if (!h)
        return NULL;
    h->weights = weights;
    h->memory = memory;
    h->cells = llama_get_memory(memory);
    h->vocab = llama_model_get_vocab(weights);
    h->params = *o->params;
    h->window = llama_model_n_swa(weights) > 0 ? llama_model_n_swa(weights) : 0;
    h->step = h->window ? 2 : 1;
    h->ids = o->params->n_seq_max < HOST_MAX_IDS ? o->params->n_seq_max : HOST_MAX_IDS;
    h->source = (llama_seq_id)h->ids - 1;
    h->target = h->source - 1;
    h->ids -= 2;
    for (int i = 0; i < HOST_MAX_IDS; i++)
        h->shelves[i].id = -1;
    h->batch_most = (int32_t)llama_n_batch(memory);
    h->batch = llama_batch_init(h->batch_most, 0, 1);
    h->moved_most = o->moved_cells ? o->moved_cells : llama_n_ctx(memory) / 4;
    h->own_stats = (pc_llama_stats)PC_LLAMA_STATS_INIT;
    h->stats = o->stats ? o->stats : &h->own_stats;
    llama_set_abort_callback(memory, must_stop, h);
    pthread_mutex_lock(&hosts_mutex);
    h->next = hosts;
    hosts = h;
    pthread_mutex_unlock(&hosts_mutex);
    return h;
}

static pc_status describe(void *user, pc_model_info *info)
{
    *info = ((const host *)user)->info;
    return PC_OK;
}

static pc_model_ops operations(const host *h)
{
    pc_model_ops ops = PC_MODEL_OPS_INIT;
    ops.flags = PC_OVERLAP_TEXT;
    ops.describe = describe;
    if (llama_vocab_type(h->vocab) != LLAMA_VOCAB_TYPE_NONE) { /* they would end the process */
        ops.tokenize = text_tokenize;
        ops.detokenize = text_detokenize;
    }
    ops.encode = segment_encode;
    ops.release = segment_release;
    ops.size = segment_size;
    ops.sequence_new = sequence_new;
    ops.attach = sequence_attach;
    ops.fork = sequence_fork;
    ops.step = model_step;
    ops.drop = sequence_drop;
    ops.truncate = sequence_truncate;
    ops.export_segment = segment_export;
    ops.import_segment = segment_import;
    if (llama_pooling_type(h->memory) == LLAMA_POOLING_TYPE_NONE)
        ops.step_hidden = model_step_hidden;
    return ops;
}

/* A template that promptcache does not understand leaves the model without chat tags, as with its
 * own models. */
static pc_status make_model(pc_model **out, pc_context *context, host *h, const pc_llama_options *o)
{
    pc_model_ops ops = operations(h);
    pc_model_options options = PC_MODEL_OPTIONS_INIT;
    const char *own = llama_model_chat_template(h->weights, NULL);
    pc_status status;
    options.chat_template = o->chat_template ? o->chat_template : own;
    status = pc_model_from_ops(out, context, &ops, h, host_free, &options);
    if (status < 0 && !o->chat_template && own && status != PC_ERR_NOMEM) {
        options.chat_template = NULL;
        status = pc_model_from_ops(out, context, &ops, h, host_free, &options);
    }
    return status;
}

pc_status pc_llama_model_new(pc_model **out, pc_context *context, struct llama_model *weights,
                             struct llama_context *memory, const pc_llama_options *options)
{
    pc_llama_options o;
    uint8_t fingerprint[32];
    host *h;
    pc_status status = read_options(&o, options);
    if (out)
        *out = NULL;
    if (status < 0)
        return status;
    if (!out || !context)
        return host_fail(PC_ERR_INVALID, "pc_llama_model_new: out or context is NULL");
    status = context_check(weights, memory, o.params, o.flags & PC_LLAMA_ANY_VERSION);
    if (status < 0)
        return status;
    if (o.fingerprint)
        memcpy(fingerprint, o.fingerprint, sizeof fingerprint);
    else if ((status = pc_fingerprint_files(fingerprint, o.files, o.file_count, o.progress,
                                            o.progress_user))
             < 0)
        return status;
    if (!(h = host_make(weights, memory, &o)))
        return host_fail(PC_ERR_NOMEM, "pc_llama_model_new: no memory");
    status = context_learn(h, fingerprint, o.identity, o.identity_size);
    if (status >= 0)
        status = make_model(out, context, h, &o);
    if (status < 0) {
        host_free(h); /* on_free is for a model that was made */
        return status;
    }
    h->on_free = o.on_free;
    h->free_user = o.free_user;
    return PC_OK;
}
