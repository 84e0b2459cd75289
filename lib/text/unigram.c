/* The pieces in a trie. Its nodes are ordered by depth, then by text: the children of a node are
 * neighbours, and memchr finds one by its byte. */
#include "text/unigram.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "text/tokenizer_internal.h"

struct pc__unigram {
    size_t nodes, tokens;
    uint32_t *child; /* [nodes + 1] the children of node n: child[n] … child[n + 1] - 1 */
    uint8_t *byte;   /* [nodes] that leads there */
    int32_t *piece;  /* [nodes] that ends there, or -1 */
    double *scores;  /* [tokens] */
    double unknown;
};

static int compare_pieces(const void *a, const void *b)
{
    const pc__unigram_piece *x = a, *y = b;
    int order = memcmp(x->text, y->text, x->size < y->size ? x->size : y->size);
    if (order || x->size != y->size)
        return order ? order : x->size < y->size ? -1 : 1;
    return x->id < y->id ? -1 : x->id > y->id;
}

static size_t count_nodes(const pc__unigram_piece *pieces, size_t count)
{
    size_t nodes = 1;
    for (size_t i = 0; i < count; i++) {
        size_t same = 0;
        while (i && same < pieces[i].size && same < pieces[i - 1].size
               && pieces[i].text[same] == pieces[i - 1].text[same])
            same++;
        nodes += pieces[i].size - same;
    }
    return nodes;
}

/* Pieces that share the text of a node: from first to end - 1. */
typedef struct piece_range {
    uint32_t first, end, depth;
} piece_range;

static void fill_trie(pc__unigram *m, const pc__unigram_piece *pieces, size_t count,
                      piece_range *of)
{
    uint32_t next = 1;
    of[0] = (piece_range){0, (uint32_t)count, 0};
    for (size_t n = 0; n < m->nodes; n++) {
        piece_range s = of[n];
        m->piece[n] = -1;
        m->child[n] = next;
        for (; s.first < s.end && pieces[s.first].size == s.depth; s.first++)
            m->piece[n] = s.depth ? pieces[s.first].id : -1;
        while (s.first < s.end) {
            uint32_t end = s.first + 1;
            char byte = pieces[s.first].text[s.depth];
            while (end < s.end && pieces[end].text[s.depth] == byte)
                end++;
            m->byte[next] = (uint8_t)byte;
            of[next++] = (piece_range){s.first, end, s.depth + 1};
            s.first = end;
        }
    }
    m->child[m->nodes] = next;
}

pc_status pc__unigram_new(pc__unigram **out, const pc_allocator *mem, pc__unigram_piece *pieces,
                          size_t count, const double *scores, size_t tokens, double lowest)
{
    pc__unigram *m = *out = pc__calloc(mem, 1, sizeof *m);
    piece_range *of = NULL;
    pc_status status = PC_OK;
    if (!m)
        return PC_ERR_NOMEM;
    if (count)
        qsort(pieces, count, sizeof *pieces, compare_pieces);
    m->nodes = count_nodes(pieces, count);
    m->tokens = tokens;
    m->unknown = lowest - 10.0;
    if (m->nodes > UINT32_MAX - 1)
        status = pc__fail(PC_ERR_LIMIT, "the pieces have %zu bytes; at most 2^32 - 2 are allowed",
                          m->nodes);
    if (status >= 0) {
        m->child = pc__calloc(mem, m->nodes + 1, sizeof *m->child);
        m->byte = pc__calloc(mem, m->nodes, 1);
        m->piece = pc__calloc(mem, m->nodes, sizeof *m->piece);
        m->scores = pc__calloc(mem, tokens, sizeof *m->scores);
        of = pc__calloc(mem, m->nodes, sizeof *of);
        status = m->child && m->byte && m->piece && m->scores && of ? PC_OK : PC_ERR_NOMEM;
    }
    if (status >= 0) {
        memcpy(m->scores, scores, tokens * sizeof *scores);
        fill_trie(m, pieces, count, of);
    } else {
        pc__unigram_free(m, mem);
        *out = NULL;
    }
    pc__free(mem, of);
    return status;
}

void pc__unigram_free(pc__unigram *m, const pc_allocator *mem)
{
    if (!m)
        return;
    pc__free(mem, m->child);
    pc__free(mem, m->byte);
    pc__free(mem, m->piece);
    pc__free(mem, m->scores);
    pc__free(mem, m);
}

void pc__unigram_digest(const pc__unigram *m, pc__digest *digest)
{
    uint64_t bits;
    memcpy(&bits, &m->unknown, sizeof bits);
    pc__digest_u64(digest, bits);
    for (size_t i = 0; i < m->tokens; i++) {
        memcpy(&bits, &m->scores[i], sizeof bits);
        pc__digest_u64(digest, bits);
    }
}

static void offer_piece(pc__unigram_node *node, double score, size_t from, int32_t id)
{
    if (node->next == UINT32_MAX || score > node->score)
        *node = (pc__unigram_node){score, (uint32_t)from, id};
}

/* Offers all pieces that begin at `from`. 1: one of them is the whole character of `one` bytes. */
static int offer_pieces(const pc__unigram *m, const char *text, size_t size, size_t from,
                        size_t one, pc__unigram_node *nodes)
{
    size_t node = 0;
    int single = 0;
    for (size_t i = from; i < size; i++) {
        const uint8_t *row = m->byte + m->child[node];
        size_t width = m->child[node + 1] - m->child[node];
        const uint8_t *at = width ? memchr(row, (uint8_t)text[i], width) : NULL;
        if (!at)
            break;
        node = (size_t)(at - m->byte);
        if (m->piece[node] < 0)
            continue;
        offer_piece(&nodes[i + 1], nodes[from].score + m->scores[m->piece[node]], from,
                    m->piece[node]);
        single |= i + 1 - from == one;
    }
    return single;
}

/* Follows the best path from the end and turns its links round. */
static void reverse_links(pc__unigram_node *nodes, size_t size)
{
    uint32_t end = (uint32_t)size, from = nodes[size].next;
    while (end) {
        uint32_t previous = nodes[from].next;
        nodes[from].next = end;
        end = from;
        from = previous;
    }
}

void pc__unigram_search(const pc__unigram *m, const char *text, size_t size,
                        pc__unigram_node *nodes)
{
    for (size_t i = 0; i <= size; i++)
        nodes[i] = (pc__unigram_node){0.0, UINT32_MAX, -1};
    for (pc__character c = {0}; pc__utf8_next(text, size, &c);)
        if (!offer_pieces(m, text, size, c.at, c.size, nodes))
            offer_piece(&nodes[c.at + c.size], nodes[c.at].score + m->unknown, c.at, -1);
    reverse_links(nodes, size);
}
