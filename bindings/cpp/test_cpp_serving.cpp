// Catches: handles that are freed twice, not at all, or after a move; requests whose text, tokens,
// statistics or order differ from those of the C interface; a batch in which a fork or a
// cancellation changes other sequences; messages and builders whose texts or arguments get lost;
// saved sequences that do not come back; set_ functions that set another field.
#include "testing.hpp"

#include <atomic>
#include <cmath>
#include <filesystem>
#include <limits>
#include <thread>

namespace {

const char answer[] = "The desk of Peter Novak is 368.";

struct objects {
    pc::context context = pc::context::make();
    pc::model model = pc::model::load(context, demo_model);
    pc::cache cache = pc::cache::make(context);
    pc::schema schema = pc::schema::load(model, std::filesystem::path(employees));
    pc::prompt prompt = pc::prompt::load(schema, employees_prompt);
};

void answers_and_streams(objects &o)
{
    std::string text, numbered;
    std::vector<std::int32_t> tokens;
    auto append = [&](std::string_view part) { text += part; };
    auto see = [&](const pc_token &token) {
        tokens.push_back(token.token);
        CHECK(token.logprob <= 0 && token.top_count == 2 && token.top_tokens[0] == token.token);
    };
    pc::generate_options options;
    options.top_logprobs = 2;
    options.set_on_text(append).set_on_token(see);
    pc::stats first = pc::generate(o.prompt, o.cache, options);
    CHECK(text == answer && first.tokens_prompt == 601 && first.tokens_cached == 0);
    CHECK(first.finish == PC_FINISH_STOP_TOKEN && tokens.size() == first.tokens_generated);

    auto number = [&](std::uint32_t sample, std::string_view part) -> std::int32_t {
        CHECK(sample == 0);
        numbered += part;
        return 0;
    };
    options.set_on_text(number);
    pc::stats second;
    pc::generate(o.prompt, o.cache, options, second);
    CHECK(numbered == answer && second.tokens_cached == 590 && second.tokens_new == 11);
}

void functions_stop(objects &o)
{
    std::size_t parts = 0;
    auto two = [&](std::string_view) { return ++parts < 2; };
    pc::generate_options options;
    options.set_on_text(two);
    pc::stats stats = pc::generate(o.prompt, o.cache, options);
    CHECK(parts == 2 && stats.finish == PC_FINISH_CALLBACK);

    // a grammar that allows one token alone
    const std::int32_t only = o.model.tokenize("368").front();
    auto allow = [&](std::uint32_t, pc::span<float> logits) {
        for (std::size_t i = 0; i < logits.size(); i++)
            if (i != static_cast<std::size_t>(only))
                logits[i] = -std::numeric_limits<float>::infinity();
    };
    std::vector<std::int32_t> drawn;
    auto see = [&](const pc_token &token) { drawn.push_back(token.token); };
    pc::generate_options forced;
    forced.max_tokens = 3;
    forced.set_on_logits(allow).set_on_token(see);
    pc::generate(o.prompt, o.cache, forced);
    CHECK(drawn == std::vector<std::int32_t>(3, only));

    const char *const stops[] = {" Novak"};
    std::string text;
    auto append = [&](std::string_view part) { text += part; };
    pc::generate_options stopped;
    stopped.set_stop_strings(stops).set_on_text(append);
    stats = pc::generate(o.prompt, o.cache, stopped);
    CHECK(text == "The desk of Peter" && stats.finish == PC_FINISH_STOP_STRING);

    const std::vector<std::int32_t> end = o.model.tokenize("The desk of Peter");
    pc::generate_options by_token;
    by_token.set_stop_tokens(pc::span<const std::int32_t>(&end.back(), 1));
    CHECK(pc::generate(o.prompt, o.cache, by_token).finish == PC_FINISH_STOP_TOKEN);

    auto at_once = [] { return true; };
    pc::generate_options cancelled;
    cancelled.set_cancelled(at_once);
    try {
        pc::generate(o.prompt, o.cache, cancelled);
        NOT_REACHED("cancelled");
    } catch (const pc::error &error) {
        CHECK(error.status() == PC_ERR_CANCELLED && error.line() == 0);
    }
}

void batch_forks_and_cancels(objects &o)
{
    pc::generate_options options;
    options.flags = PC_GENERATE_KEEP | PC_GENERATE_LOGITS;
    pc::batch batch = pc::batch::make(o.model);
    pc::sequence desk = pc::sequence::make(o.prompt, o.cache, options);
    pc::prompt other = pc::prompt::load(o.schema, employees_job_prompt);
    pc::sequence job = pc::sequence::make(other, o.cache, options);
    batch.add(desk);
    batch.add(job);
    CHECK(batch.get_stats().sequences == 2);
    CHECK(batch.step() == PC_OK && batch.changed().size() == 2);
    CHECK(batch.changed()[0] == desk.get() && desk.tokens().size() == 1);
    CHECK(desk.logits().size() == static_cast<std::size_t>(o.model.get_info().vocab));

    pc::sequence copy = desk.fork();
    batch.add(copy);
    std::thread canceller([&] { job.cancel(); });
    canceller.join();
    while (batch.step() != PC_END)
        for (pc_sequence *changed : batch.changed()) {
            pc::borrowed<pc::sequence> sequence(changed);
            pc::borrowed<pc::sequence> again = sequence;
            again = sequence;
            CHECK(again->get() == changed);
        }
    CHECK(desk.text() == answer && copy.text() == answer);
    CHECK(job.finish() == PC_FINISH_CANCELLED && job.error().status == PC_ERR_CANCELLED);
    CHECK(!job.error().text.empty() && desk.error().status == PC_OK && desk.error().text.empty());
    CHECK(desk.get_stats().tokens_prompt == 601);

    job.push(); // goes on behind its first token; text() is what comes from here on
    while (batch.step() != PC_END) {}
    CHECK(job.text() == " job of Alice Chen is librarian.");
    CHECK(o.model.detokenize(job.tokens()) == "The job of Alice Chen is librarian.");

    desk.truncate(4);
    CHECK(desk.tokens().size() == 4);
    desk.set_options(options);
    desk.push(o.model.tokenize(" Novak"));
    pc::placed_segments placed = copy.spans();
    CHECK(placed.segments.size() == placed.spans.size() && !placed.spans.empty());
    batch.remove(copy);
    try {
        batch.remove(copy);
        NOT_REACHED("removed twice");
    } catch (const pc::error &error) {
        CHECK(error.status() == PC_ERR_NOT_FOUND);
    }
}

void conversations_are_saved(objects &o)
{
    scratch_folder folder;
    const pc::digest key = {{1, 2, 3}};
    pc::cache_options cache_options;
    cache_options.disk_path = folder.path.c_str();
    pc::generate_options options;
    options.flags = PC_GENERATE_KEEP;
    const char *const modules[] = {"peter-novak"};
    const pc_message messages[] = {pc::message("system", "", modules),
                                   pc::message("user", "What is the desk of Peter Novak?")};
    pc::chat_options chat;
    chat.schema = o.schema.get();
    {
        pc::cache cache = pc::cache::make(o.context, cache_options);
        pc::prompt prompt = pc::prompt::from_messages(o.model, messages, chat);
        pc::sequence sequence = pc::sequence::make(prompt, cache, options);
        pc::batch batch = pc::batch::make(o.model);
        batch.add(sequence);
        while (batch.step() != PC_END) {}
        CHECK(sequence.text() == answer);
        CHECK(sequence.save(cache, key) == PC_OK && cache.flush() == PC_OK);
    }
    pc::cache cache = pc::cache::make(o.context, cache_options);
    std::uint32_t reason = 0;
    pc::sequence none = pc::sequence::load(o.model, cache, pc::digest{}, options,
                                           pc::save_options(), &reason);
    CHECK(!none && reason == PC_REASON_FIRST_USE);
    pc::sequence back = pc::sequence::load(o.model, cache, key, options);
    CHECK(back && back.tokens().size() > 4);
    const std::string question = "What is the desk of Peter Novak?";
    const pc_message next[] = {pc::message("user", question)};
    back.push_messages(next);
    pc::batch batch = pc::batch::make(o.model);
    batch.add(back);
    while (batch.step() != PC_END) {}
    CHECK(back.text() == answer);
    CHECK(pc::sequence::forget(o.model, cache, key) == PC_OK);
    CHECK(pc::sequence::forget(o.model, cache, key) == PC_MISS);

    pc::folder records = pc::folder::open(o.context, folder.path);
    for (std::size_t i = 0; i < records.count(); i++) {
        pc::record_info info;
        records.get_record(i, info);
        records.verify(i);
        CHECK(records.tokens(i).size() == info.tokens);
    }
    std::uint64_t removed = 0;
    const std::size_t count = records.count();
    records.trim(0, &removed);
    CHECK(count > 0 && removed == count);
}

void builders_and_layout(objects &o)
{
    pc::schema_builder builder = pc::schema_builder::make(o.model, "rooms");
    builder.begin_turn("system");
    for (const char *name : {"novak", "silva"}) {
        builder.begin_module(name);
        builder.add_text(name[0] == 'n' ? "The desk of Peter Novak is 368. "
                                        : "The desk of Rosa Silva is 205. ");
        builder.add_parameter("more", 4, "none");
        builder.end();
    }
    builder.end();
    const char *const both[] = {"novak", "silva"};
    builder.add_scaffold(both);
    pc::schema rooms = pc::schema::from_builder(builder);
    CHECK(std::string(rooms.name()) == "rooms" && rooms.length() > 10);
    std::size_t modules = 0;
    for (std::size_t i = 0; i < rooms.item_count(); i++)
        modules += rooms.get_item(i).kind == PC_ITEM_MODULE;
    CHECK(modules == 2);

    pc::encode_options encode;
    std::size_t steps = 0;
    auto progress = [&](const char *, std::uint64_t, std::uint64_t) { steps++; };
    encode.set_progress(progress);
    CHECK(rooms.encode(o.cache, encode) == PC_OK && steps > 0);
    CHECK(rooms.prefetch(o.cache) == 0); // all is in RAM

    pc::prompt_builder prompts = pc::prompt_builder::make(rooms);
    prompts.use("novak");
    prompts.add_argument("more", "a");
    prompts.use("silva");
    prompts.begin_turn("user");
    prompts.add_text("What is the desk of Peter Novak?");
    prompts.end();
    pc::prompt prompt = pc::prompt::from_builder(prompts);
    std::size_t tokens = 0;
    for (std::size_t i = 0; i < prompt.part_count(); i++)
        tokens += prompt.get_part(i).count;
    std::string text;
    auto append = [&](std::string_view part) { text += part; };
    pc::generate_options options;
    options.set_on_text(append);
    pc::stats stats = pc::generate(prompt, o.cache, options);
    CHECK(text == answer && tokens == stats.tokens_prompt && stats.tokens_cached > 0);

    pc::system_format format;
    format.set_format("{__SYS_PROMPT} / {__USR_PROMPT}").set_system("Be brief.");
    pc::schema system = pc::schema::from_format(o.model, format);
    pc::prompt filled = pc::prompt::fill(system, "Hello");
    pc::prompt same = pc::prompt::fill_tokens(system, o.model.tokenize("Hello"));
    CHECK(filled.part_count() == same.part_count());

    pc::systems names = pc::systems::make(o.model, o.cache);
    CHECK(names.fill("brief", "Be brief.") == PC_OK && names.count() == 1);
    CHECK(std::string(names.get_system(0).name) == "brief" && names.find("brief").length() > 0);
    CHECK(names.fill_schema("rooms", system) == PC_OK);
    names.drop("brief");
    names.clear();
    CHECK(names.count() == 0);
}

void texts_and_tokens(objects &o)
{
    const std::string text = "The desk of Anna Reed";
    std::vector<std::int32_t> tokens = o.model.tokenize(text);
    CHECK(!tokens.empty() && o.model.detokenize(tokens) == text);
    CHECK(o.model.tokenize("").empty() && o.model.tokenize(std::string_view()).empty());
    std::int32_t room[64];
    CHECK(o.model.tokenize(text, room) == tokens.size());
    const pc_message messages[] = {pc::message("user", "Hello")};
    CHECK(o.model.chat_format(messages).find("Hello") != std::string::npos);
    CHECK(pc::text_show("a\x1b") == "a<U+001B>");
    pc::prompt plain = pc::prompt::from_text(o.model, text);
    pc::prompt by_tokens = pc::prompt::from_tokens(o.model, tokens);
    CHECK(plain && by_tokens);

    pc::model_file file = pc::model_file::open(o.context, demo_model);
    CHECK(file.get_info().refusal == PC_OK && file.type_count() > 0 && file.get_type(0).bytes > 0);
    CHECK(file.model()->tokenize(text) == tokens);
    CHECK(o.cache.prometheus().find("promptcache") != std::string::npos);
    std::size_t plugins = 0;
    try {
        for (;; plugins++)
            CHECK(pc::plugin_get(plugins).name[0]);
    } catch (const pc::error &error) {
        CHECK(error.status() == PC_ERR_NOT_FOUND && plugins > 0);
    }
}

void handles_own(objects &o)
{
    static_assert(!std::is_copy_constructible_v<pc::model> && !std::is_copy_assignable_v<pc::plan>);
    static_assert(std::is_nothrow_move_constructible_v<pc::sequence>);
    static_assert(sizeof(pc::sequence) == sizeof(void *));
    pc::prompt first = pc::prompt::from_text(o.model, "one");
    pc_prompt *const pointer = first.get();
    pc::prompt second = std::move(first);
    CHECK(!first && second.get() == pointer && first.part_count() == 0);
    first = std::move(second);
    pc::prompt &itself = first;
    first = std::move(itself);
    CHECK(first.get() == pointer && !second);
    try { // an empty handle is a NULL argument
        pc::generate(second, o.cache);
        NOT_REACHED("empty");
    } catch (const pc::error &error) {
        CHECK(error.status() == PC_ERR_INVALID);
    }
    pc::prompt third(first.release());
    CHECK(!first && third.get() == pointer);
    third.reset();
    third.reset();
    CHECK(!third);
    pc::cache none; // no cache
    CHECK(pc::generate(o.prompt, none).tokens_cached == 0);

    // freed in any order, and before what uses them
    pc::sequence sequence;
    {
        objects inner;
        pc::generate_options options;
        sequence = pc::sequence::make(inner.prompt, inner.cache, options);
    }
    std::vector<pc::sequence> several;
    several.push_back(std::move(sequence));
    several.push_back(pc::sequence::make(o.prompt, o.cache));
    several.erase(several.begin());
    CHECK(several[0].finish() == PC_FINISH_NONE);
}

// Memory, log, thread pool and events of the application.
void parts_of_the_application()
{
    class counting : public std::pmr::memory_resource {
      public:
        std::atomic<std::size_t> live{0}, calls{0};

      private:
        void *do_allocate(std::size_t bytes, std::size_t align) override
        {
            live += bytes, calls++;
            return std::pmr::new_delete_resource()->allocate(bytes, align);
        }
        void do_deallocate(void *ptr, std::size_t bytes, std::size_t align) override
        {
            live -= bytes;
            std::pmr::new_delete_resource()->deallocate(ptr, bytes, align);
        }
        bool do_is_equal(const std::pmr::memory_resource &other) const noexcept override
        {
            return this == &other;
        }
    } memory;
    std::atomic<int> lines{0}, stored{0}, changes{0}, bodies{0};
    auto log = [&](std::uint32_t, std::string_view) noexcept { lines++; };
    auto loop = [&](std::size_t n, auto body) noexcept {
        for (std::size_t i = 0; i < n; i++, bodies++)
            body(i);
    };
    auto event = [&](const pc_event &e) noexcept { stored += e.kind == PC_EVENT_STORE; };
    auto bytes = [&](std::uint32_t, std::uint64_t, std::uint64_t) noexcept { changes++; };
    {
        pc::allocator allocator(memory);
        pc::context_options options;
        options.allocator = &allocator;
        options.set_log(log).set_parallel_for(loop);
        pc::context context = pc::context::make(options);
        pc::cache_options cache_options;
        cache_options.set_salt("tenant").set_on_event(event).set_on_bytes(bytes);
        pc::cache cache = pc::cache::make(context, cache_options);
        std::size_t steps = 0;
        auto progress = [&](const char *what, std::uint64_t done, std::uint64_t total) {
            steps++;
            return what && done <= total;
        };
        pc::model_options model_options;
        model_options.set_progress(progress);
        pc::model model = pc::model::load(context, demo_model, model_options);
        pc::schema schema = pc::schema::load(model, employees);
        pc::prompt prompt = pc::prompt::load(schema, employees_prompt);
        pc::generate(prompt, cache);
        CHECK(steps > 0 && stored > 0 && changes > 0 && bodies > 0 && memory.calls > 0);
        CHECK(cache.get_stats().stored == static_cast<std::uint64_t>(stored));
        CHECK(cache.get_tier_stats(PC_TIER_RAM).segments > 0);
        std::uint64_t freed = 0;
        CHECK(cache.trim(0, &freed) == PC_OK && freed > 0);
        cache.clear();
        cache.set_quota(PC_TIER_RAM, "tenant", 1 << 20);
    }
    CHECK(memory.live == 0);
}

} // namespace

int main()
{
    objects o;
    answers_and_streams(o);
    functions_stop(o);
    batch_forks_and_cancels(o);
    conversations_are_saved(o);
    builders_and_layout(o);
    texts_and_tokens(o);
    handles_own(o);
    parts_of_the_application();
    return end_of_tests();
}
