/* Splits a Jinja text into segments and runs its statements. */
#include "text/jinja_internal.h"

enum { MOST_SEGMENTS = 1 << 14, MOST_OUTPUT = 1 << 20 };
enum { BREAKS = 1, CONTINUES = 2 };

/* ------------------------------------------------------------------ splitting */

static void add_segment(pc__jinja *j, pc__jword word, const char *begin, const char *end)
{
    if (j->status < 0 || (word == PC__JW_TEXT && begin >= end))
        return;
    if (j->segment_count >= MOST_SEGMENTS)
        pc__j_fail(j, PC_ERR_LIMIT, "the template has more than %d parts", MOST_SEGMENTS);
    else
        j->status = pc__grow(j->mem, (void **)&j->segments, &j->segment_capacity,
                             j->segment_count + 1, sizeof *j->segments);
    if (j->status >= 0)
        j->segments[j->segment_count++] = (pc__jsegment){word, begin, end};
}

/* The closing mark of the tag at `p`; NULL: none. Marks in strings do not count. */
static const char *tag_end(const pc__jinja *j, const char *p)
{
    char kind = p[1], close = kind == '{' ? '}' : kind;
    int depth = 0;
    for (p += 2; p + 1 < j->source_end; p++) {
        if (kind != '#' && (*p == '\'' || *p == '"')) {
            char quote = *p;
            for (p++; p < j->source_end && *p != quote; p++)
                p += *p == '\\';
        } else if (*p == close && p[1] == '}' && !depth) {
            return p;
        } else if (kind != '#' && (*p == '{' || *p == '}')) {
            depth += *p == '{' ? 1 : depth ? -1 : 0;
        }
    }
    return NULL;
}

static pc__jword word_of(pc__jinja *j, const char **begin, const char *end)
{
    static const char *const words[] = {
        "if",     "elif",  "else",     "endif",      "for",           "endfor", "set",
        "endset", "macro", "endmacro", "generation", "endgeneration", "break",  "continue"};
    j->at = *begin;
    j->end = end;
    for (size_t w = 0; w < sizeof words / sizeof *words; w++)
        if (pc__j_accept_word(j, words[w])) {
            pc__jword word = (pc__jword)(PC__JW_IF + w);
            *begin = j->at;
            return word == PC__JW_SET && !memchr(j->at, '=', (size_t)(end - j->at))
                       ? PC__JW_SET_BLOCK
                       : word;
        }
    return PC__JW_OTHER;
}

/* The end of the text before a tag, without the blanks that the tag strips. */
static const char *text_end(const char *from, const char *tag, int line_starts)
{
    const char *p = tag;
    if (tag[2] == '-') {
        while (p > from && pc__is_blank(p[-1]))
            p--;
        return p;
    }
    if (tag[1] == '{' || tag[2] == '+')
        return tag;
    while (p > from && (p[-1] == ' ' || p[-1] == '\t'))
        p--;
    return p > from ? (p[-1] == '\n' ? p : tag) : line_starts ? p : tag;
}

/* Adds the segment of a tag; returns the beginning of the text after it. */
static const char *split_tag(pc__jinja *j, const char *tag, int *line_starts)
{
    const char *close = tag_end(j, tag), *begin = tag + 2, *end = close, *after;
    if (!close) {
        j->at = tag;
        pc__j_fail(j, PC_ERR_FORMAT, "\"%.2s\" is not closed", tag);
        return j->source_end;
    }
    after = close + 2;
    begin += begin < end && (*begin == '-' || *begin == '+');
    end -= end > begin && (end[-1] == '-' || end[-1] == '+');
    if (tag[1] == '{')
        add_segment(j, PC__JW_PRINT, begin, end);
    else if (tag[1] == '%') {
        pc__jword word = word_of(j, &begin, end);
        add_segment(j, word, begin, end);
    }
    if (close[-1] == '-') {
        while (after < j->source_end && pc__is_blank(*after))
            after++;
    } else if (tag[1] != '{' && close[-1] != '+' && after < j->source_end && *after == '\n') {
        after++;
    }
    *line_starts = after[-1] == '\n';
    return after;
}

static void split_template(pc__jinja *j)
{
    const char *from = j->source, *p = from;
    int line_starts = 1;
    while (j->status >= 0 && p < j->source_end) {
        if (*p != '{' || p + 2 >= j->source_end || (p[1] != '{' && p[1] != '%' && p[1] != '#')) {
            p++;
            continue;
        }
        add_segment(j, PC__JW_TEXT, from, text_end(from, p, line_starts));
        from = p = split_tag(j, p, &line_starts);
    }
    add_segment(j, PC__JW_TEXT, from, j->source_end);
}

/* ------------------------------------------------------------------ running */

static void print_value(pc__jinja *j, pc__jvalue value)
{
    pc__text text = pc__j_text(j, value).text;
    if (j->status >= 0 && j->out->size + text.size > MOST_OUTPUT)
        pc__j_fail(j, PC_ERR_LIMIT, "the output has more than %d bytes", MOST_OUTPUT);
    if (j->status >= 0 && text.size)
        j->status = pc__bytes_add(j->out, text.data, text.size);
}

static void read_from(pc__jinja *j, size_t segment)
{
    j->at = j->segments[segment].begin;
    j->end = j->segments[segment].end;
}

static pc__jvalue full_expression(pc__jinja *j)
{
    pc__jvalue value = pc__j_expression(j);
    pc__j_expect_end(j);
    return value;
}

static int opens_block(pc__jword word)
{
    return word == PC__JW_IF || word == PC__JW_FOR || word == PC__JW_MACRO
           || word == PC__JW_SET_BLOCK;
}

static int closes_block(pc__jword word)
{
    return word == PC__JW_ENDIF || word == PC__JW_ENDFOR || word == PC__JW_ENDMACRO
           || word == PC__JW_ENDSET;
}

/* The next branch of the statement at segment `i`: elif, else, or its end. */
static size_t next_branch(pc__jinja *j, size_t i)
{
    int depth = 0;
    for (size_t n = i + 1; n < j->segment_count; n++) {
        pc__jword word = j->segments[n].word;
        if (!depth && (closes_block(word) || word == PC__JW_ELIF || word == PC__JW_ELSE))
            return n;
        depth += opens_block(word) ? 1 : closes_block(word) ? -1 : 0;
    }
    read_from(j, i);
    pc__j_fail(j, PC_ERR_FORMAT, "a statement has no end");
    return j->segment_count;
}

static pc__jword word_at(const pc__jinja *j, size_t i)
{
    return i < j->segment_count ? j->segments[i].word : PC__JW_TEXT;
}

static void run_segments(pc__jinja *j, size_t from, size_t to);

static void expect_word(pc__jinja *j, size_t i, pc__jword word)
{
    if (j->status >= 0 && word_at(j, i) != word) {
        read_from(j, i < j->segment_count ? i : 0);
        pc__j_fail(j, PC_ERR_FORMAT, "a statement is closed by the end of another");
    }
}

static size_t run_if(pc__jinja *j, size_t i)
{
    int done = 0;
    while (j->status >= 0) {
        pc__jword word = word_at(j, i);
        size_t next = next_branch(j, i);
        int chosen = !done;
        if (!done && word != PC__JW_ELSE) {
            read_from(j, i);
            pc__jvalue condition = full_expression(j);
            chosen = pc__j_truth(&condition);
        }
        if (chosen && j->status >= 0)
            run_segments(j, i + 1, next);
        done |= chosen;
        if (word_at(j, next) != PC__JW_ELIF && word_at(j, next) != PC__JW_ELSE) {
            expect_word(j, next, PC__JW_ENDIF);
            return next + 1;
        }
        i = next;
    }
    return j->segment_count;
}

typedef struct for_target {
    pc__text name[4];
    size_t count;
} for_target;

static void bind_target(pc__jinja *j, const for_target *t, const pc__jvalue *value)
{
    if (t->count == 1) {
        pc__j_set(j, t->name[0], *value);
        return;
    }
    if (value->kind != PC__J_LIST || value->list->count != t->count) {
        pc__j_fail(j, PC_ERR_FORMAT, "the loop has %zu names, its items do not have as many values",
                   t->count);
        return;
    }
    for (size_t i = 0; i < t->count; i++)
        pc__j_set(j, t->name[i], value->list->items[i].value);
}

static void read_target(pc__jinja *j, for_target *t)
{
    t->count = 0;
    do {
        if (t->count == 4 || !(t->name[t->count] = pc__j_name(j)).size)
            pc__j_fail(j, PC_ERR_UNSUPPORTED, "the loop's names are not understood");
        else
            t->count++;
    } while (j->status >= 0 && pc__j_accept(j, ","));
}

static pc__jvalue loop_items(pc__jinja *j, pc__jvalue v)
{
    if (v.kind == PC__J_STRING)
        return pc__j_characters(j, v);
    if (v.kind == PC__J_LIST)
        return v;
    pc__jvalue list = pc__j_list(j, PC__J_LIST);
    if (v.kind == PC__J_MAP)
        for (size_t i = 0; i < v.list->count; i++)
            pc__j_add(j, list, v.list->items[i].key);
    else if (v.kind != PC__J_UNDEFINED)
        pc__j_fail(j, PC_ERR_FORMAT, "a loop over a value that holds nothing");
    return list;
}

/* The items that pass the loop's own "if". */
static pc__jvalue filter_items(pc__jinja *j, const for_target *t, pc__jvalue all)
{
    const char *from = j->at, *after = from;
    pc__jvalue some = pc__j_list(j, PC__J_LIST);
    for (size_t i = 0; all.list && i < all.list->count && pc__j_step(j); i++) {
        size_t frame = j->frame, count = j->variable_count;
        j->frame = count;
        bind_target(j, t, &all.list->items[i].value);
        j->at = from;
        pc__jvalue passes = pc__j_expression(j);
        after = j->at;
        if (pc__j_truth(&passes))
            pc__j_add(j, some, all.list->items[i].value);
        j->variable_count = count;
        j->frame = frame;
    }
    j->at = after > from ? after : j->end;
    return some;
}

static void put_member(pc__jinja *j, pc__jvalue map, const char *key, pc__jvalue value)
{
    pc__j_put(j, map, pc__text_of(key), value);
}

static pc__jvalue loop_map(pc__jinja *j, const pc__jvalue *all, size_t i)
{
    pc__jvalue map = pc__j_list(j, PC__J_MAP);
    size_t n = all->list->count;
    put_member(j, map, "index", pc__j_int((int64_t)i + 1));
    put_member(j, map, "index0", pc__j_int((int64_t)i));
    put_member(j, map, "revindex", pc__j_int((int64_t)(n - i)));
    put_member(j, map, "revindex0", pc__j_int((int64_t)(n - i - 1)));
    put_member(j, map, "first", pc__j_bool(!i));
    put_member(j, map, "last", pc__j_bool(i + 1 == n));
    put_member(j, map, "length", pc__j_int((int64_t)n));
    if (i)
        put_member(j, map, "previtem", all->list->items[i - 1].value);
    if (i + 1 < n)
        put_member(j, map, "nextitem", all->list->items[i + 1].value);
    return map;
}

static size_t run_for(pc__jinja *j, size_t i)
{
    for_target t;
    size_t body = next_branch(j, i), end = body;
    if (word_at(j, body) == PC__JW_ELSE)
        end = next_branch(j, body);
    expect_word(j, end, PC__JW_ENDFOR);
    read_from(j, i);
    read_target(j, &t);
    pc__j_expect(j, "in");
    pc__jvalue all = loop_items(j, pc__j_or(j));
    if (pc__j_accept_word(j, "if"))
        all = filter_items(j, &t, all);
    pc__j_expect_end(j);
    for (size_t n = 0; all.list && n < all.list->count && pc__j_step(j); n++) {
        size_t frame = j->frame, count = j->variable_count;
        j->frame = count;
        bind_target(j, &t, &all.list->items[n].value);
        pc__j_set(j, pc__text_of("loop"), loop_map(j, &all, n));
        run_segments(j, i + 1, body);
        j->variable_count = count;
        j->frame = frame;
        if (j->leaving == BREAKS)
            n = all.list->count - 1;
        j->leaving = 0;
    }
    if (j->status >= 0 && !all.list->count && end != body)
        run_segments(j, body + 1, end);
    return end + 1;
}

static void set_member(pc__jinja *j, pc__text name)
{
    pc__jvalue *variable = pc__j_variable(j, 0, name), of = {0}, value;
    pc__text key = pc__j_expect_name(j, ".");
    if (variable) /* copied: a macro in the expression may move the variables */
        of = *variable;
    if (of.kind != PC__J_MAP)
        pc__j_fail(j, PC_ERR_FORMAT, "set: '%.*s' is no namespace", (int)name.size, name.data);
    pc__j_expect(j, "=");
    value = full_expression(j);
    if (j->status >= 0)
        pc__j_put(j, of, key, value);
}

static void run_set(pc__jinja *j, size_t i)
{
    read_from(j, i);
    pc__text name = pc__j_expect_name(j, "set");
    if (pc__j_accept(j, ".")) {
        set_member(j, name);
        return;
    }
    pc__j_expect(j, "=");
    pc__j_set(j, name, full_expression(j));
}

/* Runs the segments; their output is the value. */
static pc__jvalue capture_output(pc__jinja *j, size_t from, size_t to)
{
    pc__bytes own = {.mem = j->mem}, *before = j->out;
    j->out = &own;
    run_segments(j, from, to);
    j->out = before;
    pc__jvalue text = pc__j_copy(j, (pc__text){own.data, own.size});
    pc__bytes_free(&own);
    return text;
}

static size_t run_set_block(pc__jinja *j, size_t i)
{
    size_t end = next_branch(j, i);
    expect_word(j, end, PC__JW_ENDSET);
    read_from(j, i);
    pc__text name = pc__j_expect_name(j, "set");
    pc__j_expect_end(j);
    pc__j_set(j, name, capture_output(j, i + 1, end));
    return end + 1;
}

static size_t define_macro(pc__jinja *j, size_t i)
{
    size_t end = next_branch(j, i);
    expect_word(j, end, PC__JW_ENDMACRO);
    read_from(j, i);
    pc__j_set(j, pc__j_expect_name(j, "macro"),
              (pc__jvalue){.kind = PC__J_MACRO, .number = (int64_t)i});
    return end + 1;
}

/* Sets a macro's parameters to the arguments of a call or their defaults. */
static void bind_parameters(pc__jinja *j, const pc__jarguments *a)
{
    pc__j_expect(j, "(");
    for (size_t place = 0; pc__j_goes_on(j, !place, ")"); place++) {
        pc__text name = pc__j_expect_name(j, "(");
        pc__jvalue value = {0};
        if (pc__j_accept(j, "="))
            value = pc__j_expression(j);
        for (size_t i = 0; i < a->count; i++)
            if (a->name[i].size ? pc__text_equals(a->name[i], name) : i == place)
                value = a->value[i];
        pc__j_set(j, name, value);
    }
}

pc__jvalue pc__j_macro(pc__jinja *j, size_t segment, const pc__jarguments *a)
{
    const char *at = j->at, *end = j->end;
    size_t frame = j->frame, count = j->variable_count;
    pc__jvalue text = {0};
    j->depth++;
    if (pc__j_step(j)) {
        j->frame = count;
        read_from(j, segment);
        pc__j_name(j);
        bind_parameters(j, a);
        text = capture_output(j, segment + 1, next_branch(j, segment));
        j->variable_count = count;
        j->frame = frame;
        j->leaving = 0;
    }
    j->depth--;
    j->end = end;
    j->at = j->status >= 0 ? at : end;
    return text;
}

/* Runs segment `i`; returns the next one. */
static size_t run_segment(pc__jinja *j, size_t i)
{
    const pc__jsegment *s = &j->segments[i];
    switch (s->word) {
    case PC__JW_TEXT:
        print_value(j, pc__j_string((pc__text){s->begin, (size_t)(s->end - s->begin)}));
        return i + 1;
    case PC__JW_PRINT:
        read_from(j, i);
        print_value(j, full_expression(j));
        return i + 1;
    case PC__JW_IF:
        return run_if(j, i);
    case PC__JW_FOR:
        return run_for(j, i);
    case PC__JW_SET:
        run_set(j, i);
        return i + 1;
    case PC__JW_SET_BLOCK:
        return run_set_block(j, i);
    case PC__JW_MACRO:
        return define_macro(j, i);
    case PC__JW_GENERATION:
    case PC__JW_ENDGENERATION:
        return i + 1;
    case PC__JW_BREAK:
    case PC__JW_CONTINUE:
        j->leaving = s->word == PC__JW_BREAK ? BREAKS : CONTINUES;
        return i + 1;
    case PC__JW_OTHER:
        read_from(j, i);
        pc__j_fail(j, PC_ERR_UNSUPPORTED, "statement \"%.*s\" is not known",
                   (int)(s->end - s->begin < 20 ? s->end - s->begin : 20), s->begin);
        return i + 1;
    default:
        read_from(j, i);
        pc__j_fail(j, PC_ERR_FORMAT, "an end without its beginning");
        return i + 1;
    }
}

static void run_segments(pc__jinja *j, size_t from, size_t to)
{
    j->depth++;
    while (from < to && !j->leaving && pc__j_step(j))
        from = run_segment(j, from);
    j->depth--;
}

/* ------------------------------------------------------------------ the conversation */

static pc__jvalue text_value(const char *text)
{
    return text ? pc__j_string(pc__text_of(text)) : (pc__jvalue){0};
}

static void name_value(pc__jinja *j, const char *name, pc__jvalue value)
{
    if (value.kind != PC__J_UNDEFINED)
        pc__j_set(j, pc__text_of(name), value);
}

static void set_variables(pc__jinja *j, const pc__jinja_input *input)
{
    pc__jvalue messages = pc__j_list(j, PC__J_LIST), none = {.kind = PC__J_NONE};
    for (size_t i = 0; i < input->count; i++) {
        pc__jvalue message = pc__j_list(j, PC__J_MAP);
        put_member(j, message, "role", text_value(input->messages[i].role));
        put_member(j, message, "content", text_value(input->messages[i].content));
        pc__j_add(j, messages, message);
    }
    name_value(j, "messages", messages);
    name_value(j, "add_generation_prompt", pc__j_bool(input->generate));
    name_value(j, "bos_token", text_value(input->bos));
    name_value(j, "eos_token", text_value(input->eos));
    name_value(j, "tools", none);
    name_value(j, "documents", none);
}

pc_status pc__jinja_render(pc__bytes *out, const char *source, const pc__jinja_input *input)
{
    size_t size = strlen(source);
    pc__jinja j = {.mem = out->mem, .source = source, .out = out};
    if (size && source[size - 1] == '\n') /* Jinja drops one line break at the end */
        size--;
    j.source_end = source + size;
    split_template(&j);
    set_variables(&j, input);
    run_segments(&j, 0, j.segment_count);
    pc__j_end(&j);
    return j.status;
}
