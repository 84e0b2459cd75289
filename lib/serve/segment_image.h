/* The states of a model's segments as memory blocks (store/image.h), for the tiers below RAM.
 *
 * Native models: PC_LAYOUT_PAGES, one block a layer: the pages in use, [page][kv_head][page of one
 * head] (attn/kv.h), with zeros behind the last token. So states from a record equal the computed
 * ones bit for bit. An application's model: PC_LAYOUT_MODEL_PAGES, the same blocks
 * of what ops.export_layer gives; or PC_LAYOUT_MODEL, one block, the bytes that ops.export_segment
 * gives. Without both its segments stay in RAM. */
#ifndef PC_SERVE_SEGMENT_IMAGE_H
#define PC_SERVE_SEGMENT_IMAGE_H

#include "model/model.h"
#include "store/segment.h"

/* The operations on a model's payloads: one table for native models, two for others, which cannot
 * wrap memory. The owner is the pc_model, pc__model_ref_owner adds a reference to it. describe sets
 * model, architecture, position scheme, dtype, layout and blocks; of native models also shape, RoPE
 * regime, origin and relative positions. The caller sets key, salt, encoding and tokens. */
const pc__payload_ops *pc__model_payload(const pc_model *model);
void pc__model_ref_owner(void *owner);
/* The model whose states a segment holds; NULL if it did not come from here. */
const pc_model *pc__segment_model(const pc_segment *segment);

/* A segment of `model` with the states of `segment`: itself, or around the memory of states that
 * another handle of the same model has computed, or that came through the cache by pc_cache_get.
 * Copies them if they cannot be read where they lie. PC_ERR_MISMATCH: of another model, format or
 * shape. */
pc_status pc__segment_of_model(pc_segment **out, const pc_model *model, pc_segment *segment);
/* A copy of spans [count], which somebody holds, with segments of `model`, counted; where that is
 * not possible, with those that were given (NULL stays). To be freed by pc__spans_free. */
pc_status pc__spans_of_model(pc_span **out, const pc_model *model, const pc_span *spans,
                             size_t count);
void pc__spans_free(pc_span *spans, size_t count, const pc_model *model);

/* Known of a segment before it exists. All is borrowed. */
typedef struct pc__segment_facts {
    const pc__id *key;
    const pc__id *content; /* or NULL */
    const pc__id *parent;  /* or NULL */
    const pc__id *salt;    /* pc__salt_digest */
    uint32_t encoding;     /* PC_ENCODE_… */
    uint64_t regime;       /* the `key` of a pc__request_regime */
    int64_t start;         /* position of its first token when it is computed */
    const int32_t *tokens;
    size_t count;
} pc__segment_facts;

/* The image, without blocks and their sizes, that a segment with these facts has to match
 * (pc__image_match), in the format in which segments are stored. Its tokens have relative positions
 * 0, 1, 2 …; cost, priority and times are 0. Allocates nothing. */
void pc__segment_image(pc__image *image, const pc_model *model, const pc__segment_facts *facts);

/* Bytes that such a segment takes in RAM; 0: only the application's model knows. */
uint64_t pc__segment_bytes(const pc_model *model, size_t tokens);

#endif
