/* Catches: an application's model with missing functions, `user` freed twice or on failure, a model
 * without tokenizer that does more than refuse, missing argument checks. */
#include "model/model.h"

#include <string.h>

#include "testing.h"

typedef struct host {
    int freed;
    int32_t vocab;
    pc_status answer;
} host;

static pc_status describe(void *user, pc_model_info *info)
{
    const host *h = user;
    memset(info->architecture, 'x', sizeof info->architecture); /* without its NUL */
    info->vocab = h->vocab;
    info->context_length = 64;
    return h->answer;
}

static pc_status encode(void *user, const pc_encode_args *args, void **segments)
{
    (void)user;
    (void)args;
    (void)segments;
    return PC_ERR_UNSUPPORTED;
}

static void release(void *user, void *segment)
{
    (void)user;
    (void)segment;
}

static pc_status sequence_new(void *user, const pc_sequence_args *args, void **sequence)
{
    (void)args;
    *sequence = user;
    return PC_OK;
}

static pc_status attach(void *user, void *sequence, const pc_span *placement)
{
    (void)user;
    (void)sequence;
    (void)placement;
    return PC_OK;
}

static pc_status step(void *user, const pc_step_args *args)
{
    (void)user;
    (void)args;
    return PC_OK;
}

/* one token a byte */
static pc_status tokenize(void *user, const char *text, size_t size, uint64_t flags,
                          int32_t *tokens, size_t capacity, size_t *count)
{
    (void)user;
    (void)flags;
    *count = size;
    for (size_t i = 0; i < size && i < capacity; i++)
        tokens[i] = (unsigned char)text[i];
    return size > capacity && tokens ? pc__fail(PC_ERR_LIMIT, "%zu tokens", size) : PC_OK;
}

static void on_free(void *user)
{
    ((host *)user)->freed++;
}

static pc_model_ops whole(void)
{
    pc_model_ops ops = PC_MODEL_OPS_INIT;
    ops.describe = describe;
    ops.encode = encode;
    ops.release = release;
    ops.sequence_new = sequence_new;
    ops.attach = attach;
    ops.step = step;
    ops.drop = release;
    return ops;
}

static void missing(pc_context *context)
{
    host h = {0, 256, PC_OK};
    pc_model *model = (pc_model *)&h;
    pc_model_ops ops = whole();
    ops.step = NULL;
    CHECK_STATUS(pc_model_from_ops(&model, context, &ops, &h, on_free, NULL), PC_ERR_INVALID);
    CHECK_ERROR_HAS("ops.step");
    CHECK(!model);
    ops = whole();
    h.vocab = 0;
    CHECK_STATUS(pc_model_from_ops(&model, context, &ops, &h, on_free, NULL), PC_ERR_INVALID);
    CHECK_ERROR_HAS("vocabulary");
    h.answer = PC_ERR_IO;
    CHECK_STATUS(pc_model_from_ops(&model, context, &ops, &h, on_free, NULL), PC_ERR_IO);
    CHECK_STATUS(pc_model_from_ops(&model, context, NULL, &h, on_free, NULL), PC_ERR_INVALID);
    CHECK_STATUS(pc_model_from_ops(NULL, context, &ops, &h, on_free, NULL), PC_ERR_INVALID);
    CHECK_INT(h.freed, 0);
}

static void lives(pc_context *context)
{
    host h = {0, 256, PC_OK};
    pc_model *model = NULL;
    pc_model_ops ops = whole();
    pc_model_info info = PC_MODEL_INFO_INIT;
    int32_t few[2], *all = NULL;
    size_t count = 9;
    CHECK_OK(pc_model_from_ops(&model, context, &ops, &h, on_free, NULL));
    CHECK_OK(pc_model_get_info(model, &info));
    CHECK_INT(strlen(info.architecture), sizeof info.architecture - 1);
    CHECK_INT(info.context_length, 64);
    CHECK_STATUS(pc_tokenize(model, "abc", 3, 0, NULL, 0, &count), PC_ERR_UNSUPPORTED);
    CHECK_STATUS(pc_detokenize(model, few, 0, 0, NULL, 0, &count), PC_ERR_UNSUPPORTED);
    pc_model_free(model);
    CHECK_INT(h.freed, 1);
    ops.tokenize = tokenize;
    CHECK_OK(pc_model_from_ops(&model, context, &ops, &h, on_free, NULL));
    CHECK_STATUS(pc_tokenize(model, "abc", 3, 0, few, 2, &count), PC_ERR_LIMIT);
    CHECK_INT(count, 3);
    CHECK_STATUS(pc_tokenize(model, "abc", 3, UINT64_C(1) << 40, few, 2, &count), PC_ERR_INVALID);
    CHECK_STATUS(pc_tokenize(model, NULL, 3, 0, few, 2, &count), PC_ERR_INVALID);
    CHECK_OK(pc__model_tokens(model, "abc", 3, 0, &all, &count));
    CHECK_INT(count, 3);
    CHECK_INT(all[2], 'c');
    pc__free(&context->mem, all);
    CHECK_OK(pc__model_tokens(model, "", 0, 0, &all, &count));
    CHECK(all != NULL && count == 0);
    pc__free(&context->mem, all);
    pc_model *second = pc__model_ref(model);
    pc_model_free(model);
    CHECK_INT(h.freed, 1);
    pc_model_free(second);
    CHECK_INT(h.freed, 2);
    pc_model_free(NULL);
}

int main(void)
{
    pc_context *context = NULL;
    CHECK_OK(pc_context_new(&context, NULL));
    missing(context);
    lives(context);
    pc_context_free(context);
    return pc_test_end();
}
