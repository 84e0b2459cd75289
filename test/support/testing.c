#include "testing.h"

#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static long passed, failed;
static pthread_mutex_t memory_lock = PTHREAD_MUTEX_INITIALIZER;

/* Costs that someone has measured on this machine must not change what is tested. */
__attribute__((constructor)) static void without_measured_costs(void)
{
    setenv("PC_COSTS", "builtin", 0);
}

int pc_test_check(int ok, const char *file, int line, const char *what)
{
    if (ok) {
        passed++;
    } else {
        failed++;
        fprintf(stderr, "%s:%d: failed: %s\n", file, line, what);
    }
    return ok;
}

int pc_test_int(int64_t got, int64_t want, const char *file, int line, const char *what)
{
    int ok = pc_test_check(got == want, file, line, what);
    if (!ok)
        fprintf(stderr, "    got %lld, want %lld\n", (long long)got, (long long)want);
    return ok;
}

int pc_test_str(const char *got, const char *want, const char *file, int line, const char *what)
{
    int ok = pc_test_check(got && want && !strcmp(got, want), file, line, what);
    if (!ok)
        fprintf(stderr, "    got \"%s\", want \"%s\"\n", got ? got : "(null)",
                want ? want : "(null)");
    return ok;
}

int pc_test_status(pc_status got, pc_status want, const char *file, int line, const char *what)
{
    int ok = pc_test_check(got == want, file, line, what);
    if (!ok)
        fprintf(stderr, "    got %s (%s), want %s\n", pc_status_name(got),
                got < 0 ? pc_error_text() : "", pc_status_name(want));
    return ok;
}

int pc_test_has(const char *text, const char *part, const char *file, int line)
{
    int ok = pc_test_check(strstr(text, part) != NULL, file, line, "error text names the cause");
    if (!ok)
        fprintf(stderr, "    \"%s\" does not hold \"%s\"\n", text, part);
    return ok;
}

int pc_test_end(void)
{
    printf("checks: %ld passed, %ld failed\n", passed, failed);
    return failed || !passed ? 1 : 0;
}

void pc_test_skip(const char *reason)
{
    printf("skipped: %s\n", reason);
    exit(77);
}

const char *pc_test_data(const char *path)
{
    static char ring[8][4096];
    static unsigned next;
    char *out = ring[next++ % 8];
    const char *given = getenv("PC_TEST_DATA");
    const char *const roots[] = {given && *given ? given : PC_SOURCE_DIR "/../shared",
                                 PC_BINARY_DIR "/test/own"};
    for (int i = 0; i < 2; i++) {
        struct stat st;
        snprintf(out, sizeof ring[0], "%s/%s", roots[i], path);
        if (!stat(out, &st))
            return out;
    }
    return NULL;
}

static char folder[64];

static void remove_tree(const char *path)
{
    DIR *dir = opendir(path);
    struct dirent *entry;
    char child[4096];
    while (dir && (entry = readdir(dir))) {
        if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, ".."))
            continue;
        snprintf(child, sizeof child, "%s/%s", path, entry->d_name);
        if (unlink(child))
            remove_tree(child);
    }
    if (dir)
        closedir(dir);
    rmdir(path);
}

static void remove_folder(void)
{
    remove_tree(folder);
}

const char *pc_test_folder(void)
{
    if (!folder[0]) {
        strcpy(folder, "/tmp/pc-test-XXXXXX");
        if (!mkdtemp(folder)) {
            perror("mkdtemp");
            exit(1);
        }
        atexit(remove_folder);
    }
    return folder;
}

void pc_test_write(const char *path, const void *data, size_t size)
{
    FILE *file = fopen(path, "wb");
    if (!file || (size && fwrite(data, 1, size, file) != size) || fclose(file)) {
        fprintf(stderr, "%s: %s\n", path, strerror(errno));
        exit(1);
    }
}

char *pc_test_read(const char *path, size_t *size)
{
    FILE *file = fopen(path, "rb");
    long end;
    char *data;
    if (!file)
        return NULL;
    fseek(file, 0, SEEK_END);
    end = ftell(file);
    rewind(file);
    data = malloc((size_t)end + 1);
    if (data && fread(data, 1, (size_t)end, file) != (size_t)end) {
        free(data);
        data = NULL;
    }
    fclose(file);
    if (data)
        data[end] = 0;
    if (size)
        *size = (size_t)end;
    return data;
}

size_t pc_test_open_files(void)
{
    DIR *dir = opendir("/proc/self/fd");
    size_t n = 0;
    while (dir && readdir(dir))
        n++;
    if (dir)
        closedir(dir);
    return n;
}

int32_t pc_test_collect(void *user, uint32_t sample, const char *data, size_t size)
{
    pc_test_text *text = user;
    (void)sample;
    if (text->size + size >= sizeof text->data)
        return 1;
    memcpy(text->data + text->size, data, size);
    text->size += size;
    text->data[text->size] = '\0';
    return 0;
}

static void *test_alloc(void *user, size_t size, size_t align)
{
    pc_test_memory *memory = user;
    void *ptr = NULL;
    int fail;
    pthread_mutex_lock(&memory_lock);
    fail = ++memory->calls == memory->fail_at;
    pthread_mutex_unlock(&memory_lock);
    if (fail
        || posix_memalign(&ptr, align < sizeof(void *) ? sizeof(void *) : align, size ? size : 1))
        return NULL;
    memset(ptr, 0xA5, size); /* nobody may rely on zeros */
    pthread_mutex_lock(&memory_lock);
    memory->live_blocks++;
    memory->live_bytes += (int64_t)size;
    pthread_mutex_unlock(&memory_lock);
    return ptr;
}

static void test_free(void *user, void *ptr, size_t size, size_t align)
{
    pc_test_memory *memory = user;
    (void)align;
    pthread_mutex_lock(&memory_lock);
    memory->live_blocks--;
    memory->live_bytes -= (int64_t)size;
    pthread_mutex_unlock(&memory_lock);
    free(ptr);
}

pc_allocator pc_test_allocator(pc_test_memory *memory)
{
    pc_allocator allocator = {sizeof(pc_allocator), memory, test_alloc, test_free};
    return allocator;
}

uint64_t pc_test_bits(pc_test_rng *rng)
{
    uint64_t z = (rng->state += UINT64_C(0x9e3779b97f4a7c15));
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

float pc_test_uniform(pc_test_rng *rng)
{
    return (float)(pc_test_bits(rng) >> 40) * (1.0f / 16777216.0f);
}

float pc_test_normal(pc_test_rng *rng)
{
    float u = pc_test_uniform(rng) + 1e-7f, v = pc_test_uniform(rng);
    return sqrtf(-2.0f * logf(u)) * cosf(6.2831853f * v);
}
