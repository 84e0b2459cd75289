/* Runs the statements of a Jinja text over a conversation. */
#include "text/jinja_internal.h"

/* Work: see jinja.h. The content of messages adds to what is allowed. */
enum { WORK = 8 << 20, WORK_OF_CONTENT = 40 };
enum { MOST_BYTES = 8 << 20, BYTES_OF_CONTENT = 32, MOST_OUTPUT = 1 << 20, OUTPUT_OF_CONTENT = 4 };
enum { BREAKS = 1, CONTINUES = 2 };

/* NULL: the template's. */
static pc_status add_origins(pc__bytes *out, const unsigned char *origins, size_t size)
{
    static const unsigned char own[256];
    for (size_t n; size && !origins; size -= n) {
        n = size < sizeof own ? size : sizeof own;
        PC__TRY_RETURN(pc__bytes_add(out, own, n));
    }
    return size ? pc__bytes_add(out, origins, size) : PC_OK;
}

static void print_value(pc__jinja *j, pc__jvalue value)
{
    pc__jvalue printed = pc__j_text(j, value);
    pc__text text = printed.text;
    if (!pc__j_charge(j, text.size))
        return;
    if (j->out->size + text.size > j->most_output)
        pc__j_fail(j, PC_ERR_LIMIT, "the output has more than %zu bytes", j->most_output);
    if (j->status >= 0 && text.size)
        j->status = pc__bytes_add(j->out, text.data, text.size);
    if (j->status >= 0 && j->out_origins)
        j->status = add_origins(j->out_origins, printed.origin, text.size);
    j->out_content |= printed.origin != NULL;
}

/* ------------------------------------------------------------------ frames */

static pc__jframe *enter_frame(pc__jinja *j)
{
    pc__jframe *before = j->frame, *inner = pc__j_frame(j);
    if (inner)
        j->frame = inner;
    return before;
}

static void run_body(pc__jinja *j, const pc__jnode *first);

/* Runs a body in a frame of its own; its output is the value. */
static pc__jvalue capture(pc__jinja *j, const pc__jnode *body)
{
    pc__bytes own = {.mem = j->mem}, *before = j->out;
    pc__bytes origins = {.mem = j->mem}, *origins_before = j->out_origins;
    int content = j->out_content;
    pc__jframe *frame = enter_frame(j);
    j->out = &own;
    j->out_origins = &origins;
    j->out_content = 0;
    run_body(j, body);
    pc__jvalue text = pc__j_string((pc__text){own.data, own.size});
    if (j->out_content)
        text.origin = (const unsigned char *)(origins.data ? origins.data : "");
    text = pc__j_copy(j, text);
    j->frame = frame;
    j->out = before;
    j->out_origins = origins_before;
    j->out_content = content;
    pc__bytes_free(&own);
    pc__bytes_free(&origins);
    return j->status >= 0 ? text : (pc__jvalue){0};
}

/* The first of its items is `value`, the second `value`s next, ... */
static void bind(pc__jinja *j, const pc__jnode *target, pc__jvalue value);

static void bind_items(pc__jinja *j, const pc__jnode *target, pc__jvalue value)
{
    pc__jvalue all = pc__j_items(j, value);
    size_t count = 0;
    for (const pc__jnode *t = target->of[0]; t; t = t->next)
        count++;
    if (j->status >= 0 && all.list->count != count)
        pc__j_fail(j, PC_ERR_FORMAT, "there are %zu names, but %zu values", count, all.list->count);
    const pc__jentry *item = j->status >= 0 ? all.list->items : NULL;
    for (const pc__jnode *t = target->of[0]; t && item && j->status >= 0; t = t->next)
        bind(j, t, (item++)->value);
}

static void bind(pc__jinja *j, const pc__jnode *target, pc__jvalue value)
{
    const pc__jvalue *space;
    if (target->op == PC__JO_NAME) {
        pc__j_set(j, target->name, value);
    } else if (target->op == PC__JO_TUPLE) {
        if (pc__j_enter(j))
            bind_items(j, target, value);
        j->depth--;
    } else {
        space = pc__j_variable(j, target->name);
        if (j->status >= 0 && (!space || space->kind != PC__J_NAMESPACE))
            pc__j_fail(j, PC_ERR_FORMAT, "set: '%.*s' is no namespace", (int)target->name.size,
                       target->name.data);
        if (j->status >= 0)
            pc__j_put(j, *space, target->value, value);
    }
}

/* ------------------------------------------------------------------ loops */

/* The items that pass the loop's own condition. Jinja evaluates it item by item between runs of the
 * body; nothing that the body can change is allowed in it. */
static pc__jvalue filter_items(pc__jinja *j, const pc__jnode *n, pc__jvalue all)
{
    pc__jvalue some = pc__j_list(j, PC__J_LIST);
    pc__jframe *before = enter_frame(j);
    j->filtering++;
    for (size_t i = 0; j->status >= 0 && i < all.list->count; i++) {
        bind(j, n->of[3], all.list->items[i].value);
        pc__jvalue passes = pc__j_eval(j, n->of[4]);
        if (j->status >= 0 && pc__j_truth(&passes))
            pc__j_add(j, some, all.list->items[i].value);
    }
    j->filtering--;
    j->frame = before;
    return some;
}

static void run_for(pc__jinja *j, const pc__jnode *n)
{
    pc__jvalue all = pc__j_items(j, pc__j_eval(j, n->of[0]));
    pc__jloop *loop = pc__j_alloc(j, sizeof *loop);
    pc__jframe *before = j->frame, *inner = NULL;
    int completed = 0; /* whether a run of the body has reached its end */
    if (n->of[4] && j->status >= 0)
        all = filter_items(j, n, all);
    for (size_t i = 0; j->status >= 0 && i < all.list->count && pc__j_step(j); i++) {
        if (!inner || inner->is_held) {
            j->frame = before;
            if (!(inner = pc__j_frame(j)) || !(loop = pc__j_alloc(j, sizeof *loop)))
                break;
        }
        inner->count = 0;
        j->frame = inner;
        *loop = (pc__jloop){all.list, i};
        pc__j_set(j, pc__text_of("loop"), (pc__jvalue){.kind = PC__J_LOOP, .loop = loop});
        bind(j, n->of[3], all.list->items[i].value);
        run_body(j, n->of[1]);
        completed |= !j->leaving;
        if (j->leaving == BREAKS)
            i = all.list->count - 1;
        j->leaving = 0;
    }
    j->frame = before;
    if (j->status >= 0 && !completed && n->of[2]) {
        enter_frame(j);
        run_body(j, n->of[2]);
        j->frame = before;
    }
}

/* ------------------------------------------------------------------ macros */

static void define_macro(pc__jinja *j, const pc__jnode *n)
{
    for (pc__jframe *s = j->frame; s; s = s->parent)
        s->is_held = 1;
    pc__j_set(j, n->name, (pc__jvalue){.kind = PC__J_MACRO, .macro = n, .frame = j->frame});
}

/* The argument of a parameter; NULL: there is none. Counts what it finds. */
static const pc__jvalue *argument_of(const pc__jarguments *a, pc__text name, size_t place,
                                     size_t *used)
{
    const pc__jvalue *found = NULL;
    for (size_t i = 0; i < a->count; i++)
        if (a->name[i].size ? pc__text_equals(a->name[i], name) : i == place) {
            found = &a->value[i];
            ++*used;
        }
    return found;
}

static void bind_parameters(pc__jinja *j, const pc__jnode *macro, const pc__jarguments *a)
{
    size_t place = 0, used = 0;
    for (const pc__jnode *p = macro->of[0]; p && pc__j_step(j); p = p->next, place++) {
        size_t before = used;
        const pc__jvalue *given = argument_of(a, p->name, place, &used);
        if (used > before + 1)
            pc__j_fail(j, PC_ERR_FORMAT, "two arguments for one parameter");
        pc__j_set(j, p->name,
                  given      ? *given
                  : p->of[0] ? pc__j_eval(j, p->of[0])
                             : (pc__jvalue){.text = p->name});
    }
    if (j->status >= 0 && used < a->count)
        pc__j_fail(j, PC_ERR_FORMAT, "macro '%.*s' does not take these arguments",
                   (int)macro->name.size, macro->name.data);
}

pc__jvalue pc__j_call_macro(pc__jinja *j, const pc__jvalue *macro, const pc__jarguments *a)
{
    pc__jframe *before = j->frame;
    pc__jvalue text = {0};
    j->frame = macro->frame;
    if (pc__j_enter(j)) {
        enter_frame(j);
        bind_parameters(j, macro->macro, a);
        text = capture(j, macro->macro->of[1]);
    }
    j->depth--;
    j->frame = before;
    return text;
}

/* ------------------------------------------------------------------ statements */

static void run_if(pc__jinja *j, const pc__jnode *n)
{
    for (const pc__jnode *branch = n; branch && j->status >= 0; branch = branch->of[2]) {
        pc__jvalue test = pc__j_eval(j, branch->of[0]);
        if (j->status < 0)
            return;
        if (pc__j_truth(&test)) {
            run_body(j, branch->of[1]);
            return;
        }
        if (branch->of[3]) {
            run_body(j, branch->of[3]);
            return;
        }
    }
}

static void run_statement(pc__jinja *j, const pc__jnode *n)
{
    pc__jframe *before;
    switch (n->op) {
    case PC__JO_TEXT:
        print_value(j, n->value);
        break;
    case PC__JO_PRINT:
        print_value(j, pc__j_eval(j, n->of[0]));
        break;
    case PC__JO_IF:
        run_if(j, n);
        break;
    case PC__JO_FOR:
        run_for(j, n);
        break;
    case PC__JO_SET:
        bind(j, n->of[0], pc__j_eval(j, n->of[1]));
        break;
    case PC__JO_SET_BLOCK:
        bind(j, n->of[0], capture(j, n->of[1]));
        break;
    case PC__JO_MACRO:
        define_macro(j, n);
        break;
    case PC__JO_BLOCK:
        before = enter_frame(j);
        run_body(j, n->of[1]);
        j->frame = before;
        break;
    case PC__JO_BREAK:
    case PC__JO_CONTINUE:
        j->leaving = n->op == PC__JO_BREAK ? BREAKS : CONTINUES;
        break;
    default:
        pc__j_fail(j, PC_ERR_UNSUPPORTED, "statement \"%.*s\" is not known", (int)n->name.size,
                   n->name.data);
    }
}

static void run_body(pc__jinja *j, const pc__jnode *first)
{
    if (pc__j_enter(j))
        for (const pc__jnode *n = first; n && !j->leaving && pc__j_step(j); n = n->next) {
            j->at = n->at;
            run_statement(j, n);
        }
    j->depth--;
}

/* ------------------------------------------------------------------ the conversation */

static void name_text(pc__jinja *j, const char *name, const char *text)
{
    if (text)
        pc__j_set(j, pc__text_of(name), pc__j_string(pc__text_of(text)));
}

static void put_members(pc__jinja *j, pc__jvalue map, const struct json_t *json)
{
    pc__jvalue more = json ? pc__j_from_json(j, json) : (pc__jvalue){0};
    for (size_t i = 0; j->status >= 0 && more.list && i < more.list->count; i++)
        pc__j_put(j, map, more.list->items[i].key, more.list->items[i].value);
}

static pc__jvalue message_of(pc__jinja *j, const pc__jinja_message *m, const pc__jinja_more *more)
{
    pc__jvalue message = pc__j_list(j, PC__J_MAP), content = {.kind = PC__J_NONE};
    if (!more || !more->no_content)
        content = pc__j_given(j, m->content, more ? more->size : strlen(m->content),
                              more ? more->marked : 0);
    pc__j_put(j, message, pc__j_string(pc__text_of("role")), pc__j_string(pc__text_of(m->role)));
    pc__j_put(j, message, pc__j_string(pc__text_of("content")), content);
    put_members(j, message, more ? more->fields : NULL);
    return message;
}

static void set_variables(pc__jinja *j, const pc__jinja_input *input)
{
    pc__jvalue messages = pc__j_list(j, PC__J_LIST), none = {.kind = PC__J_NONE}, given;
    for (size_t i = 0; i < input->count && j->status >= 0; i++)
        pc__j_add(j, messages,
                  message_of(j, &input->messages[i], input->more ? &input->more[i] : NULL));
    pc__j_set(j, pc__text_of("tools"), none);
    pc__j_set(j, pc__text_of("documents"), none);
    given = input->variables ? pc__j_from_json(j, input->variables) : (pc__jvalue){0};
    for (size_t i = 0; j->status >= 0 && given.list && i < given.list->count; i++)
        pc__j_set(j, given.list->items[i].key.text, given.list->items[i].value);
    pc__j_set(j, pc__text_of("messages"), messages);
    pc__j_set(j, pc__text_of("add_generation_prompt"), pc__j_bool(input->generate));
    name_text(j, "bos_token", input->bos);
    name_text(j, "eos_token", input->eos);
    if (input->tools)
        pc__j_set(j, pc__text_of("tools"), pc__j_from_json(j, input->tools));
}

static void allow_content(pc__jinja *j, const pc__jinja_input *input)
{
    size_t size = pc__j_json_size(input->tools) + pc__j_json_size(input->variables);
    for (size_t i = 0; i < input->count; i++) {
        const pc__jinja_more *more = input->more ? &input->more[i] : NULL;
        size += more ? more->size + pc__j_json_size(more->fields)
                     : strlen(input->messages[i].content);
    }
    j->most_work += (uint64_t)size * WORK_OF_CONTENT;
    j->most_bytes = MOST_BYTES + size * BYTES_OF_CONTENT;
    j->most_output = MOST_OUTPUT + size * OUTPUT_OF_CONTENT;
}

pc_status pc__jinja_run(pc__jinja *j, pc__bytes *out, const pc__jinja_input *input)
{
    pc__jblock *mark;
    j->status = PC_OK;
    j->at = j->source;
    j->now = input->now;
    allow_content(j, input);
    if (!(mark = pc__j_mark(j)))
        return j->status;
    j->dated = input->dated;
    j->out = out;
    j->out_origins = input->origins;
    j->frame = NULL;
    j->out_content = j->leaving = 0;
    if ((j->frame = pc__j_frame(j))) {
        set_variables(j, input);
        enter_frame(j);
        run_body(j, j->body);
    }
    pc__j_forget(j, mark);
    return j->status;
}

/* Copies the text with line breaks as Jinja makes them: of one kind, the last one dropped. */
static pc_status copy_source(pc__jinja *j, const char *source)
{
    size_t size = strlen(source), n = 0;
    pc__character c = {0};
    while (pc__utf8_next(source, size, &c))
        if (!c.valid)
            return pc__fail(PC_ERR_FORMAT, "the template is not UTF-8 (byte %zu)", c.at);
    if (!(j->source = pc__alloc(j->mem, size + 1)))
        return PC_ERR_NOMEM;
    for (size_t i = 0; i < size; i++)
        if (source[i] != '\r' || source[i + 1] != '\n')
            j->source[n++] = source[i] == '\r' ? '\n' : source[i];
    n -= n && j->source[n - 1] == '\n';
    j->source[n] = 0;
    j->end = j->source + n;
    j->at = j->source;
    return PC_OK;
}

pc_status pc__jinja_new(pc__jinja **out, const pc_allocator *mem, const char *source)
{
    pc__jinja *j = pc__calloc(mem, 1, sizeof *j);
    *out = NULL;
    if (!j)
        return PC_ERR_NOMEM;
    j->mem = mem;
    j->most_work = WORK;
    j->most_bytes = MOST_BYTES;
    if ((j->status = copy_source(j, source)) >= 0)
        j->body = pc__j_read_statements(j);
    if (j->status >= 0)
        pc__j_alloc(j, 1); /* a block, in front of those of runs */
    if (j->status < 0) {
        pc_status status = j->status;
        pc__jinja_free(j);
        return status;
    }
    *out = j;
    return PC_OK;
}

void pc__jinja_free(pc__jinja *j)
{
    if (!j)
        return;
    pc__j_forget(j, NULL);
    pc__free(j->mem, j->source);
    pc__free(j->mem, j);
}

int64_t pc__jinja_largest_number(const pc__jinja *j)
{
    return j->largest_number;
}
