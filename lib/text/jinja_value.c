/* Values of the Jinja interpreter, its arena and its variables. */
#include <stdarg.h>
#include <stdio.h>

#include "text/jinja_internal.h"

enum { BLOCK = 16 << 10, MOST_BYTES = 8 << 20, MOST_STEPS = 200000, MOST_DEPTH = 40 };

struct pc__jblock {
    pc__jblock *next;
    size_t used, size;
    _Alignas(16) char data[];
};

void pc__j_fail(pc__jinja *j, pc_status status, const char *format, ...)
{
    char text[256];
    size_t line = 1;
    va_list list;
    if (j->status < 0)
        return;
    for (const char *p = j->source; p < j->at && p < j->source_end; p++)
        line += *p == '\n';
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    j->status = pc__fail(status, "line %zu: %s", line, text);
    j->at = j->end;
}

int pc__j_step(pc__jinja *j)
{
    if (j->status >= 0 && (++j->steps > MOST_STEPS || j->depth > MOST_DEPTH))
        pc__j_fail(j, PC_ERR_LIMIT, "it takes more than %d steps, or is nested more than %d deep",
                   MOST_STEPS, MOST_DEPTH);
    return j->status >= 0;
}

void *pc__j_alloc(pc__jinja *j, size_t size)
{
    pc__jblock *block = j->blocks;
    size_t need = (size + 15) / 16 * 16;
    if (j->status < 0)
        return NULL;
    if (size > MOST_BYTES || j->arena_bytes + need > MOST_BYTES) {
        pc__j_fail(j, PC_ERR_LIMIT, "it takes more than %d bytes of memory", MOST_BYTES);
        return NULL;
    }
    if (!block || block->size - block->used < need) {
        size_t room = need > BLOCK ? need : BLOCK;
        block = pc__calloc(j->mem, 1, sizeof *block + room);
        if (!block) {
            j->status = PC_ERR_NOMEM;
            j->at = j->end;
            return NULL;
        }
        block->size = room;
        block->next = j->blocks;
        j->blocks = block;
    }
    j->arena_bytes += need;
    block->used += need;
    return block->data + block->used - need;
}

void pc__j_end(pc__jinja *j)
{
    while (j->blocks) {
        pc__jblock *next = j->blocks->next;
        pc__free(j->mem, j->blocks);
        j->blocks = next;
    }
    pc__free(j->mem, j->variables);
    pc__free(j->mem, j->segments);
}

pc__jvalue pc__j_bool(int truth)
{
    return (pc__jvalue){.kind = PC__J_BOOL, .number = truth != 0};
}

pc__jvalue pc__j_int(int64_t number)
{
    return (pc__jvalue){.kind = PC__J_INT, .number = number};
}

pc__jvalue pc__j_string(const char *text, size_t size)
{
    return (pc__jvalue){.kind = PC__J_STRING, .text = text, .size = size};
}

pc__jvalue pc__j_copy(pc__jinja *j, const char *text, size_t size)
{
    char *copy = pc__j_alloc(j, size + 1);
    if (!copy)
        return (pc__jvalue){0};
    if (size)
        memcpy(copy, text, size);
    return pc__j_string(copy, size);
}

pc__jvalue pc__j_list(pc__jinja *j, pc__jkind kind)
{
    pc__jvalue value = {.kind = kind, .list = pc__j_alloc(j, sizeof(pc__jlist))};
    return value.list ? value : (pc__jvalue){0};
}

void pc__j_add(pc__jinja *j, pc__jlist *list, pc__jvalue key, pc__jvalue value)
{
    if (!list || j->status < 0)
        return;
    if (list->count == list->capacity) {
        size_t capacity = list->capacity ? 2 * list->capacity : 8;
        pc__jentry *items = pc__j_alloc(j, capacity * sizeof *items);
        if (!items)
            return;
        if (list->count)
            memcpy(items, list->items, list->count * sizeof *items);
        list->items = items;
        list->capacity = capacity;
    }
    list->items[list->count++] = (pc__jentry){key, value};
}

pc__jentry *pc__j_find(const pc__jlist *map, const char *key, size_t size)
{
    for (size_t i = 0; map && i < map->count; i++)
        if (map->items[i].key.kind == PC__J_STRING && map->items[i].key.size == size
            && !memcmp(map->items[i].key.text, key, size))
            return &map->items[i];
    return NULL;
}

void pc__j_put(pc__jinja *j, pc__jlist *map, const char *key, pc__jvalue value)
{
    pc__jentry *there = pc__j_find(map, key, strlen(key));
    if (there)
        there->value = value;
    else
        pc__j_add(j, map, pc__j_string(key, strlen(key)), value);
}

int pc__j_is(const pc__jvalue *string, const char *text)
{
    return string->size == strlen(text) && !memcmp(string->text, text, string->size);
}

int64_t pc__j_length(const pc__jvalue *v)
{
    int64_t count = 0;
    if (v->kind == PC__J_LIST || v->kind == PC__J_MAP)
        return (int64_t)v->list->count;
    if (v->kind != PC__J_STRING)
        return v->kind == PC__J_UNDEFINED ? 0 : -1;
    for (size_t i = 0; i < v->size; i++) /* in characters */
        count += ((unsigned char)v->text[i] & 0xc0) != 0x80;
    return count;
}

pc__jvalue pc__j_characters(pc__jinja *j, pc__jvalue string)
{
    pc__jvalue list = pc__j_list(j, PC__J_LIST);
    for (size_t i = 0, n; i < string.size && j->status >= 0; i += n) {
        for (n = 1; i + n < string.size && ((unsigned char)string.text[i + n] & 0xc0) == 0x80;)
            n++;
        pc__j_add(j, list.list, (pc__jvalue){0}, pc__j_string(string.text + i, n));
    }
    return list;
}

int pc__j_truth(const pc__jvalue *v)
{
    switch (v->kind) {
    case PC__J_UNDEFINED:
    case PC__J_NONE:
        return 0;
    case PC__J_BOOL:
    case PC__J_INT:
        return v->number != 0;
    case PC__J_STRING:
        return v->size != 0;
    case PC__J_LIST:
    case PC__J_MAP:
        return v->list->count != 0;
    default:
        return 1;
    }
}

static int is_number(const pc__jvalue *v)
{
    return v->kind == PC__J_BOOL || v->kind == PC__J_INT;
}

int pc__j_equal(const pc__jvalue *a, const pc__jvalue *b)
{
    if (is_number(a) && is_number(b))
        return a->number == b->number;
    if (a->kind != b->kind)
        return 0;
    if (a->kind == PC__J_STRING)
        return a->size == b->size && !memcmp(a->text, b->text, a->size);
    if (a->kind != PC__J_LIST && a->kind != PC__J_MAP)
        return 1;
    if (a->list == b->list || a->list->count != b->list->count)
        return a->list == b->list;
    for (size_t i = 0; i < a->list->count; i++) {
        const pc__jentry *x = &a->list->items[i], *y = &b->list->items[i];
        /* lists are flat, or hold messages, which are never copied */
        if (x->value.list != y->value.list
            || (!x->value.list && !pc__j_equal(&x->value, &y->value)))
            return 0;
        if (a->kind == PC__J_MAP && !pc__j_equal(&x->key, &y->key))
            return 0;
    }
    return 1;
}

static int contains_text(const char *text, size_t size, const char *part, size_t part_size)
{
    for (size_t i = 0; i + part_size <= size; i++)
        if (!memcmp(text + i, part, part_size))
            return 1;
    return 0;
}

int pc__j_contains(pc__jinja *j, const pc__jvalue *in, const pc__jvalue *what)
{
    if (in->kind == PC__J_STRING && what->kind == PC__J_STRING)
        return contains_text(in->text, in->size, what->text, what->size);
    if (in->kind == PC__J_MAP)
        return what->kind == PC__J_STRING && pc__j_find(in->list, what->text, what->size) != NULL;
    if (in->kind == PC__J_LIST) {
        for (size_t i = 0; i < in->list->count; i++)
            if (pc__j_equal(&in->list->items[i].value, what))
                return 1;
        return 0;
    }
    if (in->kind != PC__J_UNDEFINED)
        pc__j_fail(j, PC_ERR_FORMAT, "'in' needs a string, a list or a mapping");
    return 0;
}

pc__jvalue pc__j_text(pc__jinja *j, pc__jvalue v)
{
    char number[32];
    switch (v.kind) {
    case PC__J_STRING:
        return v;
    case PC__J_UNDEFINED:
        return pc__j_string("", 0);
    case PC__J_NONE:
        return pc__j_string("None", 4);
    case PC__J_BOOL:
        return v.number ? pc__j_string("True", 4) : pc__j_string("False", 5);
    case PC__J_INT:
        snprintf(number, sizeof number, "%lld", (long long)v.number);
        return pc__j_copy(j, number, strlen(number));
    default:
        pc__j_fail(j, PC_ERR_UNSUPPORTED, "a list, a mapping or a function cannot be printed");
        return pc__j_string("", 0);
    }
}

pc__jvalue pc__j_join(pc__jinja *j, pc__jvalue a, pc__jvalue b)
{
    char *text = pc__j_alloc(j, a.size + b.size + 1);
    if (!text)
        return (pc__jvalue){0};
    if (a.size)
        memcpy(text, a.text, a.size);
    if (b.size)
        memcpy(text + a.size, b.text, b.size);
    return pc__j_string(text, a.size + b.size);
}

pc__jvalue *pc__j_variable(pc__jinja *j, const char *name, size_t size)
{
    for (size_t i = j->variable_count; i--;)
        if (j->variables[i].size == size && !memcmp(j->variables[i].name, name, size))
            return &j->variables[i].value;
    return NULL;
}

void pc__j_set(pc__jinja *j, const char *name, size_t size, pc__jvalue value)
{
    pc_status status;
    if (j->status < 0)
        return;
    for (size_t i = j->variable_count; i-- > j->frame;)
        if (j->variables[i].size == size && !memcmp(j->variables[i].name, name, size)) {
            j->variables[i].value = value;
            return;
        }
    status = pc__grow(j->mem, (void **)&j->variables, &j->variable_capacity, j->variable_count + 1,
                      sizeof *j->variables);
    if (status < 0)
        j->status = status;
    else
        j->variables[j->variable_count++] = (pc__jvariable){name, size, value};
}
