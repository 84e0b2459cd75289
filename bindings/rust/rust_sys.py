"""promptcache-sys: the interface of C, and a test that compares it with the C compiler's."""
from rust_names import doc_lines, markdown, rust_name

TOP = """\
// Written by generate.py from the description of the headers. Do not edit.
"""


def docs(names, entry, indent="", more=""):
    text = "\n\n".join(part for part in (entry.get("heading", ""), entry["comment"], more) if part)

    def link(name):
        known = name in names.items or name in names.constants
        return f"crate::{name}" if known else None

    return doc_lines(markdown(text, link), indent) if text else []


def wrapped(head, parts, tail):
    """head(parts)tail in one line, or with a part a line."""
    line = f"{head}({', '.join(parts)}){tail}"
    if len(line) <= 100:
        return [line]
    indent = " " * (len(head) - len(head.lstrip()) + 4)
    return [head + "(", *(f"{indent}{part}," for part in parts), f"{indent[4:]}){tail}"]


def constants(names):
    lines = []
    for macro in names.macros:
        lines += docs(names, macro) + [f"pub const {macro['name']}: u32 = {macro['value']};"]
    for enum in names.enums:
        lines.append("")
        for index, entry in enumerate(enum["enumerators"]):
            made = names.constant_type(enum, entry["name"])
            about = enum["comment"]  # of all constants that stand together: said once
            if index and not entry["comment"]:
                about = f"As {enum['enumerators'][0]['name']}: of the same kind."
            lines += docs(names, entry, more="" if index and entry["comment"] else about)
            lines.append(f"pub const {entry['name']}: {made} = {entry['value']};")
    return lines


def opaque(names, item):
    return docs(names, item) + ["#[repr(C)]", f"pub struct {item['name']} {{",
                                "    _bytes: [u8; 0],",
                                "    _marker: PhantomData<(*mut u8, PhantomPinned)>,", "}", ""]


def struct(names, item):
    made = item["name"]
    lines = docs(names, item) + ["#[repr(C)]", "#[derive(Clone, Copy)]", f"pub struct {made} {{"]
    for field in item["fields"]:
        lines += docs(names, field, "    ")
        lines.append(f"    pub {rust_name(field['name'])}: {names.type_of(field, field=True)},")
    lines += ["}", ""]
    if item.get("given_by_library"):
        return lines
    kept = "let mut made" if item["sized"] else "let made"
    lines += [f"impl Default for {made} {{", "    fn default() -> Self {",
              "        // SAFETY: numbers, pointers, functions that may be missing: zero is one.",
              f"        {kept}: Self = unsafe {{ core::mem::zeroed() }};"]
    if item["sized"]:
        lines.append("        made.struct_size = core::mem::size_of::<Self>();")
    return lines + ["        made", "    }", "}", ""]


def bindings(names):
    lines = [TOP, "use core::marker::{PhantomData, PhantomPinned};",
             "use std::os::raw::{c_char, c_void};", "",
             "/// A code: 0 success, above 0 a normal outcome, below 0 an error.",
             "pub type pc_status = i32;", ""]
    lines += constants(names) + [""]
    for item in names.handles + names.opaque:
        lines += opaque(names, item)
    for item in names.callbacks:
        lines += docs(names, item)
        lines += [f"pub type {item['name']} = Option<", f"    {names.function_type(item)},",
                  ">;", ""]
    for item in names.structs:
        lines += struct(names, item)
    lines.append('extern "C" {')
    for item in names.functions:
        lines += docs(names, item, "    ")
        lines += wrapped(f"    pub fn {item['name']}",
                         [f"{rust_name(argument['name'])}: {names.type_of(argument)}"
                          for argument in item["arguments"]], names.result(item) + ";")
    lines += ["}", ""]
    lines += ["/// What the headers say beside their declarations.", "pub mod headers {"]
    for header in names.headers:
        title = header["name"].replace("promptcache/", "").replace(".h", "")
        for section in header["sections"]:
            if section["title"]:
                lines += doc_lines(["# " + section["title"].split("\n")[0], ""], "    ")
            text = section["comment"].replace("[example]\n", "").replace("[/example]\n", "")
            lines += doc_lines(markdown(text, lambda name: f"crate::{name}" if name in names.items
                                        else None), "    ") + ["    ///"]
        lines += [f"    pub mod {title} {{}}"]
    return "\n".join(lines + ["}", ""])


LAYOUT = """\
//! Catches: a struct that C lays out otherwise, a constant with another value. The C compiler says
//! how it sees the headers: a program prints sizes, offsets and values, in the order of the tables.
#![allow(clippy::unnecessary_cast)]
#![cfg_attr(rustfmt, rustfmt_skip)]
use promptcache_sys::*;
use std::fmt::Write as _;
use std::process::Command;

macro_rules! structs {
    ($($name:ident { $($field:ident)* })*) => {
        vec![$((stringify!($name), std::mem::size_of::<$name>(), vec![$({
            let made = std::mem::MaybeUninit::<$name>::uninit();
            let start = made.as_ptr();
            // SAFETY: the address of a field, of memory that is large enough; nothing is read.
            let field = unsafe { std::ptr::addr_of!((*start).$field) };
            (stringify!($field), field as usize - start as usize)
        }),*])),*]
    };
}

macro_rules! values {
    ($($name:ident)*) => { vec![$((stringify!($name), $name as i64)),*] };
}

/// What the program prints, or why there is none.
fn compiled(code: &str) -> Result<String, String> {
    let include = option_env!("PROMPTCACHE_INCLUDE").ok_or("the headers were not found")?;
    let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".to_string());
    let folder = env!("CARGO_TARGET_TMPDIR");
    let (source, program) = (format!("{folder}/layout.c"), format!("{folder}/layout"));
    std::fs::write(&source, code).map_err(|error| error.to_string())?;
    let status = Command::new(&compiler)
        .args(["-I", include, &source, "-o", &program])
        .status()
        .map_err(|error| format!("{compiler}: {error}"))?;
    assert!(status.success(), "{compiler} refuses {source}");
    let output = Command::new(&program).output().map_err(|error| error.to_string())?;
    Ok(String::from_utf8(output.stdout).unwrap())
}

#[test]
fn as_the_c_compiler_sees_it() {
    let structs = structs! {
@structs@
    };
    let values = values! {
@values@
    };
    let mut code = String::from("@includes@#include <stdio.h>\\nint main(void)\\n{\\n");
    let mut expected = String::new();
    for (name, size, fields) in &structs {
        writeln!(code, "printf(\\"{name} %zu\\\\n\\", sizeof({name}));").unwrap();
        writeln!(expected, "{name} {size}").unwrap();
        for (field, offset) in fields {
            let field = field.trim_start_matches("r#");
            let what = format!("{name}.{field}");
            writeln!(code, "printf(\\"{what} %zu\\\\n\\", offsetof({name}, {field}));").unwrap();
            writeln!(expected, "{what} {offset}").unwrap();
        }
    }
    for (name, value) in &values {
        writeln!(code, "printf(\\"{name} %lld\\\\n\\", (long long){name});").unwrap();
        writeln!(expected, "{name} {value}").unwrap();
    }
    code.push_str("return 0;\\n}\\n");
    match compiled(&code) {
        Ok(printed) => {
            assert!(expected.lines().count() > 500);
            for (ours, theirs) in expected.lines().zip(printed.lines()) {
                assert_eq!(ours, theirs, "Rust, C");
            }
            assert_eq!(expected.lines().count(), printed.lines().count());
        }
        Err(reason) => println!("skipped: {reason}"),
    }
}

#[test]
fn defaults_are_those_of_the_library() {
    macro_rules! same {
        ($($name:ident $init:ident)*) => {$(
            let size = std::mem::size_of::<$name>();
            let bytes = |made: &$name| {
                // SAFETY: no struct of the headers has padding (test_layout), so all is written.
                unsafe { std::slice::from_raw_parts((made as *const $name).cast::<u8>(), size) }
                    .to_vec()
            };
            let ours = $name::default();
            let mut theirs = $name::default();
            // SAFETY: writes `size` bytes.
            unsafe { $init(&mut theirs, size) };
            assert_eq!(bytes(&ours), bytes(&theirs), stringify!($name));
        )*};
    }
    same! {
@defaults@
    }
}
"""


def layout(names):
    structs = []
    for item in names.structs:
        fields = " ".join(rust_name(field["name"]) for field in item["fields"])
        structs.append(f"        {item['name']} {{ {fields} }}")
    values = [f"        {entry['name']}" for enum in names.enums for entry in enum["enumerators"]]
    defaults = [f"        {item['name']} {item['init']}" for item in names.structs
                if item.get("init")]
    includes = "".join(f"#include <{header['name']}>\\n" for header in names.headers)
    made = TOP + LAYOUT
    for mark, text in (("@structs@", "\n".join(structs)), ("@values@", "\n".join(values)),
                       ("@includes@", includes), ("@defaults@", "\n".join(defaults))):
        made = made.replace(mark, text)
    return made
