/* Catches: contexts that accept bad options or an unknown PC_CPU_MASK, leak when memory is short,
 * are freed too early or never, or whose log writes past a line. */
#include <stdlib.h>
#include <string.h>

#include "base/context.h"
#include "base/threads.h"
#include "testing.h"

static void bad_options(void)
{
    pc_context *c = (pc_context *)(uintptr_t)8;
    const pc_allocator no_alloc = {sizeof(pc_allocator), NULL, NULL, pc__libc_allocator.free},
                       no_free = {sizeof(pc_allocator), NULL, pc__libc_allocator.alloc, NULL};
    pc_context_options o = PC_CONTEXT_OPTIONS_INIT;
    CHECK_STATUS(pc_context_new(NULL, NULL), PC_ERR_INVALID);
    o.struct_size = 8;
    CHECK_STATUS(pc_context_new(&c, &o), PC_ERR_INVALID);
    CHECK(!c);
    o = (pc_context_options)PC_CONTEXT_OPTIONS_INIT;
    o.threads = 4097;
    CHECK_STATUS(pc_context_new(&c, &o), PC_ERR_INVALID);
    CHECK_ERROR_HAS("4097");
    o.threads = 1;
    o.allocator = &no_alloc;
    CHECK_STATUS(pc_context_new(&c, &o), PC_ERR_INVALID);
    o.allocator = &no_free;
    CHECK_STATUS(pc_context_new(&c, &o), PC_ERR_INVALID);
    CHECK_ERROR_HAS("allocator");
    pc_context_free(NULL);
}

/* A mask that is misspelt must not measure other kernels than it says. */
static void cpu_mask(void)
{
    static const char *const levels[] = {"c",          "avx2", "avx512", "avx512vnni",
                                         "avx512bf16", "amx",  ""};
    const char *before = getenv("PC_CPU_MASK");
    char *kept = before ? strdup(before) : NULL;
    pc_context *c = (pc_context *)(uintptr_t)8;
    setenv("PC_CPU_MASK", "nonsense", 1);
    CHECK_STATUS(pc_context_new(&c, NULL), PC_ERR_INVALID);
    CHECK(!c);
    CHECK_ERROR_HAS(
        "PC_CPU_MASK is 'nonsense', which is none of c, avx2, avx512, avx512vnni, avx512bf16, amx");
    setenv("PC_CPU_MASK", "AVX2", 1);
    CHECK_STATUS(pc_context_new(&c, NULL), PC_ERR_INVALID);
    for (size_t i = 0; i < sizeof levels / sizeof *levels; i++) {
        setenv("PC_CPU_MASK", levels[i], 1);
        CHECK_OK(pc_context_new(&c, NULL));
        pc_context_free(c);
    }
    unsetenv("PC_CPU_MASK");
    CHECK_OK(pc_context_new(&c, NULL));
    pc_context_free(c);
    if (kept)
        setenv("PC_CPU_MASK", kept, 1);
    free(kept);
}

static void nothing(void *user, size_t n, void (*body)(void *, size_t), void *arg)
{
    (void)user;
    for (size_t i = 0; i < n; i++)
        body(arg, i);
}

static void threads(void)
{
    pc_context_options o = PC_CONTEXT_OPTIONS_INIT;
    pc_context *c;
    CHECK_OK(pc_context_new(&c, NULL)); /* as many as there are cores for us */
    CHECK(c->threads >= 1 && c->threads <= 4096 && (c->pool != NULL) == (c->threads > 1));
    pc_context_free(c);
    o.threads = 1;
    CHECK_OK(pc_context_new(&c, &o));
    CHECK(c->threads == 1 && !c->pool);
    pc_context_free(c);
    o.threads = 3;
    CHECK_OK(pc_context_new(&c, &o));
    CHECK(c->threads == 3 && c->pool);
    pc_context_free(c);
    o.parallel_for = nothing;
    CHECK_OK(pc_context_new(&c, &o)); /* the application's threads, no threads of the library */
    CHECK(c->threads == 3 && !c->pool);
    pc_context_free(c);
}

static void counting(void)
{
    pc_test_memory memory = {0};
    pc_allocator mem = pc_test_allocator(&memory);
    pc_context_options o = PC_CONTEXT_OPTIONS_INIT;
    pc_context *c;
    o.threads = 2;
    o.allocator = &mem;
    CHECK_OK(pc_context_new(&c, &o));
    mem.alloc = NULL; /* the allocator has been copied */
    CHECK(pc__context_ref(c) == c && pc__context_ref(c) == c);
    pc_context_free(c);
    CHECK(memory.live_blocks > 0);
    pc__context_unref(c);
    CHECK(memory.live_blocks > 0);
    pc__context_unref(c);
    CHECK_INT(memory.live_blocks, 0);
    CHECK_INT(memory.live_bytes, 0);
}

static void no_memory(void)
{
    for (uint64_t at = 1;; at++) {
        pc_test_memory memory = {.fail_at = at};
        const pc_allocator mem = pc_test_allocator(&memory);
        pc_context_options o = PC_CONTEXT_OPTIONS_INIT;
        pc_context *c = NULL;
        pc_status status;
        o.threads = 3;
        o.allocator = &mem;
        status = pc_context_new(&c, &o);
        if (memory.calls < at) { /* it did not get that far */
            CHECK_OK(status);
            CHECK(at > 3);
            pc_context_free(c);
            CHECK_INT(memory.live_blocks, 0);
            return;
        }
        CHECK_STATUS(status, PC_ERR_NOMEM);
        CHECK(!c && !memory.live_blocks && !memory.live_bytes);
        CHECK_ERROR_HAS("out of memory");
    }
}

typedef struct kept {
    char line[1024];
    uint32_t level;
    int calls;
} kept;

static void keep(void *user, uint32_t level, const char *line)
{
    kept *k = user;
    snprintf(k->line, sizeof k->line, "%s", line);
    k->level = level;
    k->calls++;
}

static void logging(void)
{
    pc_context_options o = PC_CONTEXT_OPTIONS_INIT;
    pc_context *c;
    kept k = {0};
    char longer[1000];
    pc__log(NULL, PC_LOG_ERROR, "nobody listens");
    o.threads = 1;
    CHECK_OK(pc_context_new(&c, &o));
    pc__log(c, PC_LOG_ERROR, "nobody listens");
    pc_context_free(c);
    o.log = keep;
    o.log_user = &k;
    CHECK_OK(pc_context_new(&c, &o));
    pc__log(c, PC_LOG_WARN, "%s %d", "seven is", 7);
    CHECK_STR(k.line, "seven is 7");
    CHECK(k.level == PC_LOG_WARN && k.calls == 1);
    memset(longer, 'x', sizeof longer - 1);
    longer[sizeof longer - 1] = 0;
    pc__log(c, PC_LOG_INFO, "%s", longer);
    CHECK(strlen(k.line) > 100 && strlen(k.line) < 512 && k.calls == 2);
    pc_context_free(c);
}

int main(void)
{
    bad_options();
    cpu_mask();
    threads();
    counting();
    no_memory();
    logging();
    return pc_test_end();
}
