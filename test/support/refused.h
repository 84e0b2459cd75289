/* What a backend refuses: tests that load DeBERTa go on without it, where PC_BACKEND names a
 * backend that does not have its attention. */
#ifndef PC_REFUSED_H
#define PC_REFUSED_H

#include <stdlib.h>
#include <string.h>

#include "testing.h"

/* 1: loading has ended with such a refusal, which names model, backend and cause. */
static inline int pc_test_refused(pc_status status)
{
    const char *backend = getenv("PC_BACKEND");
    return backend && strcmp(backend, "cpu") && status == PC_ERR_UNSUPPORTED
           && CHECK_ERROR_HAS("deberta") && CHECK_ERROR_HAS(backend)
           && CHECK_ERROR_HAS("disentangled attention");
}

#endif
