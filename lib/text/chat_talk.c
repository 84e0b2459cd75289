/* Conversations as the pieces of a chat template make them, and whether the model's own template
 * makes the same of them.
 *
 * The pieces come from test conversations (chat_jinja.c). A template may look into messages, e.g.
 * for "</think>", at the order of roles, or at the number of messages, and then make something
 * else. So it is run over every conversation, which is refused if it differs. */
#include <stdio.h>
#include <string.h>

#include "text/chat.h"
#include "text/utf8.h"

#define MARK "uSer1words"
#define SYSTEM_MARK "sYstem1words"

typedef struct composition {
    const pc__chat *chat;
    pc__bytes *out;
    size_t mark, reached; /* the message that byte `mark` belongs to */
} composition;

static pc_status add_message(composition *c, const pc__jinja_message *m, int joined, int late)
{
    const pc__chat_pieces *p = &c->chat->pieces;
    int system = !strcmp(m->role, "system"), user = !strcmp(m->role, "user");
    const char *open = system ? p->system_open
                       : user ? p->user_open
                              : p->assistant_open,
               *close = system ? p->system_close
                        : user ? p->user_close
                               : p->assistant_close;
    if (!joined || !user)
        PC__TRY_RETURN(pc__bytes_add_text(c->out, open));
    if (late)
        return PC_OK;
    PC__TRY_RETURN(pc__bytes_add_text(c->out, m->content));
    return pc__bytes_add_text(c->out, close);
}

/* `late`: the system prompt stands in the last user turn. */
static pc_status compose(composition *c, const pc__jinja_message *messages, size_t count, int late)
{
    const pc__chat_pieces *p = &c->chat->pieces;
    int system = count && !strcmp(messages[0].role, "system"), joined = 0;
    c->out->size = 0;
    PC__TRY_RETURN(pc__bytes_add_text(c->out, system && !late ? "" : p->system_empty));
    for (size_t i = late != 0; i < count; i++) {
        if (c->out->size <= c->mark)
            c->reached = i;
        if (late && i + 1 == count) {
            PC__TRY_RETURN(add_message(c, &messages[i], 0, 1));
            PC__TRY_RETURN(pc__bytes_add_text(c->out, messages[0].content));
            PC__TRY_RETURN(pc__bytes_add_text(c->out, p->system_close));
        }
        PC__TRY_RETURN(add_message(c, &messages[i], joined || (late && i + 1 == count), 0));
        joined = !i && system && c->chat->system_joins_user;
        /* as chat tags do: no answer follows */
        if (!strcmp(messages[i].role, "user")
            && (i + 1 == count || strcmp(messages[i + 1].role, "assistant")))
            PC__TRY_RETURN(pc__bytes_add_text(c->out, p->generation));
    }
    return PC_OK;
}

/* Whether the system prompt is just text before a user's: then it may stand before any of them. */
static int is_movable(const pc__chat *chat)
{
    const pc__chat_pieces *p = &chat->pieces;
    size_t n = strlen(p->system_empty);
    return chat->system_joins_user && !strncmp(p->system_open, p->system_empty, n)
           && !strcmp(p->system_open + n, p->user_open);
}

static size_t common_size(const pc__bytes *a, const pc__bytes *b)
{
    size_t n = 0;
    while (n < a->size && n < b->size && a->data[n] == b->data[n])
        n++;
    return n;
}

/* `want`: what the template makes of it. PC_MISS: the pieces make something else, from message
 * *from on. */
static pc_status compare(const pc__chat *chat, const pc__bytes *want,
                         const pc__jinja_message *messages, size_t count, size_t *from)
{
    pc__bytes got = {.mem = want->mem};
    composition c = {.chat = chat, .out = &got};
    size_t same = 0;
    pc_status status = compose(&c, messages, count, 0);
    if (status >= 0 && (same = common_size(want, &got)) == want->size && same == got.size)
        goto done;
    c.mark = same;
    if (status >= 0 && count > 1 && !strcmp(messages[0].role, "system") && is_movable(chat)) {
        status = compose(&c, messages, count, 1);
        if (status >= 0 && common_size(want, &got) == want->size && want->size == got.size)
            goto done;
    }
    if (status >= 0)
        status = compose(&c, messages, count, 0);
    *from = c.reached;
    status = status < 0 ? status : PC_MISS;
done:
    pc__bytes_free(&got);
    return status;
}

pc_status pc__chat_compare(const pc__chat *chat, pc__jinja *jinja, const pc_allocator *mem,
                           const pc__jinja_message *messages, size_t count,
                           const pc__jinja_message *composed, size_t *from)
{
    const pc__jinja_input input = {messages, count, chat->bos, chat->eos, 1, chat->read_at};
    pc__bytes want = {.mem = mem};
    pc_status status = pc__jinja_run(jinja, &want, &input);
    *from = 0;
    if (status >= 0)
        status = pc__bytes_add(&want, "", 0);
    if (status >= 0)
        status = compare(chat, &want, composed ? composed : messages, count, from);
    pc__bytes_free(&want);
    return status;
}

static pc_status refuse(const pc__jinja_message *messages, size_t from)
{
    char why[160];
    snprintf(why, sizeof why,
             "it makes something else than of other conversations (from message "
             "%zu, %.20s, on)",
             from + 1, messages[from].role);
    return pc__fail(PC_ERR_UNSUPPORTED,
                    "the model's own chat template looks into messages, at their order or their "
                    "number, and %s; "
                    "write the text without chat tags, or name a template (--chat-template, "
                    "pc_model_options.chat_template)",
                    why);
}

/* `composed`: the same messages with other contents; NULL: these. */
static pc_status check_talk(const pc__chat *chat, const pc_allocator *mem,
                            const pc__jinja_message *messages, size_t count,
                            const pc__jinja_message *composed)
{
    pc__jinja *jinja;
    size_t from;
    pc_status status = pc__jinja_new(&jinja, mem, chat->jinja);
    if (status >= 0)
        status = pc__chat_compare(chat, jinja, mem, messages, count, composed, &from);
    pc__jinja_free(jinja);
    if (status == PC_MISS)
        return refuse(messages, from);
    if (status < 0 && status != PC_ERR_NOMEM)
        return pc__fail_in(PC_ERR_UNSUPPORTED,
                           "the model's own chat template fails for this conversation");
    return status;
}

pc_status pc__chat_check_talk(const pc__chat *chat, const pc_allocator *mem,
                              const pc__jinja_message *messages, size_t count)
{
    return chat->jinja && count ? check_talk(chat, mem, messages, count, NULL) : PC_OK;
}

/* Behind an answer, with a system prompt in front and without. */
static pc_status check_turn(const pc__chat *chat, const pc_allocator *mem, const char *answer,
                            const char *text, const char *composed)
{
    const pc__jinja_message given[] = {
        {"system", SYSTEM_MARK}, {"user", MARK}, {"assistant", answer}, {"user", text}};
    pc__jinja_message made[4];
    memcpy(made, given, sizeof made);
    made[3].content = composed;
    PC__TRY_RETURN(check_talk(chat, mem, given + 1, 3, made + 1));
    return chat->no_system ? PC_OK : check_talk(chat, mem, given, 4, made);
}

pc_status pc__chat_check_turn(const pc__chat *chat, const pc_allocator *mem, pc__text answer,
                              pc__text *text)
{
    pc__text stripped = pc__text_strip(*text);
    char *before, *given, *made;
    pc_status status = PC_ERR_NOMEM;
    if (!chat->jinja || (chat->is_fixed && !chat->counts))
        return PC_OK;
    if (chat->counts)
        return pc__fail(PC_ERR_UNSUPPORTED,
                        "the model's own chat template may count turns, and a sequence does not "
                        "know how many there were: make a prompt of the whole conversation");
    if (text->size && memchr(text->data, 0, text->size))
        return pc__fail(PC_ERR_UNSUPPORTED, "the text has a byte 0");
    answer = pc__text_strip(answer);
    before = pc__strndup(mem, answer.size ? answer.data : "", answer.size);
    given = pc__strndup(mem, text->size ? text->data : "", text->size);
    made = pc__strndup(mem, stripped.size ? stripped.data : "", stripped.size);
    if (before && given && made) {
        status = check_turn(chat, mem, before, given, given);
        if (status == PC_ERR_UNSUPPORTED && stripped.size < text->size
            && (status = check_turn(chat, mem, before, given, made)) >= 0)
            *text = stripped;
    }
    pc__free(mem, before);
    pc__free(mem, given);
    pc__free(mem, made);
    return status;
}
