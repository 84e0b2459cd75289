// The same by the header for C++: the second answer comes from the cache.
#include <promptcache.hpp>

#include <iostream>
#include <string>

namespace pc = promptcache;

int main(int argc, char **argv)
try {
    if (argc != 4)
        return 2;
    pc::context context = pc::context::make();
    pc::model model = pc::model::load(context, argv[1]);
    pc::cache cache = pc::cache::make(context);
    pc::schema schema = pc::schema::load(model, argv[2]);
    pc::prompt prompt = pc::prompt::load(schema, argv[3]);
    bool ok = true;
    for (std::uint64_t cached : {0, 590}) {
        std::string answer;
        auto append = [&](std::string_view text) { answer += text; };
        pc::generate_options options;
        options.set_on_text(append);
        const pc::stats stats = pc::generate(prompt, cache, options);
        std::cout << answer << " (" << stats.tokens_cached << " cached)\n";
        ok = ok && answer == "The desk of Peter Novak is 368." && stats.tokens_cached == cached;
    }
    return ok ? 0 : 1;
} catch (const pc::error &error) {
    std::cerr << error.what() << "\n";
    return 1;
}
