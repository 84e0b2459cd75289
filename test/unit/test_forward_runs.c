/* Catches: a pass that waits for layers of a loading run in which the run lies outside of the
 * window or in another chunk, or that does not wait for the layers that it reads. */
#include <string.h>

#include "model/forward/pass_build.h"
#include "model/model_states.h"
#include "random_model.h"
#include "testing.h"

enum { LAYERS = 4, TOKENS = 40, WINDOW = 16 };

typedef struct slow_run {
    pc__layer_stream stream;
    int awaited[LAYERS];
} slow_run;

static pc_status note(pc__layer_stream *stream, size_t layer)
{
    ((slow_run *)stream)->awaited[layer]++;
    return PC_OK;
}

/* Layers 0 and 2 see all; 1 and 3 have the window or the chunks. */
static pc_status make(pc_model **out, pc_context *context, int32_t window, int32_t chunk)
{
    pc__arch arch = random_arch(LAYERS, 8);
    arch.window = window;
    arch.chunk = chunk;
    arch.windowed.word[0] = window ? 10 : 0;
    arch.chunked.word[0] = chunk ? 10 : 0;
    return random_model_of(out, context, &arch, PC_DTYPE_F32, 0);
}

/* One new token at `position` that sees `seen`, which is still loading if `slow` is set. */
static void step(const pc_model *model, pc__kv *seen, int64_t position, slow_run *slow)
{
    pc__pass_build build = {0};
    pc__pass pass = {0};
    pc__kv *own = NULL;
    int64_t zero = 0;
    CHECK_OK(pc__model_run_new(model, 1, 0, &own));
    CHECK_OK(pc__kv_append(own, &zero, 1));
    own->origin = position;
    CHECK_OK(pc__build_start(&build, &model->context->mem, 1));
    pc__build_row(&build, &(pc__token_row){
                              .token = 5, .position = position, .run = own, .run_start = position});
    if (seen)
        CHECK_OK(pc__build_span(&build, seen, 0, 0, seen->tokens));
    CHECK_OK(pc__build_span(&build, own, position, 0, 1));
    pc__build_end(&build, &pass);
    if (slow)
        atomic_store(&seen->stream, &slow->stream);
    CHECK_OK(pc__forward(model, &pass));
    if (slow)
        atomic_store(&seen->stream, NULL);
    pc__build_free(&build);
    pc__kv_unref(own);
}

static void check(const pc_model *model, pc__kv *seen, int64_t position, int inside)
{
    slow_run slow = {.stream = {note}};
    step(model, seen, position, &slow);
    for (int l = 0; l < LAYERS; l++)
        CHECK_INT(slow.awaited[l], l % 2 == 0 || inside);
}

static void kind(pc_context *context, int32_t window, int32_t chunk)
{
    pc_model *model = NULL;
    pc__kv *seen = NULL;
    int64_t relative[TOKENS];
    for (int i = 0; i < TOKENS; i++)
        relative[i] = i;
    if (!CHECK_OK(make(&model, context, window, chunk)))
        return;
    CHECK_OK(pc__model_run_new(model, TOKENS, 0, &seen));
    CHECK_OK(pc__kv_append(seen, relative, TOKENS));
    check(model, seen, TOKENS, 1);
    check(model, seen, TOKENS - 2 + WINDOW, window > 0);
    check(model, seen, TOKENS - 1 + WINDOW, 0);
    check(model, seen, 3000, 0);
    pc__kv_unref(seen);
    pc_model_free(model);
}

int main(void)
{
    pc_context *context = NULL;
    if (CHECK_OK(pc_context_new(&context, NULL))) {
        kind(context, WINDOW, 0);
        kind(context, 0, TOKENS + 4); /* position 44 and above are in later chunks */
    }
    pc_context_free(context);
    return pc_test_end();
}
