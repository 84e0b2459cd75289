/* The structs of attention by hand, through the calls that read them. Catches what
 * test_options_abi.c catches. */
#include "options_rules.h"
#include "pages_write.h"
#include "testing.h"

#include <promptcache/admin.h>
#include <promptcache/attend.h>
#include <promptcache/bench.h>

enum { TOKENS = 3 };

static pc_context *context;
static pc_plan *plan;
static _Alignas(64) unsigned char pages[1 << 16];
static const void *const page_table[] = {pages};
static const double frequency[] = {1};
static const pc_run run = {TOKENS, NULL, NULL};
static const pc_row_span span = {0, 0, 0, TOKENS, 0};
static const uint32_t first[] = {0, 1};
static const int64_t position = TOKENS;
static const float q[2] = {1, 2};
static float out[2];

/* Set up in start(), as a caller does. */
static pc_attend_shape shape = PC_ATTEND_SHAPE_INIT;
static pc_plan_args plan_args = PC_PLAN_ARGS_INIT;
static pc_attend_args attend_args = PC_ATTEND_ARGS_INIT;
static pc_rope rope = PC_ROPE_INIT;

static pc_status use_shape(const void *options)
{
    const float k[2 * TOKENS] = {1, 2, 3, 4, 5, 6};
    return write_pages(options, pages, 0, TOKENS, k, k);
}

static pc_status use_plan(const void *options)
{
    pc_plan *made = plan;
    pc_status status = pc_plan_new(&made, context, options);
    CHECK((status >= 0) == (made != NULL));
    pc_plan_free(made);
    return status;
}

static pc_status use_attend(const void *options)
{
    return pc_attend(plan, options);
}

static pc_status use_rope(const void *options)
{
    pc_attend_args args = attend_args;
    args.rope = options;
    return pc_attend(plan, &args);
}

static pc_status use_pool(const void *options)
{
    pc_plan_args args = plan_args;
    pc_plan *made = NULL;
    args.pool = options;
    pc_status status = pc_plan_new(&made, context, &args);
    pc_plan_free(made);
    return status;
}

static pc_status use_pages_write(const void *options)
{
    return pc_pages_write(options);
}

static pc_status use_pages_read(const void *options)
{
    return pc_pages_read(options);
}

static pc_status use_merge(const void *options)
{
    return pc_merge(options);
}

static pc_calibrate_options calibrate_args = PC_CALIBRATE_OPTIONS_INIT;

static pc_status use_calibrate(const void *options)
{
    return pc_calibrate(context, options); /* saves nothing: PC_COSTS is "builtin" in the tests */
}

static pc_status fill_costs(void *costs)
{
    return pc_costs_get(context, costs);
}

static const pc_write_case costs_case = {"pc_costs", fill_costs, sizeof(pc_costs), 400};

static const float *const parts[] = {q};
static float k[2 * TOKENS] = {1, 2, 3, 4, 5, 6};
static pc_pool pool = PC_POOL_INIT;
static pc_pages_args pages_args = PC_PAGES_ARGS_INIT;
static pc_merge_args merge_args = PC_MERGE_ARGS_INIT;

static const pc_read_case cases[] = {
    PC_READ_CASE(pc_attend_shape, use_shape, &shape, 32, PC_FIELD(pc_attend_shape, reserved),
                 PC_NO_FIELD, 0, 0),
    PC_READ_CASE(pc_plan_args, use_plan, &plan_args, 104, PC_NO_FIELD,
                 PC_FIELD(pc_plan_args, flags), PC_PLAN_PER_ROW, 0),
    PC_READ_CASE(pc_attend_args, use_attend, &attend_args, 144, PC_NO_FIELD,
                 PC_FIELD(pc_attend_args, flags), 0, 0),
    PC_READ_CASE(pc_pool, use_pool, &pool, 80, PC_NO_FIELD, PC_NO_FIELD, 0, 0),
    PC_READ_CASE(pc_pages_args, use_pages_write, &pages_args, 96, PC_NO_FIELD, PC_NO_FIELD, 0, 0),
    PC_READ_CASE(pc_pages_args, use_pages_read, &pages_args, 96, PC_NO_FIELD, PC_NO_FIELD, 0, 0),
    PC_READ_CASE(pc_merge_args, use_merge, &merge_args, 88, PC_NO_FIELD,
                 PC_FIELD(pc_merge_args, flags), PC_MERGE_BASE2, 0),
    PC_READ_CASE(pc_rope, use_rope, &rope, 32, PC_FIELD(pc_rope, reserved), PC_NO_FIELD, 0, 1),
    PC_READ_CASE(pc_calibrate_options, use_calibrate, &calibrate_args, 32, PC_NO_FIELD, PC_NO_FIELD,
                 0, 1),
};

static int start(void)
{
    shape.heads = shape.kv_heads = 1;
    shape.k_dim = shape.v_dim = 2;
    shape.dtype = PC_DTYPE_F32;
    plan_args.shape = &shape;
    plan_args.runs = &run;
    plan_args.run_stride = sizeof(pc_run);
    plan_args.run_count = 1;
    plan_args.positions = &position;
    plan_args.first = first;
    plan_args.spans = &span;
    plan_args.span_stride = sizeof(pc_row_span);
    plan_args.row_count = 1;
    attend_args.pages = page_table;
    attend_args.q = q;
    attend_args.out = out;
    pool.page_tokens = 16;
    pool.page_count = 1;
    pages_args.shape = &shape;
    pages_args.pages = pages;
    pages_args.count = TOKENS;
    pages_args.k = pages_args.v = k;
    merge_args.outs = merge_args.lses = parts;
    merge_args.part_count = merge_args.row_count = 1;
    merge_args.heads = merge_args.v_dim = 1;
    merge_args.out = out;
    rope.dims = 2;
    rope.frequency = frequency;
    return CHECK(pc_pages_bytes(&shape, TOKENS) <= sizeof pages)
           && CHECK_OK(pc_context_new(&context, NULL))
           && CHECK_OK(pc_plan_new(&plan, context, &plan_args));
}

int main(void)
{
    int started = start();
    for (size_t i = 0; i < sizeof cases / sizeof *cases && started; i++)
        pc_check_read(&cases[i]);
    if (started)
        pc_check_write(&costs_case);
    pc_plan_free(plan);
    pc_context_free(context);
    return pc_test_end();
}
