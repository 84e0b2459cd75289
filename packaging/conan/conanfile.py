"""promptcache for Conan 2: builds the library from its tarball.

conandata.yml, which tools/packages.sh writes, says where the tarball is, with its SHA-256. By
default the libraries that it needs are Conan's. With -o "promptcache/*:system_libraries=True" they
are the system's, found by pkg-config: nothing is fetched."""
import os

from conan import ConanFile
from conan.tools.cmake import CMake, CMakeToolchain, cmake_layout
from conan.tools.files import copy, get, rmdir
from conan.tools.gnu import PkgConfigDeps
from conan.tools.system.package_manager import Apt

required_conan_version = ">=2.0"


class Promptcache(ConanFile):
    name = "promptcache"
    license = "Apache-2.0"
    description = "reuses attention states of LLM prompts"
    topics = ("llm", "inference", "cache")
    package_type = "library"
    settings = "os", "arch", "compiler", "build_type"
    options = {
        "shared": [True, False],
        "with_remote": [True, False],  # the tier REMOTE: hiredis, OpenSSL
        "system_libraries": [True, False],
    }
    default_options = {"shared": True, "with_remote": True, "system_libraries": False}

    def validate(self):
        if self.settings.os != "Linux":
            from conan.errors import ConanInvalidConfiguration
            raise ConanInvalidConfiguration("promptcache runs on Linux")

    def configure(self):
        self.settings.rm_safe("compiler.libcxx")  # the library is in C
        self.settings.rm_safe("compiler.cppstd")

    def layout(self):
        cmake_layout(self, src_folder="src")

    def requirements(self):
        if self.options.system_libraries:
            return
        for name in ("expat/[>=2.4 <3]", "jansson/[>=2.13 <3]", "pcre2/[>=10.39 <11]",
                     "utf8proc/[>=2.7 <3]", "libsodium/[>=1.0.18 <2]", "zstd/[>=1.5.1 <2]"):
            self.requires(name)
        self.requires("xxhash/[>=0.8.1 <0.9]")  # its header alone
        if self.options.with_remote:
            self.requires("hiredis/[>=0.14 <2]")
            self.requires("openssl/[>=1.1.1 <4]")

    def build_requirements(self):
        if not self.options.system_libraries:
            self.tool_requires("cmake/[>=3.22 <5]")
            self.tool_requires("pkgconf/[>=2 <3]")

    def system_requirements(self):
        if self.options.system_libraries:  # checked; installed only if Conan is told to
            Apt(self).install(["libexpat1-dev", "libjansson-dev", "libpcre2-dev",
                               "libutf8proc-dev", "libsodium-dev", "libzstd-dev", "libxxhash-dev"]
                              + (["libhiredis-dev", "libssl-dev"] if self.options.with_remote
                                 else []))

    def source(self):
        get(self, **self.conan_data["sources"][self.version], strip_root=True)

    def generate(self):
        toolchain = CMakeToolchain(self)
        remote = "ON" if self.options.with_remote else "OFF"
        for name, value in (("BUILD_SHARED_LIBS", "ON" if self.options.shared else "OFF"),
                            ("PC_WITH_HIREDIS", remote), ("PC_WITH_OPENSSL", remote),
                            ("PC_WITH_ONEDNN", "OFF"), ("PC_WITH_FAISS", "OFF"),
                            ("PC_WITH_CUDA", "OFF"), ("PC_BUILD_TESTS", "OFF"),
                            ("PC_BUILD_TOOLS", "OFF"), ("PC_BUILD_EXAMPLES", "OFF"),
                            ("PC_BUILD_BINDINGS", "OFF")):
            toolchain.cache_variables[name] = value
        toolchain.generate()
        if not self.options.system_libraries:
            PkgConfigDeps(self).generate()

    def build(self):
        cmake = CMake(self)
        cmake.configure()
        cmake.build()

    def package(self):
        CMake(self).install()
        copy(self, "LICENSE", self.source_folder, os.path.join(self.package_folder, "licenses"))
        for folder in ("share/doc", "lib/pkgconfig", "lib/cmake"):  # Conan makes its own
            rmdir(self, os.path.join(self.package_folder, folder))
        if self.options.shared:
            os.remove(os.path.join(self.package_folder, "lib", "libpromptcache.a"))

    def package_info(self):
        self.cpp_info.libs = ["promptcache"]
        self.cpp_info.set_property("cmake_file_name", "promptcache")
        self.cpp_info.set_property("cmake_target_name", "promptcache::promptcache")
        self.cpp_info.set_property("pkg_config_name", "promptcache")
        self.cpp_info.resdirs = ["share/promptcache"]
        if not self.options.shared:
            self.cpp_info.system_libs = ["pthread", "dl", "m"]
            if self.options.system_libraries:
                self.cpp_info.system_libs = ["expat", "jansson", "pcre2-8", "utf8proc", "sodium",
                                             "zstd"] + self.cpp_info.system_libs
                if self.options.with_remote:
                    self.cpp_info.system_libs = ["hiredis", "ssl",
                                                 "crypto"] + self.cpp_info.system_libs
