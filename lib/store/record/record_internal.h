/* A record that is being read. */
#ifndef PC_STORE_RECORD_INTERNAL_H
#define PC_STORE_RECORD_INTERNAL_H

#include "store/record/record.h"
#include "store/record/record_format.h"

struct pc__record {
    pc_allocator mem;
    pc__record_options options;
    const pc_codec_ops *codec; /* of the blocks that are not RAW; NULL: there are none, or this
                                  library has not got it */
    pc__source *source;
    uint8_t *header; /* as read, its body opened */
    pc__record_head head;
    pc__image image; /* ids and positions lie in `header` */
    uint64_t *block_bytes;
    pc__record_entry *entries;
    int closed; /* sealed, and nobody gave the key: the body is not known */
    char codec_name[PC__RECORD_CODEC_NAME];
};

#endif
