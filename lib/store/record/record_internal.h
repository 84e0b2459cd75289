/* A record that is being read. */
#ifndef PC_STORE_RECORD_INTERNAL_H
#define PC_STORE_RECORD_INTERNAL_H

#include "store/record/record.h"
#include "store/record/record_format.h"

struct pc__record {
    pc_allocator mem;
    pc__record_options options;
    /* Of coded blocks; NULL: there are none, or the codec is missing. */
    const pc_codec_ops *codec;
    pc__source *source;
    uint8_t *header; /* as read, the body opened */
    pc__record_head head;
    pc__image image; /* token ids and positions point into `header` */
    uint64_t *block_bytes;
    pc__record_entry *entries;
    int closed; /* sealed, and the key is missing: the body is unknown */
    char codec_name[PC__RECORD_CODEC_NAME];
    /* Of a sealed record: for readers with this option alone; "": for those without. */
    char for_kernels[PC__RECORD_CLASS];
};

int pc__record_uses_codec(const pc__record *record); /* 1: not all of its blocks are RAW */

#endif
