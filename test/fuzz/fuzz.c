#include "fuzz.h"

#include <promptcache/admin.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "model/model.h"

void fuzz_fault(const char *what, const char *file, int line)
{
    fprintf(stderr, "%s:%d: does not hold: %s\n    last error: %s\n", file, line, what,
            pc_error_text());
    abort();
}

static size_t live_bytes, live_blocks;

static void *take(void *user, size_t size, size_t align)
{
    void *ptr = NULL;
    (void)user;
    FUZZ_CHECK(size <= FUZZ_MEMORY && live_bytes + size <= FUZZ_MEMORY);
    if (posix_memalign(&ptr, align < sizeof ptr ? sizeof ptr : align,
                       size + 1)) /* the leak checker sees no pointer behind a block */
        return NULL;
    memset(ptr, 0xA5, size < 4096 ? size : 4096);
    live_bytes += size;
    live_blocks++;
    return ptr;
}

static void give(void *user, void *ptr, size_t size, size_t align)
{
    (void)user;
    (void)align;
    live_bytes -= size;
    live_blocks--;
    free(ptr);
}

const pc_allocator fuzz_memory = {sizeof(pc_allocator), NULL, take, give};

/* ------------------------------------------------------------ the whole heap */

/* Where a sanitizer watches the heap, all memory of the C library counts, also that of the
 * libraries below us, which do not take it from fuzz_memory. */
extern int __sanitizer_install_malloc_and_free_hooks(void (*taken)(const volatile void *, size_t),
                                                     void (*given)(const volatile void *))
    __attribute__((weak));
extern size_t __sanitizer_get_allocated_size(const volatile void *ptr) __attribute__((weak));

static _Atomic size_t heap;
static size_t heap_at_start; /* of the input; the fuzzer has its corpus there */

static void heap_taken(const volatile void *ptr, size_t size)
{
    (void)ptr;
    heap += size;
    if (heap_at_start && heap > heap_at_start + FUZZ_MEMORY)
        fuzz_fault("an input takes at most 256 MiB of the heap", __FILE__, __LINE__);
}

static void heap_given(const volatile void *ptr)
{
    heap -= ptr ? __sanitizer_get_allocated_size(ptr) : 0;
}

static __attribute__((constructor)) void watch_heap(void)
{
    if (__sanitizer_install_malloc_and_free_hooks)
        __sanitizer_install_malloc_and_free_hooks(heap_taken, heap_given);
}

size_t fuzz_blocks(void)
{
    heap_at_start = heap;
    return live_blocks;
}

void fuzz_no_leak(size_t blocks)
{
    FUZZ_CHECK(live_blocks == blocks);
}

/* ------------------------------------------------------------------- files */

/* Files that live in memory for the life of the process; symbolic links give them names. */
enum { FILES = 2 };
static int fds[FILES] = {-1, -1};
static char links[FILES][96], folder[64];

static void remove_names(void)
{
    for (int i = 0; i < FILES; i++)
        if (*links[i])
            unlink(links[i]);
    if (*folder)
        rmdir(folder);
}

static const char *fill(int file, const uint8_t *data, size_t size)
{
    static char paths[FILES][64];
    if (fds[file] < 0) {
        fds[file] = memfd_create("fuzz", MFD_CLOEXEC);
        FUZZ_CHECK(fds[file] >= 0);
        snprintf(paths[file], sizeof paths[file], "/proc/%d/fd/%d", (int)getpid(), fds[file]);
    }
    FUZZ_CHECK(!ftruncate(fds[file], 0));
    for (size_t at = 0; at < size;) {
        ssize_t n = pwrite(fds[file], data + at, size - at, (off_t)at);
        FUZZ_CHECK(n > 0);
        at += (size_t)n;
    }
    return paths[file];
}

/* Names a file; the first name that a process gives stays. */
static const char *named(int file, const char *path, const char *prefix, const char *name)
{
    if (!*links[file]) {
        snprintf(links[file], sizeof links[file], "%s%s", prefix, name);
        unlink(links[file]);
        FUZZ_CHECK(!symlink(path, links[file]));
        atexit(remove_names);
    }
    return links[file];
}

const char *fuzz_file(const uint8_t *data, size_t size, const char *ending)
{
    const char *path = fill(0, data, size);
    char prefix[64];
    if (!*ending)
        return path;
    snprintf(prefix, sizeof prefix, "/tmp/pc-fuzz-%d", (int)getpid());
    return named(0, path, prefix, ending);
}

const char *fuzz_folder(const uint8_t *config, size_t config_size, const uint8_t *weights,
                        size_t weights_size)
{
    const char *first = fill(0, config, config_size), *second = fill(1, weights, weights_size);
    if (!*folder) {
        snprintf(folder, sizeof folder, "/tmp/pc-fuzz-%d", (int)getpid());
        FUZZ_CHECK(!mkdir(folder, 0700));
    }
    named(0, first, folder, "/config.json");
    named(1, second, folder, "/model.safetensors");
    return folder;
}

int fuzz_ok(pc_status status)
{
    const char *text = pc_error_text();
    if (status >= 0)
        return 1;
    FUZZ_CHECK(*text && !strpbrk(text, "\r\n"));
    FUZZ_CHECK(strcmp(pc_status_name(status), "unknown status"));
    return 0;
}

/* ------------------------------------------------------------ vocabularies */

enum { SPECIALS = 6, BYTES = 256, MOST = 512 };

static const char *const specials[SPECIALS] = {"<unk>",        "<s>",        "</s>",
                                               "<|im_start|>", "<|im_end|>", "<|x|>"};
/* '_' is the blank of the vocabulary's kind */
static const char *const words[] = {
    "_",    "a",  "b",  "e",  "t",  "h",  "th",       "the",          "_th",
    "_the", "_a", "ab", "__", "\n", "he", "\xc3\xa9", "\xe4\xb8\xad", "\xe4\xb8\xad\xe6\x96\x87",
    "12",   "1",  "2"};
static const char *const merges[] = {"t h",        "th e",        "h e",
                                     "a b",        "\xc4\xa0 th", "\xc4\xa0th e",
                                     "\xc4\xa0 a", "1 2",         "\xc3\x83 \xc2\xa9"};

typedef struct vocabulary {
    pc__text tokens[MOST];
    int32_t types[MOST];
    float scores[MOST];
    char arena[MOST * 16];
    size_t count, used;
} vocabulary;

static void add(vocabulary *v, const char *text, size_t size, int32_t type)
{
    FUZZ_CHECK(v->count < MOST && v->used + size < sizeof v->arena);
    memcpy(v->arena + v->used, text, size);
    v->tokens[v->count] = (pc__text){v->arena + v->used, size};
    v->types[v->count] = type;
    v->scores[v->count] = -(float)v->count;
    v->used += size;
    v->count++;
}

/* Code point of a byte in the byte-level alphabet, as two bytes of UTF-8 or one. */
static size_t byte_level(unsigned byte, char *out)
{
    unsigned rune = byte, next = 256;
    for (unsigned b = 0; b <= byte; b++) {
        int printable = (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174;
        rune = printable ? b : next;
        next += !printable;
    }
    if (rune < 0x80) {
        out[0] = (char)rune;
        return 1;
    }
    out[0] = (char)(0xc0 | rune >> 6);
    out[1] = (char)(0x80 | (rune & 0x3f));
    return 2;
}

static void add_bytes(vocabulary *v, pc__vocab_kind kind)
{
    char text[8];
    for (unsigned b = 0; b < BYTES; b++) {
        if (kind == PC__VOCAB_SPM || kind == PC__VOCAB_UNIGRAM)
            add(v, text, (size_t)snprintf(text, sizeof text, "<0x%02X>", b), PC__TOKEN_BYTE);
        else if (kind == PC__VOCAB_BPE)
            add(v, text, byte_level(b, text), PC__TOKEN_NORMAL);
        else if (b > 32 && b < 127) /* WordPiece has no bytes: printable characters, at the start of
                                       a word and inside */
            add(v, text, (size_t)snprintf(text, sizeof text, b % 2 ? "%c" : "##%c", (int)b),
                PC__TOKEN_NORMAL);
    }
}

static void add_words(vocabulary *v, pc__vocab_kind kind)
{
    static const char *const blank[] = {"\xe2\x96\x81", "\xc4\xa0", "##", "\xe2\x96\x81"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        char text[32];
        int size = 0;
        if (kind == PC__VOCAB_BPE && (words[i][0] == '\n' || (words[i][0] & 0x80)))
            continue;
        for (const char *c = words[i]; *c; c++)
            size += snprintf(text + size, sizeof text - (size_t)size, "%.*s", *c == '_' ? 3 : 1,
                             *c == '_' ? blank[kind] : c);
        add(v, text, (size_t)size, PC__TOKEN_NORMAL);
    }
    if (kind == PC__VOCAB_BPE)
        add(v, "\xc3\x83\xc2\xa9", 4, PC__TOKEN_NORMAL); /* bytes c3 a9 */
}

pc__tokenizer *fuzz_tokenizer(pc__vocab_kind kind, const char *pre, const char *chat_template)
{
    static vocabulary v;
    pc__text pairs[sizeof merges / sizeof *merges];
    pc__tokenizer *tokenizer;
    v.count = v.used = 0;
    for (size_t i = 0; i < SPECIALS; i++)
        add(&v, specials[i], strlen(specials[i]), i ? PC__TOKEN_CONTROL : PC__TOKEN_UNKNOWN);
    add_bytes(&v, kind);
    add_words(&v, kind);
    for (size_t i = 0; i < sizeof merges / sizeof *merges; i++)
        pairs[i] = (pc__text){merges[i], strlen(merges[i])};
    pc__vocab vocab = {.kind = kind,
                       .pre = pre,
                       .where = "fuzz",
                       .count = v.count,
                       .tokens = v.tokens,
                       .types = v.types,
                       .scores = kind == PC__VOCAB_SPM || kind == PC__VOCAB_UNIGRAM ? v.scores
                                                                                    : NULL,
                       .merges = pairs,
                       .merge_count = kind == PC__VOCAB_BPE ? sizeof merges / sizeof *merges : 0,
                       .bos = 1,
                       .eos = 2,
                       .unk = 0,
                       .pad = -1,
                       .sep = -1,
                       .cls = -1,
                       .add_bos = -1,
                       .add_eos = -1,
                       .add_space_prefix = -1,
                       .chat_template = chat_template};
    FUZZ_CHECK(fuzz_ok(pc__tokenizer_from_vocab(&tokenizer, &fuzz_memory, &vocab)));
    return tokenizer;
}

const pc_model *fuzz_model(void)
{
    static pc_model *model;
    pc_context_options options = PC_CONTEXT_OPTIONS_INIT;
    pc_context *context;
    if (model)
        return model;
    options.allocator = &fuzz_memory;
    options.threads = 1;
    FUZZ_CHECK(fuzz_ok(pc_context_new(&context, &options)));
    FUZZ_CHECK(fuzz_ok(pc__model_new(&model, context)));
    pc_context_free(context);
    model->tokenizer = fuzz_tokenizer(
        PC__VOCAB_SPM, NULL,
        "{% for m in messages %}{{ '<|im_start|>' + m.role + '\\n' + m.content + '<|im_end|>\\n' }}"
        "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}");
    model->tokenizer_id = pc__tokenizer_digest(model->tokenizer);
    FUZZ_CHECK(fuzz_ok(pc__chat_detect(&model->chat, &fuzz_memory, model->tokenizer)));
    FUZZ_CHECK(!strcmp(model->chat->name, "chatml"));
    model->info = (pc_model_info)PC_MODEL_INFO_INIT;
    model->info.token_unk = 0;
    model->info.context_length = 1 << 16;
    model->can_compute = 0;
    return model;
}

/* ---------------------------------------------------------------- round trip */

static void check_ids(const pc__tokenizer *t, const int32_t *ids, size_t count)
{
    for (size_t i = 0; i < count; i++)
        FUZZ_CHECK(ids[i] >= 0 && (size_t)ids[i] < pc__tokenizer_count(t));
}

/* Where it is known whether special tokens change the ids, the ids say the same. */
static void check_special(const pc__tokenizer *t, const char *text, size_t size)
{
    int known = pc__has_special(t, text, size);
    size_t n = 0, m = 0;
    if (known < 0 || pc__text_to_tokens(t, text, size, 0, NULL, 0, &n) < 0
        || pc__text_to_tokens(t, text, size, PC_TOKENIZE_SPECIAL, NULL, 0, &m) < 0)
        return;
    int32_t *a = malloc((n + 1) * sizeof *a), *b = malloc((m + 1) * sizeof *b);
    FUZZ_CHECK(a && b && pc__text_to_tokens(t, text, size, 0, a, n, &n) == PC_OK
               && pc__text_to_tokens(t, text, size, PC_TOKENIZE_SPECIAL, b, m, &m) == PC_OK);
    FUZZ_CHECK(known == (n != m || memcmp(a, b, n * sizeof *a) != 0));
    free(a);
    free(b);
}

void fuzz_round(const pc__tokenizer *t, const char *text, size_t size, uint64_t flags, int exact)
{
    size_t need = 0, count = 0, bytes = 0, again = 0;
    int32_t *ids;
    char *back;
    pc_status status = pc__text_to_tokens(t, text, size, flags, NULL, 0, &need);
    if (!fuzz_ok(status)) {
        FUZZ_CHECK(!exact); /* only an expression of the input's own may search too long */
        return;
    }
    ids = malloc((need + 1) * sizeof *ids);
    FUZZ_CHECK(ids && pc__text_to_tokens(t, text, size, flags, ids, need, &count) == PC_OK
               && count == need);
    check_ids(t, ids, count);
    if (need > 1)
        FUZZ_CHECK(pc__text_to_tokens(t, text, size, flags, ids, need - 1, &count) == PC_ERR_LIMIT
                   && count == need);
    FUZZ_CHECK(pc__tokens_to_text(t, ids, count, flags & PC_TOKENIZE_SPECIAL, NULL, 0, &bytes)
               == PC_OK);
    back = malloc(bytes + 1);
    FUZZ_CHECK(
        back
        && pc__tokens_to_text(t, ids, count, flags & PC_TOKENIZE_SPECIAL, back, bytes, &again)
               == PC_OK);
    FUZZ_CHECK(again == bytes);
    if (exact)
        FUZZ_CHECK(bytes == size && (!size || !memcmp(back, text, size)));
    check_special(t, text, size);
    free(back);
    free(ids);
}

/* ------------------------------------------------------------------ models */

/* Two tokens through a model that has been accepted; no weight of it is NaN, so no result may read
 * foreign memory. */
static void compute(const pc_model *model)
{
    static const int64_t positions[] = {0, 1};
    pc_model_info info = PC_MODEL_INFO_INIT;
    pc_eval_args args = PC_EVAL_ARGS_INIT;
    FUZZ_CHECK(pc_model_get_info(model, &info) == PC_OK);
    if (info.vocab > 1 << 16)
        return;
    const int32_t tokens[] = {0, info.vocab - 1};
    pc_lane lane = {NULL, 0, tokens, positions, 2, NULL, 0};
    args.lanes = &lane;
    args.lane_stride = sizeof(pc_lane);
    args.lane_count = 1;
    args.logits = malloc(2 * (size_t)info.vocab * sizeof(float));
    if (args.logits)
        (void)fuzz_ok(pc_eval(model, &args));
    free(args.logits);
}

/* Opens the model without its weights. PC_OK: nothing but its values can keep it from loading. */
static pc_status describe(pc_context *context, const char *path, const pc_model_options *options)
{
    pc_model_file *file;
    pc_model_file_info info = PC_MODEL_FILE_INFO_INIT;
    pc_model_file_type type = PC_MODEL_FILE_TYPE_INIT;
    uint64_t bytes = 0;
    pc_status status = pc_model_file_open(&file, context, path, options);
    FUZZ_CHECK((status >= 0) == (file != NULL));
    if (!fuzz_ok(status))
        return status;
    FUZZ_CHECK(fuzz_ok(pc_model_file_get_info(file, &info)));
    for (size_t i = 0; i < pc_model_file_type_count(file); i++) {
        FUZZ_CHECK(fuzz_ok(pc_model_file_get_type(file, i, &type)));
        bytes += type.bytes;
    }
    FUZZ_CHECK(bytes <= info.file_bytes && (info.refusal < 0) == (*info.reason != 0));
    pc_model_file_free(file);
    return info.refusal;
}

void fuzz_load(const char *path)
{
    pc_context_options options = PC_CONTEXT_OPTIONS_INIT;
    pc_model_options model_options = PC_MODEL_OPTIONS_INIT;
    pc_context *context;
    pc_model *model;
    options.allocator = &fuzz_memory;
    options.threads = 1;
    model_options.compute = PC_DTYPE_F32;
    FUZZ_CHECK(fuzz_ok(pc_context_new(&context, &options)));
    pc_status described = describe(context, path, &model_options);
    pc_status loaded = pc_model_load(&model, context, path, &model_options);
    /* loading looks at the values, before it binds them */
    FUZZ_CHECK(described == loaded || loaded == PC_ERR_NOMEM
               || (loaded == PC_ERR_FORMAT && strstr(pc_error_text(), "NaN or infinite")));
    if (fuzz_ok(loaded))
        compute(model);
    else
        FUZZ_CHECK(!model);
    pc_model_free(model);
    pc_context_free(context);
}
