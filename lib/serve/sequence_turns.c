/* Tokens are pushed to a running sequence, or truncated. */
#include <promptcache/batch.h>
#include <string.h>

#include "pml/literal.h"
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
    s->stepping = 1; /* on_text may not change it meanwhile */
    pc_status status = pc__sequence_end_turn(s);
    s->stepping = 0;
    if (status < 0)
        return status;
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

pc_status pc_sequence_push_turn(pc_sequence *sequence, const char *text, size_t size)
{
    PC__HOLD(pc_sequence, sequence);
    static const char call[] = "pc_sequence_push_turn";
    const pc__chat_pieces *chat;
    pc__pml_env env;
    pc__literal run = {.env = &env};
    pc__bytes open = {0}, close = {0};
    int32_t *tokens = NULL, last;
    size_t count = 0, skip;
    pc_status status;
    if (!sequence)
        return pc__fail(PC_ERR_INVALID, "%s: sequence is NULL", call);
    PC__TRY_RETURN(pc__check_array(call, "text", text, size, 1));
    chat = &sequence->model->chat->pieces;
    pc__text turn = {text ? text : "", size},
             answer = {sequence->text.text.data, sequence->text.text.size};
    pc__pml_env_of(&env, sequence->model, call);
    open.mem = close.mem = env.mem;
    PC__TRY(pc__sequence_check(sequence, 0, call), done);
    PC__TRY(pc__chat_check_role(sequence->model->chat, "user"), done);
    PC__TRY(pc__chat_check_turn(sequence->model->chat, env.mem, answer, &turn), done);
    PC__TRY(pc__bytes_add_text(&open, chat->assistant_close), done);
    PC__TRY(pc__bytes_add_text(&open, chat->user_open), done);
    PC__TRY(pc__bytes_add_text(&close, chat->user_close), done);
    PC__TRY(pc__bytes_add_text(&close, chat->generation), done);
    PC__TRY(pc__literal_around(&run, open.data, turn.data, turn.size, close.data, &tokens, &count),
            done);
    last = sequence->count ? sequence->tokens[sequence->count - 1] : -1;
    skip = count && *chat->assistant_close && tokens[0] == last
           && pc__generation_stops(&sequence->generation, last);
    status = push_tokens(sequence, call, skip ? tokens + skip : tokens, count - skip);
done:
    pc__free(env.mem, tokens);
    pc__bytes_free(&open);
    pc__bytes_free(&close);
    pc__literal_free(&run);
    return status;
}

/* The text of tokens [turn, count). */
static pc_status rebuild_text(pc_sequence *s, size_t turn, size_t count, pc__text_stream *out)
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
    size_t computed, turn;
    pc_status status;
    if (!s)
        return pc__fail(PC_ERR_INVALID, "pc_sequence_truncate: sequence is NULL");
    PC__TRY_RETURN(pc__sequence_check(s, 0, "pc_sequence_truncate"));
    if (count > s->count)
        return pc__fail(PC_ERR_INVALID, "pc_sequence_truncate: %zu tokens of %zu", count, s->count);
    turn = s->turn < count ? s->turn : count;
    computed = s->count - s->pending;
    status = rebuild_text(s, turn, count, &text);
    /* the last token that stays is computed once more, for its logits */
    if (status >= 0 && s->placed.sequence && count <= computed)
        status = truncate_states(s, (int64_t)count - 1);
    if (status < 0) {
        pc__stream_end(&text);
        return status;
    }
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
    int there = sequence && sequence->has_logits;
    if (count)
        *count = there ? (size_t)sequence->model->info.vocab : 0;
    return there ? sequence->logits : NULL;
}
