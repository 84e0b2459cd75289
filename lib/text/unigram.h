/* The Unigram model of SentencePiece (Kudo 2018): splits a text into the pieces whose scores
 * (natural logarithms of probabilities) have the largest sum. A character that is no piece scores
 * the lowest score - 10. */
#ifndef PC_TEXT_UNIGRAM_H
#define PC_TEXT_UNIGRAM_H

#include "text/tokenizer.h"

typedef struct pc__unigram pc__unigram;

typedef struct pc__unigram_piece {
    const char *text; /* borrowed for the call */
    size_t size;
    int32_t id;
} pc__unigram_piece;

/* `scores`: of all tokens, by id; `lowest`: of the pieces. Reorders the pieces; of equal ones the
 * last id is used, as in `tokenizers`. PC_ERR_NOMEM; PC_ERR_LIMIT: more than 2^32 bytes of pieces.
 */
pc_status pc__unigram_new(pc__unigram **out, const pc_allocator *mem, pc__unigram_piece *pieces,
                          size_t count, const double *scores, size_t tokens, double lowest);
void pc__unigram_free(pc__unigram *model, const pc_allocator *mem); /* NULL does nothing */
/* Adds the scores: what the vocabulary's digest does not cover. */
void pc__unigram_digest(const pc__unigram *model, pc__digest *digest);

/* The result, by byte offset: nodes[begin].next is the end of the piece that begins there, and
 * nodes[end].id is its id, -1 for an unknown character. */
typedef struct pc__unigram_node {
    double score;
    uint32_t next; /* during the search: the begin of the piece that ends here */
    int32_t id;
} pc__unigram_node;

/* nodes [size + 1]. O(size times the longest piece). */
void pc__unigram_search(const pc__unigram *model, const char *text, size_t size,
                        pc__unigram_node *nodes);

#endif
