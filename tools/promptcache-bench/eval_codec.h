/* What a codec of the store costs in answers: modules are stored in a folder of it, dropped from
 * memory, and read back for every question. Beside the answer, each of its tokens is predicted once
 * more from such states behind the tokens of the answer from computed ones, and both predictions
 * are compared. */
#ifndef EVAL_CODEC_H
#define EVAL_CODEC_H

#include "program.h"

#define EVAL_CODECS "raw,zstd,int8,int4" /* PC_CODEC_RAW … */
enum { EVAL_CODEC_COUNT = 4 };
extern const char *const eval_codec_names[EVAL_CODEC_COUNT];

typedef struct codec_folder codec_folder;

/* A cache over a folder of its own in $TMPDIR or /tmp. An exit code. `codec`: index of the name. */
int codec_folder_open(codec_folder **out, pc_context *context, size_t codec);
void codec_folder_close(codec_folder *f); /* and removes it. NULL does nothing */

/* An answer from computed states: its tokens (-1 for the end), and the logits that each was chosen
 * by. */
typedef struct reference {
    int32_t *tokens;
    float *logits; /* [count][vocab] */
    size_t count, vocab;
} reference;
pc_status reference_make(reference *r, const pc_model *model, const pc_prompt *prompt,
                         pc_cache *cache, const pc_generate_options *options);
void reference_free(reference *r);

/* Sums over the tokens of answers. */
typedef struct codec_loss {
    double kl;            /* of the reference's distribution over this one, nats */
    size_t tokens, agree; /* agree: the same token is the most likely */
} codec_loss;

/* Answers as `options` say, which get their text by their callback; adds to *loss. PC_MISS: no
 * module came from the folder. */
pc_status codec_folder_ask(codec_folder *f, const pc_model *model, const pc_prompt *prompt,
                           const pc_generate_options *options, const reference *r, pc_stats *stats,
                           codec_loss *loss);

#endif
