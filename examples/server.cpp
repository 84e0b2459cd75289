// A server of conversations. They share documents, run in one batch, are cancelled while they run,
// saved, resumed by another process, and branched. A thread reads requests, one a line; the main
// thread steps the batch. A request joins at the step after it has arrived, beside the answers that
// are under way. What its user waited is counted from there: until the first text, and the longest
// time between two.
//
//   ask NAME TEXT      a further turn of the conversation; the first one begins it
//   branch NAME COPY   COPY goes on from where NAME stands
//   cancel NAME        ends its answer; the next turn goes on from there
//   save NAME          into the cache's folder; resume NAME: from there
//   wait               takes no further request until all answers are there
#include <promptcache.hpp>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <iostream>
#include <map>
#include <mutex>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace pc = promptcache;

namespace {

using clock_type = std::chrono::steady_clock;

// What the user of an answer waits, in milliseconds.
struct waiting {
    clock_type::time_point since; // arrival of the request, then the last text
    double first = -1, longest = 0;
    void note()
    {
        const clock_type::time_point now = clock_type::now();
        const double ms = std::chrono::duration<double, std::milli>(now - since).count();
        since = now;
        if (first < 0)
            first = ms;
        else
            longest = std::max(longest, ms);
    }
};

struct conversation {
    pc::sequence sequence;
    std::string answer;
    waiting waited;
    // The sequence keeps a reference to it: it stays where it is, in its map.
    struct {
        std::string *to;
        waiting *waited;
        void operator()(std::string_view text) const
        {
            *to += text;
            waited->note();
        }
    } add_text = {&answer, &waited};
};

class server {
  public:
    server(const char *model_path, const char *schema_path, const char *folder)
        : context(pc::context::make()), model(pc::model::load(context, model_path)),
          schema(pc::schema::load(model, schema_path)), batch(pc::batch::make(model))
    {
        pc::cache_options options;
        options.disk_path = folder;
        cache = pc::cache::make(context, options);
        for (size_t i = 0; i < schema.item_count(); i++) { // all its documents
            pc::item item = schema.get_item(i);
            if (item.kind == PC_ITEM_MODULE)
                documents.push_back(item.path);
        }
    }

    void request(const std::string &line, clock_type::time_point arrived)
    {
        now = arrived;
        std::istringstream words(line);
        std::string what, name, rest;
        words >> what >> name >> std::ws;
        std::getline(words, rest);
        if (what == "ask")
            ask(name, rest);
        else if (what == "branch")
            join(rest, find(name).fork());
        else if (what == "cancel")
            find(name).cancel();
        else if (what == "save")
            save(name);
        else if (what == "resume")
            resume(name);
        else
            throw std::runtime_error("no such request: " + what);
    }

    // One token for each running conversation. False: nothing runs.
    bool step()
    {
        const pc_status status = batch.step();
        for (pc_sequence *changed : batch.changed())
            if (pc_sequence_finish(changed) != PC_FINISH_NONE)
                report(changed);
        return status != PC_END;
    }

  private:
    pc::generate_options options_of(conversation &c)
    {
        pc::generate_options options;
        options.max_tokens = 40;
        options.flags = PC_GENERATE_KEEP;
        return options.set_on_text(c.add_text);
    }

    pc::sequence &find(const std::string &name)
    {
        auto found = conversations.find(name);
        if (found == conversations.end() || !found->second.sequence)
            throw std::runtime_error("no conversation " + name);
        return found->second.sequence;
    }

    void join(const std::string &name, pc::sequence sequence)
    {
        conversation &c = conversations[name];
        sequence.set_options(options_of(c)); // its text goes to c
        batch.add(sequence);
        c.sequence = std::move(sequence);
        begin_answer(c);
    }

    void begin_answer(conversation &c)
    {
        c.answer.clear();
        c.waited = waiting{now};
    }

    void ask(const std::string &name, const std::string &text)
    {
        conversation &c = conversations[name];
        const pc_message messages[] = {pc::message("system", "", documents), // from the cache
                                       pc::message("user", text)};
        begin_answer(c);
        if (c.sequence)
            return c.sequence.push_messages(pc::span<const pc_message>(&messages[1], 1));
        pc::chat_options chat;
        chat.schema = schema.get();
        pc::prompt prompt = pc::prompt::from_messages(model, messages, chat);
        c.sequence = pc::sequence::make(prompt, cache, options_of(c));
        batch.add(c.sequence);
    }

    // A key of the caller's choice: here the name. A real server would hash user and conversation.
    static pc::digest key(const std::string &name)
    {
        pc::digest out = {};
        name.copy(reinterpret_cast<char *>(out.data()), out.size());
        return out;
    }

    void save(const std::string &name)
    {
        find(name).save(cache, key(name));
        std::cout << name << " is saved\n";
    }

    void resume(const std::string &name)
    {
        conversation &c = conversations[name];
        c.sequence = pc::sequence::load(model, cache, key(name), options_of(c));
        if (!c.sequence)
            throw std::runtime_error(name + " was not saved, or was evicted");
        batch.add(c.sequence);
        std::cout << name << " is back\n";
    }

    void report(const pc_sequence *sequence)
    {
        for (auto &[name, c] : conversations) {
            if (c.sequence.get() != sequence)
                continue;
            const pc::stats stats = c.sequence.get_stats();
            const std::string_view error = c.sequence.error().text;
            std::cout << name << ": " << c.answer << (error.empty() ? "" : " [") << error
                      << (error.empty() ? "" : "]") << " (" << stats.tokens_cached << " of "
                      << stats.tokens_prompt << " tokens from the cache";
            if (c.waited.first >= 0)
                std::cout << "; first text after " << static_cast<int>(c.waited.first + 0.5)
                          << " ms, at most " << static_cast<int>(c.waited.longest + 0.5)
                          << " ms between two";
            std::cout << ")\n";
        }
    }

    pc::context context;
    pc::model model;
    pc::cache cache;
    pc::schema schema;
    std::vector<const char *> documents;
    clock_type::time_point now; // when the request that is under way arrived
    std::map<std::string, conversation> conversations;
    pc::batch batch; // is freed first
};

struct arrival {
    std::string line;
    clock_type::time_point when;
};

// Lines from one thread to another.
class line_queue {
  public:
    void put(std::string line)
    {
        std::lock_guard<std::mutex> guard(mutex);
        lines.push_back({std::move(line), clock_type::now()});
        changed.notify_one();
    }
    void end()
    {
        std::lock_guard<std::mutex> guard(mutex);
        ended = true;
        changed.notify_one();
    }
    // Waits for a line if `wait`. False: there is none, and with `wait` there will be none.
    bool take(arrival &line, bool wait)
    {
        std::unique_lock<std::mutex> guard(mutex);
        changed.wait(guard, [&] { return !wait || ended || !lines.empty(); });
        if (lines.empty())
            return false;
        line = std::move(lines.front());
        lines.pop_front();
        return true;
    }

  private:
    std::mutex mutex;
    std::condition_variable changed;
    std::deque<arrival> lines;
    bool ended = false;
};

void serve(server &s, line_queue &requests)
{
    bool running = false, waits = false;
    for (arrival next;;) {
        while (!(waits && running) && requests.take(next, !running)) {
            waits = next.line == "wait";
            try {
                if (!waits)
                    s.request(next.line, next.when);
            } catch (const std::exception &error) { // of one request: the others go on
                std::cout << next.line << ": " << error.what() << "\n";
            }
            running = true; // perhaps: the next step tells
            if (waits)
                break;
        }
        if (!running)
            return;
        running = s.step();
    }
}

} // namespace

int main(int argc, char **argv)
{
    if (argc != 4) {
        bool help = argc == 2 && !std::strcmp(argv[1], "--help");
        (help ? std::cout : std::cerr)
            << "usage: server MODEL SCHEMA FOLDER <REQUESTS\n"
               "for models/demo/demo.gguf and examples/pml/employees.pml\n";
        return help ? 0 : 2;
    }
    try {
        server s(argv[1], argv[2], argv[3]);
        line_queue requests;
        std::thread reader([&] {
            for (std::string line; std::getline(std::cin, line);)
                requests.put(line);
            requests.end();
        });
        serve(s, requests);
        reader.join();
        return 0;
    } catch (const std::exception &error) {
        std::cerr << "server: " << error.what() << "\n";
        return 1;
    }
}
