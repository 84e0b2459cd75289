/* Pooling, and the heads of encoders. */
#include "model/forward/heads.h"

#include <promptcache/memo.h>
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

pc_status pc__head_pooled(const pc__native *native, const float *first, size_t count, float *pooled)
{
    if (!native->encoder.pool)
        return pc__fail(PC_ERR_UNSUPPORTED, "this %s model has no pooler", native->arch.name);
    PC__TRY_RETURN(native->backend->linear_run(native->encoder.pool, first, count, pooled));
    native->backend->activate(native->context, native->arch.encoder.pool, pooled,
                              count * (size_t)native->arch.hidden);
    return PC_OK;
}

pc_status pc__head_logits(const pc__native *native, const float *pooled, size_t count,
                          float *logits)
{
    if (!native->encoder.classifier)
        return pc__fail(PC_ERR_UNSUPPORTED, "this %s model has no classifier", native->arch.name);
    return native->backend->linear_run(native->encoder.classifier, pooled, count, logits);
}
