/* Pooling, and the heads of encoders. */
#include "model/forward/heads.h"

#include <promptcache/embed.h>
#include <math.h>
#include <string.h>

uint32_t pc__pool_of(const pc__native *native, uint32_t asked)
{
    if (asked == PC_POOL_DEFAULT)
        asked = native->pooling.pool;
    if (asked == PC_POOL_DEFAULT)
        asked = native->arch.causal ? PC_POOL_LAST : PC_POOL_MEAN;
    return asked;
}

void pc__pool_rows(uint32_t pool, const float *rows, size_t count, size_t dim, float *out)
{
    if (pool != PC_POOL_MEAN) {
        memcpy(out, rows + (pool == PC_POOL_LAST ? count - 1 : 0) * dim, dim * sizeof *out);
        return;
    }
    for (size_t i = 0; i < dim; i++) {
        double sum = 0;
        for (size_t r = 0; r < count; r++)
            sum += (double)rows[r * dim + i];
        out[i] = (float)(sum / (double)count);
    }
}

void pc__normalize(float *x, size_t dim)
{
    double sum = 0;
    for (size_t i = 0; i < dim; i++)
        sum += (double)x[i] * (double)x[i];
    for (size_t i = 0; i < dim && sum > 0; i++)
        x[i] = (float)((double)x[i] / sqrt(sum));
}

/* y = linear x, on host memory; then `activation`. */
static pc_status run_on_host(const pc__native *native, const pc__linear *linear,
                             pc__activation activation, const float *x, size_t rows, size_t in,
                             float *y, size_t out)
{
    pc__stream *stream;
    PC__TRY_RETURN(native->backend->ops->stream_new(&stream, native->backend));
    const pc__floats *from = pc__stream_input(stream, x, rows * in);
    pc__floats *to = pc__stream_output(stream, y, rows * out);
    pc_status status = from && to ? pc__stream_linear(stream, linear, from, rows, to)
                                  : PC_ERR_NOMEM,
              ended;
    if (status >= 0 && activation != PC__ACT_NONE)
        stream->ops->activate(stream, activation, to, rows * out);
    ended = pc__stream_output_end(stream, to, y, rows * out);
    pc__stream_input_end(stream, from, x);
    stream->ops->stream_free(stream);
    return status < 0 ? status : ended;
}

pc_status pc__head_pooled(const pc__native *native, const float *first, size_t count, float *pooled)
{
    size_t hidden = (size_t)native->arch.hidden;
    if (!native->encoder.pool)
        return pc__fail(PC_ERR_UNSUPPORTED, "this %s model has no pooler", native->arch.name);
    return run_on_host(native, native->encoder.pool, native->arch.encoder.pool, first, count,
                       hidden, pooled, hidden);
}

pc_status pc__head_logits(const pc__native *native, const float *pooled, size_t count,
                          float *logits)
{
    if (!native->encoder.classifier)
        return pc__fail(PC_ERR_UNSUPPORTED, "this %s model has no classifier", native->arch.name);
    return run_on_host(native, native->encoder.classifier, PC__ACT_NONE, pooled, count,
                       (size_t)native->arch.hidden, logits, native->encoder.classes);
}
