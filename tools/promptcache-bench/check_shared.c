/* The case `shared`: a tree of a root, middles and leaves, whose leaves are computed in one batch.
 */
#include <stdlib.h>
#include <string.h>

#include "check.h"

static pc_segment *extend(checking *c, const pc_span *spans, size_t count, const golden_tensor *ids,
                          int64_t start, size_t length, uint64_t rope_length)
{
    int64_t positions[4096];
    pc_segment *segment = NULL;
    pc_lane lane = {spans, count, ids->data, positions, length, NULL, sizeof(pc_span)};
    if (length > 4096 && !c->code)
        c->code = plain_error("%s: more than 4096 ids", ids->name);
    for (size_t i = 0; i < length && i < 4096; i++)
        positions[i] = start + (int64_t)i;
    check_eval(c, &lane, 1, PC_VISIBLE_BY_POSITION, rope_length, NULL, &segment, 0);
    return segment;
}

typedef struct leaf {
    pc_span spans[3];
    size_t count;
    int64_t position;
    int32_t query;
} leaf;

/* The stored K and V of the chain of leaf 0, with the query token. */
static void leaf_states(checking *c, const leaf *l, pc_segment *query)
{
    golden_tensor *k = golden_find(&c->golden, "shared/leaf0_k"),
                  *v = golden_find(&c->golden, "shared/leaf0_v");
    size_t heads = (size_t)c->info.kv_heads, total = k ? (size_t)k->shape[2] : 0;
    if (!k || !v || v->shape[2] != k->shape[2])
        return;
    for (int which = 0; which < 2; which++) {
        const golden_tensor *want = which ? v : k;
        size_t dim = (size_t)want->shape[3], at = 0;
        float *all = calloc(want->count + 1, sizeof *all),
              *part = calloc(want->count + 1, sizeof *part);
        for (size_t s = 0; s <= l->count; s++) {
            pc_segment *segment = s < l->count ? l->spans[s].segment : query;
            int64_t start = s < l->count ? l->spans[s].start : l->position;
            size_t n;
            pc_segment_tokens(segment, &n);
            for (int32_t layer = 0; layer < c->info.layers && at + n <= total; layer++) {
                if (pc_segment_read(segment, layer, start, which ? NULL : part, which ? part : NULL)
                    < 0)
                    c->code = input_error("segment", NULL);
                for (size_t h = 0; h < heads; h++)
                    memcpy(all + (((size_t)layer * heads + h) * total + at) * dim,
                           part + h * n * dim, n * dim * sizeof *all);
            }
            at += n;
        }
        check_tensor(c, want, all, want->count);
        free(all);
        free(part);
    }
}

void check_shared(checking *c)
{
    golden_tensor *root_ids = golden_find(&c->golden, "shared/root_ids"),
                  *want = golden_find(&c->golden, "shared/logits");
    json_t *leaves = json_object_get(
               json_object_get(json_object_get(c->golden.about, "inputs"), "shared"), "leaves"),
           *row;
    uint64_t rope_length = golden_rope_length(&c->golden, "shared");
    pc_segment *root, *mid[8] = {0}, *suffix[16] = {0}, *query[16] = {0};
    leaf leaf_rows[16] = {0};
    pc_lane lanes[16];
    size_t i, count = json_array_size(leaves);
    if (!root_ids || !want || !count || count > 16)
        return;
    root = extend(c, NULL, 0, root_ids, 0, root_ids->count, rope_length);
    pc_span root_span = {root, 0, 0, 0};
    int64_t root_end = (int64_t)root_ids->count;
    json_array_foreach(leaves, i, row)
    {
        const char *parent = json_string_value(json_object_get(row, "parent"));
        size_t m = parent && strlen(parent) == 4 ? (size_t)(parent[3] - '0') : 8;
        golden_tensor *mid_ids = m < 8 ? golden_find(&c->golden, "shared/mid%zu_ids", m) : NULL;
        golden_tensor *ids = golden_find(&c->golden, "shared/leaf%zu_ids", i);
        if ((!mid_ids || !ids || !ids->count) && !c->code)
            c->code = plain_error("golden: leaf %zu or the middle it hangs on is missing", i);
        if (c->code)
            break;
        if (!mid[m])
            mid[m] = extend(c, &root_span, 1, mid_ids, root_end, mid_ids->count, rope_length);
        leaf *l = &leaf_rows[i];
        l->spans[l->count++] = root_span;
        l->spans[l->count++] = (pc_span){mid[m], root_end, 0, 0};
        l->position = root_end + (int64_t)mid_ids->count;
        if (ids->count > 1) {
            suffix[i] = extend(c, l->spans, 2, ids, l->position, ids->count - 1, rope_length);
            l->spans[l->count++] = (pc_span){suffix[i], l->position, 0, 0};
            l->position += (int64_t)ids->count - 1;
        }
        l->query = ((const int32_t *)ids->data)[ids->count - 1];
        lanes[i] = (pc_lane){l->spans, l->count, &l->query, &l->position, 1, NULL, sizeof(pc_span)};
    }
    golden_tensor *finals = golden_find(&c->golden, "shared/final");
    float *logits = check_new_logits(c, count);
    c->finals = finals ? calloc(count * (size_t)c->info.hidden + finals->count, sizeof *c->finals)
                       : NULL;
    if (check_eval(c, lanes, count, PC_VISIBLE_BY_POSITION, rope_length, logits, query,
                   finals != NULL)) {
        check_tensor(c, want, logits, count * (size_t)c->info.vocab);
        leaf_states(c, &leaf_rows[0], query[0]);
        if (finals)
            check_tensor(c, finals, c->finals, finals->count);
    }
    free(logits);
    free(c->finals);
    c->finals = NULL;
    check_forget(c);
    pc_segment_free(root);
    for (i = 0; i < 16; i++) {
        pc_segment_free(i < 8 ? mid[i] : NULL);
        pc_segment_free(suffix[i]);
        pc_segment_free(query[i]);
    }
}
