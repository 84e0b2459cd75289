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

pc__jvalue pc__j_fail(pc__jinja *j, pc_status status, const char *format, ...)
{
    char text[256];
    size_t line = 1;
    va_list list;
    if (j->status < 0)
        return (pc__jvalue){0};
    for (const char *p = j->source; p < j->at && p < j->source_end; p++)
        line += *p == '\n';
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    j->status = pc__fail(status, "line %zu: %s", line, text);
    j->at = j->end;
    return (pc__jvalue){0};
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
        if (!(block = pc__calloc(j->mem, 1, sizeof *block + room))) {
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

pc__jvalue pc__j_string(pc__text text)
{
    return (pc__jvalue){.kind = PC__J_STRING, .text = text};
}

pc__jvalue pc__j_copy(pc__jinja *j, pc__text text)
{
    return pc__j_join(j, pc__j_string(text), (pc__jvalue){0});
}

pc__jvalue pc__j_list(pc__jinja *j, pc__jkind kind)
{
    pc__jvalue value = {.kind = kind, .list = pc__j_alloc(j, sizeof(pc__jlist))};
    return value.list ? value : (pc__jvalue){0};
}

void pc__j_add_pair(pc__jinja *j, pc__jvalue map, pc__jvalue key, pc__jvalue value)
{
    pc__jlist *list = map.list;
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

void pc__j_add(pc__jinja *j, pc__jvalue list, pc__jvalue value)
{
    pc__j_add_pair(j, list, (pc__jvalue){0}, value);
}

pc__jvalue *pc__j_member(const pc__jvalue *map, pc__text key)
{
    for (size_t i = 0; map->kind == PC__J_MAP && i < map->list->count; i++) {
        pc__jentry *entry = &map->list->items[i];
        if (entry->key.kind == PC__J_STRING && pc__text_equals(entry->key.text, key))
            return &entry->value;
    }
    return NULL;
}

void pc__j_put(pc__jinja *j, pc__jvalue map, pc__text key, pc__jvalue value)
{
    pc__jvalue *there = pc__j_member(&map, key);
    if (there)
        *there = value;
    else
        pc__j_add_pair(j, map, pc__j_string(key), value);
}

int pc__j_is(const pc__jvalue *string, const char *text)
{
    return pc__text_equals(string->text, pc__text_of(text));
}

int64_t pc__j_length(const pc__jvalue *v)
{
    int64_t count = 0;
    if (v->kind == PC__J_LIST || v->kind == PC__J_MAP)
        return (int64_t)v->list->count;
    if (v->kind != PC__J_STRING)
        return v->kind == PC__J_UNDEFINED ? 0 : -1;
    for (size_t i = 0; i < v->text.size; i++) /* in characters */
        count += ((unsigned char)v->text.data[i] & 0xc0) != 0x80;
    return count;
}

pc__jvalue pc__j_characters(pc__jinja *j, pc__jvalue string)
{
    pc__jvalue list = pc__j_list(j, PC__J_LIST);
    const char *at = string.text.data;
    for (size_t i = 0, n; i < string.text.size && j->status >= 0; i += n) {
        for (n = 1; i + n < string.text.size && ((unsigned char)at[i + n] & 0xc0) == 0x80;)
            n++;
        pc__j_add(j, list, pc__j_string((pc__text){at + i, n}));
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
        return v->text.size != 0;
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
        return pc__text_equals(a->text, b->text);
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

int pc__j_contains(pc__jinja *j, const pc__jvalue *in, const pc__jvalue *what)
{
    if (in->kind == PC__J_STRING && what->kind == PC__J_STRING)
        return memmem(in->text.data, in->text.size, what->text.data, what->text.size) != NULL;
    if (in->kind == PC__J_MAP)
        return what->kind == PC__J_STRING && pc__j_member(in, what->text) != NULL;
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
        return pc__j_string(pc__text_of(""));
    case PC__J_NONE:
        return pc__j_string(pc__text_of("None"));
    case PC__J_BOOL:
        return pc__j_string(pc__text_of(v.number ? "True" : "False"));
    case PC__J_INT:
        snprintf(number, sizeof number, "%lld", (long long)v.number);
        return pc__j_copy(j, pc__text_of(number));
    default:
        pc__j_fail(j, PC_ERR_UNSUPPORTED, "a list, a mapping or a function cannot be printed");
        return pc__j_string(pc__text_of(""));
    }
}

pc__jvalue pc__j_join(pc__jinja *j, pc__jvalue a, pc__jvalue b)
{
    char *text = pc__j_alloc(j, a.text.size + b.text.size + 1);
    if (!text)
        return (pc__jvalue){0};
    if (a.text.size)
        memcpy(text, a.text.data, a.text.size);
    if (b.text.size)
        memcpy(text + a.text.size, b.text.data, b.text.size);
    return pc__j_string((pc__text){text, a.text.size + b.text.size});
}

pc__jvalue *pc__j_variable(pc__jinja *j, size_t first, pc__text name)
{
    for (size_t i = j->variable_count; i-- > first;)
        if (pc__text_equals(j->variables[i].name, name))
            return &j->variables[i].value;
    return NULL;
}

void pc__j_set(pc__jinja *j, pc__text name, pc__jvalue value)
{
    pc__jvalue *there = pc__j_variable(j, j->frame, name);
    if (j->status < 0)
        return;
    if (there) {
        *there = value;
        return;
    }
    j->status = pc__grow(j->mem, (void **)&j->variables, &j->variable_capacity,
                         j->variable_count + 1, sizeof *j->variables);
    if (j->status >= 0)
        j->variables[j->variable_count++] = (pc__jvariable){name, value};
}
