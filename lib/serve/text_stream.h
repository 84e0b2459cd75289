/* Turns sampled tokens into final text: whole code points, and nothing that may still become a stop
 * string.
 *
 * The text is that of pc_detokenize over all added tokens. It is made from two or more neighbouring
 * tokens at a time, because the text of a token may depend on the one before it. A code point that
 * the last token leaves unfinished, as raw bytes or as U+FFFD, waits for the next token; if it
 * stays unfinished, it is dropped. */
#ifndef PC_SERVE_TEXT_STREAM_H
#define PC_SERVE_TEXT_STREAM_H

#include "model/model.h"

typedef struct pc__text_stream {
    const pc_model *model;
    pc__bytes text; /* the first `final` bytes will not change */
    size_t final;
    size_t window;      /* tokens [window, end) are detokenised together */
    size_t window_size; /* bytes of their text */
    pc__bytes scratch;
    int has_text; /* the model can detokenize */
} pc__text_stream;

/* What pc__stream_add changes, to take it back. */
typedef struct pc__stream_mark {
    size_t size, final, window, window_size;
} pc__stream_mark;

void pc__stream_init(pc__text_stream *stream, const pc_model *model);
pc_status pc__stream_copy(pc__text_stream *to, const pc__text_stream *from);
void pc__stream_end(pc__text_stream *stream);

/* The last token is new. *stopped: the text ends before a stop string. */
pc_status pc__stream_add(pc__text_stream *stream, const int32_t *tokens, size_t count,
                         const char *const *stops, size_t stop_count, int *stopped);
/* After a failed pc__stream_add: as it was at the mark, before it. */
pc__stream_mark pc__stream_at(const pc__text_stream *stream);
void pc__stream_back(pc__text_stream *stream, const pc__stream_mark *mark);
/* No more tokens come: all text becomes final. */
void pc__stream_flush(pc__text_stream *stream);

/* Bytes of an unfinished code point at the end of the text. */
size_t pc__utf8_unfinished(const char *text, size_t size);

#endif
