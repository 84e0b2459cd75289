/* The panels of a linear layer, of PC__PANEL output features each: their memory and how they are
 * packed. */
#ifndef PC_ATTN_CPU_PANEL_SET_H
#define PC_ATTN_CPU_PANEL_SET_H

#include "attn/cpu/linear_internal.h"
#include "attn/kernels.h"
#include "attn/packed_weights.h"

typedef struct pc__panel_set {
    size_t count, bytes; /* of a panel */
    /* consecutive panels, 64-byte aligned, readable some way past the end */
    uint8_t *weights;
    pc__packed_map *map; /* of the file that they lie in; NULL: in memory */
    int joined;          /* 1: in a block with another owner (pc__linear_join) */
} pc__panel_set;

/* Packs one panel: features [first, first + count); `scratch` is the thread's own. */
typedef void (*pc__pack_panel_fn)(void *arg, size_t first, size_t count, void *scratch,
                                  uint8_t *panel);

/* How a set is packed. */
typedef struct pc__panel_packer {
    pc__pack_panel_fn pack;
    void *arg;
    size_t scratch_bytes; /* of a thread, 64-byte aligned */
    uint64_t form;        /* differs for layers of the same sizes whose panels differ */
    pc__packed *packed;   /* the panels lie there, or are written there; NULL: neither */
} pc__panel_packer;

/* Makes all panels, of `bytes` each, on the context's threads. Features past the last one are zero.
 */
pc_status pc__panel_set_make(pc__panel_set *set, const pc__linear *linear, size_t bytes,
                             const pc__panel_packer *packer);
/* `drop` and `bytes` where linear->packed begins with a panel set. */
void pc__panel_set_drop(pc__linear *linear);
size_t pc__panel_set_bytes(const pc__linear *linear);

/* NULL behind the last panel. A thread's next panel is probably as many panels on as there are
 * threads. */
static inline const uint8_t *pc__panel_at(const pc__panel_set *set, size_t index)
{
    return index < set->count ? set->weights + index * set->bytes : NULL;
}

static inline size_t pc__panel_count(const pc__linear *linear)
{
    return (linear->out + PC__PANEL - 1) / PC__PANEL;
}

static inline size_t pc__panel_width(const pc__linear *linear, size_t panel)
{
    size_t left = linear->out - panel * PC__PANEL;
    return left < PC__PANEL ? left : PC__PANEL;
}

#endif
