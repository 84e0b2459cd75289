/* Texts of config.json, and what must come of reading them. */
#ifndef PC_HF_CONFIGS_H
#define PC_HF_CONFIGS_H

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "model/load/arch.h"
#include "testing.h"

#define SIZES                                                                                     \
    "\"hidden_size\":64,\"num_hidden_layers\":4,\"num_attention_heads\":8,\"intermediate_size\":" \
    "96,\"vocab_size\":320,"
#define LLAMA \
    SIZES "\"model_type\":\"llama\",\"max_position_embeddings\":4096,\"num_key_value_heads\":2"
#define KIN(type) \
    SIZES "\"model_type\":\"" type "\",\"max_position_embeddings\":4096,\"num_key_value_heads\":2"

static inline pc_status parse(pc__arch *arch, const char *body)
{
    char text[4096];
    snprintf(text, sizeof text, "{%s}", body);
    return pc__arch_from_json(arch, &pc__libc_allocator, text, strlen(text), "config.json");
}

static inline int parsed(pc__arch *arch, const char *body)
{
    return CHECK_OK(parse(arch, body));
}

static inline void refused(const char *body, pc_status want, const char *text)
{
    static const pc__arch zero;
    pc__arch arch;
    memset(&arch, 0xa5, sizeof arch);
    CHECK_STATUS(parse(&arch, body), want);
    CHECK_ERROR_HAS(text);
    CHECK_ERROR_HAS("config.json");
    CHECK(!memcmp(&arch, &zero, sizeof zero));
}

#endif
