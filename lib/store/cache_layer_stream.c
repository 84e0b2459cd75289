/* Segments that are used while they are being read. Once a load has compared the header and has
 * memory, a waiting request may take the segment and compute with its first layers. The forward
 * pass asks for each layer (pc__layer_stream). If a layer is late, the pass ends and the request
 * computes what is missing; it has lost no more than it was ready to wait. */
#include <stddef.h>

#include "store/cache_internal.h"
#include "base/hash_table.h"

static pc_status await_layer(pc__layer_stream *stream, size_t layer)
{
    pc__entry_load *load = PC__AROUND(stream, pc__entry_load, stream);
    pc_cache *cache = load->cache;
    pc_status status = PC_OK;
    pthread_mutex_lock(&cache->load_lock);
    while (status == PC_OK && !load->ready[layer]) {
        if (load->stream_error || pc__now() >= load->stream_until) {
            load->stream_error = load->stream_error ? load->stream_error : PC_REASON_SLOW;
            status = pc__fail(PC_ERR_IO, "cache: layer %zu of a segment was not read in time",
                              layer);
        } else {
            pc__load_sleep(load, load->stream_until);
        }
    }
    pthread_mutex_unlock(&cache->load_lock);
    return status;
}

void pc__layer_stream_offer(pc__entry_load *load, pc_segment *segment, size_t blocks, uint32_t tier)
{
    uint8_t *ready = pc__calloc(&load->cache->context->mem, blocks, 1);
    if (!ready)
        return;
    load->stream.await = await_layer;
    load->ops->set_layer_stream(load->owner, segment->payload, &load->stream);
    pthread_mutex_lock(&load->cache->load_lock);
    load->ready = ready;
    load->early = pc__segment_ref(segment);
    load->early_tier = tier;
    pthread_cond_broadcast(&load->cache->load_done);
    pthread_mutex_unlock(&load->cache->load_lock);
}

void pc__layer_stream_ready(pc__entry_load *load, size_t block)
{
    pthread_mutex_lock(&load->cache->load_lock);
    if (!load->stream_error) /* else it is a block of another tier's record, in other memory */
        load->ready[block] = 1;
    pthread_cond_broadcast(&load->cache->load_done);
    pthread_mutex_unlock(&load->cache->load_lock);
}

void pc__layer_stream_end(pc__entry_load *load, uint32_t reason)
{
    pthread_mutex_lock(&load->cache->load_lock);
    if (!load->stream_error)
        load->stream_error = reason;
    if (!reason && load->early)
        load->ops->set_layer_stream(load->owner, load->early->payload, NULL);
    pthread_cond_broadcast(&load->cache->load_done);
    pthread_mutex_unlock(&load->cache->load_lock);
}

pc_status pc__load_early(pc__entry_load *load, double until, pc_segment **out, uint32_t *tier)
{
    pc_cache *cache = load->cache;
    *out = NULL;
    pthread_mutex_lock(&cache->load_lock);
    if (load->early && !load->stream_error) {
        *out = pc__segment_ref(load->early);
        *tier = load->early_tier;
        atomic_fetch_add(&cache->counts.early, 1);
        load->stream_until = until > load->stream_until ? until : load->stream_until;
    }
    pthread_mutex_unlock(&cache->load_lock);
    return *out ? PC_OK : PC_MISS;
}

uint32_t pc__load_stream_error(pc__entry_load *load)
{
    uint32_t error;
    pthread_mutex_lock(&load->cache->load_lock);
    error = load->stream_error;
    pthread_mutex_unlock(&load->cache->load_lock);
    return error;
}
