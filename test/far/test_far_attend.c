/* Catches: pc_attend on a backend without queues of the application that reads its addresses as
 * host memory, mixes up the pages of runs or layers, or is back before the results are there; a
 * stream that is not refused. */
#include "../kernel/host_attention.h"
#include "attn/backend.h"

enum { ROWS = 5, HEADS = 4, DIM = 32 };

static void *to_far(pc__backend *far, const void *from, size_t bytes)
{
    void *to = far->ops->take(far, bytes);
    CHECK_OK(pc__backend_copy(far, to, from, bytes));
    return to;
}

static void make_host(host *h, uint64_t seed)
{
    pc_test_rng rng = {seed};
    memset(h, 0, sizeof *h);
    h->shape = (pc_attend_shape){sizeof h->shape, HEADS, 2, DIM, DIM, PC_DTYPE_F32, 0};
    h->scale = 0.25f;
    uint32_t shared = host_add_run(h, 300, &rng);
    host_add_run(h, 7, &rng); /* no row sees it: its pages are NULL */
    for (uint32_t r = 0; r < ROWS; r++) {
        uint32_t own = host_add_run(h, 1 + 30 * r, &rng);
        host_start_row(h);
        host_hold(h, shared, 0, 300 - r);
        host_hold(h, 1, 3, 3);
        host_hold(h, own, 0, 1 + 30 * r);
        host_end_row(h);
    }
    host_queries(h, &rng);
}

static void compare(const host *h)
{
    double out[DIM], worst = 0;
    for (size_t r = 0; r < h->rows; r++)
        for (size_t head = 0; head < HEADS; head++) {
            size_t at = r * HEADS + head;
            worst = fmax(worst, fabs(host_truth(h, r, head, out) - (double)h->lse[at]));
            for (size_t d = 0; d < DIM; d++)
                worst = fmax(worst, fabs(out[d] - (double)h->out[at * DIM + d]));
        }
    if (!CHECK(worst < 1e-5))
        printf("    off by %g\n", worst);
}

/* The plan of the first layer serves both. */
static void attend(pc__backend *far, pc_plan *plan, host *h)
{
    size_t vectors = h->rows * HEADS;
    void *pages[HOST_RUNS] = {NULL};
    pc_attend_args args = host_attend_args(h);
    for (size_t i = 0; i < h->runs; i++)
        if (i != 1)
            pages[i] = to_far(far, h->pages[i], pc_pages_bytes(&h->shape, h->run[i].tokens));
    float *q = to_far(far, h->q, vectors * DIM * 4), *out = far->ops->take(far, vectors * DIM * 4),
          *lse = far->ops->take(far, vectors * 4);
    args.pages = (const void *const *)pages;
    args.q = q;
    args.out = out;
    args.lse = lse;
    args.stream = h;
    CHECK_STATUS(pc_attend(plan, &args), PC_ERR_UNSUPPORTED);
    CHECK_ERROR_HAS("backend 'far' takes no stream of the caller");
    args.stream = NULL;
    CHECK_OK(pc_attend(plan, &args));
    CHECK_OK(pc__backend_copy(far, h->out, out, vectors * DIM * 4));
    CHECK_OK(pc__backend_copy(far, h->lse, lse, vectors * 4));
    compare(h);
    for (size_t i = 0; i < h->runs; i++)
        far->ops->give(far, pages[i]);
    far->ops->give(far, q), far->ops->give(far, out), far->ops->give(far, lse);
}

int main(void)
{
    static host layers[2];
    pc_context_options options = PC_CONTEXT_OPTIONS_INIT;
    pc_context *context;
    pc__backend *far;
    pc_plan *plan;
    options.backend = "far";
    options.threads = 2;
    if (!CHECK_OK(pc_context_new(&context, &options)))
        return pc_test_end();
    far = pc__backend_of(context);
    for (uint64_t l = 0; l < 2; l++)
        make_host(&layers[l], 5 + l);
    pc_plan_args args = host_plan_args(&layers[0], 0);
    CHECK_OK(pc_plan_new(&plan, context, &args));
    for (int l = 0; l < 2; l++)
        attend(far, plan, &layers[l]);
    pc_plan_free(plan);
    for (int l = 0; l < 2; l++)
        host_free(&layers[l]);
    pc_context_free(context);
    return pc_test_end();
}
