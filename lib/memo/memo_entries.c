#include "base/fail.h"
#include "memo/memo_output.h"

pc_status pc__memo_entry_add(pc_memo *memo, int64_t id, const pc__id *tokens_id, uint32_t tokens,
                             size_t metadata_size)
{
    uint32_t b = pc__memo_bucket_of(memo, tokens),
             has_outputs = b < memo->head.bucket_count
                           && metadata_size > pc__memo_metadata_base(memo, b);
    pc_status status = pc__grow(&memo->mem, (void **)&memo->entries, &memo->entry_capacity,
                                memo->entry_count + 1, sizeof(*memo->entries));
    if (status >= 0)
        status = pc__token_hash_set(&memo->known, &memo->mem, tokens_id, id);
    if (status < 0)
        return status;
    memo->entries[memo->entry_count++] = (pc__memo_entry){id, *tokens_id, tokens, has_outputs};
    memo->outputs += has_outputs;
    if (b < memo->head.bucket_count)
        memo->buckets[b].records++;
    return PC_OK;
}

static pc__memo_entry *find_entry(const pc_memo *memo, int64_t id)
{
    size_t lo = 0, hi = memo->entry_count;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (memo->entries[mid].id < id)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo < memo->entry_count && memo->entries[lo].id == id ? &memo->entries[lo] : NULL;
}

const pc__memo_entry *pc__memo_entry_find(const pc_memo *memo, int64_t id)
{
    return find_entry(memo, id);
}

void pc__memo_entry_remove(pc_memo *memo, int64_t id)
{
    pc__memo_entry *entry;
    pthread_rwlock_wrlock(&memo->guard);
    entry = find_entry(memo, id);
    if (entry && entry->tokens) {
        uint32_t b = pc__memo_bucket_of(memo, entry->tokens);
        if (b < memo->head.bucket_count) {
            memo->buckets[b].records--;
            memo->buckets[b].unsaved_cost++;
            for (size_t u = 0, indexed_layers = pc__memo_indexed_layers(memo); u < indexed_layers; u++)
                if (memo->lengths[entry->tokens * indexed_layers + u])
                    (void)pc__index_remove(memo->lengths[entry->tokens * indexed_layers + u], id);
        }
        if (pc__token_hash_get(&memo->known, &entry->tokens_id)
            == id) /* else the same prompt was remembered again */
            pc__token_hash_remove(&memo->known, &entry->tokens_id);
        memo->outputs -= entry->has_outputs;
        entry->tokens = 0;
    }
    pthread_rwlock_unlock(&memo->guard);
}
