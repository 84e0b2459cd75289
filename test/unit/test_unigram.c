/* Catches: a split of a text that is not the best of all, an unknown character that does not cost
 * the lowest score - 10, pieces that are found where they are not, time that is not linear in the
 * text. Compares with all splits, over random vocabularies and texts. */
#include "text/unigram.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "testing.h"

enum { MOST = 24 };

typedef struct vocabulary {
    char text[MOST][8];
    double score[MOST];
    pc__unigram_piece piece[MOST];
    size_t count;
    double lowest;
} vocabulary;

static void make(vocabulary *v, pc_test_rng *rng)
{
    v->count = 1 + pc_test_bits(rng) % (MOST - 1);
    v->lowest = 0.0;
    for (size_t i = 0; i < v->count; i++) {
        size_t size = 1 + pc_test_bits(rng) % 4;
        for (size_t c = 0; c < size; c++)
            v->text[i][c] = "abc"[pc_test_bits(rng) % 3];
        v->text[i][size] = 0;
        v->score[i] = -(double)(pc_test_bits(rng) % 1000) / 64.0 - 1.0;
        v->lowest = v->score[i] < v->lowest ? v->score[i] : v->lowest;
        v->piece[i] = (pc__unigram_piece){v->text[i], size, (int32_t)i};
    }
}

/* The last piece of this text, or -1. */
static int find(const vocabulary *v, const char *text, size_t size)
{
    int found = -1;
    for (size_t i = 0; i < v->count; i++)
        if (strlen(v->text[i]) == size && !memcmp(v->text[i], text, size))
            found = (int)i;
    return found;
}

/* The best sum of all divisions. */
static double best(const vocabulary *v, const char *text, size_t size)
{
    double most = -1e30;
    for (size_t n = 1; n <= size && n <= 4; n++) {
        int id = find(v, text, n);
        double rest;
        if (id < 0 && n > 1)
            continue;
        rest = (id < 0 ? v->lowest - 10.0 : v->score[id])
               + (n == size ? 0.0 : best(v, text + n, size - n));
        most = rest > most ? rest : most;
    }
    return most;
}

static void compare(pc_test_rng *rng)
{
    vocabulary v;
    pc__unigram *m = NULL;
    char text[11];
    pc__unigram_node nodes[12];
    double sum = 0.0;
    size_t size = 1 + pc_test_bits(rng) % 10;
    make(&v, rng);
    for (size_t i = 0; i < size; i++)
        text[i] = "abcd"[pc_test_bits(rng) % 4];
    if (!CHECK_OK(
            pc__unigram_new(&m, &pc__libc_allocator, v.piece, v.count, v.score, v.count, v.lowest)))
        return;
    pc__unigram_search(m, text, size, nodes);
    for (size_t i = 0; i < size;) {
        size_t end = nodes[i].next;
        int32_t id = nodes[end].id;
        if (!CHECK(end > i && end <= size))
            break;
        CHECK(id < 0 ? end == i + 1 && find(&v, text + i, 1) < 0
                     : find(&v, text + i, end - i) == id);
        sum += id < 0 ? v.lowest - 10.0 : v.score[id];
        i = end;
    }
    CHECK(sum == best(&v, text, size)); /* the scores are such that sums are exact */
    pc__unigram_free(m, &pc__libc_allocator);
}

/* Characters, not bytes, are unknown; bytes that are no character are so one by one. */
static void characters(void)
{
    pc__unigram_piece piece = {"a", 1, 0};
    const double score = -1.0;
    static const char text[] = "\xe4\xb8\xad"
                               "a\xff\xc3";
    static const uint32_t next[] = {3, 0, 0, 4, 5, 6};
    pc__unigram_node nodes[7];
    pc__unigram *m = NULL;
    if (!CHECK_OK(pc__unigram_new(&m, &pc__libc_allocator, &piece, 1, &score, 1, -1.0)))
        return;
    pc__unigram_search(m, text, 6, nodes);
    for (size_t i = 0; i < 6; i += i ? 1 : 3)
        CHECK_INT(nodes[i].next, next[i]);
    CHECK(nodes[3].id == -1 && nodes[4].id == 0 && nodes[5].id == -1 && nodes[6].id == -1);
    pc__unigram_free(m, &pc__libc_allocator);
}

static double seconds(const pc__unigram *m, const char *text, size_t size, pc__unigram_node *nodes)
{
    clock_t start = clock();
    pc__unigram_search(m, text, size, nodes);
    return (double)(clock() - start) / CLOCKS_PER_SEC;
}

/* Sixteen times the text, and not much more than sixteen times the time: a search that were
 * quadratic would take 256 times as long. */
static void linear(void)
{
    enum { SIZE = 1 << 20 };
    static const char *const texts[] = {"a", "aa", "aaaaaaaaaaaaaaaa"};
    pc__unigram_piece pieces[3];
    const double scores[3] = {-1.0, -1.5, -2.0};
    char *text = malloc(SIZE);
    pc__unigram_node *nodes = malloc((SIZE + 1) * sizeof *nodes);
    pc__unigram *m = NULL;
    for (size_t i = 0; i < 3; i++)
        pieces[i] = (pc__unigram_piece){texts[i], strlen(texts[i]), (int32_t)i};
    memset(text, 'a', SIZE);
    if (CHECK_OK(pc__unigram_new(&m, &pc__libc_allocator, pieces, 3, scores, 3, -2.0))) {
        double few = seconds(m, text, SIZE / 16, nodes), many = seconds(m, text, SIZE, nodes);
        CHECK_INT(nodes[0].next, 16);
        CHECK(many < 100.0 * few + 0.5);
    }
    pc__unigram_free(m, &pc__libc_allocator);
    free(nodes);
    free(text);
}

int main(void)
{
    pc_test_rng rng = {11};
    for (int i = 0; i < 3000; i++)
        compare(&rng);
    characters();
    linear();
    return pc_test_end();
}
