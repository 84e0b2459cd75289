// Lines come from binutils' addr2line, which every machine with gcc has. Without it, places are
// addresses.
#include "source.h"
#include <algorithm>
#include <dlfcn.h>
#include <link.h>
#include <map>
#include <stdint.h>
#include <stdio.h>
#include <unistd.h>

namespace gpu_model {

static std::map<void *, std::string> found;

// Of return addresses in one file. addr2line -a prints each address before its lines.
static void ask_addr2line(const char *file, const char *base, void *const *pcs, size_t count)
{
    char line[1024];
    std::string command = "addr2line -a -i -e '" + std::string(file) + "'";
    size_t number = 0;                   // of addresses so far
    for (size_t i = 0; i < count; i++) { // a call ends one byte before its return address
        snprintf(line, sizeof line, " 0x%lx", (unsigned long)((char *)pcs[i] - base) - 1);
        command += line;
    }
    FILE *pipe = popen((command + " 2>/dev/null").c_str(), "r");
    while (pipe && fgets(line, sizeof line, pipe))
        if (line[0] == '0' && line[1] == 'x')
            number++;
        else if (number)
            found[pcs[number - 1]] += line;
    if (pipe)
        pclose(pipe);
}

void look_up(const std::vector<void *> &pcs)
{
    enum { AT_ONCE = 500 };
    std::map<void *, std::vector<void *>> of_file; // by where the file is loaded
    std::map<void *, const char *> names;
    Dl_info info;
    for (void *pc : pcs)
        if (!found.count(pc)) {
            found[pc];
            if (dladdr(pc, &info) && info.dli_fname) {
                of_file[info.dli_fbase].push_back(pc);
                names[info.dli_fbase] = info.dli_fname;
            }
        }
    for (const auto &file : of_file) {
        const char *name = names[file.first];
        if (access(name, R_OK))
            name = "/proc/self/exe"; // started by a name that was relative to another folder
        for (size_t i = 0; i < file.second.size(); i += AT_ONCE)
            ask_addr2line(name, (const char *)file.first, &file.second[i],
                          std::min<size_t>(AT_ONCE, file.second.size() - i));
    }
}

std::string source_lines(void *pc)
{
    if (!found.count(pc))
        look_up({pc});
    return found[pc];
}

static bool is_wrapper(const std::string &line)
{
    return line.compare(0, 6, "gpu.h:") == 0 || line.compare(0, 13, "gpu_device.h:") == 0;
}

std::string source_of(void *pc)
{
    std::string lines = source_lines(pc), chain;
    for (size_t from = 0, end; from < lines.size(); from = end + 1) {
        end = lines.find('\n', from);
        std::string line = lines.substr(from, end - from);
        line = line.substr(line.rfind('/') + 1);
        line = line.substr(0, line.find(' ')); // " (discriminator 3)"
        if (!is_wrapper(line))
            chain += (chain.empty() ? "" : " < ") + line;
    }
    char text[32];
    snprintf(text, sizeof text, "%p", pc);
    return chain.empty() ? text : chain;
}

bool is_from(const std::string &chain, const std::string &line)
{
    for (size_t at = chain.find(line); at != std::string::npos; at = chain.find(line, at + 1)) {
        bool begins = at == 0 || chain[at - 1] == ' ', ends = line.back() == ':';
        size_t end = at + line.size();
        if (begins && (ends || end == chain.size() || chain[end] == ' '))
            return true;
    }
    return false;
}

// ---- constants -------------------------------------------------------------------------------

static std::vector<std::pair<uintptr_t, uintptr_t>> constant_segments;

static int note_segments(struct dl_phdr_info *info, size_t, void *)
{
    for (size_t i = 0; i < info->dlpi_phnum; i++) {
        const auto &segment = info->dlpi_phdr[i];
        uintptr_t from = info->dlpi_addr + segment.p_vaddr;
        if (segment.p_type == PT_LOAD && !(segment.p_flags & PF_W))
            constant_segments.push_back({from, from + segment.p_memsz});
    }
    return 0;
}

bool is_constant(const void *at)
{
    if (constant_segments.empty())
        dl_iterate_phdr(note_segments, NULL);
    for (const auto &segment : constant_segments)
        if ((uintptr_t)at >= segment.first && (uintptr_t)at < segment.second)
            return true;
    return false;
}

} // namespace gpu_model
