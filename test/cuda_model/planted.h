// Tests of the model plant a fault into a kernel and look for the report that names it.
#ifndef PC_TEST_PLANTED_H
#define PC_TEST_PLANTED_H

extern "C" {
#include "testing.h"
}
#include "gpu_model.h"
#include <fstream>
#include <string>
#include <vector>

// "model_races.cu:17": the line of that file of this folder that has the comment "// <mark>".
inline std::string marked_line(const char *file, const std::string &mark)
{
    std::ifstream source(std::string(PC_SOURCE_DIR "/test/cuda_model/") + file);
    std::string line;
    for (int number = 1; std::getline(source, line); number++) {
        size_t at = line.find("// " + mark);
        if (at != std::string::npos && at + 3 + mark.size() == line.size())
            return std::string(file) + ":" + std::to_string(number);
    }
    return "no line is marked " + mark;
}

const gpu_model::report_kind NO_REPORT = gpu_model::REPORT_KINDS;

// What the model has to say about one fault. NO_REPORT: the kernel is right.
struct planted {
    const char *name;
    uint32_t fault;
    gpu_model::report_kind kind;
    const char *mark; // of the line that the report names
};

// After a launch with that fault: the report is there and names the line; without a fault, none is.
inline void check_planted(const char *file, const planted &one)
{
    bool right;
    if (one.kind == NO_REPORT)
        right = gpu_model::reports() == 0;
    else
        right = gpu_model::reports(one.kind) > 0
                && gpu_model::reported(one.kind, marked_line(file, one.mark).c_str());
    if (!right)
        fprintf(stderr, "not as planned: %s\n", one.name);
    CHECK(right);
}

#endif
