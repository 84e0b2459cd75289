/* Reads and writes the head of a memo, memo.pcm, and the files of its projectors (doc/format.md, "A
 * memo"). */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/checksum.h"
#include "base/fail.h"
#include "base/fields.h"
#include "base/little_endian.h"
#include "memo/memo_internal.h"

enum {
    HEAD_BYTES = 96,
    BUCKET_BYTES = 144,
    BUCKET_BYTES_1 = 96 /* in version 1 */,
    SUM_BYTES = 8,
    VERSION = 2
};
static const char HEAD_NAME[] = "memo.pcm", magic[4] = {'p', 'c', 'm', 'm'};

int pc__memo_outputs_valid(uint32_t outputs, uint32_t pool)
{
    return pool <= PC_POOL_LAST
           && (outputs == PC_OUTPUT_NONE
               || !(outputs & ~(uint32_t)(PC_OUTPUT_EMBEDDINGS | PC_OUTPUT_LOGITS)));
}

#define HEAD(at, member) PC__FIELD(pc__memo_head, at, member)
/* In version 1, outputs and output_pool are 0, their defaults. */
static const pc__field head_fields[] = {
    HEAD(8, maps.model), HEAD(40, maps.causal), HEAD(44, maps.layers),  HEAD(48, maps.heads),
    HEAD(52, hidden),    HEAD(56, maps.format), HEAD(60, bucket_count), HEAD(64, layerwise),
    HEAD(68, outputs),   HEAD(72, output_pool)};

#define BUCKET(at, member) PC__FIELD(pc__bucket_facts, at, member)
static const pc__field bucket_fields[] = {BUCKET(0, least),
                                          BUCKET(4, most),
                                          BUCKET(8, trained),
                                          BUCKET(12, tuning.open),
                                          BUCKET(16, tuning.reason),
                                          BUCKET(20, tuning.loss),
                                          BUCKET(24, tuning.threshold),
                                          BUCKET(32, tuning.limit),
                                          BUCKET(40, tuning.tuned_loss),
                                          BUCKET(48, tuning.tuned_hit_rate),
                                          BUCKET(56, loss_sum),
                                          BUCKET(64, loss_squares),
                                          BUCKET(72, verified),
                                          BUCKET(80, sum)};
/* Since version 2. */
static const pc__field bucket_fields_2[] = {
    BUCKET(88, tuning.hit_limit),       BUCKET(96, tuning.hit_percentile),
    BUCKET(104, tuning.hit_loss),       BUCKET(112, tuning.hit_loss_high),
    BUCKET(120, tuning.hit_loss_worst), BUCKET(128, losses_over_limit)};

static void projector_name(char out[40], uint32_t most)
{
    snprintf(out, 40, "projector-%u.pcp", most);
}

pc_status pc__memo_projector_write(const pc_memo *memo, const pc__projector *projector,
                                   uint64_t *sum)
{
    pc__bytes bytes = {.mem = &memo->mem};
    char name[40];
    pc_status status = pc__projector_write(projector, &bytes);
    projector_name(name, (uint32_t)pc__projector_shape_of(projector)->max_tokens);
    if (status >= 0) {
        *sum = pc__checksum64(bytes.data, bytes.size);
        status = pc__dir_publish(&memo->dir, "draft-projector", name, bytes.data, bytes.size, 1);
    }
    pc__bytes_free(&bytes);
    return status;
}

pc_status pc__memo_head_write(const pc_memo *memo)
{
    size_t size = HEAD_BYTES + memo->head.bucket_count * BUCKET_BYTES;
    uint8_t *data = pc__calloc(&memo->mem, 1, size + SUM_BYTES), *at;
    pc_status status;
    if (!data)
        return PC_ERR_NOMEM;
    at = data + HEAD_BYTES;
    memcpy(data, magic, sizeof magic);
    pc__put_u32(data + 4, VERSION);
    pc__fields_put(data, &memo->head, PC__FIELDS(head_fields));
    for (uint32_t b = 0; b < memo->head.bucket_count; b++, at += BUCKET_BYTES) {
        pc__fields_put(at, &memo->buckets[b], PC__FIELDS(bucket_fields));
        pc__fields_put(at, &memo->buckets[b], PC__FIELDS(bucket_fields_2));
    }
    pc__put_u64(data + size, pc__checksum64(data, size));
    status = pc__dir_publish(&memo->dir, "draft", HEAD_NAME, data, size + SUM_BYTES, 1);
    pc__free(&memo->mem, data);
    return status;
}

static pc_status head_damaged(const char *path, const char *what)
{
    return pc__fail(PC_ERR_FORMAT, "%s: %s", path, what);
}

static size_t bucket_bytes(const uint8_t *head)
{
    return pc__get_u32(head + 4) == 1 ? BUCKET_BYTES_1 : BUCKET_BYTES;
}

static pc_status get_head(pc__memo_head *h, const uint8_t *in, size_t size, const char *path)
{
    size_t frame = HEAD_BYTES + SUM_BYTES;
    if (size < frame || memcmp(in, magic, sizeof magic))
        return head_damaged(path, "memo.pcm is not the head of a memo");
    if (pc__get_u64(in + size - SUM_BYTES) != pc__checksum64(in, size - SUM_BYTES))
        return head_damaged(path, "memo.pcm: the checksum is wrong");
    if (!pc__get_u32(in + 4) || pc__get_u32(in + 4) > VERSION)
        return pc__fail(PC_ERR_UNSUPPORTED,
                        "%s: memo.pcm has version %u; this library reads 1 to %d", path,
                        pc__get_u32(in + 4), VERSION);
    pc__fields_get(h, in, PC__FIELDS(head_fields));
    if (!pc__memo_outputs_valid(h->outputs, h->output_pool))
        return head_damaged(path, "memo.pcm: unknown kind of outputs");
    if (h->layerwise > 1 || (unsigned)h->maps.causal > 1)
        return head_damaged(path, "memo.pcm: a flag is neither 0 nor 1");
    if (!h->bucket_count || h->bucket_count > PC__MEMO_MOST_BUCKETS
        || size != frame + h->bucket_count * bucket_bytes(in))
        return head_damaged(path, "memo.pcm: its size does not fit its buckets");
    return PC_OK;
}

/* Reads the projector that the head names. If it is gone or another one, the bucket becomes
 * untrained and closed. */
static pc_status read_projector(pc_memo *memo, pc__bucket_facts *b)
{
    char name[40];
    uint8_t *data = NULL;
    size_t size = 0;
    pc_status status;
    projector_name(name, b->most);
    status = pc__dir_read(&memo->dir, &memo->mem, name, PC__MEMO_MOST_FILE, &data, &size);
    if (status >= 0 && pc__checksum64(data, size) == b->sum)
        status = pc__projector_read(&b->projector, &memo->mem, data, size, name);
    pc__free(&memo->mem, data);
    if (status == PC_ERR_NOMEM || (status >= 0 && b->projector))
        return status;
    pc__log(memo->model->context, PC_LOG_WARN,
            "memo: %s/%s is not the file that the head names: train the bucket again",
            memo->dir.path, name);
    b->trained = 0;
    b->sum = 0;
    b->tuning = (pc_memo_bucket){.reason = PC_REASON_UNTRAINED};
    return PC_OK;
}

static pc_status get_buckets(pc_memo *memo, const uint8_t *in, size_t bytes, const char *path)
{
    memo->buckets = pc__calloc(&memo->mem, memo->head.bucket_count, sizeof(*memo->buckets));
    if (!memo->buckets)
        return PC_ERR_NOMEM;
    for (uint32_t b = 0; b < memo->head.bucket_count; b++, in += bytes) {
        pc__bucket_facts *bucket = &memo->buckets[b];
        uint32_t before = b ? memo->buckets[b - 1].most : 0;
        pc__fields_get(bucket, in, PC__FIELDS(bucket_fields));
        if (bytes == BUCKET_BYTES)
            pc__fields_get(bucket, in, PC__FIELDS(bucket_fields_2));
        if (bucket->least != before + 1 || bucket->most < bucket->least || bucket->most > 1u << 20
            || !isfinite(bucket->tuning.threshold))
            return head_damaged(path, "memo.pcm: its buckets do not follow each other");
        if (bucket->trained)
            PC__TRY_RETURN(read_projector(memo, bucket));
    }
    return PC_OK;
}

pc_status pc__memo_head_read(pc_memo *memo)
{
    uint8_t *data = NULL;
    size_t size = 0;
    pc_status status = pc__dir_read(&memo->dir, &memo->mem, HEAD_NAME, PC__MEMO_MOST_FILE, &data,
                                    &size);
    if (status == PC_ERR_NOT_FOUND)
        status = PC_MISS;
    if (status == PC_OK)
        status = get_head(&memo->head, data, size, memo->dir.path);
    if (status == PC_OK)
        status = get_buckets(memo, data + HEAD_BYTES, bucket_bytes(data), memo->dir.path);
    pc__free(&memo->mem, data);
    return status;
}
