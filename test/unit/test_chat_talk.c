/* Catches: templates whose form depends on what messages contain, on their order or their number,
 * and that are taken for a fixed form all the same; conversations that are refused although the
 * template writes them as its pieces do; failed allocations that leak. Many templates:
 * test/golden/test_released_templates.py. */
#include <string.h>

#include "chat_vocab.h"
#include "testing.h"
#include "text/chat.h"

#define LOOP(body) "{% for m in messages %}" body "{% endfor %}"
#define TURNS LOOP("<|{{ m.role }}|>{{ m.content }}<|end|>")
#define OPENING "{{ '<|assistant|>' if add_generation_prompt }}"
#define ANSWER(text)                                                                     \
    LOOP("{% if m.role == 'assistant' %}<|{{ m.role }}|>{{ " text " }}<|end|>{% else %}" \
         "<|{{ m.role }}|>{{ m.content }}<|end|>{% endif %}")

static pc__chat *chat_of(const pc_allocator *mem, const char *jinja)
{
    static const pc__text tokens[] = {{"<unknown>", 9}};
    static const int32_t types[] = {PC__TOKEN_UNKNOWN};
    pc__vocab vocab = pc_test_vocab(tokens, types, 1);
    pc__tokenizer *t = NULL;
    pc__chat *chat = NULL;
    vocab.chat_template = jinja;
    CHECK_OK(pc__tokenizer_from_vocab(&t, mem, &vocab));
    if (!CHECK_OK(pc__chat_detect(&chat, mem, t)) || !CHECK(!chat->unknown))
        fprintf(stderr, "    %s: %s\n", jinja, chat ? chat->unknown : "");
    pc__tokenizer_free(t);
    return chat;
}

static pc_status ask(const pc__chat *chat, const char *user, const char *answer, const char *more)
{
    const pc__jinja_message talk[] = {{"user", user}, {"assistant", answer}, {"user", more}};
    return pc__chat_check_talk(chat, &pc__libc_allocator, talk, NULL, 3);
}

/* What a message contains changes more than its own place. */
static void contents(void)
{
    static const struct {
        const char *jinja;
        const char *good[3], *bad[3]; /* user, answer, user */
    } cases[] = {
        {TURNS OPENING, {"secret", "</think>", ""}, {NULL}},
        {LOOP("<|{{ m.role }}|>{{ 'found it' if 'secret' in m.content else m.content }}"
              "<|end|>") OPENING,
         {"a", "b", "c"},
         {"a", "a secret", "c"}},
        {ANSWER("m.content.split('</think>')[-1]") OPENING,
         {"</think>", "b", "<think></think>"},
         {"a", "<think>b</think>c", "d"}},
        {LOOP("<|{{ m.role }}|>{{ m.content | trim }}<|end|>") OPENING,
         {"a", "b", "c"},
         {" a", "b", "c"}},
        {LOOP("<|{{ m.role }}|>{{ m.content }}{{ '!' if m.content | length > 12 }}<|end|>") OPENING,
         {"123456789012", "b", "c"},
         {"a", "b", "1234567890123"}},
        {LOOP("{% if m.content %}<|{{ m.role }}|>{{ m.content }}<|end|>{% endif %}") OPENING,
         {"a", "b", "c"},
         {"a", "", "c"}},
        {TURNS "{{ '<|a_assistant|>' if messages[-1].content == 'a' else '<|assistant|>' "
               "if add_generation_prompt }}",
         {"a", "a", "b"},
         {"b", "b", "a"}},
        {LOOP("<|{{ m.role }}|>{{ m.content }}{{ '=' if messages[0].content == m.content and not "
              "loop.first }}<|end|>") OPENING,
         {"a", "b", "c"},
         {"a", "b", "a"}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        pc__chat *chat = chat_of(&pc__libc_allocator, cases[i].jinja);
        int fine = CHECK_OK(ask(chat, cases[i].good[0], cases[i].good[1], cases[i].good[2]));
        if (cases[i].bad[0]) {
            fine &= CHECK_STATUS(ask(chat, cases[i].bad[0], cases[i].bad[1], cases[i].bad[2]),
                                 PC_ERR_UNSUPPORTED);
            CHECK_ERROR_HAS("looks into messages");
            CHECK_ERROR_HAS("--chat-template");
        }
        if (!fine)
            fprintf(stderr, "    %s\n", cases[i].jinja);
        pc__chat_free(chat, &pc__libc_allocator);
    }
}

/* The form depends on how many messages there are. */
static void numbers(void)
{
    static const struct {
        const char *jinja;
        size_t count;
        int system;
    } cases[] = {
        {LOOP("{{ 'extra' if messages | length == 7 }}<|{{ m.role }}|>{{ m.content }}") OPENING, 7,
         0},
        {LOOP("{{ 'extra' if loop.index == 4 and loop.last }}<|{{ m.role }}|>{{ m.content }}")
             OPENING,
         4, 1},
        {LOOP("{{ 'extra' if messages[3:] and not messages[4:] }}<|{{ m.role }}|>{{ m.content }}")
             OPENING,
         4, 1},
        {LOOP("{{ 'extra' if loop.revindex == 9 }}<|{{ m.role }}|>{{ m.content }}") OPENING, 9, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const pc__jinja_message talk[] = {
            {"system", "s"},    {"user", "a"}, {"assistant", "b"}, {"user", "c"},
            {"assistant", "d"}, {"user", "e"}, {"assistant", "f"}, {"user", "g"},
            {"assistant", "h"}, {"user", "i"}};
        const pc__jinja_message *first = talk + !cases[i].system;
        pc__chat *chat = chat_of(&pc__libc_allocator, cases[i].jinja);
        int fine = CHECK_OK(pc__chat_check_talk(chat, &pc__libc_allocator, first, NULL,
                                                cases[i].count - 2))
                   && CHECK_STATUS(
                       pc__chat_check_talk(chat, &pc__libc_allocator, first, NULL, cases[i].count),
                       PC_ERR_UNSUPPORTED)
                   && CHECK(chat->counts);
        if (!fine)
            fprintf(stderr, "    %s\n", cases[i].jinja);
        pc__chat_free(chat, &pc__libc_allocator);
    }
}

/* The pieces name the day on which they were read: a process may outlive it. */
static void dates(void)
{
    pc__chat *chat = chat_of(&pc__libc_allocator, "{{ strftime_now('%Y-%m-%d') }}" TURNS OPENING);
    CHECK_OK(ask(chat, "a", "b", "c"));
    chat->read_at -= 3 * 86400;
    CHECK_STATUS(ask(chat, "a", "b", "c"), PC_ERR_UNSUPPORTED);
    pc__chat_free(chat, &pc__libc_allocator);
    chat = chat_of(&pc__libc_allocator,
                   LOOP("<|{{ m.role }}|>{{ m.content }}{% if strftime_now(m.content) != "
                        "m.content %}!{% endif %}") OPENING);
    CHECK_OK(ask(chat, "a", "b", "c"));
    CHECK_STATUS(ask(chat, "a", "%Y", "c"), PC_ERR_UNSUPPORTED);
    pc__chat_free(chat, &pc__libc_allocator);
}

/* Roles in another order, and more turns than were probed. */
static void shapes(void)
{
    static const pc__jinja_message twice[] = {{"user", "a"}, {"user", "b"}};
    pc__jinja_message many[21];
    pc__chat *chat = chat_of(
        &pc__libc_allocator,
        LOOP("{% if (m.role == 'user') != (loop.index0 is even) and messages[0].role != 'system' %}"
             "{{ raise_exception('alternate') }}{% endif %}<|{{ m.role }}|>{{ m.content }}")
            OPENING);
    CHECK_STATUS(pc__chat_check_talk(chat, &pc__libc_allocator, twice, NULL, 2),
                 PC_ERR_UNSUPPORTED);
    CHECK_ERROR_HAS("alternate");
    CHECK(!chat->counts);
    pc__chat_free(chat, &pc__libc_allocator);

    for (size_t i = 0; i < 21; i++)
        many[i] = (pc__jinja_message){i % 2 ? "assistant" : "user", "a"};
    chat = chat_of(&pc__libc_allocator, LOOP("{% if loop.index > 12 %}{% break %}{% endif %}"
                                             "<|{{ m.role }}|>{{ m.content }}") OPENING);
    CHECK(chat->counts);
    CHECK_OK(pc__chat_check_talk(chat, &pc__libc_allocator, many, NULL, 11));
    CHECK_STATUS(pc__chat_check_talk(chat, &pc__libc_allocator, many, NULL, 21),
                 PC_ERR_UNSUPPORTED);
    CHECK_ERROR_HAS("message 13");
    pc__chat_free(chat, &pc__libc_allocator);
}

static void no_memory(void)
{
    uint64_t failures = 0;
    for (int more = 1; more;) {
        pc_test_memory memory = {0};
        const pc_allocator mem = pc_test_allocator(&memory);
        pc__chat *chat = chat_of(&mem, LOOP("<|{{ m.role }}|>{{ m.content | trim }}") OPENING);
        const int64_t live = memory.live_blocks;
        const pc__jinja_message talk[] = {{"system", "s"}, {"user", "a"}};
        uint64_t at = memory.calls + ++failures;
        memory.fail_at = at;
        pc_status status = pc__chat_check_talk(chat, &mem, talk, NULL, 2);
        more = memory.calls >= at;
        CHECK_STATUS(status, more ? PC_ERR_NOMEM : PC_OK);
        CHECK_INT(memory.live_blocks, live);
        pc__chat_free(chat, &mem);
    }
    CHECK(failures > 8);
}

int main(void)
{
    contents();
    numbers();
    dates();
    shapes();
    no_memory();
    return pc_test_end();
}
