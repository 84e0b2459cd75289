/* The binary interface of release 0.1 on 64-bit machines, as test/abi/freeze.py printed it. Catches: a field that was moved, removed, put
 * in between or given another size, a constant with another value. Structs that start with struct_size may have grown at their end in
 * later releases, the others not at all. */
#include <promptcache.h>

#define SAME(what, value) _Static_assert((what) == (value), #what)
#define AT(type, field, offset) SAME(offsetof(type, field), offset)
#define FIXED(type, size) SAME(sizeof(type), size)
#if PC_VERSION_MAJOR == 0 && PC_VERSION_MINOR == 1
#define GROWS(type, size) FIXED(type, size)
#else
#define GROWS(type, size) _Static_assert(sizeof(type) >= (size), #type)
#endif

#if UINTPTR_MAX == UINT64_MAX

FIXED(pc_allocator, 24);
AT(pc_allocator, user, 0);
AT(pc_allocator, alloc, 8);
AT(pc_allocator, free, 16);

GROWS(pc_context_options, 56);
AT(pc_context_options, struct_size, 0);
AT(pc_context_options, allocator, 8);
AT(pc_context_options, log, 16);
AT(pc_context_options, log_user, 24);
AT(pc_context_options, parallel_for, 32);
AT(pc_context_options, parallel_user, 40);
AT(pc_context_options, threads, 48);
AT(pc_context_options, reserved, 52);

GROWS(pc_model_options, 56);
AT(pc_model_options, struct_size, 0);
AT(pc_model_options, compute, 8);
AT(pc_model_options, kv, 12);
AT(pc_model_options, flags, 16);
AT(pc_model_options, seed, 24);
AT(pc_model_options, chat_template, 32);
AT(pc_model_options, progress, 40);
AT(pc_model_options, progress_user, 48);

GROWS(pc_model_info, 144);
AT(pc_model_info, struct_size, 0);
AT(pc_model_info, architecture, 8);
AT(pc_model_info, fingerprint, 40);
AT(pc_model_info, layers, 72);
AT(pc_model_info, heads, 76);
AT(pc_model_info, kv_heads, 80);
AT(pc_model_info, head_dim, 84);
AT(pc_model_info, hidden, 88);
AT(pc_model_info, vocab, 92);
AT(pc_model_info, context_length, 96);
AT(pc_model_info, position_scheme, 100);
AT(pc_model_info, compute, 104);
AT(pc_model_info, relocatable, 108);
AT(pc_model_info, token_bos, 112);
AT(pc_model_info, token_eos, 116);
AT(pc_model_info, token_unk, 120);
AT(pc_model_info, token_pad, 124);
AT(pc_model_info, weight_bytes, 128);
AT(pc_model_info, kv_bytes_per_token, 136);

FIXED(pc_placement, 24);
AT(pc_placement, segment, 0);
AT(pc_placement, start, 8);
AT(pc_placement, lo, 16);
AT(pc_placement, hi, 20);

FIXED(pc_cut, 16);
AT(pc_cut, first, 0);
AT(pc_cut, count, 8);

GROWS(pc_encode_args, 88);
AT(pc_encode_args, struct_size, 0);
AT(pc_encode_args, tokens, 8);
AT(pc_encode_args, positions, 16);
AT(pc_encode_args, count, 24);
AT(pc_encode_args, visible, 32);
AT(pc_encode_args, visible_count, 40);
AT(pc_encode_args, cuts, 48);
AT(pc_encode_args, cut_count, 56);
AT(pc_encode_args, regime_length, 64);
AT(pc_encode_args, cancelled, 72);
AT(pc_encode_args, cancel_user, 80);

FIXED(pc_step_row, 24);
AT(pc_step_row, sequence, 0);
AT(pc_step_row, position, 8);
AT(pc_step_row, token, 16);
AT(pc_step_row, want_logits, 20);

GROWS(pc_step_args, 64);
AT(pc_step_args, struct_size, 0);
AT(pc_step_args, rows, 8);
AT(pc_step_args, count, 16);
AT(pc_step_args, logits, 24);
AT(pc_step_args, see, 32);
AT(pc_step_args, flags, 36);
AT(pc_step_args, regime_length, 40);
AT(pc_step_args, cancelled, 48);
AT(pc_step_args, cancel_user, 56);

GROWS(pc_model_ops, 128);
AT(pc_model_ops, struct_size, 0);
AT(pc_model_ops, describe, 8);
AT(pc_model_ops, tokenize, 16);
AT(pc_model_ops, detokenize, 24);
AT(pc_model_ops, encode, 32);
AT(pc_model_ops, release, 40);
AT(pc_model_ops, size, 48);
AT(pc_model_ops, sequence_new, 56);
AT(pc_model_ops, attach, 64);
AT(pc_model_ops, fork, 72);
AT(pc_model_ops, step, 80);
AT(pc_model_ops, drop, 88);
AT(pc_model_ops, deviation, 96);
AT(pc_model_ops, truncate, 104);
AT(pc_model_ops, export_segment, 112);
AT(pc_model_ops, import_segment, 120);

GROWS(pc_codec_block, 48);
AT(pc_codec_block, struct_size, 0);
AT(pc_codec_block, layout, 8);
AT(pc_codec_block, dtype, 12);
AT(pc_codec_block, kv_heads, 16);
AT(pc_codec_block, k_dim, 20);
AT(pc_codec_block, v_dim, 24);
AT(pc_codec_block, index, 28);
AT(pc_codec_block, tokens, 32);
AT(pc_codec_block, bytes, 40);

GROWS(pc_codec_ops, 56);
AT(pc_codec_ops, struct_size, 0);
AT(pc_codec_ops, id, 8);
AT(pc_codec_ops, lossy, 12);
AT(pc_codec_ops, name, 16);
AT(pc_codec_ops, bound, 24);
AT(pc_codec_ops, encode, 32);
AT(pc_codec_ops, decode, 40);
AT(pc_codec_ops, user, 48);

GROWS(pc_event, 72);
AT(pc_event, struct_size, 0);
AT(pc_event, kind, 8);
AT(pc_event, tier, 12);
AT(pc_event, reason, 16);
AT(pc_event, tokens, 20);
AT(pc_event, key, 24);
AT(pc_event, bytes, 56);
AT(pc_event, seconds, 64);

GROWS(pc_cache_options, 160);
AT(pc_cache_options, struct_size, 0);
AT(pc_cache_options, host_bytes, 8);
AT(pc_cache_options, salt, 16);
AT(pc_cache_options, salt_size, 24);
AT(pc_cache_options, flags, 32);
AT(pc_cache_options, packed_bytes, 40);
AT(pc_cache_options, disk_path, 48);
AT(pc_cache_options, disk_bytes, 56);
AT(pc_cache_options, remote, 64);
AT(pc_cache_options, packed_codec, 72);
AT(pc_cache_options, disk_codec, 76);
AT(pc_cache_options, remote_codec, 80);
AT(pc_cache_options, io_threads, 84);
AT(pc_cache_options, codecs, 88);
AT(pc_cache_options, codec_count, 96);
AT(pc_cache_options, seal_key, 104);
AT(pc_cache_options, ttl_seconds, 112);
AT(pc_cache_options, deadline_seconds, 120);
AT(pc_cache_options, on_event, 128);
AT(pc_cache_options, event_user, 136);
AT(pc_cache_options, on_bytes, 144);
AT(pc_cache_options, bytes_user, 152);

GROWS(pc_cache_stats, 96);
AT(pc_cache_stats, struct_size, 0);
AT(pc_cache_stats, lookups, 8);
AT(pc_cache_stats, hits, 16);
AT(pc_cache_stats, misses, 24);
AT(pc_cache_stats, stored, 32);
AT(pc_cache_stats, refused, 40);
AT(pc_cache_stats, evicted, 48);
AT(pc_cache_stats, removed, 56);
AT(pc_cache_stats, resident, 64);
AT(pc_cache_stats, resident_bytes, 72);
AT(pc_cache_stats, pinned_bytes, 80);
AT(pc_cache_stats, budget_bytes, 88);

GROWS(pc_tier_stats, 192);
AT(pc_tier_stats, struct_size, 0);
AT(pc_tier_stats, offered, 8);
AT(pc_tier_stats, stored, 16);
AT(pc_tier_stats, adopted, 24);
AT(pc_tier_stats, known, 32);
AT(pc_tier_stats, refused, 40);
AT(pc_tier_stats, failed, 48);
AT(pc_tier_stats, evicted, 56);
AT(pc_tier_stats, removed, 64);
AT(pc_tier_stats, lost, 72);
AT(pc_tier_stats, resident, 80);
AT(pc_tier_stats, resident_bytes, 88);
AT(pc_tier_stats, pinned_bytes, 96);
AT(pc_tier_stats, budget_bytes, 104);
AT(pc_tier_stats, staging_bytes, 112);
AT(pc_tier_stats, lookups, 120);
AT(pc_tier_stats, hits, 128);
AT(pc_tier_stats, misses, 136);
AT(pc_tier_stats, load_failed, 144);
AT(pc_tier_stats, not_worth, 152);
AT(pc_tier_stats, bytes_read, 160);
AT(pc_tier_stats, bytes_written, 168);
AT(pc_tier_stats, seconds_read, 176);
AT(pc_tier_stats, seconds_written, 184);

GROWS(pc_key_parts, 72);
AT(pc_key_parts, struct_size, 0);
AT(pc_key_parts, model, 8);
AT(pc_key_parts, adapter, 16);
AT(pc_key_parts, tokenizer, 24);
AT(pc_key_parts, position_scheme, 32);
AT(pc_key_parts, dtype, 36);
AT(pc_key_parts, regime, 40);
AT(pc_key_parts, layout, 48);
AT(pc_key_parts, encoding, 52);
AT(pc_key_parts, salt, 56);
AT(pc_key_parts, salt_size, 64);

GROWS(pc_raw, 136);
AT(pc_raw, struct_size, 0);
AT(pc_raw, model, 8);
AT(pc_raw, architecture, 16);
AT(pc_raw, position_scheme, 48);
AT(pc_raw, dtype, 52);
AT(pc_raw, layout, 56);
AT(pc_raw, lossy, 60);
AT(pc_raw, layers, 64);
AT(pc_raw, kv_heads, 68);
AT(pc_raw, k_dim, 72);
AT(pc_raw, v_dim, 76);
AT(pc_raw, regime, 80);
AT(pc_raw, tokens, 88);
AT(pc_raw, relative, 96);
AT(pc_raw, token_count, 104);
AT(pc_raw, blocks, 112);
AT(pc_raw, block_bytes, 120);
AT(pc_raw, block_count, 128);

GROWS(pc_put_options, 56);
AT(pc_put_options, struct_size, 0);
AT(pc_put_options, cost_seconds, 8);
AT(pc_put_options, ttl_seconds, 16);
AT(pc_put_options, priority, 24);
AT(pc_put_options, reserved, 28);
AT(pc_put_options, before, 32);
AT(pc_put_options, salt, 40);
AT(pc_put_options, salt_size, 48);

GROWS(pc_get_info, 32);
AT(pc_get_info, struct_size, 0);
AT(pc_get_info, tier, 8);
AT(pc_get_info, reason, 12);
AT(pc_get_info, lossy, 16);
AT(pc_get_info, reserved, 20);
AT(pc_get_info, seconds, 24);

GROWS(pc_folder_options, 24);
AT(pc_folder_options, struct_size, 0);
AT(pc_folder_options, seal_key, 8);
AT(pc_folder_options, flags, 16);

GROWS(pc_record_info, 200);
AT(pc_record_info, struct_size, 0);
AT(pc_record_info, key, 8);
AT(pc_record_info, model, 40);
AT(pc_record_info, architecture, 72);
AT(pc_record_info, codec, 104);
AT(pc_record_info, lossy, 108);
AT(pc_record_info, sealed, 112);
AT(pc_record_info, position_scheme, 116);
AT(pc_record_info, dtype, 120);
AT(pc_record_info, layout, 124);
AT(pc_record_info, encoding, 128);
AT(pc_record_info, layers, 132);
AT(pc_record_info, kv_heads, 136);
AT(pc_record_info, k_dim, 140);
AT(pc_record_info, v_dim, 144);
AT(pc_record_info, version, 148);
AT(pc_record_info, tokens, 152);
AT(pc_record_info, state_bytes, 160);
AT(pc_record_info, file_bytes, 168);
AT(pc_record_info, cost_seconds, 176);
AT(pc_record_info, written, 184);
AT(pc_record_info, expires, 192);

GROWS(pc_schema_options, 32);
AT(pc_schema_options, struct_size, 0);
AT(pc_schema_options, flags, 8);
AT(pc_schema_options, max_tokens, 16);
AT(pc_schema_options, reserved, 20);
AT(pc_schema_options, base_folder, 24);

GROWS(pc_relay, 88);
AT(pc_relay, struct_size, 0);
AT(pc_relay, name, 8);
AT(pc_relay, format, 16);
AT(pc_relay, format_size, 24);
AT(pc_relay, format_file, 32);
AT(pc_relay, system, 40);
AT(pc_relay, system_size, 48);
AT(pc_relay, system_file, 56);
AT(pc_relay, tokens, 64);
AT(pc_relay, token_count, 72);
AT(pc_relay, flags, 80);

GROWS(pc_item, 56);
AT(pc_item, struct_size, 0);
AT(pc_item, kind, 8);
AT(pc_item, depth, 12);
AT(pc_item, path, 16);
AT(pc_item, text, 24);
AT(pc_item, start, 32);
AT(pc_item, length, 40);
AT(pc_item, flags, 48);

GROWS(pc_encode_options, 64);
AT(pc_encode_options, struct_size, 0);
AT(pc_encode_options, encoding, 8);
AT(pc_encode_options, reserved, 12);
AT(pc_encode_options, progress, 16);
AT(pc_encode_options, progress_user, 24);
AT(pc_encode_options, ttl_seconds, 32);
AT(pc_encode_options, priority, 40);
AT(pc_encode_options, pin, 44);
AT(pc_encode_options, pin_owner, 48);
AT(pc_encode_options, pin_seconds, 56);

GROWS(pc_prompt_options, 16);
AT(pc_prompt_options, struct_size, 0);
AT(pc_prompt_options, flags, 8);

GROWS(pc_part, 48);
AT(pc_part, struct_size, 0);
AT(pc_part, kind, 8);
AT(pc_part, reserved, 12);
AT(pc_part, path, 16);
AT(pc_part, tokens, 24);
AT(pc_part, count, 32);
AT(pc_part, start, 40);

GROWS(pc_systems_options, 48);
AT(pc_systems_options, struct_size, 0);
AT(pc_systems_options, format, 8);
AT(pc_systems_options, format_size, 16);
AT(pc_systems_options, format_file, 24);
AT(pc_systems_options, encoding, 32);
AT(pc_systems_options, reserved, 36);
AT(pc_systems_options, flags, 40);

GROWS(pc_system_info, 96);
AT(pc_system_info, struct_size, 0);
AT(pc_system_info, name, 8);
AT(pc_system_info, length, 72);
AT(pc_system_info, kept, 80);
AT(pc_system_info, filled, 88);

FIXED(pc_sampling, 24);
AT(pc_sampling, temperature, 0);
AT(pc_sampling, top_p, 4);
AT(pc_sampling, repetition_penalty, 8);
AT(pc_sampling, top_k, 12);
AT(pc_sampling, seed, 16);

FIXED(pc_salt, 24);
AT(pc_salt, first, 0);
AT(pc_salt, data, 8);
AT(pc_salt, size, 16);

GROWS(pc_generate_options, 160);
AT(pc_generate_options, struct_size, 0);
AT(pc_generate_options, max_tokens, 8);
AT(pc_generate_options, samples, 12);
AT(pc_generate_options, encoding, 16);
AT(pc_generate_options, repair, 20);
AT(pc_generate_options, repair_tokens, 24);
AT(pc_generate_options, repair_percent, 28);
AT(pc_generate_options, baseline, 32);
AT(pc_generate_options, see, 36);
AT(pc_generate_options, sampling, 40);
AT(pc_generate_options, stop_tokens, 64);
AT(pc_generate_options, stop_token_count, 72);
AT(pc_generate_options, stop_strings, 80);
AT(pc_generate_options, stop_string_count, 88);
AT(pc_generate_options, on_text, 96);
AT(pc_generate_options, on_text_user, 104);
AT(pc_generate_options, cancelled, 112);
AT(pc_generate_options, cancel_user, 120);
AT(pc_generate_options, flags, 128);
AT(pc_generate_options, shared_tokens, 136);
AT(pc_generate_options, salts, 144);
AT(pc_generate_options, salt_count, 152);

GROWS(pc_stats, 192);
AT(pc_stats, struct_size, 0);
AT(pc_stats, tokens_prompt, 8);
AT(pc_stats, tokens_cached, 16);
AT(pc_stats, tokens_encoded, 24);
AT(pc_stats, tokens_repaired, 32);
AT(pc_stats, tokens_new, 40);
AT(pc_stats, tokens_generated, 48);
AT(pc_stats, bytes_reused, 56);
AT(pc_stats, exactness, 64);
AT(pc_stats, repair, 68);
AT(pc_stats, miss_reason, 72);
AT(pc_stats, finish, 76);
AT(pc_stats, seconds_assemble, 80);
AT(pc_stats, seconds_encode, 88);
AT(pc_stats, seconds_prefill, 96);
AT(pc_stats, seconds_ttft, 104);
AT(pc_stats, seconds_decode, 112);
AT(pc_stats, tokens_tier, 120);
AT(pc_stats, bytes_loaded, 168);
AT(pc_stats, seconds_load, 176);
AT(pc_stats, lossy, 184);
AT(pc_stats, reserved, 188);

GROWS(pc_batch_options, 16);
AT(pc_batch_options, struct_size, 0);
AT(pc_batch_options, max_sequences, 8);
AT(pc_batch_options, reserved, 12);

GROWS(pc_batch_stats, 40);
AT(pc_batch_stats, struct_size, 0);
AT(pc_batch_stats, sequences, 8);
AT(pc_batch_stats, running, 16);
AT(pc_batch_stats, tokens_seen, 24);
AT(pc_batch_stats, tokens_stored, 32);

FIXED(pc_span, 24);
AT(pc_span, segment, 0);
AT(pc_span, start, 8);
AT(pc_span, lo, 16);
AT(pc_span, hi, 20);

GROWS(pc_trace, 72);
AT(pc_trace, struct_size, 0);
AT(pc_trace, name, 8);
AT(pc_trace, layer, 16);
AT(pc_trace, lane, 20);
AT(pc_trace, rank, 24);
AT(pc_trace, reserved, 28);
AT(pc_trace, shape, 32);
AT(pc_trace, data, 64);

FIXED(pc_lane, 48);
AT(pc_lane, spans, 0);
AT(pc_lane, span_count, 8);
AT(pc_lane, tokens, 16);
AT(pc_lane, positions, 24);
AT(pc_lane, count, 32);
AT(pc_lane, types, 40);

GROWS(pc_eval_args, 72);
AT(pc_eval_args, struct_size, 0);
AT(pc_eval_args, lanes, 8);
AT(pc_eval_args, lane_count, 16);
AT(pc_eval_args, see, 24);
AT(pc_eval_args, reserved, 28);
AT(pc_eval_args, regime_length, 32);
AT(pc_eval_args, logits, 40);
AT(pc_eval_args, segments, 48);
AT(pc_eval_args, trace, 56);
AT(pc_eval_args, trace_user, 64);

GROWS(pc_attend_shape, 32);
AT(pc_attend_shape, struct_size, 0);
AT(pc_attend_shape, heads, 8);
AT(pc_attend_shape, kv_heads, 12);
AT(pc_attend_shape, k_dim, 16);
AT(pc_attend_shape, v_dim, 20);
AT(pc_attend_shape, dtype, 24);
AT(pc_attend_shape, reserved, 28);

FIXED(pc_run, 16);
AT(pc_run, tokens, 0);
AT(pc_run, relative, 8);

FIXED(pc_row_span, 24);
AT(pc_row_span, start, 0);
AT(pc_row_span, run, 8);
AT(pc_row_span, lo, 12);
AT(pc_row_span, hi, 16);
AT(pc_row_span, reserved, 20);

GROWS(pc_plan_args, 80);
AT(pc_plan_args, struct_size, 0);
AT(pc_plan_args, shape, 8);
AT(pc_plan_args, runs, 16);
AT(pc_plan_args, run_count, 24);
AT(pc_plan_args, positions, 32);
AT(pc_plan_args, first, 40);
AT(pc_plan_args, spans, 48);
AT(pc_plan_args, row_count, 56);
AT(pc_plan_args, flags, 64);
AT(pc_plan_args, dtypes, 72);

GROWS(pc_rope, 32);
AT(pc_rope, struct_size, 0);
AT(pc_rope, dims, 8);
AT(pc_rope, interleaved, 12);
AT(pc_rope, factor, 16);
AT(pc_rope, reserved, 20);
AT(pc_rope, frequency, 24);

GROWS(pc_attend_args, 72);
AT(pc_attend_args, struct_size, 0);
AT(pc_attend_args, pages, 8);
AT(pc_attend_args, q, 16);
AT(pc_attend_args, out, 24);
AT(pc_attend_args, lse, 32);
AT(pc_attend_args, rope, 40);
AT(pc_attend_args, slopes, 48);
AT(pc_attend_args, window, 56);
AT(pc_attend_args, scale, 64);
AT(pc_attend_args, soft_cap, 68);

GROWS(pc_costs, 240);
AT(pc_costs, struct_size, 0);
AT(pc_costs, cpu, 8);
AT(pc_costs, kernels, 72);
AT(pc_costs, source, 88);
AT(pc_costs, reserved, 92);
AT(pc_costs, cached_ns, 96);
AT(pc_costs, memory_ns, 168);

GROWS(pc_calibrate_options, 32);
AT(pc_calibrate_options, struct_size, 0);
AT(pc_calibrate_options, path, 8);
AT(pc_calibrate_options, progress, 16);
AT(pc_calibrate_options, progress_user, 24);

#endif

SAME(PC_OK, 0);
SAME(PC_MISS, 1);
SAME(PC_AGAIN, 2);
SAME(PC_END, 3);
SAME(PC_ERR_INVALID, -1);
SAME(PC_ERR_NOMEM, -2);
SAME(PC_ERR_IO, -3);
SAME(PC_ERR_FORMAT, -4);
SAME(PC_ERR_UNSUPPORTED, -5);
SAME(PC_ERR_NOT_FOUND, -6);
SAME(PC_ERR_PML, -7);
SAME(PC_ERR_LIMIT, -8);
SAME(PC_ERR_CANCELLED, -9);
SAME(PC_ERR_STATE, -10);
SAME(PC_ERR_MISMATCH, -11);
SAME(PC_ERR_INTERNAL, -12);
SAME(PC_ERR_DEAD, -900);
SAME(PC_STATUS_FORCE_INT_, 2147483647);
SAME(PC_LOG_ERROR, 1);
SAME(PC_LOG_WARN, 2);
SAME(PC_LOG_INFO, 3);
SAME(PC_LOG_DEBUG, 4);
SAME(PC_DTYPE_DEFAULT, 0);
SAME(PC_DTYPE_F32, 1);
SAME(PC_DTYPE_BF16, 2);
SAME(PC_DTYPE_F16, 3);
SAME(PC_DTYPE_I8, 4);
SAME(PC_POSITION_NONE, 0);
SAME(PC_POSITION_ROPE, 1);
SAME(PC_POSITION_ALIBI, 2);
SAME(PC_POSITION_LEARNED, 3);
SAME(PC_SEE_BY_POSITION, 0);
SAME(PC_SEE_ALL, 1);
SAME(PC_TIER_NONE, 0);
SAME(PC_TIER_DEVICE, 1);
SAME(PC_TIER_HOST, 2);
SAME(PC_TIER_PACKED, 3);
SAME(PC_TIER_DISK, 4);
SAME(PC_TIER_REMOTE, 5);
SAME(PC_CODEC_DEFAULT, 0);
SAME(PC_CODEC_RAW, 1);
SAME(PC_CODEC_ZSTD, 2);
SAME(PC_CODEC_I8, 3);
SAME(PC_CODEC_I4, 4);
SAME(PC_CODEC_HOST, 256);
SAME(PC_EVENT_STORE, 1);
SAME(PC_EVENT_HIT, 2);
SAME(PC_EVENT_EVICT, 3);
SAME(PC_EVENT_REMOVE, 4);
SAME(PC_EVENT_LOAD_FAILED, 5);
SAME(PC_EVENT_STORE_FAILED, 6);
SAME(PC_LAYOUT_MODEL, 0);
SAME(PC_LAYOUT_PAGES, 1);
SAME(PC_LAYOUT_HOST, 256);
SAME(PC_ITEM_MODULE, 1);
SAME(PC_ITEM_UNION, 2);
SAME(PC_ITEM_TEXT, 3);
SAME(PC_ITEM_PARAMETER, 4);
SAME(PC_ITEM_SLOT, 5);
SAME(PC_ENCODE_INDEPENDENT, 0);
SAME(PC_ENCODE_SINK, 1);
SAME(PC_ENCODE_JOINT, 2);
SAME(PC_ENCODE_EXACT, 3);
SAME(PC_PART_CACHED, 1);
SAME(PC_PART_ARGUMENT, 2);
SAME(PC_PART_TEXT, 3);
SAME(PC_REPAIR_SCAFFOLD, 0);
SAME(PC_REPAIR_NONE, 1);
SAME(PC_REPAIR_FIRST, 2);
SAME(PC_REPAIR_TOP, 3);
SAME(PC_REPAIR_FULL, 4);
SAME(PC_BASELINE_NONE, 0);
SAME(PC_BASELINE_PLAN, 1);
SAME(PC_BASELINE_PREFILL, 2);
SAME(PC_BASELINE_CONTIGUOUS, 3);
SAME(PC_BASELINE_COPIES, 4);
SAME(PC_BASELINE_PER_ROW, 5);
SAME(PC_EXACT, 1);
SAME(PC_REPAIRED, 2);
SAME(PC_APPROXIMATE, 3);
SAME(PC_REASON_NONE, 0);
SAME(PC_REASON_FIRST_USE, 1);
SAME(PC_REASON_UNCACHED, 2);
SAME(PC_REASON_NO_ROOM, 3);
SAME(PC_REASON_BASELINE, 4);
SAME(PC_REASON_REPAIR, 5);
SAME(PC_REASON_PREFIX, 6);
SAME(PC_REASON_SLOW, 7);
SAME(PC_REASON_DEADLINE, 8);
SAME(PC_REASON_DAMAGED, 9);
SAME(PC_REASON_FOREIGN, 10);
SAME(PC_REASON_IO, 11);
SAME(PC_REASON_UNREACHABLE, 12);
SAME(PC_REASON_EXPIRED, 13);
SAME(PC_REASON_QUOTA, 14);
SAME(PC_REASON_NOT_ADMITTED, 15);
SAME(PC_FINISH_NONE, 0);
SAME(PC_FINISH_STOP_TOKEN, 1);
SAME(PC_FINISH_STOP_STRING, 2);
SAME(PC_FINISH_LENGTH, 3);
SAME(PC_FINISH_CALLBACK, 4);
SAME(PC_FINISH_ERROR, 5);
SAME(PC_COSTS_BUILT_IN, 0);
SAME(PC_COSTS_FROM_FILE, 1);
SAME(PC_COSTS_MEASURED, 2);
SAME(PC_MODEL_VOCAB_ONLY, 1);
SAME(PC_TOKENIZE_SPECIAL, 1);
SAME(PC_TOKENIZE_BOS, 2);
SAME(PC_CACHE_WIPE, 1);
SAME(PC_CACHE_MAP, 2);
SAME(PC_CACHE_PREFETCH, 4);
SAME(PC_CACHE_READ_ONLY, 8);
SAME(PC_CACHE_ALWAYS_LOAD, 16);
SAME(PC_PML_COMPACT, 1);
SAME(PC_PML_SRC_ANYWHERE, 2);
SAME(PC_PML_OVERLAP, 4);
SAME(PC_RELAY_CHAT, 1);
SAME(PC_ITEM_UNCACHED, 1);
SAME(PC_GENERATE_KEEP, 1);
SAME(PC_GENERATE_LOGITS, 2);
SAME(PC_PLAN_PER_ROW, 1);
