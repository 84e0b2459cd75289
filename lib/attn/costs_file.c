/* The file of measured costs: lines of text, which people can read and edit.
 *
 *   promptcache costs 1
 *   cpu NAME
 *   kernels NAME
 *   ROWS CACHED_NS MEMORY_NS      for 1, 2, 4 … query vectors */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "attn/costs.h"
#include "base/environment.h"
#include "base/file.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

void pc__cpu_name(char *name, size_t size)
{
    char text[49] = "";
#if defined(__x86_64__)
    unsigned part[4];
    for (unsigned i = 0; i < 3; i++)
        if (__get_cpuid(0x80000002u + i, &part[0], &part[1], &part[2], &part[3]))
            memcpy(text + 16 * i, part, sizeof part);
#endif
    for (char *c = text; *c; c++)
        if (*c < ' ' || *c > '~')
            *c = ' ';
    snprintf(name, size, "%s", *text ? text + strspn(text, " ") : "unknown");
    for (size_t n = strlen(name); n && name[n - 1] == ' ';)
        name[--n] = 0;
}

void pc__costs_path(char *path, size_t size)
{
    const char *asked = pc__environment(PC__ENV_COSTS),
               *cache = pc__environment(PC__ENV_CACHE_HOME), *home = pc__environment(PC__ENV_HOME);
    int length = 0;
    *path = 0;
    if (asked && strcmp(asked, "builtin"))
        length = snprintf(path, size, "%s", asked);
    else if (!asked && cache && *cache == '/')
        length = snprintf(path, size, "%s/promptcache/costs", cache);
    else if (!asked && home && *home == '/')
        length = snprintf(path, size, "%s/.cache/promptcache/costs", home);
    if (length < 0 || (size_t)length >= size)
        *path = 0;
}

/* The rest of the line at *at behind `word` and a blank, cut to `size`; 0: the line begins
 * otherwise. */
static int costs_line(const char **at, const char *word, char *value, size_t size)
{
    size_t n = strlen(word), line = strcspn(*at, "\n");
    if (strncmp(*at, word, n) || (*at)[n] != ' ')
        return 0;
    snprintf(value, size, "%.*s", (int)(line - n - 1), *at + n + 1);
    *at += line + ((*at)[line] == '\n');
    return 1;
}

static int costs_row(const char **at, size_t rows, double *cached, double *memory)
{
    char *end;
    const double most = 1e9;
    if (strtoul(*at, &end, 10) != rows)
        return 0;
    *cached = strtod(end, &end);
    *memory = strtod(end, &end);
    *at = end + strspn(end, " \r\n");
    return *cached > 0 && *cached<most && * memory> 0 && *memory < most;
}

static pc_status parse_costs(const char *text, const char *path, const char *kernels,
                             pc_costs *costs)
{
    char version[8], cpu[sizeof costs->cpu];
    *costs = (pc_costs)PC_COSTS_INIT;
    costs->source = PC_COSTS_FROM_FILE;
    if (!costs_line(&text, "promptcache costs", version, sizeof version) || strcmp(version, "1")
        || !costs_line(&text, "cpu", costs->cpu, sizeof costs->cpu)
        || !costs_line(&text, "kernels", costs->kernels, sizeof costs->kernels))
        return pc__fail(PC_ERR_FORMAT, "%s: not a file of costs (version 1)", path);
    pc__cpu_name(cpu, sizeof cpu);
    if (strcmp(cpu, costs->cpu) || strcmp(kernels, costs->kernels))
        return pc__fail(PC_ERR_MISMATCH,
                        "%s: costs of %s on '%s', this is %s on '%s': `promptcache bench "
                        "calibrate` measures again",
                        path, costs->kernels, costs->cpu, kernels, cpu);
    for (size_t i = 0; i < PC_COST_COUNT; i++)
        if (!costs_row(&text, (size_t)1 << i, &costs->cached_ns[i], &costs->memory_ns[i]))
            return pc__fail(PC_ERR_FORMAT, "%s: no costs of %zu rows", path, (size_t)1 << i);
    return PC_OK;
}

pc_status pc__costs_read(const pc_allocator *mem, const char *path, const char *kernels,
                         pc_costs *costs)
{
    char *text = NULL;
    size_t size;
    struct stat there;
    /* Not through a link, which could lead to a file of somebody else. */
    int fd = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0 && errno == ELOOP)
        return pc__fail(PC_ERR_IO, "%s: is a link, which is not followed", path);
    pc_status status = pc__file_take(fd, path, &size);
    if (status >= 0 && (fstat(fd, &there) || there.st_mode & (S_IWGRP | S_IWOTH))) {
        close(fd);
        return pc__fail(PC_ERR_STATE, "%s: others may write to it; 'chmod go-w' ends that", path);
    }
    if (status >= 0)
        status = pc__file_read_open(mem, fd, path, 1 << 16, &text, size);
    if (status >= 0)
        status = parse_costs(text, path, kernels, costs);
    pc__free(mem, text);
    return status;
}

static pc_status make_costs_folder(const pc_allocator *mem, const char *path)
{
    char *folder = pc__path_folder(mem, path),
         *above = folder ? pc__path_folder(mem, folder) : NULL;
    pc_status status = above ? PC_OK : PC_ERR_NOMEM;
    if (above
        && ((mkdir(above, 0755) && errno != EEXIST) || (mkdir(folder, 0755) && errno != EEXIST)))
        status = pc__fail(PC_ERR_IO, "%s: %s", folder, strerror(errno));
    pc__free(mem, folder);
    pc__free(mem, above);
    return status;
}

static int print_costs(FILE *file, const pc_costs *costs)
{
    fprintf(file, "promptcache costs 1\ncpu %s\nkernels %s\n", costs->cpu, costs->kernels);
    for (size_t i = 0; i < PC_COST_COUNT; i++)
        fprintf(file, "%zu %.4g %.4g\n", (size_t)1 << i, costs->cached_ns[i], costs->memory_ns[i]);
    return fclose(file);
}

/* Readers see the old file or the new one. */
pc_status pc__costs_write(const pc_allocator *mem, const char *path, const pc_costs *costs)
{
    size_t size = strlen(path) + 32;
    int fd;
    char *fresh = pc__alloc(mem, size);
    pc_status status = fresh ? make_costs_folder(mem, path) : PC_ERR_NOMEM;
    FILE *file;
    if (status < 0)
        goto done;
    snprintf(fresh, size, "%s.%ld", path, (long)getpid());
    unlink(fresh); /* of a process that was killed */
    fd = open(fresh, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
    file = fd < 0 ? NULL : fdopen(fd, "w");
    if (!file || print_costs(file, costs) || rename(fresh, path)) {
        status = pc__fail(PC_ERR_IO, "%s: %s", path, strerror(errno));
        remove(fresh);
    }
done:
    pc__free(mem, fresh);
    return status;
}
