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
#include <time.h>

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

typedef struct template_reading {
    const pc_allocator *mem;
    const pc__tokenizer *tokenizer;
    pc__jinja *jinja;
    char *bos, *eos;
    int64_t read_at;
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
static pc_status failed(template_reading *r, pc_status status)
{
    return status == PC_ERR_NOMEM ? status : not_known(r, pc_error_text());
}

static pc_status render(template_reading *r, pc__bytes *out, const pc__jinja_message *messages,
                        size_t count, int generate)
{
    const pc__jinja_input input = {.messages = messages,
                                   .count = count,
                                   .bos = r->bos,
                                   .eos = r->eos,
                                   .generate = generate,
                                   .now = r->read_at};
    out->size = 0;
    pc_status status = pc__jinja_run(r->jinja, out, &input);
    if (status >= 0)
        status = pc__bytes_add(out, "", 0);
    return status >= 0 ? status : failed(r, status);
}

/* ------------------------------------------------------------------ splitting */

static pc__text range_of(const pc__bytes *b)
{
    return (pc__text){b->data ? b->data : "", b->size};
}

/* Splits `rest` at the word: returns the text before it and keeps the text after it. data NULL: the
 * word does not occur exactly once. */
static pc__text split_at(pc__text *rest, const char *word)
{
    size_t n = strlen(word);
    const char *at = memmem(rest->data, rest->size, word, n);
    pc__text before = {rest->data, at ? (size_t)(at - rest->data) : 0};
    if (!at)
        return (pc__text){NULL, 0};
    *rest = (pc__text){at + n, rest->size - before.size - n};
    return memmem(rest->data, rest->size, word, n) ? (pc__text){NULL, 0} : before;
}

static pc__text without_end(pc__text text, size_t size)
{
    return (pc__text){text.data, text.size - size};
}

static pc__text after_first(pc__text text, size_t size)
{
    return (pc__text){text.data + size, text.size - size};
}

/* Whether `at` is inside a special token, written <...> or [...]. */
static int inside_token(pc__text text, size_t at)
{
    for (size_t i = at; i--;) {
        if (text.data[i] == '>' || text.data[i] == ']' || text.data[i] == '\n')
            return 0;
        if (text.data[i] == '<' || text.data[i] == '[')
            return 1;
    }
    return 0;
}

static size_t common_beginning(pc__text a, pc__text b)
{
    size_t n = 0;
    while (n < a.size && n < b.size && a.data[n] == b.data[n])
        n++;
    while (n && (inside_token(a, n) || inside_token(b, n)))
        n--;
    return n;
}

static size_t common_end(pc__text a, pc__text b)
{
    size_t n = 0;
    while (n < a.size && n < b.size && a.data[a.size - 1 - n] == b.data[b.size - 1 - n])
        n++;
    while (n && (inside_token(a, a.size - n) || inside_token(b, b.size - n)))
        n--;
    return n;
}

static pc_status set_piece(template_reading *r, int piece, pc__text text)
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
static pc_status read_beginning(template_reading *r, pc__text *before, pc__text *after)
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
static pc_status read_turns(template_reading *r, pc__text before, pc__text after)
{
    pc_status status = render(r, &r->text[TURNS], &conversation[1], 3, 1);
    size_t n;
    if (status != PC_OK
        || (status = render(r, &r->text[ANSWERED], &conversation[1], 2, 0)) != PC_OK)
        return status;
    pc__text rest = range_of(&r->text[TURNS]);
    pc__text first = split_at(&rest, U1);
    pc__text answer = split_at(&rest, A1);
    pc__text next = split_at(&rest, U2);
    pc__text closing = range_of(&r->text[ANSWERED]);
    if (!first.data || !answer.data || !next.data || !split_at(&closing, A1).data
        || !pc__text_equals(first, before) || !pc__text_equals(rest, after))
        return not_known(r, "a turn is not the same at every place");
    pc__text open = pc__text_begins(next, closing) ? after_first(next, closing.size)
                                                   : (pc__text){NULL, 0};
    if (!open.data || !open.size || !pc__text_ends(before, open)) {
        n = common_end(next, before);
        open = after_first(next, next.size - n);
    }
    n = pc__text_begins(answer, after) ? after.size : common_beginning(answer, after);
    PC__TRY_RETURN(set_piece(r, EMPTY, without_end(before, open.size)));
    PC__TRY_RETURN(set_piece(r, OPEN, open));
    PC__TRY_RETURN(set_piece(r, CLOSE, (pc__text){after.data, n}));
    PC__TRY_RETURN(set_piece(r, GENERATION, after_first(after, n)));
    PC__TRY_RETURN(set_piece(r, ANSWER_OPEN, after_first(answer, n)));
    return set_piece(r, ANSWER_CLOSE, without_end(next, open.size));
}

static pc_status read_system(template_reading *r, pc__text after)
{
    pc_status status = render(r, &r->text[WITH_SYSTEM], conversation, 2, 1);
    pc__text rest = range_of(&r->text[WITH_SYSTEM]), open, close, user = range_of(&r->piece[OPEN]);
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
    if (!close.data || !pc__text_equals(rest, after))
        return not_known(r, "a system prompt changes the text after it");
    r->joins = !pc__text_ends(close, user);
    PC__TRY_RETURN(set_piece(r, SYSTEM_OPEN, open));
    return set_piece(r, SYSTEM_CLOSE, r->joins ? close : without_end(close, user.size));
}

/* ------------------------------------------------------------------ checking */

/* Whether the pieces make of the conversation from message `from` on what the text makes of it. */
static pc_status check_conversation(template_reading *r, const pc__chat *chat, size_t from)
{
    size_t where;
    pc_status status = pc__chat_compare(chat, r->jinja, r->mem, conversation + from, NULL,
                                        sizeof conversation / sizeof *conversation - from, &where);
    if (status == PC_MISS)
        return not_known(r, "a longer conversation is not made of the same pieces");
    return status < 0 ? failed(r, status) : PC_OK;
}

/* Conversations of every length up to `most` users' messages, with a system prompt and without. */
static pc_status check_lengths(template_reading *r, const pc__chat *chat,
                               const pc__jinja_message *talk, size_t most)
{
    pc_status status = PC_OK;
    size_t where;
    for (size_t users = 1; users <= most && status == PC_OK; users++) {
        status = pc__chat_compare(chat, r->jinja, r->mem, talk + 1, NULL, 2 * users - 1, &where);
        if (status == PC_OK && !r->no_system)
            status = pc__chat_compare(chat, r->jinja, r->mem, talk, NULL, 2 * users, &where);
    }
    return status;
}

/* A number of the text may be one of messages: conversations of more than that are tried. If it is
 * too large for that, or one of them differs, the form may depend on how many there are. */
static pc_status check_numbers(template_reading *r, pc__chat *chat)
{
    enum { LEAST = 3, LARGEST = 56, BEYOND = 3, MOST = 2 * (LARGEST / 2 + BEYOND) };
    char words[MOST][16];
    pc__jinja_message talk[MOST] = {{"system", S}};
    int64_t number = pc__jinja_largest_number(r->jinja);
    int64_t beyond = number < LEAST ? LEAST : number > LARGEST ? LARGEST : number;
    size_t most = (size_t)beyond / 2 + BEYOND;
    for (size_t i = 1; i < 2 * most; i++) {
        snprintf(words[i], sizeof words[i], "mEssage%zuwords", i);
        talk[i] = (pc__jinja_message){i % 2 ? "user" : "assistant", words[i]};
    }
    pc_status status = number > LARGEST ? PC_MISS : check_lengths(r, chat, talk, most);
    chat->counts = status != PC_OK;
    return status == PC_ERR_NOMEM ? status : PC_OK;
}

static pc_status read_pieces(template_reading *r)
{
    pc__text before, after;
    pc_status status = read_beginning(r, &before, &after);
    if (status == PC_OK)
        status = read_turns(r, before, after);
    return status == PC_OK ? read_system(r, after) : status;
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
    if (n && n <= strlen(p) && r->tokenizer && pc__token_find(r->tokenizer, p, n) >= 0) {
        *stop = pc__strndup(r->mem, p, n);
        form->stop_tokens[0] = *stop;
        return *stop ? PC_OK : PC_ERR_NOMEM;
    }
    pc__bytes text = {.mem = r->mem};
    status = pc__bytes_add_text(&text, form->pieces.assistant_close);
    if (status >= 0)
        status = pc__bytes_add_text(&text, form->pieces.user_open);
    while (status >= 0 && text.size && pc__is_blank(text.data[text.size - 1]))
        text.data[--text.size] = 0;
    *stop = text.data;
    if (status >= 0 && text.size)
        form->stop_strings[0] = *stop;
    return status;
}

static int is_family(const pc__chat_template *form, const pc__chat_template *family)
{
    for (size_t i = 0; i < PC__CHAT_PIECES; i++)
        if (strcmp(form->pieces.list[i], family->pieces.list[i]))
            return 0;
    return form->system_joins_user == family->system_joins_user;
}

/* A known family brings its own stop tokens and strings. */
static pc_status make_template(template_reading *r, pc__chat **out)
{
    pc__chat_template form = {.name = "own", .system_joins_user = r->joins};
    char *stop = NULL;
    for (size_t i = 0; i < PC__CHAT_PIECES; i++)
        form.pieces.list[i] = r->piece[i].data ? r->piece[i].data : "";
    for (size_t i = 1; i < pc__chat_family_count; i++)
        if (is_family(&form, &pc__chat_families[i]))
            return pc__chat_new(out, r->mem, r->tokenizer, &pc__chat_families[i]);
    pc_status status = find_stops(r, &form, &stop);
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

/* Keeps the text beside the pieces, and compares what both make of longer conversations. */
static pc_status check_template(template_reading *r, pc__chat *chat, const char *jinja)
{
    pc_status status = PC_OK;
    if (!(chat->jinja = pc__strdup(r->mem, jinja)))
        return PC_ERR_NOMEM;
    chat->bos = r->bos;
    chat->eos = r->eos;
    chat->read_at = r->read_at;
    r->bos = r->eos = NULL;
    if (!r->no_system)
        status = check_conversation(r, chat, 0);
    if (status == PC_OK)
        status = check_conversation(r, chat, 1);
    if (status == PC_OK)
        status = check_numbers(r, chat);
    return status;
}

static pc_status token_text(const pc_allocator *mem, const pc__tokenizer *tokenizer, int32_t token,
                            char **out)
{
    *out = NULL;
    if (token < 0)
        return PC_OK;
    pc__text text = pc__token_bytes(tokenizer, token);
    *out = pc__strndup(mem, text.data, text.size);
    return *out ? PC_OK : PC_ERR_NOMEM;
}

static pc_status copy_text(const pc_allocator *mem, const char *text, char **out)
{
    *out = text ? pc__strdup(mem, text) : NULL;
    return text && !*out ? PC_ERR_NOMEM : PC_OK;
}

/* NULL: the vocabulary has none. `ends`: of an application that tokenises; NULL: it has none. */
static pc_status end_texts(const pc_allocator *mem, const pc__tokenizer *tokenizer,
                           const pc__chat_ends *ends, char **bos, char **eos)
{
    if (!tokenizer && !ends)
        return PC_OK;
    if (!tokenizer) {
        PC__TRY_RETURN(copy_text(mem, ends->bos, bos));
        return copy_text(mem, ends->eos, eos);
    }
    PC__TRY_RETURN(token_text(mem, tokenizer, pc__tokenizer_ids(tokenizer).bos, bos));
    return token_text(mem, tokenizer, pc__tokenizer_ids(tokenizer).eos, eos);
}

pc_status pc__chat_keep_jinja(pc__chat *chat, const pc_allocator *mem,
                              const pc__tokenizer *tokenizer, const pc__chat_ends *ends,
                              const char *jinja)
{
    pc__jinja *read;
    pc_status status = pc__jinja_new(&read, mem, jinja);
    pc__jinja_free(read);
    if (status < 0)
        return status;
    if (!(chat->jinja = pc__strdup(mem, jinja)))
        return PC_ERR_NOMEM;
    chat->read_at = (int64_t)time(NULL);
    chat->counts = 1; /* nobody knows */
    return end_texts(mem, tokenizer, ends, &chat->bos, &chat->eos);
}

pc_status pc__chat_from_jinja(pc__chat **out, const pc_allocator *mem,
                              const pc__tokenizer *tokenizer, const pc__chat_ends *ends,
                              const char *jinja, char *why, size_t size)
{
    template_reading r = {.mem = mem,
                          .tokenizer = tokenizer,
                          .read_at = (int64_t)time(NULL),
                          .why = why,
                          .why_size = size};
    pc_status status;
    *out = NULL;
    for (size_t i = 0; i < PC__CHAT_PIECES; i++)
        r.piece[i].mem = mem;
    for (size_t i = 0; i < sizeof r.text / sizeof *r.text; i++)
        r.text[i].mem = mem;
    PC__TRY(end_texts(mem, tokenizer, ends, &r.bos, &r.eos), done);
    status = pc__jinja_new(&r.jinja, mem, jinja);
    status = status < 0 ? failed(&r, status) : read_pieces(&r);
    if (status == PC_OK)
        status = make_template(&r, out);
    if (status == PC_OK)
        status = check_template(&r, *out, jinja);
done:
    if (status != PC_OK) {
        pc__chat_free(*out, mem);
        *out = NULL;
    }
    for (size_t i = 0; i < PC__CHAT_PIECES; i++)
        pc__bytes_free(&r.piece[i]);
    for (size_t i = 0; i < sizeof r.text / sizeof *r.text; i++)
        pc__bytes_free(&r.text[i]);
    pc__jinja_free(r.jinja);
    pc__free(mem, r.bos);
    pc__free(mem, r.eos);
    return status;
}
