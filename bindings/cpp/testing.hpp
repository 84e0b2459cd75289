// What the test programs of this folder share: checks that go on, the model and files of the tree.
#ifndef PC_CPP_TESTING_HPP
#define PC_CPP_TESTING_HPP

#include <promptcache.hpp>
#include <promptcache_task.hpp>

#include <cstdio>
#include <cstdlib>
#include <string>

namespace pc = promptcache;

inline int faults = 0;

#define CHECK(condition)                                                                 \
    do {                                                                                 \
        if (!(condition)) {                                                              \
            std::fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition); \
            faults++;                                                                    \
        }                                                                                \
    } while (0)

// Where an exception should have come before.
#define NOT_REACHED(what)                                              \
    do {                                                               \
        std::fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, what); \
        faults++;                                                      \
    } while (0)

inline const std::string root = PC_SOURCE_DIR;
inline const std::string demo_model = root + "/models/demo/demo.gguf";
inline const std::string employees = root + "/examples/pml/employees.pml";
inline const std::string employees_prompt = root + "/examples/pml/employees-prompt.pml";
inline const std::string employees_job_prompt = root + "/examples/pml/employees-job-prompt.pml";

// A folder that is empty at first and gone at the end.
class scratch_folder {
  public:
    scratch_folder()
    {
        char name[] = "/tmp/promptcache-cpp-XXXXXX";
        path = mkdtemp(name) ? name : "";
    }
    scratch_folder(const scratch_folder &) = delete;
    scratch_folder &operator=(const scratch_folder &) = delete;
    ~scratch_folder()
    {
        if (!path.empty() && std::system(("rm -rf " + path).c_str()) != 0)
            std::fprintf(stderr, "%s is left\n", path.c_str());
    }
    std::string path;
};

inline int end_of_tests()
{
    std::printf("%d faults\n", faults);
    return faults ? 1 : 0;
}

#endif
