/* Catches: reading beyond the end of a projector file or training state; invalid weights and norms
 * that are accepted; a file that does not come back unchanged; a refused state that changes the
 * projector. Input: a byte, then the file without its checksum, which is added unless bit 0 is set;
 * bit 1: resumes a training (the checksum of its inputs is corrected). */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "base/context.h"
#include "base/little_endian.h"
#include "fuzz.h"
#include "memo/train/projector_internal.h"

enum { ITEMS = 4, CELLS = 4, AT_INPUTS = 56 + 48 };
static const float pooled[ITEMS * CELLS] = {1, 2, 3, 4, 4, 3, 2, 1, 0, 5, 0, 5, -1, 1, -2, 2};

static float label(void *user, size_t i, size_t j)
{
    (void)user;
    return (float)(i > j ? i - j : j - i);
}

static void as_projector(const uint8_t *file, size_t size)
{
    pc__projector *p = NULL;
    pc__bytes again = {.mem = &fuzz_memory};
    if (!fuzz_ok(pc__projector_read(&p, &fuzz_memory, file, size, "file"))) {
        FUZZ_CHECK(!p);
        return;
    }
    size_t cells = pc__projector_pooled(p);
    float *zeros = calloc(cells, sizeof *zeros), features[PC__FEATURE_DIM];
    FUZZ_CHECK(zeros != NULL);
    pc__projector_features(p, zeros, 1, features);
    FUZZ_CHECK(pc__projector_write(p, &again) == PC_OK);
    FUZZ_CHECK(again.size == size && !memcmp(again.data, file, size - 8));
    free(zeros);
    pc__bytes_free(&again);
    pc__projector_free(p);
}

static void as_training(const uint8_t *file, size_t size)
{
    static pc_context *context;
    pc__projector_shape shape = {4, 1, 8, 1, CELLS, 16};
    pc__training training = {.pooled = pooled,
                             .count = ITEMS,
                             .label = label,
                             .epochs = 2,
                             .batch = 4,
                             .seed = 1,
                             .rate = 0.125,
                             .momentum = 0.5,
                             .resume = file,
                             .resume_size = size};
    pc__projector *p;
    if (!context) {
        pc_context_options options = PC_CONTEXT_OPTIONS_INIT;
        options.threads = 1;
        FUZZ_CHECK(pc_context_new(&context, &options) == PC_OK);
    }
    FUZZ_CHECK(pc__projector_new(&p, &fuzz_memory, &shape, 1) == PC_OK);
    size_t bytes = (p->weights + 2 * p->cells) * sizeof *p->first;
    float *before = malloc(bytes);
    FUZZ_CHECK(before);
    memcpy(before, p->first, bytes);
    pc__training_result result;
    if (!fuzz_ok(pc__projector_train(p, context, &training, &result)) && !result.epochs)
        FUZZ_CHECK(!memcmp(before, p->first, bytes));
    for (size_t i = 0; i < p->weights + 2 * p->cells; i++)
        FUZZ_CHECK(isfinite(p->first[i]));
    free(before);
    pc__projector_free(p);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    size_t blocks = fuzz_blocks();
    if (!size)
        return 0;
    int flags = data[0];
    size_t with_sum = size - 1 + (flags & 1 ? 0 : 8);
    uint8_t *file = malloc(with_sum + 1);
    FUZZ_CHECK(file);
    memcpy(file, data + 1, size - 1);
    if (flags & 2 && size - 1 >= AT_INPUTS + 8)
        pc__put_u64(file + AT_INPUTS, XXH3_64bits(pooled, sizeof pooled));
    if (!(flags & 1))
        pc__put_u64(file + size - 1, XXH3_64bits(file, size - 1));
    if (flags & 2)
        as_training(file, with_sum);
    else
        as_projector(file, with_sum);
    free(file);
    fuzz_no_leak(blocks);
    return 0;
}
