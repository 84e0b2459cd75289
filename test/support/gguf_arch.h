/* Reads the metadata of small GGUF files that a test writes: what the unit tests of gguf_*.c share.
 */
#ifndef PC_GGUF_ARCH_H
#define PC_GGUF_ARCH_H

#include "base/mem.h"
#include "gguf_bytes.h"
#include "model/load/arch.h"
#include "model/load/gguf.h"

/* A model of 2 layers, width 64, 8 heads (2 K/V heads); `more` adds keys. */
typedef void (*more_fn)(gguf_bytes *g);

static inline void key(gguf_bytes *g, const char *architecture, const char *name, uint32_t value)
{
    char full[96];
    snprintf(full, sizeof full, "%s.%s", architecture, name);
    gguf_u32(g, full, value);
}

static inline void number(gguf_bytes *g, const char *architecture, const char *name, float value)
{
    char full[96];
    snprintf(full, sizeof full, "%s.%s", architecture, name);
    gguf_f32(g, full, value);
}

static inline pc_status parse(pc__arch *out, const pc_allocator *mem, const char *architecture,
                              more_fn keys, more_fn tensors)
{
    static gguf_bytes g;
    pc__gguf *gguf;
    pc_status status;
    gguf_start(&g, 3);
    gguf_text(&g, "general.architecture", architecture);
    key(&g, architecture, "block_count", 2);
    key(&g, architecture, "embedding_length", 64);
    key(&g, architecture, "feed_forward_length", 96);
    key(&g, architecture, "context_length", 4096);
    key(&g, architecture, "attention.head_count", 8);
    number(&g, architecture, "attention.layer_norm_rms_epsilon", 1e-5f);
    number(&g, architecture, "attention.layer_norm_epsilon", 2e-5f);
    if (keys)
        keys(&g);
    gguf_tensor(&g, "token_embd.weight", 1, 100, 64, NULL, 12800);
    if (tensors)
        tensors(&g);
    gguf_end(&g);
    status = pc__gguf_open(&gguf, mem, gguf_file(&g));
    if (status >= 0)
        status = pc__arch_from_gguf(out, mem, gguf);
    pc__gguf_free(gguf);
    return status;
}

static inline int parsed(pc__arch *out, const char *architecture, more_fn keys, more_fn tensors)
{
    return CHECK_OK(parse(out, &pc__libc_allocator, architecture, keys, tensors));
}

static inline void refused(const char *architecture, more_fn keys, more_fn tensors, pc_status want,
                           const char *text)
{
    static const pc__arch zero;
    pc__arch arch;
    memset(&arch, 0xa5, sizeof arch);
    CHECK_STATUS(parse(&arch, &pc__libc_allocator, architecture, keys, tensors), want);
    CHECK_ERROR_HAS(text);
    CHECK_ERROR_HAS("model.gguf");
    CHECK(!memcmp(&arch, &zero, sizeof zero));
}

#endif
