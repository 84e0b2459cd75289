/* Catches: a training that does not learn what decides the labels; results that depend on the
 * number of threads, on earlier calls, or on stopping and resuming; pairs across groups, of an item
 * with itself, or missing ones; a projector that a cancelled, failed or diverged training has
 * changed; a checkpoint that is damaged or of another training and is accepted; leaks when memory
 * runs out. */
#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "base/little_endian.h"
#include "feature_items.h"
#include "judge.h"
#include "memo/train/projector_internal.h"
#include "memo/train/trainer.h"

enum { DIM = PC__FEATURE_DIM, ITEMS = 300, CELLS = 48 };
static const pc__projector_shape SHAPE = {48, 16, 64, 1, 48, 32};
static feature_items items;

static pc_context *context_of(uint32_t threads)
{
    pc_context *context;
    pc_context_options options = PC_CONTEXT_OPTIONS_INIT;
    options.threads = threads;
    CHECK_OK(pc_context_new(&context, &options));
    return context;
}

static pc__projector *fresh(void)
{
    pc__projector *p;
    CHECK_OK(pc__projector_new(&p, &pc__libc_allocator, &SHAPE, 1));
    return p;
}

static pc__training training_of(size_t epochs)
{
    return (pc__training){.pooled = items.pooled,
                          .count = ITEMS,
                          .label = feature_items_label,
                          .label_user = &items,
                          .epochs = epochs,
                          .batch = 16,
                          .seed = 3};
}

/* All bytes of a projector. */
static uint64_t bits_of(const pc__projector *p)
{
    return XXH3_64bits(p->first, (p->weights + 2 * p->cells) * sizeof *p->first);
}

static uint64_t trained_bits(uint32_t threads, pc__training training, pc__training_result *result)
{
    pc_context *context = context_of(threads);
    pc__projector *p = fresh();
    CHECK_OK(pc__projector_train(p, context, &training, result));
    uint64_t bits = bits_of(p);
    pc__projector_free(p);
    pc_context_free(context);
    return bits;
}

/* Trained features find nearly the true neighbours; random features of normed inputs do not. */
static void learns(void)
{
    pc_context *context = context_of(2);
    feature_items many = feature_items_new(1500, CELLS, 5);
    pc__projector *p = fresh();
    pc__training training = {.pooled = many.pooled,
                             .count = 1200,
                             .label = feature_items_label,
                             .label_user = &many,
                             .seed = 1};
    judge_input judging = {.pooled = many.pooled,
                           .count = 1500,
                           .stored = 1200,
                           .label = feature_items_label,
                           .label_user = &many};
    pc__training_result result;
    judge_result before, after;
    CHECK_OK(pc__projector_norm(p, many.pooled, 1200));
    CHECK_OK(judge_projector(p, context, &judging, &before));
    CHECK_OK(pc__projector_train(p, context, &training, &result));
    CHECK_OK(judge_projector(p, context, &judging, &after));
    printf("rank correlation %.3f -> %.3f, label of the nearest %.4f -> %.4f (best %.4f, random "
           "%.4f), loss %.4f -> %.4f\n",
           before.rank_correlation, after.rank_correlation, before.nearest_label,
           after.nearest_label, after.best_label, after.random_label, result.first_loss,
           result.last_loss);
    CHECK(after.rank_correlation > 0.97 && before.rank_correlation < 0.6);
    CHECK(after.share > 0.95 && before.share < 0.4);
    CHECK(result.last_loss < 0.2 * result.first_loss);
    CHECK(result.label_scale > 0.04 && result.label_scale < 0.07);
    CHECK_INT(result.epochs, 53); /* default: 4000 batches of 16 */
    /* distances equal labels, not only their order */
    double off = 0;
    for (size_t i = 1200; i < 1300; i++) {
        float f[2 * DIM], square = 0;
        pc__projector_features(p, many.pooled + i * CELLS, 1, f);
        pc__projector_features(p, many.pooled + (i + 100) * CELLS, 1, f + DIM);
        for (size_t d = 0; d < DIM; d++)
            square += (f[d] - f[DIM + d]) * (f[d] - f[DIM + d]);
        off += fabs((double)sqrtf(square) - (double)feature_items_label(&many, i, i + 100)) / 100;
    }
    CHECK(off < 0.1 * result.label_scale);
    pc__projector_free(p);
    feature_items_free(&many);
    pc_context_free(context);
}

static void same_everywhere(void)
{
    pc__training_result one, other;
    pc__training training = training_of(2);
    uint64_t bits = trained_bits(1, training, &one);
    for (uint32_t threads = 2; threads <= 3; threads++) {
        CHECK(trained_bits(threads, training, &other) == bits);
        CHECK(!memcmp(&one, &other, sizeof one));
    }
    training.seed++;
    CHECK(trained_bits(1, training, &other) != bits);
}

static float first_cell_apart(void *user, size_t i, size_t j)
{
    const float *pooled = user;
    float d = pooled[i * CELLS] - pooled[j * CELLS];
    return d < 0 ? -d : d;
}

/* Every machine and CPU level (PC_CPU_MASK) gives these weights. */
static void known_bits(void)
{
    static float pooled[ITEMS * CELLS];
    pc_test_rng rng = {4};
    pc__training training = training_of(2);
    for (size_t i = 0; i < ITEMS * CELLS; i++)
        pooled[i] = pc_test_uniform(&rng);
    training.rate = 0.1, training.momentum = 0.9;
    training.pooled = pooled, training.label = first_cell_apart, training.label_user = pooled;
    CHECK(trained_bits(2, training, NULL) == 0xe734c3b19794d805u);
}

/* --- checkpoints */
typedef struct kept {
    size_t stop_after, calls;
    void *data;
    size_t size;
} kept;

static pc_status keep(void *user, size_t epoch, const void *data, size_t size)
{
    kept *k = user;
    k->calls++;
    CHECK_INT(epoch, k->calls);
    if (epoch == k->stop_after) {
        k->data = malloc(size);
        k->size = size;
        memcpy(k->data, data, size);
        return PC_ERR_IO;
    }
    return PC_OK;
}

static void goes_on(void)
{
    pc_context *context = context_of(2);
    for (int grouped = 0; grouped < 2; grouped++) {
        pc__training_result whole, rest;
        pc__training training = training_of(4);
        training.groups = grouped ? items.groups : NULL;
        uint64_t bits = trained_bits(1, training, &whole);
        for (size_t stop = 1; stop <= 4; stop++) {
            kept k = {stop, 0, NULL, 0};
            pc__projector *p = fresh(), *q = fresh();
            pc__training first = training, second = training;
            first.checkpoint = keep, first.checkpoint_user = &k;
            CHECK_STATUS(pc__projector_train(p, context, &first, NULL), PC_ERR_IO);
            second.resume = k.data, second.resume_size = k.size;
            CHECK_OK(pc__projector_train(q, context, &second, &rest));
            CHECK(bits_of(q) == bits);
            CHECK(!memcmp(&whole, &rest, sizeof whole));
            free(k.data);
            pc__projector_free(p);
            pc__projector_free(q);
        }
    }
    pc_context_free(context);
}

static void not_gone_on(const kept *k, pc__training training, pc_context *context, pc_status want,
                        const char *cause)
{
    pc__projector *p = fresh();
    uint64_t before = bits_of(p);
    training.resume = k->data, training.resume_size = k->size;
    CHECK_STATUS(pc__projector_train(p, context, &training, NULL), want);
    CHECK_ERROR_HAS("going on with a training: ");
    CHECK_ERROR_HAS(cause);
    CHECK(bits_of(p) == before);
    pc__projector_free(p);
}

static void not_gone_on_after(const kept *k, size_t at, uint64_t value, pc_context *context,
                              const char *cause)
{
    kept changed = {0, 0, malloc(k->size), k->size};
    memcpy(changed.data, k->data, k->size);
    pc__put_u64((uint8_t *)changed.data + at, value);
    pc__put_u64((uint8_t *)changed.data + k->size - 8, XXH3_64bits(changed.data, k->size - 8));
    not_gone_on(&changed, training_of(3), context, PC_ERR_FORMAT, cause);
    free(changed.data);
}

static void bad_checkpoints(void)
{
    pc_context *context = context_of(1);
    kept k = {1, 0, NULL, 0};
    pc__projector *p = fresh();
    pc__training training = training_of(3), other;
    training.checkpoint = keep, training.checkpoint_user = &k;
    CHECK_STATUS(pc__projector_train(p, context, &training, NULL), PC_ERR_IO);
    pc__projector_free(p);
    training = training_of(3);
    other = training, other.seed = 4, not_gone_on(&k, other, context, PC_ERR_MISMATCH, "(seed)");
    other = training, other.epochs = 4,
    not_gone_on(&k, other, context, PC_ERR_MISMATCH, "(number of epochs)");
    other = training, other.count--,
    not_gone_on(&k, other, context, PC_ERR_MISMATCH, "(number of items)");
    other = training, other.rate = 0.2, not_gone_on(&k, other, context, PC_ERR_MISMATCH, "(rate)");
    other = training, other.groups = items.groups,
    not_gone_on(&k, other, context, PC_ERR_MISMATCH, "(items)");
    for (size_t i = 0; i < k.size; i += i < 200 ? 1 : 511) {
        ((uint8_t *)k.data)[i] ^= 16;
        not_gone_on(&k, training, context, i >= 8 && i < 12 ? PC_ERR_UNSUPPORTED : PC_ERR_FORMAT,
                    "");
        ((uint8_t *)k.data)[i] ^= 16;
    }
    not_gone_on_after(&k, 56 + 56, 0, context, "0 epochs of 3 are done");
    not_gone_on_after(&k, 56 + 56, 4, context, "4 epochs of 3 are done");
    not_gone_on_after(&k, 56 + 64, 0x7ff8000000000000u, context, "unit nan");
    not_gone_on_after(&k, k.size - 16, 0x7fc000007fc00000u, context, "velocity");
    free(k.data);
    pc_context_free(context);
}

/* --- progress and cancelling */
typedef struct told {
    uint64_t calls, last, total;
    uint64_t cancel_at; /* done */
    char text[128];
} told;

static int32_t tell(void *user, const char *what, uint64_t done, uint64_t total)
{
    told *t = user;
    t->calls++;
    CHECK(done >= t->last && done <= total);
    t->last = done;
    t->total = total;
    snprintf(t->text, sizeof t->text, "%s", what);
    return t->cancel_at && done >= t->cancel_at;
}

static void progress(void)
{
    pc_context *context = context_of(2);
    pc__training training = training_of(3);
    uint64_t one_epoch;
    told t = {0};
    training.progress = tell, training.progress_user = &t;
    trained_bits(2, training, NULL);
    CHECK(t.calls >= 3);
    CHECK_INT(t.last, t.total);
    CHECK_INT(t.total, 3 * 19); /* 300 in batches of 16: the last has 12 */
    CHECK(strstr(t.text, "epoch 3 of 3, loss ") && strstr(t.text, " s left"));

    kept k = {0, 0, NULL, 0};
    pc__projector *p = fresh();
    pc__training_result result;
    t = (told){.cancel_at = 19};
    training.checkpoint = keep, training.checkpoint_user = &k;
    CHECK_STATUS(pc__projector_train(p, context, &training, &result), PC_ERR_CANCELLED);
    CHECK_INT(result.epochs, 1);
    CHECK_INT(k.calls, 1);
    one_epoch = bits_of(p);
    pc__projector_free(p);

    training = training_of(3);
    k = (kept){.stop_after = 1};
    training.checkpoint = keep, training.checkpoint_user = &k;
    p = fresh();
    CHECK_STATUS(pc__projector_train(p, context, &training, NULL), PC_ERR_IO);
    CHECK(bits_of(p) == one_epoch);
    free(k.data);
    pc__projector_free(p);
    pc_context_free(context);
}

/* --- pairs */
typedef struct pairs {
    atomic_uint seen[ITEMS];
    atomic_uint wrong;
    int grouped;
} pairs;

static float count_pair(void *user, size_t i, size_t j)
{
    pairs *p = user;
    if (i == j || i >= ITEMS || j >= ITEMS || (p->grouped && items.groups[i] != items.groups[j]))
        atomic_fetch_add(&p->wrong, 1);
    atomic_fetch_add(&p->seen[i], 1);
    atomic_fetch_add(&p->seen[j], 1);
    return 1;
}

static void pairing(void)
{
    for (int grouped = 0; grouped < 2; grouped++) {
        static pairs p;
        size_t missing = 0;
        pc__training training = training_of(3);
        memset(&p, 0, sizeof p);
        p.grouped = grouped;
        training.groups = grouped ? items.groups : NULL;
        training.label = count_pair, training.label_user = &p;
        trained_bits(2, training, NULL);
        CHECK_INT(atomic_load(&p.wrong), 0);
        for (size_t i = 0; i < ITEMS; i++)
            missing += atomic_load(&p.seen[i]) < 16;
        CHECK_INT(missing, 0);
    }
    pc__training_order order, again;
    CHECK_OK(pc__training_order_new(&order, &pc__libc_allocator, ITEMS, items.groups, 16));
    CHECK_OK(pc__training_order_new(&again, &pc__libc_allocator, ITEMS, items.groups, 16));
    pc__training_order_make(&order, 1, 0);
    pc__training_order_make(&order, 1, 7);
    pc__training_order_make(&again, 1, 7);
    CHECK(!memcmp(order.order, again.order, ITEMS * sizeof *order.order));
    pc__training_order_make(&again, 1, 8);
    CHECK(memcmp(order.order, again.order, ITEMS * sizeof *order.order));
    pc__training_order_free(&order);
    pc__training_order_free(&again);
}

/* --- refused arguments leave the projector unchanged */
static float bad_label(void *user, size_t i, size_t j)
{
    const float *value = user;
    return i == 77 || j == 77 ? *value : 0.1f;
}

static void refused(pc__training training, const char *cause)
{
    pc_context *context = context_of(1);
    pc__projector *p = fresh();
    uint64_t before = bits_of(p);
    CHECK_STATUS(pc__projector_train(p, context, &training, NULL), PC_ERR_INVALID);
    CHECK_ERROR_HAS(cause);
    CHECK(bits_of(p) == before);
    pc__projector_free(p);
    pc_context_free(context);
}

static void refusals(void)
{
    pc__training training = training_of(1), bad;
    uint32_t alone[ITEMS];
    float values[] = {NAN, INFINITY, -0.1f}, held = items.pooled[5 * CELLS + 3];
    bad = training, bad.count = 1, refused(bad, "1 items");
    bad = training, bad.label = NULL, refused(bad, "without labels");
    bad = training, bad.batch = 1, refused(bad, "batches of 1 items");
    bad = training, bad.count = 2000, bad.batch = 1025, refused(bad, "batches of 1025 items");
    bad = training, bad.rate = -1, refused(bad, "rate -1");
    bad = training, bad.rate = NAN, refused(bad, "rate nan");
    bad = training, bad.momentum = 1, refused(bad, "momentum 1");
    for (uint32_t i = 0; i < ITEMS; i++)
        alone[i] = i;
    bad = training, bad.groups = alone, refused(bad, "no two of the 300 items are of one group");
    for (size_t i = 0; i < 3; i++)
        bad = training, bad.label = bad_label, bad.label_user = &values[i], refused(bad, "77 ");
    items.pooled[5 * CELLS + 3] = INFINITY;
    refused(training, "item 5 has a number that is not finite");
    items.pooled[5 * CELLS + 3] = held;
    bad = training, bad.rate = 1e9, refused(bad, "too high");
    bad = training, bad.rate = 3e38, refused(bad, "too high");
    bad = training, bad.rate = 20, bad.epochs = 3, refused(bad, "the projector is as it was");
}

/* Labels grow too large in the second epoch: the result of the first one stays. */
typedef struct runaway {
    atomic_uint pairs, all;
} runaway;

static float runaway_label(void *user, size_t i, size_t j)
{
    runaway *r = user;
    float label = feature_items_label(&items, i, j);
    return atomic_fetch_add(&r->pairs, 1) >= r->all ? 1e6f * label : label;
}

static void runs_away(void)
{
    pc_context *context = context_of(1);
    pc__projector *p = fresh();
    pc__training training = training_of(3);
    pc__training_result result;
    told t = {.cancel_at = 19};
    runaway r = {0};
    training.progress = tell, training.progress_user = &t;
    CHECK_STATUS(pc__projector_train(p, context, &training, NULL), PC_ERR_CANCELLED);
    uint64_t one_epoch = bits_of(p);
    pc__projector_free(p);
    p = fresh();
    training = training_of(3);
    training.label = runaway_label, training.label_user = &r;
    atomic_store(&r.all,
                 150 + 18 * 120 + 66); /* those for the label scale, then 300 in batches of 16 */
    CHECK_STATUS(pc__projector_train(p, context, &training, &result), PC_ERR_INVALID);
    CHECK_ERROR_HAS("epoch 2 of 3: a loss of ");
    CHECK_ERROR_HAS("as the epoch before left it");
    CHECK_INT(result.epochs, 1);
    CHECK(bits_of(p) == one_epoch);
    pc__projector_free(p);
    pc_context_free(context);
}

static pc_status pass(void *user, size_t epoch, const void *data, size_t size)
{
    (void)user, (void)epoch, (void)data, (void)size;
    return PC_OK;
}

static void without_memory(void)
{
    pc_context *context = context_of(1);
    pc_status status = PC_ERR_NOMEM;
    pc__training grouped = training_of(1);
    grouped.groups = items.groups;
    uint64_t at = 1, untouched = 0, trained = trained_bits(1, grouped, NULL);
    for (; status != PC_OK && at < 100; at++) {
        pc_test_memory memory = {0};
        pc_allocator failing = pc_test_allocator(&memory);
        pc__projector *p;
        pc__training training = grouped;
        training.checkpoint = pass;
        CHECK_OK(pc__projector_new(&p, &failing, &SHAPE, 1));
        uint64_t before = bits_of(p);
        memory.fail_at = memory.calls + at;
        status = pc__projector_train(p, context, &training, NULL);
        CHECK(status == PC_OK || status == PC_ERR_NOMEM);
        CHECK(memory.calls < memory.fail_at ? status == PC_OK : status == PC_ERR_NOMEM);
        uint64_t after = bits_of(p);
        CHECK(status == PC_OK
                  ? after == trained
                  : after == before || after == trained); /* the checkpoint follows the epoch */
        untouched += after == before;
        pc__projector_free(p);
        CHECK_INT(memory.live_blocks, 0);
    }
    CHECK_OK(status);
    CHECK(untouched > 5);
    pc_context_free(context);
}

int main(void)
{
    items = feature_items_new(ITEMS, CELLS, 2);
    learns();
    same_everywhere();
#if defined(__SANITIZE_THREAD__)
    /* The rest trains with the same number of threads, or with one. */
    if (!getenv("PC_TEST_LONG")) {
        feature_items_free(&items);
        return pc_test_end();
    }
#endif
    known_bits();
    goes_on();
    bad_checkpoints();
    progress();
    pairing();
    refusals();
    runs_away();
    without_memory();
    feature_items_free(&items);
    return pc_test_end();
}
