// Catches: errors without status, place or text; an exception of a function that passes through C,
// is lost, comes twice, comes from a later call, or fails other sequences than its own; memory or
// objects that leak when one passes; arrays that are too short and are not refused.
#include "throwing.hpp"

#include <stdexcept>

namespace {

void errors_have_places(objects &o)
{
    try {
        pc::schema::parse(o.model, "<schema name=\"a\">\n  <module name=\"b\">\n</schema>");
        NOT_REACHED("parsed");
    } catch (const std::runtime_error &base) {
        const auto &error = static_cast<const pc::error &>(base);
        CHECK(error.status() == PC_ERR_PML && error.line() == 3 && error.column() > 0);
        CHECK(std::string(error.what()).find(":3:") != std::string::npos);
        const pc::error copy = error; // keeps its text
        CHECK(std::string(copy.what()) == error.what() && copy.line() == error.line());
    }
    CHECK(status_of([&] { pc::model::load(o.context, "nowhere.gguf"); }) == PC_ERR_NOT_FOUND);
    try {
        pc::model::load(o.context, root + "/nowhere.gguf");
    } catch (const pc::error &error) {
        CHECK(error.line() == 0 && std::string(error.what()).find("nowhere.gguf"));
    }
    CHECK(status_of([&] { o.schema.get_item(100000); }) == PC_ERR_NOT_FOUND);
    CHECK(status_of([&] { pc::prompt::load(pc::span<pc_schema *const>(), employees_prompt); }) < 0);
    CHECK(status_of([&] { pc::schema::load(o.model, nullptr); }) == PC_ERR_INVALID);
}

struct mine {
    int number;
};

void exceptions_come_back(objects &o)
{
    std::size_t calls = 0;
    auto fail = [&](std::string_view) {
        if (++calls == 2)
            throw mine{42};
    };
    pc::generate_options options;
    options.set_on_text(fail);
    try {
        pc::generate(o.prompt, o.cache, options);
        NOT_REACHED("thrown");
    } catch (const mine &thrown) {
        CHECK(thrown.number == 42 && calls == 2);
    }
    calls = 10; // the next call is not affected
    CHECK(pc::generate(o.prompt, o.cache, options).finish == PC_FINISH_STOP_TOKEN);

    auto cancelled = []() -> bool { throw std::logic_error("no more"); };
    pc::generate_options polled;
    polled.set_cancelled(cancelled);
    try {
        pc::generate(o.prompt, o.cache, polled);
        NOT_REACHED("thrown");
    } catch (const std::logic_error &thrown) {
        CHECK(std::string(thrown.what()) == "no more");
    }
    auto progress = [](const char *, std::uint64_t, std::uint64_t) { throw mine{7}; };
    pc::model_options loading;
    loading.set_progress(progress);
    bool caught = false;
    try {
        pc::model::load(o.context, demo_model, loading);
    } catch (const mine &thrown) {
        caught = thrown.number == 7;
    }
    CHECK(caught);
    auto memory = [](const pc_token &) { throw std::bad_alloc(); };
    pc::generate_options drawn;
    drawn.set_on_token(memory);
    caught = false;
    try {
        pc::generate(o.prompt, o.cache, drawn);
    } catch (const std::bad_alloc &) {
        caught = true;
    }
    CHECK(caught);
}

// The functions of one sequence fail: it ends, with the text; the others and the batch go on.
void exceptions_in_batches(objects &o)
{
    auto fail = [](std::string_view) { throw std::runtime_error("the socket is closed"); };
    pc::generate_options failing;
    failing.set_on_text(fail);
    pc::batch batch = pc::batch::make(o.model);
    pc::sequence bad = pc::sequence::make(o.prompt, o.cache, failing);
    pc::sequence good = pc::sequence::make(o.prompt, o.cache);
    batch.add(bad);
    batch.add(good);
    int thrown = 0;
    for (pc_status status = PC_OK; status != PC_END;) {
        try {
            status = batch.step();
        } catch (const std::runtime_error &error) {
            CHECK(std::string(error.what()) == "the socket is closed");
            thrown++;
        }
    }
    CHECK(thrown == 1 && good.text() == "The desk of Peter Novak is 368.");
    CHECK(bad.finish() == PC_FINISH_ERROR && bad.error().status == PC_ERR_INTERNAL);
    CHECK(bad.error().text.find("the socket is closed") != std::string_view::npos);

    // an error of the library within a function keeps its status
    auto inner = [&](std::string_view) { o.schema.get_item(100000); };
    failing.set_on_text(inner);
    pc::sequence nested = pc::sequence::make(o.prompt, o.cache, failing);
    batch.add(nested);
    CHECK(status_of([&] {
              while (batch.step() != PC_END) {}
          })
          == PC_ERR_NOT_FOUND);
    CHECK(nested.error().status == PC_ERR_NOT_FOUND);

    // a call within a function has exceptions of its own
    auto deeper = [&](std::string_view) {
        auto throws = [](std::string_view) { throw mine{1}; };
        pc::generate_options within;
        within.set_on_text(throws);
        try {
            pc::generate(o.prompt, o.cache, within);
            NOT_REACHED("thrown");
        } catch (const mine &) {
        }
    };
    failing.set_on_text(deeper);
    CHECK(pc::generate(o.prompt, o.cache, failing).finish == PC_FINISH_STOP_TOKEN);

    // functions that the C interface is given, without a call of this header around: a status
    pc::generate_options by_c;
    by_c.set_on_text(fail);
    CHECK(pc_generate(o.prompt.get(), o.cache.get(), &by_c, nullptr) == PC_ERR_INTERNAL);
    CHECK(std::string(pc_error_text()).find("the socket is closed") != std::string::npos);
}

// A function may free what calls it.
void functions_free_objects(objects &o)
{
    pc::batch batch = pc::batch::make(o.model);
    pc::sequence sequence;
    auto drop = [&](std::string_view) { sequence.reset(); };
    pc::generate_options options;
    options.set_on_text(drop);
    sequence = pc::sequence::make(o.prompt, o.cache, options);
    batch.add(sequence);
    while (batch.step() != PC_END) {}
    CHECK(!sequence);
}

void short_arrays_are_refused(objects &o)
{
    const pc::model_info info = o.model.get_info();
    const auto hidden = static_cast<std::size_t>(info.hidden);
    std::vector<float> row(hidden);
    pc_prompt *const two[] = {o.prompt.get(), o.prompt.get()};
    CHECK(status_of([&] { pc::embed(o.model, two, o.cache, row); }) == PC_ERR_LIMIT);

    const std::vector<std::int32_t> tokens = o.model.tokenize("The desk");
    const pc_input inputs[] = {pc::input(tokens), pc::input(tokens)};
    pc::prefill_options prefill;
    prefill.set_embeddings(row);
    CHECK(status_of([&] { pc::prefill(o.model, inputs, prefill); }) == PC_ERR_LIMIT);
    std::vector<pc_memo_result> results(1);
    pc::prefill_options watched;
    watched.set_results(results);
    CHECK(status_of([&] { pc::prefill(o.model, inputs, watched); }) == PC_ERR_LIMIT);

    std::vector<std::int64_t> positions = {0, 1};
    std::vector<float> logits(3);
    const pc_lane lanes[] = {pc::lane({}, tokens, positions)};
    pc::eval_args args;
    args.set_lanes(lanes).set_logits(logits);
    CHECK(status_of([&] { pc::eval(o.model, args); }) == PC_ERR_LIMIT);

    const pc::digest keys[2] = {};
    std::uint32_t tiers[1];
    CHECK(status_of([&] { o.cache.find(keys, tiers); }) == PC_ERR_LIMIT);
    std::int32_t room[1];
    CHECK(status_of([&] { o.model.tokenize("The desk of Anna Reed", room); }) == PC_ERR_LIMIT);
}

} // namespace

int main()
{
    objects o;
    errors_have_places(o);
    exceptions_come_back(o);
    exceptions_in_batches(o);
    functions_free_objects(o);
    short_arrays_are_refused(o);
    return end_of_tests();
}
