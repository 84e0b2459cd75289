/* A model without weights, whose tokens are bytes. A new token attends to the states that stand
 * behind the same eight bytes as itself and votes for what came there: it goes on like that. */
#include <stdlib.h>

#include "copy_model.h"

pc_status copy_tokenize(void *user, const char *text, size_t size, uint64_t flags, int32_t *tokens,
                        size_t capacity, size_t *count)
{
    (void)user, (void)flags; /* there are no special tokens */
    *count = size;
    for (size_t i = 0; i < size && i < capacity; i++)
        tokens[i] = (unsigned char)text[i];
    return capacity && size > capacity ? PC_ERR_LIMIT : PC_OK;
}

pc_status copy_detokenize(void *user, const int32_t *tokens, size_t count, uint64_t flags,
                          char *text, size_t capacity, size_t *size)
{
    (void)user, (void)flags;
    *size = count;
    for (size_t i = 0; i < count && i < capacity; i++)
        text[i] = (char)tokens[i];
    return capacity && count > capacity ? PC_ERR_LIMIT : PC_OK;
}

/* Appends one token. A state of a run stands at the run's start + at. Passes: what stands right
 * before the token, then the votes of what followed such text. */
static pc_status append(sequence *s, int64_t position, int32_t token, float *logits)
{
    state *mine = &s->own.states[s->runs[0].hi];
    int64_t last = -1;
    if (s->runs[0].hi == COPY_CONTEXT)
        return PC_ERR_LIMIT;
    *mine = (state){position, 0, token};
    for (int v = 0; logits && v < COPY_VOCAB; v++)
        logits[v] = 0;
    for (int vote = 0; vote < (logits ? 2 : 1); vote++)
        for (size_t r = 0; r < s->count; r++)
            for (uint32_t i = s->runs[r].lo; i < s->runs[r].hi; i++) {
                const state *seen = &((const segment *)s->runs[r].segment)->states[i];
                int64_t at = s->runs[r].start + seen->at;
                if (vote && at < position && seen->before == (mine->before << 8 | (uint64_t)token))
                    logits[seen->token] += 1;
                if (!vote && at < position && at > last) {
                    last = at;
                    mine->before = seen->before << 8 | (uint64_t)seen->token;
                }
            }
    s->runs[0].hi++;
    return PC_OK;
}

static segment *cut_out(const sequence *s, pc_token_range cut)
{
    segment *out = calloc(1, sizeof *out);
    for (size_t i = 0; out && i < cut.count; i++) {
        out->states[i] = s->own.states[cut.first + i];
        out->states[i].at -= s->own.states[cut.first].at;
    }
    if (out)
        out->owners = 1;
    return out;
}

pc_status copy_encode(void *user, const pc_encode_args *args, void **segments)
{
    void *whole; /* the tokens of the call as a sequence, out of which the segments are cut */
    pc_status status = copy_sequence_new(user, NULL, &whole);
    size_t c = 0;
    for (size_t v = 0; v < args->visible_count && status >= 0; v++)
        status = copy_attach(user, whole, &args->visible[v]);
    for (size_t i = 0; i < args->count && status >= 0; i++)
        status = append(whole, args->positions[i], args->tokens[i], NULL);
    for (; c < args->range_count && status >= 0; c++)
        status = (segments[c] = cut_out(whole, args->ranges[c])) ? PC_OK : PC_ERR_NOMEM;
    while (status < 0 && c--) /* all or nothing */
        copy_release(user, segments[c]);
    copy_drop(user, whole);
    return status;
}

pc_status copy_step(void *user, const pc_step_args *args)
{
    float *logits = args->logits;
    pc_status status = args->visibility == PC_VISIBLE_BY_POSITION ? PC_OK : PC_ERR_UNSUPPORTED;
    size_t i = 0;
    (void)user;
    for (; i < args->count && status >= 0; i++) {
        const pc_step_row *row = &args->rows[i];
        if ((status = append(row->sequence, row->position, row->token,
                             row->want_logits ? logits : NULL))
            < 0)
            break;
        logits += row->want_logits ? COPY_VOCAB : 0;
    }
    while (status < 0 && i--) /* a failed step changes nothing */
        ((sequence *)args->rows[i].sequence)->runs[0].hi--;
    return status;
}
