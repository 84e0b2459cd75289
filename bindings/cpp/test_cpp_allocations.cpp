// Catches: an allocation by the binding on the hot path. This program counts operator new. The
// library itself, in C, does not call it; oneDNN would.
#include "testing.hpp"

#include <memory>
#include <new>

namespace {
std::size_t allocations = 0;
}

[[gnu::noinline]] void *operator new(std::size_t size)
{
    allocations++;
    if (void *memory = std::malloc(size))
        return memory;
    throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void *memory) noexcept
{
    std::free(memory);
}
[[gnu::noinline]] void operator delete(void *memory, std::size_t) noexcept
{
    std::free(memory);
}

int main()
{
    setenv("PC_LINEAR", "own", 1);
    const std::string path = demo_model;
    const std::size_t some = allocations;
    auto counted = std::make_unique<int>(1);
    CHECK(allocations > some); // they are counted

    pc::context context = pc::context::make();
    pc::model model = pc::model::load(context, path);
    pc::cache cache = pc::cache::make(context);
    pc::schema schema = pc::schema::load(model, employees);
    pc::prompt prompt = pc::prompt::load(schema, employees_prompt);
    static char text[4096];
    std::size_t size = 0, tokens = 0, steps = 0, logits = 0;
    auto append = [&](std::string_view part) {
        if (size + part.size() > sizeof text)
            return false;
        part.copy(text + size, part.size());
        size += part.size();
        return true;
    };
    auto see = [&](const pc_token &) { tokens++; };
    auto look = [&](std::uint32_t, pc::span<float> row) { logits += row.size(); };
    auto never = [] { return false; };
    const char *const stops[] = {"never said"};
    const std::int32_t room[16] = {};

    const std::size_t before = allocations;
    pc::generate_options options;
    options.flags = PC_GENERATE_KEEP;
    options.set_on_text(append).set_on_token(see).set_on_logits(look).set_cancelled(never);
    options.set_stop_strings(stops);
    pc::batch batch = pc::batch::make(model);
    pc::sequence first = pc::sequence::make(prompt, cache, options);
    pc::sequence second = pc::sequence::make(prompt, cache, options);
    batch.add(first);
    batch.add(second);
    while (batch.step() != PC_END) {
        steps++;
        for (pc_sequence *changed : batch.changed()) {
            pc::borrowed<pc::sequence> sequence(changed);
            CHECK(!sequence->tokens().empty() && sequence->finish() <= PC_FINISH_CANCELLED);
            CHECK(sequence->error().status == PC_OK && sequence->get_stats().tokens_prompt == 601);
        }
        CHECK(batch.get_stats().sequences == 2);
    }
    pc::sequence copy = first.fork();
    batch.add(copy);
    copy.push(pc::span<const std::int32_t>(room, 1));
    while (batch.step() != PC_END) {}
    pc::stats stats = pc::generate(prompt, cache, options);
    CHECK(allocations == before);

    const std::string_view answer = "The desk of Peter Novak is 368.";
    CHECK(size > answer.size() && std::string_view(text + size - answer.size()) == answer);
    CHECK(stats.tokens_cached == 590 && steps > 4 && tokens > 16 && logits > tokens);
    std::printf("%zu steps, %zu tokens: %zu allocations\n", steps, tokens, allocations - before);
    return end_of_tests();
}
