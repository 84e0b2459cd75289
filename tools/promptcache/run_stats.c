/* The statistics of a request: counts by tier, times, exactness, the memo. */
#include "run_stats.h"

#include "constant_names.h"

static const char *const exactness[] = {"?", "exact", "repaired", "approximate"};
static const char *const repairs[] = {"scaffold", "none", "first", "top", "full"};
static const char *const finishes[] = {"none",     "stop token", "stop string", "length",
                                       "callback", "error",      "cancelled",   "grammar"};
enum { FINISHES = sizeof finishes / sizeof *finishes };

json_t *stats_json(const pc_stats *s)
{
    const struct {
        const char *name;
        uint64_t value;
    } counts[] = {
        {"tokens_prompt", s->tokens_prompt},       {"tokens_cached", s->tokens_cached},
        {"tokens_encoded", s->tokens_encoded},     {"tokens_repaired", s->tokens_repaired},
        {"tokens_uncached", s->tokens_uncached},   {"tokens_new", s->tokens_new},
        {"tokens_generated", s->tokens_generated}, {"tokens_memo", s->tokens_memo},
        {"memo_layers", s->memo_layers},           {"bytes_reused", s->bytes_reused},
        {"bytes_loaded", s->bytes_loaded}};
    const struct {
        const char *name;
        double value;
    } times[] = {
        {"seconds_assemble", s->seconds_assemble}, {"seconds_encode", s->seconds_encode},
        {"seconds_prefill", s->seconds_prefill},   {"seconds_ttft", s->seconds_ttft},
        {"seconds_decode", s->seconds_decode},     {"seconds_load", s->seconds_load},
        {"seconds_memo", s->seconds_memo},         {"memo_similarity", s->memo_similarity}};
    json_t *row = json_object(), *tiers = json_object();
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        json_object_set_new(row, counts[i].name, json_integer((json_int_t)counts[i].value));
    json_object_set_new(row, "exactness", json_string(exactness[s->exactness % 4]));
    json_object_set_new(row, "repair", json_integer(s->repair));
    json_object_set_new(row, "repair_level", json_string(repairs[s->repair % 5]));
    json_object_set_new(row, "miss_reason", json_string(reason_name(s->miss_reason)));
    json_object_set_new(row, "finish", json_string(finishes[s->finish % FINISHES]));
    for (size_t i = 0; i < sizeof times / sizeof *times; i++)
        json_object_set_new(row, times[i].name, json_number(times[i].value));
    for (uint32_t t = PC_TIER_DEVICE; t < PC_TIER_COUNT; t++)
        json_object_set_new(tiers, tier_name(t), json_integer((json_int_t)s->tokens_tier[t]));
    json_object_set_new(row, "tokens_tier", tiers);
    json_object_set_new(row, "rope_regime_length", json_integer((json_int_t)s->rope_regime_length));
    json_object_set_new(row, "rope_regime", json_integer((json_int_t)s->rope_regime));
    json_object_set_new(row, "lossy", json_boolean(s->lossy));
    json_object_set_new(row, "other_kernels", json_boolean(s->other_kernels));
    json_object_set_new(row, "memo_record", json_integer(s->memo_record));
    json_object_set_new(row, "memo_reason", /* null: maps were reused, or no memo is open */
                        s->memo_reason != PC_REASON_NONE ? json_string(reason_name(s->memo_reason))
                                                         : json_null());
    json_object_set_new(row, "memo_verified", json_boolean(s->memo_verified));
    return row;
}

/* Tokens by tier, if any came from below RAM. */
static void print_tiers(const pc_stats *s)
{
    uint64_t below = 0;
    for (uint32_t t = PC_TIER_COMPRESSED; t < PC_TIER_COUNT; t++)
        below += s->tokens_tier[t];
    for (uint32_t t = PC_TIER_DEVICE; t < PC_TIER_COUNT && below; t++)
        if (s->tokens_tier[t])
            printf("    %-7s %6llu\n", tier_name(t), (unsigned long long)s->tokens_tier[t]);
    if (s->bytes_loaded)
        printf("    loaded  %.1f MB, waited %.2f ms%s\n", 1e-6 * (double)s->bytes_loaded,
               1e3 * s->seconds_load, s->lossy ? "; by a codec that loses bits" : "");
    if (s->other_kernels)
        puts("        some of it was computed with other kernels, equal within rounding "
             "(--own-kernels refuses it)");
}

static void bar(const char *label, uint64_t part, uint64_t whole)
{
    static const char full[] = "  ########################################";
    int width = whole ? (int)(40 * part / whole) : 0;
    printf("  %-9s %6llu%.*s%s\n", label, (unsigned long long)part, width ? width + 2 : 0, full,
           part && !width ? "  |" : "");
}

/* Prints nothing without a memo. */
static void print_memo(const pc_stats *s)
{
    if (s->memo_layers)
        printf("memo: maps of record %lld, similarity %.4f%s; found in %.2f ms\n",
               (long long)s->memo_record, s->memo_similarity,
               s->memo_verified ? ", computed in full to verify them" : "", 1e3 * s->seconds_memo);
    else if (s->memo_reason != PC_REASON_NONE && s->memo_record >= 0)
        printf("memo: not used (%s: record %lld, similarity %.4f)\n", reason_name(s->memo_reason),
               (long long)s->memo_record, s->memo_similarity);
    else if (s->memo_reason != PC_REASON_NONE)
        printf("memo: not used (%s)\n", reason_name(s->memo_reason));
}

/* Where the states come from. */
static const char *origin(const pc_stats *s)
{
    if (!s->tokens_memo)
        return reason_name(s->miss_reason);
    if (s->memo_verified)
        return "computed in full to verify the memo";
    return s->memo_similarity < 1 ? "with attention maps of another prompt"
                                  : "with its own attention maps from the memo";
}

void print_stats(const pc_stats *s)
{
    printf("\ntokens of the prompt: %llu\n", (unsigned long long)s->tokens_prompt);
    bar("cached", s->tokens_cached, s->tokens_prompt);
    print_tiers(s);
    bar("encoded", s->tokens_encoded, s->tokens_prompt);
    if (s->tokens_uncached)
        printf("    %-7s %6llu  (cache=\"false\")\n", "always",
               (unsigned long long)s->tokens_uncached);
    bar("repaired", s->tokens_repaired, s->tokens_prompt);
    bar("new", s->tokens_new, s->tokens_prompt);
    if (s->tokens_memo)
        bar("memo", s->tokens_memo, s->tokens_prompt);
    printf("states: %s%s%s (%s); first token after %.2f ms (look-up %.3f, prefill %.2f)\n",
           exactness[s->exactness % 4], s->exactness == PC_REPAIRED ? " by " : "",
           s->exactness == PC_REPAIRED ? repairs[s->repair % 5] : "", origin(s),
           1e3 * s->seconds_ttft, 1e3 * s->seconds_assemble, 1e3 * s->seconds_prefill);
    if (s->rope_regime_length)
        printf("positions: as for a length of %llu (RoPE regime %llu)\n",
               (unsigned long long)s->rope_regime_length, (unsigned long long)s->rope_regime);
    print_memo(s);
    printf("answer: %llu tokens, ended by %s%s\n", (unsigned long long)s->tokens_generated,
           s->finish == PC_FINISH_LENGTH ? "its " : "a ", finishes[s->finish % FINISHES]);
}
