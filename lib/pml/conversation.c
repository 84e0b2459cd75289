/* Collects the texts of a prompt's turns in their order, and asks the chat template. */
#include "pml/conversation.h"

#include <stdlib.h>
#include <string.h>

/* Stands for a user's turn that is still to come. */
#define TO_COME "uSer1words"

int pc__conversation_matters(const pc__pml_env *env)
{
    return env->chat && env->chat->jinja;
}

pc_status pc__conversation_note(pc__conversation *c, int64_t start, int rank, pc__turn turn,
                                const char *text, size_t size)
{
    const pc_allocator *mem = c->env->mem;
    char *copy;
    if (!pc__conversation_matters(c->env) || !size)
        return PC_OK;
    PC__TRY_RETURN(pc__grow(mem, (void **)&c->said, &c->capacity, c->count + 1, sizeof *c->said));
    if (!(copy = pc__strndup(mem, text, size)))
        return PC_ERR_NOMEM;
    c->said[c->count] = (pc__said){start, rank, c->count, turn, copy, size};
    c->count++;
    return PC_OK;
}

pc_status pc__conversation_note_pieces(pc__conversation *c, int64_t start, int rank,
                                       const pc__piece *pieces, size_t count, const char *text)
{
    size_t from = 0;
    for (size_t i = 0; i < count; i++) {
        if (pieces[i].kind != PC__PIECE_TEMPLATE)
            PC__TRY_RETURN(pc__conversation_note(c, start, rank, pieces[i].turn, text + from,
                                                 pieces[i].end - from));
        from = pieces[i].end;
    }
    return PC_OK;
}

static int compare_said(const void *a, const void *b)
{
    const pc__said *x = a, *y = b;
    if (x->start != y->start)
        return x->start < y->start ? -1 : 1;
    if (x->rank != y->rank)
        return x->rank - y->rank;
    return x->order < y->order ? -1 : 1;
}

/* The texts of one turn, from `from` on, without the blanks at their ends. *end: behind them. */
static pc_status join_turn(const pc__conversation *c, size_t from, size_t *end, pc__bytes *out)
{
    size_t last = from;
    for (size_t i = from; i < c->count; i++)
        if (c->said[i].turn.number == c->said[from].turn.number)
            last = i;
        else if (c->said[i].turn.role)
            break;
    for (size_t i = from; i <= last; i++)
        PC__TRY_RETURN(pc__bytes_add(out, c->said[i].text, c->said[i].size));
    pc__text text = pc__text_strip((pc__text){out->data, out->size});
    memmove(out->data, text.data, text.size);
    out->size = text.size;
    out->data[out->size] = 0;
    *end = last + 1;
    return PC_OK;
}

static const char *role_name(char role)
{
    return role == 's' ? "system" : role == 'u' ? "user" : "assistant";
}

static pc_status ask(const pc__conversation *c, pc__jinja_message *messages, pc__jinja_more *more,
                     pc__bytes *texts)
{
    size_t count = 0, end;
    for (size_t i = 0; i < c->count; i = end) {
        end = i + 1;
        if (!c->said[i].turn.role)
            continue;
        texts[count].mem = c->env->mem;
        PC__TRY_RETURN(join_turn(c, i, &end, &texts[count]));
        messages[count] = (pc__jinja_message){role_name(c->said[i].turn.role), texts[count].data};
        more[count].size = texts[count].size;
        count++;
    }
    if (count && strcmp(messages[count - 1].role, "user"))
        messages[count] = (pc__jinja_message){"user", TO_COME};
    if (count && messages[count].role)
        more[count++].size = strlen(TO_COME);
    pc_status status = pc__chat_check_talk(c->env->chat, c->env->mem, messages, more, count);
    return status < 0 ? pc__fail_in(status, "%s", c->env->where) : status;
}

pc_status pc__conversation_check(pc__conversation *c)
{
    const pc_allocator *mem = c->env->mem;
    pc__jinja_message *messages;
    pc__jinja_more *more;
    pc__bytes *texts;
    pc_status status = PC_ERR_NOMEM;
    if (!c->count)
        return PC_OK;
    qsort(c->said, c->count, sizeof *c->said, compare_said);
    messages = pc__calloc(mem, c->count + 1, sizeof *messages);
    more = pc__calloc(mem, c->count + 1, sizeof *more);
    texts = pc__calloc(mem, c->count, sizeof *texts);
    if (messages && more && texts)
        status = ask(c, messages, more, texts);
    for (size_t i = 0; texts && i < c->count; i++)
        if (texts[i].data)
            pc__bytes_free(&texts[i]);
    pc__free(mem, messages);
    pc__free(mem, more);
    pc__free(mem, texts);
    return status;
}

void pc__conversation_free(pc__conversation *c)
{
    for (size_t i = 0; i < c->count; i++)
        pc__free(c->env->mem, c->said[i].text);
    pc__free(c->env->mem, c->said);
}
