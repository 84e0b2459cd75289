// Which line of the source a place in the code comes from.
#ifndef PC_TEST_SOURCE_H
#define PC_TEST_SOURCE_H

#include <string>
#include <vector>

namespace gpu_model {

// "file:line" of the call before this return address, without the wrappers of gpu.h. If it stands
// in functions that were inlined: "words.h:12 < norms.cu:70", the innermost line first.
std::string source_of(void *pc);
// Is a line ("norms.cu:70", or "norms.cu:" for any of it) in such a chain?
bool is_from(const std::string &chain, const std::string &line);
// all lines of inlined functions, the innermost first
std::string source_lines(void *pc);
// Many at once, for later calls of the others: each look-up starts a program.
void look_up(const std::vector<void *> &pcs);
bool is_constant(const void *at); // in read-only memory of the program or of its libraries

} // namespace gpu_model

#endif
