/* Catches: a step of a normaliser that changes wrong characters or invalid bytes; a step that is
 * skipped or runs in the wrong order. */
#include "text/normalise.h"

#include <string.h>
#include <utf8proc.h>

#include "testing.h"

/* "A" becomes "a". */
static const uint8_t map[] = {12, 0, 0, 0, 0, 0, 1, 0, 0x41, 0x0d, 0, 0, 0, 0, 0, 0x80, 'a', 0};

static void check(const pc__steps *s, const char *text, const char *want)
{
    pc__bytes out = {.mem = &pc__libc_allocator};
    if (CHECK_OK(pc__steps_run(s, text, strlen(text), &out))
        && !CHECK(out.size == strlen(want) && !memcmp(out.data ? out.data : "", want, out.size)))
        fprintf(stderr, "    \"%s\": got \"%.*s\", want \"%s\"\n", text, (int)out.size, out.data,
                want);
    pc__bytes_free(&out);
}

static void one(pc__step_kind kind, int option, const char *text, const char *want)
{
    pc__steps *s = NULL;
    if (CHECK_OK(pc__steps_new(&s, &pc__libc_allocator))
        && CHECK_OK(pc__steps_add(s, kind, option)))
        check(s, text, want);
    pc__steps_free(s);
}

static void texts(pc__step_kind kind, const char *from, const char *to, const char *text,
                  const char *want)
{
    pc__steps *s = NULL;
    if (CHECK_OK(pc__steps_new(&s, &pc__libc_allocator))
        && CHECK_OK(pc__steps_add_texts(s, kind, (pc__text){from, strlen(from)},
                                        (pc__text){to, strlen(to)}, "test")))
        check(s, text, want);
    pc__steps_free(s);
}

static void maps(pc__step_kind kind, const char *text, const char *want)
{
    pc__steps *s = NULL;
    if (CHECK_OK(pc__steps_new(&s, &pc__libc_allocator))
        && CHECK_OK(pc__steps_add_map(s, kind, map, sizeof map, "test")))
        check(s, text, want);
    pc__steps_free(s);
}

/* "b" for "a", then "c" for "b", then one more in front: only in this order is it "cccc". */
static void order(void)
{
    static const char *const steps[][2] = {{"a", "bb"}, {"b", "c"}};
    pc__steps *s = NULL;
    if (!CHECK_OK(pc__steps_new(&s, &pc__libc_allocator)))
        return;
    check(s, "as it is", "as it is");
    for (size_t i = 0; i < 2; i++)
        CHECK_OK(pc__steps_add_texts(s, PC__STEP_REPLACE, (pc__text){steps[i][0], 1},
                                     (pc__text){steps[i][1], strlen(steps[i][1])}, "test"));
    check(s, "aa", "cccc");
    CHECK_OK(pc__steps_add(s, PC__STEP_STRIP, 3));
    CHECK_OK(
        pc__steps_add_texts(s, PC__STEP_PREPEND, (pc__text){"", 0}, (pc__text){"_", 1}, "test"));
    check(s, " a ", "_cc");
    check(s, "  ", "");
    pc__steps_free(s);
}

int main(void)
{
    one(PC__STEP_LOWERCASE, 0, "AbC \xc3\x84\xce\xa3 \xc4\xb0\xff",
        "abc \xc3\xa4\xcf\x83 i\xcc\x87\xff");
    one(PC__STEP_STRIP_MARKS, 0,
        "a\xcc\x81"
        "b\xe0\xa4\xbe\xff\xc3\xa9",
        "ab\xff\xc3\xa9");
    one(PC__STEP_UNICODE, UTF8PROC_STABLE | UTF8PROC_COMPOSE,
        "e\xcc\x81\xff"
        "e\xcc\x81\xef\xac\x81",
        "\xc3\xa9\xff\xc3\xa9\xef\xac\x81");
    one(PC__STEP_UNICODE, UTF8PROC_STABLE | UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT,
        "\xc3\xa9\xef\xac\x81",
        "e\xcc\x81"
        "fi");
    one(PC__STEP_STRIP, 3,
        " \t\xe3\x80\x80"
        "a b\xc2\xa0\n",
        "a b");
    one(PC__STEP_STRIP, 1, " a ", "a ");
    one(PC__STEP_STRIP, 2, " a ", " a");
    one(PC__STEP_STRIP, 0, " a ", " a ");
    one(PC__STEP_STRIP, 2, "   ", "");
    one(PC__STEP_STRIP, 3, "\xff ", "\xff");
    one(PC__STEP_ONE_BLANK, 0, "  a   b \tc ", "a b \tc");
    one(PC__STEP_ONE_BLANK, 0, "   ", "");
    one(PC__STEP_CONTROLS, 0,
        "a\x01\tb\x7f\xe2\x80\x8b"
        "c\xc2\x8f\xc2\x85",
        "a b c\xc2\x85");
    texts(PC__STEP_REPLACE, "``", "\"", "``a``` `", "\"a\"` `");
    texts(PC__STEP_REPLACE, "aa", "a", "aaaaa", "aaa");
    texts(PC__STEP_REPLACE, "ab", "", "aab", "a");
    texts(PC__STEP_EXPRESSION, " {2,}", " ", "a   b  c d\xff  ", "a b c d\xff ");
    texts(PC__STEP_EXPRESSION, "x*", "y", "axx", "axx"); /* what matches nothing ends the search */
    texts(PC__STEP_PREPEND, "", "_", "a", "_a");
    texts(PC__STEP_PREPEND, "", "_", "", "");
    maps(PC__STEP_MAP_LONGEST,
         "AB\xff"
         "A\xcc\x81",
         "aB\xff"
         "a\xcc\x81");
    maps(PC__STEP_MAP_CLUSTERS,
         "AB\xff"
         "A",
         "aB\xff"
         "a");
    maps(PC__STEP_MAP_CLUSTERS, "A\xcc\x81",
         "a"); /* the cluster as one, because the map has its beginning */
    maps(PC__STEP_MAP_CLUSTERS, "A\xcc\x81\xcc\x81\xcc\x81",
         "a\xcc\x81\xcc\x81\xcc\x81"); /* a longer one by characters */
    order();
    return pc_test_end();
}
