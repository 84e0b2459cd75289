// Catches: calls that read or write past memory that C++ gave with its size; exceptions that come
// out of a call which did not fail, or out of one of another standard as another type; segments
// that leak when an exception passes; functions of an application's model that are silently left
// out; handles that are unsound after they were moved from or to themselves, or freed by a function
// that runs in them.
#include "throwing.hpp"

#include <memory>
#include <stdexcept>
#include <sys/wait.h>
#include <unistd.h>

void throw_by_another_standard(); // misuse_part.cpp
void step_by_another_standard(pc_model *, pc_sequence *);

namespace {

void sizes_count(objects &o)
{
    const std::int32_t tokens[] = {1, 2, 3}, types[] = {0};
    CHECK(pc::input(tokens, types).count == 1 && pc::input(tokens).count == 3);

    // no model to take the size of an embedding from: nothing is written
    std::vector<float> row(1);
    pc_prompt *const prompts[] = {o.prompt.get()};
    CHECK(status_of([&] { pc::embed(pc::model(), prompts, o.cache, row); }) == PC_ERR_INVALID);

    // lanes in larger structs, whose rest is 0, and none
    struct larger {
        pc_lane lane;
        std::uint64_t mine;
    };
    const std::int64_t positions[] = {0, 1, 2};
    const larger lanes[] = {{pc::lane({}, tokens, positions), 0},
                            {pc::lane({}, tokens, positions), 0}};
    const auto vocab = static_cast<std::size_t>(o.model.get_info().vocab);
    std::vector<float> logits(6 * vocab);
    pc::eval_args args;
    args.set_logits(logits);
    args.lanes = &lanes[0].lane;
    args.lane_count = 2;
    args.lane_stride = sizeof(larger);
    CHECK(status_of([&] { pc::eval(o.model, args); }) == PC_OK);
    args.set_logits(pc::span<float>(logits.data(), logits.size() - 1));
    CHECK(status_of([&] { pc::eval(o.model, args); }) == PC_ERR_LIMIT);
    args.lanes = nullptr;
    CHECK(status_of([&] { pc::eval(o.model, args); }) == PC_ERR_INVALID);
    try {
        pc::prompt::from_tokens(o.model, {});
    } catch (const pc::error &error) {
        CHECK(std::string(error.what()).find("empty") != std::string::npos);
    }
}

// A function of the application calls C, which has no exceptions: its caller sees a status, and the
// call around it goes on.
void nested_calls_of_c(objects &o)
{
    auto fail = [](std::string_view) { throw std::runtime_error("within C"); };
    pc::generate_options inner;
    inner.set_on_text(fail);
    pc_status status = PC_OK;
    auto call = [&](std::string_view) {
        status = pc_generate(o.prompt.get(), o.cache.get(), &inner, nullptr);
    };
    pc::generate_options outer;
    outer.set_on_text(call);
    CHECK(pc::generate(o.prompt, o.cache, outer).finish == PC_FINISH_STOP_TOKEN);
    CHECK(status == PC_ERR_INTERNAL);
}

void parts_of_other_standards(objects &o)
{
    try {
        throw_by_another_standard();
        NOT_REACHED("thrown");
    } catch (const pc::error &error) {
        CHECK(error.status() == PC_ERR_NOT_FOUND);
    } catch (const std::exception &) {
        NOT_REACHED("another type");
    }
    auto fail = [](std::string_view) { throw std::length_error("mine"); };
    pc::generate_options options;
    options.set_on_text(fail);
    const pc::sequence sequence = pc::sequence::make(o.prompt, o.cache, options);
    try {
        step_by_another_standard(o.model.get(), sequence.get());
        NOT_REACHED("thrown");
    } catch (const std::length_error &) {
    } catch (const std::exception &) {
        NOT_REACHED("another type");
    }
}

void segments_do_not_leak(objects &o)
{
    int released = 0;
    auto release = [&]() noexcept { released++; };
    {
        std::vector<pc::segment> out;
        pc::detail::segment_room room(&out, 1);
        const std::uint8_t model[32] = {};
        const std::int32_t tokens[] = {1};
        const float states[2] = {};
        const void *const blocks[] = {states};
        const std::uint64_t bytes[] = {sizeof states};
        pc::raw raw;
        raw.model = model;
        raw.architecture[0] = 'a';
        raw.layout = PC_LAYOUT_APPLICATION;
        raw.layers = raw.kv_heads = raw.k_dim = raw.v_dim = 1;
        raw.set_tokens(tokens).set_blocks(blocks, bytes);
        room.get()[0] = pc::segment::wrap(o.context, raw, release).release();
    } // an exception has passed before take
    CHECK(released == 1);
}

class overloaded {
  public:
    pc_status describe(pc_model_info *info)
    {
        info->layers = info->heads = info->kv_heads = info->head_dim = info->hidden = 1;
        info->vocab = 10;
        return PC_OK;
    }
    std::size_t size() const
    {
        return 1;
    } // the class is a container, too
    pc_status size(void *, std::uint64_t *bytes)
    {
        *bytes = 1;
        return PC_OK;
    }
    static void release(void *)
    {
    }
    void release()
    {
    }
};

struct throws_at_end : overloaded {
    void on_free()
    {
        throw std::runtime_error("no");
    }
};

void models_of_objects()
{
    const pc::model_ops ops = pc::model_ops_of<overloaded>();
    CHECK(ops.describe && ops.size && ops.release && !ops.fork);
    overloaded own;
    std::uint64_t bytes = 0;
    CHECK(ops.size(&own, nullptr, &bytes) == PC_OK && bytes == 1);

    // on_free cannot say that it failed: the program ends, as for a destructor
    std::fflush(nullptr);
    const pid_t child = fork();
    if (!child) {
        std::set_terminate([] { _exit(7); });
        throws_at_end ending;
        pc::detail::on_free_of<throws_at_end>(0)(&ending);
        _exit(0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 7);
}

void handles_stay_sound(objects &o)
{
    pc::model &alias = o.model;
    o.model = std::move(alias);
    CHECK(o.model.get_info().layers == 4);
    pc_model *const pointer = o.model.release();
    CHECK(!o.model && status_of([&] { o.model.get_info(); }) == PC_ERR_INVALID);
    o.model.reset(pointer);
    pc::borrowed<pc::model> one(pointer), other(nullptr);
    other = one;
    pc::borrowed<pc::model> &same = other;
    other = same;
    CHECK(other->get_info().layers == 4 && o.model.get_info().layers == 4);

    pc::sequence sequence;
    pc::batch batch;
    pc::schema schema;
    CHECK(sequence.text().empty() && sequence.tokens().empty() && sequence.logits().empty());
    CHECK(sequence.error().text.empty() && batch.changed().empty());
    CHECK(!schema.item_count() && pc::segment().tokens().empty());
    CHECK(status_of([&] { batch.step(); }) == PC_ERR_INVALID);
}

// A function that frees itself, with its sequence and perhaps the batch.
struct conversation {
    std::shared_ptr<conversation> *owner;
    pc::batch *batch;
    pc::sequence sequence = {};
    void operator()(std::string_view)
    {
        pc::batch *const also = batch;
        owner->reset();
        if (also)
            also->reset();
    }
};

void functions_free_themselves(objects &o)
{
    for (const bool with_batch : {false, true}) {
        pc::batch batch = pc::batch::make(o.model);
        std::shared_ptr<conversation> owner;
        owner = std::make_shared<conversation>(conversation{&owner, with_batch ? &batch : nullptr});
        pc::generate_options options;
        options.set_on_text(*owner);
        owner->sequence = pc::sequence::make(o.prompt, o.cache, options);
        pc::sequence other = pc::sequence::make(o.prompt, o.cache);
        batch.add(owner->sequence);
        batch.add(other);
        while (batch && batch.step() != PC_END)
            for (pc_sequence *changed : batch.changed())
                CHECK(pc::borrowed<pc::sequence>(changed)->error().status == PC_OK);
        CHECK(!owner && static_cast<bool>(batch) == !with_batch);
        CHECK(with_batch || other.text() == "The desk of Peter Novak is 368.");
    }
}

} // namespace

int main()
{
    objects o;
    sizes_count(o);
    nested_calls_of_c(o);
    parts_of_other_standards(o);
    segments_do_not_leak(o);
    models_of_objects();
    handles_stay_sound(o);
    functions_free_themselves(o);
    return end_of_tests();
}
