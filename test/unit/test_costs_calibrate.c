/* Catches: impossible costs (not positive, a pass over many rows that is cheaper than one over a
 * single row, cached pages that cost more than pages in memory); a calibration that has no effect
 * or is not saved; one that leaves something behind when it is cancelled, runs out of memory or
 * cannot write. */
#include <promptcache/admin.h>
#include <stdlib.h>
#include <string.h>

#include "counted_context.h"

static int32_t stop(void *user, const char *what, uint64_t done, uint64_t total)
{
    (void)what;
    return done == 2 && total == PC_COST_COUNT && ++*(int *)user;
}

static pc_costs costs_of(pc_context *context)
{
    pc_costs costs = PC_COSTS_INIT;
    CHECK_OK(pc_costs_get(context, &costs));
    return costs;
}

int main(void)
{
    pc_context *context = NULL, *second = NULL;
    pc_calibrate_options options = PC_CALIBRATE_OPTIONS_INIT;
    char path[512];
    int stopped = 0;
    size_t size;
    snprintf(path, sizeof path, "%s/promptcache/costs", pc_test_folder());
    setenv("PC_COSTS", path, 1);
    CHECK_OK(pc_context_new(&context, NULL));
    CHECK_INT(costs_of(context).source, PC_COSTS_BUILT_IN);

    options.progress = stop;
    options.progress_user = &stopped;
    CHECK_STATUS(pc_calibrate(context, &options), PC_ERR_CANCELLED);
    CHECK_INT(stopped, 1);
    CHECK_INT(costs_of(context).source, PC_COSTS_BUILT_IN);
    CHECK(!pc_test_read(path, &size));

    CHECK_OK(pc_calibrate(context, NULL));
    pc_costs costs = costs_of(context);
    CHECK_INT(costs.source, PC_COSTS_MEASURED);
    for (size_t i = 0; i < PC_COST_COUNT; i++)
        CHECK(costs.cached_ns[i] > 0 && costs.memory_ns[i] >= costs.cached_ns[i]);
    CHECK(costs.cached_ns[PC_COST_COUNT - 1] > costs.cached_ns[0]);
    CHECK_OK(pc_context_new(&second, NULL));
    CHECK_INT(costs_of(second).source, PC_COSTS_FROM_FILE);
    CHECK_STR(costs_of(second).kernels, costs.kernels);
    pc_context_free(second);

    options = (pc_calibrate_options)PC_CALIBRATE_OPTIONS_INIT;
    options.path = "/proc/nowhere/costs";
    CHECK_STATUS(pc_calibrate(context, &options), PC_ERR_IO);
    CHECK_STATUS(pc_calibrate(NULL, NULL), PC_ERR_INVALID);
    pc_context_free(context);

    for (uint64_t at = 1; at <= 3; at++) {
        pc_test_memory memory = {0};
        context = pc_test_counted_context(&memory, 1);
        options.path = "";
        memory.fail_at = memory.calls + at;
        CHECK_STATUS(pc_calibrate(context, &options), PC_ERR_NOMEM);
        pc_context_free(context);
        CHECK_INT(memory.live_blocks, 0);
    }
    return pc_test_end();
}
