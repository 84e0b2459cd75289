#!/usr/bin/env python3
"""Runs cargo for the tests of CMake, without a registry:

    test_rust.py PART CARGO BUILD CMAKE

crates     all tests of the crates, and the snippets of their comments. Catches: generated files
           that do not compile or are not as C lays structs out, a safe interface that is none.
pages      the snippets of doc/rust.md and of the front page. Catches: one that does not do what
           the page says.
examples   the programs. Catches: an answer that is not that of the C examples.
package    the lists of files of the packages. Catches: metadata that a registry would refuse.
installed  a program against an installation, found by pkg-config, dynamic and static; with
           PC_TEST_LONG=1 that of the front page, else a small one. Catches: a build script that
           does not find the library.
"""
import json
import os
import re
import shutil
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path.append(os.path.join(ROOT, "test", "support"))
from page_blocks import blocks_of  # pylint: disable=wrong-import-position

OLDEST = (1, 63)
# What a snippet's function is given, by the types of its arguments.
GIVEN = {"&Context": "&demo.context", "&Model": "&demo.model", "&Cache": "&demo.cache",
         "&Prompt": "&demo.prompt"}
DEMO = """
struct Demo {
    context: promptcache::Context,
    model: promptcache::Model,
    cache: promptcache::Cache,
    prompt: promptcache::Prompt,
}

fn demo() -> Demo {
    use promptcache::*;
    std::env::set_current_dir(ROOT).unwrap();
    let context = Context::new(&ContextOptions::default()).unwrap();
    let model = Model::load(&context, "models/demo/demo.gguf").unwrap();
    let cache = Cache::new(&context, &CacheOptions::default()).unwrap();
    let schema = Schema::load(&model, "examples/pml/employees.pml").unwrap();
    let prompt = Prompt::load(&[&schema], "examples/pml/employees-prompt.pml").unwrap();
    Demo { context, model, cache, prompt }
}
"""
VERSION = """fn main() {
    let version = unsafe { std::ffi::CStr::from_ptr(promptcache_sys::pc_version()) };
    println!("{}", version.to_str().unwrap());
}
"""


def skip(reason):
    print(f"skipped: {reason}")
    sys.exit(77)


class Cargo:
    def __init__(self, cargo, build):
        self.cargo, self.build = cargo, os.path.abspath(build)
        self.work = os.path.join(self.build, "bindings", "rust")
        if not os.path.isfile(cargo):
            skip("there is no cargo (apt-get install cargo)")
        beside = {name: os.path.join(os.path.dirname(cargo), name) for name in ("rustc", "rustdoc")}
        version = subprocess.run([beside["rustc"], "--version"], capture_output=True, text=True,
                                 check=False).stdout
        found = re.match(r"rustc (\d+)\.(\d+)", version)
        if not found or tuple(map(int, found.groups())) < OLDEST:
            skip(f"{beside['rustc']} is {version.strip() or 'absent'}, Rust 1.63 is needed")
        self.environment = dict(
            os.environ, RUSTC=beside["rustc"], RUSTDOC=beside["rustdoc"],
            CARGO_TARGET_DIR=os.path.join(self.work, "cargo"), CARGO_NET_OFFLINE="true",
            CARGO_PROFILE_DEV_DEBUG="0", CARGO_PROFILE_TEST_DEBUG="0", CARGO_INCREMENTAL="0",
            PROMPTCACHE_LIB_DIR=self.build, PROMPTCACHE_INCLUDE_DIR=os.path.join(ROOT, "include"))
        self.find_in(self.build)

    def find_in(self, folder):
        """Programs load the library from there."""
        before = os.environ.get("LD_LIBRARY_PATH")
        self.environment["LD_LIBRARY_PATH"] = folder + (":" + before if before else "")

    def run(self, *arguments, cwd=HERE, **how):
        command = [self.cargo, *arguments]
        print("+", *command, flush=True)
        return subprocess.run(command, cwd=cwd, env=self.environment, check=True, text=True, **how)

    def linked(self):
        """Makes the crate, and says how a program is linked with it."""
        deps = os.path.join(self.environment["CARGO_TARGET_DIR"], "debug", "deps")
        made = self.run("build", "--offline", "--package", "promptcache", "--message-format=json",
                        stdout=subprocess.PIPE).stdout
        messages = [json.loads(line) for line in made.splitlines()]
        library = next(file for message in messages if message["reason"] == "compiler-artifact"
                       and message["target"]["name"] == "promptcache"
                       for file in message["filenames"] if file.endswith(".rlib"))
        return ["--extern", f"promptcache={library}", "-L", f"dependency={deps}",
                "-L", f"native={self.build}"]

    def warnings_are_errors(self):
        self.environment["RUSTFLAGS"] = "-Dwarnings"
        self.environment["RUSTDOCFLAGS"] = "-Dwarnings"


def crates(cargo):
    cargo.run("test", "--offline", "--workspace", "--quiet")


def called(code):
    """Calls of the functions of a snippet."""
    functions = re.findall(r"^fn (\w+)\((.*?)\)( -> Result<\(\)>)? \{$", code, re.M)
    assert functions, "a snippet without a function"
    for name, arguments, fails in functions:
        given = [GIVEN[argument.split(": ")[1]] for argument in arguments.split(", ") if argument]
        yield f"{name}({', '.join(given)}){'.unwrap()' if fails else ''};"


def write(path, text):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def manifest(name):
    """Cargo.toml of a program that uses the crate as the page says."""
    blocks = blocks_of(os.path.join(ROOT, "doc", "rust.md"))
    dependency = next(block.text for block in blocks if block.kind == "toml")
    dependency = dependency.replace('"bindings/', f'"{ROOT}/bindings/')
    return (f'[package]\nname = "{name}"\nversion = "0.0.0"\nedition = "2021"\n\n{dependency}\n'
            "[workspace]\n")


def pages(cargo):
    folder = os.path.join(cargo.work, "pages")
    shutil.rmtree(folder, ignore_errors=True)
    lines = [f'const ROOT: &str = r"{ROOT}";', DEMO]
    count = 0
    for page in (os.path.join(HERE, "promptcache", "README.md"),
                 os.path.join(ROOT, "doc", "rust.md")):
        stem = "front" if page.endswith("README.md") else "page"
        for kind, _, code, line in blocks_of(page):
            if not kind.startswith("rust"):
                continue
            calls = "\n        ".join(called(code))
            lines.append(f"mod {stem}_line_{line} {{\n{code}\n    #[test]\n    fn runs() {{\n"
                         "        let demo = super::demo();\n        let _ = &demo;\n"
                         f"        {calls}\n    }}\n}}\n")
            count += 1
    assert count >= 10, count
    source, program = os.path.join(folder, "pages.rs"), os.path.join(folder, "pages")
    write(source, "#![allow(dead_code)]\n" + "\n".join(lines))
    # by the compiler, because in another workspace cargo would make the crates once more
    subprocess.run([cargo.environment["RUSTC"], "--test", "--edition", "2021", "-Dwarnings", source,
                    "-o", program, *cargo.linked()], env=cargo.environment, check=True)
    subprocess.run([program], env=cargo.environment, check=True)


def expect(output, *patterns):
    for pattern in patterns:
        if not re.search(pattern, output):
            sys.exit(f"'{pattern}' is not in\n{output}")


def examples(cargo):
    cargo.run("build", "--offline", "--examples", "--quiet")
    folder = os.path.join(cargo.environment["CARGO_TARGET_DIR"], "debug", "examples")
    pml = os.path.join(ROOT, "examples", "pml")
    first = [os.path.join(ROOT, "models", "demo", "demo.gguf"),
             os.path.join(pml, "employees.pml"), os.path.join(pml, "employees-prompt.pml")]

    def output(code, name, *arguments):
        made = subprocess.run([os.path.join(folder, name), *arguments], env=cargo.environment,
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
        assert made.returncode == code, made
        return made.stdout + made.stderr

    answer = r"The desk of Peter Novak is 368\."
    expect(output(0, "answer", *first),
           rf"empty cache: {answer}\s+601 tokens: 0 from the cache, 590 encoded, 11 new",
           rf"full cache: {answer}\s+601 tokens: 590 from the cache, 0 encoded, 11 new")
    expect(output(0, "batch", *first, os.path.join(pml, "employees-job-prompt.pml")),
           f"employees-prompt.pml: {answer}", r"Alice Chen is librarian\.",
           r"526 tokens: [1-9]\d+ from the cache, [1-9]\d* encoded, 10 new",
           r"2 prompts in \d+ steps")
    expect(output(1, "answer", "nowhere.gguf", *first[1:]), "answer: PC_ERR_NOT_FOUND: .*nowhere")
    for name in ("answer", "batch"):
        expect(output(2, name), f"usage: {name}")


def package(cargo):
    wanted = {"promptcache-sys": {"build.rs", "src/bindings.rs", "tests/layout.rs", "README.md"},
              "promptcache": {"src/lib.rs", "src/generated.rs", "examples/answer.rs", "README.md"}}
    for name, files in wanted.items():
        listed = cargo.run("package", "--offline", "--no-verify", "--allow-dirty", "--list",
                           cwd=os.path.join(HERE, name), stdout=subprocess.PIPE).stdout.split("\n")
        assert files <= set(listed), (name, listed)


def installed(cargo, cmake):
    pkg_config = shutil.which("pkg-config")
    if not pkg_config:
        skip("there is no pkg-config")
    prefix, folder = os.path.join(cargo.work, "prefix"), os.path.join(cargo.work, "installed")
    for path in (prefix, folder):
        shutil.rmtree(path, ignore_errors=True)
    subprocess.run([cmake, "--install", cargo.build, "--prefix", prefix], check=True,
                   stdout=subprocess.DEVNULL)
    program, answer = VERSION, r"^0\.\d+\.\d+$"
    toml = manifest("installed")
    if os.environ.get("PC_TEST_LONG"):
        program = next(snippets(os.path.join(HERE, "promptcache", "README.md")))[1]
        answer = r"The desk of Peter Novak is 368\.\n0 of 601 tokens"
    else:  # the crate that finds the library
        toml = re.sub(r"\bpromptcache(?= =|\")", "promptcache-sys", toml)
    write(os.path.join(folder, "Cargo.toml"), toml)
    write(os.path.join(folder, "src", "main.rs"), program)
    del cargo.environment["PROMPTCACHE_LIB_DIR"]
    del cargo.environment["PROMPTCACHE_INCLUDE_DIR"]
    cargo.environment["CARGO_TARGET_DIR"] = os.path.join(cargo.work, "installed_cargo")
    cargo.environment["PKG_CONFIG_PATH"] = os.path.join(prefix, "lib", "pkgconfig")
    cargo.find_in(os.path.join(prefix, "lib"))
    built = os.path.join(cargo.environment["CARGO_TARGET_DIR"], "debug", "installed")
    kinds = ["0"] + ["1"] * os.path.isfile(os.path.join(prefix, "lib", "libpromptcache.a"))
    for static in kinds:
        cargo.environment["PROMPTCACHE_STATIC"] = static
        cargo.run("build", "--offline", "--quiet", cwd=folder)
        made = subprocess.run([built], cwd=ROOT, env=cargo.environment, check=True,
                              capture_output=True, text=True).stdout
        expect(made, answer)
    cargo.environment["PKG_CONFIG_PATH"] = folder
    failed = subprocess.run([cargo.cargo, "build", "--offline"], cwd=folder, check=False,
                            env=cargo.environment, capture_output=True, text=True)
    assert failed.returncode != 0
    expect(failed.stderr, "set PROMPTCACHE_LIB_DIR to the folder of libpromptcache.so")


def main():
    part, cargo, build, cmake = sys.argv[1:5]
    cargo = Cargo(cargo, build)
    cargo.warnings_are_errors()
    if part == "installed":
        installed(cargo, cmake)
    else:
        {"crates": crates, "pages": pages, "examples": examples, "package": package}[part](cargo)


if __name__ == "__main__":
    main()
