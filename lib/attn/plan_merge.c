/* Merges partial attention results by their log-sum-exp (RelayAttention, equation 8; Hydragen,
 * section 3.1): those of a plan, and those of a caller (pc_merge). */
#include <promptcache/attend.h>
#include <math.h>

#include "attn/plan.h"
#include "base/options.h"

enum { MOST_PARTS = 256 };
static const float ln_2 = 0.69314718056f;

static void add_scaled(float *restrict out, float weight, const float *restrict section,
                       size_t count)
{
    for (size_t d = 0; d < count; d++)
        out[d] += weight * section[d];
}

static void scale_by(float *restrict out, float weight, const float *restrict section, size_t count)
{
    for (size_t d = 0; d < count; d++)
        out[d] = weight * section[d];
}

void pc__merge_parts(size_t n, const pc__state *states, size_t v_dim, float *out, float *lse)
{
    float top = -INFINITY, sum = 0.0f;
    int first = 1;
    for (size_t i = 0; i < n; i++)
        top = states[i].l > 0.0f && states[i].m > top ? states[i].m : top;
    for (size_t i = 0; i < n; i++)
        if (states[i].l > 0.0f)
            sum += expf(states[i].m - top) * states[i].l;
    for (size_t i = 0; i < n; i++) {
        float weight = states[i].l > 0.0f ? expf(states[i].m - top) / sum : 0.0f;
        if (weight == 0.0f || !states[i].acc)
            continue;
        if (first)
            scale_by(out, weight, states[i].acc, v_dim);
        else
            add_scaled(out, weight, states[i].acc, v_dim);
        first = 0;
    }
    for (size_t d = 0; first && d < v_dim; d++)
        out[d] = 0.0f;
    *lse = sum > 0.0f ? top + logf(sum) : -INFINITY;
}

/* Parts of one head of one row. */
static pc_status merge_vector(const pc_merge_args *a, size_t row, size_t head)
{
    pc__state states[MOST_PARTS];
    size_t v_dim = (size_t)a->v_dim, at = row * (size_t)a->heads + head;
    float unit = a->flags & PC_MERGE_BASE2 ? ln_2 : 1.0f, lse;
    for (size_t i = 0; i < a->part_count; i++) {
        float m = a->lses[i][row * a->lse_row_stride + head];
        if (!(m < INFINITY))
            return pc__fail(PC_ERR_INVALID,
                            "pc_merge: the LSE of part %zu, row %zu, head %zu is %g", i, row, head,
                            (double)m);
        states[i] = (pc__state){a->outs[i] + row * a->out_row_stride + head * v_dim, m * unit,
                                m > -INFINITY ? 1.0f : 0.0f};
    }
    pc__merge_parts(a->part_count, states, v_dim, a->out + at * v_dim, &lse);
    if (a->lse)
        a->lse[at] = lse / unit;
    return PC_OK;
}

static pc_status check_parts(pc_merge_args *a)
{
    size_t heads = (size_t)a->heads, out = heads * (size_t)a->v_dim;
    if (a->part_count > MOST_PARTS)
        return pc__fail(PC_ERR_LIMIT, "pc_merge: %zu parts, at most %d", a->part_count, MOST_PARTS);
    if (!a->out || (a->part_count && (!a->outs || !a->lses)))
        return pc__fail(PC_ERR_INVALID, "pc_merge: outs, lses or out is NULL");
    for (size_t i = 0; i < a->part_count; i++)
        if (!a->outs[i] || !a->lses[i])
            return pc__fail(PC_ERR_INVALID, "pc_merge: outs[%zu] or lses[%zu] is NULL", i, i);
    a->out_row_stride = a->out_row_stride ? a->out_row_stride : out;
    a->lse_row_stride = a->lse_row_stride ? a->lse_row_stride : heads;
    if (a->out_row_stride < out || a->lse_row_stride < heads
        || a->row_count > PTRDIFF_MAX / sizeof(float) / a->out_row_stride
        || a->row_count > PTRDIFF_MAX / sizeof(float) / a->lse_row_stride)
        return pc__fail(PC_ERR_INVALID,
                        "pc_merge: %zu rows of %d heads of %d, %zu and %zu floats apart",
                        a->row_count, a->heads, a->v_dim, a->out_row_stride, a->lse_row_stride);
    return PC_OK;
}

pc_status pc_merge(const pc_merge_args *args)
{
    pc_merge_args read;
    PC__TRY_RETURN(pc__options_read(&read, sizeof read, PC__V1_SIZE(pc_merge_args, flags), args,
                                    "pc_merge_args"));
    if (!args)
        return pc__fail(PC_ERR_INVALID, "pc_merge: args is NULL");
    PC__TRY_RETURN(pc__check_flags("pc_merge_args", read.flags, PC_MERGE_BASE2));
    if (!read.row_count)
        return PC_OK;
    if (read.heads < 1 || read.heads > 1 << 20 || read.v_dim < 1 || read.v_dim > PC__MAX_HEAD)
        return pc__fail(PC_ERR_INVALID, "pc_merge: %d heads of %d dimensions", read.heads,
                        read.v_dim);
    PC__TRY_RETURN(check_parts(&read));
    for (size_t row = 0; row < read.row_count; row++)
        for (size_t head = 0; head < (size_t)read.heads; head++)
            PC__TRY_RETURN(merge_vector(&read, row, head));
    return PC_OK;
}
