/* The functions that the library calls: each gives its arguments to a function of Go. */
#include "bridge.h"
#include "_cgo_export.h"

uintptr_t go_thread(void)
{
    static _Thread_local char here;
    return (uintptr_t)&here;
}

void go_on_log(void *user, uint32_t level, const char *line)
{
    goLog((uintptr_t)user, level, (char *)line);
}

int32_t go_on_progress(void *user, const char *what, uint64_t done, uint64_t total)
{
    return goProgress((uintptr_t)user, (char *)what, done, total);
}

void go_on_event(void *user, const pc_event *event)
{
    goEvent((uintptr_t)user, (pc_event *)event);
}

void go_on_bytes(void *user, uint32_t tier, uint64_t bytes, uint64_t budget)
{
    goBytes((uintptr_t)user, tier, bytes, budget);
}

void go_on_disabled(void *user, uint32_t bucket, double loss, double limit)
{
    goDisabled((uintptr_t)user, bucket, loss, limit);
}

int32_t go_on_text(void *user, uint32_t sample, const char *text, size_t size)
{
    return goText((uintptr_t)user, sample, (char *)text, size);
}

int32_t go_on_logits(void *user, uint32_t sample, float *logits, size_t count)
{
    return goLogits((uintptr_t)user, sample, logits, count);
}

int32_t go_on_token(void *user, const pc_token *token)
{
    return goToken((uintptr_t)user, (pc_token *)token);
}

int32_t go_cancelled(void *user)
{
    return __atomic_load_n((int32_t *)user, __ATOMIC_RELAXED);
}

void go_free_blocks(void *user)
{
    for (void **block = user; *block; block++)
        free(*block);
    free(user);
}
