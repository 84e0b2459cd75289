/* Turns sampled tokens into text that is final: whole code points only, and nothing that may still
 * become a stop string.
 *
 * The text is that of pc_detokenize over all tokens that were added; it is made piecewise, from two
 * or more neighbouring tokens at a time, because what a token adds may depend on the one before it.
 * A code point that the last token leaves unfinished, whether as raw bytes or as U+FFFD at the end,
 * waits for the next; one that stays unfinished is dropped. */
#ifndef PC_SERVE_TEXT_STREAM_H
#define PC_SERVE_TEXT_STREAM_H

#include "model/model.h"

typedef struct pc__text_stream {
    const pc_model *model;
    pc__bytes text; /* all so far; the first `final` bytes are certain */
    size_t final;
    size_t window;      /* tokens [window, end) are made into text together */
    size_t window_size; /* bytes of text that they have given so far */
    pc__bytes scratch;
    int has_text; /* the model can detokenize */
} pc__text_stream;

void pc__stream_init(pc__text_stream *stream, const pc_model *model);
pc_status pc__stream_copy(pc__text_stream *to, const pc__text_stream *from);
void pc__stream_end(pc__text_stream *stream);

/* Token count - 1 is new. *stopped: a stop string has appeared; the text ends before it. */
pc_status pc__stream_add(pc__text_stream *stream, const int32_t *tokens, size_t count,
                         const char *const *stops, size_t stop_count, int *stopped);
/* No more tokens: what was held back becomes final. */
void pc__stream_flush(pc__text_stream *stream);

/* Bytes at the end of text that are the beginning of an unfinished code point. */
size_t pc__utf8_unfinished(const char *text, size_t size);

#endif
