/* Catches: packed weights that give other logits than packing, or are copied; a stale, foreign, cut
 * or damaged file that is used, fails a load or stays; files of one CPU level read at another; a
 * load that fails because nothing can be written, or for a reason of the folder where the model's
 * is wanted; a file that others may write; models and processes that disturb each other; leaks when
 * memory runs out. */
#include <dirent.h>
#include <fcntl.h>
#include <promptcache/extend.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "counted_context.h"

enum { N = 3 };
static char model_path[300], folder[300];

typedef struct answer {
    float *logits;
    size_t count;
    uint8_t fingerprint[32];
} answer;

static int evaluate(pc_model *model, answer *out)
{
    static const int32_t tokens[N] = {1, 40, 300};
    static const int64_t positions[N] = {0, 1, 2};
    pc_model_info info = PC_MODEL_INFO_INIT;
    pc_lane lane = {NULL, 0, tokens, positions, N, NULL, 0};
    pc_eval_args a = PC_EVAL_ARGS_INIT;
    CHECK_OK(pc_model_get_info(model, &info));
    memcpy(out->fingerprint, info.fingerprint, sizeof out->fingerprint);
    out->count = (size_t)info.vocab * N;
    out->logits = calloc(out->count, sizeof *out->logits);
    a.lanes = &lane;
    a.lane_stride = sizeof(pc_lane);
    a.lane_count = 1;
    a.logits = out->logits;
    return CHECK_OK(pc_eval(model, &a));
}

/* kept NULL: nothing is kept. */
static int answer_of(const char *kept, answer *out)
{
    pc_context_options options = PC_CONTEXT_OPTIONS_INIT;
    pc_model_options how = PC_MODEL_OPTIONS_INIT;
    pc_context *context = NULL;
    pc_model *model = NULL;
    int good;
    options.threads = 2;
    how.packed_weights = kept;
    good = CHECK_OK(pc_context_new(&context, &options))
           && CHECK_OK(pc_model_load(&model, context, model_path, &how)) && evaluate(model, out);
    pc_model_free(model);
    pc_context_free(context);
    return good;
}

static int same_fingerprint(const answer *a, const answer *b)
{
    return !memcmp(a->fingerprint, b->fingerprint, sizeof a->fingerprint);
}

static int same_answer(const answer *a, const answer *b)
{
    return a->count == b->count && same_fingerprint(a, b)
           && !memcmp(a->logits, b->logits, a->count * sizeof *a->logits);
}

/* Loads with the folder and compares. */
static void check_answer(const char *kept, const answer *want)
{
    answer got = {0};
    CHECK(answer_of(kept, &got) && same_answer(&got, want));
    free(got.logits);
}

/* The number of files whose names end so; path: of the last one. */
static int count_files(const char *ending, char path[600])
{
    DIR *dir = opendir(folder);
    int n = 0;
    for (struct dirent *e; dir && (e = readdir(dir));) {
        size_t size = strlen(e->d_name), tail = strlen(ending);
        if (size < tail || strcmp(e->d_name + size - tail, ending))
            continue;
        n++;
        if (path)
            snprintf(path, 600, "%s/%s", folder, e->d_name);
    }
    if (dir)
        closedir(dir);
    return n;
}

static void clear_folder(void)
{
    char path[600];
    while (count_files(".pcpacked", path) || count_files(".lock", path))
        if (!CHECK(!unlink(path)))
            return;
}

/* The model as if it had not changed for an hour. */
static void set_age(int64_t seconds)
{
    struct timespec times[2] = {{.tv_sec = 1700000000 - seconds}, {.tv_sec = 1700000000 - seconds}};
    CHECK(!utimensat(AT_FDCWD, model_path, times, 0));
}

static void written_and_read(const answer *want)
{
    char path[600];
    struct stat first, second;
    clear_folder();
    check_answer(folder, want);
    CHECK_INT(count_files(".pcpacked", path), 1);
    CHECK_INT(count_files(".draft", NULL), 0);
    CHECK(!stat(path, &first));
    check_answer(folder, want);
    CHECK(!stat(path, &second));
    CHECK(first.st_ino == second.st_ino);
}

static pc_model *load_kept(pc_context *context)
{
    pc_model_options how = PC_MODEL_OPTIONS_INIT;
    pc_model *model = NULL;
    how.packed_weights = folder;
    CHECK_OK(pc_model_load(&model, context, model_path, &how));
    return model;
}

/* Bytes of a load with the folder. */
static int64_t bytes_of_load(void)
{
    pc_test_memory memory = {0};
    pc_context *context = pc_test_counted_context(&memory, 2);
    int64_t before = memory.live_bytes, after;
    pc_model *model = load_kept(context);
    after = memory.live_bytes;
    pc_model_free(model);
    pc_context_free(context);
    return after - before;
}

/* Panels stay in the mapped file: they take no memory of the process, models share the file, and it
 * may be removed under them. */
static void mapped(const answer *want)
{
    char path[600];
    struct stat st;
    pc_test_memory memory = {0};
    answer got[2] = {0};
    clear_folder();
    int64_t packed = bytes_of_load();
    CHECK(count_files(".pcpacked", path) == 1 && !stat(path, &st));
    CHECK(bytes_of_load() < packed - (int64_t)st.st_size * 9 / 10);
    pc_context *context = pc_test_counted_context(&memory, 2);
    pc_model *models[2] = {load_kept(context), load_kept(context)};
    CHECK(!unlink(path));
    for (int i = 0; i < 2; i++) {
        CHECK(evaluate(models[i], &got[i]) && same_answer(&got[i], want));
        free(got[i].logits);
        pc_model_free(models[i]);
    }
    pc_context_free(context);
    CHECK_INT(memory.live_blocks, 0);
}

static void change_model(void)
{
    FILE *f = fopen(model_path, "r+b");
    int c;
    CHECK(f && !fseek(f, -100, SEEK_END) && (c = fgetc(f)) != EOF && !fseek(f, -100, SEEK_END)
          && fputc(c ^ 1, f) != EOF);
    if (f)
        fclose(f);
}

/* The weights are not read again as long as their file is the same. */
static void stale(const answer *want)
{
    answer changed = {0};
    written_and_read(want);
    change_model();
    set_age(0);
    CHECK(answer_of(folder, &changed) && same_fingerprint(&changed, want));
    free(changed.logits);
    set_age(1);
    CHECK(answer_of(NULL, &changed) && !same_answer(&changed, want));
    check_answer(folder, &changed);
    check_answer(folder, &changed);
    change_model();
    check_answer(folder, want); /* changed just now: nothing is written */
    set_age(0);
    check_answer(folder, want);
    free(changed.logits);
}

/* After each damage the answer is the same, and within two loads the file. */
static void repaired(const char *path, const char *good, size_t size, const answer *want)
{
    size_t n = 0;
    check_answer(folder, want);
    check_answer(folder, want);
    char *now = pc_test_read(path, &n);
    CHECK(n == size && !memcmp(now, good, size));
    free(now);
}

static void damaged(const answer *want)
{
    char path[600];
    size_t size;
    written_and_read(want);
    count_files(".pcpacked", path);
    char *good = pc_test_read(path, &size), *bad = malloc(size + 1);
    static const size_t header[] = {0, 8, 12, 16, 48, 80, 112, 120, 128, 136, 3000, 4079, 4095};
    for (size_t i = 0; i < sizeof header / sizeof *header + 16; i++) {
        size_t heads = sizeof header / sizeof *header,
               at = i < heads       ? header[i]
                    : i < heads + 8 ? 4096 + (i - heads) * (size - 8192) / 8 / 4096 * 4096 + i
                                    : size - 1 - (i - heads - 8) * 37;
        memcpy(bad, good, size);
        bad[at] = (char)(bad[at] ^ 16);
        pc_test_write(path, bad, size);
        repaired(path, good, size, want);
    }
    static const size_t cuts[] = {0, 1, 4095, 4096, 4097};
    for (size_t i = 0; i < 8; i++) {
        size_t end = i < 5 ? cuts[i] : i == 5 ? size / 2 : i == 6 ? size - 1 : size + 1;
        memcpy(bad, good, size);
        bad[size] = 0;
        pc_test_write(path, bad, end);
        repaired(path, good, size, want);
    }
    free(good);
    free(bad);
}

static void no_folder(const answer *want)
{
    char path[600];
    check_answer("/proc/no-such-folder", want);
    check_answer(model_path, want); /* not a folder */
    snprintf(path, sizeof path, "%s/closed", pc_test_folder());
    CHECK(!mkdir(path, 0500));
    check_answer(path, want);
    CHECK(!rmdir(path) || !geteuid());
}

/* Waits for a child that ends with the state of its checks. */
static void wait_child(pid_t child)
{
    int status = 0;
    CHECK(child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status)
          && !WEXITSTATUS(status));
}

/* As with a full disk: files end at 100 kB. */
static void full_disk(const answer *want)
{
    clear_folder();
    pid_t child = fork();
    if (!child) {
        struct rlimit limit = {100000, 100000};
        signal(SIGXFSZ, SIG_IGN);
        CHECK(!setrlimit(RLIMIT_FSIZE, &limit));
        check_answer(folder, want);
        _exit(pc_test_end());
    }
    wait_child(child);
    CHECK_INT(count_files(".pcpacked", NULL) + count_files(".draft", NULL), 0);
}

static void at_once(const answer *want)
{
    pid_t children[4];
    clear_folder();
    for (int i = 0; i < 4; i++)
        if (!(children[i] = fork())) {
            check_answer(folder, want);
            check_answer(folder, want);
            _exit(pc_test_end());
        }
    for (int i = 0; i < 4; i++)
        wait_child(children[i]);
    CHECK_INT(count_files(".pcpacked", NULL), 1);
    CHECK_INT(count_files(".draft", NULL), 0);
    check_answer(folder, want);
}

/* In a process whose level is not chosen yet. */
static void at_level(const char *mask)
{
    pid_t child = fork();
    if (!child) {
        answer want = {0};
        setenv("PC_CPU_MASK", mask, 1);
        CHECK(answer_of(NULL, &want));
        check_answer(folder, &want);
        check_answer(folder, &want);
        _exit(pc_test_end());
    }
    wait_child(child);
}

/* A file of another level, [size], under this level's name. */
static void foreign(const char *other, size_t size, const answer *want)
{
    char path[600];
    size_t own_size;
    clear_folder();
    check_answer(folder, want);
    count_files(".pcpacked", path);
    char *own = pc_test_read(path, &own_size);
    pc_test_write(path, other, size);
    repaired(path, own, own_size, want);
    free(own);
}

static void without_memory(void)
{
    pc_model_options how = PC_MODEL_OPTIONS_INIT;
    how.packed_weights = folder;
    for (uint64_t at = 1; at < 400; at += 1 + at / 8) {
        pc_test_memory memory = {0};
        pc_context *context = pc_test_counted_context(&memory, 1);
        pc_model *model = NULL;
        if (!context)
            return;
        if (at % 2)
            clear_folder();
        memory.fail_at = memory.calls + at;
        pc_status status = pc_model_load(&model, context, model_path, &how);
        CHECK(status == PC_OK || (status == PC_ERR_NOMEM && !model));
        pc_model_free(model);
        pc_context_free(context);
        CHECK_INT(memory.live_blocks, 0);
    }
}

/* A model that cannot be bound is refused for its own reason, and leaves no draft. */
static void refused(void)
{
    char broken[340], why[300] = "", *at;
    size_t size;
    char *bytes = pc_test_read(model_path, &size);
    pc_context *context = NULL;
    pc_model *model = NULL;
    pc_model_options how = PC_MODEL_OPTIONS_INIT;
    snprintf(broken, sizeof broken, "%s.broken", model_path);
    at = memmem(bytes, size, "blk.0.ffn_down.weight", 21);
    CHECK(at != NULL);
    if (at)
        at[6] = 'x';
    pc_test_write(broken, bytes, size);
    free(bytes);
    CHECK(!utimensat(AT_FDCWD, broken, (const struct timespec[2]){{1000, 0}, {1000, 0}}, 0));
    CHECK_OK(pc_context_new(&context, NULL));
    clear_folder();
    for (int kept = 0; kept < 2; kept++) {
        how.packed_weights = kept ? folder : NULL;
        CHECK(pc_model_load(&model, context, broken, &how) < 0);
        if (kept)
            CHECK(!strcmp(why, pc_error_text()));
        snprintf(why, sizeof why, "%s", pc_error_text());
    }
    CHECK(*why && !strstr(why, "pcpacked"));
    unlink(broken);
    pc_context_free(context);
}

/* Whoever could write the file could change what the model computes: nothing is read from it. */
static void writable_by_others(const answer *want)
{
    char path[600];
    clear_folder();
    check_answer(folder, want);
    CHECK_INT(count_files(".pcpacked", path), 1);
    for (int what = 0; what < 2; what++) {
        int64_t packed = bytes_of_load();
        CHECK(!chmod(what ? folder : path, what ? 0770 : 0620));
        CHECK(bytes_of_load() > packed + 100000);
        check_answer(folder, want);
        CHECK(!chmod(what ? folder : path, what ? 0700 : 0600));
    }
}

int main(void)
{
    size_t size;
    answer want = {0};
    char path[600], *data = pc_test_read(PC_SOURCE_DIR "/models/demo/demo.gguf", &size);
    setenv("PC_LINEAR", "own", 1); /* with AMX the default is oneDNN, whose panels are not kept */
    snprintf(model_path, sizeof model_path, "%s/model.gguf", pc_test_folder());
    snprintf(folder, sizeof folder, "%s/packed", pc_test_folder());
    pc_test_write(model_path, data, size);
    free(data);
    set_age(0);
    at_level("avx2");
    clear_folder();
    at_level("c");
    CHECK_INT(count_files(".pcpacked", path), 1);
    char *other = pc_test_read(path, &size);
    if (!answer_of(NULL, &want))
        return pc_test_end();
    foreign(other, size, &want);
    free(other);
    mapped(&want);
    stale(&want);
    damaged(&want);
    no_folder(&want);
    full_disk(&want);
    at_once(&want);
    without_memory();
    refused();
    writable_by_others(&want);
    clear_folder();
    free(want.logits);
    return pc_test_end();
}
