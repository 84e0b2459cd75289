/* One object of each kind, with callbacks of each kind that tell the test. For tests of what holds
 * for all of them. */
#ifndef PC_EVERY_OBJECT_H
#define PC_EVERY_OBJECT_H

#include <promptcache/admin.h>
#include <promptcache/task.h>
#include <promptcache/attend.h>
#include <promptcache/bench.h>
#include <promptcache/embed.h>
#include <promptcache/extend.h>
#include <promptcache/memo.h>
#include <promptcache/prompt.h>

#include "toy_schema.h"

enum {
    CONTEXT,
    MODEL,  /* of the application */
    NATIVE, /* the library's */
    CACHE,
    SCHEMA,
    PROMPT,
    NATIVE_PROMPT,
    FIRST,
    SECOND,
    THIRD,
    BATCH,
    SEGMENT,
    WRAPPED,
    MEMO,
    PLAN,
    SYSTEMS,
    FOLDER,
    FILE_OF_MODEL,
    SCHEMA_BUILDER,
    PROMPT_BUILDER,
    TASK, /* that is done */
    OBJECTS,
    ALL = OBJECTS
};

/* Kinds of callbacks. */
enum {
    ALLOC,
    FREE,
    LOG,
    PARALLEL,
    TEXT,
    LOGITS,
    DRAWN,
    CANCELLED,
    PROGRESS,
    EVENT,
    BYTES,
    CODEC,
    TRACE,
    RELEASE,
    ON_FREE,
    DISABLED,
    OPERATION, /* of the application's model; the kinds above are one function each */
    KINDS
};

enum { TOKENS = 8, BYTES_OF_WRAPPED = 4096 };

#define BIT(name) (1u << (name))
#define SERVED (BIT(MODEL) | BIT(CACHE) | BIT(SCHEMA) | BIT(PROMPT))

extern const char *const every_object_name[]; /* [OBJECTS + 1] */
extern const char *const every_kind_name[];   /* [KINDS] */
extern void *every_object[OBJECTS];           /* NULL: not made, or freed */
/* Every callback calls this first, on any thread. */
extern void (*every_called)(int kind);
extern int every_freed_users; /* calls of on_free of the application's model */
extern const int32_t every_ids[TOKENS];
extern const int64_t every_positions[TOKENS];
extern char every_folder[300]; /* where memos, caches and folders are made */

/* Makes a context and the objects of these bits; BATCH gets the sequences. */
void every_make(uint32_t needed);
void every_free(int which); /* does nothing if it is gone */
void every_end(void);       /* frees what is left */
void every_next_folder(void);
int64_t every_blocks_now(void); /* that the allocator has given and not got back */

int32_t every_text(void *user, uint32_t sample, const char *text, size_t size);
int32_t every_cancelled(void *user);
int32_t every_progress(void *user, const char *what, uint64_t done, uint64_t total);
void every_trace(void *user, const struct pc_trace *trace);

/* More of a kind. */
pc_status every_toy(pc_model **out, pc_context *context);
pc_status every_native(pc_model **out, pc_context *context);
pc_status every_cache(pc_cache **out, pc_context *context, const char *disk);
pc_status every_memo(pc_memo **out, const pc_model *model);
pc_status every_wrapped(pc_segment **out, pc_context *context);
pc_status every_segment(pc_segment **out, const pc_model *model);
pc_status every_plan(pc_plan **out, pc_context *context);
pc_generate_options every_generate_options(void);

#endif
