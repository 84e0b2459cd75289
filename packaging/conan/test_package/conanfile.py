"""Builds a program in C and one in C++ against the package, and asks the demo model."""
import os

from conan import ConanFile
from conan.tools.build import can_run
from conan.tools.cmake import CMake, cmake_layout


class PromptcacheTest(ConanFile):
    settings = "os", "arch", "compiler", "build_type"
    generators = "CMakeDeps", "CMakeToolchain"
    test_type = "explicit"

    def requirements(self):
        self.requires(self.tested_reference_str)

    def layout(self):
        cmake_layout(self)

    def build(self):
        cmake = CMake(self)
        cmake.configure()
        cmake.build()

    def test(self):
        if not can_run(self):
            return
        data = os.path.join(self.dependencies["promptcache"].package_folder, "share", "promptcache")
        files = " ".join(os.path.join(data, name) for name in (
            "demo.gguf", "pml/employees.pml", "pml/employees-prompt.pml"))
        for program in ("in_c", "in_cxx"):
            self.run(f"{os.path.join(self.cpp.build.bindir, program)} {files}", env="conanrun")
