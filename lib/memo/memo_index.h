/* The index file of a bucket: a copy of what pooled inputs and projector determine, so that opening
 * a memo only reads. It is used if it is whole and of the current projector, and of each position
 * only if the prompt is still the same. The rest is computed again. */
#ifndef PC_MEMO_MEMO_INDEX_H
#define PC_MEMO_MEMO_INDEX_H

#include <string.h>

#include "memo/index/index_file.h"
#include "memo/memo_internal.h"

/* A record of an index. */
typedef struct pc__memo_index_row {
    int64_t record;
    uint64_t prompt;
    uint32_t tokens;
} pc__memo_index_row;

/* 8 bytes of the digest of its tokens. An id alone does not do: after a crash of the machine it may
 * be given out again. */
static inline uint64_t pc__memo_prompt_hash(const pc__id *tokens_id)
{
    uint64_t prompt;
    memcpy(&prompt, tokens_id->bytes, sizeof prompt);
    return prompt;
}

/* An index file that is being read. */
typedef struct pc__memo_index_reader {
    const pc_memo *memo;
    char name[40];
    int fd; /* -1: no usable file */
    pc__index_file_head head;
} pc__memo_index_reader;
/* bucket NULL: no file. A damaged file is logged. PC_ERR_NOMEM only. */
pc_status pc__memo_index_reader_open(pc__memo_index_reader *out, const pc_memo *memo,
                                     const pc__bucket_facts *bucket);
void pc__memo_index_reader_close(pc__memo_index_reader *reader);
/* The index of a length and layer, with only those of the rows that it has; it had *dropped others.
 * *out NULL: no usable index. PC_ERR_NOMEM only. */
pc_status pc__memo_index_load(pc__memo_index_reader *reader,
                              const pc__memo_index_row *rows /* [count], by record */, size_t count,
                              uint32_t layer, pc__index_kind kind, pc__index **out,
                              size_t *dropped);

/* Cost of computing an index, in units of one record of an exact index (about 10 us). */
uint64_t pc__memo_index_cost(pc__index_kind kind, size_t records);
/* The kind of index for so many records. */
pc__index_kind pc__memo_index_kind(const pc_memo *memo, size_t records);

#endif
