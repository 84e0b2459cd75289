/* The entry of the plug-in module "cuda": the backend on the device of the context's options.
 * CUDA_VISIBLE_DEVICES says which devices it counts. */
#include "base/module.h"
#include "cuda/backend_cuda.h"

static pc_status open_cuda(pc__backend **out, pc_context *context)
{
    return pc__cuda_backend_new(out, context, 0);
}

/* Without a driver or a device the module counts as missing, and the list of modules says why. */
static pc_status start(const pc__module_host *host, const void **table)
{
    static const pc__backend_module module = {open_cuda};
    int devices;
    pc__module_join(host);
    *table = &module;
    return PC__CUDA(cudaGetDeviceCount, (&devices));
}

PC__MODULE(cuda) = {pc__module_version, pc__module_build, start};
