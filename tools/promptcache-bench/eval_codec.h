/* The loss of answers by a codec of the store: modules are stored in a folder with that codec,
 * removed from memory, and loaded again for every question. Then each token of the answer by
 * computed states is predicted by the loaded ones too, and both predictions are compared. */
#ifndef EVAL_CODEC_H
#define EVAL_CODEC_H

#include "program.h"

#define EVAL_CODECS "raw,zstd,int8,int4" /* from PC_CODEC_RAW on */
enum { EVAL_CODEC_COUNT = 4 };
extern const char *const eval_codec_names[EVAL_CODEC_COUNT];

typedef struct codec_folder codec_folder;

/* A cache over a new folder in $TMPDIR or /tmp. codec: index of the name. An exit code. */
int codec_folder_open(codec_folder **out, pc_context *context, size_t codec);
void codec_folder_close(codec_folder *f); /* removes the folder; NULL: does nothing */

/* An answer by computed states: its tokens (-1 for the end) and the logits of each. */
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
    double kl;            /* KL divergence from the reference's distribution, in nats */
    size_t tokens, agree; /* agree: the same token is the most likely */
} codec_loss;

/* Answers by `options`, whose callback gets the text, and adds to *loss. PC_MISS: no module was
 * loaded from the folder. */
pc_status codec_folder_ask(codec_folder *f, const pc_model *model, const pc_prompt *prompt,
                           const pc_generate_options *options, const reference *r, pc_stats *stats,
                           codec_loss *loss);

#endif
