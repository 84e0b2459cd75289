/* Catches: plug-in modules that use a library that was unloaded: their error texts go to the thread
 * of the library that is there, after each of several loadings. */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include <promptcache/admin.h>

static int failed;

static void check(int ok, int round, const char *what)
{
    if (!ok)
        printf("loading %d: %s\n", round, what);
    failed += !ok;
}

/* A function of the library. */
#define FUNCTION(name)          \
    union {                     \
        void *object;           \
        __typeof__(&name) call; \
    } name##_ = {dlsym(library, #name)}

/* The module REMOTE says that a file of the address cannot be read. */
static void use_remote(void *library, int round)
{
    FUNCTION(pc_context_new);
    FUNCTION(pc_context_free);
    FUNCTION(pc_cache_new);
    FUNCTION(pc_error_text);
    pc_context *context = NULL;
    pc_cache *cache = NULL;
    pc_cache_options options = PC_CACHE_OPTIONS_INIT;
    options.remote = "rediss://localhost?cacert=/no/such/file";
    check(pc_context_new_.call(&context, NULL) == PC_OK, round, "no context");
    check(pc_cache_new_.call(&cache, context, &options) < 0, round, "the file is not missed");
    check(strstr(pc_error_text_.call(), "remote") != NULL, round, pc_error_text_.call());
    pc_context_free_.call(context);
}

static void load(const char *path, int round)
{
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        check(0, round, dlerror());
        return;
    }
    FUNCTION(pc_plugin_get);
    pc_plugin_info info = PC_PLUGIN_INFO_INIT;
    for (size_t i = 0; pc_plugin_get_.call(i, &info) == PC_OK; i++)
        check(info.state == PC_PLUGIN_LOADED || info.state == PC_PLUGIN_NOT_BUILT
                  || strstr(info.reason, "NVIDIA driver"), /* the module cuda, without a GPU */
              round, info.reason);
    use_remote(library, round);
    check(!dlclose(library), round, "not closed");
    check(!dlopen(path, RTLD_NOW | RTLD_NOLOAD), round, "still there");
}

int main(int argc, char **argv)
{
    if (argc != 2)
        return 2;
    for (int round = 0; round < 3; round++)
        load(argv[1], round);
    printf("%d failed\n", failed);
    return failed != 0;
}
