/* The list of mirrors, their memory and contents. */
#include "attn/kv_mirror.h"

#include <time.h>

#include "attn/backend.h"
#include "attn/kv_device.h"

struct pc__kv_mirror {
    pc__kv_device device; /* its one block: [layer][page] */
    pc__kv *kv;
    size_t holders;
    int32_t layers;                /* copied so far */
    int32_t copying;               /* while it is busy: so many will be then */
    const void *busy;              /* NULL, or the mark of the thread that copies to it */
    pc__kv_mirror *before, *after; /* in the list of those that nobody holds */
};

void pc__kv_mirrors_begin(pc__kv_mirrors *mirrors)
{
    pthread_mutex_init(&mirrors->lock, NULL);
    pthread_cond_init(&mirrors->changed, NULL);
}

void pc__kv_mirrors_end(pc__kv_mirrors *mirrors)
{
    pthread_mutex_destroy(&mirrors->lock);
    pthread_cond_destroy(&mirrors->changed);
}

static pc__kv_mirror *mirror_of(const pc__kv *kv)
{
    return (pc__kv_mirror *)atomic_load_explicit(&((pc__kv *)(uintptr_t)kv)->device,
                                                 memory_order_acquire);
}

static pc__kv_mirror *take_from(pc__kv *kv)
{
    return (pc__kv_mirror *)atomic_exchange_explicit(&kv->device, NULL, memory_order_acq_rel);
}

static size_t bytes_of(const pc__kv *kv)
{
    return pc__kv_layer_bytes(&kv->shape, kv->tokens) * (size_t)kv->shape.layers;
}

/* ----------------------------------------------------------------- the list */

static void add_unused(pc__kv_mirrors *all, pc__kv_mirror *m)
{
    m->before = all->newest;
    m->after = NULL;
    *(all->newest ? &all->newest->after : &all->oldest) = m;
    all->newest = m;
}

static void remove_unused(pc__kv_mirrors *all, pc__kv_mirror *m)
{
    *(m->before ? &m->before->after : &all->oldest) = m->after;
    *(m->after ? &m->after->before : &all->newest) = m->before;
}

/* Nobody holds it, and the caller owns it and frees it. */
static void take_out(pc__kv_mirrors *all, pc__kv_mirror *m)
{
    remove_unused(all, m);
    all->count--;
    all->bytes -= pc__kv_device_bytes(&m->device);
}

/* The oldest ones of at least `bytes`, chained by `after`, which the caller frees. */
static pc__kv_mirror *take_oldest(pc__kv_mirrors *all, size_t bytes)
{
    pc__kv_mirror *taken = NULL, *next;
    size_t sum = 0;
    for (pc__kv_mirror *m = all->oldest; m && sum < bytes; m = next) {
        next = m->after;
        if (!take_from(m->kv))
            continue; /* its run is being freed */
        take_out(all, m);
        all->dropped++;
        sum += pc__kv_device_bytes(&m->device);
        m->after = taken;
        taken = m;
    }
    all->going += taken != NULL;
    return taken;
}

static size_t over_budget(const pc__kv_mirrors *all, size_t more)
{
    return all->budget && all->bytes + more > all->budget ? all->bytes + more - all->budget : 0;
}

/* Of at least one mirror; the context may end with the last. */
static void free_mirrors(pc__kv_mirror *taken, int zero)
{
    pc__backend *backend = taken->device.backend;
    pc__context_ref(backend->context);
    for (pc__kv_mirror *next; taken; taken = next) {
        next = taken->after;
        pc__kv_device_free(&taken->device, zero);
    }
    pthread_mutex_lock(&backend->mirrors.lock);
    backend->mirrors.going--;
    pthread_cond_broadcast(&backend->mirrors.changed);
    pthread_mutex_unlock(&backend->mirrors.lock);
    pc__context_unref(backend->context);
}

/* Whether a run's states must be zeroed is known only at its end, so those of all are. */
static void free_taken(pc__kv_mirror *taken)
{
    if (taken)
        free_mirrors(taken, 1);
}

/* Under the lock, when none could be taken: those in the list are their runs' freers'. 0: no thread
 * gives memory back. */
static int await_others_memory(pc__kv_mirrors *all)
{
    if (!all->oldest && !all->going)
        return 0;
    pthread_cond_wait(&all->changed, &all->lock);
    return 1;
}

int pc__kv_mirrors_drop(pc__backend *backend, size_t bytes)
{
    pc__kv_mirrors *all = &backend->mirrors;
    pthread_mutex_lock(&all->lock);
    pc__kv_mirror *taken = take_oldest(all, bytes ? bytes : 1);
    int any = taken || await_others_memory(all);
    pthread_mutex_unlock(&all->lock);
    free_taken(taken);
    return any;
}

/* Drops what makes `more` bytes too many for the budget. */
static void keep_budget(pc__backend *backend, size_t more)
{
    pthread_mutex_lock(&backend->mirrors.lock);
    pc__kv_mirror *taken = take_oldest(&backend->mirrors, over_budget(&backend->mirrors, more));
    pthread_mutex_unlock(&backend->mirrors.lock);
    free_taken(taken);
}

void pc__kv_mirrors_set_budget(pc__backend *backend, size_t bytes)
{
    pthread_mutex_lock(&backend->mirrors.lock);
    backend->mirrors.budget = bytes;
    pthread_mutex_unlock(&backend->mirrors.lock);
    keep_budget(backend, 0);
}

void pc__kv_mirror_free(pc__kv *kv)
{
    pc__kv_mirror *m = take_from(kv);
    if (!m)
        return;
    pc__kv_mirrors *all = &m->device.backend->mirrors;
    pthread_mutex_lock(&all->lock);
    take_out(all, m);
    all->going++;
    m->after = NULL;
    pthread_mutex_unlock(&all->lock);
    free_mirrors(m, atomic_load_explicit(&kv->zero_at_end, memory_order_relaxed) != 0);
}

/* ----------------------------------------------------------------- holds */

/* A mirror with memory, which is not in the list. */
static pc_status new_mirror(pc__kv_mirror **out, pc__backend *backend, pc__kv *kv)
{
    size_t each = pc__kv_layer_page_bytes(&kv->shape), bytes = bytes_of(kv),
           pages = each ? pc__kv_layer_bytes(&kv->shape, kv->tokens) / each : 0;
    pc__kv_device *device;
    keep_budget(backend, bytes);
    PC__TRY_RETURN(pc__kv_device_new(&device, sizeof **out, backend, pages * each));
    pc_status status = pc__kv_device_add(device, backend->ops->take(backend, bytes), bytes, pages,
                                         each);
    if (status >= 0 && kv->unwritten)
        status = pc__backend_zero(backend, device->block[0], bytes);
    if (status < 0) {
        pc__kv_device_free(device, 0);
        return status;
    }
    *out = (pc__kv_mirror *)device;
    (*out)->kv = kv;
    return PC_OK;
}

/* A run has mirrors at one backend in its life: what another one drops must not be looked at. */
static pc_status claim_run(pc__backend *backend, pc__kv *kv)
{
    pc__backend *none = NULL;
    if (atomic_compare_exchange_strong(&kv->mirrored_by, &none, backend) || none == backend)
        return PC_OK;
    return pc__fail(PC_ERR_UNSUPPORTED, "K/V run: its pages are at the backend of another context");
}

/* Counts a holder of the run's mirror; NULL: there is none. Under the lock. */
static pc__kv_mirror *add_holder(pc__kv_mirrors *all, const pc__kv *kv)
{
    pc__kv_mirror *m = mirror_of(kv);
    if (m && !m->holders++)
        remove_unused(all, m);
    return m;
}

/* Makes a mirror, unless a thread that holds already has done so meanwhile. */
static pc_status hold_new(pc__backend *backend, pc__kv *kv)
{
    pc__kv_mirrors *all = &backend->mirrors;
    pc__kv_mirror *m;
    PC__TRY_RETURN(new_mirror(&m, backend, kv));
    pthread_mutex_lock(&all->lock);
    int made = add_holder(all, kv) != NULL;
    if (!made) {
        m->holders = 1;
        all->count++;
        all->bytes += pc__kv_device_bytes(&m->device);
        atomic_store_explicit(&kv->device, &m->device, memory_order_release);
    }
    pthread_mutex_unlock(&all->lock);
    if (made)
        pc__kv_device_free(&m->device, 0);
    return PC_OK;
}

static pc_status hold_run(pc__backend *backend, pc__kv *kv)
{
    PC__TRY_RETURN(claim_run(backend, kv));
    pthread_mutex_lock(&backend->mirrors.lock);
    const pc__kv_mirror *m = add_holder(&backend->mirrors, kv);
    pthread_mutex_unlock(&backend->mirrors.lock);
    return m ? PC_OK : hold_new(backend, kv);
}

static void release_runs(pc__kv_mirrors *all, pc__kv *const *runs, size_t count)
{
    pthread_mutex_lock(&all->lock);
    for (size_t i = 0; i < count; i++)
        if (!--mirror_of(runs[i])->holders)
            add_unused(all, mirror_of(runs[i]));
    pc__kv_mirror *taken = take_oldest(all, over_budget(all, 0));
    pthread_mutex_unlock(&all->lock);
    free_taken(taken);
}

static pc_status try_to_hold(pc__kv_hold *hold, size_t bytes)
{
    pc__backend *backend = hold->backend;
    size_t held = 0;
    pc_status status = PC_OK;
    if (!(hold->memory = backend->ops->take(backend, bytes)))
        return PC_ERR_NOMEM;
    while (held < hold->count && (status = hold_run(backend, hold->runs[held])) >= 0)
        held++;
    if (status >= 0)
        return PC_OK;
    release_runs(&backend->mirrors, hold->runs, held);
    backend->ops->give(backend, hold->memory);
    return status;
}

pc_status pc__kv_mirrors_hold(pc__kv_hold *hold, pc__backend *backend, pc__kv *const *runs,
                              size_t count, size_t bytes)
{
    *hold = (pc__kv_hold){.backend = backend, .runs = runs, .count = count};
    if (pc__host_sees(backend))
        hold->count = 0;
    pc_status status = try_to_hold(hold, bytes);
    if (status < 0)
        *hold = (pc__kv_hold){NULL};
    return status;
}

void pc__kv_mirrors_release(pc__kv_hold *hold)
{
    pc__backend *backend = hold->backend;
    if (!backend)
        return;
    backend->ops->give(backend, hold->memory);
    if (hold->count)
        release_runs(&backend->mirrors, hold->runs, hold->count);
    *hold = (pc__kv_hold){NULL};
}

/* ----------------------------------------------------------------- work */

static _Thread_local int works_here; /* this thread: it would wait for itself */

static int may_begin(const pc__kv_mirrors *all, int alone)
{
    return alone ? !all->working : !all->alone;
}

/* Returns the number of this work. */
static uint64_t begin_work(pc__kv_mirrors *all, int alone, int *crowded)
{
    enum { PATIENCE = 60 }; /* seconds */
    struct timespec end;
    int waits = 1;
    clock_gettime(CLOCK_REALTIME, &end);
    end.tv_sec += PATIENCE;
    pthread_mutex_lock(&all->lock);
    all->alone += alone != 0;
    while (!may_begin(all, alone) && waits)
        waits = !pthread_cond_timedwait(&all->changed, &all->lock, &end);
    *crowded = all->working++ > 0;
    uint64_t number = ++all->works;
    pthread_mutex_unlock(&all->lock);
    works_here = 1;
    return number;
}

static void end_work(pc__kv_mirrors *all, int alone, uint64_t number, int *crowded)
{
    works_here = 0;
    pthread_mutex_lock(&all->lock);
    all->working--;
    all->alone -= alone != 0;
    *crowded |= all->works != number;
    pthread_cond_broadcast(&all->changed);
    pthread_mutex_unlock(&all->lock);
}

static pc_status work_once(pc__kv_mirrors *all, pc_status (*run)(void *), void *work, int alone,
                           int *crowded)
{
    uint64_t number = begin_work(all, alone, crowded);
    pc_status status = run(work);
    end_work(all, alone, number, crowded);
    return status;
}

pc_status pc__kv_mirrors_work(pc__backend *backend, pc_status (*run)(void *), void *work, int once)
{
    int crowded;
    if (pc__host_sees(backend) || works_here)
        return run(work);
    pc_status status = work_once(&backend->mirrors, run, work, 0, &crowded);
    if (status == PC_ERR_NOMEM && crowded && !once)
        status = work_once(&backend->mirrors, run, work, 1, &crowded);
    return status;
}

/* ----------------------------------------------------------------- contents */

static int32_t last_layer(const pc__kv *kv, int32_t layer)
{
    return atomic_load_explicit(&((pc__kv *)(uintptr_t)kv)->stream, memory_order_acquire)
               ? layer
               : kv->shape.layers - 1;
}

/* 1: the caller copies to the mirror, and has marked it. *others: another thread does. */
static int claim(pc__kv_mirrors *all, pc__kv *kv, int32_t layer, const void *mark, int *others)
{
    pthread_mutex_lock(&all->lock);
    pc__kv_mirror *m = mirror_of(kv);
    int wanted = m->layers <= layer, mine = wanted && !m->busy;
    if (mine) {
        m->busy = mark;
        m->copying = last_layer(kv, layer) + 1;
    }
    *others |= wanted && !mine;
    pthread_mutex_unlock(&all->lock);
    return mine;
}

static void queue_layers(pc__stream *stream, const pc__kv *kv)
{
    const pc__kv_mirror *m = mirror_of(kv);
    const pc__kv_device *d = &m->device;
    size_t bytes = pc__kv_layer_bytes(&kv->shape, kv->tokens - kv->unwritten);
    for (int32_t l = m->layers; l < m->copying && bytes; l++)
        stream->ops->copy(stream, d->page[0] + (size_t)l * d->layer_stride, kv->layer[l], bytes);
}

void pc__kv_mirror_fetch(pc__stream *stream, const pc__kv *kv, int32_t layers, size_t from,
                         size_t to)
{
    const pc__kv_device *d = &mirror_of(kv)->device;
    size_t each = pc__kv_layer_page_bytes(&kv->shape), first = from / PC__PAGE,
           bytes = (to - 1) / PC__PAGE * each + each - first * each;
    for (int32_t l = 0; l < layers; l++)
        stream->ops->copy(stream, kv->layer[l] + first * each,
                          d->page[first] + (size_t)l * d->layer_stride, bytes);
}

static void unclaim(pc__kv_mirrors *all, pc__kv *const *runs, size_t count, const void *mark,
                    pc_status status)
{
    pthread_mutex_lock(&all->lock);
    for (size_t i = 0; i < count; i++) {
        pc__kv_mirror *m = mirror_of(runs[i]);
        if (m->busy != mark)
            continue;
        m->busy = NULL;
        m->layers = status >= 0 ? m->copying : m->layers;
    }
    pthread_cond_broadcast(&all->changed);
    pthread_mutex_unlock(&all->lock);
}

/* Copies to those to which no other thread copies. */
static pc_status fill_some(pc__backend *backend, pc__kv *const *runs, size_t count, int32_t layer,
                           int *others)
{
    pc__kv_mirrors *all = &backend->mirrors;
    pc__stream *stream = NULL;
    const void *mark = &stream;
    *others = 0;
    for (size_t i = 0; i < count; i++)
        if (claim(all, runs[i], layer, mark, others)) {
            stream = stream ? stream : pc__backend_stream(backend);
            queue_layers(stream, runs[i]);
        }
    if (!stream)
        return PC_OK;
    pc_status status = pc__backend_stream_end(stream);
    unclaim(all, runs, count, mark, status);
    return status;
}

static void await_others(pc__kv_mirrors *all, pc__kv *const *runs, size_t count)
{
    size_t i;
    pthread_mutex_lock(&all->lock);
    for (i = 0; i < count && !mirror_of(runs[i])->busy;)
        i++;
    if (i < count)
        pthread_cond_wait(&all->changed, &all->lock);
    pthread_mutex_unlock(&all->lock);
}

pc_status pc__kv_mirrors_fill(const pc__kv_hold *hold, int32_t layer)
{
    int others;
    for (;;) {
        PC__TRY_RETURN(fill_some(hold->backend, hold->runs, hold->count, layer, &others));
        if (!others)
            return PC_OK;
        await_others(&hold->backend->mirrors, hold->runs, hold->count);
    }
}
