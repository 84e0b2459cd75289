/* Catches: an input that once showed a fault and shows it again. Runs a fuzz target on every file
 * of the given folders (or on the given files); a crash, a sanitizer's report or an input that
 * takes long ends it. Needs no fuzzing engine. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "fuzz.h"

/* Of processor time, for one small input; sanitizers slow everything down about tenfold. */
static const double most_seconds = 10.0;

static long inputs;

static int run_file(const char *path)
{
    FILE *file = fopen(path, "rb");
    static uint8_t room[FUZZ_INPUT];
    uint8_t *data;
    size_t size;
    clock_t start;
    if (!file) {
        perror(path);
        return 1;
    }
    size = fread(room, 1, sizeof room, file);
    fclose(file);
    data = malloc(size ? size : 1); /* of the exact size, so that a read behind it is seen */
    FUZZ_CHECK(data);
    memcpy(data, room, size);
    start = clock();
    LLVMFuzzerTestOneInput(data, size);
    free(data);
    inputs++;
    double seconds = (double)(clock() - start) / CLOCKS_PER_SEC;
    if (seconds > most_seconds)
        fprintf(stderr, "%s: took %.1f s\n", path, seconds);
    return seconds > most_seconds;
}

static int run_folder(const char *path)
{
    struct dirent **entries;
    int count = scandir(path, &entries, NULL, alphasort), bad = count < 0;
    if (bad)
        perror(path);
    for (int i = 0; i < count; i++) {
        char child[4096];
        snprintf(child, sizeof child, "%s/%s", path, entries[i]->d_name);
        if (entries[i]->d_name[0] != '.')
            bad |= run_file(child);
        free(entries[i]);
    }
    if (count >= 0)
        free(entries);
    return bad;
}

int main(int argc, char **argv)
{
    int bad = 0;
    for (int i = 1; i < argc; i++) {
        struct stat st;
        bad |= !stat(argv[i], &st) && S_ISDIR(st.st_mode) ? run_folder(argv[i]) : run_file(argv[i]);
    }
    printf("%ld inputs\n", inputs);
    return bad || !inputs;
}
