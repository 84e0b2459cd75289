/* Grammars: checked, compiled by the plug-in module xgrammar, or made of an application's
 * functions.
 */
#include "serve/grammar.h"

#include <string.h>

#include "base/options.h"
#include "serve/plugin.h"
#include "text/grammar_engine.h"
#include "text/grammar_text.h"

enum { DEFAULT_BLANKS = 32, MOST_BLANKS = 1000, MOST_THREADS = 8 };

static const char module_name[] = "xgrammar";

/* ------------------------------------------------------------------ life */

pc_grammar *pc__grammar_ref(const pc_grammar *grammar)
{
    pc_grammar *counted = (pc_grammar *)(uintptr_t)grammar; /* only the count changes */
    atomic_fetch_add_explicit(&counted->references, 1, memory_order_relaxed);
    return counted;
}

void pc_grammar_free(pc_grammar *g)
{
    pc_model *model;
    if (!g || atomic_fetch_sub_explicit(&g->references, 1, memory_order_acq_rel) != 1)
        return;
    model = g->model;
    if (g->ops.on_free)
        g->ops.on_free(g->ops.user);
    pc__free(&model->context->mem, g);
    pc__model_unref(model);
}

pc_status pc__grammar_check_model(const pc_grammar *g, const pc_model *model, const char *call)
{
    static const pc__id none;
    const pc__id *a = &g->model->tokenizer_id, *b = &model->tokenizer_id;
    if (g->model == model
        || (!memcmp(a, b, sizeof *a) && memcmp(a, &none, sizeof none)
            && g->vocab == pc__model_drawn_vocabulary(model)))
        return PC_OK;
    return pc__fail(PC_ERR_MISMATCH, "%s: the grammar is for the tokens of another model", call);
}

/* An empty one. */
static pc_status make_grammar(pc_grammar **out, const pc_model *model)
{
    pc_grammar *g = pc__calloc(&model->context->mem, 1, sizeof *g);
    *out = g;
    if (!g)
        return PC_ERR_NOMEM;
    atomic_init(&g->references, 1);
    g->model = pc__model_ref(model);
    g->vocab = pc__model_drawn_vocabulary(model);
    return PC_OK;
}

pc_status pc__grammar_said(pc_status status, const char *function)
{
    if (status < 0)
        return pc__callback_failed(status, "grammar: %s", function);
    return status ? pc__fail(PC_ERR_INTERNAL, "grammar: %s returned %s, which it may not", function,
                             pc_status_name(status))
                  : PC_OK;
}

void pc__grammar_allow(const pc_grammar *g, uint32_t *bits, int32_t token, int allowed)
{
    if (token < 0 || (size_t)token >= g->vocab)
        return;
    if (allowed)
        bits[token / 32] |= UINT32_C(1) << token % 32;
    else
        bits[token / 32] &= ~(UINT32_C(1) << token % 32);
}

int pc__grammar_allows_any(const pc_grammar *g, uint32_t *bits)
{
    size_t words = pc__grammar_words(g);
    uint32_t any = 0;
    if (g->vocab % 32)
        bits[words - 1] &= (UINT32_C(1) << g->vocab % 32) - 1;
    for (size_t i = 0; i < words; i++)
        any |= bits[i];
    return any != 0;
}

/* Some answer begins: at least by its first token. */
static pc_status check_beginning(const pc_grammar *g, const char *call)
{
    const pc_grammar_ops *ops = &g->ops;
    uint32_t *bits = pc__calloc(&g->model->context->mem, pc__grammar_words(g), sizeof *bits);
    void *matcher = NULL;
    int32_t may_end = 0;
    pc_status status = PC_ERR_NOMEM;
    if (!bits)
        return status;
    pc__callback_begin();
    status = pc__grammar_said(ops->matcher_new(ops->user, &matcher), "matcher_new");
    if (status >= 0)
        status = pc__grammar_said(ops->mask(ops->user, matcher, bits, g->vocab, &may_end),
                                  "the first mask");
    pc__grammar_allow(g, bits, g->model->info.token_eos, 0); /* of that only may_end counts */
    if (status >= 0 && !pc__grammar_allows_any(g, bits) && !may_end)
        status = pc__fail(PC_ERR_INVALID,
                          "%s: no answer matches: no token of this model can begin "
                          "one, and an empty one does not match",
                          call);
    if (matcher)
        ops->matcher_free(ops->user, matcher);
    pc__free(&g->model->context->mem, bits);
    return status < 0 ? status : PC_OK;
}

/* ------------------------------------------------------------------ an application's */

static pc_status check_ops(const pc_grammar_ops *o, const char *call)
{
    const char *name = !o->matcher_new    ? "matcher_new"
                       : !o->matcher_copy ? "matcher_copy"
                       : !o->matcher_free ? "matcher_free"
                       : !o->mask         ? "mask"
                       : !o->accept       ? "accept"
                       : !o->rollback     ? "rollback"
                                          : NULL;
    return name ? pc__fail(PC_ERR_INVALID, "%s: ops.%s is NULL", call, name) : PC_OK;
}

pc_status pc_grammar_new_own(pc_grammar **out, const pc_model *model, const pc_grammar_ops *ops)
{
    PC__HOLD(pc_model, model);
    static const char call[] = "pc_grammar_new_own";
    pc_grammar_ops o;
    pc_grammar *g = NULL;
    pc_status status;
    if (!out)
        return pc__fail(PC_ERR_INVALID, "%s: out is NULL", call);
    *out = NULL;
    if (!model || !ops)
        return pc__fail(PC_ERR_INVALID, "%s: model or ops is NULL", call);
    PC__TRY_RETURN(pc__options_read(&o, sizeof o, PC__V1_SIZE(pc_grammar_ops, on_free), ops,
                                    "pc_grammar_ops"));
    PC__TRY_RETURN(check_ops(&o, call));
    PC__TRY_RETURN(make_grammar(&g, model));
    g->ops = o;
    g->ops.on_free = NULL; /* until all is well */
    status = check_beginning(g, call);
    if (status < 0) {
        pc_grammar_free(g);
        return status;
    }
    g->ops.on_free = o.on_free;
    *out = g;
    return PC_OK;
}

/* ------------------------------------------------------------------ compiled */

static pc_status find_engine(const pc__grammar_engine **engine, const char *call)
{
    const pc__module *const *linked = PC__PLUGIN_XGRAMMAR;
    const void *table;
    if (!linked)
        return pc__fail(PC_ERR_UNSUPPORTED,
                        "%s: the library was built without the plug-in module %s, which compiles "
                        "grammars: build it with -DPC_XGRAMMAR=FOLDER (doc/building.md), or bring "
                        "an engine of your own (pc_grammar_new_own)",
                        call, module_name);
    pc_status status = pc__module_table(&table, module_name, *linked);
    if (status < 0)
        return pc__fail_in(status, "%s", call);
    *engine = table;
    return PC_OK;
}

static pc_status read_options(pc_grammar_options *o, const pc_grammar_options *in, const char *call)
{
    PC__TRY_RETURN(pc__options_read(o, sizeof *o, PC__V1_SIZE(pc_grammar_options, root), in,
                                    "pc_grammar_options"));
    PC__TRY_RETURN(pc__check_enum("pc_grammar_options", "kind", o->kind, PC_GRAMMAR_REGEX));
    PC__TRY_RETURN(
        pc__check_flags("pc_grammar_options", o->flags, PC_GRAMMAR_OPEN | PC_GRAMMAR_ONE_LINE));
    PC__TRY_RETURN(pc__check_array(call, "text", o->text, o->text_size, 1));
    if (o->most_blanks > MOST_BLANKS)
        return pc__fail(PC_ERR_LIMIT, "%s: most_blanks is %u, at most %d", call, o->most_blanks,
                        MOST_BLANKS);
    if (o->kind == PC_GRAMMAR_JSON && o->text_size)
        return pc__fail(PC_ERR_INVALID, "%s: PC_GRAMMAR_JSON has no text", call);
    if (o->kind != PC_GRAMMAR_SCHEMA
        && (o->flags || (o->most_blanks && o->kind != PC_GRAMMAR_JSON)))
        return pc__fail(PC_ERR_INVALID, "%s: flags and most_blanks are for JSON schemas", call);
    if (o->kind != PC_GRAMMAR_EBNF && o->root)
        return pc__fail(PC_ERR_INVALID, "%s: root is for PC_GRAMMAR_EBNF", call);
    o->root = o->root ? o->root : "root";
    o->most_blanks = o->most_blanks ? o->most_blanks : DEFAULT_BLANKS;
    return pc__grammar_text_check(o, call);
}

/* Tokens of which no answer is made: their texts are not of its text. */
static int is_text(const pc__tokenizer *tokenizer, int32_t token)
{
    return !pc__token_is_special(tokenizer, token);
}

static pc_status make_vocabulary(void **out, const pc__grammar_engine *engine,
                                 const pc_model *model, size_t count)
{
    const pc_allocator *mem = &model->context->mem;
    pc__grammar_token *tokens = pc__calloc(mem, count, sizeof *tokens);
    if (!tokens)
        return PC_ERR_NOMEM;
    for (size_t i = 0; i < count; i++)
        if (is_text(model->tokenizer, (int32_t)i)) {
            pc__text text = pc__token_bytes(model->tokenizer, (int32_t)i);
            tokens[i] = (pc__grammar_token){text.data, text.size};
        }
    pc_status status = engine->vocabulary_new(out, tokens, count);
    pc__free(mem, tokens);
    return status;
}

typedef struct note_to {
    const pc_context *context;
    const char *call;
} note_to;

static void note(void *user, const char *line)
{
    const note_to *to = user;
    pc__log(to->context, PC_LOG_WARN, "%s: %s", to->call, line);
}

static pc_status compile(pc_grammar *g, const pc__grammar_engine *engine,
                         const pc_grammar_options *options, const char *call)
{
    const pc_context *context = g->model->context;
    note_to to = {context, call};
    const pc__grammar_request request = {
        .options = options,
        .threads = context->threads < MOST_THREADS ? context->threads : MOST_THREADS,
        .note = note,
        .note_user = &to};
    void *vocabulary;
    PC__TRY_RETURN(make_vocabulary(&vocabulary, engine, g->model, g->vocab));
    pc_status status = engine->compile(&g->ops, vocabulary, &request);
    engine->vocabulary_free(vocabulary);
    return status < 0 ? pc__fail_in(status, "%s", call) : status;
}

pc_status pc_grammar_new(pc_grammar **out, const pc_model *model, const pc_grammar_options *options)
{
    PC__HOLD(pc_model, model);
    static const char call[] = "pc_grammar_new";
    const pc__grammar_engine *engine = NULL;
    pc_grammar_options o;
    pc_grammar *g = NULL;
    pc_status status;
    if (!out)
        return pc__fail(PC_ERR_INVALID, "%s: out is NULL", call);
    *out = NULL;
    if (!model)
        return pc__fail(PC_ERR_INVALID, "%s: model is NULL", call);
    PC__TRY_RETURN(read_options(&o, options, call));
    PC__TRY_RETURN(find_engine(&engine, call));
    if (!model->tokenizer)
        return pc__fail(PC_ERR_UNSUPPORTED,
                        "%s: the model's tokens are the application's, so "
                        "their bytes are not known: pc_grammar_new_own",
                        call);
    PC__TRY_RETURN(make_grammar(&g, model));
    status = compile(g, engine, &o, call);
    if (status >= 0)
        status = check_beginning(g, call);
    if (status < 0) {
        pc_grammar_free(g);
        return status;
    }
    *out = g;
    return PC_OK;
}
