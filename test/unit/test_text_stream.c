/* Catches: text that is delivered too early (a stop string was still possible, half a code point),
 * too late, or never; a streamed text that is not that of all tokens together. */
#include "serve/text_stream.h"

#include <stdlib.h>
#include <string.h>

#include "testing.h"
#include "toy_model.h"

static pc_context *context;
static pc_model *model;

/* One case: text in pieces (each piece byte by byte a token), and after every piece what is final.
 */
typedef struct step_case {
    const char *stops[3];
    const char *pieces[6];
    const char *final[6]; /* all that is final after the piece */
    int stopped_at;       /* index of the piece, or -1 */
    const char *flushed;
} step_case;

static const step_case cases[] = {
    {{NULL}, {"he", "llo"}, {"he", "hello"}, -1, "hello"},
    {{"stop"}, {"a s", "to", "ne"}, {"a ", "a ", "a stone"}, -1, "a stone"},
    {{"stop"}, {"a s", "to", "p now"}, {"a ", "a ", "a "}, 2, "a "},
    {{"stop"}, {"a sto"}, {"a "}, -1, "a sto"},
    {{"\nUser"},
     {"yes", "\n", "\n", "Us", "er"},
     {"yes", "yes", "yes\n", "yes\n", "yes\n"},
     4,
     "yes\n"},
    {{"aab"}, {"aaa", "a", "b"}, {"a", "aa", "aa"}, 2, "aa"},
    {{"abc", "b"}, {"xa", "b"}, {"x", "xa"}, 1, "xa"}, /* the one that ends first */
    {{"bc", "abcd"}, {"xab", "c"}, {"x", "xa"}, 1, "xa"},
    {{NULL}, {"\xe2", "\x82", "\xac!"}, {"", "", "\xe2\x82\xac!"}, -1, "\xe2\x82\xac!"},
    {{NULL}, {"ok\xf0\x9f\x98"}, {"ok"}, -1, "ok"}, /* never finished: dropped */
    {{NULL}, {"\xc3", "\xa9t\xc3\xa9"}, {"", "\xc3\xa9t\xc3\xa9"}, -1, "\xc3\xa9t\xc3\xa9"},
    {{"\xc3\xa9"}, {"caf\xc3", "\xa9!"}, {"caf", "caf"}, 1, "caf"},
};

static void run_case(const step_case *c)
{
    pc__text_stream s;
    int32_t tokens[64];
    size_t count = 0, stops = 0;
    int stopped = 0;
    pc__stream_init(&s, model);
    while (stops < 3 && c->stops[stops])
        stops++;
    for (int p = 0; p < 6 && c->pieces[p]; p++) {
        for (const char *b = c->pieces[p]; *b && !stopped; b++) {
            tokens[count++] = TOY_BYTES + (unsigned char)*b;
            CHECK_OK(pc__stream_add(&s, tokens, count, c->stops, stops, &stopped));
        }
        CHECK_INT(stopped, c->stopped_at == p);
        CHECK_INT(s.final, strlen(c->final[p]));
        CHECK(s.final == 0 || !memcmp(s.text.data, c->final[p], s.final));
    }
    if (!stopped)
        pc__stream_flush(&s);
    CHECK_INT(s.final, strlen(c->flushed));
    CHECK(s.final == 0 || !memcmp(s.text.data, c->flushed, s.final));
    pc__stream_end(&s);
}

/* Random tokens, words and bytes: what is final is always a prefix of the text of all tokens, whole
 * code points only. */
static void random_tokens(void)
{
    pc_test_rng rng = {9};
    static const char *const stops[] = {"zz", " the a"};
    for (int round = 0; round < 200; round++) {
        pc__text_stream s, copy;
        int32_t tokens[40];
        char whole[512];
        size_t size = 0;
        int stopped = 0, same;
        pc__stream_init(&s, model);
        for (size_t n = 1; n <= 40 && !stopped; n++) {
            uint64_t bits = pc_test_bits(&rng);
            tokens[n - 1] = bits % 3 ? TOY_WORDS + (int32_t)((bits >> 8) % 44)
                                     : TOY_BYTES + (int32_t)(bits >> 8 & 0xff);
            if (tokens[n - 1] >= TOY_VOCAB || tokens[n - 1] < 0)
                tokens[n - 1] = TOY_EOS; /* no text */
            CHECK_OK(pc__stream_add(&s, tokens, n, stops, 2, &stopped));
            CHECK_OK(pc_detokenize(model, tokens, n, 0, whole, sizeof whole, &size));
            same = s.final <= size && (s.final == 0 || !memcmp(s.text.data, whole, s.final));
            CHECK(same);
            CHECK_INT(pc__utf8_unfinished(s.text.data ? s.text.data : "", s.final), 0);
            CHECK(stopped || s.text.size == size);
        }
        CHECK_OK(pc__stream_copy(&copy, &s));
        pc__stream_flush(&copy);
        CHECK(stopped || copy.final + 3 >= size);
        pc__stream_end(&copy);
        pc__stream_end(&s);
    }
}

static void unfinished(void)
{
    CHECK_INT(pc__utf8_unfinished("", 0), 0);
    CHECK_INT(pc__utf8_unfinished("abc", 3), 0);
    CHECK_INT(pc__utf8_unfinished("\xe2", 1), 1);
    CHECK_INT(pc__utf8_unfinished("a\xe2\x82", 3), 2);
    CHECK_INT(pc__utf8_unfinished("\xe2\x82\xac", 3), 0);
    CHECK_INT(pc__utf8_unfinished("\xf0\x9f\x98", 3), 3);
    CHECK_INT(pc__utf8_unfinished("\xf0\x9f\x98\x80", 4), 0);
    CHECK_INT(pc__utf8_unfinished("\x82\x82\x82\x82", 4),
              0); /* no beginning at all: nothing to wait for */
    CHECK_INT(pc__utf8_unfinished("\xff", 1), 0);
}

int main(void)
{
    pc_model_ops ops = pc_toy_ops();
    CHECK_OK(pc_context_new(&context, NULL));
    CHECK_OK(pc_model_from_ops(&model, context, &ops, pc_toy_new(1, 0, 0), pc_toy_free, NULL));
    if (model) {
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
            run_case(&cases[i]);
        random_tokens();
        unfinished();
    }
    pc_model_free(model);
    pc_context_free(context);
    return pc_test_end();
}
