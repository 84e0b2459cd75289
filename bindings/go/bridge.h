/* What the Go package needs of C: failed calls with their text, and functions for callbacks. */
#ifndef PROMPTCACHE_GO_BRIDGE_H
#define PROMPTCACHE_GO_BRIDGE_H

#include <promptcache.h>
#include <promptcache/admin.h>
#include <promptcache/batch.h>
#include <promptcache/cache.h>
#include <promptcache/embed.h>
#include <promptcache/extend.h>
#include <promptcache/memo.h>
#include <promptcache/prompt.h>
#include <promptcache/sampling.h>
#include <stdlib.h>
#include <string.h>

/* What pc_error_text and pc_error_place say of a failed call. */
typedef struct go_error {
    char *text; /* for the caller to free; NULL: no memory, or no failure */
    uint64_t line, column;
} go_error;

static inline pc_status go_failed(pc_status status, go_error *error)
{
    if (status < 0) {
        error->text = strdup(pc_error_text());
        pc_error_place(&error->line, &error->column);
    }
    return status;
}

/* What the library has made of the text of pc_error_set, on this thread. */
static inline const char *go_kept_text(void)
{
    return pc_error_text();
}

#include "calls.h"

/* Results go to memory of Go, which options must not hold before the call, nor after it. */
static inline pc_status go_pc_prefill_into(const pc_model *model, const pc_input *inputs,
                                           size_t count, pc_prefill_options *options,
                                           float *embeddings, float *logits, pc_segment **segments,
                                           pc_memo_result *results, pc_prefill_stats *stats,
                                           go_error *error)
{
    options->embeddings = embeddings;
    options->logits = logits;
    options->segments = segments;
    options->results = results;
    options->result_stride = sizeof *results;
    return go_failed(pc_prefill(model, inputs, sizeof *inputs, count, options, stats), error);
}

/* Names the thread that asks. */
uintptr_t go_thread(void);

/* `user` is the number of the caller's callbacks (callbacks.go), not a pointer. */
void go_on_log(void *user, uint32_t level, const char *line);
int32_t go_on_progress(void *user, const char *what, uint64_t done, uint64_t total);
void go_on_event(void *user, const pc_event *event);
void go_on_bytes(void *user, uint32_t tier, uint64_t bytes, uint64_t budget);
void go_on_disabled(void *user, uint32_t bucket, double loss, double limit);
int32_t go_on_text(void *user, uint32_t sample, const char *text, size_t size);
int32_t go_on_logits(void *user, uint32_t sample, float *logits, size_t count);
int32_t go_on_token(void *user, const pc_token *token);

/* `user` points to an int32_t that becomes 1. */
int32_t go_cancelled(void *user);

/* Frees what go_pc_segment_wrap was given as `user`: a list of blocks, ended by NULL. */
void go_free_blocks(void *user);

#endif
