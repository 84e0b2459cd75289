/* What the folders above ask of a model beyond pc_model_ops. A native model, one that this library
 * computes itself, has K/V runs as segments (pc__kv); an application's model has handles of its
 * own. Only lib/model looks at pc_model.native. */
#ifndef PC_MODEL_MODEL_STATES_H
#define PC_MODEL_MODEL_STATES_H

#include "attn/draw.h"
#include "attn/kv.h"
#include "model/model.h"

int pc__model_is_native(const pc_model *model);
/* PC_OK, or PC_ERR_UNSUPPORTED that names the call. */
pc_status pc__model_check_native(const pc_model *model, const char *call);
int pc__model_is_causal(const pc_model *model); /* 1 for an application's model */
/* Whether states can leave the model, or come back into it, as bytes. */
int pc__model_can_export(const pc_model *model);
int pc__model_can_import(const pc_model *model);
int pc__model_has_layers(const pc_model *model); /* an application's: layer by layer */
/* Format and layout (PC_LAYOUT_…) of segments in keys. The format is that of computing, plus 256
 * times that of K and V if it differs. */
uint32_t pc__model_format(const pc_model *model);
uint32_t pc__model_layout(const pc_model *model);
/* Position of a segment's token, relative to the segment's start. */
int64_t pc__model_relative(const pc_model *model, const void *segment, size_t token);
/* Brings a finished run into the format in which segments are stored, on the host; failure leaves
 * it as it was. Does nothing to a handle of an application's model. */
pc_status pc__model_keep(const pc_model *model, pc__kv **segment);

/* Of segments; of an application's model only if it has layers. */
pc__kv_shape pc__model_segment_shape(const pc_model *model);
/* PC_POOL_…: `asked`, or the model's own pooling for PC_POOL_DEFAULT; whether the model's own
 * embeddings have length 1. */
uint32_t pc__model_pool(const pc_model *model, uint32_t asked);
int pc__model_normalizes(const pc_model *model);
/* 1: its backend draws tokens (pc__model_step_draw). */
int pc__model_draws(const pc_model *model);
/* 1: its prompts may be computed in pieces: tokens have the same bits then. Encode calls of an
 * application's model are not cut (pc__encoding). */
int pc__model_cuts(const pc_model *model);

/* Runs `run(work)`, which takes memory for states that only succeed together, as
 * pc__kv_mirrors_work (attn/kv_mirror.h) does. Of an application's model it just runs. */
pc_status pc__model_work(const pc_model *model, pc_status (*run)(void *), void *work, int once);

/* The rest is for native models only. */

/* As pc_model_ops.step, but that tokens are drawn from the rows that `draws` names; of these the
 * caller gets no logits. draws NULL: of none. */
pc_status pc__model_step_draw(const pc_model *model, const pc_step_args *args,
                              const pc__draws *draws);

/* An encode call (pc_model_ops.encode) that is computed in pieces, which may share passes with
 * steps of sequences and with other encodings. */
typedef struct pc__encoding pc__encoding;
typedef struct pc__encode_piece {
    pc__encoding *encoding;
    size_t count; /* of its next tokens, at most as many as are left */
} pc__encode_piece;
/* `args`, of at least one token, stays until the end. */
pc_status pc__encoding_open(pc__encoding **out, const pc_model *model, const pc_encode_args *args);
size_t pc__encoding_left(const pc__encoding *encoding); /* tokens that are not computed yet */
/* Ends it; NULL: does nothing. segments [range_count]: of one of which all is computed, gets the
 * runs, as computed; else NULL. */
void pc__encoding_close(pc__encoding *encoding, void **segments);
/* One pass: the rows of `args` (may be none), as pc__model_step_draw, and pieces of encodings, all
 * of the RoPE regime of args->rope_regime_length. A failed one has changed nothing. */
pc_status pc__model_step_pieces(const pc_model *model, const pc_step_args *args,
                                const pc__draws *draws, const pc__encode_piece *pieces,
                                size_t count);

pc__kv_shape pc__model_run_shape(const pc_model *model); /* of runs that grow */
/* The RoPE regime that a context of `length` positions uses (model/load/positions.h), its longest
 * context (INT64_MAX: no end), and a length that is of that regime. */
uint64_t pc__model_rope_regime(const pc_model *model, uint64_t length);
int64_t pc__model_rope_regime_end(const pc_model *model, uint64_t regime);
uint64_t pc__model_rope_regime_length(const pc_model *model, uint64_t regime);

/* An empty run for `tokens` tokens, of the RoPE regime of that length (0: of length 1). */
pc_status pc__model_run_new(const pc_model *model, size_t tokens, uint64_t rope_regime_length,
                            pc__kv **out);
/* K and V of all tokens of one layer as they are when the run is placed at `start`:
 * [kv_head][token][dim], fp32; either may be NULL. Of a model with latent attention, those of every
 * head. PC_ERR_UNSUPPORTED: learned positions, and
 * `start` is not where the run was computed. */
pc_status pc__model_run_read(const pc_model *model, const pc__kv *run, int32_t layer, int64_t start,
                             float *k, float *v);

/* What a sequence sees, in order: attached runs, and own ones. */
typedef struct pc__sequence_span {
    pc__kv *kv; /* borrowed */
    int64_t start;
    uint32_t lo, hi;
    int own;
    int grows; /* of an own one: the next own tokens go there */
} pc__sequence_span;
/* How many there are; `spans` may be NULL. */
size_t pc__model_sequence_spans(const void *sequence, pc__sequence_span *spans);
/* Makes a run that was computed elsewhere, from position 0 on, the own tokens of a sequence that
 * has nothing yet; the run grows on. Takes the reference over in any case. */
pc_status pc__model_sequence_wrap(const pc_model *model, void *sequence, pc__kv *run);
/* The next own run of a sequence, computed elsewhere; `grows`: it grows on. Takes the reference
 * over in any case. */
pc_status pc__model_sequence_add(const pc_model *model, void *sequence, pc__kv *run, int64_t start,
                                 int grows);
/* Nothing that the sequence has so far is written any more. */
void pc__model_sequence_freeze(void *sequence);

#endif
