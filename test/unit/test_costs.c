/* Catches: a planner that ignores costs (shares where reading alone is measured to be cheaper, or
 * the other way round), costs that change results, a tile larger than asked for, a file that is
 * damaged, foreign or unreadable and yet used, a leak when an allocation fails. */
#include "attn/costs.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "attn/kernels.h"
#include "attn/plan_internal.h"
#include "counted_context.h"

static pc_costs table(double base, double row, double from_memory)
{
    pc_costs c = PC_COSTS_INIT;
    snprintf(c.kernels, sizeof c.kernels, "%s", pc__kernels_get()->name);
    pc__cpu_name(c.cpu, sizeof c.cpu);
    c.source = PC_COSTS_MEASURED;
    for (size_t i = 0; i < PC_COST_COUNT; i++) {
        c.cached_ns[i] = base + row * (double)(1 << i);
        c.memory_ns[i] = c.cached_ns[i] + from_memory;
    }
    return c;
}

static void tiles(void)
{
    pc__cost_table shares = {NULL, table(100, 1, 0)}, alone = {NULL, table(1, 1, 0)},
                   memory = {NULL, table(0, 1, 50)};
    CHECK_INT(pc__cost_tile(&shares, 32, 4, 64, 1), 32);
    CHECK_INT(pc__cost_tile(&shares, 32, 4, 8, 1), 8);
    CHECK_INT(pc__cost_tile(&shares, 1, 4, 64, 1), 1);
    CHECK_INT(pc__cost_tile(&memory, 32, 1, 32, 1), 32); /* equal: together */
    CHECK_INT(pc__cost_tile(&memory, 32, 1, 32, 0), 32);
    for (size_t i = 3; i < PC_COST_COUNT; i++) /* more than four vectors at a time are slow */
        alone.public.cached_ns[i] = alone.public.memory_ns[i] = 1e3 * (double)(1 << i);
    CHECK_INT(pc__cost_tile(&alone, 32, 4, 64, 1), 1);
    CHECK_INT(pc__cost_tile(&alone, 32, 1, 64, 1), 4);
    CHECK(pc__cost(&shares, 3, 1) == 103 && pc__cost(&shares, 512, 1) == 612
          && pc__cost(&shares, 1, 0) == 101);
}

enum { ROWS = 12, TOKENS = 100, HEADS = 4, DIM = 16, OUT = ROWS * HEADS * DIM };

static void attend(pc_context *context, const pc__kv *kv, const float *q, float *out,
                   uint32_t *widest)
{
    pc__kv_shape shape = kv->shape;
    int64_t positions[ROWS];
    size_t first[ROWS + 1];
    pc__kv_span spans[ROWS];
    pc__rows rows = {ROWS, positions, first, spans, 0};
    pc__attn_layer layer = {.heads = HEADS, .scale = 0.25f};
    pc__row_plan *plan = NULL;
    for (size_t r = 0; r < ROWS; r++) {
        positions[r] = TOKENS;
        first[r] = r;
        spans[r] = (pc__kv_span){kv, 0, 0, TOKENS};
    }
    first[ROWS] = ROWS;
    if (!CHECK_OK(pc__row_plan_new(&plan, context, &pc__cpu_plan_limits, &rows, &shape, HEADS)))
        return;
    *widest = plan->tiles[0].widest;
    CHECK_OK(pc__plan_attend(plan, &layer, q, out, NULL));
    pc__row_plan_free(plan);
}

static void plans_follow(void)
{
    pc__kv_shape shape = {1, HEADS, DIM, DIM, PC_DTYPE_F32, 0};
    pc_costs shares = table(100, 1, 0), alone = table(0, 1, 0);
    pc_test_rng rng = {5};
    pc_context *context = NULL;
    pc__kv *kv = NULL;
    float token[HEADS * DIM], q[OUT], together[OUT], apart[OUT];
    uint32_t widest = 0;
    for (size_t i = 2; i < PC_COST_COUNT; i++)
        alone.cached_ns[i] = alone.memory_ns[i] = 1e4 * (double)(1 << i);
    CHECK_OK(pc_context_new(&context, NULL));
    CHECK_OK(pc__kv_new(&kv, &pc__libc_allocator, &shape, TOKENS));
    for (int64_t t = 0; t < TOKENS; t++) {
        for (size_t i = 0; i < HEADS * DIM; i++)
            token[i] = pc_test_normal(&rng);
        CHECK_OK(pc__kv_append(kv, &t, 1));
        pc__kv_write(kv, 0, (size_t)t, token, token);
    }
    for (size_t i = 0; i < OUT; i++)
        q[i] = pc_test_normal(&rng);
    CHECK_OK(pc__costs_use(context, &shares));
    attend(context, kv, q, together, &widest);
    CHECK_INT(widest, ROWS);
    CHECK_OK(pc__costs_use(context, &alone));
    attend(context, kv, q, apart, &widest);
    CHECK(widest <= 2);
    CHECK(!memcmp(together, apart, sizeof apart));
    pc__kv_unref(kv);
    pc_context_free(context);
}

static pc_costs in_force(const char *path)
{
    pc_context *context = NULL;
    pc_costs costs = PC_COSTS_INIT;
    setenv("PC_COSTS", path, 1);
    CHECK_OK(pc_context_new(&context, NULL));
    CHECK_OK(pc_costs_get(context, &costs));
    pc_context_free(context);
    return costs;
}

static void refuses(const char *path, const char *text)
{
    pc_costs costs;
    pc_test_write(path, text, strlen(text));
    CHECK(pc__costs_read(&pc__libc_allocator, path, pc__kernels_get()->name, &costs) < 0);
    CHECK_INT(in_force(path).source, PC_COSTS_BUILT_IN);
}

/* A link could lead to a file of somebody else, also where the draft is written. */
static void links(void)
{
    char path[512], victim[512], draft[560];
    pc_costs costs = table(7, 1, 3), read;
    struct stat st;
    size_t size;
    snprintf(path, sizeof path, "%s/linked/costs", pc_test_folder());
    snprintf(victim, sizeof victim, "%s/victim", pc_test_folder());
    snprintf(draft, sizeof draft, "%s.%ld", path, (long)getpid());
    CHECK_OK(pc__costs_write(&pc__libc_allocator, path, &costs));
    pc_test_write(victim, "mine", 4);
    CHECK(!symlink(victim, draft));
    CHECK_OK(pc__costs_write(&pc__libc_allocator, path, &costs));
    char *text = pc_test_read(victim, &size);
    CHECK(text && size == 4 && !memcmp(text, "mine", 4));
    free(text);
    CHECK(!lstat(path, &st) && S_ISREG(st.st_mode));
    CHECK(!rename(path, victim) && !symlink(victim, path));
    CHECK_STATUS(pc__costs_read(&pc__libc_allocator, path, costs.kernels, &read), PC_ERR_IO);
    CHECK_ERROR_HAS("link");
    CHECK(!unlink(path) && !rename(victim, path));
    CHECK_OK(pc__costs_read(&pc__libc_allocator, path, costs.kernels, &read));
    CHECK(!chmod(path, 0666));
    CHECK_STATUS(pc__costs_read(&pc__libc_allocator, path, costs.kernels, &read), PC_ERR_STATE);
}

static void files(void)
{
    char path[512], head[256];
    pc_costs costs = table(7, 1, 3), read;
    size_t size = 0;
    snprintf(path, sizeof path, "%s/much/deep/er/costs", pc_test_folder());
    CHECK_STATUS(pc__costs_write(&pc__libc_allocator, path, &costs),
                 PC_ERR_IO); /* only the last two folders are made */
    snprintf(path, sizeof path, "%s/promptcache/costs", pc_test_folder());
    CHECK_INT(in_force(path).source, PC_COSTS_BUILT_IN);
    CHECK_OK(pc__costs_write(&pc__libc_allocator, path, &costs));
    CHECK_OK(pc__costs_read(&pc__libc_allocator, path, costs.kernels, &read));
    CHECK(!memcmp(read.cached_ns, costs.cached_ns, sizeof read.cached_ns)
          && !memcmp(read.memory_ns, costs.memory_ns, sizeof read.memory_ns));
    CHECK_STATUS(pc__costs_read(&pc__libc_allocator, path, "other", &read), PC_ERR_MISMATCH);
    CHECK_ERROR_HAS("bench calibrate");
    CHECK_INT(in_force(path).source, PC_COSTS_FROM_FILE);
    CHECK(in_force(path).cached_ns[3] == 15.0);
    CHECK_INT(in_force("builtin").source, PC_COSTS_BUILT_IN);

    char *whole = pc_test_read(path, &size);
    for (size_t n = 0; whole && n + 1 < size;
         n++) { /* every truncation; what lacks digits of its last number only is a number still */
        char saved = whole[n];
        whole[n] = 0;
        pc_test_write(path, whole, n);
        if (n + 4 < size)
            CHECK(pc__costs_read(&pc__libc_allocator, path, costs.kernels, &read) < 0);
        whole[n] = saved;
    }
    free(whole);
    snprintf(head, sizeof head, "promptcache costs 1\ncpu %s\nkernels %s\n", costs.cpu,
             costs.kernels);
    refuses(path, "");
    refuses(path, head);
    refuses(path, "promptcache costs 2\n");
    refuses(path, "promptcache costs 1\ncpu Z80\nkernels c\n1 1 1\n");
    strcat(head, "1 nan 3\n2 1 1\n4 1 1\n8 1 1\n16 1 1\n32 1 1\n64 1 1\n128 1 1\n256 1 1\n");
    refuses(path, head);
    setenv("PC_COSTS", "builtin", 1);
}

static void out_of_memory(void)
{
    char path[512];
    pc_costs costs = table(7, 1, 3), got;
    snprintf(path, sizeof path, "%s/promptcache/costs", pc_test_folder());
    CHECK_OK(pc__costs_write(&pc__libc_allocator, path, &costs));
    setenv("PC_COSTS", path, 1);
    for (uint64_t at = 1; at < 8; at++) { /* without memory for the file's: the estimates */
        pc_test_memory memory = {0};
        pc_context *context = pc_test_counted_context(&memory, 1);
        memory.fail_at = memory.calls + at;
        got = (pc_costs)PC_COSTS_INIT;
        CHECK_OK(pc_costs_get(context, &got));
        CHECK(got.source == PC_COSTS_BUILT_IN || memory.calls < memory.fail_at);
        pc_context_free(context);
        CHECK_INT(memory.live_blocks, 0);
    }
    setenv("PC_COSTS", "builtin", 1);
}

int main(void)
{
    pc_costs costs = PC_COSTS_INIT;
    tiles();
    plans_follow();
    files();
    links();
    out_of_memory();
    CHECK_STATUS(pc_costs_get(NULL, &costs), PC_ERR_INVALID);
    return pc_test_end();
}
