/* Byte-level BPE: regular expressions split text into words; the bytes of a word are merged by
 * rank. Merging is that of SPM too. */
#include <utf8proc.h>

#include "text/tokenizer_internal.h"

/* ------------------------------------------------------------------ merging */

/* A heap of pairs. A pair that has changed since it was added is recognised by the end of its right
 * symbol, and dropped. */
typedef struct bpe_symbol {
    uint32_t start, end;
    int32_t id, previous, next; /* previous, next: index, -1: none */
} bpe_symbol;

typedef struct bpe_pair {
    double cost;
    int32_t left;
    uint32_t end; /* of the right symbol when the pair was added */
    int32_t merged;
} bpe_pair;

typedef struct bpe_merger {
    const pc__tokenizer *t;
    const char *text;
    bpe_symbol *symbols;
    bpe_pair *heap;
    size_t size;
} bpe_merger;

static int is_before(const bpe_pair *a, const bpe_pair *b)
{
    return a->cost < b->cost || (a->cost == b->cost && a->left < b->left);
}

static void push_pair(bpe_merger *j, bpe_pair c)
{
    size_t i = j->size++;
    while (i && is_before(&c, &j->heap[(i - 1) / 2])) {
        j->heap[i] = j->heap[(i - 1) / 2];
        i = (i - 1) / 2;
    }
    j->heap[i] = c;
}

static bpe_pair pop_pair(bpe_merger *j)
{
    bpe_pair top = j->heap[0], last = j->heap[--j->size];
    size_t i = 0, child;
    while ((child = 2 * i + 1) < j->size) {
        if (child + 1 < j->size && is_before(&j->heap[child + 1], &j->heap[child]))
            child++;
        if (!is_before(&j->heap[child], &last))
            break;
        j->heap[i] = j->heap[child];
        i = child;
    }
    j->heap[i] = last;
    return top;
}

/* Cost and token of merging a symbol with its right neighbour; 0: they do not merge. */
static int find_pair(const bpe_merger *j, int32_t left, bpe_pair *out)
{
    const bpe_symbol *a = &j->symbols[left], *b;
    if (left < 0 || a->next < 0)
        return 0;
    b = &j->symbols[a->next];
    *out = (bpe_pair){.left = left, .end = b->end};
    if ((j->t->kind == PC__VOCAB_SPM && !j->t->rules.by_rank) || j->t->rules.raw_bytes) {
        out->merged = pc__string_map_get(&j->t->pieces, j->text + a->start, b->end - a->start);
        if (out->merged < 0)
            return 0;
        out->cost = j->t->rules.raw_bytes ? (double)out->merged
                                          : -(double)j->t->tokens[out->merged].score;
        return 1;
    }
    const pc__pair_map_slot *slot = a->id < 0 || b->id < 0
                                        ? NULL
                                        : pc__pair_map_get(&j->t->merges, a->id, b->id);
    if (!slot)
        return 0;
    out->cost = slot->rank;
    out->merged = slot->merged;
    return 1;
}

static void merge_all(bpe_merger *j)
{
    bpe_pair c;
    while (j->size) {
        bpe_pair best = pop_pair(j);
        bpe_symbol *a = &j->symbols[best.left], *b;
        if (a->end == a->start || a->next < 0)
            continue;
        b = &j->symbols[a->next];
        /* stale: another merge has changed one of the two */
        if (b->end != best.end || !find_pair(j, best.left, &c) || c.merged != best.merged)
            continue;
        a->end = b->end;
        a->id = best.merged;
        a->next = b->next;
        b->end = b->start;
        if (a->next >= 0)
            j->symbols[a->next].previous = best.left;
        if (find_pair(j, best.left, &c))
            push_pair(j, c);
        if (a->previous >= 0 && find_pair(j, a->previous, &c))
            push_pair(j, c);
    }
}

pc_status pc__bpe_merge(const pc__tokenizer *t, const char *text, uint32_t *starts, int32_t *ids,
                        size_t *count)
{
    size_t n = *count, kept = 0;
    bpe_merger j = {.t = t, .text = text};
    bpe_pair c;
    if (n < 2)
        return PC_OK;
    j.symbols = pc__alloc(&t->mem, n * sizeof *j.symbols);
    j.heap = pc__alloc(&t->mem,
                       3 * n * sizeof *j.heap); /* every merge removes one pair and adds two */
    if (!j.symbols || !j.heap) {
        pc__free(&t->mem, j.symbols);
        pc__free(&t->mem, j.heap);
        return PC_ERR_NOMEM;
    }
    for (size_t i = 0; i < n; i++)
        j.symbols[i] = (bpe_symbol){starts[i], starts[i + 1], ids[i], (int32_t)i - 1,
                                    i + 1 < n ? (int32_t)i + 1 : -1};
    for (size_t i = 0; i + 1 < n; i++)
        if (find_pair(&j, (int32_t)i, &c))
            push_pair(&j, c);
    merge_all(&j);
    for (int32_t i = 0; i >= 0; i = j.symbols[i].next, kept++) {
        starts[kept] = j.symbols[i].start;
        ids[kept] = j.symbols[i].id;
    }
    starts[kept] = starts[n];
    *count = kept;
    pc__free(&t->mem, j.symbols);
    pc__free(&t->mem, j.heap);
    return PC_OK;
}

/* ------------------------------------------------------------------ words */

typedef struct bpe_words {
    const pc__tokenizer *t;
    pc__ids *out;
    uint32_t *starts;
    int32_t *ids;
    size_t capacity; /* bytes */
} bpe_words;

static pc_status reserve_word(bpe_words *w, size_t size)
{
    if (size <= w->capacity)
        return PC_OK;
    pc__free(&w->t->mem, w->starts);
    pc__free(&w->t->mem, w->ids);
    w->capacity = size * 2;
    w->starts = pc__alloc(&w->t->mem, (w->capacity + 1) * sizeof *w->starts);
    w->ids = pc__alloc(&w->t->mem, (w->capacity + 1) * sizeof *w->ids);
    return w->starts && w->ids ? PC_OK : PC_ERR_NOMEM;
}

static pc_status encode_word(void *user, const char *text, size_t size)
{
    bpe_words *w = user;
    const pc__tokenizer *t = w->t;
    int32_t id = t->rules.ignore_merges ? pc__string_map_get(&t->pieces, text, size) : -1;
    size_t count = size;
    if (id >= 0)
        return pc__ids_add(w->out, id);
    PC__TRY_RETURN(reserve_word(w, size));
    for (size_t i = 0; i < size; i++) {
        w->starts[i] = (uint32_t)i;
        w->ids[i] = t->byte_token[(unsigned char)text[i]];
    }
    w->starts[size] = (uint32_t)size;
    pc_status status = pc__bpe_merge(t, text, w->starts, w->ids, &count);
    for (size_t i = 0; i < count && status >= 0; i++)
        if (w->ids[i] >= 0 || t->ids.unk >= 0)
            status = pc__ids_add(w->out, w->ids[i] >= 0 ? w->ids[i] : t->ids.unk);
    return status;
}

static pc_status encode_words(const pc__tokenizer *t, const char *text, size_t size, pc__ids *out)
{
    bpe_words w = {.t = t, .out = out};
    pc_status status = pc__expressions_split(t, text, size, encode_word, &w);
    pc__free(&t->mem, w.starts);
    pc__free(&t->mem, w.ids);
    return status;
}

static pc_status encode_nfc(const pc__tokenizer *t, const char *text, size_t size, pc__ids *out)
{
    pc__bytes normal = {.mem = &t->mem};
    pc_status status = pc__normal_form(UTF8PROC_STABLE | UTF8PROC_COMPOSE, text, size, &normal);
    if (status >= 0)
        status = encode_words(t, normal.data, normal.size, out);
    pc__bytes_free(&normal);
    return status;
}

pc_status pc__bpe_encode(const pc__tokenizer *t, const char *text, size_t size, pc__ids *out)
{
    return t->rules.nfc ? encode_nfc(t, text, size, out) : encode_words(t, text, size, out);
}
