/* The primitive for a runtime with its own model, kernels and memory: attention of requests that
 * share a prefix, which is read once for all of them; compared with plain attention. */
#include <math.h>
#include <promptcache.h>
#include <promptcache/attend.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 4, RUNS = 1 + ROWS, HEADS = 4, DIM = 16, PREFIX = 1000, TAIL = 5 };

static float keys[PREFIX + ROWS * TAIL][HEADS][DIM]; /* the prefix, then every row's tail */
static float values[PREFIX + ROWS * TAIL][HEADS][DIM];
static float queries[ROWS][HEADS][DIM], results[ROWS][HEADS][DIM];

static void fill(float *to, size_t count)
{
    for (size_t i = 0; i < count; i++)
        to[i] = 2 * (float)rand() / (float)RAND_MAX - 1;
}

static float difference_to_plain(int row, int head)
{
    float sums[DIM] = {0}, total = 0, most = 0;
    for (int t = 0; t < PREFIX + TAIL; t++) {
        int at = t < PREFIX ? t : t + row * TAIL;
        float score = 0;
        for (int d = 0; d < DIM; d++)
            score += queries[row][head][d] * keys[at][head][d];
        float weight = expf(score / sqrtf(DIM));
        total += weight;
        for (int d = 0; d < DIM; d++)
            sums[d] += weight * values[at][head][d];
    }
    for (int d = 0; d < DIM; d++)
        most = fmaxf(most, fabsf(sums[d] / total - results[row][head][d]));
    return most;
}

static pc_status attend(pc_context *context, void **pages)
{
    const pc_attend_shape shape = {sizeof shape, HEADS, HEADS, DIM, DIM, PC_DTYPE_F32, 0};
    pc_plan_args args = PC_PLAN_ARGS_INIT;
    pc_attend_args layer = PC_ATTEND_ARGS_INIT;
    pc_pages_args write = PC_PAGES_ARGS_INIT;
    pc_run runs[RUNS] = {{PREFIX, NULL, NULL}};
    pc_row_span spans[2 * ROWS];
    uint32_t first[ROWS + 1] = {0};
    int64_t positions[ROWS];
    pc_plan *plan = NULL;                 /* serves all layers */
    for (uint32_t r = 0; r < ROWS; r++) { /* holds run 0, the prefix, and its own behind it */
        runs[1 + r].tokens = TAIL;
        spans[2 * r] = (pc_row_span){0, 0, 0, PREFIX, 0};
        spans[2 * r + 1] = (pc_row_span){PREFIX, 1 + r, 0, TAIL, 0};
        first[r + 1] = 2 * r + 2;
        positions[r] = PREFIX + TAIL;
    }
    args.shape = write.shape = &shape, args.runs = runs, args.run_stride = sizeof *runs;
    args.positions = positions, args.first = first, args.row_count = ROWS, args.run_count = RUNS;
    args.spans = spans, args.span_stride = sizeof *spans;
    pc_status status = pc_plan_new(&plan, context, &args);
    for (size_t i = 0, at = 0; i < RUNS && status >= 0; at += runs[i++].tokens) {
        size_t bytes = pc_pages_bytes(&shape, runs[i].tokens);
        pages[i] = aligned_alloc(64, bytes);
        if (pages[i])
            memset(pages[i], 0, bytes);
        write.pages = pages[i], write.count = runs[i].tokens;
        write.k = keys[at][0], write.v = values[at][0];
        status = pc_pages_write(&write);
    }
    layer.pages = (const void *const *)pages, layer.q = queries[0][0], layer.out = results[0][0];
    if (status >= 0)
        status = pc_attend(plan, &layer);
    pc_plan_free(plan);
    return status;
}

int main(int argc, char **argv)
{
    pc_context *context = NULL;
    void *pages[RUNS] = {0};
    float most = 0;
    if (argc != 1) {
        int asked = argc == 2 && !strcmp(argv[1], "--help");
        fprintf(asked ? stdout : stderr, "usage: attend\n%d requests share a prefix\n", ROWS);
        return asked ? 0 : 2;
    }
    fill(keys[0][0], sizeof keys / sizeof(float));
    fill(values[0][0], sizeof values / sizeof(float));
    fill(queries[0][0], sizeof queries / sizeof(float));
    pc_status status = pc_context_new(&context, NULL);
    if (status >= 0)
        status = attend(context, pages);
    for (int i = 0; i < ROWS * HEADS && status >= 0; i++)
        most = fmaxf(most, difference_to_plain(i / HEADS, i % HEADS));
    if (status < 0)
        fprintf(stderr, "attend: %s: %s\n", pc_status_name(status), pc_error_text());
    else
        printf("%d rows over %d shared keys: at most %.1e off\n", ROWS, PREFIX, (double)most);
    for (int i = 0; i < RUNS; i++)
        free(pages[i]);
    pc_context_free(context);
    return status < 0 || most > 1e-5f;
}
