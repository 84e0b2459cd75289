// Catches: code with exceptions and code with results that get each other's functions when they are
// linked into one program.
#define PROMPTCACHE_NO_EXCEPTIONS
#include "testing.hpp"

int status_by_exception(pc_context *context);

int main()
{
    auto context = pc::context::make();
    CHECK(status_by_exception(context->get()) == PC_ERR_NOT_FOUND);
    auto model = pc::model::load(*context, "nowhere.gguf");
    CHECK(!model && model.error().status() == PC_ERR_NOT_FOUND);
    CHECK(status_by_exception(context->get()) == PC_ERR_NOT_FOUND && *context);
    return end_of_tests();
}
