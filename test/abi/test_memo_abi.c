/* The structs of the memo and of prefill-only work, by the rules of doc/abi.md. Catches what
 * test_options_abi.c catches, for these. */
#include "options_rules.h"
#include "testing.h"

#include <promptcache/bench.h>
#include <promptcache/memo.h>

static pc_context *context;
static pc_model *model;
static pc_memo *memo;
static char folder[512];
static const pc_memo_options open_init = PC_MEMO_OPTIONS_INIT;
static const pc_memo_work work_init = PC_MEMO_WORK_INIT;
static const pc_prefill_options prefill_init = PC_PREFILL_OPTIONS_INIT;

static pc_status use_open(const void *options)
{
    static int number;
    char path[600];
    pc_memo *out = memo;
    pc_status status;
    snprintf(path, sizeof path, "%s/%d", folder, number++);
    CHECK_OK(pc_memo_open(&out, model, path, NULL)); /* so that a reader has something to read */
    pc_memo_free(out);
    status = pc_memo_open(&out, model, path, options);
    CHECK((status == PC_OK) == (out != NULL));
    pc_memo_free(out);
    return status;
}

static pc_status use_work(const void *options)
{
    return pc_memo_add(memo, NULL, sizeof(pc_input), 0, options);
}

static pc_status use_prefill(const void *options)
{
    return pc_prefill(model, NULL, sizeof(pc_input), 0, options, NULL);
}

static pc_status fill_bucket(void *result)
{
    return pc_memo_get_bucket(memo, 0, result);
}

static pc_status fill_stats(void *result)
{
    return pc_memo_get_stats(memo, result);
}

static pc_status fill_prefill(void *result)
{
    return pc_prefill(model, NULL, sizeof(pc_input), 0, NULL, result);
}

static const pc_read_case reads[] = {
    PC_READ_CASE(pc_memo_options, use_open, &open_init, 88, PC_NO_FIELD,
                 PC_FIELD(pc_memo_options, flags), PC_MEMO_READ_ONLY | PC_MEMO_LAYERS, 1),
    PC_READ_CASE(pc_memo_work, use_work, &work_init, 72, PC_NO_FIELD, PC_NO_FIELD, 0, 1),
    PC_READ_CASE(pc_prefill_options, use_prefill, &prefill_init, 104,
                 PC_FIELD(pc_prefill_options, reserved), PC_FIELD(pc_prefill_options, flags),
                 PC_PREFILL_NORMALIZE | PC_PREFILL_MAPS, 1)};
static const pc_write_case writes[] = {
    {"pc_memo_bucket", fill_bucket, sizeof(pc_memo_bucket), 128},
    {"pc_memo_stats", fill_stats, sizeof(pc_memo_stats), 112},
    {"pc_prefill_stats", fill_prefill, sizeof(pc_prefill_stats), 88}};

int main(void)
{
    snprintf(folder, sizeof folder, "%s", pc_test_folder());
    if (CHECK_OK(pc_context_new(&context, NULL))
        && CHECK_OK(pc_model_new_shape(&model, context, "tiny", 0, NULL))) {
        char own[600];
        snprintf(own, sizeof own, "%s/own", folder);
        CHECK_OK(pc_memo_open(&memo, model, own, NULL));
        for (size_t i = 0; i < sizeof reads / sizeof *reads; i++)
            pc_check_read(&reads[i]);
        for (size_t i = 0; i < sizeof writes / sizeof *writes; i++)
            pc_check_write(&writes[i]);
    }
    pc_memo_free(memo);
    pc_model_free(model);
    pc_context_free(context);
    return pc_test_end();
}
