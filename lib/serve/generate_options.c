/* Options of a request: checked, completed with the chat template's stops, copied. */
#include "serve/generate.h"

#include <promptcache/batch.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/options.h"
#include "memo/memo.h"
#include "model/model_states.h"
#include "serve/grammar.h"
#include "serve/logprobs.h"
#include "serve/request_tenants.h"
#include "serve/sampler.h"

enum { DEFAULT_TOKENS = 256, MAX_SAMPLES = 4096 };

static pc_status check_levels(const pc_generate_options *o, const char *call)
{
    if (o->encoding > PC_ENCODE_EXACT || o->repair > PC_REPAIR_FULL
        || o->visibility > PC_VISIBLE_ALL)
        return pc__fail(PC_ERR_INVALID, "%s: unknown encoding %u, repair %u or visibility %u", call,
                        o->encoding, o->repair, o->visibility);
    if (o->repair == PC_REPAIR_FIRST && !o->repair_tokens)
        return pc__fail(PC_ERR_INVALID, "%s: PC_REPAIR_FIRST needs repair_tokens", call);
    if (!(o->repair_percent >= 0 && o->repair_percent <= 100)
        || (o->repair == PC_REPAIR_TOP && !(o->repair_percent > 0)))
        return pc__fail(PC_ERR_INVALID,
                        "%s: repair_percent is %g; it is at most 100, and above 0 for "
                        "PC_REPAIR_TOP",
                        call, (double)o->repair_percent);
    return PC_OK;
}

static pc_status read_bench(pc_bench_options *out, const pc_bench_options *options,
                            const pc_model *model)
{
    PC__TRY_RETURN(pc__options_read(out, sizeof *out, PC__V1_SIZE(pc_bench_options, shared_tokens),
                                    options, "pc_bench_options"));
    if (out->baseline > PC_BASELINE_NO_ATTENTION || out->reserved)
        return pc__fail(PC_ERR_INVALID, "pc_bench_options: unknown baseline %u, or reserved is set",
                        out->baseline);
    if (out->shared_tokens && out->baseline != PC_BASELINE_COPIES)
        return pc__fail(PC_ERR_INVALID,
                        "pc_bench_options: shared_tokens is for PC_BASELINE_COPIES");
    if (out->baseline == PC_BASELINE_NO_ATTENTION && !pc__model_is_native(model))
        return pc__fail(PC_ERR_UNSUPPORTED, "pc_bench_options: attention can be left out by models "
                                            "that we run ourselves only");
    return PC_OK;
}

static pc_status check_options(const pc_generate_options *o, const char *call)
{
    PC__TRY_RETURN(pc__check_flags(call, o->flags,
                                   PC_GENERATE_KEEP | PC_GENERATE_LOGITS | PC_GENERATE_IGNORE_END));
    if (o->samples > MAX_SAMPLES)
        return pc__fail(PC_ERR_LIMIT, "%s: %u samples, at most %d", call, o->samples, MAX_SAMPLES);
    PC__TRY_RETURN(pc__check_array(call, "stop_tokens", o->stop_tokens, o->stop_token_count,
                                   sizeof *o->stop_tokens));
    PC__TRY_RETURN(pc__check_array(call, "stop_strings", o->stop_strings, o->stop_string_count,
                                   sizeof(*o->stop_strings)));
    for (size_t i = 0; i < o->stop_string_count; i++)
        if (!o->stop_strings[i] || !*o->stop_strings[i])
            return pc__fail(PC_ERR_INVALID, "%s: stop string %zu is empty", call, i);
    if (!(o->deadline_seconds >= 0) || isinf(o->deadline_seconds))
        return pc__fail(PC_ERR_INVALID, "%s: deadline_seconds is %g, not a finite number from 0",
                        call, o->deadline_seconds);
    if (o->top_logprobs > PC__MOST_LOGPROBS)
        return pc__fail(PC_ERR_LIMIT, "%s: top_logprobs is %u, at most %d", call, o->top_logprobs,
                        PC__MOST_LOGPROBS);
    if (o->top_logprobs && !o->on_token)
        return pc__fail(PC_ERR_INVALID, "%s: top_logprobs needs on_token", call);
    return check_levels(o, call);
}

/* Options that need something of the model. */
static pc_status check_for_model(const pc_generate_options *o, const pc_model *model,
                                 const char *call)
{
    if (o->memo_threshold && !(*o->memo_threshold <= 1))
        return pc__fail(PC_ERR_INVALID, "%s: memo_threshold is %g, it is at most 1", call,
                        *o->memo_threshold);
    if (o->memo && o->salt_count)
        return pc__fail(
            PC_ERR_UNSUPPORTED,
            "%s: memo with salts: maps have no tenants, so one could get another's; give "
            "only one of both",
            call);
    if (o->memo && !pc__model_is_native(model))
        return pc__fail(PC_ERR_UNSUPPORTED, "%s: a memo is for models that we run ourselves", call);
    if (o->grammar)
        PC__TRY_RETURN(pc__grammar_check_model(o->grammar, model, call));
    return o->memo ? pc__memo_check_model(o->memo, model) : PC_OK;
}

static pc_status copy_stops(pc__generation *g, const pc_model *model, const pc_generate_options *o,
                            const pc__chat *chat)
{
    const pc_allocator *mem = &model->context->mem;
    size_t more_tokens = chat ? chat->stop_token_count : 0,
           more_strings = chat ? chat->stop_string_count : 0, n = 0;
    int32_t *tokens = pc__calloc(mem, o->stop_token_count + more_tokens + 1, sizeof *tokens);
    g->options.stop_tokens = tokens;
    g->options.stop_token_count = 0;
    g->options.stop_string_count = 0;
    g->strings = pc__calloc(mem, o->stop_string_count + more_strings + 1, sizeof *g->strings);
    g->options.stop_strings = (const char *const *)g->strings;
    if (!tokens || !g->strings)
        return PC_ERR_NOMEM;
    if (o->stop_token_count)
        memcpy(tokens, o->stop_tokens, o->stop_token_count * sizeof *tokens);
    n = o->stop_token_count;
    if (more_tokens)
        memcpy(tokens + n, chat->stop_tokens, more_tokens * sizeof *tokens);
    n += more_tokens;
    if (chat && model->info.token_eos >= 0)
        tokens[n++] = model->info.token_eos;
    g->options.stop_token_count = n;
    for (size_t i = 0; i < o->stop_string_count + more_strings; i++) {
        const char *from = i < o->stop_string_count ? o->stop_strings[i]
                                                    : chat->stop_strings[i - o->stop_string_count];
        g->strings[g->options.stop_string_count] = pc__strdup(mem, from);
        if (!g->strings[g->options.stop_string_count++])
            return PC_ERR_NOMEM;
    }
    return PC_OK;
}

/* One block: the adapter, the ranges, then their salts. */
static pc_status copy_owners(pc__generation *g, const pc_model *model, const pc_generate_options *o)
{
    size_t adapter = o->adapter ? 32 : 0, bytes = adapter + o->salt_count * sizeof *o->salts;
    uint8_t *at;
    pc_salt *salts;
    for (size_t i = 0; i < o->salt_count; i++)
        if (__builtin_add_overflow(bytes, o->salts[i].size, &bytes))
            return pc__fail(PC_ERR_INVALID, "salt %zu has %zu bytes", i, o->salts[i].size);
    g->options.salts = NULL;
    g->options.adapter = g->owners = bytes ? pc__alloc(&model->context->mem, bytes) : NULL;
    if (bytes && !g->owners)
        return PC_ERR_NOMEM;
    if (!bytes)
        return PC_OK;
    if (adapter)
        memcpy(g->owners, o->adapter, adapter);
    else
        g->options.adapter = NULL;
    salts = (pc_salt *)(void *)(g->owners + adapter);
    at = (uint8_t *)(salts + o->salt_count);
    for (size_t i = 0; i < o->salt_count; at += o->salts[i++].size) {
        memcpy(at, o->salts[i].data, o->salts[i].size);
        salts[i] = (pc_salt){o->salts[i].first, at, o->salts[i].size};
    }
    g->options.salts = o->salt_count ? salts : NULL;
    return PC_OK;
}

static pc_status copy_threshold(pc__generation *g, const pc_model *model)
{
    if (!g->options.memo_threshold)
        return PC_OK;
    g->memo_threshold = pc__alloc(&model->context->mem, sizeof *g->memo_threshold);
    if (!g->memo_threshold)
        return PC_ERR_NOMEM;
    *g->memo_threshold = *g->options.memo_threshold;
    g->options.memo_threshold = g->memo_threshold;
    return PC_OK;
}

/* `chat`: its stops come too; NULL: none. Owns a reference to o->memo, on failure too. */
static pc_status copy_options(pc__generation *g, const pc_model *model,
                              const pc_generate_options *o, const pc__chat *chat)
{
    pc_status status;
    g->options = *o;
    g->options.grammar = o->grammar ? pc__grammar_ref(o->grammar) : NULL;
    status = copy_stops(g, model, o, chat);
    if (status >= 0)
        status = copy_owners(g, model, o);
    if (status >= 0)
        status = copy_threshold(g, model);
    if (status < 0)
        pc__generation_end(g, &model->context->mem);
    return status;
}

/* `o`: as read, with its salts dense. */
static pc_status init_from(pc__generation *g, const pc_model *model, pc_generate_options o,
                           const char *call)
{
    PC__TRY_RETURN(check_options(&o, call));
    PC__TRY_RETURN(pc__sampling_read(&g->sampling, o.sampling, call));
    PC__TRY_RETURN(check_for_model(&o, model, call));
    PC__TRY_RETURN(read_bench(&g->bench, o.bench, model));
    o.max_tokens = o.max_tokens ? o.max_tokens : DEFAULT_TOKENS;
    if (o.min_tokens > o.max_tokens)
        return pc__fail(PC_ERR_INVALID, "%s: min_tokens is %u, but max_tokens %u", call,
                        o.min_tokens, o.max_tokens);
    o.samples = o.samples ? o.samples : 1;
    o.memo = o.memo ? pc__memo_ref(o.memo) : NULL;
    g->memo = (uintptr_t)o.memo;
    o.bench = NULL;
    o.sampling = NULL;
    return copy_options(g, model, &o, o.flags & PC_GENERATE_IGNORE_END ? NULL : model->chat);
}

pc_status pc__generation_init(pc__generation *g, const pc_model *model,
                              const pc_generate_options *options, const char *call)
{
    const pc_allocator *mem = &model->context->mem;
    pc_generate_options o;
    pc__request_owners owners;
    pc_status status;
    memset(g, 0, sizeof *g);
    PC__TRY_RETURN(pc__options_read(&o, sizeof o, PC__V1_SIZE(pc_generate_options, tag), options,
                                    "pc_generate_options"));
    PC__TRY_RETURN(pc__request_owners_read(&owners, model, call, o.salts, o.salt_stride,
                                           o.salt_count, o.adapter));
    o.salts = owners.salts;
    o.salt_stride = sizeof *o.salts;
    status = init_from(g, model, o, call);
    pc__request_owners_end(&owners, mem);
    return status;
}

pc_status pc__generation_copy(pc__generation *to, const pc_model *model, const pc__generation *from)
{
    pc_generate_options o = from->options;
    o.memo = NULL;
    *to = (pc__generation){.bench = from->bench, .memo = from->memo};
    return copy_options(to, model, &o, NULL);
}

/* Takes a field over, if it is zero. */
static int takes_over(void *to, const void *from, size_t size)
{
    static const char zeros[sizeof(pc_bench_options)];
    if (!memcmp(to, zeros, size))
        memcpy(to, from, size);
    return !memcmp(to, from, size);
}

static int same_adapter(const pc_generate_options *a, const pc_generate_options *b)
{
    return a->adapter && b->adapter ? !memcmp(a->adapter, b->adapter, 32)
                                    : a->adapter == b->adapter;
}

static int same_salts(const pc_generate_options *a, const pc_generate_options *b)
{
    if (a->salt_count != b->salt_count)
        return 0;
    for (size_t i = 0; i < a->salt_count; i++)
        if (a->salts[i].first != b->salts[i].first || a->salts[i].size != b->salts[i].size
            || memcmp(a->salts[i].data, b->salts[i].data, a->salts[i].size))
            return 0;
    return 1;
}

/* What a computed prompt has decided for good. */
static const struct {
    const char *name;
    size_t offset, size;
} decided[] = {
#define FIELD(name)                                                                           \
    {                                                                                         \
#name, offsetof(pc_generate_options, name), sizeof((pc_generate_options *)NULL)->name \
    }
    FIELD(encoding),
    FIELD(repair),
    FIELD(repair_tokens),
    FIELD(repair_percent),
    FIELD(visibility),
    FIELD(rope_regime_length),
    FIELD(tag)
#undef FIELD
};

static const char *changed_field(pc__generation *to, const pc__generation *from)
{
    const uint64_t states = PC_GENERATE_KEEP | PC_GENERATE_LOGITS;
    uint64_t flags = to->options.flags & states;
    const size_t behind = sizeof to->bench.struct_size;
    for (size_t i = 0; i < sizeof decided / sizeof *decided; i++)
        if (!takes_over((char *)&to->options + decided[i].offset,
                        (const char *)&from->options + decided[i].offset, decided[i].size))
            return decided[i].name;
    if (!takes_over(&flags, &(uint64_t){from->options.flags & states}, sizeof flags))
        return "flags";
    to->options.flags |= flags;
    if (!takes_over(&to->memo, &from->memo, sizeof to->memo))
        return "memo";
    /* all behind struct_size */
    if (!takes_over((char *)&to->bench + behind, (const char *)&from->bench + behind,
                    sizeof to->bench - behind))
        return "bench";
    if (to->memo_threshold
        && !(from->memo_threshold && *to->memo_threshold == *from->memo_threshold))
        return "memo_threshold";
    if (to->options.adapter && !same_adapter(&to->options, &from->options))
        return "adapter";
    return to->options.salts && !same_salts(&to->options, &from->options) ? "salts" : NULL;
}

/* What is given is as it was, so that those of `from` hold for both. */
static void use_owners(pc__generation *to, pc__generation *from)
{
    uint8_t *given = to->owners;
    to->options.adapter = from->options.adapter;
    to->options.salts = from->options.salts;
    to->options.salt_count = from->options.salt_count;
    to->owners = from->owners;
    from->owners = given;
}

pc_status pc__generation_take_over(pc__generation *to, pc__generation *from, const char *call)
{
    const char *field = changed_field(to, from);
    if (field)
        return pc__fail(PC_ERR_STATE,
                        "%s: %s cannot change any more: the prompt is computed; leave it as it "
                        "was, or at its default",
                        call, field);
    pc__generation_drop_memo(to);
    use_owners(to, from);
    if (!to->memo_threshold) {
        to->options.memo_threshold = to->memo_threshold = from->memo_threshold;
        from->memo_threshold = NULL;
    }
    return PC_OK;
}

int32_t pc__generation_must_stop(const pc__generation *g)
{
    const pc_generate_options *o = &g->options;
    char why[80];
    if (g->cancel && atomic_load_explicit(g->cancel, memory_order_relaxed)) {
        pc_error_set("pc_sequence_cancel");
        return 1;
    }
    if (o->deadline_seconds > 0 && pc__now() - g->started > o->deadline_seconds) {
        snprintf(why, sizeof why, "the deadline of %g seconds has passed", o->deadline_seconds);
        pc_error_set(why);
        return 1;
    }
    return o->cancelled && o->cancelled(o->cancel_user);
}

pc_status pc__generation_poll(const pc__generation *g)
{
    pc__callback_begin();
    return pc__generation_must_stop(g) ? pc__callback_cancelled("the request was cancelled")
                                       : PC_OK;
}

void pc__generation_drop_memo(pc__generation *g)
{
    pc_memo_free(g->options.memo);
    g->options.memo = NULL;
}

void pc__generation_end(pc__generation *g, const pc_allocator *mem)
{
    pc__generation_drop_memo(g);
    pc_grammar_free((pc_grammar *)(uintptr_t)g->options.grammar);
    for (size_t i = 0; g->strings && i < g->options.stop_string_count; i++)
        pc__free(mem, g->strings[i]);
    pc__free(mem, g->strings);
    pc__free(mem, g->owners);
    pc__free(mem, g->memo_threshold);
    pc__free(mem, (void *)(uintptr_t)g->options.stop_tokens);
    memset(g, 0, sizeof *g);
}

int pc__generation_stops(const pc__generation *g, int32_t token)
{
    for (size_t i = 0; i < g->options.stop_token_count; i++)
        if (g->options.stop_tokens[i] == token)
            return 1;
    return 0;
}

size_t pc__generation_stop_strings(const pc__generation *g, size_t tokens)
{
    return tokens > g->options.min_tokens ? g->options.stop_string_count : 0;
}
