/* Traced and computed tensors beside those of the file, a line for each. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"

static const double logits_limit = 2e-4; /* relative to the largest magnitude of the tensor */
static const double other_limit = 1e-4;

static const char *const stage_names[STAGES] = {"hidden",
                                                "k_pre",
                                                "k",
                                                "v",
                                                "probs",
                                                "final",
                                                "latent_raw",
                                                "latent",
                                                "k_rope_pre",
                                                "k_rope",
                                                "router_logits",
                                                "router_topk_idx",
                                                "router_topk_weight",
                                                "pooled",
                                                "logits"};

/* ----------------------------------------------------------------- comparing */

static void report(checking *c, const char *name, double max_abs, double max_rel, double limit,
                   int ok)
{
    c->missed += !ok;
    if (c->json)
        print_json(json_pack("{s:s,s:o,s:o,s:f,s:b}", "tensor", name, "max_abs",
                             json_number(max_abs), "max_rel", json_number(max_rel), "limit", limit,
                             "ok", ok));
    else
        printf("%-28s abs %9.2e  rel %9.2e  limit %7.0e  %s\n", name, max_abs, max_rel, limit,
               ok ? "ok" : "MISSED");
}

void check_tensor(checking *c, const golden_tensor *want, const float *got, size_t count)
{
    double worst = 0.0, largest = 0.0, limit;
    int logits = strstr(want->name, "logits") && !strstr(want->name, "router_"), finite = 1;
    if (count != want->count) {
        fprintf(stderr, "%s: %s: %zu values, computed %zu\n", program_name, want->name, want->count,
                count);
        report(c, want->name, INFINITY, INFINITY, logits ? logits_limit : other_limit, 0);
        return;
    }
    for (size_t i = 0; i < count; i++) {
        double w = (double)((const float *)want->data)[i], d = fabs(w - (double)got[i]);
        largest = fmax(largest, fabs(w));
        finite = finite && isfinite(got[i]);
        worst = fmax(worst, d);
    }
    limit = logits ? logits_limit : other_limit;
    double relative = largest > 0 ? worst / largest : worst;
    report(c, want->name, worst, relative, limit, finite && (logits ? relative : worst) <= limit);
}

void check_ids(checking *c, const golden_tensor *want, const int32_t *got)
{
    int equal = !memcmp(want->data, got, want->count * sizeof *got);
    report(c, want->name, equal ? 0 : 1, equal ? 0 : 1, 0, equal);
}

/* ------------------------------------------------------------------- tracing */

void check_keep(void *user, const pc_trace *t)
{
    checking *c = user;
    size_t count = 1;
    if (c->finals && !strcmp(t->name, "final"))
        memcpy(c->finals + t->lane * (size_t)c->info.hidden, t->data,
               (size_t)c->info.hidden * sizeof(float));
    if (t->lane)
        return;
    for (uint32_t i = 0; i < t->rank; i++)
        count *= (size_t)t->shape[i];
    for (size_t s = 0; s < STAGES; s++) {
        stage *to = &c->stages[s];
        int layer = !strcmp(t->name, "final") ? 0 : t->layer;
        if (strcmp(stage_names[s], t->name) || layer < 0 || layer >= 256)
            continue;
        free(to->data[layer]);
        if (!(to->data[layer] = malloc((count + 1) * sizeof(float)))) {
            c->code = plain_error("out of memory for %s", t->name);
            return;
        }
        memcpy(to->data[layer], t->data, count * sizeof(float));
        memcpy(to->shape, t->shape, sizeof to->shape);
        to->rank = t->rank;
        to->layers = layer + 1 > to->layers ? layer + 1 : to->layers;
    }
}

void check_forget(checking *c)
{
    for (size_t s = 0; s < STAGES; s++) {
        for (int i = 0; i < 256; i++)
            free(c->stages[s].data[i]);
        memset(&c->stages[s], 0, sizeof c->stages[s]);
    }
}

/* Integers that were traced as floats. */
static void compare_numbers(checking *c, const golden_tensor *want, const float *got, size_t count)
{
    int32_t *ids = calloc(count + 1, sizeof *ids);
    if (!ids)
        c->code = plain_error("out of memory for %s", want->name);
    for (size_t i = 0; ids && i < count; i++)
        ids[i] = (int32_t)got[i];
    if (ids && count == want->count)
        check_ids(c, want, ids);
    else if (ids)
        report(c, want->name, INFINITY, INFINITY, 0, 0);
    free(ids);
}

void check_layers(checking *c, const golden_tensor *want, size_t s)
{
    const stage *got = &c->stages[s];
    size_t one = 1, filled = 0;
    if (!want)
        return;
    for (uint32_t i = 0; i < got->rank; i++)
        one *= (size_t)got->shape[i];
    float *all = calloc((size_t)got->layers * one + 1, sizeof *all);
    if (!all) {
        c->code = plain_error("out of memory for %s", want->name);
        return;
    }
    for (int l = 0; l < got->layers; l++)
        if (got->data[l])
            memcpy(all + filled++ * one, got->data[l], one * sizeof *all);
    if (want->integers)
        compare_numbers(c, want, all, filled * one);
    else
        check_tensor(c, want, all, filled * one);
    free(all);
}

void check_stage(checking *c, const char *prefix, size_t s)
{
    check_layers(c, golden_find(&c->golden, "%s/%s", prefix, stage_names[s]), s);
}

void check_routers(checking *c, const char *prefix)
{
    golden_tensor *want = golden_find(&c->golden, "%s/router_layers", prefix);
    const stage *got = &c->stages[FIRST_OF_ROUTER];
    float layers[256];
    size_t count = 0;
    for (int l = 0; l < got->layers; l++)
        if (got->data[l])
            layers[count++] = (float)l;
    if (want && want->integers)
        compare_numbers(c, want, layers, count);
    for (size_t s = FIRST_OF_ROUTER; s < DECODER_STAGES; s++)
        check_stage(c, prefix, s);
}

void check_last_hidden(checking *c, const char *prefix)
{
    golden_tensor *want = golden_find(&c->golden, "%s/hidden_last", prefix);
    const stage *got = &c->stages[0];
    if (want && got->layers && got->data[got->layers - 1])
        check_tensor(c, want, got->data[got->layers - 1], (size_t)(got->shape[0] * got->shape[1]));
}
