/* Catches: a family that is used with a vocabulary without its special tokens, so that the model
 * sees plain characters; names that do not find their family; an error that does not list the
 * names; stop tokens that the vocabulary does not have. */
#include "chat_vocab.h"
#include "text/chat.h"

#include <string.h>

#include "testing.h"

enum { MOST = 20 };

/* A vocabulary of these special tokens, but for one. */
static pc__tokenizer *vocabulary(const char *const *tokens, size_t count, size_t left_out)
{
    pc__text texts[MOST] = {{"<unknown>", 9}};
    int32_t types[MOST] = {PC__TOKEN_UNKNOWN};
    pc__vocab vocab = pc_test_vocab(texts, types, 1);
    pc__tokenizer *t = NULL;
    for (size_t i = 0; i < count && tokens[i]; i++)
        if (i != left_out) {
            types[vocab.count] = PC__TOKEN_CONTROL;
            texts[vocab.count++] = (pc__text){tokens[i], strlen(tokens[i])};
        }
    CHECK_OK(pc__tokenizer_from_vocab(&t, &pc__libc_allocator, &vocab));
    return t;
}

static void one_family(const pc__chat_template *form, const char *name)
{
    const size_t most = sizeof form->tokens / sizeof *form->tokens;
    size_t needed = 0;
    while (needed < most && form->tokens[needed])
        needed++;
    for (size_t without = 0; without <= needed; without++) {
        pc__tokenizer *t = vocabulary(form->tokens, most, without);
        pc__chat *chat = (pc__chat *)(uintptr_t)8;
        pc_status status = pc__chat_find(&chat, &pc__libc_allocator, t, NULL, name);
        if (without < needed) {
            CHECK_STATUS(status, PC_ERR_MISMATCH);
            CHECK_ERROR_HAS(form->tokens[without]);
            CHECK_ERROR_HAS(name);
            CHECK(!chat);
        } else if (CHECK_OK(status)) {
            CHECK(!strncmp(form->name, chat->name, strlen(chat->name)));
            CHECK_OK(pc__chat_check_role(chat, "system"));
        }
        pc__chat_free(chat, &pc__libc_allocator);
        pc__tokenizer_free(t);
    }
}

static void families(void)
{
    for (size_t i = 0; i < pc__chat_family_count; i++) {
        const pc__chat_template *form = &pc__chat_families[i];
        char names[128], *name = names;
        snprintf(names, sizeof names, "%s", form->name);
        for (name = strtok(names, " "); name; name = strtok(NULL, " "))
            one_family(form, name);
    }
}

/* A family is what it is called, and nothing else. */
static void names(void)
{
    static const char *const none[] = {"",      " ",     "llama",  "llama2 codellama", "llama2 ",
                                       "chatm", "hatml", "CHATML", "mistral-",         "own"};
    pc__chat *chat = NULL;
    for (size_t i = 0; i < sizeof none / sizeof *none; i++) {
        CHECK_STATUS(pc__chat_find(&chat, &pc__libc_allocator, NULL, NULL, none[i]),
                     PC_ERR_NOT_FOUND);
        CHECK_ERROR_HAS(none[i]);
        CHECK_ERROR_HAS(
            "none, llama2/3/3.1/4, chatml, qwen2/2.5, mistral-v1/-v3/-v3-tekken/-v7/-v7-tekken, "
            "phi3/4-mini/4, gemma, command-r, granite, deepseek/-coder/-v3/-r1, zephyr, falcon/3, "
            "vicuna, alpaca;");
        CHECK_ERROR_HAS(".json");
    }
    CHECK_OK(
        pc__chat_find(&chat, &pc__libc_allocator, NULL, NULL, "codellama")); /* of an application */
    CHECK_STR(chat->name, "llama2");
    CHECK_INT(chat->stop_token_count, 0);
    pc__chat_free(chat, &pc__libc_allocator);
}

/* The first twelve tokens of Falcon's vocabulary are special, and all of them end an answer. */
static void falcon(void)
{
    static const char *const specials[12] = {">>TITLE<<",    ">>ABSTRACT<<", ">>INTRODUCTION<<",
                                             ">>SUMMARY<<",  ">>COMMENT<<",  ">>ANSWER<<",
                                             ">>QUESTION<<", ">>DOMAIN<<",   ">>PREFIX<<",
                                             ">>SUFFIX<<",   ">>MIDDLE<<",   "<|endoftext|>"};
    pc__tokenizer *t = vocabulary(specials, 12, 12); /* behind <unknown> */
    pc__chat *chat = NULL;
    CHECK_OK(pc__chat_find(&chat, &pc__libc_allocator, t, NULL, "falcon"));
    CHECK_INT(chat->stop_token_count, 12);
    for (size_t i = 0; i < chat->stop_token_count; i++)
        CHECK_INT(chat->stop_tokens[i], i + 1);
    CHECK_INT(chat->stop_string_count, 1);
    CHECK_STR(chat->stop_strings[0], "\nUser");
    pc__chat_free(chat, &pc__libc_allocator);
    pc__tokenizer_free(t);
}

int main(void)
{
    families();
    names();
    falcon();
    return pc_test_end();
}
