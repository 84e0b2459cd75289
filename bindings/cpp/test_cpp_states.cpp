// Catches: attention over spans that differs from a plain loop, or reads past arrays that are too
// short; states by key, embeddings, prefills, evaluations and memos that do not come back as they
// went in; an own model as an object whose functions are not called, or whose exceptions pass
// through C.
#include "testing.hpp"

#include <cmath>
#include <map>
#include <numeric>
#include <stdexcept>

namespace {

pc::model load_demo(const pc::context &context)
{
    return pc::model::load(context, demo_model);
}

void attention_over_spans(const pc::context &context)
{
    enum { HEADS = 2, DIM = 8, KEYS = 100, ROWS = 3 };
    std::vector<float> k(KEYS * HEADS * DIM), v(k.size()), q(ROWS * HEADS * DIM), out(q.size());
    for (std::size_t i = 0; i < k.size(); i++)
        k[i] = std::sin(static_cast<float>(i)), v[i] = std::cos(static_cast<float>(i * 3));
    for (std::size_t i = 0; i < q.size(); i++)
        q[i] = std::sin(static_cast<float>(i * 7));
    pc::attend_shape shape;
    shape.heads = shape.kv_heads = HEADS;
    shape.k_dim = shape.v_dim = DIM;
    shape.dtype = PC_DTYPE_F32;

    const std::size_t bytes = pc::pages_bytes(shape, KEYS);
    struct alignas(64) line {
        char bytes[64];
    };
    std::vector<line> pages((bytes + 63) / 64);
    pc::pages_args write;
    write.shape = &shape;
    write.pages = pages.data();
    write.count = KEYS;
    write.k = k.data();
    write.v = v.data();
    pc::pages_write(write);
    std::vector<float> k_back(k.size()), v_back(v.size());
    write.k = k_back.data();
    write.v = v_back.data();
    pc::pages_read(write);
    CHECK(k_back == k && v_back == v);

    const pc_run runs[] = {{KEYS, nullptr, nullptr}};
    std::vector<pc_row_span> spans;
    std::vector<std::uint32_t> first = {0};
    std::vector<std::int64_t> positions;
    for (std::uint32_t row = 0; row < ROWS; row++) { // row r sees all but its first 10 * r keys
        spans.push_back({0, 0, 10 * row, KEYS, 0});
        first.push_back(row + 1);
        positions.push_back(KEYS);
    }
    pc::plan_args args;
    args.shape = &shape;
    args.set_runs(runs).set_rows(positions, first, spans);
    pc::plan plan = pc::plan::make(context, args);
    const void *const run_pages[] = {pages.data()};
    std::vector<float> lse(ROWS * HEADS);
    pc::attend_args layer;
    layer.set_pages(run_pages).set_q(q).set_out(out).set_lse(lse);
    plan.attend(layer);
    std::vector<float> later(out.size());
    pc::attend_args other = layer;
    pc::task task = pc::attend_async(plan, other.set_out(later));
    CHECK(task.wait() == PC_OK && later == out);
    double most = 0;
    for (int row = 0; row < ROWS; row++)
        for (int head = 0; head < HEADS; head++) {
            double sums[DIM] = {}, total = 0;
            for (int key = 10 * row; key < KEYS; key++) {
                double score = 0;
                for (int d = 0; d < DIM; d++)
                    score += double(q[static_cast<std::size_t>((row * HEADS + head) * DIM + d)])
                             * double(k[static_cast<std::size_t>((key * HEADS + head) * DIM + d)]);
                const double weight = std::exp(score / std::sqrt(double(DIM)));
                total += weight;
                for (int d = 0; d < DIM; d++)
                    sums[d] += weight
                               * double(
                                   v[static_cast<std::size_t>((key * HEADS + head) * DIM + d)]);
            }
            const auto at = static_cast<std::size_t>(row * HEADS + head);
            most = std::max(most, std::fabs(std::log(total) - double(lse[at])));
            for (std::size_t d = 0; d < DIM; d++)
                most = std::max(most, std::fabs(sums[d] / total - double(out[at * DIM + d])));
        }
    CHECK(most < 1e-5);

    // two halves of the keys, merged, are the same
    const float *const outs[] = {out.data(), out.data()};
    std::vector<float> nothing(lse.size(), -INFINITY), merged(out.size());
    const float *const lses[] = {lse.data(), nothing.data()};
    pc::merge_args merge;
    merge.outs = outs;
    merge.lses = lses;
    merge.part_count = 2;
    merge.row_count = ROWS;
    merge.heads = HEADS;
    merge.v_dim = DIM;
    merge.out = merged.data();
    pc::merge(merge);
    CHECK(merged == out);

    const auto refused = [&](auto function) {
        try {
            function();
            return false;
        } catch (const pc::error &error) {
            return error.status() == PC_ERR_LIMIT;
        }
    };
    const auto shorter = [](auto &list) {
        return pc::span<std::remove_reference_t<decltype(list[0])>>(list.data(), list.size() - 1);
    };
    pc::attend_args with = layer;
    CHECK(refused([&] { plan.attend(with.set_q(shorter(q))); }));
    CHECK(refused([&] { (void)pc::attend_async(plan, with); }));
    with = layer;
    CHECK(refused([&] { plan.attend(with.set_out(shorter(out))); }));
    with = layer;
    CHECK(refused([&] { plan.attend(with.set_lse(shorter(lse))); }));
    with = layer;
    CHECK(refused([&] { plan.attend(with.set_pages({})); }) == false); // NULL: the library says it
    pc::plan_args fewer = args;
    CHECK(refused(
        [&] { pc::plan::make(context, fewer.set_rows(positions, shorter(first), spans)); }));
    fewer = args;
    CHECK(refused(
        [&] { pc::plan::make(context, fewer.set_rows(positions, first, shorter(spans))); }));
}

void states_by_key(const pc::context &context)
{
    pc::cache cache = pc::cache::make(context);
    const std::vector<std::int32_t> tokens = {5, 6, 7};
    std::vector<float> block(48, 1.5f);
    const void *const blocks[] = {block.data()};
    const std::uint64_t sizes[] = {block.size() * sizeof(float)};
    const pc::digest model = {{9}};
    pc::raw states;
    states.model = model.data();
    states.layout = PC_LAYOUT_APPLICATION;
    states.dtype = PC_DTYPE_F32;
    states.layers = 1;
    states.kv_heads = 1;
    states.k_dim = states.v_dim = 8;
    states.set_tokens(tokens).set_blocks(blocks, sizes);

    pc::key_parts parts;
    parts.model = model.data();
    parts.set_salt("tenant");
    const pc::digest base = pc::key_base(parts);
    pc::key_segment_args named;
    named.base = base.data();
    named.set_tokens(tokens);
    std::vector<pc::digest> keys = {pc::key_segment(named)};
    named.parent = keys[0].data();
    keys.push_back(pc::key_segment(named));
    CHECK(keys[0] != keys[1]);

    int released = 0;
    auto release = [&]() noexcept { released++; };
    pc::segment wrapped = pc::segment::wrap(context, states, release);
    CHECK(wrapped.tokens().size() == 3 && wrapped.tokens()[2] == 7);
    CHECK(cache.put(keys[0], wrapped) == PC_OK && cache.put_copy(keys[0], states) == PC_EXISTS);
    CHECK(cache.put_copy(keys[1], states) == PC_OK);
    CHECK(cache.pin(keys[0], 1) == PC_OK && cache.unpin(keys[0], 1) == PC_OK);
    cache.unpin_owner(1);
    std::uint32_t tiers[2] = {};
    CHECK(cache.find(keys, tiers) == 2 && tiers[1] == PC_TIER_RAM);

    pc::get_info info;
    pc::segment got = cache.get_segment(keys[1], states, pc::get_options(), &info);
    CHECK(got && info.tier == PC_TIER_RAM && got.get() != wrapped.get());
    CHECK(std::memcmp(got.raw().blocks[0], block.data(), sizes[0]) == 0);
    pc::segment miss = cache.get_segment(base, states, pc::get_options(), &info);
    CHECK(!miss && info.reason == PC_REASON_FIRST_USE);

    std::vector<pc_get_entry> wanted(2);
    for (std::size_t i = 0; i < 2; i++) {
        wanted[i].key = keys[i].data();
        wanted[i].tokens = tokens.data();
        wanted[i].token_count = tokens.size();
    }
    pc::load load = cache.get_many(states, wanted);
    CHECK(load.wait(10) == PC_OK);
    std::size_t done = 0;
    CHECK(load.poll(&done) == PC_OK && done == 2);
    CHECK(load.result(0, &got) == PC_OK && got.get() == wrapped.get());
    CHECK(cache.prefetch(states, wanted) == 0); // they are in RAM
    CHECK(cache.remove(keys) == 2 && cache.find(keys) == 0);
    load.reset();
    got.reset();
    wrapped.reset();
    CHECK(released == 1);
}

void passes_without_answers(const pc::context &context)
{
    pc::model model = load_demo(context);
    pc::cache cache = pc::cache::make(context);
    const auto hidden = static_cast<std::size_t>(model.get_info().hidden);
    const auto vocab = static_cast<std::size_t>(model.get_info().vocab);
    const std::vector<std::int32_t> tokens = model.tokenize("The desk of", PC_TOKENIZE_BOS);
    pc::prompt prompt = pc::prompt::from_tokens(model, tokens);
    pc_prompt *const prompts[] = {prompt.get()};
    std::vector<float> embedding(hidden), again(hidden), logits(vocab), all(vocab * tokens.size());
    pc::embed_stats embed_stats;
    pc::embed(model, prompts, cache, embedding, pc::embed_options(), &embed_stats);
    CHECK(embed_stats.tokens == tokens.size());

    const pc_input inputs[] = {pc::input(tokens)};
    std::vector<pc::segment> segments;
    pc::prefill_options options;
    options.set_embeddings(again).set_logits(logits);
    pc::prefill(model, inputs, options, nullptr, &segments);
    CHECK(again == embedding && segments.size() == 1);
    CHECK(segments[0].tokens().size() == tokens.size());

    std::vector<std::int64_t> positions(tokens.size());
    std::iota(positions.begin(), positions.end(), 0);
    const pc_lane lanes[] = {pc::lane({}, tokens, positions)};
    pc::eval_args args;
    args.set_lanes(lanes).set_logits(all);
    std::vector<pc::segment> evaluated;
    pc::eval(model, args, &evaluated);
    double most = 0;
    for (std::size_t i = 0; i < vocab; i++)
        most = std::max(most, double(std::fabs(all[(tokens.size() - 1) * vocab + i] - logits[i])));
    CHECK(most < 1e-3 && evaluated.size() == 1);

    const pc_span spans[] = {evaluated[0].at(0)};
    pc::prompt placed = pc::prompt::from_spans(
        model, spans, static_cast<std::int64_t>(tokens.size()), model.tokenize(" Anna"));
    evaluated.clear(); // the prompt holds it
    pc::stats stats = pc::generate(placed, cache);
    CHECK(stats.exactness == PC_EXACT && stats.tokens_new == 1);

    scratch_folder folder;
    pc::memo memo = pc::memo::open(model, folder.path);
    std::size_t steps = 0;
    auto progress = [&](const char *, std::uint64_t, std::uint64_t) { steps++; };
    pc::memo_work work;
    work.set_progress(progress);
    memo.add(inputs, work);
    CHECK(memo.get_stats().live == 1 && memo.bucket_count() > 0 && steps > 0);
    CHECK(memo.get_bucket(0).max_tokens == 16);
    pc_memo_result results[1];
    options.memo = memo.get();
    options.logits = nullptr; // of a short prompt the memo keeps none
    options.set_results(results);
    pc::prefill(model, inputs, options);
    CHECK(results[0].reuse == PC_REUSE_OUTPUT && again == embedding);
    memo.tidy();
    try {
        memo.train();
        NOT_REACHED("trained");
    } catch (const pc::error &error) {
        CHECK(error.status() == PC_ERR_STATE);
    }
}

// A model whose next token is its last one plus one.
class counting_model {
  public:
    enum { VOCAB = 10 };
    pc_status describe(pc_model_info *info) const
    {
        std::memcpy(info->architecture, "counting", 9);
        info->layers = info->heads = info->kv_heads = info->head_dim = info->hidden = 1;
        info->vocab = VOCAB;
        info->relocatable = 1;
        return PC_OK;
    }
    pc_status encode(const pc_encode_args *args, void **segments)
    {
        for (std::size_t i = 0; i < args->range_count; i++)
            segments[i] = this, live++;
        return PC_OK;
    }
    void release(void *) noexcept
    {
        live--;
    }
    pc_status sequence_new(const pc_sequence_args *, void **sequence)
    {
        *sequence = new int(0);
        live++;
        return PC_OK;
    }
    pc_status attach(void *, const pc_span *)
    {
        return PC_OK;
    }
    pc_status step(const pc_step_args *args)
    {
        if (fails)
            throw std::runtime_error("the device is gone");
        float *row = args->logits;
        for (std::size_t i = 0; i < args->count; i++) {
            const auto *at = reinterpret_cast<const pc_step_row *>(
                reinterpret_cast<const char *>(args->rows) + i * args->row_stride);
            if (!at->want_logits)
                continue;
            for (int token = 0; token < VOCAB; token++)
                row[token] = token == (at->token + 1) % VOCAB ? 1.0f : 0.0f;
            row += VOCAB;
        }
        return PC_OK;
    }
    void drop(void *sequence)
    {
        delete static_cast<int *>(sequence);
        live--;
    }
    void on_free()
    {
        freed++;
    }

    int live = 0, freed = 0;
    bool fails = false;
};

void own_model_as_an_object(const pc::context &context)
{
    static_assert(std::is_same_v<decltype(pc::model_ops_of<counting_model>()), pc::model_ops>);
    const pc::model_ops ops = pc::model_ops_of<counting_model>();
    CHECK(ops.step && ops.drop && !ops.fork && !ops.tokenize);
    counting_model own;
    {
        pc::model model = pc::model::from_object(context, own);
        pc::cache cache = pc::cache::make(context);
        const std::int32_t tokens[] = {3, 4};
        pc::prompt prompt = pc::prompt::from_tokens(model, tokens);
        std::vector<std::int32_t> drawn;
        auto see = [&](const pc_token &token) { drawn.push_back(token.token); };
        pc::generate_options options;
        options.max_tokens = 3;
        options.set_on_token(see);
        pc::generate(prompt, cache, options);
        CHECK((drawn == std::vector<std::int32_t>{5, 6, 7}));
        own.fails = true;
        try {
            pc::generate(prompt, cache, options);
            NOT_REACHED("failed");
        } catch (const pc::error &error) {
            CHECK(error.status() == PC_ERR_INTERNAL);
            CHECK(std::string(error.what()).find("the device is gone") != std::string::npos);
        }
    }
    CHECK(own.live == 0 && own.freed == 1);

    const std::string path = demo_model;
    const char *const paths[] = {path.c_str()};
    std::size_t steps = 0;
    auto progress = [&](const char *, std::uint64_t, std::uint64_t) { steps++; };
    CHECK(pc::fingerprint_files(paths) == pc::fingerprint_files(paths, progress) && steps > 0);
}

void costs_of_the_machine(const pc::context &context)
{
    scratch_folder folder;
    const std::string path = folder.path + "/costs";
    pc::calibrate_options options;
    options.path = path.c_str();
    context.calibrate(options);
    CHECK(context.get_costs().source == PC_COSTS_MEASURED && context.get_costs().cached_ns[0] > 0);
}

} // namespace

int main()
{
    const pc::context context = pc::context::make();
    attention_over_spans(context);
    states_by_key(context);
    passes_without_answers(context);
    own_model_as_an_object(context);
    costs_of_the_machine(context);
    return end_of_tests();
}
