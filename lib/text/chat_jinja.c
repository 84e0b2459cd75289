/* Finds the pieces of a chat template by running its Jinja text.
 *
 * The messages of test conversations are words that occur nowhere else; the output is split at
 * them. U is a user's message, A the assistant's, S the system prompt:
 *
 *   U1, an answer to come            empty + open . U1 . close + generation
 *   S U1, an answer to come          system open . S . system close + open . U1 . …
 *   U1 A1 U2, an answer to come      … . close + assistant open . A1 . assistant close + open . …
 *   U1 A1                            … A1 . assistant close
 *
 * What the pieces then make of longer conversations must be what the text itself makes of them,
 * else the template is not known. So nothing is guessed: not the spacing, not a default system
 * prompt, not the place of the system prompt. */
#include <stdio.h>
#include <string.h>

#include "text/chat.h"
#include "text/jinja.h"
#include "text/utf8.h"

#define S "sYstem1words"
#define U1 "uSer1words"
#define U2 "uSer2words"
#define U3 "uSer3words"
#define A1 "aNswer1words"
#define A2 "aNswer2words"

static const pc__jinja_message conversation[] = {
    {"system", S}, {"user", U1}, {"assistant", A1}, {"user", U2}, {"assistant", A2}, {"user", U3}};

typedef struct text_range {
    const char *data;
    size_t size;
} text_range;

typedef struct template_reading {
    const pc_allocator *mem;
    const pc__tokenizer *tokenizer;
    const char *jinja;
    char *bos, *eos;
    pc__bytes text[4]; /* outputs for the conversations above */
    pc__bytes piece[PC__CHAT_PIECES];
    int joins, no_system;
    char *why;
    size_t why_size;
} template_reading;

enum { FIRST, WITH_SYSTEM, TURNS, ANSWERED };
enum { SYSTEM_OPEN, SYSTEM_CLOSE, EMPTY, OPEN, CLOSE, GENERATION, ANSWER_OPEN, ANSWER_CLOSE };

static pc_status not_known(template_reading *r, const char *why)
{
    snprintf(r->why, r->why_size, "%s", why);
    return PC_MISS;
}

/* Out of memory is an error; after any other failure the template is not known. */
static pc_status render(template_reading *r, pc__bytes *out, const pc__jinja_message *messages,
                        size_t count, int generate)
{
    const pc__jinja_input input = {messages, count, r->bos, r->eos, generate};
    pc_status status;
    out->size = 0;
    status = pc__jinja_render(out, r->jinja, &input);
    if (status >= 0)
        status = pc__bytes_add(out, "", 0);
    if (status >= 0 || status == PC_ERR_NOMEM)
        return status;
    return not_known(r, pc_error_text());
}

/* ------------------------------------------------------------------ splitting */

static text_range range_of(const pc__bytes *b)
{
    return (text_range){b->data ? b->data : "", b->size};
}

/* Splits `rest` at the word: returns the text before it and keeps the text after it. data NULL: the
 * word does not occur exactly once. */
static text_range split_at(text_range *rest, const char *word)
{
    size_t n = strlen(word), count = 0;
    text_range before = {NULL, 0}, all = *rest;
    for (size_t i = 0; i + n <= all.size; i++)
        if (!memcmp(all.data + i, word, n)) {
            if (!count++) {
                before = (text_range){all.data, i};
                *rest = (text_range){all.data + i + n, all.size - i - n};
            }
        }
    return count == 1 ? before : (text_range){NULL, 0};
}

static int ranges_equal(text_range a, text_range b)
{
    return a.size == b.size && (!a.size || !memcmp(a.data, b.data, a.size));
}

static int begins_with(text_range text, text_range with)
{
    return text.size >= with.size && (!with.size || !memcmp(text.data, with.data, with.size));
}

static int ends_with(text_range text, text_range with)
{
    return text.size >= with.size
           && (!with.size || !memcmp(text.data + text.size - with.size, with.data, with.size));
}

static text_range without_end(text_range text, size_t size)
{
    return (text_range){text.data, text.size - size};
}

static text_range after_first(text_range text, size_t size)
{
    return (text_range){text.data + size, text.size - size};
}

/* Whether `at` is inside a special token, written <...> or [...]. */
static int inside_token(text_range text, size_t at)
{
    for (size_t i = at; i--;) {
        if (text.data[i] == '>' || text.data[i] == ']' || text.data[i] == '\n')
            return 0;
        if (text.data[i] == '<' || text.data[i] == '[')
            return 1;
    }
    return 0;
}

static size_t common_beginning(text_range a, text_range b)
{
    size_t n = 0;
    while (n < a.size && n < b.size && a.data[n] == b.data[n])
        n++;
    while (n && (inside_token(a, n) || inside_token(b, n)))
        n--;
    return n;
}

static size_t common_end(text_range a, text_range b)
{
    size_t n = 0;
    while (n < a.size && n < b.size && a.data[a.size - 1 - n] == b.data[b.size - 1 - n])
        n++;
    while (n && (inside_token(a, a.size - n) || inside_token(b, b.size - n)))
        n--;
    return n;
}

static pc_status set_piece(template_reading *r, int piece, text_range text)
{
    r->piece[piece].size = 0;
    PC__TRY_RETURN(pc__bytes_add(&r->piece[piece], text.data, text.size));
    return pc__bytes_add(&r->piece[piece], "", 0);
}

/* ------------------------------------------------------------------ reading */

/* The caller has set `why`. */
static pc_status no_system(template_reading *r)
{
    r->no_system = 1;
    return PC_OK;
}

/* The first conversation: the texts before and after U1. */
static pc_status read_beginning(template_reading *r, text_range *before, text_range *after)
{
    pc_status status = render(r, &r->text[FIRST], &conversation[1], 1, 1);
    if (status != PC_OK)
        return status;
    *after = range_of(&r->text[FIRST]);
    *before = split_at(after, U1);
    return before->data ? PC_OK
                        : not_known(r, "a message is not in what it makes, or more than once");
}

/* The texts between turns give the pieces that close one and open the next. */
static pc_status read_turns(template_reading *r, text_range before, text_range after)
{
    pc_status status = render(r, &r->text[TURNS], &conversation[1], 3, 1);
    text_range rest, first, answer, next, closing, open;
    size_t n;
    if (status != PC_OK
        || (status = render(r, &r->text[ANSWERED], &conversation[1], 2, 0)) != PC_OK)
        return status;
    rest = range_of(&r->text[TURNS]);
    first = split_at(&rest, U1);
    answer = split_at(&rest, A1);
    next = split_at(&rest, U2);
    closing = range_of(&r->text[ANSWERED]);
    if (!first.data || !answer.data || !next.data || !split_at(&closing, A1).data
        || !ranges_equal(first, before) || !ranges_equal(rest, after))
        return not_known(r, "a turn is not the same at every place");
    open = begins_with(next, closing) ? after_first(next, closing.size) : (text_range){NULL, 0};
    if (!open.data || !open.size || !ends_with(before, open)) {
        n = common_end(next, before);
        open = after_first(next, next.size - n);
    }
    n = begins_with(answer, after) ? after.size : common_beginning(answer, after);
    PC__TRY_RETURN(set_piece(r, EMPTY, without_end(before, open.size)));
    PC__TRY_RETURN(set_piece(r, OPEN, open));
    PC__TRY_RETURN(set_piece(r, CLOSE, (text_range){after.data, n}));
    PC__TRY_RETURN(set_piece(r, GENERATION, after_first(after, n)));
    PC__TRY_RETURN(set_piece(r, ANSWER_OPEN, after_first(answer, n)));
    return set_piece(r, ANSWER_CLOSE, without_end(next, open.size));
}

static pc_status read_system(template_reading *r, text_range after)
{
    pc_status status = render(r, &r->text[WITH_SYSTEM], conversation, 2, 1);
    text_range rest = range_of(&r->text[WITH_SYSTEM]), open, close,
               user = range_of(&r->piece[OPEN]);
    if (status == PC_MISS)
        return no_system(r);
    if (status < 0)
        return status;
    open = split_at(&rest, S);
    if (!open.data) {
        not_known(r, "it leaves the system prompt out, or writes it twice");
        return no_system(r);
    }
    close = split_at(&rest, U1);
    if (!close.data || !ranges_equal(rest, after))
        return not_known(r, "a system prompt changes the text after it");
    r->joins = !ends_with(close, user);
    PC__TRY_RETURN(set_piece(r, SYSTEM_OPEN, open));
    return set_piece(r, SYSTEM_CLOSE, r->joins ? close : without_end(close, user.size));
}

/* ------------------------------------------------------------------ checking */

static pc_status add_piece(const template_reading *r, pc__bytes *out, int piece)
{
    return pc__bytes_add(out, r->piece[piece].data, r->piece[piece].size);
}

static pc_status add_word(pc__bytes *out, const char *word)
{
    return pc__bytes_add(out, word, strlen(word));
}

/* Composes the conversation from message `from` on. `late_system`: the system prompt stands in the
 * last user turn. */
static pc_status compose(const template_reading *r, pc__bytes *out, size_t from, int late_system)
{
    const size_t last = sizeof conversation / sizeof *conversation - 1;
    int joined = 0;
    out->size = 0;
    if (from || late_system)
        PC__TRY_RETURN(add_piece(r, out, EMPTY));
    for (size_t i = from + (size_t)late_system; i <= last; i++) {
        const char *role = conversation[i].role;
        int system = *role == 's', user = *role == 'u';
        int begin = system ? SYSTEM_OPEN : user ? OPEN : ANSWER_OPEN;
        int end = system ? SYSTEM_CLOSE : user ? CLOSE : ANSWER_CLOSE;
        if (!joined)
            PC__TRY_RETURN(add_piece(r, out, begin));
        if (late_system && i == last) {
            PC__TRY_RETURN(add_word(out, S));
            PC__TRY_RETURN(add_piece(r, out, SYSTEM_CLOSE));
        }
        PC__TRY_RETURN(add_word(out, conversation[i].content));
        PC__TRY_RETURN(add_piece(r, out, end));
        joined = system && r->joins;
    }
    return add_piece(r, out, GENERATION);
}

/* Whether the system prompt is just text before a user's: then it may stand before any of them. */
static int is_movable(const template_reading *r)
{
    text_range open = range_of(&r->piece[SYSTEM_OPEN]), empty = range_of(&r->piece[EMPTY]),
               user = range_of(&r->piece[OPEN]);
    return r->joins && begins_with(open, empty)
           && ranges_equal(after_first(open, empty.size), user);
}

static pc_status check_conversation(template_reading *r, size_t from)
{
    pc__bytes want = {.mem = r->mem}, got = {.mem = r->mem};
    pc_status status = render(r, &want, conversation + from,
                              sizeof conversation / sizeof *conversation - from, 1);
    int equal = 0;
    if (status == PC_OK && (status = compose(r, &got, from, 0)) >= 0)
        equal = ranges_equal(range_of(&want), range_of(&got));
    if (status == PC_OK && !equal && !from && is_movable(r)
        && (status = compose(r, &got, from, 1)) >= 0)
        equal = ranges_equal(range_of(&want), range_of(&got));
    pc__bytes_free(&want);
    pc__bytes_free(&got);
    return status != PC_OK ? status
           : equal         ? PC_OK
                           : not_known(r, "a longer conversation is not made of the same pieces");
}

static pc_status read_pieces(template_reading *r)
{
    text_range before, after;
    pc_status status = read_beginning(r, &before, &after);
    if (status == PC_OK)
        status = read_turns(r, before, after);
    if (status == PC_OK)
        status = read_system(r, after);
    if (status == PC_OK && !r->no_system)
        status = check_conversation(r, 0);
    return status == PC_OK ? check_conversation(r, 1) : status;
}

/* ------------------------------------------------------------------ the template */

/* An answer ends with the special token that closes it; without one, with the closing text. */
static pc_status find_stops(const template_reading *r, pc__chat_template *form, char **stop)
{
    const char *p = form->pieces.assistant_close;
    size_t n = 0;
    pc_status status = PC_OK;
    while (pc__is_blank(*p))
        p++;
    if (*p == '<' || *p == '[')
        n = strcspn(p, *p == '<' ? ">" : "]") + 1;
    if (n && n <= strlen(p) && pc__token_find(r->tokenizer, p, n) >= 0) {
        *stop = pc__strndup(r->mem, p, n);
        form->stop_tokens[0] = *stop;
        return *stop ? PC_OK : PC_ERR_NOMEM;
    }
    pc__bytes text = {.mem = r->mem};
    status = pc__bytes_add(&text, form->pieces.assistant_close,
                           strlen(form->pieces.assistant_close));
    if (status >= 0)
        status = pc__bytes_add(&text, form->pieces.user_open, strlen(form->pieces.user_open));
    while (status >= 0 && text.size && pc__is_blank(text.data[text.size - 1]))
        text.data[--text.size] = 0;
    *stop = text.data;
    if (status >= 0 && text.size)
        form->stop_strings[0] = *stop;
    return status;
}

static int is_family(const pc__chat_template *form, const pc__chat_template *family)
{
    const char *mine[PC__CHAT_PIECES], *theirs[PC__CHAT_PIECES];
    memcpy(mine, &form->pieces, sizeof mine);
    memcpy(theirs, &family->pieces, sizeof theirs);
    for (size_t i = 0; i < PC__CHAT_PIECES; i++)
        if (strcmp(mine[i], theirs[i]))
            return 0;
    return form->system_joins_user == family->system_joins_user;
}

/* A known family brings its own stop tokens and strings. */
static pc_status make_template(template_reading *r, pc__chat **out)
{
    pc__chat_template form = {.name = "own", .system_joins_user = r->joins};
    const char *pieces[PC__CHAT_PIECES];
    char *stop = NULL;
    pc_status status;
    for (size_t i = 0; i < PC__CHAT_PIECES; i++)
        pieces[i] = r->piece[i].data ? r->piece[i].data : "";
    memcpy(&form.pieces, pieces, sizeof pieces);
    for (size_t i = 1; i < pc__chat_family_count; i++)
        if (is_family(&form, &pc__chat_families[i]))
            return pc__chat_new(out, r->mem, r->tokenizer, &pc__chat_families[i]);
    status = find_stops(r, &form, &stop);
    if (status >= 0)
        status = pc__chat_new(out, r->mem, r->tokenizer, &form);
    pc__free(r->mem, stop);
    if (status >= 0 && r->no_system) {
        char text[256];
        snprintf(text, sizeof text, "the model's own chat template takes no system prompt: %s",
                 r->why);
        if (!((*out)->no_system = pc__strdup(r->mem, text)))
            status = PC_ERR_NOMEM;
    }
    return status;
}

static pc_status token_text(const template_reading *r, int32_t token, char **out)
{
    pc__text text = pc__token_bytes(r->tokenizer, token);
    *out = NULL;
    if (token < 0)
        return PC_OK;
    *out = pc__strndup(r->mem, text.data, text.size);
    return *out ? PC_OK : PC_ERR_NOMEM;
}

pc_status pc__chat_from_jinja(pc__chat **out, const pc_allocator *mem,
                              const pc__tokenizer *tokenizer, const char *jinja, char *why,
                              size_t size)
{
    template_reading r = {
        .mem = mem, .tokenizer = tokenizer, .jinja = jinja, .why = why, .why_size = size};
    pc_status status;
    *out = NULL;
    for (size_t i = 0; i < PC__CHAT_PIECES; i++)
        r.piece[i].mem = mem;
    for (size_t i = 0; i < sizeof r.text / sizeof *r.text; i++)
        r.text[i].mem = mem;
    PC__TRY(token_text(&r, pc__token_bos(tokenizer), &r.bos), done);
    PC__TRY(token_text(&r, pc__token_eos(tokenizer), &r.eos), done);
    status = read_pieces(&r);
    if (status == PC_OK)
        status = make_template(&r, out);
done:
    if (status < 0) {
        pc__chat_free(*out, mem);
        *out = NULL;
    }
    for (size_t i = 0; i < PC__CHAT_PIECES; i++)
        pc__bytes_free(&r.piece[i]);
    for (size_t i = 0; i < sizeof r.text / sizeof *r.text; i++)
        pc__bytes_free(&r.text[i]);
    pc__free(mem, r.bos);
    pc__free(mem, r.eos);
    return status;
}
