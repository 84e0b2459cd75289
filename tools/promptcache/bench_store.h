/* bench store: the states that go through the tiers, and the lists of its options. */
#ifndef BENCH_STORE_H
#define BENCH_STORE_H

#include "bench_model.h"

/* One segment's states in memory of our own, and what a cache is asked for them. */
typedef struct store_state {
    pc_raw raw; /* borrows from below and from the model's description */
    int32_t *tokens;
    void **blocks;
    uint64_t *block_bytes;
    uint64_t bytes, sum; /* of all blocks */
} store_state;

typedef struct store_states {
    store_state *items;
    size_t count;
    uint64_t bytes, largest;
} store_states;

/* `count` segments of `tokens` tokens each, computed by the model: of the text's tokens, one after
 * the other, or of ids without meaning if there is none. An exit code. */
int make_states(store_states *s, const bench_model *b, const char *text_file, size_t count,
                size_t tokens);
/* The same states may stand under several names. 0: not to be had. */
int state_key(const store_state *s, const bench_model *b, uint64_t alias, uint8_t key[32]);
void free_states(store_states *s);
uint64_t sum_blocks(const pc_raw *raw); /* changes with every bit and place */

/* Files of a folder and of those in it. */
typedef struct file_tree {
    char **paths;
    size_t count, room;
    uint64_t bytes, largest;
} file_tree;
int list_files(file_tree *t, const char *folder); /* adds; 0: not to be read */
void free_files(file_tree *t);
void remove_tree(const char *folder);
/* Seconds of reading every file from its start to its end: into memory that is there, or (NULL)
 * into memory taken for it, as somebody has to who keeps it. < 0: failed. */
double read_files(const file_tree *t, void *memory, size_t size);
void drop_files(const file_tree *t); /* from the page cache */

#endif
