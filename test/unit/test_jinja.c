/* Catches: Jinja that runs wrongly where real chat templates do not use it (precedence, scopes,
 * blanks, branches that are not computed), invalid Jinja that runs, errors without their line,
 * templates that never end or allocate without limit, failed allocations that leak. Real templates:
 * test/golden/test_chat_templates.c. */
#include "text/jinja.h"

#include <string.h>

#include "testing.h"

static const pc__jinja_message talk[] = {
    {"system", "Be brief."}, {"user", " Hi\nthere "}, {"assistant", "Yes?"}, {"user", "Who?"}};
static const pc__jinja_input input = {talk, 4, "<s>", NULL, 1};

static pc_status run(const char *source, pc__bytes *out, const pc_allocator *mem)
{
    *out = (pc__bytes){.mem = mem};
    return pc__jinja_render(out, source, &input);
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
        {"a{% endif %}", PC_ERR_FORMAT, "without its beginning"},
        {"{{ }}", PC_ERR_FORMAT, "too early"},
        {"{{ 1 + }}", PC_ERR_FORMAT, "too early"},
        {"{{ (1 }}", PC_ERR_FORMAT, "')' is missing"},
        {"{{ [1, 2 }}", PC_ERR_FORMAT, "']' is missing"},
        {"{{ 'a' 1 }}", PC_ERR_UNSUPPORTED, "not understood"},
        {"{{ 'a' | nonesuch }}", PC_ERR_UNSUPPORTED, "filter 'nonesuch'"},
        {"{{ 'a' is nonesuch }}", PC_ERR_UNSUPPORTED, "test 'nonesuch'"},
        {"{{ 'a'.nonesuch() }}", PC_ERR_UNSUPPORTED, "method 'nonesuch'"},
        {"\n\n{{ nonesuch(1) }}", PC_ERR_UNSUPPORTED, "line 3: function 'nonesuch'"},
        {"{% include 'x' %}", PC_ERR_UNSUPPORTED, "include"},
        {"{{ nothing.x }}", PC_ERR_FORMAT, "'x' of an undefined value"},
        {"{{ 'a' + 1 }}", PC_ERR_FORMAT, "'+'"},
        {"{{ 1 % 0 }}", PC_ERR_FORMAT, "'%'"},
        {"{{ 2 * 99999999999 }}", PC_ERR_FORMAT, "'*'"},
        {"{{ messages }}", PC_ERR_UNSUPPORTED, "cannot be printed"},
        {"{% set a.b = 1 %}", PC_ERR_FORMAT, "'a' is no namespace"},
        {"{% for a, b in [1] %}{% endfor %}", PC_ERR_FORMAT, "2 names"},
        {"{% for a in 5 %}{% endfor %}", PC_ERR_FORMAT, "holds nothing"},
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

int main(void)
{
    gives();
    refused();
    deep();
    no_memory();
    return pc_test_end();
}
