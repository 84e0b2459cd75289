/* Catches: sums and products that wrap, indices beyond the end, NULLs that are read, NaNs, unknown
 * enumerators and flags that a public function lets pass, or that make it crash.
 *
 * extreme_tables.py makes the tables of all public functions and structs from the headers. Each
 * function is called with valid arguments, then with an extreme value in place of one of them, or
 * of one field of one of its structs. It must return, with a known status. Where the value is wrong
 * whatever the call is about (a flag or enumerator that does not exist, a reserved field that is
 * set, a NaN, an index beyond any end), the status must be PC_ERR_INVALID, or PC_ERR_NOT_FOUND for
 * an index. Sanitizers watch the rest.
 *
 * Also catches: an init function that writes other bytes than its INIT macro, or more than the
 * caller's struct. */
#include <promptcache.h>
#include <promptcache/admin.h>
#include <promptcache/task.h>
#include <promptcache/attend.h>
#include <promptcache/batch.h>
#include <promptcache/bench.h>
#include <promptcache/cache.h>
#include <promptcache/extend.h>
#include <promptcache/grammar.h>
#include <promptcache/memo.h>
#include <promptcache/prompt.h>
#include <promptcache/sampling.h>
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "pages_write.h"
#include "every_object.h"

typedef struct value {
    void *p;
    uint64_t u;
    int64_t i;
    double d;
} value;

enum {
    POINTER,
    COUNT,
    STRIDE,
    INDEX,
    ROOM,
    FLAGS,
    ENUM,
    RESERVED,
    POSITION,
    NUMBER,
    SECONDS,
    FLOAT,
    MANY, /* any number */
    OTHER
};
#define BYTES MANY
enum { STATUS = 1 };

typedef struct param {
    const char *type, *name;
    int kind;
} param;

typedef struct call {
    const char *name;
    int64_t (*make)(const value *v);
    const param *params;
    int count, gives;
} call;

typedef struct field {
    const char *name;
    size_t at, size;
    int kind;
} field;

typedef struct layout {
    const char *name;
    size_t size;
    const field *fields;
    int count;
} layout;

typedef struct init {
    const char *name;
    size_t size;
    const void *made; /* by the macro */
    void (*make)(void *at, size_t size);
} init;

#include "extreme_tables.h"

enum { MOST_PARAMS = 10, ROOM_BYTES = 1 << 16, CALLS = sizeof calls / sizeof *calls };

/* ------------------------------------------------------------------ valid arguments */

/* Memory that arguments point to: one block for each parameter. */
static _Alignas(64) unsigned char memory[MOST_PARAMS][ROOM_BYTES];
static pc_attend_shape shape = {sizeof shape, 2, 1, 16, 16, PC_DTYPE_F32, 0};
static const uint8_t fingerprint[32] = {1};
static int polls;

static int32_t stop_soon(void *user)
{
    (void)user;
    return ++polls > 40;
}

static int32_t stop_work(void *user, const char *what, uint64_t done, uint64_t total)
{
    (void)user, (void)what, (void)done, (void)total;
    return ++polls > 40;
}

static pc_status refuse_describe(void *user, pc_model_info *info)
{
    (void)user, (void)info;
    return PC_ERR_UNSUPPORTED;
}

static const layout *layout_of(const char *type)
{
    size_t n = strlen(type);
    for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++) {
        size_t length = strlen(layouts[i].name);
        const char *name = strstr(type, layouts[i].name);
        if (name && name + length + 2 == type + n && (name == type || name[-1] == ' '))
            return &layouts[i];
    }
    return NULL;
}

static void set_raw(pc_raw *raw)
{
    static const void *block = memory[MOST_PARAMS - 1];
    static const uint64_t bytes = 64;
    raw->model = fingerprint;
    raw->dtype = PC_DTYPE_F32;
    raw->layout = PC_LAYOUT_APPLICATION;
    raw->layers = raw->kv_heads = raw->k_dim = raw->v_dim = 1;
    raw->tokens = every_ids;
    raw->token_count = TOKENS;
    raw->blocks = &block;
    raw->block_bytes = &bytes;
    raw->block_count = 1;
}

static void set_plan(pc_plan_args *a)
{
    static const pc_run run = {TOKENS, NULL, NULL};
    static const pc_row_span span = {0, 0, 0, TOKENS, 0};
    static const uint32_t first[2] = {0, 1}, dtype = PC_DTYPE_DEFAULT;
    static const int64_t position = TOKENS;
    a->shape = &shape;
    a->runs = &run;
    a->run_stride = sizeof(pc_run);
    a->run_count = a->row_count = 1;
    a->positions = &position;
    a->first = first;
    a->spans = &span;
    a->span_stride = sizeof(pc_row_span);
    a->dtypes = &dtype;
}

static void set_attend(pc_attend_args *a)
{
    static _Alignas(64) float pages[64 * 32], q[32], out[32], lse[2];
    static const void *run = pages;
    static const double frequency[8] = {1};
    static pc_rope rope = {sizeof rope, 16, 0, 0, 0, frequency};
    a->pages = &run;
    a->q = q;
    a->out = out;
    a->lse = lse;
    a->rope = &rope;
}

static void set_pages(pc_pages_args *a)
{
    static _Alignas(64) float pages[64 * 32], k[16], v[16];
    a->shape = &shape;
    a->pages = pages;
    a->count = 1;
    a->k = k;
    a->v = v;
}

static void set_merge(pc_merge_args *a)
{
    static float part[1], out[1];
    static const float *const parts[1] = {part};
    a->outs = a->lses = parts;
    a->part_count = a->row_count = 1;
    a->heads = a->v_dim = 1;
    a->out = out;
}

static void set_ops(pc_model_ops *ops)
{
    *ops = pc_toy_ops();
    ops->describe = refuse_describe;
}

static void set_eval(pc_eval_args *a)
{
    static pc_lane lane;
    lane = (pc_lane){NULL, 0, every_ids, every_positions, TOKENS, NULL, 0};
    a->lanes = &lane;
    a->lane_stride = sizeof(pc_lane);
    a->lane_count = 1;
}

/* A struct with its size and whatever it needs to be valid. */
static void set_struct(const char *name, void *at, size_t size)
{
    memset(at, 0, size);
    memcpy(at, &size, sizeof size);
    if (!strcmp(name, "pc_raw"))
        set_raw(at);
    else if (!strcmp(name, "pc_plan_args"))
        set_plan(at);
    else if (!strcmp(name, "pc_attend_args"))
        set_attend(at);
    else if (!strcmp(name, "pc_pages_args"))
        set_pages(at);
    else if (!strcmp(name, "pc_merge_args"))
        set_merge(at);
    else if (!strcmp(name, "pc_attend_shape"))
        memcpy(at, &shape, sizeof shape);
    else if (!strcmp(name, "pc_eval_args"))
        set_eval(at);
    else if (!strcmp(name, "pc_model_ops"))
        set_ops(at);
    else if (!strcmp(name, "pc_key_parts"))
        ((pc_key_parts *)at)->model = fingerprint;
    else if (!strcmp(name, "pc_system_format"))
        ((pc_system_format *)at)->system = "the word";
    else if (!strcmp(name, "pc_message"))
        *(pc_message *)at = (pc_message){.role = "user"};
    else if (!strcmp(name, "pc_input"))
        *(pc_input *)at = (pc_input){every_ids, TOKENS, NULL};
    else if (!strcmp(name, "pc_span"))
        *(pc_span *)at = (pc_span){every_object[SEGMENT], 0, 0, 0};
    else if (!strcmp(name, "pc_generate_options")) {
        ((pc_generate_options *)at)->max_tokens = 2;
        ((pc_generate_options *)at)->cancelled = stop_soon;
    } else if (!strcmp(name, "pc_memo_work")) {
        ((pc_memo_work *)at)->progress = stop_work;
    } else if (!strcmp(name, "pc_calibrate_options")) {
        ((pc_calibrate_options *)at)->path = "";
        ((pc_calibrate_options *)at)->progress = stop_work;
    }
}

/* What these calls are about is the library's model, not the application's. */
static int is_native(const char *call_name)
{
    return !strcmp(call_name, "pc_eval") || !strcmp(call_name, "pc_prefill")
           || !strcmp(call_name, "pc_memo_open") || !strcmp(call_name, "pc_prompt_from_spans");
}

static void *object_for(const call *c, const char *type)
{
    static const struct {
        const char *type;
        int object;
    } table[] = {{"pc_context *", CONTEXT},
                 {"pc_cache *", CACHE},
                 {"pc_schema *", SCHEMA},
                 {"pc_prompt *", PROMPT},
                 {"pc_sequence *", FIRST},
                 {"pc_batch *", BATCH},
                 {"pc_memo *", MEMO},
                 {"pc_plan *", PLAN},
                 {"pc_systems *", SYSTEMS},
                 {"pc_folder *", FOLDER},
                 {"pc_segment *", SEGMENT},
                 {"pc_model *", MODEL},
                 {"pc_model_file *", FILE_OF_MODEL},
                 {"pc_schema_builder *", SCHEMA_BUILDER},
                 {"pc_prompt_builder *", PROMPT_BUILDER},
                 {"pc_task *", TASK}};
    const char *plain = strncmp(type, "const ", 6) ? type : type + 6;
    if (!strcmp(plain, "pc_model *"))
        return every_object[is_native(c->name) ? NATIVE : MODEL];
    if (!strcmp(plain, "pc_segment *") && !strcmp(c->name, "pc_cache_put"))
        return every_object[WRAPPED];
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (!strcmp(plain, table[i].type))
            return every_object[table[i].object];
    return NULL;
}

static value valid_pointer(const call *c, int index)
{
    const char *type = c->params[index].type, *name = c->params[index].name;
    unsigned char *at = memory[index];
    const layout *of = layout_of(type);
    value v = {.p = object_for(c, type)};
    if (v.p || strstr(type, "function") || strstr(type, "_fn"))
        return v;
    memset(at, 0, ROOM_BYTES);
    v.p = at;
    if (of && strcmp(name, "spans"))
        set_struct(of->name, at, of->size);
    else if (of)
        set_struct(of->name, at, of->size);
    else if (!strcmp(type, "pc_schema *const *"))
        memcpy(at, &every_object[SCHEMA], sizeof(void *));
    else if (!strcmp(type, "const char *const *"))
        memcpy(at, &(const char *){"/nowhere/at/all"}, sizeof(char *));
    else if (!strcmp(name, "path") || !strcmp(name, "folder"))
        v.p = every_folder;
    else if (!strcmp(type, "const char *"))
        v.p = (void *)(uintptr_t) "the word is here";
    else if (!strcmp(type, "const int32_t *"))
        v.p = (void *)(uintptr_t)every_ids;
    else if (!strcmp(type, "const int64_t *"))
        v.p = (void *)(uintptr_t)every_positions;
    else if (!strcmp(name, "user") || !strcmp(name, "progress_user"))
        v.p = NULL;
    return v;
}

static value valid(const call *c, int index)
{
    switch (c->params[index].kind) {
    case POINTER:
        return valid_pointer(c, index);
    case COUNT:
        return (value){.u = 1};
    case STRIDE: /* of the array before it */
        return (value){.u = layout_of(c->params[index - 1].type)->size};
    case ROOM:
        return (value){.u = 64};
    case NUMBER:
    case POSITION:
        return (value){.i = !strcmp(c->name, "pc_prompt_from_spans") ? TOKENS : 0};
    case ENUM:
        return (value){.u = !strcmp(c->params[index].name, "tier") ? PC_TIER_RAM : 0};
    default:
        return (value){.u = 0};
    }
}

/* ------------------------------------------------------------------ results */

static void free_made(const call *c, const value *v)
{
    static const struct {
        const char *type;
        int object;
    } table[] = {{"pc_context **", CONTEXT},
                 {"pc_model **", MODEL},
                 {"pc_cache **", CACHE},
                 {"pc_schema **", SCHEMA},
                 {"pc_prompt **", PROMPT},
                 {"pc_sequence **", FIRST},
                 {"pc_batch **", BATCH},
                 {"pc_segment **", SEGMENT},
                 {"pc_memo **", MEMO},
                 {"pc_plan **", PLAN},
                 {"pc_systems **", SYSTEMS},
                 {"pc_folder **", FOLDER},
                 {"pc_model_file **", FILE_OF_MODEL},
                 {"pc_schema_builder **", SCHEMA_BUILDER},
                 {"pc_prompt_builder **", PROMPT_BUILDER},
                 {"pc_task **", TASK}};
    for (int p = 0; p < c->count; p++)
        for (size_t i = 0; v[p].p && i < sizeof table / sizeof *table; i++)
            if (!strcmp(c->params[p].type, table[i].type)) {
                void *kept = every_object[table[i].object];
                memcpy(&every_object[table[i].object], v[p].p, sizeof(void *));
                every_free(table[i].object);
                every_object[table[i].object] = kept;
            }
    for (int p = 0; p < c->count; p++)
        if (v[p].p && !strcmp(c->params[p].type, "pc_load **")) {
            pc_load *load;
            memcpy(&load, v[p].p, sizeof(void *));
            pc_load_free(load);
        }
}

/* Values that are not looked at, so that a NaN there is no error. */
static int is_ignored(const char *place, const char *name)
{
    static const char *const ignored[][2] = {{"pc_memo_bucket", "threshold"},
                                             {"pc_memo_bucket", "limit"},
                                             {"pc_memo_bucket", "tuned_loss"},
                                             {"pc_memo_bucket", "tuned_hit_rate"},
                                             {"pc_memo_bucket", "verified_loss"},
                                             {"pc_memo_bucket", "hit_limit"},
                                             {"pc_memo_bucket", "loss"},
                                             {"pc_generate_options", "salt_stride"},
                                             {"pc_encode_options", "salt_stride"},
                                             {"pc_embed_options", "salt_stride"},
                                             {"pc_prefill_options", "result_stride"}};
    /* numbers of elements, not sizes of structs */
    static const char *const counts[] = {"_token_stride", "_head_stride", "_row_stride"};
    for (size_t i = 0; i < sizeof ignored / sizeof *ignored; i++)
        if (!strcmp(place, ignored[i][0]) && !strcmp(name, ignored[i][1]))
            return 1;
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        if (strlen(name) > strlen(counts[i])
            && !strcmp(name + strlen(name) - strlen(counts[i]), counts[i]))
            return 1;
    return 0;
}

typedef struct extreme {
    value v;
    int refused; /* 1: wrong whatever the call is about */
} extreme;

static int extremes_of(int kind, extreme *out)
{
    int n = 0;
#define ADD(member, x, wrong)    \
    out[n++] = (extreme)         \
    {                            \
        {.member = (x)}, (wrong) \
    }
    switch (kind) {
    case POINTER:
        ADD(p, NULL, 0);
        break;
    case COUNT:
        ADD(u, 0, 0);
        ADD(u, SIZE_MAX, 0);
        ADD(u, SIZE_MAX - 1, 0);
        break;
    case INDEX:
        ADD(u, SIZE_MAX, 1);
        ADD(u, SIZE_MAX - 1, 1);
        ADD(u, SIZE_MAX / 2 + 1, 1);
        break;
    case STRIDE:
        ADD(u, 0, 1);
        ADD(u, 7, 1);
        ADD(u, SIZE_MAX, 1);
        ADD(u, SIZE_MAX / 2, 1);
        break;
    case ROOM:
        ADD(u, 0, 0);
        ADD(u, 1, 0);
        break;
    case FLAGS:
        ADD(u, UINT64_C(1) << 30, 1);
        ADD(u, UINT64_C(1) << 63, 1);
        break;
    case ENUM:
        ADD(u, INT32_MAX, 1);
        ADD(u, UINT32_MAX, 1);
        break;
    case RESERVED:
        ADD(u, 1, 1);
        break;
    case POSITION:
        ADD(i, INT64_MIN, 0);
        ADD(i, -1, 0);
        ADD(i, INT64_MAX, 0);
        break;
    case NUMBER:
        ADD(i, INT32_MIN, 0);
        ADD(i, -1, 0);
        ADD(i, INT32_MAX, 0);
        break;
    case SECONDS:
    case FLOAT:
        ADD(d, NAN, 1);
        ADD(d, INFINITY, 0);
        ADD(d, -INFINITY, 0);
        ADD(d, kind == FLOAT ? (double)FLT_MAX : DBL_MAX, 0);
        break;
    case MANY:
        ADD(u, UINT64_MAX, 0);
        ADD(u, UINT32_MAX, 0);
        ADD(u, 1, 0);
        break;
    default:
        break;
    }
#undef ADD
    return n;
}

static void put_field(unsigned char *at, const field *f, const extreme *x)
{
    float narrow = (float)x->v.d;
    if (f->kind == FLOAT)
        memcpy(at + f->at, &narrow, sizeof narrow);
    else if (f->kind == POINTER && f->size == sizeof(void *))
        memcpy(at + f->at, &x->v.p, sizeof(void *));
    else if (f->kind == SECONDS && f->size == sizeof(double))
        memcpy(at + f->at, &x->v.d, sizeof(double));
    else if (f->kind == POSITION || f->kind == NUMBER)
        memcpy(at + f->at, &x->v.i, f->size);
    else if (f->kind != POINTER && f->size <= sizeof x->v.u)
        memcpy(at + f->at, &x->v.u, f->size);
}

/* Calls that end objects, and those that write as many bytes as they are told (init_functions). */
static int is_left_out(const call *c)
{
    size_t n = strlen(c->name);
    return n > 5 && (!strcmp(c->name + n - 5, "_free") || !strcmp(c->name + n - 5, "_init"));
}

static int64_t call_with(const call *c, const value *v)
{
    polls = 0;
    return c->make(v);
}

static void check_result(const call *c, const char *what, int64_t got, const extreme *x)
{
    pc_status status = (pc_status)got;
    if (c->gives != STATUS)
        return;
    int known = strcmp(pc_status_name(status), "unknown status") != 0;
    int refused = status == PC_ERR_INVALID || status == PC_ERR_NOT_FOUND;
    if (!known || (x && x->refused && !refused))
        fprintf(stderr, "    %s, %s = %llx / %g: %s (%s)\n", c->name, what,
                x ? (unsigned long long)x->v.u : 0, x ? x->v.d : 0, pc_status_name(status),
                status < 0 ? pc_error_text() : "");
    CHECK(known);
    if (x && x->refused)
        CHECK(refused);
}

static void all_valid(const call *c, value *v)
{
    for (int p = 0; p < c->count; p++)
        v[p] = valid(c, p);
}

static void try_field(const call *c, int p, const layout *of, const field *f)
{
    extreme xs[8];
    int n = extremes_of(f->kind, xs);
    for (int i = 0; i < n; i++) {
        value v[MOST_PARAMS];
        all_valid(c, v);
        put_field(v[p].p, f, &xs[i]);
        if (is_ignored(of->name, f->name))
            xs[i].refused = 0;
        int64_t got = call_with(c, v);
        check_result(c, f->name, got, &xs[i]);
        free_made(c, v);
    }
}

static void try_param(const call *c, int p)
{
    extreme xs[8];
    const param *of = &c->params[p];
    const layout *fields = layout_of(of->type);
    int n = extremes_of(of->kind, xs);
    for (int i = 0; i < n; i++) {
        value v[MOST_PARAMS];
        all_valid(c, v);
        v[p] = xs[i].v;
        int64_t got = call_with(c, v);
        check_result(c, of->name, got, &xs[i]);
        free_made(c, v);
    }
    if (fields && of->kind == POINTER && !strncmp(of->type, "const ", 6))
        for (int f = 0; f < fields->count; f++)
            try_field(c, p, fields, &fields->fields[f]);
}

static void try_call(const call *c)
{
    value v[MOST_PARAMS];
    if (is_left_out(c))
        return;
    every_make(BIT(MODEL) | BIT(NATIVE) | BIT(CACHE) | BIT(SCHEMA) | BIT(PROMPT) | BIT(FIRST)
               | BIT(BATCH) | BIT(SEGMENT) | BIT(WRAPPED) | BIT(PLAN) | BIT(SYSTEMS) | BIT(FOLDER)
               | BIT(MEMO) | BIT(FILE_OF_MODEL) | BIT(SCHEMA_BUILDER) | BIT(PROMPT_BUILDER)
               | BIT(TASK));
    every_next_folder();
    all_valid(c, v);
    check_result(c, "nothing", call_with(c, v), NULL);
    free_made(c, v);
    for (int p = 0; p < c->count; p++)
        try_param(c, p);
    every_end();
}

/* Values that the table does not reach. */
static void more(void)
{
    static _Alignas(64) float pages[64 * 32];
    float k[16] = {0}, v[16] = {0};
    pc_attend_shape bad = shape;
    every_make(BIT(NATIVE) | BIT(SEGMENT) | BIT(PLAN));
    CHECK_STATUS(write_pages(&shape, pages, SIZE_MAX, 1, k, v), PC_ERR_INVALID);
    CHECK_STATUS(write_pages(&shape, pages, SIZE_MAX - 63, 64, k, v), PC_ERR_INVALID);
    CHECK_STATUS(write_pages(&shape, pages, 0, SIZE_MAX, k, v), PC_ERR_INVALID);
    CHECK_STATUS(write_pages(&shape, (char *)pages + 4, 0, 1, k, v), PC_ERR_INVALID);
    CHECK_ERROR_HAS("aligned");
    CHECK_OK(write_pages(&shape, pages, 0, 1, k, v));
    bad.dtype = PC_DTYPE_I8;
    CHECK_STATUS(write_pages(&bad, pages, SIZE_MAX - 63, 64, k, v), PC_ERR_INVALID);
    bad.dtype = 99;
    CHECK_STATUS(write_pages(&bad, pages, 0, 1, k, v), PC_ERR_INVALID);
    CHECK_INT(pc_pages_bytes(&bad, 1), 0);
    CHECK_INT(pc_pages_bytes(&shape, SIZE_MAX), 0);
    CHECK_INT(pc_pages_bytes(&shape, SIZE_MAX - 64), 0);
    CHECK_STATUS(pc_segment_read(every_object[SEGMENT], 0, INT64_MAX, k, v), PC_ERR_LIMIT);
    CHECK_STATUS(pc_segment_read(every_object[SEGMENT], 0, (INT64_C(1) << 60) + 1, NULL, NULL),
                 PC_ERR_LIMIT);
    CHECK_STATUS(pc_segment_read(every_object[SEGMENT], INT32_MAX, 0, NULL, NULL), PC_ERR_INVALID);
    every_end();
}

static void numbers_of_attention(void)
{
    const double bad_frequency[8] = {1, NAN};
    const float bad[2] = {0, NAN};
    pc_rope rope = {sizeof rope, 16, 0, 0, 0, bad_frequency};
    pc_attend_args a = PC_ATTEND_ARGS_INIT, good;
    every_make(BIT(PLAN));
    set_attend(&a);
    good = a;
    CHECK_OK(pc_attend(every_object[PLAN], &a));
    a.rope = &rope;
    CHECK_STATUS(pc_attend(every_object[PLAN], &a), PC_ERR_INVALID);
    a = good;
    a.slopes = bad;
    CHECK_STATUS(pc_attend(every_object[PLAN], &a), PC_ERR_INVALID);
    a = good;
    a.sinks = bad;
    CHECK_STATUS(pc_attend(every_object[PLAN], &a), PC_ERR_INVALID);
    every_end();
}

/* One rule: a number format that does not exist is PC_ERR_INVALID in each call, one that exists but
 * is not for this call PC_ERR_UNSUPPORTED. */
static void number_formats(void)
{
    pc_model *model = NULL;
    pc_model_options o = PC_MODEL_OPTIONS_INIT;
    uint8_t base[32];
    pc_key_parts parts = PC_KEY_PARTS_INIT;
    every_make(0);
    o.compute = PC_DTYPE_F16;
    CHECK_STATUS(pc_model_new_shape(&model, every_object[CONTEXT], "tiny", 1, &o),
                 PC_ERR_UNSUPPORTED);
    o.compute = PC_DTYPE_I16 + 1;
    CHECK_STATUS(pc_model_new_shape(&model, every_object[CONTEXT], "tiny", 1, &o), PC_ERR_INVALID);
    o.compute = 0;
    o.kv = PC_DTYPE_I16;
    CHECK_STATUS(pc_model_new_shape(&model, every_object[CONTEXT], "tiny", 1, &o),
                 PC_ERR_UNSUPPORTED);
    o.kv = PC_DTYPE_I16 + 1;
    CHECK_STATUS(pc_model_new_shape(&model, every_object[CONTEXT], "tiny", 1, &o), PC_ERR_INVALID);
    parts.model = fingerprint;
    CHECK_OK(pc_key_base(base, &parts));
    parts.dtype = PC_DTYPE_I16 + 1;
    CHECK_STATUS(pc_key_base(base, &parts), PC_ERR_INVALID);
    every_end();
}

/* The caller's struct may be shorter or longer than the library's. */
static void init_functions(void)
{
    static unsigned char at[ROOM_BYTES], want[ROOM_BYTES];
    for (size_t i = 0; i < sizeof inits / sizeof *inits; i++) {
        const init *of = &inits[i];
        const size_t sizes[] = {
            0,        sizeof(size_t) - 1,           sizeof(size_t), of->size - sizeof(size_t),
            of->size, of->size + 3 * sizeof(size_t)};
        for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
            memset(at, 0xa5, sizeof at);
            memset(want, 0xa5, sizeof want);
            if (sizes[s] >= sizeof(size_t)) {
                memset(want, 0, sizes[s]);
                memcpy(want, &sizes[s], sizeof(size_t));
            }
            of->make(at, sizes[s]);
            if (!CHECK(!memcmp(at, want, sizeof at)))
                fprintf(stderr, "    %s_init, size %zu\n", of->name, sizes[s]);
        }
        of->make(at, of->size);
        if (!CHECK(!memcmp(at, of->made, of->size)))
            fprintf(stderr, "    %s_init\n", of->name);
        of->make(NULL, of->size);
    }
}

/* The table must have every exported symbol. */
static void completeness(void)
{
    char *map = pc_test_read(PC_SOURCE_DIR "/lib/promptcache.map", &(size_t){0}), *at = map;
    int count = 0;
    for (; at && (at = strstr(at, "    pc_")); count++) {
        size_t n = strcspn(at += 4, ";"), i = 0;
        while (i < CALLS && (strlen(calls[i].name) != n || strncmp(calls[i].name, at, n)))
            i++;
        if (!CHECK(i < CALLS))
            fprintf(stderr, "    %.*s\n", (int)n, at);
    }
    CHECK_INT(count, CALLS);
    free(map);
}

int main(int argc, char **argv)
{
    for (size_t i = 0; i < CALLS; i++)
        if (argc < 2 || !strcmp(argv[1], calls[i].name))
            try_call(&calls[i]);
    more();
    numbers_of_attention();
    number_formats();
    init_functions();
    completeness();
    return pc_test_end();
}
