/* Indexes of a memo on disk: the file of a bucket is a copy of what its notes and projector make,
 * so that opening costs what reading costs. It is believed where it is whole, of this projector,
 * and place by place of these prompts; the rest is made anew. */
#ifndef PC_MEMO_MEMO_KEEP_H
#define PC_MEMO_MEMO_KEEP_H

#include <stdio.h>
#include <string.h>

#include "memo/index/index_file.h"
#include "memo/memo_internal.h"

/* A record whose features belong into an index. */
typedef struct pc__memo_index_row {
    int64_t record;
    uint64_t prompt; /* pc__memo_prompt_hash of its tokens */
    uint32_t tokens;
} pc__memo_index_row;

/* 8 bytes of the digest of its tokens: ids alone may be given out again after a crash of the
 * machine. */
static inline uint64_t pc__memo_prompt_hash(const pc__id *tokens_id)
{
    uint64_t prompt;
    memcpy(&prompt, tokens_id->bytes, sizeof prompt);
    return prompt;
}

static inline void pc__memo_index_file_name(char out[40], uint32_t most)
{
    snprintf(out, 40, "index-%u.pci", most);
}

/* A bucket's file, being read. */
typedef struct pc__memo_index_reader {
    const pc_memo *memo;
    char name[40];
    int fd; /* -1: there is none that can be used */
    pc__index_file_head head;
} pc__memo_index_reader;
/* bucket NULL: as if there were none. PC_ERR_NOMEM only; a damaged file is told in the log. */
pc_status pc__memo_index_reader_open(pc__memo_index_reader *out, const pc_memo *memo,
                                     const pc__memo_bucket *bucket);
void pc__memo_index_reader_close(pc__memo_index_reader *kept);
/* The index of a length and unit with those of the rows that it has, and no others; *dropped of
 * others were in it. *out NULL: there is none that can be used. PC_ERR_NOMEM only. */
pc_status pc__memo_index_load(pc__memo_index_reader *kept,
                              const pc__memo_index_row *rows /* [count], by record */, size_t count,
                              uint32_t layer, pc__index_kind kind, pc__index **out, size_t *dropped);

/* What making an index of so many records costs, in units of what an exact one of one record does
 * (some 10 us). */
uint64_t pc__memo_index_cost(pc__index_kind kind, size_t records);
pc__index_kind pc__memo_index_kind(const pc_memo *memo,
                                   size_t records); /* that opening makes for so many */

#endif
