/* Text of sampled tokens, held back as long as it may still change or become a stop string. */
#include "serve/text_stream.h"

#include <string.h>

void pc__stream_init(pc__text_stream *s, const pc_model *model)
{
    memset(s, 0, sizeof *s);
    s->model = model;
    s->text.mem = s->scratch.mem = &model->context->mem;
    s->has_text = model->tokenizer || model->ops.detokenize;
}

pc_status pc__stream_copy(pc__text_stream *to, const pc__text_stream *from)
{
    pc__stream_init(to, from->model);
    to->final = from->final;
    to->window = from->window;
    to->window_size = from->window_size;
    return pc__bytes_add(&to->text, from->text.data, from->text.size);
}

void pc__stream_end(pc__text_stream *s)
{
    if (s->text.mem) {
        pc__bytes_free(&s->text);
        pc__bytes_free(&s->scratch);
    }
    memset(s, 0, sizeof *s);
}

size_t pc__utf8_unfinished(const char *text, size_t size)
{
    for (size_t back = 1; back <= 3 && back <= size; back++) {
        unsigned char c = (unsigned char)text[size - back];
        size_t length = c >= 0xf0 && c < 0xf8 ? 4 : c >= 0xe0 ? 3 : c >= 0xc0 ? 2 : 1;
        if (c >= 0x80 && c < 0xc0)
            continue;
        return c < 0xf8 && length > back ? back : 0;
    }
    return 0;
}

/* The size without unfinished code points at the end: several, if the bytes are not UTF-8. */
static size_t whole_size(const char *text, size_t size)
{
    size_t n;
    while ((n = pc__utf8_unfinished(text, size)))
        size -= n;
    return size;
}

static int ends_in_replacement(const char *text, size_t size)
{
    return size >= 3 && !memcmp(text + size - 3, "\xef\xbf\xbd", 3);
}

/* Text of the tokens into `scratch`. */
static pc_status detokenize(pc__text_stream *s, const int32_t *tokens, size_t count)
{
    size_t need = 0;
    PC__TRY_RETURN(pc_detokenize(s->model, tokens, count, 0, NULL, 0, &need));
    s->scratch.size = 0;
    PC__TRY_RETURN(
        pc__grow(s->scratch.mem, (void **)&s->scratch.data, &s->scratch.capacity, need + 1, 1));
    return need ? pc_detokenize(s->model, tokens, count, 0, s->scratch.data, need, &s->scratch.size)
                : PC_OK;
}

/* Appends the newest token's text. Where that ends with a whole code point, the window starts with
 * this token from now on. */
static pc_status append_token(pc__text_stream *s, const int32_t *tokens, size_t count)
{
    size_t size;
    PC__TRY_RETURN(detokenize(s, tokens + s->window, count - s->window));
    size = s->scratch.size;
    if (ends_in_replacement(s->scratch.data, size) || size < s->window_size)
        return PC_OK;
    PC__TRY_RETURN(
        pc__bytes_add(&s->text, s->scratch.data + s->window_size, size - s->window_size));
    s->window_size = size;
    if (count - s->window > 1 && !pc__utf8_unfinished(s->scratch.data, size)) {
        PC__TRY_RETURN(detokenize(s, tokens + count - 1, 1));
        /* a window cannot start with a token that has no text of its own */
        if (s->scratch.size) {
            s->window = count - 1;
            s->window_size = s->scratch.size;
        }
    }
    return PC_OK;
}

/* Bytes at the end of the text that may be the beginning of a stop string. */
static size_t held_back(const char *text, size_t size, const char *const *stops, size_t stop_count)
{
    size_t most = 0;
    for (size_t i = 0; i < stop_count; i++) {
        size_t length = strlen(stops[i]), n = length ? length - 1 : 0;
        for (n = n < size ? n : size; n > most; n--)
            if (!memcmp(text + size - n, stops[i], n))
                most = n;
    }
    return most;
}

static const char *first_stop(const char *text, size_t size, const char *const *stops,
                              size_t stop_count)
{
    const char *first = NULL;
    for (size_t i = 0; i < stop_count; i++) {
        size_t length = strlen(stops[i]);
        const char *at = length ? memmem(text, size, stops[i], length) : NULL;
        if (at && (!first || at < first))
            first = at;
    }
    return first;
}

pc_status pc__stream_add(pc__text_stream *s, const int32_t *tokens, size_t count,
                         const char *const *stops, size_t stop_count, int *stopped)
{
    const char *open, *stop;
    size_t size;
    *stopped = 0;
    if (s->has_text)
        PC__TRY_RETURN(append_token(s, tokens, count));
    if (s->text.size == s->final)
        return PC_OK;
    open = s->text.data + s->final;
    size = s->text.size - s->final;
    stop = first_stop(open, size, stops, stop_count);
    if (stop) {
        s->text.size = s->final += whole_size(open, (size_t)(stop - open));
        s->text.data[s->text.size] = 0;
        *stopped = 1;
        return PC_OK;
    }
    s->final += whole_size(open, size - held_back(open, size, stops, stop_count));
    return PC_OK;
}

pc__stream_mark pc__stream_at(const pc__text_stream *s)
{
    return (pc__stream_mark){s->text.size, s->final, s->window, s->window_size};
}

void pc__stream_back(pc__text_stream *s, const pc__stream_mark *mark)
{
    s->text.size = mark->size;
    if (s->text.data)
        s->text.data[mark->size] = 0;
    s->final = mark->final;
    s->window = mark->window;
    s->window_size = mark->window_size;
}

void pc__stream_flush(pc__text_stream *s)
{
    if (!s->text.size)
        return;
    s->text.size = whole_size(s->text.data, s->text.size);
    s->final = s->text.size > s->final ? s->text.size : s->final;
    s->text.data[s->final] = 0;
}
