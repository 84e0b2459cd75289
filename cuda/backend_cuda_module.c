/* The entry of the plug-in module "cuda": the backend over the machine's own driver, on the device
 * of the context's options. CUDA_VISIBLE_DEVICES says which devices it counts. */
#include "cuda/backend_cuda.h"
#include "base/module.h"

static pc_status open_cuda(pc__backend **out, pc_context *context)
{
    const pc__cuda_driver *driver;
    PC__TRY_RETURN(pc__cuda_driver_get(&driver));
    return pc__cuda_backend_new(out, context, driver, pc__cuda_images, 0);
}

static pc_status start(const pc__module_host *host, const void **table)
{
    static const pc__backend_module module = {open_cuda};
    pc__module_join(host);
    *table = &module;
    return PC_OK;
}

PC__MODULE(cuda) = {pc__module_version, pc__module_build, start};
