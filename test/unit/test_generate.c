/* The whole path from PML to text, with an application's model. Catches: states in the wrong place,
 * segments that are shared and must not be, tokens that are counted under the wrong source,
 * exactness that is claimed and not true, leaks on every path out. */
#include <promptcache/sampling.h>
#include <promptcache/prompt.h>
#include <promptcache/batch.h>
#include <math.h>
#include <stdlib.h>

#include "serve/prompt.h"
#include "at_rest.h"
#include "baseline.h"
#include "toy_schema.h"

static const char *const prompts[] = {
    "<prompt schema=\"t\"><a x=\"some\"/><b/><u2/>what is it?</prompt>",
    "<prompt schema=\"t\"><b/>and what is that?</prompt>",
    "<prompt schema=\"t\"><a/><b/><u1/><n><in/></n><c/> then?</prompt>",
    "<prompt schema=\"t\"><a x=\"one of\"/><n/></prompt>",
    "<prompt schema=\"t\"><a/> well, <b/> so what is it</prompt>",
    "<prompt schema=\"t\">only this</prompt>",
    "<prompt schema=\"t\"><b/></prompt>",
};
enum { PROMPTS = sizeof prompts / sizeof *prompts };

static pc_generate_options options(uint32_t encoding, uint32_t repair, uint32_t baseline)
{
    pc_generate_options o = PC_GENERATE_OPTIONS_INIT;
    o.encoding = encoding;
    o.repair = repair;
    o.bench = pc_test_baseline(baseline);
    o.max_tokens = 12;
    o.repair_tokens = 3;
    o.repair_percent = 20;
    return o;
}

static void adds_up(const toy_answer *a)
{
    const pc_stats *s = &a->stats;
    CHECK_INT(s->tokens_cached + s->tokens_encoded + s->tokens_repaired + s->tokens_new,
              s->tokens_prompt);
    CHECK(s->seconds_ttft >= s->seconds_assemble + s->seconds_encode);
    CHECK(s->exactness >= PC_EXACT && s->exactness <= PC_APPROXIMATE);
}

static int equal(const toy_answer *a, const toy_answer *b)
{
    return a->size[0] == b->size[0] && !memcmp(a->text[0], b->text[0], a->size[0]);
}

/* Every mode and repair level answers every prompt; the second time the same, from the cache. */
static void warm_equals_cold(void)
{
    for (int p = 0; p < PROMPTS; p++)
        for (uint32_t encoding = 0; encoding <= PC_ENCODE_EXACT; encoding++)
            for (uint32_t repair = 0; repair <= PC_REPAIR_FULL; repair++) {
                toy_world w;
                if (!CHECK(toy_start(&w, NULL, 0, 0, toy_schema)))
                    return;
                pc_prompt *prompt = toy_prompt(&w, prompts[p]);
                toy_answer cold = toy_generate(prompt, w.cache, options(encoding, repair, 0));
                toy_answer warm = toy_generate(prompt, w.cache, options(encoding, repair, 0));
                toy_answer none = toy_generate(prompt, NULL, options(encoding, repair, 0));
                CHECK_OK(cold.status);
                CHECK_OK(warm.status);
                CHECK(equal(&cold, &warm) && equal(&cold, &none));
                adds_up(&cold);
                adds_up(&warm);
                CHECK_INT(cold.stats.tokens_cached, 0);
                CHECK_INT(warm.stats.exactness, cold.stats.exactness);
                if (repair != PC_REPAIR_FULL && !strstr(prompts[p], "<c/>")) {
                    CHECK_INT(warm.stats.tokens_encoded, 0);
                    CHECK(warm.stats.tokens_cached > 0 && warm.stats.bytes_reused > 0);
                }
                pc_prompt_free(prompt);
                toy_end(&w);
            }
}

/* Mode EXACT and repair FULL are the plan computed afresh, bit for bit: every logit, warm or cold.
 * The logits show through sampling at a temperature, with one seed for each draw. */
static void exact_is_the_plan(void)
{
    toy_world w;
    if (!CHECK(toy_start(&w, NULL, 0, 0, toy_schema)))
        return;
    for (int p = 0; p < PROMPTS; p++) {
        pc_prompt *prompt = toy_prompt(&w, prompts[p]);
        pc_generate_options o = options(0, 0, PC_BASELINE_PLAN);
        pc_sampling sampling = PC_SAMPLING_INIT;
        sampling.temperature = 1.5f;
        o.sampling = &sampling;
        for (; sampling.seed < 5; sampling.seed++) {
            o.bench = pc_test_baseline(PC_BASELINE_PLAN);
            toy_answer plan = toy_generate(prompt, w.cache, o);
            o.bench = pc_test_baseline(PC_BASELINE_PREFILL);
            toy_answer prefill = toy_generate(prompt, w.cache, o);
            o.bench = pc_test_baseline(0);
            o.repair = PC_REPAIR_FULL;
            toy_answer full = toy_generate(prompt, w.cache, o);
            o.repair = 0;
            o.encoding = PC_ENCODE_EXACT;
            toy_answer cold = toy_generate(prompt, w.cache, o),
                       warm = toy_generate(prompt, w.cache, o);
            o.encoding = 0;
            CHECK(equal(&plan, &full) && equal(&plan, &cold) && equal(&plan, &warm));
            /* either way, the toy's sums run over keys in the same order, unless parts overlap */
            if (!strstr(prompts[p], "well"))
                CHECK(equal(&plan, &prefill));
            CHECK_INT(plan.stats.exactness, PC_EXACT);
            CHECK_INT(full.stats.exactness, PC_EXACT);
            CHECK_INT(warm.stats.exactness, PC_EXACT);
            CHECK_INT(full.stats.repair, PC_REPAIR_FULL);
            CHECK_INT(plan.stats.tokens_cached + full.stats.tokens_cached, 0);
            CHECK_INT(plan.stats.miss_reason, PC_REASON_NOT_WANTED);
        }
        pc_prompt_free(prompt);
    }
    toy_end(&w);
}

/* The prefill baselines against a forward pass that knows nothing of segments and sequences. */
static void prefill_is_a_prefill(void)
{
    toy_world w;
    float logits[TOY_VOCAB];
    if (!CHECK(toy_start(&w, NULL, 0, 0, toy_schema)))
        return;
    for (int contiguous = 0; contiguous <= 1; contiguous++) {
        pc_prompt *prompt = toy_prompt(&w, prompts[0]);
        pc_generate_options o = options(0, 0,
                                        contiguous ? PC_BASELINE_CONTIGUOUS : PC_BASELINE_PREFILL);
        int32_t tokens[256];
        int64_t positions[256];
        size_t n = 0;
        char text[2048];
        size_t size = 0;
        for (size_t p = 0; p < pc_prompt_part_count(prompt); p++) {
            pc_part part = PC_PART_INIT;
            CHECK_OK(pc_prompt_get_part(prompt, p, &part));
            for (size_t t = 0; t < part.count; t++, n++) {
                tokens[n] = part.tokens[t];
                positions[n] = contiguous ? (int64_t)n : part.start + (int64_t)t;
            }
        }
        size_t first = n;
        toy_answer a = toy_generate(prompt, NULL, o);
        for (int i = 0; i < 12; i++, n++) {
            int32_t best = 0;
            pc_toy_reference(w.toy, tokens, positions, n, logits);
            for (int32_t t = 1; t < TOY_VOCAB; t++)
                best = logits[t] > logits[best] ? t : best;
            tokens[n] = best;
            positions[n] = positions[n - 1]
                           + 1; /* no position is left out before the first answer token */
            if (best == TOY_EOS)
                break;
        }
        CHECK_OK(pc_detokenize(w.model, tokens + first, n - first, 0, text, sizeof text, &size));
        CHECK(a.size[0] + 3 >= size && a.size[0] <= size && !memcmp(text, a.text[0], a.size[0]));
        CHECK(size > 0);
        CHECK_INT(a.stats.tokens_cached, 0);
        CHECK_INT(a.stats.miss_reason, PC_REASON_NOT_WANTED);
        pc_prompt_free(prompt);
    }
    toy_end(&w);
}

static void statistics(void)
{
    toy_world w;
    if (!CHECK(toy_start(&w, NULL, 0, 0, toy_schema)))
        return;
    pc_prompt *ab = toy_prompt(&w, prompts[0]), *b = toy_prompt(&w, prompts[1]),
              *c = toy_prompt(&w, prompts[2]);
    toy_answer x = toy_generate(ab, w.cache, options(0, PC_REPAIR_NONE, 0));
    CHECK_INT(x.stats.miss_reason, PC_REASON_FIRST_USE);
    CHECK_INT(x.stats.exactness, PC_APPROXIMATE);
    CHECK_INT(x.stats.repair, PC_REPAIR_NONE);
    x = toy_generate(b, w.cache, options(0, PC_REPAIR_NONE, 0));
    CHECK_INT(x.stats.miss_reason, PC_REASON_NONE); /* the root's texts and b are there */
    CHECK_INT(x.stats.tokens_encoded, 0);
    x = toy_generate(c, w.cache, options(0, 0, 0));
    CHECK_INT(x.stats.repair, PC_REPAIR_SCAFFOLD); /* a and b together */
    CHECK_INT(x.stats.exactness, PC_REPAIRED);
    CHECK_INT(x.stats.miss_reason, PC_REASON_FIRST_USE);
    x = toy_generate(c, w.cache, options(0, 0, 0));
    CHECK_INT(x.stats.miss_reason, PC_REASON_UNCACHED);
    CHECK(x.stats.tokens_encoded > 0 && x.stats.tokens_new > 0);
    x = toy_generate(c, w.cache, options(0, PC_REPAIR_FIRST, 0));
    CHECK_INT(x.stats.repair, PC_REPAIR_FIRST);
    CHECK_INT(x.stats.exactness, PC_REPAIRED);
    CHECK_INT(x.stats.miss_reason, PC_REASON_REPAIR);
    CHECK_INT(
        x.stats.tokens_repaired,
        3 * 6); /* a, b, u1, n, in and the root's second text, but not what opens the prompt */
    x = toy_generate(ab, w.cache, options(PC_ENCODE_EXACT, 0, 0));
    CHECK_INT(x.stats.miss_reason, PC_REASON_FIRST_USE);
    x = toy_generate(c, w.cache, options(PC_ENCODE_EXACT, 0, 0));
    CHECK(x.stats.tokens_cached > 0);
    CHECK_INT(
        x.stats.miss_reason,
        PC_REASON_PREFIX); /* a has another argument: its second text, known, saw something else */
    pc_prompt_free(ab);
    pc_prompt_free(b);
    pc_prompt_free(c);
    toy_end(&w);
}

/* What a reused segment saw decides whether it is exact, mode by mode; what is called exact answers
 * as the plan does. */
static void exactness(void)
{
    static const char schema[] =
        "<schema name=\"t\">they had <module name=\"a\">some hot word</module>"
        "<module name=\"b\">from there</module><union scaffold=\"u\"><module "
        "name=\"u\">out</module>"
        "<module name=\"v\">in it</module></union></schema>";
    static const struct {
        const char *prompt;
        uint32_t want[3]; /* independent, sink, joint */
    } cases[] = {
        {"<prompt schema=\"t\">we</prompt>", {PC_EXACT, PC_EXACT, PC_EXACT}},
        {"<prompt schema=\"t\"><a/>we</prompt>", {PC_APPROXIMATE, PC_EXACT, PC_EXACT}},
        {"<prompt schema=\"t\"><b/>we</prompt>", {PC_APPROXIMATE, PC_EXACT, PC_APPROXIMATE}},
        {"<prompt schema=\"t\"><a/><b/>we</prompt>", {PC_APPROXIMATE, PC_APPROXIMATE, PC_EXACT}},
        {"<prompt schema=\"t\"><a/><b/><u/>we</prompt>",
         {PC_APPROXIMATE, PC_APPROXIMATE, PC_EXACT}},
        {"<prompt schema=\"t\"><a/><b/><v/>we</prompt>",
         {PC_APPROXIMATE, PC_APPROXIMATE, PC_EXACT}},
        {"<prompt schema=\"t\"><b/><v/>we</prompt>",
         {PC_APPROXIMATE, PC_APPROXIMATE, PC_APPROXIMATE}},
        /* the text starts where b does, and comes after it in the plan: b misses nothing */
        {"<prompt schema=\"t\"><a/> we <b/>we</prompt>",
         {PC_APPROXIMATE, PC_APPROXIMATE, PC_EXACT}},
    };
    toy_world w;
    if (!CHECK(toy_start(&w, NULL, 0, 0, schema)))
        return;
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        pc_prompt *prompt = toy_prompt(&w, cases[c].prompt);
        for (uint32_t encoding = 0; encoding < PC_ENCODE_EXACT; encoding++) {
            int same = 1;
            for (uint64_t seed = 0; seed < 6; seed++) {
                pc_generate_options o = options(encoding, 0, 0),
                                    p = options(0, 0, PC_BASELINE_PREFILL);
                pc_sampling sampling = PC_SAMPLING_INIT;
                sampling.temperature = 3;
                sampling.seed = seed;
                o.sampling = p.sampling = &sampling;
                toy_answer a = toy_generate(prompt, w.cache, o), b = toy_generate(prompt, NULL, p);
                CHECK_INT(a.stats.exactness, cases[c].want[encoding]);
                same &= equal(&a, &b);
            }
            CHECK_INT(same, cases[c].want[encoding] == PC_EXACT);
        }
        pc_prompt_free(prompt);
    }
    toy_end(&w);
}

/* Recomputing more brings the logits nearer to the plan's; TOP needs the model to tell deviations.
 */
static void repair_levels(void)
{
    toy_world w;
    pc_model_ops ops = pc_toy_ops();
    if (!CHECK(toy_start(&w, NULL, 0, 0, toy_schema)))
        return;
    pc_prompt *prompt = toy_prompt(&w, prompts[0]);
    pc_generate_options o = options(0, PC_REPAIR_TOP, 0);
    o.repair_percent = 100;
    toy_answer all = toy_generate(prompt, w.cache, o),
               plan = toy_generate(prompt, NULL, options(0, 0, PC_BASELINE_PREFILL));
    CHECK_INT(all.stats.tokens_cached, 0);
    CHECK(equal(&all, &plan));
    o.repair_percent = 10;
    all = toy_generate(prompt, w.cache, o);
    CHECK(all.stats.tokens_repaired > 0 && all.stats.tokens_repaired < all.stats.tokens_cached);
    CHECK_INT(all.stats.repair, PC_REPAIR_TOP);
    CHECK_INT(all.stats.exactness, PC_REPAIRED);
    size_t opening = prompt->parts[0].count,
           reused = (size_t)(all.stats.tokens_cached + all.stats.tokens_repaired);
    CHECK(opening > 3 && opening < reused / 2);
    o.repair_percent = 100.0f * (float)(reused - opening)
                       / (float)reused; /* those that are wrong: what opens the prompt saw all that
                                           there was to see */
    all = toy_generate(prompt, w.cache, o);
    CHECK(equal(&all, &plan) && all.stats.tokens_cached > 0);
    o.repair = PC_REPAIR_FIRST;
    o.repair_tokens = 1000;
    all = toy_generate(prompt, w.cache, o);
    CHECK(equal(&all, &plan));
    pc_prompt_free(prompt);
    pc_schema_free(w.schema);
    pc_model_free(w.model);
    ops.deviation = NULL;
    ops.fork = NULL;
    CHECK_OK(pc_model_from_ops(&w.model, w.context, &ops, pc_toy_new(7, 0, 0), pc_toy_free, NULL));
    CHECK_OK(pc_schema_parse(&w.schema, w.model, toy_schema, strlen(toy_schema), NULL));
    prompt = toy_prompt(&w, prompts[0]);
    o.repair = PC_REPAIR_TOP;
    all = toy_generate(prompt, w.cache, o);
    CHECK_STATUS(all.status, PC_ERR_UNSUPPORTED);
    o.repair = 0;
    o.samples = 2;
    all = toy_generate(prompt, w.cache, o);
    CHECK_STATUS(all.status, PC_ERR_UNSUPPORTED);
    CHECK_ERROR_HAS("fork");
    pc_prompt_free(prompt);
    toy_end(&w);
}

/* Equal modules of two schemas, at different places, are one segment; with learned positions they
 * are two. Another tenant's salt shares nothing. */
static void relocation_and_salt(void)
{
    static const char one[] =
        "<schema name=\"t\"><module name=\"m\">some other word from there</module></schema>";
    static const char two[] = "<schema name=\"t\"><module name=\"k\">he was hot</module><module "
                              "name=\"m\">some other word from there</module></schema>";
    for (int learned = 0; learned <= 1; learned++) {
        toy_world w;
        pc_cache *other = NULL;
        pc_cache_options co = PC_CACHE_OPTIONS_INIT;
        pc_schema *second = NULL;
        if (!CHECK(toy_start(&w, NULL, learned, 0, one)))
            return;
        pc_prompt *p = toy_prompt(&w, "<prompt schema=\"t\"><m/> and</prompt>"), *q = NULL;
        toy_answer a = toy_generate(p, w.cache, options(0, 0, 0));
        CHECK_INT(a.stats.exactness, PC_EXACT); /* there is nothing before the only module */
        CHECK_OK(pc_schema_parse(&second, w.model, two, strlen(two), NULL));
        pc_schema_free(w.schema);
        w.schema = second;
        q = toy_prompt(&w, "<prompt schema=\"t\"><m/> and</prompt>");
        a = toy_generate(q, w.cache, options(0, 0, 0));
        CHECK_OK(a.status);
        CHECK_INT(a.stats.tokens_cached > 0, !learned);
        toy_answer plan = toy_generate(q, NULL, options(0, 0, PC_BASELINE_PLAN));
        CHECK(equal(&a, &plan));
        co.salt = "x";
        co.salt_size = 1;
        CHECK_OK(pc_cache_new(&other, w.context, &co));
        a = toy_generate(q, other, options(0, 0, 0));
        CHECK_INT(a.stats.tokens_cached, 0);
        a = toy_generate(q, other, options(0, 0, 0));
        CHECK(a.stats.tokens_cached > 0);
        pc_cache_free(other);
        pc_prompt_free(p);
        pc_prompt_free(q);
        toy_end(&w);
    }
}

static void prefixes_without_pml(void)
{
    toy_world w;
    int32_t tokens[300];
    pc_prompt *p = NULL;
    toy_answer a, b;
    if (!CHECK(toy_start(&w, NULL, 0, 0, NULL)))
        return;
    for (int i = 0; i < 300; i++)
        tokens[i] = TOY_WORDS + i * 7 % 40;
    CHECK_OK(pc_prompt_from_tokens(&p, w.model, tokens, 300, NULL));
    CHECK_INT(pc_prompt_part_count(p), 5);
    a = toy_generate(p, w.cache, options(0, 0, 0));
    CHECK_INT(a.stats.tokens_encoded, 256);
    b = toy_generate(p, w.cache, options(0, 0, 0));
    CHECK_INT(b.stats.tokens_cached, 256);
    CHECK_INT(b.stats.tokens_new, 44);
    CHECK(equal(&a, &b));
    a = toy_generate(p, w.cache, options(0, 0, PC_BASELINE_PLAN));
    CHECK(equal(&a, &b));
    pc_prompt_free(p);
    tokens[150] = TOY_WORDS; /* the third block differs: two are reused */
    tokens[151] = TOY_WORDS + 1;
    CHECK_OK(pc_prompt_from_tokens(&p, w.model, tokens, 257, NULL));
    a = toy_generate(p, w.cache, options(0, 0, 0));
    CHECK_INT(a.stats.tokens_cached, 128);
    CHECK_INT(a.stats.tokens_encoded, 128);
    CHECK_INT(a.stats.tokens_new, 1); /* the last one is always computed */
    CHECK_INT(a.stats.miss_reason, PC_REASON_FIRST_USE);
    pc_prompt_free(p);
    CHECK_OK(pc_prompt_from_tokens(&p, w.model, tokens, 256, NULL));
    a = toy_generate(p, w.cache, options(0, 0, 0));
    CHECK_INT(a.stats.tokens_cached, 192);
    CHECK_INT(a.stats.tokens_new, 64);
    pc_prompt_free(p);
    CHECK_OK(pc_prompt_from_text(&p, w.model, "the word", 8, NULL));
    a = toy_generate(p, w.cache, options(0, 0, 0));
    CHECK_INT(a.stats.tokens_prompt, 5); /* bos, t, h, e, word */
    CHECK_INT(a.stats.exactness, PC_EXACT);
    pc_prompt_free(p);
    CHECK_STATUS(pc_prompt_from_tokens(&p, w.model, tokens, 0, NULL), PC_ERR_INVALID);
    tokens[3] = TOY_VOCAB;
    CHECK_STATUS(pc_prompt_from_tokens(&p, w.model, tokens, 10, NULL), PC_ERR_INVALID);
    CHECK(p == NULL);
    toy_end(&w);
}

static void samples_and_stops(void)
{
    toy_world w;
    if (!CHECK(toy_start(&w, NULL, 0, 0, toy_schema)))
        return;
    pc_prompt *prompt = toy_prompt(&w, prompts[0]);
    pc_generate_options o = options(0, 0, 0);
    pc_sampling sampling = PC_SAMPLING_INIT;
    sampling.temperature = 1;
    sampling.seed = 100;
    o.sampling = &sampling;
    o.samples = 4;
    toy_answer all = toy_generate(prompt, w.cache, o);
    CHECK_OK(all.status);
    CHECK_INT(pc_toy_count(w.toy)->largest_step, 4); /* stepped together */
    o.samples = 1;
    uint64_t generated = 0;
    for (uint32_t i = 0; i < 4; i++) {
        sampling.seed = 100 + i;
        toy_answer one = toy_generate(prompt, w.cache, o);
        generated += one.stats.tokens_generated;
        CHECK(one.size[0] == all.size[i] && !memcmp(one.text[0], all.text[i], one.size[0]));
    }
    CHECK_INT(all.stats.tokens_generated, generated);

    sampling.temperature = 0;
    o.max_tokens = 30;
    toy_answer free_run = toy_generate(prompt, w.cache, o);
    CHECK_INT(free_run.stats.finish, PC_FINISH_LENGTH);
    CHECK_INT(free_run.stats.tokens_generated, 30);
    if (CHECK(free_run.size[0] > 8)) {
        char stop[4] = {0};
        const char *const stops[] = {"never in it", stop};
        memcpy(stop, free_run.text[0] + 4, 3);
        o.stop_strings = stops;
        o.stop_string_count = 2;
        toy_answer stopped = toy_generate(prompt, w.cache, o);
        CHECK_INT(stopped.stats.finish, PC_FINISH_STOP_STRING);
        const char *at = strstr(free_run.text[0], stop);
        CHECK(at && stopped.size[0] == (size_t)(at - free_run.text[0]));
        CHECK(!memcmp(stopped.text[0], free_run.text[0], stopped.size[0]));
        /* held back to the very end, then let go */
        snprintf(stop, sizeof stop, "%czz", free_run.text[0][free_run.size[0] - 1]);
        stopped = toy_generate(prompt, w.cache, o);
        CHECK_INT(stopped.stats.finish, PC_FINISH_LENGTH);
        CHECK(equal(&stopped, &free_run));
        o.stop_string_count = 0;
    }
    free_run.stop_after = 0;
    toy_answer cut = {.stats = PC_STATS_INIT, .stop_after = 2};
    o.on_text = toy_keep;
    o.on_text_user = &cut;
    CHECK_OK(pc_generate(prompt, w.cache, &o, &cut.stats));
    CHECK_INT(cut.stats.finish, PC_FINISH_CALLBACK);
    CHECK(cut.stats.tokens_generated < 30);
    CHECK_INT(pc_toy_count(w.toy)->live_sequences, 0);
    pc_prompt_free(prompt);
    toy_end(&w);
}

static void stop_tokens(void)
{
    toy_world w;
    if (!CHECK(toy_start(&w, NULL, 0, 0, toy_schema)))
        return;
    pc_prompt *prompt = toy_prompt(&w, prompts[1]);
    pc_sequence *s = NULL;
    pc_batch *batch = NULL;
    pc_generate_options o = options(0, 0, 0);
    CHECK_OK(pc_batch_new(&batch, w.model, NULL));
    CHECK_OK(pc_sequence_new(&s, prompt, w.cache, &o));
    CHECK_OK(pc_batch_add(batch, s));
    while (pc_batch_step(batch) == PC_OK)
        ;
    size_t count;
    const int32_t *tokens = pc_sequence_tokens(s, &count);
    CHECK_INT(count, 12);
    int32_t stop = tokens[3];
    size_t first = 0;
    while (tokens[first] != stop)
        first++;
    o.stop_tokens = &stop;
    o.stop_token_count = 1;
    toy_answer a = toy_generate(prompt, w.cache, o);
    char text[256];
    size_t size;
    CHECK_INT(a.stats.finish, PC_FINISH_STOP_TOKEN);
    CHECK_INT(a.stats.tokens_generated, first + 1);
    CHECK_OK(pc_detokenize(w.model, tokens, first, 0, text, sizeof text,
                           &size)); /* the stop is not in the text */
    CHECK(a.size[0] <= size && a.size[0] + 3 >= size && !memcmp(text, a.text[0], a.size[0]));
    pc_sequence_free(s);
    pc_batch_free(batch);
    pc_prompt_free(prompt);
    toy_end(&w);
}

static void context_limit(void)
{
    toy_world w;
    pc_prompt *p = NULL;
    int32_t tokens[41];
    if (!CHECK(toy_start(&w, NULL, 0, 40, NULL)))
        return;
    for (int i = 0; i < 41; i++)
        tokens[i] = TOY_WORDS + i % 40;
    CHECK_OK(pc_prompt_from_tokens(&p, w.model, tokens, 36, NULL));
    toy_answer a = toy_generate(p, w.cache, options(0, 0, 0));
    CHECK_OK(a.status);
    CHECK_INT(a.stats.finish, PC_FINISH_LENGTH);
    CHECK_INT(a.stats.tokens_generated,
              5); /* positions 36 ... 39 are computed, the fifth has no place left */
    pc_prompt_free(p);
    CHECK_OK(pc_prompt_from_tokens(&p, w.model, tokens, 40, NULL));
    a = toy_generate(p, w.cache, options(0, 0, 0));
    CHECK_INT(a.stats.tokens_generated, 1);
    pc_prompt_free(p);
    CHECK_STATUS(pc_prompt_from_tokens(&p, w.model, tokens, 41, NULL), PC_ERR_LIMIT);
    toy_end(&w);
}

static void small_budget(void)
{
    toy_world w;
    pc_cache *small = NULL;
    pc_cache_options co = PC_CACHE_OPTIONS_INIT;
    if (!CHECK(toy_start(&w, NULL, 0, 0, toy_schema)))
        return;
    co.ram_bytes = 1000; /* less than any segment */
    CHECK_OK(pc_cache_new(&small, w.context, &co));
    pc_prompt *prompt = toy_prompt(&w, prompts[0]);
    for (uint32_t encoding = 0; encoding <= PC_ENCODE_EXACT; encoding++) {
        toy_answer a = toy_generate(prompt, small, options(encoding, 0, 0)),
                   b = toy_generate(prompt, w.cache, options(encoding, 0, 0));
        CHECK(equal(&a, &b));
        CHECK_INT(a.stats.miss_reason, PC_REASON_NO_ROOM);
        CHECK_INT(a.stats.tokens_cached, 0);
    }
    pc_prompt_free(prompt);
    pc_cache_free(small);
    toy_end(&w);
}

/* Text between modules that runs into the next module's range: two tokens at one position. */
static void overlaps(void)
{
    toy_world w;
    if (!CHECK(toy_start(&w, NULL, 0, 0, toy_schema)))
        return;
    pc_prompt *prompt = toy_prompt(&w, "<prompt schema=\"t\"><a/>, which they said that it was by "
                                       "all the other ones, <b/> <u1/> and "
                                       "this one is for you, as it is said <n/> so</prompt>");
    for (uint32_t encoding = 0; encoding <= PC_ENCODE_EXACT; encoding++)
        for (uint32_t repair = 0; repair <= PC_REPAIR_FULL; repair++)
            for (uint32_t baseline = 0; baseline <= PC_BASELINE_CONTIGUOUS; baseline++)
                for (uint32_t see = 0; see <= PC_VISIBLE_ALL; see++) {
                    pc_generate_options o = options(encoding, repair, baseline);
                    o.visibility = see;
                    toy_answer a = toy_generate(prompt, w.cache, o),
                               b = toy_generate(prompt, w.cache, o);
                    CHECK_OK(a.status);
                    CHECK(equal(&a, &b));
                    adds_up(&a);
                }
    pc_prompt_free(prompt);
    toy_end(&w);
}

static void arguments(void)
{
    toy_world w;
    if (!CHECK(toy_start(&w, NULL, 0, 0, toy_schema)))
        return;
    pc_prompt *p = toy_prompt(&w, prompts[0]);
    pc_stats stats = PC_STATS_INIT;
    const char *const empty[] = {""}, *const missing[] = {NULL};
    pc_generate_options good = options(0, 0, 0), bad[17];
    pc_sampling cold = PC_SAMPLING_INIT, wide = PC_SAMPLING_INIT, small = PC_SAMPLING_INIT;
    cold.temperature = -1;
    wide.top_p = 2;
    small.struct_size = 8;
    for (int i = 0; i < 17; i++)
        bad[i] = good;
    bad[0].encoding = 9;
    bad[1].repair = 9;
    bad[2].bench = pc_test_baseline(9);
    bad[3].visibility = 9;
    bad[4].flags = UINT64_C(1) << 40;
    bad[5].repair = PC_REPAIR_FIRST;
    bad[5].repair_tokens = 0;
    bad[6].repair = PC_REPAIR_TOP;
    bad[6].repair_percent = 0;
    bad[7].repair = PC_REPAIR_TOP;
    bad[7].repair_percent = NAN;
    bad[8].stop_string_count = 1;
    bad[9].stop_token_count = 1;
    bad[10].stop_strings = empty;
    bad[10].stop_string_count = 1;
    bad[11].stop_strings = missing;
    bad[11].stop_string_count = 1;
    bad[12].sampling = &cold;
    bad[13].struct_size = 8;
    bad[14].sampling = &wide;
    bad[15].repair_percent = 101;
    bad[15].repair = PC_REPAIR_TOP;
    bad[16].sampling = &small;
    for (int i = 0; i < 17; i++)
        if (!CHECK_STATUS(pc_generate(p, w.cache, &bad[i], &stats), PC_ERR_INVALID))
            fprintf(stderr, "    case %d\n", i);
    good.bench = pc_test_baseline(
        PC_BASELINE_COPIES); /* the library cannot copy an application's states */
    CHECK_OK(pc_generate(p, NULL, &good, &stats));
    pc_generate(p, w.cache, &good, &stats); /* fills the cache */
    CHECK_STATUS(pc_generate(p, w.cache, &good, &stats), PC_ERR_UNSUPPORTED);
    good.bench = pc_test_baseline(PC_BASELINE_NO_ATTENTION); /* only who attends can leave it out */
    CHECK_STATUS(pc_generate(p, w.cache, &good, &stats), PC_ERR_UNSUPPORTED);
    good.bench = pc_test_baseline(PC_BASELINE_PER_ROW); /* the model may ignore it */
    CHECK_OK(pc_generate(p, w.cache, &good, &stats));
    pc_test_forget(w.cache);
    good.bench = pc_test_baseline(PC_BASELINE_NONE);
    good.samples = 100000;
    CHECK_STATUS(pc_generate(p, w.cache, &good, NULL), PC_ERR_LIMIT);
    CHECK_STATUS(pc_generate(NULL, w.cache, NULL, &stats), PC_ERR_INVALID);
    stats.struct_size = 4;
    CHECK_STATUS(pc_generate(p, w.cache, NULL, &stats), PC_ERR_INVALID);
    CHECK_INT(pc_toy_count(w.toy)->live_segments, 0);
    pc_prompt_free(p);
    toy_end(&w);
}

/* The model fails at every call in turn: the caller gets the error, and nothing leaks. */
static void host_failures(void)
{
    for (int step = 0; step <= 1; step++)
        for (uint64_t at = 1; at < 40; at++) {
            toy_world w;
            if (!CHECK(toy_start(&w, NULL, 0, 0, toy_schema)))
                return;
            pc_prompt *prompt = toy_prompt(&w, prompts[2]);
            pc_toy_counts *counts = pc_toy_count(w.toy);
            *(step ? &counts->fail_step_at : &counts->fail_encode_at) = at;
            toy_answer a = toy_generate(prompt, w.cache, options(PC_ENCODE_SINK, 0, 0));
            int reached = (step ? counts->step_calls : counts->encode_calls) >= at;
            CHECK_STATUS(a.status, reached ? PC_ERR_IO : PC_OK);
            CHECK_INT(a.stats.finish, reached ? PC_FINISH_ERROR : PC_FINISH_LENGTH);
            CHECK_INT(counts->live_sequences, 0);
            counts->fail_step_at = counts->fail_encode_at = 0;
            a = toy_generate(
                prompt, w.cache,
                options(PC_ENCODE_SINK, 0, 0)); /* continues as if nothing had happened */
            CHECK_OK(a.status);
            pc_test_forget(w.cache);
            CHECK_INT(counts->live_segments, 0);
            pc_prompt_free(prompt);
            toy_end(&w);
            if (!reached)
                break;
        }
}

typedef struct poll {
    int64_t left;
} poll;

static int32_t count_down(void *user)
{
    poll *p = user;
    return --p->left == 0;
}

static void cancel_anywhere(void)
{
    toy_world w;
    pc_sampling sampling = PC_SAMPLING_INIT;
    if (!CHECK(toy_start(&w, NULL, 0, 0, toy_schema)))
        return;
    sampling.temperature = 1;
    for (int64_t at = 1;; at++) {
        pc_prompt *prompt = toy_prompt(&w, prompts[0]);
        pc_generate_options o = options(at % 2 ? PC_ENCODE_INDEPENDENT : PC_ENCODE_EXACT, 0, 0);
        poll p = {at};
        o.samples = 2;
        o.max_tokens = 4;
        o.sampling = &sampling;
        o.cancelled = count_down;
        o.cancel_user = &p;
        toy_answer a = toy_generate(prompt, w.cache, o);
        CHECK_STATUS(a.status, p.left <= 0 ? PC_ERR_CANCELLED : PC_OK);
        CHECK_INT(pc_toy_count(w.toy)->live_sequences, 0);
        pc_test_forget(w.cache);
        CHECK_INT(pc_toy_count(w.toy)->live_segments, 0);
        pc_prompt_free(prompt);
        if (p.left > 0 || at > 2000) {
            CHECK(at > 50 && at < 2000);
            break;
        }
    }
    toy_end(&w);
}

/* Every allocation of schema, prompt and generation fails once. */
static void without_memory(void)
{
    for (uint32_t encoding = 0; encoding <= PC_ENCODE_EXACT; encoding++)
        for (uint64_t at = 1;; at++) {
            pc_test_memory memory = {.fail_at = at};
            pc_allocator mem = pc_test_allocator(&memory);
            pc_context_options co = PC_CONTEXT_OPTIONS_INIT;
            pc_generate_options o = options(encoding,
                                            encoding == PC_ENCODE_SINK    ? PC_REPAIR_TOP
                                            : encoding == PC_ENCODE_JOINT ? PC_REPAIR_FIRST
                                                                          : 0,
                                            0);
            pc_model_ops ops = pc_toy_ops();
            pc_toy *toy = pc_toy_new(7, 0, 0);
            pc_context *context = NULL;
            pc_model *model = NULL;
            pc_cache *cache = NULL;
            pc_schema *schema = NULL;
            pc_prompt *prompt = NULL, *plain = NULL;
            pc_toy_counts last = {0};
            pc_status status;
            const char *const stops[] = {"xyz"};
            pc_sampling sampling = PC_SAMPLING_INIT;
            co.allocator = &mem;
            co.threads = 1;
            o.samples = 2;
            o.max_tokens = 3;
            sampling.repetition_penalty = 1.1f;
            sampling.temperature = 1;
            o.sampling = &sampling;
            o.stop_strings = stops;
            o.stop_string_count = 1;
            status = pc_context_new(&context, &co);
            if (status >= 0
                && (status = pc_model_from_ops(&model, context, &ops, toy, NULL, NULL)) >= 0
                && (status = pc_cache_new(&cache, context, NULL)) >= 0
                && (status = pc_schema_parse(&schema, model, toy_schema, strlen(toy_schema), NULL))
                       >= 0
                && (encoding == PC_ENCODE_EXACT
                    || (status = pc_schema_encode(schema, cache, NULL)) >= 0)
                && (status = pc_prompt_parse(&prompt, &schema, 1, prompts[2], strlen(prompts[2]),
                                             NULL))
                       >= 0
                && (status = pc_prompt_from_text(&plain, model, prompts[2], strlen(prompts[2]),
                                                 NULL))
                       >= 0
                && (status = pc_generate(prompt, cache, &o, NULL)) >= 0)
                status = pc_generate(plain, cache, &o, NULL);
            int reached = memory.calls >= at;
            CHECK(status == PC_OK || (status == PC_ERR_NOMEM && reached));
            pc_prompt_free(prompt);
            pc_prompt_free(plain);
            pc_schema_free(schema);
            pc_cache_free(cache);
            pc_model_free(model);
            last = *pc_toy_count(toy);
            pc_toy_free(toy);
            pc_context_free(context);
            CHECK_INT(last.live_segments, 0);
            CHECK_INT(last.live_sequences, 0);
            if (!CHECK_INT(memory.live_blocks, 0) || !reached)
                break;
        }
}

int main(void)
{
    warm_equals_cold();
    exact_is_the_plan();
    prefill_is_a_prefill();
    statistics();
    exactness();
    repair_levels();
    relocation_and_salt();
    prefixes_without_pml();
    samples_and_stops();
    stop_tokens();
    context_limit();
    small_budget();
    overlaps();
    arguments();
    host_failures();
    cancel_anywhere();
    without_memory();
    return pc_test_end();
}
