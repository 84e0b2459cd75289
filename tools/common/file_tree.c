/* Walks folders, and reads files as fast as the page cache or the device gives them. */
#include "file_tree.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "machine.h"

static char *joined(const char *folder, const char *name)
{
    size_t size = strlen(folder) + strlen(name) + 2;
    char *path = malloc(size);
    if (path)
        snprintf(path, size, "%s/%s", folder, name);
    return path;
}

static int add_file(file_tree *t, char *path, uint64_t bytes)
{
    if (t->count == t->room) {
        char **grown = realloc(t->paths, (t->room = 2 * t->room + 16) * sizeof *grown);
        if (!grown)
            return 0;
        t->paths = grown;
    }
    t->paths[t->count++] = path;
    t->bytes += bytes;
    t->largest = bytes > t->largest ? bytes : t->largest;
    return 1;
}

int list_files(file_tree *t, const char *folder)
{
    DIR *dir = opendir(folder);
    int good = dir != NULL;
    for (struct dirent *entry; good && (entry = readdir(dir)) != NULL;) {
        struct stat about;
        char *path;
        if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, ".."))
            continue;
        path = joined(folder, entry->d_name);
        good = path && !lstat(path, &about);
        if (good && S_ISDIR(about.st_mode))
            good = list_files(t, path);
        else if (good && S_ISREG(about.st_mode) && add_file(t, path, (uint64_t)about.st_size))
            path = NULL; /* the list owns it */
        free(path);
    }
    if (dir)
        closedir(dir);
    return good;
}

void free_files(file_tree *t)
{
    for (size_t i = 0; i < t->count; i++)
        free(t->paths[i]);
    free(t->paths);
    *t = (file_tree){NULL, 0, 0, 0, 0};
}

void remove_tree(const char *folder)
{
    DIR *dir = opendir(folder);
    for (struct dirent *entry; dir && (entry = readdir(dir)) != NULL;) {
        char *path;
        if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, ".."))
            continue;
        path = joined(folder, entry->d_name);
        if (path && unlink(path) != 0)
            remove_tree(path);
        free(path);
    }
    if (dir)
        closedir(dir);
    rmdir(folder);
}

static int read_file(const char *path, char *memory, size_t size)
{
    int file = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = 1;
    for (size_t at = 0; file >= 0 && n > 0 && at < size; at += (size_t)n)
        n = read(file, memory + at, size - at);
    if (file >= 0)
        close(file);
    return file >= 0 && n >= 0;
}

double read_files(const file_tree *t, void *memory, size_t size)
{
    double start = machine_now();
    for (size_t i = 0; i < t->count; i++) {
        void *to = memory ? memory : machine_memory(size);
        int good = to && read_file(t->paths[i], to, size);
        if (!memory)
            free(to);
        if (!good)
            return -1;
    }
    return machine_now() - start;
}

void drop_files(const file_tree *t)
{
    for (size_t i = 0; i < t->count; i++) {
        int file = open(t->paths[i], O_RDONLY | O_CLOEXEC);
        if (file < 0)
            continue;
        fdatasync(file); /* pages that are not on the disk yet would stay in the cache */
        posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED);
        close(file);
    }
}
