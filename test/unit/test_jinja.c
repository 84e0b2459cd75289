/* Catches: Jinja that runs wrongly where real chat templates do not use it (precedence, scopes,
 * blanks, branches that are not computed), invalid Jinja that runs, errors without their line,
 * templates that never end or allocate without limit, failed allocations that leak. Real templates:
 * test/golden/test_chat_templates.c. */
#include "text/jinja.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "testing.h"

static const pc__jinja_message talk[] = {
    {"system", "Be brief."}, {"user", " Hi\nthere "}, {"assistant", "Yes?"}, {"user", "Who?"}};
static const pc__jinja_input input = {.messages = talk, .count = 4, .bos = "<s>", .generate = 1};

static pc_status run(const char *source, pc__bytes *out, const pc_allocator *mem)
{
    pc__jinja *jinja;
    *out = (pc__bytes){.mem = mem};
    pc_status status = pc__jinja_new(&jinja, mem, source);
    if (status >= 0)
        status = pc__jinja_run(jinja, out, &input);
    pc__jinja_free(jinja);
    return status;
}

/* What each gives is jinja2 3.1's. */
static void gives(void)
{
    static const struct {
        const char *source, *want;
    } cases[] = {
        {"", ""},
        {"a\n", "a"},
        {"a\n\n", "a\n"},
        {"{{ 1 + 2 * 3 - 4 }} {{ 7 % 3 }} {{ -7 % 3 }} {{ -2 + 3 }}", "3 1 2 1"},
        {"{{ 'a' ~ 1 + 1 ~ 'b' }}", "a11b"},
        {"{{ 'x' + ' y ' | trim + 'z' }}", "xyz"},
        {"{{ 1 == 1 and not 2 == 3 or false }}{{ none }}{{ nothing }}", "TrueNone"},
        {"{{ not true or true }} {{ not (true or true) }}", "True False"},
        {"{{ 'b' in 'abc' }} {{ 'z' not in ['a'] }} {{ 'role' in messages[0] }} {{ 2 in [1, 2] }}",
         "True True True True"},
        {"{{ 'a' if nothing else 'b' }}{{ 'c' if nothing }}{{ ('d' if true else nothing.x.y) }}",
         "bd"},
        {"{{ true or nothing.x.y }} {{ false and nothing.x.y }}", "True False"},
        {"{{ messages[-1].content }}{{ messages[1:3] | length }}{{ messages[::-1][0]['role'] }}",
         "Who?2user"},
        {"{{ 'abcdef'[1:-1] }} {{ 'abcdef'[::-2] }} {{ '\xc3\xa9t\xc3\xa9'[0] }}{{ "
         "'\xc3\xa9t\xc3\xa9' | length }}",
         "bcde fdb \xc3\xa9"
         "3"},
        {"{{ 'it''s' }} {{ \"a\\n'b'\\\\\" }} {{ 'a' \"b\" }}", "its a\n'b'\\ ab"},
        {"{{ '}}' }}{{ {'a': {'b': 1}}.a.b }}{{ ((1, 2), 3)[0][1] }}{{ [] is iterable }}",
         "}}"
         "12True"},
        {"{% set x = 1 %}{% for i in [5] %}{% set x = 2 %}{{ x }}{% endfor %}{{ x }}{% if 1 %}"
         "{% set x = 3 %}{% endif %}{{ x }}",
         "213"},
        {"{% set n = namespace(x=1) %}{% for i in range(4) %}{% set n.x = n.x + i %}{% endfor %}"
         "{{ n.x }}",
         "7"},
        {"{% for k, v in {'a': 1, 'b': 2}.items() %}{{ k }}{{ v }}{{ ', ' if not loop.last }}{% "
         "endfor %}",
         "a1, b2"},
        {"{% for i in range(9) if i is odd %}{{ loop.index }}/{{ loop.length }}:{{ i }} {% "
         "endfor %}",
         "1/4:1 2/4:3 3/4:5 4/4:7 "},
        {"{% for i in [] %}x{% else %}none{% endfor %}{% for i in 'ab' %}{{ i }}-{% endfor %}",
         "nonea-b-"},
        {"{% for i in range(9) %}{% if i == 1 %}{% continue %}{% endif %}{% if i > 3 %}{% break "
         "%}{% endif %}{{ i }}{% endfor %}",
         "023"},
        {"{% macro m(a, b='z') %}[{{ a }}{{ b }}]{% endmacro %}{{ m(1) }}{{ m(b='y', a='x') }}"
         "{{ m('p', 'q') }}",
         "[1z][xy][pq]"},
        {"{% macro m(n) %}{{ n }}{% if n %}{{ m(n - 1) }}{% endif %}{% endmacro %}{{ m(4) }}",
         "43210"},
        {"{% macro m(a, b, c, d, e, f, g, h, i, j, k, l, n, o, p, q, r, s, t, u) %}y{% endmacro %}"
         "{% set n = namespace(x=0) %}{% set n.x = m() %}{{ n.x }}", /* the variables move */
         "y"},
        {"{% set t %}a{{ 1 }}{% endset %}{{ t | upper }}", "A1"},
        {"  {% if true %}  \n  b\n  {% endif %}\nc", "  \n  b\nc"},
        {"a  {{- 'b' -}}  \n c {%+ if true -%}\n d{% endif %}", "abc d"},
        {"{# {{ no }} #}\nx{%- if false %} y {% elif 1 > 2 %} z {% else %} w {%- endif %}\n",
         "x w"},
        {"{{ '%s' | replace('%', '$') }} {{ 'a b'.split(' ') | join('+') }} {{ ' ab '.strip('a "
         "') }} {{ 'ab'.title() }}",
         "$s a+b b Ab"},
        {"{{ nothing | default('d') }}{{ '' | default('e', true) }}{{ nothing is undefined }}{{ "
         "messages is not string }}",
         "deTrueTrue"},
        {"{{ messages | selectattr('role', 'equalto', 'user') | map(attribute='content') | list "
         "| last }}",
         "Who?"},
        {"{{ messages | rejectattr('role', 'equalto', 'user') | map(attribute='role') | "
         "join(',') }}{{ tools | map('x') | list | length }}",
         "system,assistant0"},
        {"{{ bos_token }}{{ eos_token is defined }}{{ tools is none }}{{ strftime_now is "
         "defined }}",
         "<s>FalseTrueFalse"},
        {"{{ 'abc'.startswith('ab') and 'abc'.endswith('bc') and not 'abc'.startswith('b') }}",
         "True"},
        {"{% if false %}{{ messages | nonesuch(1, x=[2]) }}{{ unheard_of() }}{% call x() %}{% "
         "endcall %}{% endif %}.",
         "."},
        {"{% generation %}a{% endgeneration %}", "a"},
        /* "else" of a loop: if no run of its body has reached the end */
        {"{% for i in 'ab' %}{% break %}{% else %}e{% endfor %}"
         "{% for i in 'ab' %}{% continue %}{% else %}f{% endfor %}"
         "{% for i in 'ab' %}{% if i == 'b' %}{% break %}{% endif %}{% else %}g{% endfor %}",
         "ef"},
        {"{{ 1 < 3 < 2 }}{{ 1 < 2 < 3 }}{{ 2 == 2 in [2] }}{{ 3 > 2 > 2 }}", "FalseTrueTrueFalse"},
        {"{{ 'abc'.startswith(('x', 'ab')) }}{{ 'abc'.endswith(('x', 'y')) }}", "TrueFalse"},
        {"{{ 'a-b c (d' | title }} {{ \"it's 2nd\".title() }} {{ 'x-yZ' | capitalize }}",
         "A-B C (D It'S 2Nd X-yz"},
        {"{{ '\xc3\xa9T\xc3\x89'.title() }}{{ '\xc3\xa9' | upper }}{{ '\xd0\x96' | lower }}",
         "\xc3\x89t\xc3\xa9\xc3\x89\xd0\xb6"},
        {"[{{ '\xc2\xa0 a\xe2\x80\x83' | trim }}][{{ '\xc3\xa9\xc3\xa8z'.strip('\xc3\xa8\xc3\xa9') "
         "}}]",
         "[a][z]"},
        {"{{ 1 if [] | map('upper') else 2 }}{{ 1 if messages | selectattr('x') else 2 }}"
         "{{ 1 if [] | select | list else 2 }}",
         "112"},
        {"{{ nothing is callable }}{{ 'a' is callable }}{{ range is callable }}", "TrueFalseTrue"},
        /* names: a macro sees where it was defined, a set block keeps its own */
        {"{% macro m() %}{{ i }}{% endmacro %}{% for i in 'ab' %}{{ m() }}{% endfor %}.", "."},
        {"{% set x %}{% set y = 1 %}a{% endset %}{{ x }}{{ y }}", "a"},
        {"{{ {'a': 1, 'a': 2} == {'a': 2} }}{{ (1, 2) == [1, 2] }}", "TrueFalse"},
        {"{{ {'items': 1}['items'] }}{{ 'x' * 2 }}{{ 7 // 2 }}{{ -7 // 2 }}{{ 2 ** 3 }}",
         "1xx3-48"},
        {"{{ ' a b '.split() | length }}{{ 'a,b,c'.split(',', 1)[1] }}", "2b,c"},
        {"{{ 'a\\x41\\u00e9\\q' }}", "aA\xc3\xa9\\q"},
        {"{% for i in messages[0].items() %}{{ i[0] }} {% endfor %}", "role content "},
        {"a\r\n{% if true %}\r\nb\r{% endif %}", "a\nb\n"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        pc__bytes out;
        if (!CHECK_OK(run(cases[i].source, &out, &pc__libc_allocator))
            || !CHECK_STR(out.data ? out.data : "", cases[i].want))
            fprintf(stderr, "    %s\n", cases[i].source);
        pc__bytes_free(&out);
    }
}

static void refused(void)
{
    static const struct {
        const char *source;
        pc_status status;
        const char *cause;
    } cases[] = {
        {"a\n{{ 'b", PC_ERR_FORMAT, "line 2: \"{{\" is not closed"},
        {"{{ 'b }}", PC_ERR_FORMAT, "line 1: \"{{\" is not closed"},
        {"a {% if x", PC_ERR_FORMAT, "not closed"},
        {"{% if true %}a", PC_ERR_FORMAT, "no end"},
        {"{% for x in [1] %}a{% endif %}", PC_ERR_FORMAT, "the end of another"},
        {"{% if true %}a{% endfor %}", PC_ERR_FORMAT, "the end of another"},
        {"a{% endif %}", PC_ERR_FORMAT, "has no beginning"},
        {"{{ }}", PC_ERR_FORMAT, "too early"},
        {"{{ 1 + }}", PC_ERR_FORMAT, "too early"},
        {"{{ (1 }}", PC_ERR_FORMAT, "')' is missing"},
        {"{{ [1, 2 }}", PC_ERR_FORMAT, "']' is missing"},
        {"{{ 'a' 1 }}", PC_ERR_FORMAT, "not understood"},
        {"{{ 'a' | nonesuch }}", PC_ERR_UNSUPPORTED, "'nonesuch' is not known"},
        {"{{ 'a' is nonesuch }}", PC_ERR_UNSUPPORTED, "'nonesuch' is not known"},
        {"{{ 'a'.nonesuch() }}", PC_ERR_UNSUPPORTED, "method 'nonesuch'"},
        {"\n\n{{ nonesuch(1) }}", PC_ERR_UNSUPPORTED, "line 3: function 'nonesuch'"},
        {"{% include 'x' %}", PC_ERR_UNSUPPORTED, "include"},
        {"{{ nothing.x }}", PC_ERR_FORMAT, "'x' of an undefined value"},
        {"{{ 'a' + 1 }}", PC_ERR_FORMAT, "'+'"},
        {"{{ 1 % 0 }}", PC_ERR_FORMAT, "'%'"},
        {"{{ 2 * 99999999999 }}", PC_ERR_FORMAT, "'*'"},
        {"{{ messages }}", PC_ERR_UNSUPPORTED, "cannot be printed"},
        {"{% set a.b = 1 %}", PC_ERR_FORMAT, "'a' is no namespace"},
        {"{% for a, b in [[1]] %}{% endfor %}", PC_ERR_FORMAT, "2 names"},
        {"{% for a in 5 %}{% endfor %}", PC_ERR_FORMAT, "holds nothing"},
        {"{% set x = [] %}{{ x.append(1) }}", PC_ERR_UNSUPPORTED, "'append'"}, /* the sandbox */
        {"{{ messages[0].items }}", PC_ERR_UNSUPPORTED, "without a call"},
        {"{{ messages | map(attribute='x') | length }}", PC_ERR_FORMAT, "'length'"},
        {"{{ messages | map(attribute='role') | last }}", PC_ERR_FORMAT, "'last'"},
        {"{% set g = 'ab' | map('upper') %}{{ g | join }}{{ g | join }}", PC_ERR_UNSUPPORTED,
         "used twice"},
        {"{{ 'stra\xc3\x9f"
         "e' | upper }}",
         PC_ERR_UNSUPPORTED, "such letters"},
        {"{{ 'a' | trim('b', 'c') }}", PC_ERR_FORMAT, "these arguments"},
        {"{% macro m(a) %}{% endmacro %}{{ m(1, 2) }}", PC_ERR_FORMAT, "these arguments"},
        {"{% set n = namespace(x=0) %}{% for i in [1] if n.x == 0 %}{% endfor %}",
         PC_ERR_UNSUPPORTED, "reads a namespace"},
        {"{% if false %}{% endfor %}{% endif %}", PC_ERR_FORMAT, "end of another"},
        {"{% raw %}{{ a }}{% endraw %}", PC_ERR_UNSUPPORTED, "raw"},
        {"{{ 1.5 }}", PC_ERR_UNSUPPORTED, "not a decimal integer"},
        {"{% break %}", PC_ERR_FORMAT, "outside of a loop"},
        {"\xff", PC_ERR_FORMAT, "not UTF-8"},
        {"\n{{ raise_exception('Roles must alternate') }}", PC_ERR_INVALID,
         "line 2: the "
         "template refuses: Roles must alternate"},
        {"{% for a in range(100000) %}{% for b in range(100000) %}{% endfor %}{% endfor %}",
         PC_ERR_LIMIT, "more than"},
        {"{% for a in range(900) %}{% for b in range(900) %}{% endfor %}{% endfor %}", PC_ERR_LIMIT,
         "more than"},
        {"{% for a in range(99999999999) %}{% endfor %}", PC_ERR_LIMIT, "more than"},
        {"{% macro m(n) %}{{ m(n) }}{% endmacro %}{{ m(1) }}", PC_ERR_LIMIT, "nested"},
        {"{% set n = namespace(x='xxxxxxxx') %}{% for a in range(60) %}{% set n.x = n.x + n.x %}"
         "{% endfor %}",
         PC_ERR_LIMIT, "bytes"},
        {"{% set n = namespace(x='xxxxxxxx') %}{% for a in range(12) %}{% set n.x = n.x + n.x %}"
         "{% endfor %}"
         "{% for a in range(99) %}{{ n.x }}{% endfor %}",
         PC_ERR_LIMIT, "bytes"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        pc_test_memory memory = {0};
        const pc_allocator mem = pc_test_allocator(&memory);
        pc__bytes out;
        if (!CHECK_STATUS(run(cases[i].source, &out, &mem), cases[i].status))
            fprintf(stderr, "    %s\n", cases[i].source);
        CHECK_ERROR_HAS(cases[i].cause);
        pc__bytes_free(&out);
        CHECK_INT(memory.live_blocks, 0);
    }
}

/* Deep brackets, long chains: refused, or done, but no stack runs over. */
static void deep(void)
{
    static const char *const around[][3] = {{"{{ ", "(", " }}"},       {"{{ ", "[", " }}"},
                                            {"{{ ", "not ", "x }}"},   {"{{ ", "-", "1 }}"},
                                            {"{{ x", "[", " }}"},      {"{{ 'a'", " | trim", " }}"},
                                            {"", "{% if true %}", ""}, {"{{ 1", " + 1", " }}"},
                                            {"{{ {1:", "{1:", " }}"},  {"{{ x", ".f(x", " }}"}};
    static char source[200000];
    for (size_t i = 0; i < sizeof around / sizeof *around; i++) {
        pc__bytes out;
        strcpy(source, around[i][0]);
        char *end = source + strlen(source);
        for (int n = 0; n < 9000; n++)
            end += strlen(strcpy(end, around[i][1]));
        strcpy(end, around[i][2]);
        CHECK(run(source, &out, &pc__libc_allocator) <= PC_OK);
        pc__bytes_free(&out);
    }
}

static void no_memory(void)
{
    static const char source[] = "{% macro m(t) %}{{ t | trim }}{% endmacro %}{% set n = "
                                 "namespace(i=0, all=[]) %}"
                                 "{% for x in messages if x.role != 'system' %}{% set n.i = n.i "
                                 "+ 1 %}{{ m(x.content) ~ n.i }}"
                                 "{% set t %}{{ x['role'] }}{% endset %}{{ t.upper().split('S') "
                                 "| join('/') }}{{ [1, t][1:] | length }}{% endfor %}";
    uint64_t failures = 0;
    for (int more = 1; more;) {
        pc_test_memory memory = {.fail_at = ++failures};
        const pc_allocator mem = pc_test_allocator(&memory);
        pc__bytes out;
        pc_status status = run(source, &out, &mem);
        more = memory.calls >= failures;
        if (more)
            CHECK_STATUS(status, PC_ERR_NOMEM);
        else if (CHECK_OK(status))
            CHECK_STR(out.data, "Hi\nthere1U/ER1Yes?2A//I/TANT1Who?3U/ER1");
        pc__bytes_free(&out);
        CHECK_INT(memory.live_blocks, 0);
    }
    CHECK(failures > 6);
}

/* Builds and runs a template; the time of this thread in ms. */
static double time_of(const char *source, pc_status *status)
{
    struct timespec from, to;
    pc__bytes out;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &from);
    *status = run(source, &out, &pc__libc_allocator);
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &to);
    pc__bytes_free(&out);
    return (double)(to.tv_sec - from.tv_sec) * 1e3 + (double)(to.tv_nsec - from.tv_nsec) * 1e-6;
}

/* What one template may take of one core. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { MOST_MS = 2000 };
#else
enum { MOST_MS = 50 };
#endif

static double longest; /* ms */

static void check_time(const char *source, int ends)
{
    pc_status status;
    double ms = time_of(source, &status);
    longest = ms > longest ? ms : longest;
    if (!CHECK(ms < MOST_MS) || (ends && !CHECK_STATUS(status, PC_ERR_LIMIT)))
        fprintf(stderr, "    %.1f ms: %.200s\n", ms, source);
}

/* Expressions that cost by the length of n.x, a long string, or of n.l, a long list. */
static const char *const costly[] = {"n.x.strip('ab')",
                                     "n.x.strip('b')",
                                     "n.x.rstrip(n.x)",
                                     "('c' in n.x)",
                                     "(n.x in n.x)",
                                     "(n.x + 'c' in n.x)",
                                     "(n.x | length)",
                                     "n.x[::-1]",
                                     "n.x[1:]",
                                     "(n.x | list | length)",
                                     "(n.x | join('-'))",
                                     "n.x.split('a')",
                                     "n.x.split()",
                                     "n.x.replace('a', 'bb')",
                                     "n.x.upper()",
                                     "(n.x | title)",
                                     "(n.x ~ n.x)",
                                     "(n.x + n.x)",
                                     "(n.x == n.x ~ '')",
                                     "(n.x < n.x ~ 'c')",
                                     "n.x.startswith(n.x)",
                                     "n.x.endswith(('c', n.x, 'd'))",
                                     "n.x.find('c')",
                                     "n.x.count('ab')",
                                     "n.x[-1]",
                                     "(n.x | first)",
                                     "(n.x | last)",
                                     "(n.x * 3)",
                                     "'c'.join(n.l)",
                                     "(n.l + n.l)",
                                     "(n.l == n.l + [])",
                                     "('q' in n.l)",
                                     "(n.l | map('upper') | list)",
                                     "n.l[::2]",
                                     "(n.l | select('string') | join)",
                                     "namespace(x=n.x).x",
                                     "dict(n.m)",
                                     "n.m.items()",
                                     "n.m.get('q')",
                                     "(n.m == dict(n.m))",
                                     "m(n.x)",
                                     "(n.x | trim(n.x))",
                                     "(n.x is equalto n.x)",
                                     "(n.l | reject('in', n.l) | list)",
                                     "(n.x | replace('b', n.x))",
                                     "n.l[-1]",
                                     "(n.l | last)",
                                     "{n.x: 1, n.x ~ 'a': 2}",
                                     "(n.x | capitalize)",
                                     "(n.x | string | default('') | d('q'))"};
enum { COSTLY = sizeof costly / sizeof *costly };

/* A string of 2 << doublings bytes and a list of `items`, and loops around costly expressions. */
static void costly_template(char *source, size_t size, unsigned doublings, unsigned items,
                            const unsigned op[3], unsigned loops)
{
    snprintf(source, size,
             "{%% macro m(t) %%}{{ t }}{%% endmacro %%}{%% set n = namespace(x='ab', l=range(%u) | "
             "map('string') | list, m={'a': 1, 'b': 2, 3: 4}) %%}{%% for i in range(%u) %%}"
             "{%% set n.x = n.x + n.x %%}{%% endfor %%}{%% for i in range(%u) %%}"
             "{%% for j in range(%u) %%}{%% set a = %s %%}{%% set b = %s %%}{%% set c = %s %%}"
             "{%% endfor %%}{%% endfor %%}",
             items, doublings, loops, loops, costly[op[0]], costly[op[1]], costly[op[2]]);
}

/* Work is counted by bytes touched: however long a text takes, it ends. */
static void slow(void)
{
    static const char short_one[] = /* 188 bytes: a string of 128 KiB is stripped 90000 times */
        "{% set n = namespace(x='ab') %}{% for i in range(16) %}{% set n.x = n.x + n.x %}{% endfor "
        "%}{% for i in range(300) %}{% for k in range(300)  %}{{ n.x.strip('ba') }}{% endfor "
        "%}{% endfor %}";
    char source[1024];
    CHECK_INT(sizeof short_one - 1, 188);
    check_time(short_one, 1);
    for (unsigned i = 0; i < COSTLY; i++) {
        costly_template(source, sizeof source, 15, 3000, (const unsigned[]){i, i, i}, 500);
        check_time(source, 1);
        costly_template(source, sizeof source, 5, 20, (const unsigned[]){i, i, i}, 500);
        check_time(source, 1);
    }
    uint64_t seed = 7;
    int count = getenv("PC_TEST_LONG") ? 5000 : 60;
    for (int i = 0; i < count; i++) {
        unsigned r[5];
        for (int k = 0; k < 5; k++) {
            seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407u;
            r[k] = (unsigned)(seed >> 33);
        }
        costly_template(source, sizeof source, r[3] % 18, r[4] % 5000,
                        (const unsigned[]){r[0] % COSTLY, r[1] % COSTLY, r[2] % COSTLY}, 500);
        check_time(source, 0);
    }
}

/* Long texts: reading takes time in proportion, or ends. */
static void long_texts(void)
{
    static const char *const around[][3] = {
        {"{{ ", "(", ""},
        {"{{ x", " if x", " }}"},
        {"{{ x", " if x else y", " }}"},
        {"", "{#", ""},
        {"", "{# #}", ""},
        {"", "{{ a }}", ""},
        {"{{ '", "\\x41", "' }}"},
        {"{{ ", "a ", "}}"},
        {"", "{% if a %}", ""},
        {"", "{% if a %}{% endif %}", ""},
        {"{% if a %}", "{% elif a %}", "{% endif %}"},
        {"{{ [", "a,", "] }}"},
        {"{{ {", "a:1,", "} }}"},
        {"{% macro m(", "a,", ") %}{% endmacro %}"},
        {"{{ m(", "a,", ") }}"},
        {"", "{% set a = 1 %}", ""},
        {"", " ", "{%- if a %}"},
        {"", "\n  ", "{% if a %}"},
        {"{{ a", "|trim", " }}"},
        {"{{ a", ".b", " }}"},
        {"{{ 'a'", " ~ 'a'", " }}"},
        {"{{ 'a'", " 'a'", " }}"},
        {"{{ 1", " < 1", " }}"},
        {"{{ ", "not ", "a }}"},
        {"", "{", ""},
        {"", "{%", ""},
        {"", "{{ '", ""},
        {"{{ 1", "0", " }}"},
        {"", "{% for a in b %}", ""},
        {"", "\r\n", ""},
        {"{% for ", "a,", " in b %}{% endfor %}"},
        {"{% set ", "(a,", " = 1 %}"},
        {"{% set ", "a,", " = 1 %}"},
        {"{{ a[", "0:", "] }}"},
        {"{% set a %}", "{% set a %}b{% endset %}", "{% endset %}"}};
    enum { MOST = 1 << 20 };
    char *source = malloc(MOST + 64);
    CHECK(source);
    for (size_t i = 0; source && i < sizeof around / sizeof *around; i++) {
        for (int most = MOST; most > 1000; most /= 3) {
            char *end = stpcpy(source, around[i][0]);
            while (end - source < most - 64)
                end = stpcpy(end, around[i][1]);
            strcpy(end, around[i][2]);
            check_time(source, 0);
        }
    }
    free(source);
}

/* A macro for each of many names, read and set again and again. */
static void many_names(void)
{
    char *source = malloc(1 << 20), *end = source;
    CHECK(source);
    for (int i = 0; source && i < 9000; i++)
        end += sprintf(end, "{%% set v%d = 1 %%}", i);
    for (int i = 0; source && i < 9000; i++)
        end += sprintf(end, "{{ v%d }}", i);
    if (source)
        check_time(source, 1);
    free(source);
}

int main(void)
{
    gives();
    refused();
    deep();
    slow();
    long_texts();
    many_names();
    if (getenv("PC_TEST_VERBOSE"))
        printf("longest: %.1f ms\n", longest);
    no_memory();
    return pc_test_end();
}
