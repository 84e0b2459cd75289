/* Opens a memo's folder, checks that it belongs to the model, and closes it. */
#include <math.h>
#include <string.h>

#include "base/fail.h"
#include "base/file.h"
#include "base/options.h"
#include "base/threads.h"
#include "memo/maps/map_format.h"
#include "memo/memo_internal.h"
#include "model/model_states.h"

enum { MOST_TOKENS = 4096, FIRST_BUCKET = 16 };

static pc_status read_memo_options(pc_memo_options *out, const pc_memo_options *options)
{
    PC__TRY_RETURN(pc__options_read(out, sizeof *out, PC__V1_SIZE(pc_memo_options, output_pool),
                                    options, "pc_memo_options"));
    PC__TRY_RETURN(
        pc__check_flags("pc_memo_options", out->flags, PC_MEMO_READ_ONLY | PC_MEMO_LAYERS));
    if (out->map_format > PC_MAP_U8 || out->index > PC_INDEX_IVF)
        return pc__fail(PC_ERR_INVALID, "pc_memo_options: map_format is %u, index is %u",
                        out->map_format, out->index);
    if (out->bucket_count > PC__MEMO_MOST_BUCKETS || (out->bucket_count && !out->bucket_tokens))
        return pc__fail(PC_ERR_INVALID,
                        "pc_memo_options: %zu buckets; at most %d, and bucket_tokens with them",
                        out->bucket_count, PC__MEMO_MOST_BUCKETS);
    for (size_t i = 0; i < out->bucket_count; i++)
        if (!out->bucket_tokens[i] || out->bucket_tokens[i] > 1u << 20
            || (i && out->bucket_tokens[i] <= out->bucket_tokens[i - 1]))
            return pc__fail(
                PC_ERR_INVALID,
                "pc_memo_options: bucket_tokens[%zu] is %u; they must ascend, from 1 to 2^20", i,
                out->bucket_tokens[i]);
    if (!(out->verify_share <= 1) || !(out->cold_seconds >= 0))
        return pc__fail(PC_ERR_INVALID, "pc_memo_options: verify_share is %g, cold_seconds is %g",
                        out->verify_share, out->cold_seconds);
    if (!pc__memo_outputs_valid(out->outputs, out->output_pool)
        || (out->output_pool && !out->outputs))
        return pc__fail(PC_ERR_INVALID, "pc_memo_options: outputs is %#x, output_pool is %u",
                        out->outputs, out->output_pool);
    out->verify_share = out->verify_share == 0 ? 0.01 : fmax(out->verify_share, 0);
    return PC_OK;
}

static pc__memo_head wanted_head(const pc_model *model, const pc_memo_options *options)
{
    const pc_model_info *info = &model->info;
    pc__memo_head head = {
        .maps = {.layers = info->layers,
                 .heads = info->heads,
                 .causal = !info->bidirectional,
                 .format = options->map_format ? options->map_format : PC_MAP_F16},
        .hidden = (uint32_t)info->hidden,
        .outputs = options->outputs,
        .output_pool = options->output_pool,
        .layerwise = (options->flags & PC_MEMO_LAYERS) != 0};
    memcpy(head.maps.model.bytes, info->fingerprint, sizeof head.maps.model.bytes);
    return head;
}

/* Compares an existing memo with the model; its format of maps stays. */
static pc_status check_head(const pc__memo_head *there, const pc__memo_head *wanted,
                            const char *path)
{
    pc__map_signature want = wanted->maps;
    want.format = there->maps.format;
    PC__TRY_RETURN(pc__map_signature_check(&there->maps, &want, path));
    if (there->hidden != wanted->hidden)
        return pc__fail(PC_ERR_MISMATCH, "%s: inputs of %u dimensions; the model has %u", path,
                        there->hidden, wanted->hidden);
    return PC_OK;
}

static size_t index_count(const pc_memo *memo)
{
    return (memo->buckets[memo->head.bucket_count - 1].most + 1) * pc__memo_indexed_layers(memo);
}

/* 16, 32, 64 … up to the context length of the model. */
static uint32_t default_buckets(const pc_model *model, uint32_t *most)
{
    uint32_t limit = model->info.context_length > 0 && model->info.context_length < MOST_TOKENS
                         ? (uint32_t)model->info.context_length
                         : MOST_TOKENS,
             n = 0;
    for (uint32_t tokens = FIRST_BUCKET; tokens < limit; tokens *= 2)
        most[n++] = tokens;
    most[n++] = limit;
    return n;
}

static pc_status make_buckets(pc_memo *memo, const uint32_t *wanted, size_t count)
{
    uint32_t own[PC__MEMO_MOST_BUCKETS], n = (uint32_t)count;
    if (!n) {
        n = default_buckets(memo->model, own);
        wanted = own;
    }
    memo->buckets = pc__calloc(&memo->mem, n, sizeof(*memo->buckets));
    if (!memo->buckets)
        return PC_ERR_NOMEM;
    memo->head.bucket_count = n;
    for (uint32_t b = 0; b < n; b++) {
        memo->buckets[b].least = b ? wanted[b - 1] + 1 : 1;
        memo->buckets[b].most = wanted[b];
        memo->buckets[b].tuning.reason = PC_REASON_UNTRAINED;
    }
    return PC_OK;
}

/* Gives untrained buckets a projector with random weights, which pools inputs. */
static pc_status make_projectors(pc_memo *memo)
{
    for (uint32_t b = 0; b < memo->head.bucket_count; b++) {
        pc__bucket_facts *bucket = &memo->buckets[b];
        pc__projector_shape shape = {
            .hidden = memo->head.hidden, .min_tokens = bucket->least, .max_tokens = bucket->most};
        if (!bucket->projector)
            PC__TRY_RETURN(pc__projector_new(&bucket->projector, &memo->mem, &shape, 1));
        bucket->pooled = pc__projector_pooled(bucket->projector);
    }
    return PC_OK;
}

static pc_status open_maps(pc_memo *memo, int read_only)
{
    pc__map_store_options options = {.signature = memo->head.maps,
                                     .create = !read_only,
                                     .read_only = read_only,
                                     .budget_bytes = memo->options.budget_bytes,
                                     .cold_seconds = memo->options.cold_seconds,
                                     .relaxed = 1 /* memo_add.c syncs */};
    char *path = pc__path_join(&memo->mem, memo->dir.path, "maps");
    pc_memo_stats s = {0};
    pc_status status = PC_ERR_NOMEM;
    if (path)
        status = pc__map_store_open(&memo->maps, &memo->mem, path, &options);
    if (status == PC_OK)
        pc__map_store_get_stats(memo->maps, &s);
    if (s.damaged)
        pc__log(memo->model->context, PC_LOG_WARN,
                "memo: %s: %llu records are lost: their log entries are damaged or cut off",
                memo->dir.path, (unsigned long long)s.damaged);
    pc__free(&memo->mem, path);
    return status;
}

static int enter_record(void *user, const pc__map_record *record)
{
    return pc__memo_entry_add(user, record->id, &record->tokens_id, record->tokens,
                              record->metadata_size)
           < 0;
}

static pc_status enter_records(pc_memo *memo)
{
    pc_memo_stats s;
    pc__map_store_each(memo->maps, enter_record, memo);
    pc__map_store_get_stats(memo->maps, &s);
    if (memo->entry_count < s.live)
        return PC_ERR_NOMEM;
    for (pc__bucket_facts *b = memo->buckets; b < memo->buckets + memo->head.bucket_count; b++)
        if (b->trained)
            PC__TRY_RETURN(pc__memo_index_build(
                memo, b->projector, b, memo->lengths + b->least * pc__memo_indexed_layers(memo),
                &b->unsaved_cost));
    return PC_OK;
}

/* Changes which outputs are stored from now on, if the options ask for it. */
static pc_status set_outputs(pc_memo *memo, const pc__memo_head *wanted)
{
    if (!wanted->outputs
        || (memo->head.outputs == wanted->outputs && memo->head.output_pool == wanted->output_pool))
        return PC_OK;
    if (memo->options.flags & PC_MEMO_READ_ONLY)
        return pc__fail(PC_ERR_STATE,
                        "%s: opened read-only, so that the stored outputs cannot be changed",
                        memo->dir.path);
    memo->head.outputs = wanted->outputs;
    memo->head.output_pool = wanted->output_pool;
    return pc__memo_head_write(memo);
}

/* wanted: the head of a new memo of this model. */
static pc_status open_memo_files(pc_memo *memo, const char *folder, const pc__memo_head *wanted,
                                 const pc_memo_options *options)
{
    int read_only = (memo->options.flags & PC_MEMO_READ_ONLY) != 0;
    pc_status status;
    PC__TRY_RETURN(pc__dir_open(&memo->dir, &memo->mem, folder, !read_only));
    PC__TRY_RETURN(status = pc__memo_head_read(memo));
    if (status == PC_MISS) {
        if (read_only)
            return pc__fail(PC_ERR_NOT_FOUND, "%s: holds no memo", folder);
        memo->head = *wanted;
        PC__TRY_RETURN(make_buckets(memo, options->bucket_tokens, options->bucket_count));
        PC__TRY_RETURN(pc__memo_head_write(memo));
    }
    PC__TRY_RETURN(check_head(&memo->head, wanted, folder));
    PC__TRY_RETURN(make_projectors(memo));
    status = open_maps(memo, read_only);
    if (status != PC_OK) /* PC_AGAIN: another process has it */
        return status;
    PC__TRY_RETURN(set_outputs(memo, wanted));
    memo->lengths = pc__calloc(&memo->mem, index_count(memo), sizeof(*memo->lengths));
    status = memo->lengths ? enter_records(memo) : PC_ERR_NOMEM;
    memo->is_open = status == PC_OK;
    /* Saved now, so that a kill does not cost the same work again. */
    if (memo->is_open && !read_only)
        (void)pc__memo_index_save(memo);
    return status;
}

pc_status pc__memo_write_begin(pc_memo *memo)
{
    if (!pthread_mutex_lock(&memo->writer))
        return PC_OK;
    return pc__fail(PC_ERR_STATE, "%s: a callback cannot change the memo that it reports on",
                    memo->dir.path);
}

pc_status pc_memo_open(pc_memo **out, const pc_model *model, const char *folder,
                       const pc_memo_options *options)
{
    PC__HOLD(pc_model, model);
    pc_memo_options o;
    pc__memo_head wanted;
    pc_memo *memo;
    pc_status status;
    if (!out)
        return pc__fail(PC_ERR_INVALID, "pc_memo_open: out is NULL");
    *out = NULL;
    if (!model || !folder || !*folder)
        return pc__fail(PC_ERR_INVALID,
                        "pc_memo_open: model or folder is NULL, or folder is empty");
    PC__TRY_RETURN(read_memo_options(&o, options));
    PC__TRY_RETURN(pc__model_check_native(model, "pc_memo_open"));
    memo = pc__calloc(&model->context->mem, 1, sizeof *memo);
    if (!memo)
        return PC_ERR_NOMEM;
    atomic_init(&memo->references, 1);
    memo->process = pc__process();
    memo->mem = model->context->mem;
    memo->model = pc__model_ref(model);
    memo->options = o;
    memo->options.bucket_tokens = NULL;
    memo->dir.fd = -1;
    /* a callback that would wait for its own thread is refused (pc__memo_write_begin) */
    pc__mutex_init(&memo->writer, PTHREAD_MUTEX_ERRORCHECK);
    pthread_mutex_init(&memo->counting, NULL);
    pthread_rwlock_init(&memo->guard, NULL);
    wanted = wanted_head(model, &o);
    status = open_memo_files(memo, folder, &wanted, &o);
    if (status == PC_OK)
        *out = memo;
    else
        pc_memo_free(memo);
    return status;
}

pc_memo *pc__memo_ref(pc_memo *memo)
{
    atomic_fetch_add_explicit(&memo->references, 1, memory_order_relaxed);
    return memo;
}

void pc_memo_free(pc_memo *memo)
{
    pc_allocator mem;
    if (!memo || atomic_fetch_sub_explicit(&memo->references, 1, memory_order_acq_rel) != 1)
        return;
    mem = memo->mem;
    if (memo->is_open && !(memo->options.flags & PC_MEMO_READ_ONLY)
        && pc__is_own_process(memo->process))
        (void)pc__memo_index_save(memo);
    if (memo->lengths)
        pc__memo_index_free(memo->lengths, index_count(memo));
    pc__free(&mem, memo->lengths);
    for (uint32_t b = 0; memo->buckets && b < memo->head.bucket_count; b++)
        pc__projector_free(memo->buckets[b].projector);
    pc__free(&mem, memo->buckets);
    pc__memo_entries_free(memo);
    pc__map_store_free(memo->maps);
    pc__dir_close(&memo->dir, &mem);
    pthread_mutex_destroy(&memo->writer);
    pthread_mutex_destroy(&memo->counting);
    pthread_rwlock_destroy(&memo->guard);
    pc__model_unref(memo->model);
    pc__free(&mem, memo);
}
