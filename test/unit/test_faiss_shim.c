/* Catches: an exception that leaves the C++ file or ends the process, for each allocation in FAISS;
 * vectors of a failed add that are found, or an unusable index after it; leaks; threads that FAISS
 * starts. */
#include "memo/index/faiss_shim.h"

#include <dirent.h>
#include <stdlib.h>

#include "memo/index/index.h"
#include "testing.h"

#ifdef PC_HAVE_FAISS
enum { DIM = 32, FIRST = 400, SECOND = 30 };

/* Replaces operator new and delete of the whole program, by their names in the C++ ABI. */
void *_Znwm(size_t size);
void _ZdlPv(void *block);
void _ZdlPvm(void *block, size_t size);
void _ZSt17__throw_bad_allocv(void) __attribute__((noreturn));

static uint64_t calls, fail_at; /* 0: never */
static int64_t live;

void *_Znwm(size_t size)
{
    void *block = ++calls == fail_at ? NULL : malloc(size ? size : 1);
    if (!block)
        _ZSt17__throw_bad_allocv();
    live++;
    return block;
}

void _ZdlPv(void *block)
{
    live -= block != NULL;
    free(block);
}

void _ZdlPvm(void *block, size_t size)
{
    (void)size;
    _ZdlPv(block);
}

static pc_status add(pc__index *index, const float *x, size_t from, size_t count)
{
    int64_t ids[FIRST];
    for (size_t i = 0; i < count; i++)
        ids[i] = (int64_t)(from + i);
    return pc__index_add(index, count, x + from * DIM, ids);
}

static void finds(const pc__index *index, const float *x, size_t count)
{
    float distance;
    int64_t id;
    size_t wrong = 0;
    CHECK_INT(pc__index_count(index), count);
    for (size_t i = 0; i < count; i += 13) {
        pc_status status = pc__index_search(index, 1, x + i * DIM, 1, &distance, &id);
        if (status < 0) { /* this one may be the failing one */
            CHECK_INT(status, PC_ERR_NOMEM);
            CHECK_OK(pc__index_search(index, 1, x + i * DIM, 1, &distance, &id));
        }
        wrong += id != (int64_t)i || distance != 0.0f;
    }
    CHECK_INT(wrong, 0);
}

/* Does everything once; the allocation at `at` fails. */
static uint64_t run(pc__index_kind kind, const float *x, uint64_t at)
{
    pc__index_options options = {
        .kind = kind, .dim = DIM, .hnsw_links = 16, .hnsw_build = 60, .hnsw_search = 64, .seed = 2};
    pc__index *index;
    int64_t before = live; /* allocated by initialisers, before main */
    calls = 0;
    fail_at = at;
    pc_status status = pc__index_new(&index, &pc__libc_allocator, &options);
    if (status < 0) {
        CHECK(status == PC_ERR_NOMEM && !index);
        CHECK_OK(pc__index_new(&index, &pc__libc_allocator, &options));
    }
    if ((status = add(index, x, 0, FIRST)) < 0) {
        CHECK_INT(status, PC_ERR_NOMEM);
        CHECK_INT(pc__index_count(index), 0);
        CHECK_OK(add(index, x, 0, FIRST));
    }
    finds(index, x, FIRST);
    if ((status = add(index, x, FIRST, SECOND)) < 0) {
        CHECK_INT(status, PC_ERR_NOMEM);
        finds(index, x, FIRST);
        CHECK_OK(add(index, x, FIRST, SECOND));
    }
    finds(index, x, FIRST + SECOND);
    pc__index_free(index);
    CHECK_INT(live, before);
    return calls;
}

static size_t threads(void)
{
    size_t count = 0;
    DIR *folder = opendir("/proc/self/task");
    while (folder && readdir(folder))
        count++;
    if (folder)
        closedir(folder);
    return count;
}

int main(void)
{
    if (getenv("PC_TEST_NO_MODULES"))
        pc_test_skip("without plug-in modules there is no FAISS");
    float *x = malloc((FIRST + SECOND) * DIM * sizeof *x);
    pc_test_rng rng = {8};
    size_t before = threads();
    for (size_t i = 0; i < (FIRST + SECOND) * DIM; i++)
        x[i] = pc_test_normal(&rng);
    for (pc__index_kind kind = PC__INDEX_FAISS_FLAT; kind <= PC__INDEX_FAISS_IVF; kind++) {
        uint64_t all = run(kind, x, 0), step = all / 40 + 1;
        for (uint64_t at = 1; at <= all; at += at < 25 ? 1 : step)
            run(kind, x, at);
        printf("kind %d: %llu allocations\n", (int)kind, (unsigned long long)all);
    }
    CHECK_INT(threads(), before);
    free(x);
    return pc_test_end();
}
#else
int main(void)
{
    pc_test_skip("built without FAISS");
    return 0;
}
#endif
