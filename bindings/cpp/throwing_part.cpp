// A part of test_cpp_mixed in which errors are exceptions.
#include "testing.hpp"

int status_by_exception(pc_context *context)
{
    pc::borrowed<pc::context> in(context);
    try {
        pc::model model = pc::model::load(*in, "nowhere.gguf");
        return PC_OK;
    } catch (const pc::error &error) {
        return error.status();
    }
}
