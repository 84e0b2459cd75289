/* The states of a model's segments as memory blocks (store/image.h), and back: what the tiers below
 * RAM keep of them.
 *
 * Our own models: PC_LAYOUT_PAGES, one block a layer: the pages in use, [page][kv_head][page of one
 * head] (attn/kv.h), with zeros beyond the last token. What is read from a record is therefore, bit
 * for bit, what was computed. A host's model: PC_LAYOUT_MODEL, one block, what ops.export_segment
 * gives; without that its segments stay in RAM. */
#ifndef PC_SERVE_SEGMENT_IMAGE_H
#define PC_SERVE_SEGMENT_IMAGE_H

#include "model/model.h"
#include "store/segment.h"

/* Of the segments of any model; the owner is the pc_model (takers of a reference: pc__model_take).
 * describe fills in model, architecture, position scheme, dtype, layout and blocks; of our own
 * models also shape, regime, origin and relative positions, which of a host's are whatever the
 * image said before. Names, salt, encoding and tokens are the caller's. adopt is for our own models
 * only. */
extern const pc__payload_ops pc__model_payload;
void pc__model_take(void *owner);

/* What is known of a segment before there is one. All is borrowed. */
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

/* The image, without blocks and their sizes, that a segment of `model` with these facts has to
 * match (pc__image_match), in the format in which segments are kept; its tokens are at positions 0,
 * 1, 2 … of it. cost, priority and times are 0. Allocates nothing. */
void pc__segment_image(pc__image *image, const pc_model *model, const pc__segment_facts *facts);

/* Bytes that such a segment takes in RAM: 0 where only the host's model could tell. */
uint64_t pc__segment_bytes(const pc_model *model, size_t tokens);

#endif
