// What the test programs of calls that throw share: the objects of the demo, and a call's status.
#ifndef PC_CPP_THROWING_HPP
#define PC_CPP_THROWING_HPP

#include "testing.hpp"

namespace { // other files of the same program may be of another standard

template <class Function> pc_status status_of(Function function)
{
    try {
        function();
        return PC_OK;
    } catch (const pc::error &error) {
        return error.status();
    }
}

struct objects {
    pc::context context = pc::context::make();
    pc::model model = pc::model::load(context, demo_model);
    pc::cache cache = pc::cache::make(context);
    pc::schema schema = pc::schema::load(model, employees);
    pc::prompt prompt = pc::prompt::load(schema, employees_prompt);
};

} // namespace

#endif
