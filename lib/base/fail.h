/* The error text of the calling thread. */
#ifndef PC_BASE_FAIL_H
#define PC_BASE_FAIL_H

#include <promptcache.h>

/* Sets this thread's error text (one line, cut at 511 bytes, control characters replaced) and returns `status`. The text names
 * place and cause: "model.gguf: tensor 'blk.0.attn_q.weight': offset 4096 lies beyond the end of the file". */
pc_status pc__fail(pc_status status, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Puts "prefix: " before the text that a callee has set, and returns `status`. */
pc_status pc__fail_in(pc_status status, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Runs `call`; on a negative status does `goto label` with `status` set. */
#define PC__TRY(call, label)       \
    do {                           \
        if ((status = (call)) < 0) \
            goto label;            \
    } while (0)

#endif
