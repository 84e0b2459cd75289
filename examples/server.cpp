// A server of conversations. They share documents, run in one batch, are cancelled while they run,
// saved, resumed by another process, and branched. A thread reads requests, one a line; the main
// thread steps the batch. Requests that arrive together are answered together.
//
//   ask NAME TEXT      a further turn of the conversation; the first one begins it
//   branch NAME COPY   COPY goes on from where NAME stands
//   cancel NAME        ends its answer; the next turn goes on from there
//   save NAME          into the cache's folder; resume NAME: from there
//   wait               takes no further request until all answers are there
#include <promptcache.h>
#include <promptcache/batch.h>
#include <promptcache/prompt.h>

#include <condition_variable>
#include <cstring>
#include <deque>
#include <iostream>
#include <map>
#include <memory>
#include <mutex>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace {

void check(pc_status status)
{
    if (status < 0)
        throw std::runtime_error(std::string(pc_status_name(status)) + ": " + pc_error_text());
}

struct free_object {
    void operator()(pc_context *x) const
    {
        pc_context_free(x);
    }
    void operator()(pc_model *x) const
    {
        pc_model_free(x);
    }
    void operator()(pc_cache *x) const
    {
        pc_cache_free(x);
    }
    void operator()(pc_schema *x) const
    {
        pc_schema_free(x);
    }
    void operator()(pc_prompt *x) const
    {
        pc_prompt_free(x);
    }
    void operator()(pc_sequence *x) const
    {
        pc_sequence_free(x);
    }
    void operator()(pc_batch *x) const
    {
        pc_batch_free(x);
    }
};
template <class T> using owner = std::unique_ptr<T, free_object>;

// make<pc_model>(pc_model_load, …): the object that the call gives, or an exception.
template <class T, class Call, class... Arguments> owner<T> make(Call call, Arguments... arguments)
{
    T *out = nullptr;
    check(call(&out, arguments...));
    return owner<T>(out);
}

struct conversation {
    owner<pc_sequence> sequence;
    std::string answer;
};

// No exception may leave a callback.
int32_t add_text(void *user, uint32_t, const char *text, size_t size) noexcept
{
    try {
        static_cast<conversation *>(user)->answer.append(text, size);
        return 0;
    } catch (const std::bad_alloc &) {
        return PC_ERR_NOMEM;
    }
}

class server {
  public:
    server(const char *model_path, const char *schema_path, const char *folder)
        : context(make<pc_context>(pc_context_new, nullptr)),
          model(make<pc_model>(pc_model_load, context.get(), model_path, nullptr)),
          schema(make<pc_schema>(pc_schema_load, model.get(), schema_path, nullptr)),
          batch(make<pc_batch>(pc_batch_new, model.get(), nullptr))
    {
        pc_cache_options options = PC_CACHE_OPTIONS_INIT;
        options.disk_path = folder;
        cache = make<pc_cache>(pc_cache_new, context.get(), &options);
        for (size_t i = 0; i < pc_schema_item_count(schema.get()); i++) { // all its documents
            pc_item item = PC_ITEM_INIT;
            check(pc_schema_get_item(schema.get(), i, &item));
            if (item.kind == PC_ITEM_MODULE)
                documents.push_back(item.path);
        }
    }

    void request(const std::string &line)
    {
        std::istringstream words(line);
        std::string what, name, rest;
        words >> what >> name >> std::ws;
        std::getline(words, rest);
        if (what == "ask")
            ask(name, rest);
        else if (what == "branch")
            join(rest, make<pc_sequence>(pc_sequence_fork, find(name), nullptr));
        else if (what == "cancel")
            check(pc_sequence_cancel(find(name)));
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
        pc_status status = pc_batch_step(batch.get());
        check(status);
        size_t count;
        pc_sequence *const *changed = pc_batch_changed(batch.get(), &count);
        for (size_t i = 0; i < count; i++)
            if (pc_sequence_finish(changed[i]) != PC_FINISH_NONE)
                report(changed[i]);
        return status != PC_END;
    }

  private:
    pc_generate_options options_of(conversation &c)
    {
        pc_generate_options options = PC_GENERATE_OPTIONS_INIT;
        options.max_tokens = 40;
        options.flags = PC_GENERATE_KEEP;
        options.on_text = add_text;
        options.on_text_user = &c;
        return options;
    }

    pc_sequence *find(const std::string &name)
    {
        auto found = conversations.find(name);
        if (found == conversations.end() || !found->second.sequence)
            throw std::runtime_error("no conversation " + name);
        return found->second.sequence.get();
    }

    void join(const std::string &name, owner<pc_sequence> sequence)
    {
        conversation &c = conversations[name];
        pc_generate_options options = options_of(c);
        check(pc_sequence_set_options(sequence.get(), &options)); // its text goes to c
        check(pc_batch_add(batch.get(), sequence.get()));
        c.sequence = std::move(sequence);
        c.answer.clear();
    }

    void ask(const std::string &name, const std::string &text)
    {
        conversation &c = conversations[name];
        pc_message messages[2] = {};
        messages[0].role = "system"; // the documents, from the cache
        messages[0].content = "";
        messages[0].modules = documents.data();
        messages[0].module_count = documents.size();
        messages[1].role = "user";
        messages[1].content = text.data();
        messages[1].content_size = text.size();
        c.answer.clear();
        if (c.sequence)
            return check(pc_sequence_push_messages(c.sequence.get(), &messages[1], sizeof *messages,
                                                   1, nullptr));
        pc_chat_options chat = PC_CHAT_OPTIONS_INIT;
        chat.schema = schema.get();
        owner<pc_prompt> prompt = make<pc_prompt>(pc_prompt_from_messages, model.get(), messages,
                                                  sizeof *messages, size_t{2}, &chat);
        pc_generate_options options = options_of(c);
        c.sequence = make<pc_sequence>(pc_sequence_new, prompt.get(), cache.get(), &options);
        check(pc_batch_add(batch.get(), c.sequence.get()));
    }

    // A key of the caller's choice: here the name. A real server would hash user and conversation.
    struct key {
        uint8_t bytes[32] = {};
        explicit key(const std::string &name)
        {
            name.copy(reinterpret_cast<char *>(bytes), 32);
        }
    };

    void save(const std::string &name)
    {
        check(pc_sequence_save(find(name), cache.get(), key(name).bytes, nullptr));
        std::cout << name << " is saved\n";
    }

    void resume(const std::string &name)
    {
        conversation &c = conversations[name];
        pc_generate_options options = options_of(c);
        pc_sequence *out = nullptr;
        pc_status status = pc_sequence_load(&out, model.get(), cache.get(), key(name).bytes,
                                            &options, nullptr, nullptr);
        check(status);
        if (status == PC_MISS)
            throw std::runtime_error(name + " was not saved, or was evicted");
        c.sequence.reset(out);
        check(pc_batch_add(batch.get(), out));
        std::cout << name << " is back\n";
    }

    void report(pc_sequence *sequence)
    {
        for (auto &[name, c] : conversations) {
            if (c.sequence.get() != sequence)
                continue;
            pc_stats stats = PC_STATS_INIT;
            const char *error;
            check(pc_sequence_get_stats(sequence, &stats));
            pc_sequence_error(sequence, &error);
            std::cout << name << ": " << c.answer << (*error ? " [" : "") << error
                      << (*error ? "]" : "") << " (" << stats.tokens_cached << " of "
                      << stats.tokens_prompt << " tokens from the cache)\n";
        }
    }

    owner<pc_context> context;
    owner<pc_model> model;
    owner<pc_cache> cache;
    owner<pc_schema> schema;
    std::vector<const char *> documents;
    std::map<std::string, conversation> conversations;
    owner<pc_batch> batch; // is freed first
};

// Lines from one thread to another.
class line_queue {
  public:
    void put(std::string line)
    {
        std::lock_guard<std::mutex> guard(mutex);
        lines.push_back(std::move(line));
        changed.notify_one();
    }
    void end()
    {
        std::lock_guard<std::mutex> guard(mutex);
        ended = true;
        changed.notify_one();
    }
    // Waits for a line if `wait`. False: there is none, and with `wait` there will be none.
    bool take(std::string &line, bool wait)
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
    std::deque<std::string> lines;
    bool ended = false;
};

void serve(server &s, line_queue &requests)
{
    bool running = false, waits = false;
    for (std::string line;;) {
        while (!(waits && running) && requests.take(line, !running)) {
            waits = line == "wait";
            try {
                if (!waits)
                    s.request(line);
            } catch (const std::exception &error) { // of one request: the others go on
                std::cout << line << ": " << error.what() << "\n";
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
