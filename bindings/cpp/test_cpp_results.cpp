// Errors as values: compiled without exceptions and without RTTI, and once more with exceptions and
// PROMPTCACHE_NO_EXCEPTIONS. Catches: a result that says success after a failure, or the other way
// round; an error without status, place or text, or with that of a later one; calls whose outcome
// (PC_MISS, PC_END) becomes an error; handles in results that are freed twice or not at all; an
// exception of a function that is lost or leaves a call.
#include "testing.hpp"

#ifdef __cpp_exceptions
#include <stdexcept>
#endif

namespace {

static_assert(std::is_same_v<decltype(pc::context::make()), pc::result<pc::context>>);
static_assert(std::is_same_v<decltype(std::declval<pc::batch &>().step()), pc::result<pc_status>>);
static_assert(!std::is_copy_constructible_v<pc::result<pc::model>>);

struct objects {
    pc::context context;
    pc::model model;
    pc::cache cache;
    pc::schema schema;
    pc::prompt prompt;
};

// Each step only if the one before has succeeded: what failed, or nothing.
pc::result<objects> load(const std::string &model_path)
{
    objects o;
    if (auto context = pc::context::make())
        o.context = std::move(*context);
    else
        return pc::error(context.error().status(), context.error().what());
    auto model = pc::model::load(o.context, model_path);
    if (!model)
        return pc::error(model.error().status(), model.error().what());
    o.model = *std::move(model);
    o.cache = pc::cache::make(o.context).value_or(pc::cache());
    o.schema = pc::schema::load(o.model, employees).value_or(pc::schema());
    o.prompt = pc::prompt::load(o.schema, employees_prompt).value_or(pc::prompt());
    return o;
}

void errors_are_values(objects &o)
{
    auto parsed = pc::schema::parse(o.model,
                                    "<schema name=\"a\">\n  <module name=\"b\">\n</schema>");
    CHECK(!parsed && !parsed.has_value());
    auto other = pc::model::load(o.context, "nowhere.gguf");
    CHECK(!other && other.error().status() == PC_ERR_NOT_FOUND);
    const pc::error &error = parsed.error(); // is not that of the later call
    CHECK(error.status() == PC_ERR_PML && error.line() == 3 && error.column() > 0);
    CHECK(std::string(error.what()).find(":3:") != std::string::npos);
    pc::error moved = std::move(other).error().status() == PC_ERR_NOT_FOUND
                          ? pc::error(PC_ERR_IO, "text", 1, 2)
                          : pc::error();
    moved = pc::error(PC_ERR_LIMIT, "another");
    CHECK(moved.status() == PC_ERR_LIMIT && std::string(moved.what()) == "another");
    pc::result<> nothing;
    CHECK(nothing && nothing.has_value());
    nothing = pc::result<>(std::move(moved));
    CHECK(!nothing && nothing.error().status() == PC_ERR_LIMIT);
    const pc::error taken = std::move(nothing).error(); // keeps its text
    CHECK(taken.status() == PC_ERR_LIMIT && std::string(taken.what()) == "another");
    CHECK(!nothing && nothing.error().status() == PC_ERR_LIMIT); // is still no success

    pc::prompt none;
    CHECK(!pc::generate(none, o.cache) && pc::generate(none, o.cache).error().status() < 0);
    const pc::digest keys[2] = {};
    std::uint32_t tiers[1];
    CHECK(o.cache.find(keys, tiers).error().status() == PC_ERR_LIMIT);
    pc::plan_args args;
    const std::int64_t positions[] = {0};
    const std::uint32_t first[] = {0};
    args.set_rows(positions, first, {});
    CHECK(pc::plan::make(o.context, args).error().status() == PC_ERR_LIMIT);
}

void outcomes_are_no_errors(objects &o)
{
    auto batch = pc::batch::make(o.model);
    CHECK(batch && *batch->step() == PC_END);
    auto sequence = pc::sequence::make(o.prompt, o.cache);
    CHECK(batch->add(*sequence));
    pc::result<pc_status> status = PC_OK;
    while ((status = batch->step()) && *status != PC_END) {}
    CHECK(status && sequence->text() == "The desk of Peter Novak is 368.");
    CHECK(!batch->add(*sequence)); // it is in the batch
    CHECK(*pc::step_async(*batch)->wait() == PC_END && !pc::step_async(pc::batch()));
    CHECK(pc::task().wait().error().status() == PC_ERR_INVALID && pc::task().done());
    auto none = pc::sequence::load(o.model, o.cache, pc::digest{});
    CHECK(none.has_value() && !*none);
    auto text = o.model.detokenize(sequence->tokens());
    CHECK(text && *text == sequence->text());
    auto missing = o.schema.get_item(100000);
    CHECK(!missing && o.schema.get_item(0)->kind != 0);
}

void functions_answer(objects &o)
{
    std::string text;
    auto append = [&](std::string_view part) { text += part; };
    pc::generate_options options;
    options.set_on_text(append);
    auto stats = pc::generate(o.prompt, o.cache, options);
    CHECK(stats && stats->tokens_prompt == 601 && text == "The desk of Peter Novak is 368.");
    auto fail = [&](std::string_view) -> std::int32_t {
        pc::error_set("the socket is closed");
        return PC_ERR_IO;
    };
    options.set_on_text(fail);
    stats = pc::generate(o.prompt, o.cache, options);
    CHECK(!stats && stats.error().status() == PC_ERR_IO);
    CHECK(std::string(stats.error().what()).find("the socket is closed") != std::string::npos);
#ifdef __cpp_exceptions
    auto throws = [](std::string_view) { throw std::runtime_error("the file is gone"); };
    options.set_on_text(throws);
    stats = pc::generate(o.prompt, o.cache, options);
    CHECK(!stats && stats.error().status() == PC_ERR_INTERNAL);
    CHECK(std::string(stats.error().what()) == "the file is gone");
    auto batch = pc::batch::make(o.model);
    auto sequence = pc::sequence::make(o.prompt, o.cache, options);
    CHECK(batch->add(*sequence));
    auto step = batch->step();
    CHECK(!step && step.error().status() == PC_ERR_INTERNAL && *batch->step() == PC_END);
    auto again = pc::sequence::make(o.prompt, o.cache, options);
    CHECK(batch->add(*again));
    pc::result<pc::task> task = pc::step_async(*batch);
    step = task->wait();
    CHECK(!step && step.error().status() == PC_ERR_INTERNAL);
    CHECK(std::string(step.error().what()) == "the file is gone");
    CHECK(*task->wait() == PC_END && *batch->step() == PC_END);
    auto memory = [](std::string_view) { throw std::bad_alloc(); };
    options.set_on_text(memory);
    CHECK(pc::generate(o.prompt, o.cache, options).error().status() == PC_ERR_NOMEM);
#endif
}

} // namespace

int main()
{
    auto o = load(demo_model);
    CHECK(!load("nowhere.gguf") && load("nowhere.gguf").error().status() == PC_ERR_NOT_FOUND);
    CHECK(o && o->prompt);
    if (!o)
        return 1;
    errors_are_values(*o);
    outcomes_are_no_errors(*o);
    functions_answer(*o);
    return end_of_tests();
}
