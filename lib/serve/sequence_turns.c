/* Tokens are pushed to a running sequence, or truncated. */
#include <promptcache/batch.h>
#include <string.h>

#include "base/clock.h"
#include "serve/messages.h"
#include "serve/model_calls.h"
#include "serve/sequence.h"

size_t pc__sequence_row_count(const pc_sequence *s)
{
    return s->pending + (s->again != 0);
}

size_t pc__sequence_rows(const pc_sequence *s, pc_step_row *rows)
{
    size_t n = 0;
    if (s->again)
        rows[n++] = (pc_step_row){s->placed.sequence, s->placed.own.last,
                                  s->placed.own.tokens[s->placed.own.count - 1], 0};
    for (size_t i = 0; i < s->pending; i++)
        rows[n++] = (pc_step_row){s->placed.sequence, s->placed.next_position + (int64_t)i,
                                  s->tokens[s->count - s->pending + i], 0};
    rows[n - 1].want_logits = 1;
    return n;
}

pc_status pc__sequence_check(pc_sequence *s, int placed, const char *call)
{
    PC__TRY_RETURN(pc__task_check(&s->task, call, "the sequence"));
    if (s->stepping) /* its states and its tokens may differ now */
        return pc__fail(PC_ERR_STATE, "%s: a step of the sequence is under way", call);
    if (s->error.status <= PC_ERR_DEAD)
        return pc__fail(PC_ERR_STATE, "%s: the sequence has ended for good: %s", call,
                        s->error.text);
    if (s->finish && !(s->generation.options.flags & PC_GENERATE_KEEP))
        return pc__fail(PC_ERR_STATE, "%s: the sequence has finished without PC_GENERATE_KEEP",
                        call);
    if (placed && !s->placed.sequence)
        return pc__fail(PC_ERR_STATE, "%s: the prompt of the sequence is not computed yet", call);
    if (s->excess)
        PC__TRY_RETURN(pc__call_truncate(s->model, s->placed.sequence, s->excess));
    s->excess = 0;
    return PC_OK;
}

/* A new turn: whatever has finished the one before. */
static void begin_turn(pc_sequence *s)
{
    s->finish = s->stats.finish = PC_FINISH_NONE;
    s->error = (pc__kept_error){.status = PC_OK};
    s->asked_cancel = 0;
    s->generation.started = pc__now();
    atomic_store_explicit(&s->cancel, 0, memory_order_relaxed);
}

static pc_status check_pushed(const pc_sequence *s, const char *call, const int32_t *tokens,
                              size_t count)
{
    int64_t limit = pc__sequence_limit(s), context = s->model->info.context_length;
    int64_t end = (s->placed.sequence ? s->placed.next_position : s->prompt->end)
                  + (int64_t)s->pending;
    if (limit - end >= 0 && count <= (uint64_t)(limit - end))
        return pc__check_tokens(s->model, call, tokens, count);
    if (limit == context)
        return pc__fail(PC_ERR_LIMIT,
                        "%s: %zu tokens behind position %lld, the model's context is %lld", call,
                        count, (long long)end, (long long)limit);
    return pc__fail(PC_ERR_LIMIT,
                    "%s: %zu tokens behind position %lld, but the RoPE regime for a length of %llu "
                    "ends at %lld: set pc_generate_options.rope_regime_length",
                    call, count, (long long)end, (unsigned long long)s->regime.decided,
                    (long long)limit);
}

static pc_status push_tokens(pc_sequence *s, const char *call, const int32_t *tokens, size_t count)
{
    PC__TRY_RETURN(pc__sequence_check(s, 0, call));
    PC__TRY_RETURN(check_pushed(s, call, tokens, count));
    PC__TRY_RETURN(
        pc__grow(s->mem, (void **)&s->tokens, &s->capacity, s->count + count, sizeof *s->tokens));
    PC__TRY_RETURN(pc__sampler_reserve(&s->sampler, count));
    int over = s->finish == PC_FINISH_STOP_TOKEN || s->finish == PC_FINISH_GRAMMAR;
    pc__guide_change change;
    PC__TRY_RETURN(pc__guide_push(&s->guide, &change, call, tokens, count, s->count, over));
    s->stepping = 1; /* on_text may not change it meanwhile */
    pc_status status = pc__sequence_end_turn(s);
    s->stepping = 0;
    if (status < 0) {
        pc__guide_drop(&s->guide, &change);
        return status;
    }
    pc__guide_keep(&s->guide, &change);
    pc__sequence_drop_pieces(s); /* its length has changed */
    for (size_t i = 0; i < count; i++) {
        s->tokens[s->count++] = tokens[i];
        pc__sampler_note(&s->sampler, tokens[i]);
    }
    s->pending += count;
    s->turn = s->count;
    begin_turn(s);
    if (s->placed.sequence) {
        s->stats.tokens_prompt += count;
        s->stats.tokens_new += count;
    }
    return PC_OK;
}

pc_status pc_sequence_push(pc_sequence *sequence, const int32_t *tokens, size_t count)
{
    PC__HOLD(pc_sequence, sequence);
    if (!sequence)
        return pc__fail(PC_ERR_INVALID, "pc_sequence_push: sequence is NULL");
    PC__TRY_RETURN(pc__check_array("pc_sequence_push", "tokens", tokens, count, sizeof *tokens));
    return push_tokens(sequence, "pc_sequence_push", tokens, count);
}

/* ------------------------------------------------------------------ messages */

/* A conversation that stands for the one so far: its last message is the answer, which is marked.
 */
typedef struct answered {
    pc__jinja_message messages[3];
    pc__jinja_more more[3];
} answered;

static answered after_answer(pc__text answer)
{
    answered a = {
        .messages = {{"system", "sYstem1words"}, {"user", "uSer1words"}, {"assistant", ""}},
        .more = {{.size = 12}, {.size = 10}}};
    a.messages[2].content = answer.size ? answer.data : "";
    a.more[2].size = a.more[2].marked = answer.size;
    return a;
}

/* What the template writes behind the answer: text and origins from *from on. `system`: with a
 * system prompt in front. */
static pc_status render_behind(const pc__talk *talk, const pc__chat *chat, pc__text answer,
                               int system, pc__bytes *text, pc__bytes *origins, size_t *from)
{
    const answered a = after_answer(answer);
    size_t first = system ? 0 : 1, end, begin;
    PC__TRY_RETURN(
        pc__talk_render(talk, chat, a.messages + first, a.more + first, 3 - first, text, origins));
    for (end = origins->size; end && origins->data[end - 1] != PC__ORIGIN_MARKED; end--)
        ;
    for (begin = end; begin && origins->data[begin - 1] == PC__ORIGIN_MARKED; begin--)
        ;
    *from = end;
    if (end - begin == answer.size && !memcmp(text->data + begin, answer.data, answer.size)
        && (!begin || !memchr(origins->data, PC__ORIGIN_MARKED, begin)))
        return PC_OK;
    return pc__fail(
        PC_ERR_UNSUPPORTED,
        "%s: the chat template writes the last answer otherwise than it is; cut it with "
        "pc_sequence_truncate, push what shall stay of it, then the messages",
        talk->call);
}

static int same_behind(const pc__bytes *a, size_t from_a, const pc__bytes *b, size_t from_b)
{
    return a->size - from_a == b->size - from_b
           && (a->size == from_a || !memcmp(a->data + from_a, b->data + from_b, a->size - from_a));
}

/* The same twice, in two conversations of which a sequence does not know whether they are its own:
 * what stands behind the answer must not depend on them. */
static pc_status compare_behind(const pc__talk *talk, const pc__chat *chat, pc__text answer,
                                int system, const pc__bytes *text, size_t from)
{
    pc__bytes other = {.mem = text->mem}, origins = {.mem = text->mem};
    size_t at;
    pc_status status = render_behind(talk, chat, answer, system, &other, &origins, &at);
    if (status >= 0 && !same_behind(text, from, &other, at))
        status = pc__fail(PC_ERR_UNSUPPORTED,
                          "%s: what the chat template writes depends on earlier messages: make a "
                          "prompt of the whole conversation",
                          talk->call);
    pc__bytes_free(&other);
    pc__bytes_free(&origins);
    return status;
}

/* An empty answer leaves no trace: another one shows where it ends, and the rest has to be equal.
 */
static pc_status check_empty(const pc__talk *talk, const pc__chat *chat, const pc__bytes *text,
                             size_t from)
{
    static const char word[] = "aNswer1words";
    const answered a = after_answer((pc__text){NULL, 0});
    pc__bytes other = {.mem = text->mem}, origins = {.mem = text->mem};
    size_t n = sizeof word - 1;
    pc_status status = pc__talk_render(talk, chat, a.messages + 1, a.more + 1, 2, &other, &origins);
    if (status >= 0
        && (other.size + n != text->size || memcmp(other.data, text->data, from - n) != 0
            || !same_behind(text, from, &other, from - n)))
        status = pc__fail(PC_ERR_UNSUPPORTED,
                          "%s: the chat template has another form for an empty answer", talk->call);
    pc__bytes_free(&other);
    pc__bytes_free(&origins);
    return status;
}

/* Tokens of the messages behind the answer, with what closes it. */
static pc_status tokens_behind(const pc_sequence *s, const pc__talk *talk, int32_t **tokens,
                               size_t *count)
{
    const pc__chat *chat = s->model->chat;
    pc__text answer = pc__text_strip((pc__text){s->text.text.data, s->text.text.size});
    pc__text shown = answer.size ? answer : pc__text_of("aNswer1words");
    pc__bytes text = {.mem = talk->mem}, origins = {.mem = talk->mem};
    pc__pml_env env;
    size_t from;
    pc_status status;
    pc__pml_env_of(&env, s->model, talk->call);
    if (chat->counts)
        return pc__fail(PC_ERR_UNSUPPORTED,
                        "%s: the chat template may count turns, and a sequence does not know how "
                        "many there were: make a prompt of the whole conversation",
                        talk->call);
    PC__TRY(render_behind(talk, chat, shown, 0, &text, &origins, &from), done);
    if (!answer.size)
        PC__TRY(check_empty(talk, chat, &text, from), done);
    if (!chat->no_system)
        PC__TRY(compare_behind(talk, chat, shown, 1, &text, from), done);
    status = pc__origin_tokens(&env, &text, &origins, from, tokens, count);
done:
    pc__bytes_free(&text);
    pc__bytes_free(&origins);
    return status;
}

pc_status pc_sequence_push_messages(pc_sequence *sequence, const pc_message *messages,
                                    size_t message_stride, size_t count,
                                    const pc_chat_options *options)
{
    PC__HOLD(pc_sequence, sequence);
    static const char call[] = "pc_sequence_push_messages";
    int32_t *tokens = NULL, last;
    size_t size = 0, skip;
    pc__talk talk;
    if (!sequence)
        return pc__fail(PC_ERR_INVALID, "%s: sequence is NULL", call);
    pc_status status = pc__talk_read(&talk, sequence->mem, call, messages, message_stride, count,
                                     options);
    PC__TRY(status, done);
    PC__TRY(pc__talk_check_plain(&talk), done);
    PC__TRY(pc__sequence_check(sequence, 0, call), done);
    PC__TRY(tokens_behind(sequence, &talk, &tokens, &size), done);
    last = sequence->count ? sequence->tokens[sequence->count - 1] : -1;
    skip = size && tokens[0] == last && pc__generation_stops(&sequence->generation, last);
    status = push_tokens(sequence, call, skip ? tokens + skip : tokens, size - skip);
done:
    pc__free(sequence->mem, tokens);
    pc__talk_free(&talk);
    return status;
}

pc_status pc__sequence_rebuild_text(const pc_sequence *s, size_t turn, size_t count,
                                    pc__text_stream *out)
{
    const pc_generate_options *o = &s->generation.options;
    pc_status status = PC_OK;
    int stopped = 0;
    pc__stream_init(out, s->model);
    for (size_t i = turn; i < count && status >= 0 && !stopped; i++)
        if (!pc__generation_stops(&s->generation, s->tokens[i]))
            status = pc__stream_add(out, s->tokens + turn, i + 1 - turn, o->stop_strings,
                                    pc__generation_stop_strings(&s->generation, i + 1 - turn),
                                    &stopped);
    return status;
}

/* Shortens the model's sequence to `left` tokens behind the prompt; -1: without the prompt's last
 * one too. */
static pc_status truncate_states(pc_sequence *s, int64_t left)
{
    size_t computed = s->count - s->pending;
    size_t less = left < 0 ? computed + !s->again : computed - (size_t)left;
    if (left < 0 && s->placed.own.last < 0)
        return pc__fail(
            PC_ERR_UNSUPPORTED,
            "pc_sequence_truncate: the prompt's last position was not computed last, so "
            "its logits cannot be computed again");
    return less ? pc__call_truncate(s->model, s->placed.sequence, less) : PC_OK;
}

pc_status pc_sequence_truncate(pc_sequence *s, size_t count)
{
    PC__HOLD(pc_sequence, s);
    pc__text_stream text;
    pc__guide_change change;
    size_t computed, turn;
    pc_status status;
    if (!s)
        return pc__fail(PC_ERR_INVALID, "pc_sequence_truncate: sequence is NULL");
    PC__TRY_RETURN(pc__sequence_check(s, 0, "pc_sequence_truncate"));
    if (count > s->count)
        return pc__fail(PC_ERR_INVALID, "pc_sequence_truncate: %zu tokens of %zu", count, s->count);
    turn = s->turn < count ? s->turn : count;
    computed = s->count - s->pending;
    PC__TRY_RETURN(pc__guide_truncate(&s->guide, &change, s->tokens, count));
    status = pc__sequence_rebuild_text(s, turn, count, &text);
    /* the last token that stays is computed once more, for its logits */
    if (status >= 0 && s->placed.sequence && count <= computed)
        status = truncate_states(s, (int64_t)count - 1);
    if (status < 0) {
        pc__guide_drop(&s->guide, &change);
        pc__stream_end(&text);
        return status;
    }
    pc__guide_keep(&s->guide, &change);
    pc__stream_end(&s->text);
    s->text = text;
    if (!s->placed.sequence || count > computed) {
        s->pending -= s->count - count;
    } else {
        s->pending = count != 0;
        s->placed.next_position -= (int64_t)(computed - count + s->pending);
        s->again = !count;
    }
    pc__sampler_drop(&s->sampler, s->count - count);
    s->count = count;
    s->turn = turn;
    s->has_logits = 0;
    begin_turn(s);
    if (s->placed.sequence && pc__sequence_is_full(s))
        s->finish = s->stats.finish = PC_FINISH_LENGTH;
    return PC_OK;
}

const float *pc_sequence_logits(const pc_sequence *sequence, size_t *count)
{
    int there = sequence && !pc__task_has(&sequence->task) && sequence->has_logits;
    if (count)
        *count = there ? (size_t)sequence->model->info.vocab : 0;
    return there ? sequence->logits : NULL;
}
