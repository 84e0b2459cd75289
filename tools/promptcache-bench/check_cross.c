/* The case `cross`, of models whose RoPE regime depends on the length of the context (dynamic NTK,
 * LongRoPE). The prompt is within the length that decides, its continuation is not.
 *   pinned  everything is computed in the RoPE regime of the final length, as one request does it
 *   fresh   every row is computed for its own length, as a request for each length does it
 *   cached  cached keys keep their RoPE regime while new tokens have another one; the library never
 *           computes this, and the tensors are left out */
#include <promptcache/batch.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"

enum { MOST = 4096 };

typedef struct crossing {
    checking *c;
    const golden_tensor *ids;
    size_t prompt; /* tokens of the prompt */
    int64_t positions[MOST];
} crossing;

/* Logits of the last `rows` of the first `count` tokens, in one pass for that length. */
static int logits_of(crossing *x, size_t count, size_t rows, float *out)
{
    size_t vocab = (size_t)x->c->info.vocab;
    float *all = check_new_logits(x->c, count);
    pc_lane lane = {NULL, 0, x->ids->data, x->positions, count, NULL, 0};
    int ok = all && check_eval(x->c, &lane, 1, PC_VISIBLE_BY_POSITION, count, all, NULL, 0);
    if (!all)
        x->c->code = plain_error("out of memory for %s", x->ids->name);
    if (ok)
        memcpy(out, all + (count - rows) * vocab, rows * vocab * sizeof *out);
    free(all);
    return ok;
}

static void compare_logits(crossing *x, const char *variant, int fresh)
{
    golden_tensor *want = golden_find(&x->c->golden, "cross/logits_%s", variant);
    size_t vocab = (size_t)x->c->info.vocab, rows = want ? want->count / vocab : 0;
    float *got = want ? check_new_logits(x->c, rows) : NULL;
    int ok = got != NULL;
    if (want && x->prompt + rows != x->ids->count + 1)
        x->c->code = plain_error("%s: %zu rows behind %zu of %zu tokens", want->name, rows,
                                 x->prompt, x->ids->count);
    if (!fresh)
        ok = ok && !x->c->code && logits_of(x, x->ids->count, rows, got);
    for (size_t i = 0; fresh && i < rows; i++)
        ok = ok && !x->c->code && logits_of(x, x->prompt + i, 1, got + i * vocab);
    if (ok)
        check_tensor(x->c, want, got, rows * vocab);
    free(got);
}

/* Greedy ids of a request for `wanted` tokens behind `count` given ones. 0: an error. */
static int answer(checking *c, const int32_t *ids, size_t count, size_t wanted, int32_t *out)
{
    pc_generate_options options = PC_GENERATE_OPTIONS_INIT;
    pc_prompt *prompt = NULL;
    pc_sequence *sequence = NULL;
    pc_batch *batch = NULL;
    pc_status status;
    size_t made = 0;
    options.max_tokens = (uint32_t)wanted;
    options.rope_regime_length = wanted == 1 ? count : 0; /* 0: the length it may reach */
    status = pc_prompt_from_tokens(&prompt, c->model, ids, count, NULL);
    if (status >= 0)
        status = pc_sequence_new(&sequence, prompt, NULL, &options);
    if (status >= 0)
        status = pc_batch_new(&batch, c->model, NULL);
    if (status >= 0)
        status = pc_batch_add(batch, sequence);
    while (status == PC_OK)
        status = pc_batch_step(batch);
    if (status >= 0)
        status = pc_sequence_error(sequence, NULL);
    if (status < 0)
        c->code = input_error("request", NULL);
    const int32_t *tokens = pc_sequence_tokens(sequence, &made);
    for (size_t i = 0; i < wanted; i++)
        out[i] = i < made ? tokens[i] : -1;
    pc_batch_free(batch);
    pc_sequence_free(sequence);
    pc_prompt_free(prompt);
    return status >= 0;
}

static void compare_greedy(crossing *x, const char *variant, int fresh)
{
    golden_tensor *want = golden_find(&x->c->golden, "cross/greedy_%s", variant);
    size_t count = want ? want->count : 0;
    int32_t *all = calloc(x->prompt + count + 1, sizeof *all), *got;
    int ok = want && all && count && !x->c->code;
    if (all)
        memcpy(all, x->ids->data, x->prompt * sizeof *all);
    got = all ? all + x->prompt : NULL;
    if (ok && !fresh)
        ok = answer(x->c, all, x->prompt, count, got);
    for (size_t i = 0; fresh && ok && i < count; i++)
        ok = answer(x->c, all, x->prompt + i, 1, got + i);
    if (ok)
        check_ids(x->c, want, got);
    free(all);
}

static void leave_out(checking *c, const char *name)
{
    static const char reason[] =
        "not a computation of ours: keys of one RoPE regime are never read in another";
    if (!golden_find(&c->golden, "cross/%s", name))
        return;
    if (c->json)
        print_json(json_pack("{s:o,s:o,s:o,s:o,s:o,s:s}", "tensor", json_sprintf("cross/%s", name),
                             "max_abs", json_null(), "max_rel", json_null(), "limit", json_null(),
                             "ok", json_null(), "left_out", reason));
    else
        printf("cross/%-22s left out: %s\n", name, reason);
}

void check_cross(checking *c)
{
    static crossing x;
    golden_tensor *ids = golden_find(&c->golden, "cross/ids"),
                  *plain = golden_find(&c->golden, "plain/ids");
    if (!ids || c->code)
        return;
    if (!plain || plain->count > ids->count || ids->count > MOST) {
        c->code = plain_error("%s: no prompt of up to %d tokens before it", ids->name, MOST);
        return;
    }
    x = (crossing){.c = c, .ids = ids, .prompt = plain->count};
    for (size_t i = 0; i < MOST; i++)
        x.positions[i] = (int64_t)i;
    compare_logits(&x, "pinned", 0);
    compare_greedy(&x, "pinned", 0);
    compare_logits(&x, "fresh", 1);
    compare_greedy(&x, "fresh", 1);
    leave_out(c, "logits_cached");
    leave_out(c, "greedy_cached");
}
