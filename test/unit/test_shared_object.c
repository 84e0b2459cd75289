/* Catches: a file that is given to the dynamic linker although it is a pipe (which hangs), a
 * device, a folder, of another kind of machine, or shorter than its headers say (SIGBUS); a whole
 * shared object that is refused; an offset whose sum wraps; descriptors that leak. */
#include <dlfcn.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/shared_object.h"
#include "testing.h"

enum { PATH = 512 };

static char path[PATH];
static char *whole;
static size_t whole_size;

static void is(pc_status want, const char *cause)
{
    size_t files = pc_test_open_files();
    CHECK_STATUS(pc__shared_object_check(path), want);
    if (want < 0) {
        CHECK_ERROR_HAS(path);
        CHECK_ERROR_HAS(cause);
    }
    CHECK_INT(pc_test_open_files(), files);
}

static void other_files(void)
{
    snprintf(path, sizeof path, "%s/nobody", pc_test_folder());
    is(PC_ERR_NOT_FOUND, "No such file");
    snprintf(path, sizeof path, "%s", pc_test_folder());
    is(PC_ERR_IO, "not a regular file");
    snprintf(path, sizeof path, "/dev/zero");
    is(PC_ERR_IO, "not a regular file");
    snprintf(path, sizeof path, "%s/pipe", pc_test_folder());
    CHECK(!mkfifo(path, 0600));
    is(PC_ERR_IO, "not a regular file");
    snprintf(path, sizeof path, "%s/object", pc_test_folder());
    pc_test_write(path, "", 0);
    is(PC_ERR_FORMAT, "not a shared object");
    pc_test_write(path, "\177ELF", 4);
    is(PC_ERR_FORMAT, "not a shared object");
}

/* Every size at which a header or a page ends, and some between. */
static void truncated(void)
{
    for (size_t n = 0; n < whole_size; n += n < 4096 ? 7 : n + 4096 < whole_size ? 1021 : 13) {
        pc_test_write(path, whole, n);
        is(PC_ERR_FORMAT, n < sizeof(ElfW(Ehdr)) ? "not a shared object" : "truncated");
    }
    pc_test_write(path, whole, whole_size);
    is(PC_OK, NULL);
}

/* The file with one field of its header changed. */
static void changed(size_t at, uint64_t value, size_t size, const char *cause)
{
    char *copy = malloc(whole_size);
    if (!CHECK(copy != NULL))
        return;
    memcpy(copy, whole, whole_size);
    memcpy(copy + at, &value, size); /* little-endian, as all machines that this runs on */
    pc_test_write(path, copy, whole_size);
    is(PC_ERR_FORMAT, cause);
    free(copy);
}

static void headers(void)
{
    const ElfW(Ehdr) *h = (const void *)whole;
    size_t load = h->e_phoff;
    while (((const ElfW(Phdr) *)(const void *)(whole + load))->p_type != PT_LOAD)
        load += sizeof(ElfW(Phdr));
    changed(EI_CLASS, ELFCLASS32, 1, "another kind of machine");
    changed(EI_DATA, ELFDATA2MSB, 1, "another kind of machine");
    changed(offsetof(ElfW(Ehdr), e_type), ET_REL, 2, "not a shared object");
    changed(offsetof(ElfW(Ehdr), e_phentsize), 55, 2, "wrong size");
    changed(offsetof(ElfW(Ehdr), e_phnum), 0, 2, "nothing to load");
    changed(offsetof(ElfW(Ehdr), e_phnum), 0xffff, 2, "");
    changed(offsetof(ElfW(Ehdr), e_phoff), UINT64_MAX - 8, 8, "program headers lie behind");
    changed(offsetof(ElfW(Ehdr), e_shoff), UINT64_MAX - 8, 8, "section headers lie behind");
    changed(offsetof(ElfW(Ehdr), e_shnum), 0, 2, "section headers have a wrong size");
    changed(load + offsetof(ElfW(Phdr), p_filesz), UINT64_MAX, 8, "truncated: a segment");
    changed(load + offsetof(ElfW(Phdr), p_offset), UINT64_MAX - 100, 8, "truncated: a segment");
    changed(load + offsetof(ElfW(Phdr), p_memsz), 1, 8, "larger in the file than in memory");
    changed(h->e_shoff + sizeof(ElfW(Shdr)) + offsetof(ElfW(Shdr), sh_size), UINT64_MAX, 8,
            "truncated: a section");
}

/* Without sections, which the linker does not need, only segments show where the file must end:
 * what is then taken can be opened. */
static void without_sections(void)
{
    char *copy = malloc(whole_size);
    size_t taken = 0;
    if (!CHECK(copy != NULL))
        return;
    memcpy(copy, whole, whole_size);
    ((ElfW(Ehdr) *)(void *)copy)->e_shoff = 0;
    for (size_t n = whole_size; n > 1024; n -= n > 4096 + 509 ? 509 : 31) {
        int status = -1;
        pc_test_write(path, copy, n);
        if (pc__shared_object_check(path) < 0)
            continue;
        taken++;
        fflush(stdout);
        pid_t child = fork();
        if (!child)
            _exit(dlopen(path, RTLD_NOW | RTLD_LOCAL) ? 0 : 1);
        CHECK(child > 0 && waitpid(child, &status, 0) == child);
        CHECK_INT(status, 0);
    }
    CHECK(taken > 0);
    free(copy);
}

int main(void)
{
    other_files();
    whole = pc_test_read(PC_FAKE_MODULES "/libpromptcache_fake_good.so", &whole_size);
    if (CHECK(whole && whole_size > sizeof(ElfW(Ehdr)))) {
        truncated();
        headers();
        without_sections();
    }
    free(whole);
    return pc_test_end();
}
