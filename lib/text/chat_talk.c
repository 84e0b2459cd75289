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

typedef struct composition {
    const pc__chat *chat;
    pc__bytes *out, *origins; /* the latter may be NULL */
    const pc__jinja_more *more;
    size_t mark, reached; /* the message that byte `mark` belongs to */
} composition;

static pc_status add(composition *c, const char *text, size_t size, char origin)
{
    PC__TRY_RETURN(pc__bytes_add(c->out, text, size));
    for (size_t i = 0; c->origins && i < size; i++)
        PC__TRY_RETURN(pc__bytes_add(c->origins, &origin, 1));
    return PC_OK;
}

static pc_status add_piece(composition *c, const char *piece)
{
    return add(c, piece, strlen(piece), PC__ORIGIN_TEMPLATE);
}

static pc_status add_content(composition *c, const pc__jinja_message *messages, size_t i)
{
    const char *text = messages[i].content;
    size_t marked = c->more ? c->more[i].marked : 0;
    size_t size = c->more ? c->more[i].size : strlen(text);
    PC__TRY_RETURN(add(c, text, marked, PC__ORIGIN_MARKED));
    return add(c, text + marked, size - marked, PC__ORIGIN_CONTENT);
}

static pc_status add_message(composition *c, const pc__jinja_message *messages, size_t i,
                             int joined, int late)
{
    const pc__chat_pieces *p = &c->chat->pieces;
    int system = !strcmp(messages[i].role, "system"), user = !strcmp(messages[i].role, "user");
    const char *open = system ? p->system_open
                       : user ? p->user_open
                              : p->assistant_open,
               *close = system ? p->system_close
                        : user ? p->user_close
                               : p->assistant_close;
    if (!joined || !user)
        PC__TRY_RETURN(add_piece(c, open));
    if (late)
        return PC_OK;
    PC__TRY_RETURN(add_content(c, messages, i));
    return add_piece(c, close);
}

/* `late`: the system prompt stands in the last user turn. */
static pc_status compose(composition *c, const pc__jinja_message *messages, size_t count, int late)
{
    const pc__chat_pieces *p = &c->chat->pieces;
    int system = count && !strcmp(messages[0].role, "system"), joined = 0;
    c->out->size = 0;
    PC__TRY_RETURN(add_piece(c, system && !late ? "" : p->system_empty));
    for (size_t i = late != 0; i < count; i++) {
        if (c->out->size <= c->mark)
            c->reached = i;
        if (late && i + 1 == count) {
            PC__TRY_RETURN(add_message(c, messages, i, 0, 1));
            PC__TRY_RETURN(add_content(c, messages, 0));
            PC__TRY_RETURN(add_piece(c, p->system_close));
        }
        PC__TRY_RETURN(add_message(c, messages, i, joined || (late && i + 1 == count), 0));
        joined = !i && system && c->chat->system_joins_user;
        /* as chat tags do: no answer follows */
        if (!strcmp(messages[i].role, "user")
            && (i + 1 == count || strcmp(messages[i + 1].role, "assistant")))
            PC__TRY_RETURN(add_piece(c, p->generation));
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
                         const pc__jinja_message *messages, const pc__jinja_more *more,
                         size_t count, size_t *from)
{
    pc__bytes got = {.mem = want->mem};
    composition c = {.chat = chat, .out = &got, .more = more};
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
                           const pc__jinja_message *messages, const pc__jinja_more *more,
                           size_t count, size_t *from)
{
    const pc__jinja_input input = {.messages = messages,
                                   .count = count,
                                   .more = more,
                                   .bos = chat->bos,
                                   .eos = chat->eos,
                                   .generate = 1,
                                   .now = chat->read_at};
    pc__bytes want = {.mem = mem};
    pc_status status = pc__jinja_run(jinja, &want, &input);
    *from = 0;
    if (status >= 0)
        status = pc__bytes_add(&want, "", 0);
    if (status >= 0)
        status = compare(chat, &want, messages, more, count, from);
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
                    "number, and %s; make the prompt of messages (pc_prompt_from_messages), "
                    "write the text without chat tags, or name a template (--chat-template, "
                    "pc_model_options.chat_template)",
                    why);
}

static pc_status template_failed(pc_status status)
{
    return status == PC_ERR_NOMEM
               ? status
               : pc__fail_in(PC_ERR_UNSUPPORTED,
                             "the model's own chat template fails for this conversation");
}

pc_status pc__chat_check_talk(const pc__chat *chat, const pc_allocator *mem,
                              const pc__jinja_message *messages, const pc__jinja_more *more,
                              size_t count)
{
    pc__jinja *jinja;
    size_t from;
    if (!chat->jinja || !count)
        return PC_OK;
    pc_status status = pc__jinja_new(&jinja, mem, chat->jinja);
    if (status >= 0)
        status = pc__chat_compare(chat, jinja, mem, messages, more, count, &from);
    pc__jinja_free(jinja);
    if (status == PC_MISS)
        return refuse(messages, from);
    return status < 0 ? template_failed(status) : PC_OK;
}

/* ------------------------------------------------------------------ whole conversations */

static pc_status run_template(const pc__chat *chat, const pc_allocator *mem,
                              const pc__jinja_input *talk, pc__bytes *out)
{
    pc__jinja_input input = *talk;
    pc__jinja *jinja;
    input.bos = chat->bos;
    input.eos = chat->eos;
    if (!input.dated)
        input.now = chat->read_at;
    pc_status status = pc__jinja_new(&jinja, mem, chat->jinja);
    if (status >= 0)
        status = pc__jinja_run(jinja, out, &input);
    pc__jinja_free(jinja);
    return status < 0 ? template_failed(status) : status;
}

/* Pieces know system, user and assistant, in a conversation that ends with a user's message. */
static pc_status check_pieces(const pc__chat *chat, const pc__jinja_input *talk)
{
    const char *what = talk->tools       ? "tools"
                       : talk->variables ? "further variables"
                       : talk->dated     ? "a date"
                                         : NULL;
    for (size_t i = 0; i < talk->count && !what; i++) {
        const char *role = talk->messages[i].role;
        if (talk->more && (talk->more[i].fields || talk->more[i].no_content))
            what = "further members of a message";
        else if (!pc__is_listed("system user assistant", role))
            what = "a role besides system, user and assistant";
        else if (!strcmp(role, "system") && i)
            what = "a system prompt behind other messages";
        else
            PC__TRY_RETURN(pc__chat_check_role(chat, role));
    }
    int user = talk->count && !strcmp(talk->messages[talk->count - 1].role, "user");
    if (!what && user != talk->generate)
        what = user ? "a user's message at the end without an answer"
                    : "an answer to what is no user's message";
    if (!what)
        return PC_OK;
    return pc__fail(PC_ERR_UNSUPPORTED,
                    "chat template '%s' has no form for %s; give the model's own as Jinja text "
                    "(--chat-template, pc_model_options.chat_template)",
                    chat->name, what);
}

pc_status pc__chat_render(const pc__chat *chat, const pc_allocator *mem,
                          const pc__jinja_input *talk, pc__bytes *out)
{
    composition c = {.chat = chat, .out = out, .origins = talk->origins, .more = talk->more};
    out->size = 0;
    talk->origins->size = 0;
    if (chat->jinja)
        return run_template(chat, mem, talk, out);
    if (chat->unknown)
        return pc__chat_check_role(chat, "user");
    PC__TRY_RETURN(check_pieces(chat, talk));
    return compose(&c, talk->messages, talk->count, 0);
}
