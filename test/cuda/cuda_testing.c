/* Opens and closes a device for a test, the real one or the fake one. */
#include "cuda_testing.h"

#include <string.h>

#ifdef PC_CUDA_REAL
int pc_cuda_real(void)
{
    return 1;
}

__attribute__((constructor)) static void need_device(void)
{
    int devices;
    cudaError_t error = cudaGetDeviceCount(&devices);
    if (error)
        pc_test_skip(cudaGetErrorString(error));
}
#else
int pc_cuda_real(void)
{
    return 0;
}
#endif

static pc_status open_parts(pc_cuda_place *place, size_t limit)
{
    PC__TRY_RETURN(pc__cuda_device_new(&place->device, &place->allocator, 0));
    PC__TRY_RETURN(pc__cuda_pool_new(&place->pool, place->device, limit));
    return pc__cuda_stream_new(&place->stream, place->pool);
}

pc_status pc_cuda_open(pc_cuda_place *place, const pc_fake_options *options, size_t limit)
{
    static const pc_fake_options usual = PC_FAKE_OPTIONS;
    memset(place, 0, sizeof *place);
    place->allocator = pc_test_allocator(&place->memory);
    if (!pc_cuda_real())
        pc_fake_start(options ? options : &usual);
    return open_parts(place, limit);
}

int pc_cuda_enters(const char *call)
{
    return !strcmp(call, "cudaGetDevice") || !strcmp(call, "cudaSetDevice")
           || !strcmp(call, "cudaThreadExchangeStreamCaptureMode");
}

void pc_cuda_close(pc_cuda_place *place)
{
    pc__cuda_stream_free(place->stream);
    pc__cuda_pool_free(place->pool);
    pc__cuda_device_free(place->device);
    CHECK_INT(place->memory.live_blocks, 0);
    if (!pc_cuda_real())
        CHECK_INT(pc_fake_end(), 0);
}
