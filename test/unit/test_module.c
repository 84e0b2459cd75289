/* Catches: a plug-in module that is taken although its version or build is another or missing, its
 * symbol is missing, it cannot be loaded or does not start; a pipe or a part of a file that hangs
 * or ends the program; a reason that does not name file and cause; a
 * wrong order of folders; a file that is loaded twice or by two threads at once; PC_MODULES that
 * counts in a program with another user's rights; a name that leads out of the folders; error texts
 * of a module that the library does not see, or an error text that opening changes. */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/module.h"
#include "fake_module.h"
#include "testing.h"

enum { PATH = 600, THREADS = 8 };

static const pc__module_found *open_in(const char *name, const char *folders)
{
    setenv("PC_MODULES", folders, 1);
    return pc__module_open(name, NULL);
}

static void refused(const char *name, const char *file, const char *cause)
{
    const pc__module_found *found = open_in(name, PC_FAKE_MODULES);
    CHECK(!found->table);
    pc_test_has(found->reason, file, __FILE__, __LINE__);
    pc_test_has(found->reason, cause, __FILE__, __LINE__);
    CHECK(!strchr(found->reason, '\n'));
}

static void copy(const char *from, const char *to, mode_t mode)
{
    size_t size;
    char *data = pc_test_read(from, &size);
    CHECK(data != NULL);
    pc_test_write(to, data, size);
    free(data);
    CHECK_INT(chmod(to, mode), 0);
}

/* Copies a module of the build into a folder that is made for it. */
static void put(const char *folder, const char *name)
{
    char from[PATH], to[PATH];
    CHECK(!mkdir(folder, 0755) || errno == EEXIST);
    snprintf(from, sizeof from, "%s/libpromptcache_%s.so", PC_FAKE_MODULES, name);
    snprintf(to, sizeof to, "%s/libpromptcache_%s.so", folder, name);
    copy(from, to, 0755);
}

static void a_good_one(void)
{
    pc_error_set("before");
    const pc__module_found *found = open_in("fake_good", PC_FAKE_MODULES);
    CHECK_STR(pc_error_text(), "before");
    CHECK_STR(found->reason, "");
    CHECK_STR(found->path, PC_FAKE_MODULES "/libpromptcache_fake_good.so");
    CHECK(open_in("fake_good", "/") == found);
    const fake_module *table = found->table;
    CHECK(table != NULL);
    if (!table)
        return;
    CHECK_INT(table->starts(), 1);
    CHECK_INT(table->fail(7), PC_ERR_LIMIT);
    CHECK_STR(pc_error_text(), "fake 7"); /* by the module's code, in the library's place */
    const void *same;
    CHECK_OK(pc__module_table(&same, "fake_good", NULL));
    CHECK(same == table);
}

static void bad_ones(void)
{
    const char *folder = pc_test_folder();
    char path[PATH], text[4096];
    const void *table = &path;
    refused("fake_old", "libpromptcache_fake_old.so",
            "is of version 0.0.9, the library of version");
    char both[160];
    snprintf(both, sizeof both, "is of build 0123456789abcdef, the library of build %s (",
             pc__module_build);
    refused("fake_other", "libpromptcache_fake_other.so", both);
    refused("fake_nameless", "libpromptcache_fake_nameless.so", "names no version, build or start");
    refused("fake_unbuilt", "libpromptcache_fake_unbuilt.so", "names no version, build or start");
    refused("fake_without", "libpromptcache_fake_without.so",
            "has no symbol pc__module_fake_without");
    refused("fake_refuses", "libpromptcache_fake_refuses.so",
            "cannot start: the fake device has no name");
    refused("fake_needy", "libpromptcache_fake_needy.so", "libfake_needed.so");
    refused("fake_nowhere", "libpromptcache_fake_nowhere.so", "was not found in " PC_FAKE_MODULES);
    CHECK_STATUS(pc__module_table(&table, "fake_old", NULL), PC_ERR_UNSUPPORTED);
    CHECK(!table);
    CHECK_ERROR_HAS("0.0.9");
    snprintf(path, sizeof path, "%s/libpromptcache_fake_text.so", folder);
    for (size_t i = 0; i < sizeof text; i++)
        text[i] = 'x';
    pc_test_write(path, text, sizeof text);
    const pc__module_found *found = open_in("fake_text", folder);
    CHECK(!found->table && strstr(found->reason, path) && strstr(found->reason, "ELF"));
}

static void bad_names(void)
{
    static const char *const names[] = {"",    "../fake_good", "Fake",
                                        "a/b", "a.b",          "a23456789012345678901234567890_2"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const pc__module_found *found = open_in(names[i], PC_FAKE_MODULES);
        CHECK(!found->table && strstr(found->reason, "name"));
    }
}

/* What is no whole file of a module is not given to the linker, which would hang or crash. */
static void damaged(void)
{
    const char *folder = pc_test_folder();
    const pc__module_found *found;
    char path[PATH];
    size_t size = 0;
    char *data = pc_test_read(PC_FAKE_MODULES "/libpromptcache_fake_good.so", &size);
    snprintf(path, sizeof path, "%s/libpromptcache_fake_pipe.so", folder);
    CHECK(!mkfifo(path, 0644));
    found = open_in("fake_pipe", folder);
    CHECK(!found->table && strstr(found->reason, path));
    CHECK(strstr(found->reason, "not a regular file") != NULL);
    snprintf(path, sizeof path, "%s/libpromptcache_fake_cut.so", folder);
    pc_test_write(path, data, size / 2);
    found = open_in("fake_cut", folder);
    CHECK(!found->table && strstr(found->reason, path) && strstr(found->reason, "truncated"));
    free(data);
}

/* The first folder with the file decides, also when the file is of no use. */
static void order(void)
{
    const char *folder = pc_test_folder();
    char a[PATH], b[PATH], list[3 * PATH], want[2 * PATH];
    snprintf(a, sizeof a, "%s/a", folder);
    snprintf(b, sizeof b, "%s/b", folder);
    put(a, "fake_order");
    put(b, "fake_order");
    put(b, "fake_broken");
    snprintf(list, sizeof list, ":%s/none:%s:%s", folder, b, a);
    snprintf(want, sizeof want, "%s/libpromptcache_fake_order.so", b);
    CHECK_STR(open_in("fake_order", list)->path, want);
    snprintf(want, sizeof want, "%s/libpromptcache_fake_broken.so", a);
    pc_test_write(want, "", 0);
    snprintf(list, sizeof list, "%s:%s", a, b);
    const pc__module_found *found = open_in("fake_broken", list);
    CHECK(!found->table);
    CHECK_STR(found->path, want);
}

static void *race(void *start)
{
    pthread_barrier_wait(start);
    const fake_module *table = pc__module_open("fake_race", NULL)->table;
    if (table)
        table->fail(3);
    return (void *)(uintptr_t)(table && !strcmp(pc_error_text(), "fake 3") ? table : NULL);
}

static void threads(void)
{
    pthread_t thread[THREADS];
    pthread_barrier_t barrier;
    void *got[THREADS];
    pthread_barrier_init(&barrier, NULL, THREADS);
    setenv("PC_MODULES", PC_FAKE_MODULES, 1);
    pc_error_set("of this thread");
    for (size_t i = 0; i < THREADS; i++)
        CHECK(!pthread_create(&thread[i], NULL, race, &barrier));
    for (size_t i = 0; i < THREADS; i++) {
        pthread_join(thread[i], &got[i]);
        CHECK(got[i] && got[i] == got[0]);
    }
    pthread_barrier_destroy(&barrier);
    if (got[0])
        CHECK_INT(((const fake_module *)got[0])->starts(), 1);
    CHECK_STR(pc_error_text(), "of this thread");
}

/* A program that asks for many names is refused, not given the wrong module. Comes last. */
static void too_many(void)
{
    const pc__module_found *found = NULL;
    char name[32];
    for (int i = 0; i < 17; i++) {
        snprintf(name, sizeof name, "fake_many_%d", i);
        found = open_in(name, PC_FAKE_MODULES);
        CHECK(!found->table);
    }
    CHECK(strstr(found->reason, "too many") != NULL);
    CHECK(open_in("fake_good", "/")->table != NULL);
}

static pc_status start_linked(const pc__module_host *host, const void **table)
{
    pc__module_join(host); /* does nothing here */
    *table = "linked";
    return PC_OK;
}

static void linked_in(void)
{
    static const pc__module module = {"", "", start_linked}; /* nothing to compare */
    const pc__module_found *found = pc__module_open("fake_linked", &module);
    CHECK_STR(found->table, "linked");
    CHECK_STR(found->path, "");
    CHECK_STR(found->reason, "");
    CHECK_INT(pc__fail(PC_ERR_IO, "as ever"), PC_ERR_IO);
    CHECK_STR(pc_error_text(), "as ever");
}

/* The first line that a program prints. */
static const char *first_line(const char *program)
{
    static char line[2 * PATH];
    FILE *out = popen(program, "r");
    *line = 0;
    CHECK(out && fgets(line, sizeof line, out));
    if (out)
        pclose(out);
    line[strcspn(line, "\n")] = 0;
    return line;
}

/* What a copy of this program prints: where it finds the module. */
static void print_path(void)
{
    const pc__module_found *found = pc__module_open("fake_good", NULL);
    printf("%s%s\n", getauxval(AT_SECURE) ? "other rights: " : "",
           *found->path ? found->path : "-");
    fflush(stdout);
    _exit(0); /* AddressSanitizer's last check does not work with other rights */
}

/* Beside the program (which has the library inside), or in promptcache/ beside it. */
static void beside(const char *self)
{
    const char *folder = pc_test_folder();
    char at[PATH], below[2 * PATH], program[3 * PATH], want[3 * PATH];
    snprintf(at, sizeof at, "%s/beside", folder);
    snprintf(below, sizeof below, "%s/promptcache", at);
    CHECK(!mkdir(at, 0755));
    put(below, "fake_good");
    snprintf(program, sizeof program, "%s/program", at);
    copy(self, program, 0755);
    unsetenv("PC_MODULES");
    snprintf(want, sizeof want, "%s/libpromptcache_fake_good.so", below);
    snprintf(program, sizeof program, "cd %s && ./program print", at);
    CHECK_STR(first_line(program), want);
    put(at, "fake_good");
    snprintf(want, sizeof want, "%s/libpromptcache_fake_good.so", at);
    CHECK_STR(first_line(program), want);
}

/* As root only: a program of another user does not follow PC_MODULES. */
static void other_rights(const char *self)
{
    const char *folder = pc_test_folder();
    char at[PATH], modules[2 * PATH], program[2 * PATH], want[3 * PATH], command[3 * PATH];
    if (getuid()) {
        printf("not root: rights of another user are not tested\n");
        return;
    }
    snprintf(at, sizeof at, "%s/rights", folder);
    CHECK(!chmod(folder, 0755) && !mkdir(at, 0755));
    snprintf(modules, sizeof modules, "%s/modules", at);
    put(modules, "fake_good");
    setenv("PC_MODULES", modules, 1);
    snprintf(program, sizeof program, "%s/program", at);
    copy(self, program, 0755);
    CHECK(!chown(program, 65534, 65534));
    snprintf(command, sizeof command, "%s print", program);
    snprintf(want, sizeof want, "%s/libpromptcache_fake_good.so", modules);
    CHECK_STR(first_line(command), want);
    CHECK(!chmod(program, 04755));
    const char *got = first_line(command);
    if (strstr(got, "other rights: ") == got)
        CHECK_STR(got, "other rights: -");
    else
        printf("no other rights can be had here: not tested\n");
}

int main(int argc, char **argv)
{
    if (argc > 1)
        print_path();
    a_good_one();
    bad_ones();
    bad_names();
    damaged();
    order();
    threads();
    linked_in();
    beside(argv[0]);
    other_rights(argv[0]);
    too_many();
    return pc_test_end();
}
