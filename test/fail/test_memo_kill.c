/* A memo with index files whose process is killed, or whose disk fails, at every system call while
 * it is opened, adds, trains, tidies and closes. Catches: reported prompts that are missing;
 * half-written index files that are used or reported as damage; indexes that find other records
 * than ones computed from pooled inputs; a memo that cannot be opened any more; leaked descriptors.
 * Locks of ranges do not fail here: a record that cannot be locked counts as in use, and another
 * one is evicted (test_maps_kill). PC_TEST_LONG=1: all calls with both errors. */
#include <promptcache/bench.h>
#include <limits.h>
#include <string.h>

#include "failing_calls.h"
#include "memo/index/index.h"
#include "memo_prompts.h"

WRAP_MMAP(mmap)
WRAP_MMAP(mmap64)
WRAP(fsync, (int fd), (fd))
WRAP(fdatasync, (int fd), (fd))

static struct {
    size_t first,
        more; /* prompts that exist, and prompts that are added: enough to write an index file */
    uint32_t index;
} plan;
typedef struct diary { /* shared with the parent */
    volatile uint64_t reported, trained, closed;
} diary;
static diary *told;
static pc_model *model;
static char made[300]; /* a memo without index files */
static int damages;

static void hear(void *user, uint32_t level, const char *line)
{
    (void)user;
    damages += level == PC_LOG_WARN && strstr(line, "is computed again") != NULL;
}

static pc_status open_in(pc_memo **memo, const char *path, uint32_t index, uint64_t flags)
{
    static const uint32_t lengths[] = {16};
    pc_memo_options o = PC_MEMO_OPTIONS_INIT;
    o.flags = flags;
    o.bucket_tokens = lengths;
    o.bucket_count = 1;
    o.index = index;
    o.verify_share = -1;
    return pc_memo_open(memo, model, path, &o);
}

static uint64_t live_in(pc_memo *memo)
{
    pc_memo_stats s = PC_MEMO_STATS_INIT;
    CHECK_OK(pc_memo_get_stats(memo, &s));
    return s.live;
}

static int32_t note(void *user, const char *what, uint64_t done, uint64_t total)
{
    (void)user, (void)what, (void)total;
    told->reported = done;
    return 0;
}

/* ------------------------------------------------------------- a memo to begin with */

static void copy(const char *path, const char *file)
{
    char from[600], to[600];
    size_t size;
    snprintf(from, sizeof from, "%s/%s", made, file);
    snprintf(to, sizeof to, "%s/%s", path, file);
    char *data = pc_test_read(from, &size);
    if (CHECK(data))
        pc_test_write(to, data, size);
    free(data);
}

static void make(const char *path)
{
    char maps[600];
    memset(told, 0, sizeof *told);
    snprintf(maps, sizeof maps, "%s/maps", path);
    CHECK(!mkdir(path, 0700) && !mkdir(maps, 0700));
    copy(path, "memo.pcm");
    copy(path, "projector-16.pcp");
    copy(path, "maps/maps.log");
    copy(path, "maps/maps.data");
}

static void make_first(void)
{
    char kept[400];
    pc_memo *memo = NULL;
    pc_memo_work work = PC_MEMO_WORK_INIT;
    pc_input *inputs = memo_prompts(0, plan.first);
    work.epochs = 1;
    snprintf(made, sizeof made, "%s/made", pc_test_folder());
    CHECK_OK(open_in(&memo, made, plan.index, 0));
    CHECK_OK(pc_memo_add(memo, inputs, sizeof(pc_input), plan.first, NULL));
    CHECK_OK(pc_memo_train(memo, &work));
    pc_memo_free(memo);
    snprintf(kept, sizeof kept, "%s/index-16.pci", made);
    CHECK(!unlink(kept)); /* the file was worth writing */
    memo_prompts_free(inputs);
}

/* --------------------------------------------------------------------- accidents */

/* Index files are written on opening, on closing and after training. */
static int scenario(const char *path)
{
    pc_memo *memo = NULL;
    pc_memo_work work = PC_MEMO_WORK_INIT;
    pc_input *inputs = memo_prompts(plan.first, plan.more);
    work.progress = note;
    if (open_in(&memo, path, plan.index, 0) == PC_OK
        && pc_memo_add(memo, inputs, sizeof(pc_input), plan.more, &work) == PC_OK)
        told->closed = 1;
    pc_memo_free(memo);
    memo = NULL;
    work.progress = NULL;
    work.epochs = 1;
    work.seed = 7;
    if (told->closed && open_in(&memo, path, plan.index, 0) == PC_OK) {
        told->trained = pc_memo_train(memo, &work) == PC_OK;
        (void)pc_memo_tidy(memo);
    }
    pc_memo_free(memo);
    memo_prompts_free(inputs);
    return 0;
}

static int check(const char *path)
{
    pc_memo *memo = NULL;
    pc_memo_bucket b = PC_MEMO_BUCKET_INIT;
    memo_found exact, kept;
    int fine, was_trained;
    damages = 0;
    fine = CHECK_OK(open_in(&memo, path, PC_INDEX_SCAN, PC_MEMO_READ_ONLY));
    if (!memo)
        return 0;
    fine &= CHECK(live_in(memo) >= plan.first + told->reported);
    fine &= CHECK_OK(pc_memo_get_bucket(memo, 0, &b));
    was_trained = b.trained != 0;
    fine &= CHECK(was_trained || !told->trained); /* a kill between a new projector and its head
                                                     leaves the bucket untrained */
    if (was_trained)
        exact = memo_look(model, memo);
    pc_memo_free(memo);
    memo = NULL;
    for (int i = 0; i < 2 && was_trained; i++) { /* as found, then as its writer left it */
        fine &= CHECK_OK(open_in(&memo, path, plan.index, i ? PC_MEMO_READ_ONLY : 0));
        kept = memo_look(model, memo);
        fine &= memo_same(&kept, &exact);
        pc_memo_free(memo);
        memo = NULL;
    }
    return fine & CHECK_INT(damages, 0);
}

int main(void)
{
    const char *longer = getenv("PC_TEST_LONG");
    int is_long = longer && *longer && strcmp(longer, "0");
    long few = 1; /* a scan is saved from 1024 records on: many more calls */
    pc_context_options o = PC_CONTEXT_OPTIONS_INIT;
    pc_context *context = NULL;
    if (pc__index_has_faiss())
        plan.first = 60, plan.more = 45, plan.index = PC_INDEX_HNSW;
    else
        plan.first = 1100, plan.more = 1100, plan.index = PC_INDEX_SCAN, few = 20;
    told = mmap(NULL, sizeof *told, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    o.threads = 1;
    o.log = hear;
    CHECK_OK(pc_context_new(&context, &o));
    CHECK_OK(pc_model_new_shape(&model, context, "tiny", 0, NULL));
    make_first();
    kill_at_each_call(KILL,
                      &(accident){"kill", is_long ? 1 : 29 * few, 300, make, scenario, check});
    kill_at_each_call(HALF_WRITE,
                      &(accident){"half", is_long ? 1 : 11 * few, 100, make, scenario, check});
    fail_at_each_call(EIO, &(accident){.step = is_long ? 1 : 41 * few,
                                       .prepare = make,
                                       .scenario = scenario,
                                       .check = check});
    fail_at_each_call(ENOSPC, &(accident){.step = is_long ? 1 : 53 * few,
                                          .prepare = make,
                                          .scenario = scenario,
                                          .check = check});
    pc_model_free(model);
    pc_context_free(context);
    return pc_test_end();
}
