/* Catches: memory, cells or ids that a request does not give back; a context that fills up with
 * what nobody uses; answers that change after thousands of requests. 1,000 requests of a few kinds
 * over a small context, so that segments are evicted all the time; 10,000 with PC_TEST_LONG=1. */
#include <malloc.h>
#include <unistd.h>

#include "world.h"
#include "write_model.h"

enum { TEXTS = 40, KINDS = 8 };

static long resident_kib(void)
{
    long pages = 0, ignored;
    FILE *file = fopen("/proc/self/statm", "r");
    malloc_trim(0);
    if (!file || fscanf(file, "%ld %ld", &ignored, &pages) != 2)
        pages = 0;
    if (file)
        fclose(file);
    return pages * (sysconf(_SC_PAGESIZE) / 1024);
}

/* A schema of two of 40 texts, in either order: shared, moved, evicted. */
static void make(char *schema, char *prompt, int number)
{
    int a = number * 7 % TEXTS, b = number * 13 % TEXTS;
    sprintf(schema,
            "<schema name=\"s\"><module name=\"a\">w%d w%d and w%d </module><module name=\"b\">"
            "w%d w%d and w%d </module></schema>",
            a, a, a + 1, b, b, b + 1);
    sprintf(prompt, "<prompt schema=\"s\">%s%sw%d?</prompt>", number % 3 ? "<a/>" : "",
            number % 4 ? "<b/>" : "", number % 5);
}

static int32_t stop_after(void *user)
{
    return --*(int *)user < 0;
}

static pc_status one(const world *w, pc_cache *cache, int number, int32_t *tokens, size_t *count)
{
    char schema_text[300], text[200];
    pc_generate_options o = PC_GENERATE_OPTIONS_INIT;
    pc_schema *schema = NULL;
    pc_prompt *prompt = NULL;
    pc_sequence *s = NULL, *fork = NULL;
    pc_batch *batch = NULL;
    int left = number % 50;
    pc_status status;
    make(schema_text, text, number);
    o.max_tokens = 3;
    o.encoding = number % 2 ? PC_ENCODE_EXACT : PC_ENCODE_INDEPENDENT;
    o.flags = PC_GENERATE_KEEP | PC_GENERATE_IGNORE_END;
    if (number % 10 == 9) {
        o.cancelled = stop_after;
        o.cancel_user = &left;
    }
    CHECK_OK(pc_schema_parse(&schema, w->model, schema_text, strlen(schema_text), NULL));
    CHECK_OK(pc_prompt_parse(&prompt, &schema, 1, text, strlen(text), NULL));
    CHECK_OK(pc_sequence_new(&s, prompt, cache, &o));
    CHECK_OK(pc_batch_new(&batch, w->model, NULL));
    CHECK_OK(pc_batch_add(batch, s));
    while (pc_batch_step(batch) == PC_OK)
        continue;
    status = pc_sequence_error(s, NULL);
    if (status < 0 && status != PC_ERR_CANCELLED)
        printf("request %d: %s\n", number, pc_error_text());
    if (status == PC_OK && number % 7 == 0) {
        CHECK_OK(pc_sequence_fork(&fork, s, NULL));
        CHECK_OK(pc_sequence_truncate(fork, 1));
        CHECK_OK(pc_batch_add(batch, fork));
        while (pc_batch_step(batch) == PC_OK)
            continue;
        CHECK_OK(pc_sequence_error(fork, NULL));
    }
    *count = 0;
    for (const int32_t *own = pc_sequence_tokens(s, count); *count && tokens && own; own = NULL)
        memcpy(tokens, own, *count * sizeof *own);
    pc_sequence_free(fork);
    pc_sequence_free(s);
    pc_batch_free(batch);
    pc_prompt_free(prompt);
    pc_schema_free(schema);
    return status;
}

int main(void)
{
    const char *path = write_model("long", "llama", 2, 0, NULL);
    struct llama_context_params p = world_params();
    int requests = getenv("PC_TEST_LONG") ? 10000 : 1000;
    int32_t first[KINDS][8], tokens[8];
    size_t counts[KINDS], count;
    pc_cache_options o = PC_CACHE_OPTIONS_INIT;
    pc_cache *cache = NULL;
    long before = 0, after;
    size_t cancelled = 0;
    world w = {.context = NULL};
    p.n_ctx = 1024;
    p.n_seq_max = 24;
    o.ram_bytes = 64u << 20;
    o.disk_path = world_folder();
    o.disk_bytes = 32u << 20;
    o.deadline_seconds = 60;
    if (!world_llama(&w, path, &p) || !CHECK_OK(pc_cache_new(&cache, w.context, &o)))
        return pc_test_end();
    for (int i = 0; i < KINDS; i++)
        CHECK_OK(one(&w, cache, i, first[i], &counts[i]));
    for (int i = 0; i < requests; i++) {
        pc_status status = one(&w, cache, i, NULL, &count);
        cancelled += status == PC_ERR_CANCELLED;
        CHECK(status == PC_OK || (status == PC_ERR_CANCELLED && i % 10 == 9));
        if (i == requests / 4)
            before = resident_kib();
    }
    after = resident_kib();
    for (int i = 0; i < KINDS; i++) {
        CHECK_OK(one(&w, cache, i, tokens, &count));
        CHECK(count == counts[i] && !memcmp(tokens, first[i], count * sizeof *tokens));
    }
    if (getenv("PC_TEST_VERBOSE"))
        printf("%d requests, %zu cancelled; %ld KiB after a quarter, %ld KiB at the end; shared "
               "%llu, copied %llu, renamed %llu cells, %llu undone\n",
               requests, cancelled, before, after, (unsigned long long)w.stats.cells_shared,
               (unsigned long long)w.stats.cells_copied, (unsigned long long)w.stats.cells_renamed,
               (unsigned long long)w.stats.undone);
    CHECK(cancelled > 0);
#ifndef __SANITIZE_ADDRESS__      /* it keeps freed memory, and counts leaks itself */
    CHECK(after - before < 2048); /* the cache's own tables; a cell a request would be 5 MiB */
#endif
    pc_cache_free(cache);
    world_close(&w);
    return pc_test_end();
}
