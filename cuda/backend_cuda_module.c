/* The entry of the plug-in module "cuda": the backend on the device of the context's options.
 * CUDA_VISIBLE_DEVICES says which devices it counts. */
#include "base/module.h"
#include "cuda/backend_cuda.h"

static pc_status open_cuda(pc__backend **out, pc_context *context)
{
    return pc__cuda_backend_new(out, context, 0);
}

static pc_status start(const pc__module_host *host, const void **table)
{
    static const pc__backend_module module = {open_cuda};
    pc__module_join(host);
    *table = &module;
    return PC_OK;
}

PC__MODULE(cuda) = {pc__module_version, pc__module_build, start};
