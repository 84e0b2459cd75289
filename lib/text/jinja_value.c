/* Values of the Jinja interpreter, its arena, its variables, and the count of its work. */
#include <stdarg.h>
#include <stdio.h>

#include "text/jinja_internal.h"

enum { BLOCK = 16 << 10, MOST_DEPTH = 160, STEP = 24 };

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
    for (const char *p = j->source; p < j->at && p < j->end; p++)
        line += *p == '\n';
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    j->status = pc__fail(status, "line %zu: %s", line, text);
    return (pc__jvalue){0};
}

int pc__j_charge(pc__jinja *j, size_t bytes)
{
    j->work += bytes;
    if (j->status >= 0 && j->work > j->most_work)
        pc__j_fail(j, PC_ERR_LIMIT, "it takes more than the allowed work");
    return j->status >= 0;
}

int pc__j_step(pc__jinja *j)
{
    return pc__j_charge(j, STEP);
}

int pc__j_enter(pc__jinja *j)
{
    if (++j->depth > MOST_DEPTH)
        pc__j_fail(j, PC_ERR_LIMIT, "it is nested more than %d deep", MOST_DEPTH);
    return pc__j_step(j);
}

/* ------------------------------------------------------------------ memory */

static pc__jblock *add_block(pc__jinja *j, size_t size)
{
    pc__jblock *block = pc__calloc(j->mem, 1, sizeof *block + size);
    if (!block) {
        j->status = PC_ERR_NOMEM;
        return NULL;
    }
    block->size = size;
    block->next = j->blocks;
    return j->blocks = block;
}

void *pc__j_alloc(pc__jinja *j, size_t size)
{
    pc__jblock *block = j->blocks;
    size_t need = (size + 15) / 16 * 16;
    if (j->status >= 0 && (size > j->most_bytes || j->arena_bytes + need > j->most_bytes))
        pc__j_fail(j, PC_ERR_LIMIT, "it takes more than %zu bytes of memory", j->most_bytes);
    if (!pc__j_charge(j, need))
        return NULL;
    if ((!block || block->size - block->used < need)
        && !(block = add_block(j, need > BLOCK ? need : BLOCK)))
        return NULL;
    j->arena_bytes += need;
    block->used += need;
    return block->data + block->used - need;
}

pc__jblock *pc__j_mark(pc__jinja *j)
{
    pc__jblock *mark = j->blocks;
    return mark && add_block(j, BLOCK) ? mark : NULL;
}

void pc__j_forget(pc__jinja *j, pc__jblock *mark)
{
    while (j->blocks != mark) {
        pc__jblock *next = j->blocks->next;
        j->arena_bytes -= j->blocks->used;
        pc__free(j->mem, j->blocks);
        j->blocks = next;
    }
}

pc__jnode *pc__j_node(pc__jinja *j, pc__jop op)
{
    pc__jnode *node = pc__j_alloc(j, sizeof *node);
    if (!node) {
        j->scratch = (pc__jnode){0};
        node = &j->scratch;
    }
    node->op = op;
    node->at = j->at;
    return node;
}

/* ------------------------------------------------------------------ making values */

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

pc__jvalue pc__j_given(pc__jinja *j, const char *text, size_t size, size_t marked)
{
    pc__jvalue value = pc__j_string((pc__text){text, size});
    unsigned char *origin = pc__j_alloc(j, size + 1);
    if (!origin)
        return (pc__jvalue){0};
    memset(origin, PC__ORIGIN_CONTENT, size);
    memset(origin, PC__ORIGIN_MARKED, marked);
    value.origin = origin;
    return value;
}

pc__jvalue pc__j_part(const pc__jvalue *of, pc__text text)
{
    const unsigned char *origin = of->origin;
    if (origin && text.size)
        origin += text.data - of->text.data;
    return (pc__jvalue){.kind = PC__J_STRING, .origin = origin, .text = text};
}

pc__jvalue pc__j_list(pc__jinja *j, pc__jkind kind)
{
    pc__jlist *list = pc__j_alloc(j, sizeof *list);
    return list ? (pc__jvalue){.kind = kind, .list = list} : (pc__jvalue){0};
}

static void add_pair(pc__jinja *j, pc__jlist *list, pc__jvalue key, pc__jvalue value)
{
    if (!list || j->status < 0)
        return;
    if (list->count == list->capacity) {
        size_t capacity = list->capacity ? 2 * list->capacity : 4;
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
    add_pair(j, list.list, (pc__jvalue){0}, value);
}

static int is_key(const pc__jvalue *v)
{
    return v->kind >= PC__J_NONE && v->kind <= PC__J_STRING;
}

pc__jvalue *pc__j_member(pc__jinja *j, const pc__jvalue *map, const pc__jvalue *key)
{
    if (map->kind != PC__J_MAP && map->kind != PC__J_NAMESPACE)
        return NULL;
    for (size_t i = 0; i < map->list->count && pc__j_step(j); i++)
        if (pc__j_equal(j, &map->list->items[i].key, key))
            return &map->list->items[i].value;
    return NULL;
}

void pc__j_put(pc__jinja *j, pc__jvalue map, pc__jvalue key, pc__jvalue value)
{
    if (!is_key(&key))
        pc__j_fail(j, PC_ERR_UNSUPPORTED, "a key of a mapping is no string and no number");
    if (j->status < 0 || !map.list)
        return;
    pc__jvalue *there = pc__j_member(j, &map, &key);
    if (there)
        *there = value;
    else
        add_pair(j, map.list, key, value);
}

/* ------------------------------------------------------------------ asking values */

int pc__j_is(pc__text text, const char *word)
{
    return pc__text_equals(text, pc__text_of(word));
}

int pc__j_is_listed(const char *words, pc__text name)
{
    for (const char *p = words; *p; p += *p == ' ') {
        size_t n = strcspn(p, " ");
        if (n == name.size && !memcmp(p, name.data, n))
            return 1;
        p += n;
    }
    return 0;
}

int pc__j_is_number(const pc__jvalue *v)
{
    return v->kind == PC__J_BOOL || v->kind == PC__J_INT;
}

static int holds_items(const pc__jvalue *v)
{
    return v->kind >= PC__J_LIST && v->kind <= PC__J_MAP;
}

void pc__j_look(pc__jinja *j, const pc__jvalue *v)
{
    pc__j_charge(j, v->kind == PC__J_STRING ? v->text.size : 0);
}

int64_t pc__j_length(pc__jinja *j, const pc__jvalue *v)
{
    int64_t count = 0;
    if (v->kind == PC__J_UNDEFINED)
        return 0;
    if (v->kind == PC__J_LOOP)
        return (int64_t)v->loop->items->count;
    if (holds_items(v) && v->kind != PC__J_ITERATOR)
        return (int64_t)v->list->count;
    if (v->kind != PC__J_STRING)
        return -1;
    pc__j_look(j, v);
    for (size_t i = 0; i < v->text.size; i++) /* in characters */
        count += ((unsigned char)v->text.data[i] & 0xc0) != 0x80;
    return count;
}

int pc__j_truth(const pc__jvalue *v)
{
    switch (v->kind) {
    case PC__J_UNDEFINED:
    case PC__J_NONE:
        return 0;
    case PC__J_BOOL:
    case PC__J_INT:
    case PC__J_REAL:
        return v->number != 0;
    case PC__J_STRING:
        return v->text.size != 0;
    case PC__J_LIST:
    case PC__J_TUPLE:
    case PC__J_RANGE:
    case PC__J_VIEW:
    case PC__J_MAP:
        return v->list && v->list->count;
    default:
        return 1;
    }
}

static int equal_lists(pc__jinja *j, const pc__jvalue *a, const pc__jvalue *b)
{
    int equal = a->list->count == b->list->count;
    if (a->list == b->list)
        return 1;
    if (pc__j_enter(j))
        for (size_t i = 0; equal && i < a->list->count && j->status >= 0; i++) {
            const pc__jentry *x = &a->list->items[i];
            const pc__jvalue *y = a->kind == PC__J_MAP ? pc__j_member(j, b, &x->key)
                                                       : &b->list->items[i].value;
            equal = y && pc__j_equal(j, &x->value, y);
        }
    j->depth--;
    return equal;
}

int pc__j_equal(pc__jinja *j, const pc__jvalue *a, const pc__jvalue *b)
{
    if (!pc__j_step(j))
        return 0;
    if (pc__j_is_number(a) && pc__j_is_number(b))
        return a->number == b->number;
    if (a->kind == PC__J_STRING && b->kind == PC__J_STRING) {
        if (a->text.size != b->text.size)
            return 0;
        pc__j_charge(j, a->text.size);
        return pc__text_equals(a->text, b->text);
    }
    int numbers = (a->kind == PC__J_REAL && pc__j_is_number(b))
                  || (b->kind == PC__J_REAL && pc__j_is_number(a));
    if (numbers || (a->kind > PC__J_TUPLE && a->kind != PC__J_MAP && a->kind == b->kind))
        pc__j_fail(j, PC_ERR_UNSUPPORTED, "these values cannot be compared");
    if (a->kind != b->kind)
        return 0;
    return holds_items(a) ? equal_lists(j, a, b) : 1;
}

const char *pc__j_find(pc__jinja *j, pc__text text, pc__text part)
{
    if (!pc__j_charge(j, text.size + part.size))
        return NULL;
    return part.size ? memmem(text.data, text.size, part.data, part.size) : text.data;
}

int pc__j_contains(pc__jinja *j, const pc__jvalue *in, const pc__jvalue *what)
{
    if (in->kind == PC__J_STRING && what->kind == PC__J_STRING) {
        return pc__j_find(j, in->text, what->text) != NULL;
    }
    if (in->kind == PC__J_MAP && is_key(what))
        return pc__j_member(j, in, what) != NULL;
    if (in->kind == PC__J_UNDEFINED)
        return 0;
    if (in->kind != PC__J_LIST && in->kind != PC__J_TUPLE && in->kind != PC__J_RANGE
        && in->kind != PC__J_VIEW) {
        pc__j_fail(j, PC_ERR_FORMAT, "'in' needs a string, a list or a mapping");
        return 0;
    }
    for (size_t i = 0; i < in->list->count && j->status >= 0; i++)
        if (pc__j_equal(j, &in->list->items[i].value, what))
            return 1;
    return 0;
}

pc__jvalue pc__j_text(pc__jinja *j, pc__jvalue v)
{
    char number[32];
    switch (v.kind) {
    case PC__J_STRING:
        return v;
    case PC__J_REAL:
        v.kind = PC__J_STRING;
        return v;
    case PC__J_UNDEFINED:
        return pc__j_string(pc__text_of(""));
    case PC__J_NONE:
        return pc__j_string(pc__text_of("None"));
    case PC__J_BOOL:
        return pc__j_string(pc__text_of(v.number ? "True" : "False"));
    case PC__J_INT:
        snprintf(number, sizeof number, "%lld", (long long)v.number);
        return pc__j_copy(j, pc__j_string(pc__text_of(number)));
    default:
        pc__j_fail(j, PC_ERR_UNSUPPORTED, "a list, a mapping or a function cannot be printed");
        return pc__j_string(pc__text_of(""));
    }
}

/* Adds a string to the one that is made at `at`, which has room for it. */
static void append(pc__jvalue *made, char *text, unsigned char *origin, const pc__jvalue *part)
{
    size_t at = made->text.size, n = part->text.size;
    if (!n)
        return;
    memcpy(text + at, part->text.data, n);
    if (origin && part->origin)
        memcpy(origin + at, part->origin, n);
    made->text.size += n;
}

pc__jvalue pc__j_join(pc__jinja *j, pc__jvalue a, pc__jvalue b)
{
    pc__jlist list = {0};
    pc__jentry items[] = {{{0}, a}, {{0}, b}};
    list.items = items;
    list.count = 2;
    return pc__j_join_list(j, (pc__jvalue){.kind = PC__J_LIST, .list = &list},
                           pc__j_string(pc__text_of("")));
}

pc__jvalue pc__j_join_list(pc__jinja *j, pc__jvalue list, pc__jvalue between)
{
    size_t size = 1;
    pc__jvalue out = pc__j_string(pc__text_of(""));
    int content = between.origin != NULL;
    if (j->status < 0)
        return out;
    for (size_t i = 0; i < list.list->count && pc__j_step(j); i++) {
        size += list.list->items[i].value.text.size + (i ? between.text.size : 0);
        content |= list.list->items[i].value.origin != NULL;
    }
    char *text = pc__j_alloc(j, size);
    unsigned char *origin = content && text ? pc__j_alloc(j, size) : NULL;
    if (!text || (content && !origin))
        return out;
    out.text.data = text;
    out.origin = origin;
    for (size_t i = 0; i < list.list->count; i++) {
        if (i)
            append(&out, text, origin, &between);
        append(&out, text, origin, &list.list->items[i].value);
    }
    return out;
}

pc__jvalue pc__j_copy(pc__jinja *j, pc__jvalue string)
{
    return pc__j_join(j, string, pc__j_string(pc__text_of("")));
}

static pc__jvalue characters(pc__jinja *j, const pc__jvalue *string)
{
    pc__jvalue list = pc__j_list(j, PC__J_LIST);
    pc__character c = {0};
    pc__j_look(j, string);
    while (j->status >= 0 && pc__utf8_next(string->text.data, string->text.size, &c))
        pc__j_add(j, list, pc__j_part(string, (pc__text){string->text.data + c.at, c.size}));
    return list;
}

pc__jvalue pc__j_items(pc__jinja *j, pc__jvalue v)
{
    if (v.kind == PC__J_STRING)
        return characters(j, &v);
    if (v.kind == PC__J_ITERATOR && v.list->used++)
        return pc__j_fail(j, PC_ERR_UNSUPPORTED, "what a filter gives is used twice");
    if (holds_items(&v) && v.kind != PC__J_MAP)
        return v;
    pc__jvalue list = pc__j_list(j, PC__J_LIST);
    if (v.kind == PC__J_MAP)
        for (size_t i = 0; i < v.list->count && j->status >= 0; i++)
            pc__j_add(j, list, v.list->items[i].key);
    else if (v.kind != PC__J_UNDEFINED)
        pc__j_fail(j, PC_ERR_FORMAT, "a loop over a value that holds nothing");
    return j->status >= 0 ? list : (pc__jvalue){0};
}

/* ------------------------------------------------------------------ variables */

pc__jframe *pc__j_frame(pc__jinja *j)
{
    pc__jframe *frame = pc__j_alloc(j, sizeof *frame);
    if (frame)
        frame->parent = j->frame;
    return frame;
}

static pc__jvalue *variable_of(pc__jinja *j, const pc__jframe *frame, pc__text name)
{
    for (size_t i = 0; i < frame->count && pc__j_charge(j, 4); i++)
        if (pc__text_equals(frame->items[i].name, name))
            return &frame->items[i].value;
    return NULL;
}

pc__jvalue *pc__j_variable(pc__jinja *j, pc__text name)
{
    pc__jvalue *found = NULL;
    for (const pc__jframe *s = j->frame; s && !found && pc__j_charge(j, 4); s = s->parent)
        found = variable_of(j, s, name);
    return found;
}

void pc__j_set(pc__jinja *j, pc__text name, pc__jvalue value)
{
    pc__jframe *s = j->frame;
    pc__jvalue *there = j->status >= 0 && s ? variable_of(j, s, name) : NULL;
    if (there)
        *there = value;
    if (there || j->status < 0 || !s)
        return;
    if (s->count == s->capacity) {
        size_t capacity = s->capacity ? 2 * s->capacity : 4;
        pc__jvariable *items = pc__j_alloc(j, capacity * sizeof *items);
        if (!items)
            return;
        if (s->count)
            memcpy(items, s->items, s->count * sizeof *items);
        s->items = items;
        s->capacity = capacity;
    }
    s->items[s->count++] = (pc__jvariable){name, value};
}
