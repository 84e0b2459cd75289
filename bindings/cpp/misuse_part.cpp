// A part of test_cpp_misuse that is compiled for another standard.
#include "testing.hpp"

void throw_by_another_standard();
void throw_by_another_standard()
{
    pc::model::load(pc::context::make(), "nowhere.gguf");
}

void step_by_another_standard(pc_model *, pc_sequence *);
void step_by_another_standard(pc_model *model, pc_sequence *sequence)
{
    const pc::borrowed<pc::model> of(model);
    const pc::borrowed<pc::sequence> member(sequence);
    const pc::batch batch = pc::batch::make(*of);
    batch.add(*member);
    while (batch.step() != PC_END) {}
}
