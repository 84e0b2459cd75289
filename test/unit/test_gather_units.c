/* Catches, in prompts with several scaffold sets: a module that gets the states of another set than
 * doc/pml.md says; sets that count although a module is missing or nothing is to be repaired; an
 * uncached text that does not see the tokens before it. */
#include "serve/gather.h"
#include "serve/model_calls.h"
#include "serve/unit_keys.h"

#include "baseline.h"
#include "toy_schema.h"
#include <promptcache/sampling.h>

static const pc__request_owners nobody;

static const char schema[] =
    "<schema name=\"t\">the word is here."
    "<module name=\"a\">it was one</module><module name=\"b\">of the hot</module>"
    "<module name=\"c\">you are at</module><module name=\"d\">this one</module>"
    "<module name=\"n\" cache=\"false\">by the way</module>"
    "<scaffold modules=\"a b\"/><scaffold modules=\"b c\"/><scaffold modules=\"d a c\"/></schema>";

/* Whether these are the states that scaffold set `set` gives the part; -1: those of its module
 * alone. */
static int is_of(const toy_world *w, const pc__unit_keys *keys, const pc__recipe *recipe,
                 const pc__prompt_part *part, const pc_segment *segment, int set)
{
    size_t leaf = set < 0 ? recipe->node_leaf[part->node->index]
                          : pc__recipe_scaffold_leaf(recipe, (size_t)set, part->node);
    pc_segment *found = NULL;
    CHECK(leaf != PC__NO_LEAF);
    if (leaf != PC__NO_LEAF)
        CHECK_OK(pc__segment_find(w->model, w->cache, &keys->leaves[leaf], part->tokens,
                                  part->count, &found));
    pc__segment_unref(found);
    return found && found == segment;
}

/* `want`: for every module, in order, the set that its states come from. (The first one of a set
 * sees what it sees alone.) */
static void check(const char *text, uint32_t encoding, uint32_t repair, const int *want)
{
    toy_world w;
    pc__request r = {0};
    pc__gather *gather = NULL;
    pc__generation g = {.options = PC_GENERATE_OPTIONS_INIT};
    const pc__recipe *recipe;
    pc__unit_keys *keys = NULL;
    size_t module = 0;
    if (!CHECK(toy_start(&w, NULL, 0, 0, schema)))
        return;
    pc_prompt *prompt = toy_prompt(&w, text);
    g.options.encoding = encoding;
    g.options.repair = repair;
    CHECK_OK(pc__request_init(&r, prompt, w.cache, &g, 0));
    CHECK_OK(pc__gather_new(&gather, &r));
    CHECK_OK(pc__gather_find(gather));
    CHECK_OK(pc__gather_compute(gather));
    pc__gather_judge(gather);
    pc__gather_free(gather);
    CHECK_OK(pc__schema_recipe(w.schema, encoding, &recipe));
    CHECK_OK(pc__schema_keys(w.schema, recipe, w.cache, r.regime.key, &nobody, &keys));
    for (size_t p = 0; p < prompt->part_count; p++)
        if (prompt->parts[p].kind == PC__PART_CACHED && *prompt->parts[p].path)
            CHECK(is_of(&w, keys, recipe, &prompt->parts[p], r.parts[p].segment, want[module++]));
    pc__unit_keys_unref(keys);
    pc__request_end(&r);
    pc_prompt_free(prompt);
    toy_end(&w);
}

static void overlapping_sets(void)
{
    static const char all[] = "<prompt><a/><b/><c/><d/>x</prompt>";
    for (uint32_t encoding = PC_ENCODE_INDEPENDENT; encoding <= PC_ENCODE_JOINT; encoding++) {
        check("<prompt><a/><b/>x</prompt>", encoding, 0, (const int[]){0, 0});
        check("<prompt><a/><b/><c/>x</prompt>", encoding, 0,
              (const int[]){0, 0, 1});                      /* b: of two sets of two the first */
        check(all, encoding, 0, (const int[]){2, 0, 2, 2}); /* the largest, then the first */
        check("<prompt><a/><c/>x</prompt>", encoding, 0,
              (const int[]){-1, -1}); /* no set is whole */
        check(all, encoding, PC_REPAIR_NONE, (const int[]){-1, -1, -1, -1});
    }
}

/* Text that every request computes sees all of the prompt before it: here, that equals a
 * prefill. */
static void uncached_sees_all(void)
{
    toy_world w;
    if (!CHECK(toy_start(&w, NULL, 0, 0, schema)))
        return;
    pc_prompt *prompt = toy_prompt(&w, "<prompt><n/>what is it?</prompt>");
    for (uint32_t encoding = PC_ENCODE_INDEPENDENT; encoding <= PC_ENCODE_EXACT; encoding++) {
        pc_generate_options o = PC_GENERATE_OPTIONS_INIT;
        pc_sampling sampling = PC_SAMPLING_INIT;
        o.encoding = encoding;
        o.max_tokens = 12;
        sampling.temperature = 1.5f;
        o.sampling = &sampling;
        toy_answer cold = toy_generate(prompt, w.cache, o), warm = toy_generate(prompt, w.cache, o);
        o.bench = pc_test_baseline(PC_BASELINE_PREFILL);
        toy_answer prefill = toy_generate(prompt, NULL, o);
        CHECK_INT(warm.stats.exactness, PC_EXACT);
        CHECK(warm.stats.tokens_cached > 0 && warm.stats.tokens_uncached > 0);
        CHECK_STR(cold.text[0], prefill.text[0]);
        CHECK_STR(warm.text[0], prefill.text[0]);
    }
    pc_prompt_free(prompt);
    toy_end(&w);
}

int main(void)
{
    overlapping_sets();
    uncached_sees_all();
    return pc_test_end();
}
