// Catches: steps on another thread that give other tokens; an exception of a function there that is
// lost, comes twice, comes out of another task or of another call; tasks that are unsound after
// they were moved, or freed while they run or by their own function; a call that touches a batch
// meanwhile; a descriptor that is not readable at the end.
#include "throwing.hpp"

#include <atomic>
#include <chrono>
#include <memory>
#include <poll.h>
#include <stdexcept>
#include <thread>

namespace {

pc::generate_options kept_options()
{
    pc::generate_options options;
    options.flags = PC_GENERATE_KEEP;
    return options;
}

bool is_readable(std::int32_t fd, int milliseconds)
{
    pollfd one = {fd, POLLIN, 0};
    return poll(&one, 1, milliseconds) == 1 && (one.revents & POLLIN);
}

void equal_to_steps(objects &o)
{
    const pc::sequence plain = pc::sequence::make(o.prompt, o.cache, kept_options());
    const pc::batch by_step = pc::batch::make(o.model);
    by_step.add(plain);
    std::size_t steps = 1;
    while (by_step.step() != PC_END)
        steps++;

    const pc::sequence awaited = pc::sequence::make(o.prompt, o.cache, kept_options());
    const pc::batch batch = pc::batch::make(o.model);
    batch.add(awaited);
    for (pc_status status = PC_OK; status != PC_END; steps--) {
        pc::task task = pc::step_async(batch);
        const std::int32_t fd = task.fd();
        CHECK(is_readable(fd, -1) && task.done() && task.fd() == fd);
        status = task.wait(0);
        CHECK(status >= 0 && task.wait() == status); // may be asked again
        CHECK(batch.changed().size() == 1);
    }
    CHECK(steps == 0 && awaited.text() == plain.text());
    CHECK(std::vector<std::int32_t>(awaited.tokens().begin(), awaited.tokens().end())
          == std::vector<std::int32_t>(plain.tokens().begin(), plain.tokens().end()));
    CHECK(pc::step_async(batch).wait() == PC_END);
}

// A function that holds its step up until it may go on.
struct gate {
    std::atomic<bool> reached{false}, open{false};
    void operator()(std::string_view)
    {
        reached = true;
        while (!open)
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    void await() const
    {
        while (!reached)
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
};

void calls_meanwhile(objects &o)
{
    gate waiting;
    pc::generate_options options = kept_options();
    options.set_on_text(waiting);
    const pc::sequence sequence = pc::sequence::make(o.prompt, o.cache, options);
    const pc::batch batch = pc::batch::make(o.model);
    batch.add(sequence);
    pc::task task = pc::step_async(batch);
    waiting.await();
    CHECK(task && !task.done() && task.wait(0) == PC_AGAIN && task.wait(0.001) == PC_AGAIN);
    CHECK(!is_readable(task.fd(), 0));
    CHECK(status_of([&] { batch.step(); }) == PC_ERR_STATE);
    CHECK(status_of([&] { (void)pc::step_async(batch); }) == PC_ERR_STATE);
    CHECK(status_of([&] { sequence.fork(); }) == PC_ERR_STATE);
    CHECK(sequence.tokens().empty() && batch.changed().empty());
    sequence.cancel();
    pc::task moved = std::move(task);
    CHECK(moved && !task && task.done() && status_of([&] { task.wait(); }) == PC_ERR_INVALID);
    CHECK(status_of([&] { task.fd(); }) == PC_ERR_INVALID);
    task = std::move(moved);
    task = std::move(task);
    CHECK(task && !task.done());
    waiting.open = true;
    task.wait();
    while (batch.step() != PC_END) {}
    CHECK(sequence.finish() == PC_FINISH_CANCELLED);

    pc::task from_c(nullptr);
    CHECK(pc_batch_step_async(nullptr, batch.get()) == PC_ERR_INVALID);
    pc_task *given = nullptr;
    CHECK(pc_batch_step_async(&given, batch.get()) == PC_OK);
    from_c.reset(given);
    CHECK(from_c.get() == given && from_c.wait() == PC_END);
    given = from_c.release();
    CHECK(!from_c && pc_task_wait(given, 0) == PC_END);
    pc_task_free(given);
}

struct mine {
    int number;
};

// A batch whose one sequence throws a number.
struct throwing_batch {
    throwing_batch(objects &o, int number)
        : fail{number}, sequence(made(o, fail)), batch(pc::batch::make(o.model))
    {
        batch.add(sequence);
    }
    struct thrower {
        int number;
        std::atomic<int> calls{0};
        explicit thrower(int n) : number(n)
        {
        }
        void operator()(std::string_view)
        {
            calls++;
            throw mine{number};
        }
    };
    static pc::sequence made(objects &o, thrower &fail)
    {
        pc::generate_options options;
        options.set_on_text(fail);
        return pc::sequence::make(o.prompt, o.cache, options);
    }
    thrower fail;
    pc::sequence sequence;
    pc::batch batch;
};

// Waits for steps to the end: what was thrown, or 0.
int run(const pc::batch &batch)
{
    int number = 0;
    for (pc_status status = PC_OK; status != PC_END;) {
        pc::task task = pc::step_async(batch);
        try {
            status = task.wait();
        } catch (const mine &thrown) {
            CHECK(number == 0);
            number = thrown.number;
            status = task.wait(); // thrown once
        }
    }
    return number;
}

void exceptions(objects &o)
{
    throwing_batch failing(o, 42);
    const pc::sequence good = pc::sequence::make(o.prompt, o.cache);
    failing.batch.add(good);
    CHECK(run(failing.batch) == 42 && failing.fail.calls == 1);
    CHECK(good.text() == "The desk of Peter Novak is 368.");
    CHECK(failing.sequence.finish() == PC_FINISH_ERROR);
    CHECK(failing.sequence.error().status == PC_ERR_INTERNAL);

    // many at once, and calls of this thread beside them
    std::vector<std::unique_ptr<throwing_batch>> batches;
    std::vector<pc::task> tasks;
    for (int number = 1; number <= 8; number++) {
        batches.push_back(std::make_unique<throwing_batch>(o, number));
        tasks.push_back(pc::step_async(batches.back()->batch)); // which moves the others
    }
    CHECK(status_of([&] { pc::model::load(o.context, "nowhere.gguf"); }) == PC_ERR_NOT_FOUND);
    CHECK(pc::generate(o.prompt, o.cache).finish == PC_FINISH_STOP_TOKEN);
    for (int number = 1; number <= 8; number++) {
        pc::task &task = tasks[static_cast<std::size_t>(number) - 1];
        const pc::batch &batch = batches[static_cast<std::size_t>(number) - 1]->batch;
        int thrown = 0;
        try {
            if (task.wait() != PC_END)
                thrown = run(batch);
        } catch (const mine &one) {
            thrown = one.number;
        }
        CHECK(thrown == number);
    }
    tasks.clear();

    // nobody waits for it: it is lost, and no other call has it
    {
        throwing_batch unheard(o, 5);
        (void)pc::step_async(unheard.batch);
    }
    CHECK(pc::generate(o.prompt, o.cache).finish == PC_FINISH_STOP_TOKEN);
}

void calls_within_functions(objects &o)
{
    auto fail = [](std::string_view) { throw mine{1}; };
    pc::generate_options within;
    within.set_on_text(fail);
    int caught = 0;
    pc_status of_c = PC_OK;
    auto calls = [&](std::string_view) {
        if (caught)
            return;
        try {
            pc::generate(o.prompt, o.cache, within);
        } catch (const mine &) {
            caught++;
        }
        of_c = pc_generate(o.prompt.get(), o.cache.get(), &within, nullptr); // C has no exceptions
    };
    pc::generate_options options = kept_options();
    options.set_on_text(calls);
    const pc::sequence sequence = pc::sequence::make(o.prompt, o.cache, options);
    const pc::batch batch = pc::batch::make(o.model);
    batch.add(sequence);
    CHECK(run(batch) == 0 && caught == 1 && of_c == PC_ERR_INTERNAL);
    CHECK(sequence.text() == "The desk of Peter Novak is 368.");
}

void freed_under_way(objects &o)
{
    gate waiting;
    pc::generate_options options = kept_options();
    options.set_on_text(waiting);
    const pc::sequence sequence = pc::sequence::make(o.prompt, o.cache, options);
    const pc::batch batch = pc::batch::make(o.model);
    batch.add(sequence);
    std::thread opener([&] {
        waiting.await();
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
        waiting.open = true;
    });
    {
        const pc::task task = pc::step_async(batch);
    } // waits
    CHECK(status_of([&] {
              while (batch.step() != PC_END) {}
          })
          == PC_OK);
    opener.join();
    CHECK(sequence.text() == "The desk of Peter Novak is 368.");

    // by its own function, which must not wait for itself
    pc::task own;
    std::atomic<bool> there{false}, refused{false};
    auto frees = [&](const pc_token &) {
        while (!there)
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
        if (own) {
            refused = status_of([&] { own.wait(); }) == PC_ERR_STATE;
            own.reset();
        }
    };
    pc::generate_options freeing = kept_options();
    freeing.set_on_token(frees);
    const pc::sequence other = pc::sequence::make(o.prompt, o.cache, freeing);
    batch.add(other);
    own = pc::step_async(batch);
    there = true;
    while (!refused) // the task is the function's now
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    while (status_of([&] { batch.step(); }) == PC_ERR_STATE) {} // its step ends
    while (batch.step() != PC_END) {}
    CHECK(refused && !own && other.text() == "The desk of Peter Novak is 368.");
}

} // namespace

int main()
{
    objects o;
    equal_to_steps(o);
    calls_meanwhile(o);
    exceptions(o);
    calls_within_functions(o);
    freed_under_way(o);
    return end_of_tests();
}
