/* Opens and closes a device for a test, the real one or the fake one. */
#include "cuda_testing.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

int pc_cuda_real(void)
{
    static int real = -1;
    const char *wanted = getenv("PC_CUDA_TEST");
    if (real < 0) {
        real = wanted && !strcmp(wanted, "device");
        printf(real ? "on the machine's device\n"
                    : "on the fake device; PC_CUDA_TEST=device takes the machine's\n");
    }
    return real;
}

static pc_status open_parts(pc_cuda_place *place, size_t limit, size_t block)
{
    PC__TRY_RETURN(pc__cuda_device_new(&place->device, &place->allocator, place->driver, 0, NULL));
    PC__TRY_RETURN(pc__cuda_pool_new(&place->pool, place->device, limit, block));
    return pc__cuda_stream_new(&place->stream, place->pool);
}

pc_status pc_cuda_open(pc_cuda_place *place, const pc_fake_options *options, size_t limit)
{
    return pc_cuda_open_blocks(place, options, limit, 0);
}

pc_status pc_cuda_open_blocks(pc_cuda_place *place, const pc_fake_options *options, size_t limit,
                              size_t block)
{
    static const pc_fake_options usual = PC_FAKE_OPTIONS;
    memset(place, 0, sizeof *place);
    place->allocator = pc_test_allocator(&place->memory);
    if (pc_cuda_real())
        PC__TRY_RETURN(pc__cuda_driver_get(&place->driver));
    else
        place->driver = pc_fake_start(options ? options : &usual);
    return open_parts(place, limit, block);
}

void pc_cuda_close(pc_cuda_place *place)
{
    pc__cuda_stream_free(place->stream);
    pc__cuda_pool_free(place->pool);
    pc__cuda_device_free(place->device);
    CHECK_INT(place->memory.live_blocks, 0);
    if (place->driver && !pc_cuda_real())
        CHECK_INT(pc_fake_end(), 0);
}

/* The tests are built without them: the compiler of kernels takes minutes. PC_CUDA_IMAGES says
 * where they are, if not where they were built. */
static const pc__cuda_image *real_images(void)
{
    const pc__cuda_image *(*images)(void) = NULL;
    const char *path = getenv("PC_CUDA_IMAGES");
    void *library = dlopen(path ? path : CUDA_IMAGES, RTLD_NOW | RTLD_LOCAL);
    void *address = library ? dlsym(library, "pc_test_images") : NULL;
    if (!address)
        pc_test_skip(dlerror());
    memcpy(&images, &address, sizeof images);
    return images();
}

const pc__cuda_image *pc_cuda_images(void)
{
    static const pc__cuda_image fake[] = {{"fake", "fake", 4}, {NULL, NULL, 0}};
    return pc_cuda_real() ? real_images() : fake;
}
