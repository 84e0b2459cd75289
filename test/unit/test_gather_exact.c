/* New text behind modules, kept in blocks for later prompts. Catches: text that misses a module or
 * sees one behind it; a block that is served though something before it differs (a module, its
 * place, an argument, the encoding, a scaffold set, the tenant); a conversation over modules that
 * is computed anew; tokens under the wrong source; leaks. A long test: PC_TEST_LONG=1. */
#include <promptcache/prompt.h>
#include <math.h>
#include <stdlib.h>

#include "at_rest.h"
#include "request_logits.h"
#include "toy_schema.h"

enum { PARTS = 6, WORDS = 12, MOST_TEXT = 6000 };

static const char *const words[WORDS] = {"the ", "word ", "is ",  "here ", "it ",   "was ",
                                         "one ", "of ",   "hot ", "and ",  "that ", "by "};
static const char *const imports[PARTS] = {"<a x=\"some\"/>", "<a x=\"one of the\"/>", "<b/>",
                                           "<u2/>",           "<n><in/></n>",          "<c/>"};

static pc_test_rng rng = {29};

static size_t below(size_t n)
{
    return (size_t)(pc_test_bits(&rng) % n);
}

static void say(char *text, size_t count)
{
    char *end = text + strlen(text);
    while (count--)
        end = stpcpy(end, words[below(WORDS)]);
}

/* Modules in the schema's order, sometimes with text between them. */
static void begin_talk(char *text)
{
    size_t chosen = 1 + below(63);
    strcpy(text, "<prompt>");
    for (size_t i = 0; i < PARTS; i++) {
        if (!(chosen >> i & 1) || (i == 1 && chosen & 1))
            continue;
        strcat(text, imports[i]);
        if (!below(8))
            say(text, 1 + below(4));
    }
}

static pc__generation generation_of(uint32_t encoding, uint32_t repair)
{
    pc__generation g = {.options = PC_GENERATE_OPTIONS_INIT, .bench = PC_BENCH_OPTIONS_INIT};
    g.options.encoding = encoding;
    g.options.repair = repair;
    return g;
}

static double distance(const float *a, const float *b)
{
    double most = 0;
    for (size_t i = 0; i < TOY_VOCAB; i++)
        most = fmax(most, fabs((double)a[i] - (double)b[i]));
    return most;
}

/* One conversation: each turn goes on behind the last one. */
static void talk(const toy_world *w, size_t turns)
{
    static char text[MOST_TEXT + 1000];
    pc__generation g = generation_of((uint32_t)below(3), (uint32_t)below(2));
    uint64_t before = 0;
    begin_talk(text);
    for (size_t turn = 0; turn < turns && strlen(text) < MOST_TEXT; turn++) {
        float got[TOY_VOCAB], again[TOY_VOCAB], want[TOY_VOCAB];
        size_t at;
        say(text, 1 + below(150));
        at = strlen(text);
        strcat(text, "</prompt>");
        pc_prompt *prompt = toy_prompt(w, text);
        request_by_rows(prompt, NULL, &g, want);
        pc_stats cold = request_run(prompt, w->cache, &g, got),
                 warm = request_run(prompt, w->cache, &g, again);
        if (!CHECK(distance(got, want) < 1e-4)
            || !CHECK(distance(again, got) <= (strstr(text, "<c/>") ? 1e-5 : 0)))
            fprintf(stderr, "    %s\n", text);
        CHECK_INT(warm.exactness, cold.exactness);
        CHECK_INT(warm.tokens_encoded, warm.tokens_uncached);
        CHECK(warm.tokens_new <= 64 + 4 * PARTS + 24); /* of a text without blocks all */
        if (turn) /* what was said before, but for the rest of a block */
            CHECK(cold.tokens_new <= cold.tokens_prompt - before + 64 + 4 * PARTS + 24);
        before = cold.tokens_prompt;
        pc_prompt_free(prompt);
        text[at] = 0;
    }
}

static void random_talks(size_t count)
{
    toy_world w;
    if (!CHECK(toy_start(&w, NULL, 0, 0, toy_schema)))
        return;
    for (size_t i = 0; i < count; i++)
        talk(&w, 1 + below(3));
    toy_end(&w);
}

/* Models whose segments cannot move have other keys at other places. */
static void learned_positions(size_t count)
{
    toy_world w;
    if (!CHECK(toy_start(&w, NULL, 1, 0, toy_schema)))
        return;
    for (size_t i = 0; i < count; i++)
        talk(&w, 2);
    toy_end(&w);
}

static pc_stats ask(const toy_world *w, const char *head, const char *text, uint32_t encoding,
                    uint32_t repair)
{
    static char whole[MOST_TEXT];
    float logits[TOY_VOCAB];
    pc__generation g = generation_of(encoding, repair);
    snprintf(whole, sizeof whole, "<prompt>%s%s</prompt>", head, text);
    pc_prompt *prompt = toy_prompt(w, whole);
    pc_stats stats = request_run(prompt, w->cache, &g, logits);
    pc_prompt_free(prompt);
    return stats;
}

/* The same text behind something else is another text. */
static void other_beginnings(void)
{
    static const char *const heads[] = {"<a x=\"some\"/>",
                                        "<a x=\"one\"/>",
                                        "<a/><b/>",
                                        "<b/>",
                                        "<u1/>",
                                        "<u2/>",
                                        "<a x=\"some\"/>by ",
                                        "<n/>",
                                        "<n><in/></n>",
                                        "<b/><n><in/></n><c/>",
                                        ""};
    char text[MOST_TEXT] = "";
    toy_world w;
    if (!CHECK(toy_start(&w, NULL, 0, 0, toy_schema)))
        return;
    say(text, 200);
    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++)
        for (uint32_t encoding = 0; encoding < PC_ENCODE_EXACT; encoding++) {
            pc_stats first = ask(&w, heads[i], text, encoding, PC_REPAIR_NONE);
            CHECK(first.tokens_new >= 200);
            pc_stats second = ask(&w, heads[i], text, encoding, PC_REPAIR_NONE);
            CHECK(second.tokens_new <= 64 && second.tokens_new < first.tokens_new);
            CHECK_INT(second.tokens_cached - first.tokens_cached,
                      first.tokens_new - second.tokens_new + first.tokens_encoded
                          - second.tokens_encoded);
        }
    /* a scaffold set gives other states of the same modules */
    CHECK(ask(&w, "<a/><b/>", text, 0, PC_REPAIR_SCAFFOLD).tokens_new >= 200);
    CHECK(ask(&w, "<a/><b/>", text, 0, PC_REPAIR_SCAFFOLD).tokens_new <= 64);
    toy_end(&w);
}

/* A module and text of more than two blocks. */
static pc_prompt *long_prompt(const toy_world *w)
{
    char text[MOST_TEXT] = "<prompt><b/>";
    say(text, 150);
    strcat(text, "</prompt>");
    return toy_prompt(w, text);
}

/* From position `first` on the states are another tenant's. */
static pc_stats run_for(const toy_world *w, const pc_prompt *prompt, int64_t first,
                        const char *tenant)
{
    float logits[TOY_VOCAB];
    const pc_salt salt = {first, tenant, strlen(tenant)};
    pc__generation g = generation_of(0, 0);
    g.options.salts = &salt;
    g.options.salt_stride = sizeof(pc_salt);
    g.options.salt_count = 1;
    return request_run(prompt, w->cache, &g, logits);
}

/* A block belongs to the tenant of all of its tokens, or to none. */
static void tenants(void)
{
    static const char *const names[] = {"one", "two", "one"};
    toy_world w;
    if (!CHECK(toy_start(&w, NULL, 0, 0, toy_schema)))
        return;
    pc_prompt *prompt = long_prompt(&w);
    int64_t start = 0;
    for (size_t p = 0; p < prompt->part_count; p++)
        if (prompt->parts[p].is_block && !start)
            start = prompt->parts[p].start;
    for (int i = 0; i < 3; i++) {
        pc_stats stats = run_for(&w, prompt, start, names[i]);
        CHECK(i == 2 ? stats.tokens_new <= 64 : stats.tokens_new >= 150);
    }
    for (int i = 0; i < 2; i++) { /* a tenant begins within the first block */
        pc_stats stats = run_for(&w, prompt, start + 10, "three");
        CHECK(i ? stats.tokens_new >= 64 && stats.tokens_new < 150 : stats.tokens_new >= 150);
    }
    pc_prompt_free(prompt);
    toy_end(&w);
}

/* Callers see the parts as they wrote them. */
static void listing(void)
{
    pc_part part = PC_PART_INIT;
    toy_world w;
    if (!CHECK(toy_start(&w, NULL, 0, 0, toy_schema)))
        return;
    pc_prompt *prompt = long_prompt(&w);
    size_t count = pc_prompt_part_count(prompt);
    CHECK(prompt->part_count >= count + 2);
    CHECK_OK(pc_prompt_get_part(prompt, count - 1, &part));
    CHECK(part.kind == PC_PART_TEXT && part.count >= 150);
    CHECK_STATUS(pc_prompt_get_part(prompt, count, &part), PC_ERR_NOT_FOUND);
    pc_prompt_free(prompt);
    toy_end(&w);
}

static void no_memory(void)
{
    char text[MOST_TEXT] = "<prompt><a x=\"some\"/><c/>";
    int completed = 0;
    say(text, 150);
    strcat(text, "</prompt>");
    for (uint64_t at = 1; !completed && at < 4000; at++) {
        pc_test_memory memory = {0};
        pc_allocator mem = pc_test_allocator(&memory);
        toy_world w;
        if (!CHECK(toy_start(&w, &mem, 0, 0, toy_schema)))
            return;
        pc_prompt *prompt = NULL;
        uint64_t from = memory.calls;
        memory.fail_at = from + at;
        pc_status status = pc_prompt_parse(&prompt, &w.schema, 1, text, strlen(text), NULL);
        for (int i = 0; i < 2 && status >= 0; i++) {
            pc_generate_options o = PC_GENERATE_OPTIONS_INIT;
            o.max_tokens = 2;
            status = toy_generate(prompt, w.cache, o).status;
        }
        completed = memory.calls < memory.fail_at;
        CHECK(completed ? status == PC_OK : status == PC_ERR_NOMEM || status == PC_OK);
        pc_prompt_free(prompt);
        CHECK_INT(pc_toy_count(w.toy)->live_sequences, 0);
        toy_end(&w);
        CHECK_INT(memory.live_blocks, 0);
    }
    CHECK(completed);
}

int main(void)
{
    random_talks(getenv("PC_TEST_LONG") ? 2000 : 150);
    learned_positions(20);
    other_beginnings();
    tenants();
    listing();
    no_memory();
    return pc_test_end();
}
