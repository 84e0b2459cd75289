/* Which functions of an application's model run at the same time. Catches: a slow export that
 * delays a step though the model allows them to overlap (PC_OVERLAP_STATES); a tokenizer that waits
 * for a step though it need not (PC_OVERLAP_TEXT); exports one after the other that keep a step
 * waiting for all of them; functions that overlap though the model has not
 * allowed it, or has allowed another kind; unknown flags that are taken (tools/test.sh --all runs
 * it under ThreadSanitizer). */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

#include <promptcache/batch.h>
#include <promptcache/cache.h>

#include "toy_schema.h"

enum { PATIENCE = 5000 }; /* milliseconds until a test gives up */

static const char prompt_text[] =
    "<prompt schema=\"t\"><a x=\"hot\"/><u2/><n><in/></n>what is it?</prompt>";

static pc_model_ops toy;
/* Whether a function is running, and the calls that have seen another one running. */
static atomic_int exporting, stepping, tokenizing, steps, exports, crossed;
static atomic_int waits_for_step, waits_for_text;

static void rest(void)
{
    nanosleep(&(struct timespec){0, 1000000}, NULL);
}

static pc_status slow_export(void *user, void *segment, void *data, size_t capacity, size_t *size)
{
    int before = steps;
    exporting++;
    crossed |= stepping != 0;
    for (int i = 0; waits_for_step && i < PATIENCE && steps < before + 2; i++)
        rest(); /* two steps later one has run as a whole */
    rest();
    pc_status status = toy.export_segment(user, segment, data, capacity, size);
    exports++;
    exporting--;
    return status;
}

static pc_status step(void *user, const pc_step_args *args)
{
    stepping++;
    crossed |= exporting || tokenizing;
    for (int i = 0; waits_for_text && i < PATIENCE; i++)
        rest();
    pc_status status = toy.step(user, args);
    steps++;
    stepping--;
    return status;
}

static pc_status tokenize(void *user, const char *text, size_t size, uint64_t flags,
                          int32_t *tokens, size_t capacity, size_t *count)
{
    tokenizing++;
    pc_status status = toy.tokenize(user, text, size, flags, tokens, capacity, count);
    waits_for_text = 0;
    tokenizing--;
    return status;
}

/* A model with these flags, a folder to write to, and a sequence that goes on. */
typedef struct scene {
    toy_world w;
    pc_cache *cache;
    pc_prompt *prompt;
    pc_batch *batch;
    pc_sequence *sequence;
} scene;

static int begin(scene *s, uint64_t flags, const char *folder)
{
    pc_model_ops ops = toy = pc_toy_ops();
    pc_cache_options co = PC_CACHE_OPTIONS_INIT;
    pc_generate_options o = PC_GENERATE_OPTIONS_INIT;
    memset(s, 0, sizeof *s);
    ops.flags = flags;
    ops.export_segment = slow_export;
    ops.step = step;
    ops.tokenize = tokenize;
    exports = steps = crossed = 0;
    if (!CHECK(toy_start_ops(&s->w, NULL, &ops, 0, 0, toy_schema)))
        return 0;
    co.disk_path = folder;
    CHECK_OK(pc_cache_new(&s->cache, s->w.context, &co));
    s->prompt = toy_prompt(&s->w, prompt_text);
    o.max_tokens = 1000000;
    o.flags = PC_GENERATE_IGNORE_END;
    CHECK_OK(pc_sequence_new(&s->sequence, s->prompt, s->cache, &o));
    CHECK_OK(pc_batch_new(&s->batch, s->w.model, NULL));
    return CHECK_OK(pc_batch_add(s->batch, s->sequence));
}

static void end(scene *s)
{
    waits_for_step = 0;
    pc_sequence_free(s->sequence);
    pc_batch_free(s->batch);
    pc_prompt_free(s->prompt);
    pc_cache_free(s->cache);
    CHECK_INT(pc_toy_count(s->w.toy)->live_segments, 0);
    toy_end(&s->w);
}

/* The first step stores modules, which a thread of the cache exports beside the next ones. */
static void exports_beside_steps(uint64_t flags, int overlaps, const char *folder)
{
    scene s;
    waits_for_step = overlaps; /* an export ends only when a step has run meanwhile */
    if (!begin(&s, flags, folder))
        return;
    for (int i = 0; i < PATIENCE && exports < 4; i++) {
        int before = exports;
        CHECK_OK(pc_batch_step(s.batch));
        CHECK(overlaps || !i || exports <= before + 2); /* the one under way, and its end */
        rest();
    }
    CHECK(exports >= 4);
    CHECK_INT(crossed, overlaps);
    end(&s);
}

static void *step_once(void *batch)
{
    return (void *)(intptr_t)pc_batch_step(batch);
}

static void text_beside_steps(uint64_t flags, int overlaps, const char *folder)
{
    scene s;
    pthread_t thread;
    void *status;
    size_t count = 0;
    if (!begin(&s, flags, folder))
        return;
    CHECK_OK(pc_batch_step(s.batch));
    CHECK_OK(pc_cache_flush(s.cache));
    crossed = 0;
    waits_for_text = overlaps; /* the step ends only when a text has been tokenised meanwhile */
    CHECK(!pthread_create(&thread, NULL, step_once, s.batch));
    for (int i = 0; overlaps && i < PATIENCE && !stepping; i++)
        rest();
    CHECK_OK(pc_tokenize(s.w.model, "the word", 8, 0, NULL, 0, &count));
    CHECK_INT(waits_for_text, 0);
    CHECK(!pthread_join(thread, &status));
    CHECK_OK((pc_status)(intptr_t)status);
    CHECK(overlaps || !crossed);
    CHECK_INT(count, 4);
    end(&s);
}

static void unknown_flags(void)
{
    toy_world w;
    pc_model_ops ops = pc_toy_ops();
    pc_model *model = NULL;
    if (!CHECK(toy_start(&w, NULL, 0, 0, NULL)))
        return;
    ops.flags = 8;
    CHECK_STATUS(pc_model_from_ops(&model, w.context, &ops, w.toy, NULL, NULL), PC_ERR_INVALID);
    CHECK_ERROR_HAS("pc_model_ops: unknown flags 0x8");
    toy_end(&w);
}

int main(void)
{
    static const struct {
        uint64_t flags;
        int states, text;
    } cases[] = {{0, 0, 0},
                 {PC_OVERLAP_STATES, 1, 0},
                 {PC_OVERLAP_TEXT, 0, 1},
                 {PC_OVERLAP_STATES | PC_OVERLAP_TEXT, 1, 1}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char folder[512];
        snprintf(folder, sizeof folder, "%s/%zu", pc_test_folder(), i);
        exports_beside_steps(cases[i].flags, cases[i].states, folder);
        snprintf(folder, sizeof folder, "%s/%zu.text", pc_test_folder(), i);
        text_beside_steps(cases[i].flags, cases[i].text, folder);
    }
    unknown_flags();
    return pc_test_end();
}
