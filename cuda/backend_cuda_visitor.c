/* The visitors that have no plan: a list, the one that was put back first in front. */
#include "cuda/backend_cuda_visitor.h"

#include "cuda/kept_lists.h"

enum { KEPT = 8 }; /* a visitor has pinned memory, which takes long to get */

static pc__cuda_visitor *take_out(pc__cuda_backend *backend, pc__cuda_visitor **link)
{
    pc__cuda_visitor *visitor = *link;
    if (visitor) {
        *link = visitor->next;
        visitor->next = NULL;
        backend->visitor_count--;
    }
    return visitor;
}

/* If all are at work elsewhere, and enough are there, any one does: its new work begins behind the
 * old. A link to NULL: none. */
static pc__cuda_visitor **choose(pc__cuda_backend *backend, cudaStream_t queue)
{
    pc__cuda_visitor **link = &backend->visitors;
    while (*link && (*link)->last != queue)
        link = &(*link)->next;
    if (*link)
        return link;
    for (link = &backend->visitors; *link && !pc__cuda_stream_rests((*link)->stream);)
        link = &(*link)->next;
    return *link || backend->visitor_count < KEPT ? link : &backend->visitors;
}

static void free_visitor(pc__cuda_visitor *visitor)
{
    const pc_allocator *mem = &visitor->backend->base.context->mem;
    pc__cuda_stream_free(visitor->stream);
    pc__free(mem, visitor);
}

static pc_status new_visitor(pc__cuda_visitor **out, pc__cuda_backend *backend)
{
    const pc_allocator *mem = &backend->base.context->mem;
    pc__cuda_visitor *visitor = pc__calloc(mem, 1, sizeof *visitor);
    if (!visitor)
        return PC_ERR_NOMEM;
    visitor->backend = backend;
    pc_status status = pc__cuda_stream_new(&visitor->stream, backend->pool);
    if (status < 0)
        pc__free(mem, visitor);
    else
        *out = visitor;
    return status;
}

pc_status pc__cuda_visitor_take(pc__cuda_visitor **out, pc__cuda_backend *backend,
                                cudaStream_t queue)
{
    pthread_mutex_lock(&backend->lock);
    *out = take_out(backend, choose(backend, queue));
    pthread_mutex_unlock(&backend->lock);
    return *out ? PC_OK : new_visitor(out, backend);
}

void pc__cuda_visitor_put(pc__cuda_visitor *visitor)
{
    if (!visitor)
        return;
    pc__cuda_backend *backend = visitor->backend;
    pc__cuda_kept_drop(visitor->stream);
    pthread_mutex_lock(&backend->lock);
    int kept = backend->visitor_count < KEPT || !pc__cuda_stream_rests(visitor->stream);
    if (kept) {
        pc__cuda_visitor **link = &backend->visitors;
        while (*link)
            link = &(*link)->next;
        *link = visitor;
        backend->visitor_count++;
    }
    pthread_mutex_unlock(&backend->lock);
    if (!kept)
        free_visitor(visitor);
}

void pc__cuda_visitors_free(pc__cuda_backend *backend)
{
    for (pc__cuda_visitor *visitor; (visitor = take_out(backend, &backend->visitors));)
        free_visitor(visitor);
}
