/* Marks the tokens that are computed again, by their place in a module or by their deviation. */
#include "serve/request_internal.h"

#include <stdlib.h>

#include "serve/encode_call.h"

/* The unit of repair is a module, or a run of texts of the root without a module in between: its
 * first text stands for it. */
static const pc__node *module_of(const pc__schema_tree *tree, const pc__node *text)
{
    const pc__node *root = tree->root, *first = NULL;
    if (text->parent != root)
        return text->parent;
    for (size_t c = 0; c < root->child_count; c++) {
        if (root->children[c]->kind != PC__NODE_TEXT)
            first = NULL;
        else if (!first)
            first = root->children[c];
        if (root->children[c] == text)
            break;
    }
    return first;
}

static void note_repair(pc__request *r, uint32_t level)
{
    r->stats.repair = level;
    if (r->stats.exactness == PC_APPROXIMATE)
        r->stats.exactness = PC_REPAIRED;
}

/* The module that opens the prompt is left alone: with nothing before it, its states are right as
 * they are. */
pc_status pc__request_repair_first(pc__request *r)
{
    const pc_allocator *mem = &r->model->context->mem;
    const pc__schema_tree *tree = r->prompt->schema->tree;
    const pc__node *opening = NULL;
    size_t *left = pc__alloc(mem, tree->node_count * sizeof *left);
    if (!left)
        return PC_ERR_NOMEM;
    for (size_t n = 0; n < tree->node_count; n++)
        left[n] = r->options->repair_tokens;
    if (r->prompt->part_count && r->parts[0].segment)
        opening = module_of(tree, r->prompt->parts[0].node);
    for (size_t p = 0; p < r->prompt->part_count; p++) {
        const pc__prompt_part *part = &r->prompt->parts[p];
        const pc__node *module = r->parts[p].segment ? module_of(tree, part->node) : NULL;
        if (!module || module == opening)
            continue;
        for (size_t t = 0; t < part->count && left[module->index]; t++, left[module->index]--) {
            r->again[r->parts[p].first + t] = 1;
            pc__request_missed(r, p, PC_REASON_REPAIR);
            note_repair(r, PC_REPAIR_FIRST);
        }
    }
    pc__free(mem, left);
    return PC_OK;
}

typedef struct scored {
    float score;
    uint32_t token; /* index in `again` */
    uint32_t part;
} scored;

static int by_score(const void *a, const void *b)
{
    const scored *x = a, *y = b;
    if (x->score > y->score || x->score < y->score)
        return x->score > y->score ? -1 : 1;
    return x->token < y->token ? -1 : x->token > y->token;
}

typedef struct comparison {
    pc__encode_call reused; /* the tokens of all segments, in place */
    float *scores;
    scored *ranking;
} comparison;

static pc_status reserve_comparison(comparison *c, const pc__request *r)
{
    const pc_allocator *mem = &r->model->context->mem;
    c->scores = pc__calloc(mem, r->tokens, sizeof *c->scores);
    c->ranking = pc__calloc(mem, r->tokens, sizeof *c->ranking);
    return c->scores && c->ranking
               ? pc__encode_call_init(&c->reused, mem, r->tokens, 0, r->prompt->part_count)
               : PC_ERR_NOMEM;
}

static void add_reused(comparison *c, const pc__request *r)
{
    scored *next = c->ranking;
    for (size_t p = 0; p < r->prompt->part_count; p++) {
        const pc__prompt_part *part = &r->prompt->parts[p];
        if (!r->parts[p].segment)
            continue;
        pc__encode_call_see(&c->reused, r->parts[p].segment, part->start);
        pc__encode_call_add(&c->reused, part->tokens, part->count, part->start, 0);
        for (size_t t = 0; t < part->count; t++)
            *next++ = (scored){0, (uint32_t)(r->parts[p].first + t), (uint32_t)p};
    }
}

static pc_status ask_model(comparison *c, const pc__request *r)
{
    const pc_encode_args *a = &c->reused.args;
    const pc_deviation_args args = {.struct_size = sizeof args,
                                    .tokens = a->tokens,
                                    .positions = a->positions,
                                    .count = a->count,
                                    .spans = a->visible,
                                    .span_stride = a->visible_stride,
                                    .span_count = a->visible_count,
                                    .adapter = r->options->adapter,
                                    .rope_regime_length = r->regime.length,
                                    .tag = r->options->tag};
    pc_status status;
    PC__TRY_RETURN(pc__request_poll(r));
    pc__model_enter(r->model, 0);
    status = r->model->ops.deviation(r->model->user, &args, c->scores);
    pc__model_leave(r->model, 0);
    status = pc__model_status(r->model, "deviation", status);
    for (size_t i = 0; i < a->count; i++)
        c->ranking[i].score = c->scores[i] >= 0 ? c->scores[i] : 0; /* a NaN ranks last */
    return status;
}

pc_status pc__request_repair_top(pc__request *r)
{
    const pc_allocator *mem = &r->model->context->mem;
    comparison c = {0};
    pc_status status;
    size_t count, again;
    if (!r->model->ops.deviation)
        return pc__fail(PC_ERR_UNSUPPORTED,
                        "repair by deviation: the model cannot tell deviations (no ops.deviation)");
    PC__TRY(reserve_comparison(&c, r), done);
    add_reused(&c, r);
    if (!(count = c.reused.args.count))
        goto done;
    PC__TRY(ask_model(&c, r), done);
    qsort(c.ranking, count, sizeof *c.ranking, by_score);
    again = (size_t)((double)count * (double)r->options->repair_percent / 100.0 + 0.999999);
    for (size_t i = 0; i < again && i < count; i++) {
        r->again[c.ranking[i].token] = 1;
        pc__request_missed(r, c.ranking[i].part, PC_REASON_REPAIR);
        note_repair(r, PC_REPAIR_TOP);
    }
done:
    pc__encode_call_end(&c.reused, mem);
    pc__free(mem, c.scores);
    pc__free(mem, c.ranking);
    return status;
}
