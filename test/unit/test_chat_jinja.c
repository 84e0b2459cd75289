/* Catches: pieces that are derived from a template although its vocabulary or text does not allow
 * it; an error that does not name the template, the cause and the remedy; answers that never stop;
 * failed allocations that leak, or make a known template unknown. Real templates:
 * test/golden/test_chat_templates.c. */
#include <stdlib.h>
#include <string.h>

#include "chat_vocab.h"
#include "testing.h"
#include "text/chat.h"

static pc__tokenizer *vocabulary(const pc_allocator *mem, const char *jinja)
{
    static const pc__text tokens[] = {{"<unknown>", 9}, {"<s>", 3}, {"</s>", 4}, {"<|end|>", 7}};
    static const int32_t types[] = {PC__TOKEN_UNKNOWN, PC__TOKEN_CONTROL, PC__TOKEN_CONTROL,
                                    PC__TOKEN_CONTROL};
    pc__vocab vocab = pc_test_vocab(tokens, types, 4);
    pc__tokenizer *t = NULL;
    vocab.bos = 1;
    vocab.eos = 2;
    vocab.chat_template = jinja;
    CHECK_OK(pc__tokenizer_from_vocab(&t, mem, &vocab));
    return t;
}

static pc__chat *detect(const char *jinja)
{
    pc__tokenizer *t = vocabulary(&pc__libc_allocator, jinja);
    pc__chat *chat = NULL;
    CHECK_OK(pc__chat_detect(&chat, &pc__libc_allocator, t));
    pc__tokenizer_free(t);
    return chat;
}

#define LOOP(body) "{% for m in messages %}" body "{% endfor %}"

static void pieces(void)
{
    pc__chat *chat = detect("{{ bos_token }}" LOOP(
        "{% if loop.first and m.role != 'system' %}<|system|>Be kind.<|end|>{% endif %}"
        "<|{{ m.role }}|>{{ m.content }}<|end|>") "{% if add_generation_prompt %}"
                                                  "<|assistant|><think>{% endif %}");
    CHECK(!chat->unknown && !chat->no_system && !chat->system_joins_user);
    CHECK_STR(chat->pieces.system_open, "<s><|system|>");
    CHECK_STR(chat->pieces.system_close, "<|end|>");
    CHECK_STR(chat->pieces.system_empty, "<s><|system|>Be kind.<|end|>");
    CHECK_STR(chat->pieces.user_open, "<|user|>");
    CHECK_STR(chat->pieces.user_close, "<|end|><|assistant|>");
    CHECK_STR(chat->pieces.generation, "<think>");
    CHECK_STR(chat->pieces.assistant_open, "");
    CHECK_STR(chat->pieces.assistant_close, "<|end|>");
    CHECK_INT(chat->stop_token_count, 1);
    CHECK_INT(chat->stop_token_count ? chat->stop_tokens[0] : -1, 3);
    CHECK_INT(chat->stop_string_count, 0);
    pc__chat_free(chat, &pc__libc_allocator);
}

#define CLOSED_BY(text)                                     \
    LOOP("<|{{ m.role }}|>{{ m.content }}{{ '" text "' }}") \
    "{{ '<|assistant|>' if add_generation_prompt }}"

/* What closes an answer is no token of the vocabulary: the text of it stops. */
static void stop_text(void)
{
    static const struct {
        const char *jinja, *close, *stop;
    } cases[] = {{CLOSED_BY("<|eot|>"), "<|eot|>", "<|eot|><|user|>"},
                 {CLOSED_BY("\\n\\n"), "\n\n", "\n\n<|user|>"},
                 {CLOSED_BY("\\n</s>"), "\n</s>", NULL}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        pc__chat *chat = detect(cases[i].jinja);
        CHECK(!chat->unknown);
        CHECK_STR(chat->pieces.assistant_close, cases[i].close);
        CHECK_INT(chat->stop_string_count, cases[i].stop ? 1 : 0);
        if (chat->stop_string_count)
            CHECK_STR(chat->stop_strings[0], cases[i].stop);
        CHECK_INT(chat->stop_token_count, cases[i].stop ? 0 : 1);
        pc__chat_free(chat, &pc__libc_allocator);
    }
}

static void unknown(void)
{
    static const struct {
        const char *jinja, *cause;
    } cases[] = {
        {NULL, "the model has no chat template"},
        {"", "(\"\") is not known: a message is not in what it makes"},
        {"hello", "(\"hello\") is not known"},
        {"[INST] <<SYS>>", "not in what it makes"},
        {"### Instruction: {{ messages[0].content }}", "a turn is not the same at every place"},
        {LOOP("{{ m.content | wordwrap(9) }}"), "...\") is not known: line 1: filter 'wordwrap'"},
        {LOOP("{{ loop.index }}{{ m.content }}"), "longer conversation"},
        {LOOP("{{ m.content }}{{ m.content }}"), "more than once"},
        {"x\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9"
         "\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9",
         "\xc3\xa9...\""}, /* no half of a character */
        {"{{ raise_exception('no') }}", "line 1: the template refuses: no"},
        {LOOP("<|{{ m.role }}|>{{ m.content }}") "{{ '!' if messages[0].role == 'system' }}",
         "a system prompt changes"},
        {LOOP("{% if loop.index == 4 %}!{% endif %}<|{{ m.role }}|>{{ m.content }}"),
         "longer conversation"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        static const char *const roles[] = {"system", "user", "assistant"};
        pc__chat *chat = detect(cases[i].jinja);
        for (size_t r = 0; r < 3; r++)
            if (!CHECK_STATUS(pc__chat_check_role(chat, roles[r]), PC_ERR_UNSUPPORTED)
                && cases[i].jinja)
                fprintf(stderr, "    %s\n", cases[i].jinja);
        CHECK_ERROR_HAS(cases[i].cause);
        CHECK_ERROR_HAS("without chat tags");
        CHECK_ERROR_HAS("--chat-template");
        CHECK_ERROR_HAS("vicuna, alpaca"); /* all of them: the line has room */
        CHECK_STR(chat->pieces.user_open, "");
        pc__chat_free(chat, &pc__libc_allocator);
    }
}

static void no_system(void)
{
    pc__chat *chat = detect(LOOP(
        "{% if m.role == 'system' %}{{ raise_exception('only users') }}{% endif %}<|{{ m.role }}|>"
        "{{ m.content }}<|end|>") "{% if add_generation_prompt %}<|assistant|>{% endif %}");
    CHECK_OK(pc__chat_check_role(chat, "user"));
    CHECK_OK(pc__chat_check_role(chat, "assistant"));
    CHECK_STATUS(pc__chat_check_role(chat, "system"), PC_ERR_UNSUPPORTED);
    CHECK_ERROR_HAS("takes no system prompt");
    CHECK_ERROR_HAS("only users");
    CHECK_ERROR_HAS("--chat-template");
    CHECK_STR(chat->pieces.user_close, "<|end|><|assistant|>");
    pc__chat_free(chat, &pc__libc_allocator);
}

static void no_memory(void)
{
    static const char *const texts[] = {
        LOOP("<|{{ m.role }}|>{{ m.content }}<|end|>") "{% if add_generation_prompt %}"
                                                       "<|assistant|>{% endif %}",
        LOOP("{% if m.role != 'system' %}{{ m.role ~ ': ' ~ m.content ~ '\\n' }}{% "
             "endif %}") "{{ 'assistant:' if add_generation_prompt }}",
        "{{ nothing.more }}", NULL};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        pc_test_memory memory = {0};
        const pc_allocator mem = pc_test_allocator(&memory);
        pc__tokenizer *t = vocabulary(&mem, texts[i]);
        const int64_t live = memory.live_blocks;
        uint64_t failures = 0;
        for (int more = 1; more;) {
            pc__chat *chat = (pc__chat *)(uintptr_t)8;
            uint64_t at = memory.calls + ++failures;
            memory.fail_at = at;
            pc_status status = pc__chat_detect(&chat, &mem, t);
            more = memory.calls >= at;
            CHECK_STATUS(status, more ? PC_ERR_NOMEM : PC_OK);
            CHECK((status >= 0) == (chat != NULL));
            if (!more)
                CHECK((chat->unknown != NULL) == (i > 1) && (chat->no_system != NULL) == (i == 1));
            pc__chat_free(chat, &mem);
            CHECK_INT(memory.live_blocks, live);
        }
        CHECK(failures > 8);
        pc__tokenizer_free(t);
    }
}

int main(void)
{
    pieces();
    stop_text();
    unknown();
    no_system();
    no_memory();
    return pc_test_end();
}
