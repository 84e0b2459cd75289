/* Reads tiktoken's text (one line per token: base64, blank, rank), as Llama 3 and 4 have it. It has
 * no merges: merging by the rank of the result, as tiktoken does, gives the same tokens. Names of
 * special tokens, which come after the ranks, are not in the file either. */
#include <sodium.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "text/tokenizer_internal.h"

enum { NAME_SIZE = 64 };

typedef struct tiktoken_file {
    const pc_allocator *mem;
    const char *path;
    pc__text *tokens;
    int32_t *types;
    size_t count, tokens_room, types_room;
    char *arena, *names;
} tiktoken_file;

static pc_status add_token(tiktoken_file *f, pc__text text, int32_t type)
{
    size_t need = f->count + 1;
    PC__TRY_RETURN(pc__grow(f->mem, (void **)&f->tokens, &f->tokens_room, need, sizeof *f->tokens));
    PC__TRY_RETURN(pc__grow(f->mem, (void **)&f->types, &f->types_room, need, sizeof *f->types));
    f->tokens[f->count] = text;
    f->types[f->count++] = type;
    return PC_OK;
}

/* Whether a text is exactly this rank in decimal. */
static int is_rank(const char *text, size_t size, size_t rank)
{
    size_t value = 0;
    if (size && text[size - 1] == '\r')
        size--;
    for (size_t i = 0; i < size; i++) {
        if (text[i] < '0' || text[i] > '9' || value > rank)
            return 0;
        value = value * 10 + (size_t)(text[i] - '0');
    }
    return size && value == rank;
}

static pc_status read_line(tiktoken_file *f, const char *line, size_t size, char **arena)
{
    const char *blank = memchr(line, ' ', size);
    size_t n = 0;
    if (!blank || blank == line
        || sodium_base642bin((unsigned char *)*arena, size, line, (size_t)(blank - line), NULL, &n,
                             NULL, sodium_base64_VARIANT_ORIGINAL)
        || !is_rank(blank + 1, size - (size_t)(blank + 1 - line), f->count))
        return pc__fail(PC_ERR_FORMAT, "%s:%zu: the line is not base64, blank, rank %zu", f->path,
                        f->count + 1, f->count);
    char *bytes = *arena;
    *arena += n;
    return add_token(f, (pc__text){bytes, n}, PC__TOKEN_NORMAL);
}

static pc_status read_lines(tiktoken_file *f, const char *at, size_t size)
{
    const char *end = at + size;
    char *arena = f->arena = pc__alloc(f->mem, size + 1);
    pc_status status = arena ? PC_OK : PC_ERR_NOMEM;
    while (at < end && status >= 0) {
        const char *line = memchr(at, '\n', (size_t)(end - at));
        size_t n = (size_t)((line ? line : end) - at);
        if (n)
            status = read_line(f, at, n, &arena);
        at = line ? line + 1 : end;
    }
    return status;
}

pc_status pc__check_byte_tokens(const pc__vocab *v)
{
    uint8_t there[256] = {0};
    for (size_t i = 0; i < v->count; i++)
        if (v->tokens[i].size == 1 && v->types[i] == PC__TOKEN_NORMAL)
            there[(unsigned char)v->tokens[i].data[0]] = 1;
    for (unsigned byte = 0; byte < 256; byte++)
        if (!there[byte])
            return pc__fail(PC_ERR_FORMAT, "%s: byte 0x%02x has no token among %zu", v->where, byte,
                            v->count);
    return PC_OK;
}

/* Special tokens after the ranks: names, and runs of numbered ones. */
typedef struct special_run {
    const char *form; /* with %zu for its number, or a name */
    size_t from, count;
} special_run;

/* clang-format off */
static const special_run llama3_specials[] = {
    {"<|begin_of_text|>", 0, 1}, {"<|end_of_text|>", 0, 1},
    {"<|reserved_special_token_%zu|>", 0, 4},
    {"<|start_header_id|>", 0, 1}, {"<|end_header_id|>", 0, 1},
    {"<|reserved_special_token_%zu|>", 4, 1}, {"<|eot_id|>", 0, 1},
    {"<|reserved_special_token_%zu|>", 5, 246}, {NULL, 0, 0}};
static const special_run llama4_specials[] = {
    {"<|begin_of_text|>", 0, 1}, {"<|end_of_text|>", 0, 1}, {"<|fim_prefix|>", 0, 1},
    {"<|fim_middle|>", 0, 1}, {"<|fim_suffix|>", 0, 1}, {"<|header_start|>", 0, 1},
    {"<|header_end|>", 0, 1}, {"<|eom|>", 0, 1}, {"<|eot|>", 0, 1}, {"<|step|>", 0, 1},
    {"<|text_post_train_reserved_special_token_%zu|>", 0, 6},
    {"<|python_start|>", 0, 1}, {"<|python_end|>", 0, 1}, {"<|finetune_right_pad|>", 0, 1},
    {"<|text_post_train_reserved_special_token_%zu|>", 8, 61},
    {"<|image_start|>", 0, 1}, {"<|image_end|>", 0, 1},
    {"<|vision_reserved_special_token_%zu|>", 0, 2},
    {"<|tile_x_separator|>", 0, 1}, {"<|tile_y_separator|>", 0, 1},
    {"<|vision_reserved_special_token_%zu|>", 2, 4}, {"<|image|>", 0, 1},
    {"<|vision_reserved_special_token_%zu|>", 6, 1}, {"<|patch|>", 0, 1},
    {"<|vision_reserved_special_token_%zu|>", 7, 1041},
    {"<|reasoning_reserved_special_token_%zu|>", 0, 8},
    {"<|reasoning_thinking_start|>", 0, 1}, {"<|reasoning_thinking_end|>", 0, 1},
    {"<|reserved_special_token_%zu|>", 0, 904}, {NULL, 0, 0}};
/* clang-format on */

static pc_status add_specials(tiktoken_file *f, const special_run *runs)
{
    size_t count = 0;
    for (const special_run *r = runs; r->form; r++)
        count += r->count;
    char *name = f->names = pc__calloc(f->mem, count, NAME_SIZE);
    if (!name)
        return PC_ERR_NOMEM;
    for (const special_run *r = runs; r->form; r++)
        for (size_t i = 0; i < r->count; i++, name += NAME_SIZE) {
            const char *number = strstr(r->form, "%zu");
            size_t head = number ? (size_t)(number - r->form) : strlen(r->form);
            memcpy(name, r->form, head);
            if (number)
                snprintf(name + head, NAME_SIZE - head, "%zu%s", r->from + i, number + 3);
            PC__TRY_RETURN(add_token(f, (pc__text){name, strlen(name)}, PC__TOKEN_CONTROL));
        }
    return PC_OK;
}

/* The number of ranks tells the two apart. */
enum { LLAMA3_RANKS = 128000, LLAMA4_RANKS = 200000 };

static pc_status finish(pc__tokenizer **out, tiktoken_file *f)
{
    int llama4 = f->count == LLAMA4_RANKS;
    int32_t base = (int32_t)f->count;
    pc__token_rules rules = {.add_bos = 1, .raw_bytes = 1, .ignore_merges = 1};
    if (f->count > LLAMA3_RANKS && !llama4)
        return pc__fail(PC_ERR_UNSUPPORTED,
                        "%s: %zu ranks are neither Llama 3's (%d) nor Llama 4's (%d); a folder "
                        "with tokenizer.json is needed",
                        f->path, f->count, LLAMA3_RANKS, LLAMA4_RANKS);
    PC__TRY_RETURN(add_specials(f, llama4 ? llama4_specials : llama3_specials));
    const pc__vocab vocab = {.kind = PC__VOCAB_BPE,
                             .pre = llama4 ? "llama4" : "llama-bpe",
                             .where = f->path,
                             .count = f->count,
                             .tokens = f->tokens,
                             .types = f->types,
                             .bos = base,
                             .eos = base + 1,
                             .unk = -1,
                             .pad = -1,
                             .sep = -1,
                             .cls = -1};
    PC__TRY_RETURN(pc__check_byte_tokens(&vocab));
    return pc__tokenizer_build(out, f->mem, &vocab, &rules, NULL, 0);
}

pc_status pc__tokenizer_from_tiktoken(pc__tokenizer **out, const pc_allocator *mem,
                                      const char *path, const char *text, size_t size)
{
    tiktoken_file f = {.mem = mem, .path = path};
    *out = NULL;
    pc_status status = read_lines(&f, text, size);
    if (status >= 0)
        status = finish(out, &f);
    pc__free(mem, f.tokens);
    pc__free(mem, f.types);
    pc__free(mem, f.arena);
    pc__free(mem, f.names);
    return status;
}
