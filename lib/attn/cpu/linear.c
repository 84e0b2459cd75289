/* Makes and frees linear layers, and chooses their operations. */
#include "attn/cpu/linear.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "attn/cpu/linear_internal.h"
#include "attn/cpu/kernels_internal.h"
#include "base/environment.h"

#if defined(PC_HAVE_ONEDNN)
/* Our kernel for the dtype is plain C, which any vector code beats. */
static int only_plain_c(uint32_t compute)
{
    const pc__kernels *kernels = pc__kernels_get();
    return compute == PC_DTYPE_F32 ? kernels->panel_f32 == pc__kernels_c.panel_f32
                                   : kernels->panel_bf16 == pc__kernels_c.panel_bf16;
}

static int cpu_has_amx(void)
{
#if defined(__x86_64__)
    const unsigned amx_bf16 = 1u << 22;
    unsigned a, b, c, d;
    return __get_cpuid_count(7, 0, &a, &b, &c, &d) && (d & amx_bf16);
#else
    return 0;
#endif
}

/* NULL: the module is missing, which the log of `context` (may be NULL) hears once. */
static const pc__onednn *open_onednn(const pc_context *context)
{
    static atomic_flag logged = ATOMIC_FLAG_INIT;
    const pc__module_found *found = pc__module_open("onednn", pc__linked_onednn);
    if (!found->table && context && !atomic_flag_test_and_set(&logged))
        pc__log(context, PC_LOG_INFO, "linear layers by our own kernels instead of oneDNN: %s",
                found->reason);
    return found->table;
}

/* *only: no others may be tried if these are unsupported. */
static const pc__linear_ops *choose_ops(const pc_context *context, uint32_t compute, int *only)
{
    const char *asked = pc__environment(PC__ENV_LINEAR);
    int own = asked && !strcmp(asked, "own"), forced = asked && !strcmp(asked, "onednn"),
        plain = only_plain_c(compute), amx = compute == PC_DTYPE_BF16 && cpu_has_amx();
    const pc__onednn *onednn = !own && (forced || plain || amx) ? open_onednn(context) : NULL;
    *only = own || forced;
    return onednn && (forced || plain || onednn->uses_amx()) ? onednn->ops : &pc__linear_panels;
}

static void name_onednn(char *name, size_t size)
{
    int only;
    if (choose_ops(NULL, PC_DTYPE_F32, &only) != &pc__linear_panels
        || choose_ops(NULL, PC_DTYPE_BF16, &only) != &pc__linear_panels)
        open_onednn(NULL)->name_class(name, size);
}
#else
static void name_onednn(char *name, size_t size)
{
    (void)name, (void)size;
}

static const pc__linear_ops *choose_ops(const pc_context *context, uint32_t compute, int *only)
{
    (void)context, (void)compute;
    *only = 1;
    return &pc__linear_panels;
}
#endif

static pthread_once_t class_once = PTHREAD_ONCE_INIT;
static char class_name[PC__KERNELS_CLASS];

static void name_class(void)
{
    char other[PC__KERNELS_CLASS / 2 + 4] = "";
    name_onednn(other, sizeof other);
    snprintf(class_name, sizeof class_name, "%.10s%s", pc__kernels_get()->name, other);
}

const char *pc__kernels_class(void)
{
    pthread_once(&class_once, name_class);
    return class_name;
}

static pc_status make_packed_weights(pc__linear *linear, const pc__weight_source *source)
{
    int only = 1;
    pc_status status;
    linear->ops = source->format.bits ? &pc__linear_quantised
                                      : choose_ops(linear->context, linear->compute, &only);
    status = linear->ops->make(linear, source);
    if (status == PC_ERR_UNSUPPORTED && !only && linear->ops != &pc__linear_panels) {
        linear->ops->drop(linear);
        linear->packed = NULL;
        linear->ops = &pc__linear_panels;
        status = linear->ops->make(linear, source);
    }
    return status;
}

static pc_status copy_bias(pc__linear *linear, const float *bias)
{
    if (!bias)
        return PC_OK;
    linear->bias = pc__alloc(&linear->context->mem, linear->out * sizeof *bias);
    if (!linear->bias)
        return PC_ERR_NOMEM;
    memcpy(linear->bias, bias, linear->out * sizeof *bias);
    return PC_OK;
}

pc_status pc__linear_new(pc__linear **out, pc_context *context, size_t out_features,
                         size_t in_features, uint32_t compute, const pc__weight_source *source,
                         const float *bias)
{
    pc__linear *linear = pc__calloc(&context->mem, 1, sizeof *linear);
    pc_status status = PC_ERR_NOMEM;
    *out = NULL;
    if (!linear)
        goto fail;
    linear->context = pc__context_ref(context);
    linear->out = out_features;
    linear->in = in_features;
    linear->compute = compute;
    PC__TRY(make_packed_weights(linear, source), fail);
    PC__TRY(copy_bias(linear, bias), fail);
    *out = linear;
    return PC_OK;
fail:
    pc__linear_free(linear);
    return pc__fail_in(status, "linear layer of %zu to %zu features", in_features, out_features);
}

int pc__keeps_halves(void)
{
    return pc__kernels_get()->panel_f32_f16 != NULL;
}

int pc__linear_keeps_quantised(void)
{
    return pc__kernels_get()->panel_quantised != pc__kernels_c.panel_quantised;
}

void pc__linear_free(pc__linear *linear)
{
    if (!linear)
        return;
    pc_context *context = linear->context;
    linear->ops->drop(linear);
    pc__free(&context->mem, linear->bias);
    pc__free(&context->mem, linear);
    pc__context_unref(context);
}

int pc__linear_reads(const pc__linear *linear)
{
    return linear->ops->read_row != NULL;
}

size_t pc__linear_inputs(const pc__linear *linear)
{
    return linear->in;
}

void pc__linear_row(const pc__linear *linear, size_t row, int add, float *to)
{
    linear->ops->read_row(linear, row, add, to);
}

size_t pc__linear_bytes(const pc__linear *linear)
{
    return linear->ops->bytes(linear) + (linear->bias ? linear->out * sizeof *linear->bias : 0);
}
