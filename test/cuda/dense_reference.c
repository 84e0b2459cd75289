/* The CPU's code, for tests in C++. */
#include "dense_reference.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cuda/kernels/quantised.h"
#include "attn/half.h"
#include "attn/kernels.h"
#include "attn/map.h"
#include "attn/cpu/route.h"
#include "testing.h"

static const pc__kernels *plain(void)
{
    return pc__kernels_named("c");
}

void reference_gelu(float *x, size_t count)
{
    plain()->gelu(x, count);
}

void reference_silu_gate(float *x, const float *up, size_t count)
{
    plain()->silu_gate(x, up, count);
}

void reference_rotate(uint32_t dims, uint32_t interleaved, const float *cosine, const float *sine,
                      float scale, const float *from, float *to, size_t heads, size_t dim)
{
    pc__rotation rope = {
        .dims = (int32_t)dims, .interleaved = (int32_t)interleaved, .factor = 1.0f};
    plain()->rotate(dims ? &rope : NULL, cosine, sine, scale, from, to, heads, dim);
}

static const uint32_t dtypes[] = {[REFERENCE_F32] = PC_DTYPE_F32,
                                  [REFERENCE_BF16] = PC_DTYPE_BF16,
                                  [REFERENCE_F16] = PC_DTYPE_F16,
                                  [REFERENCE_I8] = PC_DTYPE_I8};

/* of this program; it is never freed */
static pc_context *test_context(void)
{
    static pc_context *context;
    if (!context) {
        pc_context_options options = PC_CONTEXT_OPTIONS_INIT;
        options.threads = 1;
        if (pc_context_new(&context, &options) < 0)
            abort();
    }
    return context;
}

void reference_route(reference_routes *r, size_t rows)
{
    pc__expert_config config = {.count = (int32_t)r->count,
                                .used = (int32_t)r->used,
                                .renormalise = (int32_t)r->renormalise,
                                .scale = r->scale,
                                .sigmoid = (int32_t)r->sigmoid,
                                .groups = (int32_t)r->groups,
                                .groups_used = (int32_t)r->groups_used,
                                .group_best = (int32_t)r->group_best,
                                .selection_bias = r->bias != NULL};
    pc__routes routes = {.logits = r->logits,
                         .scratch = r->scratch,
                         .bias = r->bias,
                         .chosen = r->chosen,
                         .weight = r->weight,
                         .first = r->first,
                         .row = r->row,
                         .share = r->share,
                         .of_row = r->of_row};
    pc__route(test_context(), &config, rows, &routes);
}

reference_kv *reference_kv_new(uint32_t format, uint32_t kv_heads, uint32_t k_dim, uint32_t v_dim,
                               size_t tokens)
{
    pc__kv_shape shape = {1, (int32_t)kv_heads, (int32_t)k_dim, (int32_t)v_dim, dtypes[format], 0};
    pc__kv *kv;
    if (pc__kv_new_unset(&kv, &test_context()->mem, &shape, tokens, NULL) < 0)
        abort();
    memset(kv->layer[0], 0, reference_kv_bytes(kv));
    return kv;
}

void reference_kv_free(reference_kv *kv)
{
    pc__kv_unref(kv);
}

uint8_t *reference_kv_pages(reference_kv *kv)
{
    return kv->layer[0];
}

size_t reference_kv_bytes(const reference_kv *kv)
{
    return pc__kv_layer_bytes(&kv->shape, kv->tokens);
}

pc__cuda_page_shape reference_kv_shape(const reference_kv *kv)
{
    pc__cuda_page_shape shape = {(uint32_t)kv->shape.k_dim,
                                 (uint32_t)kv->shape.v_dim,
                                 (uint32_t)pc__kv_k_bytes(&kv->shape),
                                 (uint32_t)pc__kv_page_bytes(&kv->shape),
                                 (uint32_t)kv->shape.kv_heads,
                                 0};
    return shape;
}

void reference_kv_write(reference_kv *kv, size_t token, const float *k, const float *v)
{
    pc__kv_write(kv, 0, token, k, v);
}

void reference_kv_write_i8(reference_kv *kv, size_t page, size_t tokens, const float *k,
                           const float *v)
{
    pc__kv_write_i8(&kv->shape, kv->layer[0], page, tokens, k, v);
}

static pc__map_shape map_shape(const reference_map *map)
{
    pc__map_shape shape = {map->format, (int32_t)map->heads, map->tokens, (int)map->causal};
    return shape;
}

size_t reference_map_bytes(const reference_map *map)
{
    pc__map_shape shape = map_shape(map);
    return pc__map_bytes(&shape);
}

void reference_map_pack(const reference_map *map, const float *dense, void *out)
{
    pc__map_shape shape = map_shape(map);
    pc__map_pack(&shape, dense, out);
}

void reference_map_apply(const reference_map *map, const void *packed, const reference_kv *kv,
                         float *out)
{
    pc__map_lane lane = {map_shape(map), packed, kv, 0};
    if (pc__map_apply(test_context(), &lane, 1, 0, out) < 0)
        abort();
}

void reference_map_record(const reference_map *map, const reference_kv *kv, const float *q,
                          const float *lse, const int64_t *distance, float scale, float soft_cap,
                          const float *slopes, int64_t window, int64_t chunk, void *out)
{
    pc__attn_layer layer = {.heads = (int32_t)map->heads,
                            .window = window,
                            .chunk = chunk,
                            .scale = scale,
                            .soft_cap = soft_cap,
                            .slopes = slopes};
    pc__map_out lane = {.shape = map_shape(map), .map = out, .kv = kv, .distance = distance};
    if (pc__record_maps(test_context(), &layer, &lane, 1, q, lse) < 0)
        abort();
}

static pc__cuda_panel_format format_of(const reference_quantised *q)
{
    return (pc__cuda_panel_format){q->bits, q->group, q->zero, q->minimum, q->half};
}

size_t reference_panel_bytes(const reference_quantised *q)
{
    pc__cuda_panel_format format = format_of(q);
    return q->groups * pc__cuda_group_bytes(&format);
}

void reference_panel_scale(const reference_quantised *q, uint8_t *panel, size_t group,
                           size_t output, float scale, float minimum)
{
    pc__cuda_panel_format format = format_of(q);
    uint8_t *at = panel + group * pc__cuda_group_bytes(&format);
    uint16_t half = pc__half_from(scale);
    if (q->half)
        memcpy(at + pc__cuda_scale_at(&format) + 2 * output, &half, sizeof half);
    else
        memcpy(at + pc__cuda_scale_at(&format) + 4 * output, &scale, sizeof scale);
    if (q->minimum)
        memcpy(at + pc__cuda_minimum_at(&format) + 4 * output, &minimum, sizeof minimum);
}

/* q of input k of a group. */
static int32_t integer_at(const reference_quantised *q, const uint8_t *group, size_t k,
                          size_t output)
{
    size_t half = q->group / 2, at = q->bits == 8 ? k : k % half;
    uint8_t byte = group[(at / 4 * PC__CUDA_PANEL + output) * 4 + at % 4];
    return q->bits == 8 ? byte : k < half ? byte & 15 : byte >> 4;
}

static float add_group(const reference_quantised *q, const uint8_t *group, size_t output,
                       const pc__quantised_inputs *in, size_t g, float y)
{
    pc__cuda_panel_format format = format_of(q);
    const uint8_t *scales = group + pc__cuda_scale_at(&format);
    const int8_t *high = in->high + g * q->group,
                 *low = in->wide[g] ? in->low + g * q->group : NULL;
    int32_t product = 0;
    float scale, minimum;
    uint16_t half;
    for (size_t k = 0; k < q->group; k++)
        product += (integer_at(q, group, k, output) - q->zero)
                   * (low ? 256 * high[k] + low[k] : high[k]);
    if (q->half) {
        memcpy(&half, scales + 2 * output, sizeof half);
        scale = pc__half_to(half);
    } else {
        memcpy(&scale, scales + 4 * output, sizeof scale);
    }
    y = fmaf((float)product * in->step[g], scale, y);
    if (!q->minimum)
        return y;
    memcpy(&minimum, group + pc__cuda_minimum_at(&format) + 4 * output, sizeof minimum);
    return fmaf((float)in->negative_sum[g] * in->step[g], minimum, y);
}

void reference_quantised_run(const reference_quantised *q, const uint8_t *panels, const float *x,
                             size_t rows, float *y)
{
    size_t in = q->groups * q->group;
    int8_t *codes = calloc(2, in);
    int32_t *sums = calloc(q->groups, sizeof *sums);
    float *steps = calloc(q->groups, sizeof *steps);
    uint8_t *wide = calloc(q->groups, 1);
    pc__quantised_inputs inputs = {codes, codes + in, steps, sums, wide, 1};
    for (size_t r = 0; codes && sums && steps && wide && r < rows; r++) {
        plain()->quantise(x + r * in, q->groups, q->group, q->bytes == 2, &inputs);
        for (size_t n = 0; n < q->out; n++) {
            const uint8_t *panel = panels + n / PC__CUDA_PANEL * reference_panel_bytes(q);
            pc__cuda_panel_format format = format_of(q);
            float sum = 0.0f;
            for (size_t g = 0; g < q->groups; g++)
                sum = add_group(q, panel + g * pc__cuda_group_bytes(&format), n % PC__CUDA_PANEL,
                                &inputs, g, sum);
            y[r * q->out + n] = sum;
        }
    }
    free(codes), free(sums), free(steps), free(wide);
}
