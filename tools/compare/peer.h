/* Shared by both sides of the comparison: tokens, clock and a small protocol.
 *
 * A side loads its model once, then answers commands: a line each on standard input, a line of JSON
 * for each on standard output:
 *   {"seconds": [..]}   wall time of each repetition or step
 *   {"error": ".."}     the command failed
 * So a script can measure the sides in turns, with all preparation outside of the measured time. */
#ifndef PEER_H
#define PEER_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MOST_STEPS = 256, MOST_BATCH = 64, MOST_WORDS = 8 };

typedef struct peer_command {
    char line[4096];
    char *words[MOST_WORDS];
    int count;
} peer_command;

static inline double peer_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Token `i` of text number `text`; the first three ids are special and not used. */
static inline int32_t peer_token(int64_t text, int64_t i, int32_t vocab)
{
    uint64_t x = (uint64_t)text * UINT64_C(0x9e3779b97f4a7c15)
                 + (uint64_t)i * UINT64_C(0xbf58476d1ce4e5b9) + 1;
    x = (x ^ (x >> 31)) * UINT64_C(0x94d049bb133111eb);
    return 3 + (int32_t)((x >> 33) % (uint64_t)(vocab - 3));
}

static inline int peer_read(peer_command *c)
{
    if (!fgets(c->line, sizeof c->line, stdin))
        return 0;
    c->count = 0;
    for (char *at = strtok(c->line, " \n"); at && c->count < MOST_WORDS; at = strtok(NULL, " \n"))
        c->words[c->count++] = at;
    return 1;
}

/* Word `i` as a number from low to high; low - 1: missing, or outside. */
static inline int peer_number(const peer_command *c, int i, int low, int high)
{
    long value = i < c->count ? strtol(c->words[i], NULL, 10) : low - 1L;
    return value < low || value > high ? low - 1 : (int)value;
}

static inline void peer_times(const double *seconds, int count)
{
    printf("{\"seconds\": [");
    for (int i = 0; i < count; i++)
        printf("%s%.9f", i ? ", " : "", seconds[i]);
    printf("]}\n");
    fflush(stdout);
}

static inline int peer_error(const char *text)
{
    printf("{\"error\": \"");
    for (; *text; text++)
        if (*text == '"' || *text == '\\')
            printf("\\%c", *text);
        else
            putchar((unsigned char)*text < 32 ? ' ' : *text);
    printf("\"}\n");
    fflush(stdout);
    return 0;
}

typedef struct peer_job {
    const char *name;
    int (*run)(const peer_command *);
} peer_job;

/* Reports that the side is ready, then answers commands until the input ends. */
static inline void peer_serve(const peer_job *jobs, size_t count)
{
    static peer_command cmd;
    peer_times(NULL, 0);
    while (peer_read(&cmd)) {
        size_t i = 0;
        while (i < count && (!cmd.count || strcmp(jobs[i].name, cmd.words[0])))
            i++;
        if (i < count)
            jobs[i].run(&cmd);
        else
            peer_error("no such command");
    }
}

/* Logits [rows][vocab], fp32 of this machine, for the script to compare. */
static inline int peer_write_logits(const char *path, const float *logits, size_t count)
{
    FILE *file = fopen(path, "wb");
    int good = file && fwrite(logits, sizeof *logits, count, file) == count;
    if (file && fclose(file))
        good = 0;
    return good;
}

#endif
