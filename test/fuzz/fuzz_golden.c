/* Catches: configurations that do not fit real weights, or hold numbers that no model has, and are
 * computed nevertheless. Input: the name of a golden model and a newline, then config.json; the
 * weights are those of that model in the test data. Without them, only the configuration is read.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fuzz.h"
#include "testing.h"

static char folder[64], config[96], weights[96], named[64];

static void remove_folder(void)
{
    unlink(config);
    unlink(weights);
    rmdir(folder);
}

/* Makes the folder, and names the weights of this model in it. */
static void use_weights(const char *name, const char *config_file)
{
    char path[160];
    if (!*folder) {
        snprintf(folder, sizeof folder, "/tmp/pc-fuzz-golden-%d", (int)getpid());
        snprintf(config, sizeof config, "%s/config.json", folder);
        snprintf(weights, sizeof weights, "%s/model.safetensors", folder);
        FUZZ_CHECK(!mkdir(folder, 0700) && !symlink(config_file, config));
        atexit(remove_folder);
    }
    if (!strcmp(name, named))
        return;
    snprintf(path, sizeof path, "golden/%s/model.safetensors", name);
    const char *data = pc_test_data(path);
    unlink(weights);
    if (data)
        FUZZ_CHECK(!symlink(data, weights));
    snprintf(named, sizeof named, "%s", name);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    size_t blocks = fuzz_blocks();
    const uint8_t *end = size ? memchr(data, '\n', size) : NULL;
    char name[64] = "";
    size_t length = end ? (size_t)(end - data) : 0;
    if (!end || length >= sizeof name)
        return 0;
    memcpy(name, data, length);
    if (strlen(name) != length || strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_") != length)
        return 0;
    use_weights(name, fuzz_file(end + 1, size - length - 1, ".json"));
    fuzz_load(folder);
    fuzz_no_leak(blocks);
    return 0;
}
