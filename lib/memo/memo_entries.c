/* The remembered prompts: an array sorted by id, and a hash table by the digest of their tokens. */
#include <stdlib.h>

#include "base/fail.h"
#include "memo/memo_internal.h"

pc__memo_entry *pc__memo_entry_by_tokens(const pc_memo *memo, const pc__id *tokens_id)
{
    return PC__FIND_ID(&memo->by_tokens, tokens_id, pc__memo_entry, by_tokens, tokens_id);
}

static void unlink_tokens(pc_memo *memo, pc__memo_entry *entry)
{
    if (entry->is_linked)
        pc__hash_table_remove(&memo->by_tokens, &entry->by_tokens);
    entry->is_linked = 0;
}

pc_status pc__memo_entry_add(pc_memo *memo, int64_t id, const pc__id *tokens_id, uint32_t tokens,
                             size_t metadata_size)
{
    uint32_t b = pc__memo_bucket_of(memo, tokens),
             has_outputs = b < memo->head.bucket_count
                           && metadata_size > pc__memo_metadata_base(memo, b);
    pc__memo_entry *entry, *older;
    PC__TRY_RETURN(pc__grow(&memo->mem, (void **)&memo->entries, &memo->entry_capacity,
                            memo->entry_count + 1, sizeof(*memo->entries)));
    PC__TRY_RETURN(pc__hash_table_reserve(&memo->by_tokens, &memo->mem));
    entry = pc__alloc(&memo->mem, sizeof *entry);
    if (!entry)
        return PC_ERR_NOMEM;
    older = pc__memo_entry_by_tokens(memo, tokens_id);
    if (older)
        unlink_tokens(memo, older);
    *entry = (pc__memo_entry){.id = id,
                              .tokens_id = *tokens_id,
                              .tokens = tokens,
                              .has_outputs = has_outputs,
                              .is_linked = 1};
    pc__hash_table_add(&memo->by_tokens, &entry->by_tokens, pc__id_hash(tokens_id));
    memo->entries[memo->entry_count++] = entry;
    memo->outputs += has_outputs;
    if (b < memo->head.bucket_count)
        memo->buckets[b].records++;
    return PC_OK;
}

static int compare_id(const void *id, const void *entry)
{
    int64_t a = *(const int64_t *)id, b = (*(pc__memo_entry *const *)entry)->id;
    return (a > b) - (a < b);
}

pc__memo_entry *pc__memo_entry_find(const pc_memo *memo, int64_t id)
{
    pc__memo_entry **found = memo->entries ? bsearch(&id, memo->entries, memo->entry_count,
                                                     sizeof(*memo->entries), compare_id)
                                           : NULL;
    return found ? *found : NULL;
}

void pc__memo_entries_free(pc_memo *memo)
{
    for (size_t i = 0; i < memo->entry_count; i++)
        pc__free(&memo->mem, memo->entries[i]);
    pc__free(&memo->mem, memo->entries);
    pc__hash_table_free(&memo->by_tokens, &memo->mem);
}

void pc__memo_entry_remove(pc_memo *memo, int64_t id)
{
    size_t indexed_layers = pc__memo_indexed_layers(memo);
    pc__memo_entry *entry;
    pthread_rwlock_wrlock(&memo->guard);
    entry = pc__memo_entry_find(memo, id);
    if (entry && entry->tokens) {
        uint32_t b = pc__memo_bucket_of(memo, entry->tokens);
        if (b < memo->head.bucket_count) {
            pc__index **indexes = memo->lengths + entry->tokens * indexed_layers;
            memo->buckets[b].records--;
            memo->buckets[b].unsaved_cost++;
            for (size_t u = 0; u < indexed_layers; u++)
                if (indexes[u])
                    (void)pc__index_remove(indexes[u], id);
        }
        unlink_tokens(memo, entry);
        memo->outputs -= entry->has_outputs;
        entry->tokens = 0;
    }
    pthread_rwlock_unlock(&memo->guard);
}
