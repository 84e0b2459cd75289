/* Catches: work that fails for want of memory although other work only has it for a while: when a
 * run of its own grows, before its pass begins, or in the midst of the pass. It must run again. */
#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#include "attn/backend.h"
#include "model/forward/pass_build.h"
#include "model/model_states.h"
#include "random_model.h"
#include "testing.h"

enum { ROWS = 48, STEP = 4096, STEPS = 40 };

typedef struct work {
    const pc_model *model;
    float logits[ROWS * RANDOM_VOCAB];
    pc_status status;
} work;

/* All rows of one text, with their logits. */
static pc_status compute(void *arg)
{
    work *w = arg;
    pc_status status;
    pc__pass_build build = {0};
    pc__pass pass = {0};
    pc__kv *own = NULL;
    PC__TRY(pc__model_run_new(w->model, 0, 0, &own), done);
    PC__TRY(pc__build_start(&build, &w->model->context->mem, ROWS), done);
    for (int64_t i = 0; i < ROWS; i++) {
        PC__TRY(pc__kv_append(own, &i, 1), done);
        pc__build_row(&build, &(pc__token_row){.token = (int32_t)i,
                                               .position = i,
                                               .run = own,
                                               .slot = (size_t)i,
                                               .want_logits = 1});
        PC__TRY(pc__build_span(&build, own, 0, 0, (uint32_t)i + 1), done);
    }
    pc__build_end(&build, &pass);
    pass.logits = w->logits;
    status = pc__forward(w->model, &pass);
done:
    pc__build_free(&build);
    pc__kv_unref(own);
    return status;
}

static void *run(void *arg)
{
    work *w = arg;
    w->status = pc__model_work(w->model, compute, w, 0);
    if (w->status < 0)
        fprintf(stderr, "    %s\n", pc_error_text());
    return NULL;
}

static size_t free_bytes(pc__backend *backend)
{
    size_t has = 0;
    for (size_t step = (size_t)1 << 24; step >= STEP; step /= 2) {
        void *memory = backend->ops->take(backend, has + step);
        has += memory ? step : 0;
        backend->ops->give(backend, memory);
    }
    return has;
}

typedef struct other {
    pc__backend *backend;
    size_t left;
    work *beside;
    pthread_t thread;
} other;

static pc_status have_most(void *arg)
{
    other *o = arg;
    void *most = o->backend->ops->take(o->backend, free_bytes(o->backend) - o->left);
    CHECK(most != NULL);
    pthread_create(&o->thread, NULL, run, o->beside);
    nanosleep(&(struct timespec){0, 4000000}, NULL);
    o->backend->ops->give(o->backend, most);
    return PC_OK;
}

/* Other work has all but `left` bytes for a while. */
static void beside(pc__backend *backend, const pc_model *model, size_t left, const float *want)
{
    static work w;
    other o = {backend, left, &w, 0};
    w = (work){.model = model};
    CHECK_OK(pc__kv_mirrors_work(backend, have_most, &o, 0));
    pthread_join(o.thread, NULL);
    if (!CHECK_OK(w.status))
        fprintf(stderr, "    with %zu bytes\n", left);
    CHECK(!memcmp(w.logits, want, sizeof w.logits));
}

int main(void)
{
    static work alone;
    const random_model shape = {PC_POSITION_ROPE, PC_DTYPE_F32, 0, 16, 4096};
    pc_context_options options = PC_CONTEXT_OPTIONS_INIT;
    pc_context *context = NULL;
    options.backend = "far";
    options.threads = 1;
    setenv("PC_TEST_FAR_MEMORY", "1000000", 1);
    if (!CHECK_OK(pc_context_new(&context, &options)))
        return pc_test_end();
    CHECK_OK(random_model_new((pc_model **)(uintptr_t)&alone.model, context, &shape));
    run(&alone);
    CHECK_OK(alone.status);
    for (size_t i = 0; i <= STEPS; i++)
        beside(pc__backend_of(context), alone.model, i * STEP, alone.logits);
    pc_model_free((pc_model *)(uintptr_t)alone.model);
    pc_context_free(context);
    return pc_test_end();
}
