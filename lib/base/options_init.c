/* The init functions of all structs that start with struct_size, for languages without macros. They
 * write no more than the caller says: its struct may be shorter or longer than the library's. */
#include <promptcache.h>
#include <promptcache/admin.h>
#include <promptcache/attend.h>
#include <promptcache/batch.h>
#include <promptcache/bench.h>
#include <promptcache/cache.h>
#include <promptcache/embed.h>
#include <promptcache/extend.h>
#include <promptcache/grammar.h>
#include <promptcache/memo.h>
#include <promptcache/prompt.h>
#include <promptcache/sampling.h>
#include <string.h>

#define INIT(type)                          \
    void type##_init(type *at, size_t size) \
    {                                       \
        if (at && size >= sizeof(size_t)) { \
            memset(at, 0, size);            \
            memcpy(at, &size, sizeof size); \
        }                                   \
    }

/* clang-format off */
INIT(pc_allocator)
INIT(pc_context_options)
INIT(pc_model_options)
INIT(pc_model_info)
INIT(pc_cache_options)
INIT(pc_cache_stats)
INIT(pc_prometheus_options)
INIT(pc_tier_stats)
INIT(pc_schema_options)
INIT(pc_system_format)
INIT(pc_item)
INIT(pc_encode_options)
INIT(pc_prompt_options)
INIT(pc_part)
INIT(pc_chat_options)
INIT(pc_sampling)
INIT(pc_grammar_options)
INIT(pc_grammar_ops)
INIT(pc_generate_options)
INIT(pc_stats)
INIT(pc_fork_options)
INIT(pc_batch_options)
INIT(pc_batch_stats)
INIT(pc_systems_options)
INIT(pc_system_info)
INIT(pc_model_file_info)
INIT(pc_model_file_type)
INIT(pc_folder_options)
INIT(pc_record_info)
INIT(pc_costs)
INIT(pc_calibrate_options)
INIT(pc_plugin_info)
INIT(pc_attend_shape)
INIT(pc_plan_args)
INIT(pc_rope)
INIT(pc_pool)
INIT(pc_pages_args)
INIT(pc_merge_args)
INIT(pc_attend_args)
INIT(pc_bench_options)
INIT(pc_model_ops)
INIT(pc_codec_ops)
INIT(pc_key_parts)
INIT(pc_key_segment_args)
INIT(pc_raw)
INIT(pc_put_options)
INIT(pc_get_options)
INIT(pc_find_options)
INIT(pc_remove_options)
INIT(pc_save_options)
INIT(pc_get_info)
INIT(pc_eval_args)
INIT(pc_embed_options)
INIT(pc_embed_stats)
INIT(pc_memo_options)
INIT(pc_memo_work)
INIT(pc_memo_bucket)
INIT(pc_memo_stats)
INIT(pc_prefill_options)
INIT(pc_prefill_stats)
/* clang-format on */
