/* Chat templates as data: what the tags <system>, <user>, <assistant> of PML turn into (doc/pml.md;
 * upstream study 1.5). */
#ifndef PC_TEXT_CHAT_H
#define PC_TEXT_CHAT_H

#include "text/tokenizer.h"

/* Texts may hold special tokens ("<|im_start|>", "<s>"): they become those tokens, while such text
 * in a document does not. */
typedef struct pc__chat {
    char *name;
    /* system_empty stands for <system/> and for an empty element */
    char *system_open, *system_close, *system_empty;
    /* user_close carries the marker that opens the assistant's turn */
    char *user_open, *user_close;
    char *assistant_open, *assistant_close;
    char **stop_strings;
    size_t stop_string_count;
    int32_t *stop_tokens;
    size_t stop_token_count;
} pc__chat;

/* By name of a family ("llama2", "llama3", "chatml", "falcon", "mistral", "phi3", "gemma",
 * "zephyr", "vicuna", "alpaca", "none", …), or from a JSON file when `name` ends in ".json". The
 * tokenizer resolves stop tokens. PC_ERR_NOT_FOUND lists the families. */
pc_status pc__chat_find(pc__chat **out, const pc_allocator *mem, const pc__tokenizer *tokenizer,
                        const char *name);
/* The family whose marks the model's own Jinja text holds, or one read off it; "none" where there
 * is no template. */
pc_status pc__chat_detect(pc__chat **out, const pc_allocator *mem, const pc__tokenizer *tokenizer);
void pc__chat_free(pc__chat *chat, const pc_allocator *mem);

#endif
