/* Catches, for every kind of index: a neighbour that is not the nearest (exact kinds) or too rarely
 * is (the others), a wrong order or distance, an id that is found after its removal, or lost when
 * others are removed or the index is rebuilt, an id that is added twice, numbers that are not
 * finite, a failed add that leaves something, a search that sees a half-done change. */
#include "memo/index/index.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "testing.h"

enum { DIM = PC__FEATURE_DIM, VECTORS = 1600, QUERIES = 30, K = 10 };

typedef struct pairing {
    double distance;
    int64_t id;
} pairing;

static pc__index_options options_of(pc__index_kind kind)
{
    return (pc__index_options){.kind = kind, .dim = DIM, .seed = 1};
}

static float *make(pc_test_rng *rng, size_t count)
{
    float *x = malloc(count * DIM * sizeof *x);
    for (size_t i = 0; i < count * DIM; i++)
        x[i] = pc_test_normal(rng);
    return x;
}

/* Queries near vectors of the index, as in a memo. */
static float *near_ones(pc_test_rng *rng, const float *x, size_t vectors, size_t count)
{
    float *q = make(rng, count);
    for (size_t i = 0; i < count; i++) {
        const float *of = x + pc_test_bits(rng) % vectors * DIM;
        for (size_t d = 0; d < DIM; d++)
            q[i * DIM + d] = of[d] + 0.3f * q[i * DIM + d];
    }
    return q;
}

static int nearer(const void *a, const void *b)
{
    const pairing *x = a, *y = b;
    if (x->distance != y->distance)
        return x->distance < y->distance ? -1 : 1;
    return (x->id > y->id) - (x->id < y->id);
}

/* Vectors by their distance to q. living[i] = 0: i was removed. Ids are 3 i. */
static void by_hand(const float *x, const char *living, size_t count, const float *q, pairing *out,
                    size_t *found)
{
    *found = 0;
    for (size_t i = 0; i < count; i++) {
        double sum = 0.0;
        for (size_t d = 0; d < DIM; d++)
            sum += ((double)x[i * DIM + d] - q[d]) * ((double)x[i * DIM + d] - q[d]);
        if (living[i])
            out[(*found)++] = (pairing){sqrt(sum), 3 * (int64_t)i};
    }
    qsort(out, *found, sizeof *out, nearer);
}

/* Returns the share of the k nearest that was found; checks all distances. */
static double recall(pc__index *index, const float *x, const char *living, size_t count,
                     const float *q, size_t k)
{
    float *distances = malloc(QUERIES * k * sizeof *distances);
    int64_t *ids = malloc(QUERIES * k * sizeof *ids);
    pairing *want = malloc(count * sizeof *want);
    size_t hits = 0, all = 0, wrong = 0, there;
    CHECK_OK(pc__index_search(index, QUERIES, q, k, distances, ids));
    for (size_t i = 0; i < QUERIES; i++) {
        by_hand(x, living, count, q + i * DIM, want, &there);
        for (size_t j = 0; j < k; j++) {
            int64_t id = ids[i * k + j];
            double got = distances[i * k + j], d = 0.0;
            if (id < 0) {
                wrong += id != PC__NO_NEIGHBOUR || !isinf(got)
                         || j < there; /* removed ones are not found; far ones are, if need be */
                continue;
            }
            wrong += id % 3 || (size_t)id / 3 >= count || !living[id / 3];
            wrong += j && (got < distances[i * k + j - 1] || id == ids[i * k + j - 1]);
            for (size_t c = 0; c < DIM; c++)
                d += pow((double)x[id / 3 * DIM + (int64_t)c] - q[i * DIM + c], 2.0);
            wrong += fabs(sqrt(d) - got) > 1e-5 * got;
            hits += j < there && got <= want[there < k ? there - 1 : k - 1].distance * (1.0 + 1e-6);
        }
        all += there < k ? there : k;
    }
    CHECK_INT(wrong, 0);
    free(distances);
    free(ids);
    free(want);
    return all ? (double)hits / (double)all : 1.0;
}

static double least_recall(pc__index_kind kind)
{
    return kind == PC__INDEX_SCAN || kind == PC__INDEX_FAISS_FLAT ? 1.0 : 0.98;
}

static pc__index *filled(pc__index_kind kind, const float *x, size_t count)
{
    pc__index_options options = options_of(kind);
    pc__index *index;
    int64_t *ids = malloc(count * sizeof *ids);
    for (size_t i = 0; i < count; i++)
        ids[i] = 3 * (int64_t)i;
    CHECK_OK(pc__index_new(&index, &pc__libc_allocator, &options));
    size_t first = count / 2;
    CHECK_OK(pc__index_add(index, first, x, ids)); /* all at once, then in small parts */
    for (size_t i = first; i < count; i += 7)
        CHECK_OK(pc__index_add(index, count - i < 7 ? count - i : 7, x + i * DIM, ids + i));
    CHECK_INT(pc__index_count(index), count);
    free(ids);
    return index;
}

static void neighbours(pc__index_kind kind)
{
    pc_test_rng rng = {7};
    float *x = make(&rng, VECTORS), *q = near_ones(&rng, x, VECTORS, QUERIES);
    char *living = malloc(VECTORS);
    memset(living, 1, VECTORS);
    pc__index *index = filled(kind, x, VECTORS);
    double least = least_recall(kind), got;
    CHECK(recall(index, x, living, VECTORS, q, 1) >= least);
    CHECK((got = recall(index, x, living, VECTORS, q, K))
          >= (least < 1.0 ? 0.5 : 1.0)); /* the ten nearest; the rest are at any distance */
    printf("kind %d: %.3f of the ten nearest\n", (int)kind, got);
    /* removes most in another order, so that kinds that keep removed vectors are rebuilt */
    for (size_t step = 0; step < VECTORS; step++) {
        size_t i = step * 1999 % VECTORS;
        if (i % 8 == 0)
            continue;
        CHECK_OK(pc__index_remove(index, 3 * (int64_t)i));
        living[i] = 0;
        if (step % 300 == 299) {
            CHECK_STATUS(pc__index_remove(index, 3 * (int64_t)i), PC_MISS);
            got = recall(index, x, living, VECTORS, q, K);
            CHECK(got >= (least < 1.0 ? 0.5 : 1.0));
        }
    }
    CHECK_INT(pc__index_count(index), (VECTORS + 7) / 8);
    CHECK(recall(index, x, living, VECTORS, q, 3) >= (least < 1.0 ? 0.8 : 1.0));
    CHECK(recall(index, x, living, VECTORS, q, 400)
          >= (least < 1.0 ? 0.9 : 1.0)); /* more than the index has */
    /* adds the removed ones under their old ids */
    int64_t back = 3;
    CHECK_OK(pc__index_add(index, 1, x + DIM, &back));
    living[1] = 1;
    CHECK(recall(index, x, living, VECTORS, x + DIM, 1) >= 0.0);
    pc__index_free(index);
    free(x);
    free(q);
    free(living);
}

static void ties(pc__index_kind kind)
{
    float x[6 * DIM] = {0}, q[DIM] = {0}, distances[4];
    int64_t ids[6] = {40, 10, 30, 20, 50, 5}, got[4];
    for (size_t i = 0; i < 6; i++)
        x[i * DIM + i] = i < 5 ? 1.0f : 2.0f; /* five at the same distance, one farther */
    pc__index_options options = options_of(kind);
    pc__index *index;
    CHECK_OK(pc__index_new(&index, &pc__libc_allocator, &options));
    CHECK_OK(pc__index_search(index, 1, q, 2, distances, got));
    CHECK(got[0] == PC__NO_NEIGHBOUR && isinf(distances[1]));
    CHECK_OK(pc__index_add(index, 6, x, ids));
    CHECK_OK(pc__index_search(index, 1, q, 4, distances, got));
    for (size_t i = 0; i < 4; i++)
        CHECK(got[i] == 10 + 10 * (int64_t)i && distances[i] == 1.0f);
    pc__index_free(index);
}

static void refusals(pc__index_kind kind)
{
    pc__index_options options = options_of(kind);
    pc__index *index;
    float x[3 * DIM] = {0}, distance;
    int64_t twice[3] = {9, 4, 9}, negative = -2, one = 4, found;
    CHECK_OK(pc__index_new(&index, &pc__libc_allocator, &options));
    CHECK_STATUS(pc__index_add(index, 3, x, twice), PC_ERR_INVALID);
    CHECK_ERROR_HAS("9 comes twice");
    CHECK_STATUS(pc__index_add(index, 1, x, &negative), PC_ERR_INVALID);
    CHECK_STATUS(pc__index_remove(index, 4), PC_MISS);
    CHECK_OK(pc__index_add(index, 1, x, &one));
    CHECK_STATUS(pc__index_add(index, 1, x, &one), PC_ERR_INVALID);
    CHECK_ERROR_HAS("there already");
    static const float bad[] = {NAN, INFINITY, -INFINITY, 2e16f};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        x[DIM + 77] = bad[i];
        CHECK_STATUS(pc__index_add(index, 2, x, (int64_t[]){1, 2}), PC_ERR_INVALID);
        CHECK_ERROR_HAS("number 77");
        CHECK_STATUS(pc__index_search(index, 1, x + DIM, 1, &distance, &found), PC_ERR_INVALID);
    }
    CHECK_INT(pc__index_count(index), 1);
    pc__index_free(index);
    pc__index_free(NULL);
    options.dim = 0;
    CHECK_STATUS(pc__index_new(&index, &pc__libc_allocator, &options), PC_ERR_INVALID);
    CHECK(!index);
    options.dim = DIM;
    options.hnsw_links = 1;
    CHECK_STATUS(pc__index_new(&index, &pc__libc_allocator, &options), PC_ERR_INVALID);
    options.hnsw_links = 0;
    options.ivf_probes = -1;
    CHECK_STATUS(pc__index_new(&index, &pc__libc_allocator, &options), PC_ERR_INVALID);
}

/* Each allocation fails once: a failed add changes nothing, and the index stays usable. */
static void no_memory(pc__index_kind kind)
{
    enum { FEW = 100 };
    pc_test_rng rng = {9};
    float *x = make(&rng, FEW), distance;
    int64_t ids[FEW], found;
    uint64_t at = 0;
    int failed = 1;
    for (size_t i = 0; i < FEW; i++)
        ids[i] = (int64_t)(FEW - i);
    while (failed) {
        pc_test_memory memory = {.fail_at = ++at};
        pc_allocator mem = pc_test_allocator(&memory);
        pc__index_options options = options_of(kind);
        pc__index *index;
        pc_status status = pc__index_new(&index, &mem, &options);
        failed = status < 0;
        for (size_t part = 0; part < 2 && status >= 0; part++) {
            while ((status = pc__index_add(index, FEW / 2, x + part * FEW / 2 * DIM,
                                           ids + part * FEW / 2))
                   < 0) {
                CHECK_INT(status, PC_ERR_NOMEM);
                CHECK_INT(pc__index_count(index), part * FEW / 2);
                failed = 1;
            }
            size_t last = (part + 1) * FEW / 2 - 1;
            while ((status = pc__index_search(index, 1, x + last * DIM, 1, &distance, &found)) < 0)
                failed = 1;
            CHECK(found == ids[last] && distance == 0.0f);
        }
        pc__index_free(index);
        CHECK_INT(memory.live_blocks, 0);
    }
    CHECK(at > 3);
    free(x);
}

typedef struct crowd {
    pc__index *index;
    const float *x;
    atomic_int stop;
    atomic_size_t searches, wrong;
} crowd;

/* Vectors below VECTORS / 4 stay: each finds itself at any time. */
static void *search_on(void *user)
{
    crowd *c = user;
    float distances[2];
    int64_t ids[2];
    for (size_t i = 0; !c->stop || i < 50; i++) {
        size_t of = i * 31 % (VECTORS / 4);
        pc_status status = pc__index_search(c->index, 1, c->x + of * DIM, 2, distances, ids);
        c->wrong += status < 0 || ids[0] != 3 * (int64_t)of || distances[0] != 0.0f || ids[1] < 0;
        c->searches++;
    }
    return NULL;
}

static void at_the_same_time(pc__index_kind kind)
{
    pc_test_rng rng = {21};
    float *x = make(&rng, VECTORS);
    crowd c = {.index = filled(kind, x, VECTORS / 4), .x = x};
    pthread_t threads[3];
    for (size_t i = 0; i < 3; i++)
        CHECK(!pthread_create(threads + i, NULL, search_on, &c));
    for (size_t i = VECTORS / 4; i < VECTORS; i++) {
        int64_t id = 3 * (int64_t)i, old = id - 300;
        CHECK_OK(pc__index_add(c.index, 1, x + i * DIM, &id));
        if (old >= VECTORS / 4 * 3)
            CHECK_OK(pc__index_remove(c.index, old));
    }
    c.stop = 1;
    for (size_t i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
    CHECK_INT(pc__index_count(c.index), VECTORS / 4 + 100);
    CHECK(c.searches >= 150);
    CHECK(c.wrong
          <= (kind == PC__INDEX_FAISS_HNSW || kind == PC__INDEX_FAISS_IVF ? c.searches / 50 : 0));
    pc__index_free(c.index);
    free(x);
}

int main(void)
{
    for (pc__index_kind kind = PC__INDEX_SCAN; kind <= PC__INDEX_FAISS_IVF; kind++) {
        pc__index_options options = options_of(kind);
        pc__index *index;
        if (kind != PC__INDEX_SCAN && !pc__index_has_faiss()) {
            CHECK_STATUS(pc__index_new(&index, &pc__libc_allocator, &options), PC_ERR_UNSUPPORTED);
#ifdef PC_HAVE_FAISS
            CHECK(getenv("PC_TEST_NO_MODULES") != NULL);
            CHECK_ERROR_HAS("libpromptcache_faiss.so was not found in ");
#else
            CHECK_ERROR_HAS("PC_WITH_FAISS");
#endif
            CHECK(!index);
            continue;
        }
        neighbours(kind);
        ties(kind);
        refusals(kind);
        no_memory(kind);
        at_the_same_time(kind);
    }
    return pc_test_end();
}
