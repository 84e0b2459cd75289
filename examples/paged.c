/* A runtime with a paged K/V cache of its own: requests share the pages of a prompt and append to
 * pages of their own. Each step makes one plan and uses it for all layers; nothing is converted or
 * copied. Compared with plain attention. */
#include <math.h>
#include <promptcache.h>
#include <promptcache/attend.h>
#include <stdio.h>
#include <stdlib.h>

enum { LAYERS = 2, PAGES = 64, PAGE = 16, HEADS = 4, DIM = 32, REQUESTS = 3, PROMPT = 500 };
enum { STEPS = 20, PROMPT_PAGES = (PROMPT + PAGE - 1) / PAGE };

static float keys[LAYERS][PAGES][PAGE][HEADS][DIM]; /* the runtime's cache */
static float values[LAYERS][PAGES][PAGE][HEADS][DIM];
static int32_t prompt[PROMPT_PAGES], own[REQUESTS][STEPS / PAGE + 1];
static float q[REQUESTS][HEADS][DIM], out[REQUESTS][HEADS][DIM];

static void draw(float *to, int count)
{
    for (int i = 0; i < count; i++)
        to[i] = 2 * (float)rand() / (float)RAND_MAX - 1;
}

static void append(const int32_t *table, int token) /* what the model's layers would write */
{
    for (int l = 0; l < LAYERS; l++) {
        draw(keys[l][table[token / PAGE]][token % PAGE][0], HEADS * DIM);
        draw(values[l][table[token / PAGE]][token % PAGE][0], HEADS * DIM);
    }
}

static float difference_to_plain(int layer, int r, int h, int tokens)
{
    float sums[DIM] = {0}, total = 0, most = 0;
    for (int t = 0; t < PROMPT + tokens; t++) {
        int at = t < PROMPT ? t : t - PROMPT;
        int page = t < PROMPT ? prompt[at / PAGE] : own[r][at / PAGE];
        float score = 0;
        for (int d = 0; d < DIM; d++)
            score += q[r][h][d] * keys[layer][page][at % PAGE][h][d];
        total += score = expf(score / sqrtf(DIM));
        for (int d = 0; d < DIM; d++)
            sums[d] += score * values[layer][page][at % PAGE][h][d];
    }
    for (int d = 0; d < DIM; d++)
        most = fmaxf(most, fabsf(sums[d] / total - out[r][h][d]));
    return most;
}

static pc_status step(pc_context *context, const pc_plan_args *plan_args, int tokens, float *most)
{
    pc_attend_args args = PC_ATTEND_ARGS_INIT;
    pc_plan *plan = NULL; /* of this step's tables, for all layers */
    pc_status status = pc_plan_new(&plan, context, plan_args);
    args.q = q, args.out = out;
    for (int l = 0; l < LAYERS && status >= 0; l++) {
        draw(q[0][0], REQUESTS * HEADS * DIM);
        args.pool_k = keys[l], args.pool_v = values[l];
        status = pc_attend(plan, &args);
        for (int i = 0; i < REQUESTS * HEADS && status >= 0; i++)
            *most = fmaxf(*most, difference_to_plain(l, i / HEADS, i % HEADS, tokens));
    }
    pc_plan_free(plan);
    return status;
}

int main(void)
{
    static const pc_attend_shape shape = {sizeof shape, HEADS, HEADS, DIM, DIM, PC_DTYPE_F32, 0};
    pc_context *context = NULL;
    pc_pool pool = PC_POOL_INIT;
    pc_plan_args args = PC_PLAN_ARGS_INIT;
    pc_run runs[1 + REQUESTS] = {{PROMPT, NULL, prompt}};
    pc_row_span spans[2 * REQUESTS]; /* hi 0: all of the run */
    uint32_t first[REQUESTS + 1] = {0}, used = 0;
    int64_t positions[REQUESTS];
    float most = 0;
    for (int i = 0; i < PROMPT_PAGES; i++)
        prompt[i] = PAGES - 1 - (int32_t)used++; /* any free page */
    for (int t = 0; t < PROMPT; t++)
        append(prompt, t);
    pool.page_tokens = PAGE, pool.page_count = PAGES;
    args.shape = &shape, args.pool = &pool, args.row_count = REQUESTS, args.positions = positions;
    args.runs = runs, args.run_stride = sizeof *runs, args.run_count = 1 + REQUESTS;
    args.spans = spans, args.span_stride = sizeof *spans, args.first = first;
    pc_status status = pc_context_new(&context, NULL);
    for (int tokens = 1; tokens <= STEPS && status >= 0; tokens++) {
        for (uint32_t r = 0; r < REQUESTS; r++) {
            if (tokens % PAGE == 1)
                own[r][tokens / PAGE] = PAGES - 1 - (int32_t)used++;
            append(own[r], tokens - 1);
            runs[1 + r] = (pc_run){(size_t)tokens, NULL, own[r]};
            spans[2 * r] = (pc_row_span){0, 0, 0, 0, 0};
            spans[2 * r + 1] = (pc_row_span){PROMPT, 1 + r, 0, 0, 0};
            positions[r] = PROMPT + tokens - 1, first[r + 1] = 2 * r + 2;
        }
        status = step(context, &args, tokens, &most);
    }
    pc_context_free(context);
    if (status < 0)
        fprintf(stderr, "paged: %s: %s\n", pc_status_name(status), pc_error_text());
    else
        printf("%d requests, %d steps, pages of %d tokens: at most %.1e off\n", REQUESTS, STEPS,
               PAGE, (double)most);
    return status < 0 || most > 1e-5f;
}
