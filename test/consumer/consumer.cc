// The same from C++: the header's macros and functions as they are, a handle in a smart pointer.
#include <promptcache.h>

#include <memory>

int main(int argc, char **argv)
{
    pc_context_options options = PC_CONTEXT_OPTIONS_INIT;
    options.threads = 1;
    pc_context *context = nullptr;
    if (argc != 4 || pc_context_new(&context, &options) < 0)
        return 1;
    const std::unique_ptr<pc_context, decltype(&pc_context_free)> owner(context, pc_context_free);
    pc_model *model = nullptr;
    if (pc_model_load(&model, context, argv[1], nullptr) < 0)
        return 1;
    const std::unique_ptr<pc_model, decltype(&pc_model_free)> model_owner(model, pc_model_free);
    pc_model_info info = PC_MODEL_INFO_INIT;
    size_t count = 0;
    const bool ok = pc_model_get_info(model, &info) == PC_OK && info.vocab > 0 &&
                    pc_tokenize(model, "Anna Reed", 9, 0, nullptr, 0, &count) == PC_OK && count > 0;
    return ok ? 0 : 1;
}
