#!/usr/bin/env python3
"""Runs what the pages about the Go package show: test_pages.py SOURCE FOLDER

Would catch: a snippet that does not compile or prints something else than the page says. In
bindings/go/README.md and doc/go.md, a block of Go is a whole program or the body of a function that
has ctx, model, schema, prompt, cache and batch. A block of text right behind it is its output. The
block of sh makes the module in which they are built."""
import os
import re
import shutil
import subprocess
import sys

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../test/support"))
from page_blocks import blocks_of  # pylint: disable=wrong-import-position

PAGES = ("bindings/go/README.md", "doc/go.md")
PACKAGES = ("bufio", "context", "errors", "fmt", "io", "log", "os", "strings", "time")
MAIN = """
func main() {
	ctx := context.Background()
	model, err := promptcache.LoadModel(ctx, "models/demo/demo.gguf", nil)
	must(err)
	schema, err := model.LoadSchema("examples/pml/employees.pml", nil)
	must(err)
	prompt, err := schema.LoadPrompt("examples/pml/employees-prompt.pml", nil)
	must(err)
	cache, err := promptcache.NewCache(nil)
	must(err)
	batch, err := model.NewBatch(nil)
	must(err)
	must(bodies[os.Args[1]](ctx, model, schema, prompt, cache, batch))
}

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

type function = func(ctx context.Context, model *promptcache.Model, schema *promptcache.Schema,
	prompt *promptcache.Prompt, cache *promptcache.Cache, batch *promptcache.Batch) error

var bodies = map[string]function{
"""


def parts(bodies):
    """One program of all bodies, which runs the one that its argument names."""
    code = "".join(
        f'\t"{number}": func(ctx context.Context, model *promptcache.Model,\n'
        "\t\tschema *promptcache.Schema, prompt *promptcache.Prompt, cache *promptcache.Cache,\n"
        f"\t\tbatch *promptcache.Batch) error {{\n{body}\treturn nil\n\t}},\n"
        for number, body in bodies.items()) + "}\n"
    used = [name for name in PACKAGES if name in ("context", "log", "os")
            or re.search(rf"\b{name}\.[A-Z]", code)]
    imports = "".join(f'\t"{name}"\n' for name in used)
    return f'package main\n\nimport (\n{imports}\n\t"promptcache"\n)\n{MAIN}{code}'


def write(path, text):
    os.makedirs(os.path.dirname(path))
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def run(command, where, **more):
    done = subprocess.run(command, cwd=where, capture_output=True, text=True, check=False, **more)
    if done.returncode:
        sys.exit(f"{command} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout


def main():
    source, folder = (os.path.abspath(path) for path in sys.argv[1:3])
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    snippets, setup = [], None
    for page in PAGES:
        shown = blocks_of(os.path.join(source, page))
        for (language, _, code, line), behind in zip(shown, shown[1:] + [None]):
            if language == "sh" and page == PAGES[0]:
                setup = setup or code
            elif language == "go":
                expected = behind.text if behind and behind.kind == "text" else None
                snippets.append((f"{page}:{line}", code, expected))
            elif language not in ("text", "sh"):
                sys.exit(f"{page}:{line}: nothing runs a block of {language}")
    bodies = {}
    for number, (_, code, _) in enumerate(snippets):
        if code.startswith("package "):
            write(f"{folder}/program{number}/main.go", code)
        else:
            bodies[number] = code
    write(f"{folder}/parts/main.go", parts(bodies))
    os.makedirs(f"{folder}/bin")
    run(["sh", "-euc", setup], folder, env={**os.environ, "PROMPTCACHE": source})
    run(["go", "build", "-o", f"{folder}/bin/", "./..."], folder)
    failed = False
    for number, (place, _, expected) in enumerate(snippets):
        command = ["parts", str(number)] if number in bodies else [f"program{number}"]
        printed = run([f"{folder}/bin/{command[0]}", *command[1:]], source)
        if expected is not None and printed != expected:
            print(f"{place} prints\n{printed}and the page says\n{expected}")
            failed = True
    print(f"{len(snippets)} snippets were run")
    sys.exit(failed or not snippets)


if __name__ == "__main__":
    main()
