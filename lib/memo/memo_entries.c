#include "base/fail.h"
#include "memo/memo_body.h"

pc_status pc__memo_enter(pc_memo *memo, int64_t id, const pc__id *tokens_id, uint32_t tokens)
{
    uint32_t b = pc__memo_bucket_of(memo, tokens);
    pc_status status = pc__grow(&memo->mem, (void **)&memo->entries, &memo->entry_capacity, memo->entry_count + 1, sizeof(*memo->entries));
    if (status >= 0)
        status = pc__known_set(&memo->known, &memo->mem, tokens_id, id);
    if (status < 0)
        return status;
    memo->entries[memo->entry_count++] = (pc__memo_entry){id, *tokens_id, tokens};
    if (b < memo->head.bucket_count)
        memo->buckets[b].records++;
    return PC_OK;
}

static pc__memo_entry *find(const pc_memo *memo, int64_t id)
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

const pc__memo_entry *pc__memo_entry_of(const pc_memo *memo, int64_t id)
{
    return find(memo, id);
}

void pc__memo_forget(pc_memo *memo, int64_t id)
{
    pc__memo_entry *entry;
    pthread_rwlock_wrlock(&memo->guard);
    entry = find(memo, id);
    if (entry && entry->tokens) {
        uint32_t b = pc__memo_bucket_of(memo, entry->tokens);
        if (b < memo->head.bucket_count) {
            memo->buckets[b].records--;
            memo->buckets[b].unkept++;
            for (size_t u = 0, units = pc__memo_units(memo); u < units; u++)
                if (memo->lengths[entry->tokens * units + u])
                    (void)pc__index_remove(memo->lengths[entry->tokens * units + u], id);
        }
        pc__known_drop(&memo->known, &entry->tokens_id);
        entry->tokens = 0;
    }
    pthread_rwlock_unlock(&memo->guard);
}
