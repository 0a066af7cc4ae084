//! `include/vkstash.h`, made of the definitions in this folder. A tool for that (cbindgen) has a licence that this
//! repository does not allow, and a header of this size needs little of it.

use std::fmt::Write as _;
use std::path::Path;

/// Writes the header anew.
const PUBLISH: &str = "VKSTASH_PUBLISH_GOLDEN";

const SOURCES: [&str; 6] = [
    include_str!("types.rs"),
    include_str!("functions.rs"),
    include_str!("sessions.rs"),
    include_str!("control.rs"),
    include_str!("background.rs"),
    include_str!("identifiers.rs"),
];

const BEGIN: &str = "\
/* vkstash: shader cache sessions, control over caches and background work, and identifiers, for programs and
 * translators; docs/sessions.md describes them.
 *
 * Made of src/api/ by `VKSTASH_PUBLISH_GOLDEN=1 cargo test -p vkstash --lib api::tests`: change that. */
#ifndef VKSTASH_H
#define VKSTASH_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern \"C\" {
#endif
";

const END: &str = "
#ifdef __cplusplus
}
#endif

#endif
";

/// The C type and what follows the name.
fn c_type(rust: &str, name: &str) -> String {
    let rust = rust.trim();
    if let Some(array) = rust.strip_prefix('[') {
        let (of, count) = array.trim_end_matches(']').split_once(';').unwrap();
        return format!("{}[{}]", c_type(of, name), count.trim());
    }
    if let Some(to) = rust.strip_prefix("*const ") {
        return format!("const {}", c_type(to, &format!("*{name}")));
    }
    if let Some(to) = rust.strip_prefix("*mut ") {
        return c_type(to, &format!("*{name}"));
    }
    let rust = rust.strip_prefix("Option<").map_or(rust, |of| of.trim_end_matches('>'));
    let c = match rust {
        "u8" => "uint8_t",
        "u16" => "uint16_t",
        "u32" => "uint32_t",
        "u64" => "uint64_t",
        "i32" => "int32_t",
        "usize" => "size_t",
        "c_char" => "char",
        "c_void" => "void",
        other if other.starts_with("Vkstash") => other,
        other => panic!("the header has no {other}"),
    };
    format!("{c} {name}")
}

/// A comment of C with these lines of documentation; without what is for Rust.
fn comment(lines: &[&str], indent: &str) -> String {
    let end = lines.iter().position(|line| *line == "# Safety").unwrap_or(lines.len());
    let text = lines[..end].join("\n");
    let text = text.trim_end().replace('\n', &format!("\n{indent} * "));
    let text = text.lines().map(str::trim_end).collect::<Vec<_>>().join("\n");
    if text.is_empty() { String::new() } else { format!("{indent}/* {text} */\n") }
}

/// The definitions of one file that are for C.
fn definitions(source: &str, header: &mut String) {
    let mut documented = Vec::new();
    let mut lines = source.lines();
    let mut is_exported = false;
    while let Some(line) = lines.next() {
        if let Some(text) = line.strip_prefix("///") {
            documented.push(text.strip_prefix(' ').unwrap_or(text));
            continue;
        }
        if line.starts_with("#[") {
            is_exported |= line.contains("no_mangle") || line.contains("repr(");
            continue;
        }
        let comment = comment(&documented, "");
        if let Some(constant) = line.strip_prefix("pub const ") {
            let (name, value) = constant.split_once(": u32 = ").unwrap();
            write!(header, "\n{comment}#define {name} {}u\n", value.trim_end_matches(';')).unwrap();
        } else if let Some(alias) = line.strip_prefix("pub type ") {
            let (name, of) = alias.trim_end_matches(';').split_once(" = ").unwrap();
            let of = match of {
                "unsafe extern \"C\" fn()" => format!("void (*{name})(void)"),
                of => c_type(of, name),
            };
            write!(header, "\n{comment}typedef {of};\n").unwrap();
        } else if let Some(name) = line.strip_prefix("pub struct ").filter(|_| is_exported) {
            let name = name.trim_end_matches(" {");
            let body = body(&mut lines, |field| {
                let (name, of) =
                    field.strip_prefix("pub ").unwrap().trim_end_matches(',').split_once(": ").unwrap();
                format!("    {};\n", c_type(of, name))
            });
            write!(header, "\n{comment}typedef struct {name} {{\n{body}}} {name};\n").unwrap();
        } else if let Some(name) = line.strip_prefix("pub enum ").filter(|_| is_exported) {
            let name = name.trim_end_matches(" {");
            let body = body(&mut lines, |value| format!("    {value}\n"));
            // The last comma is for C99 and later only.
            let body = body.trim_end().trim_end_matches(',');
            write!(header, "\n{comment}typedef enum {name} {{\n{body}\n}} {name};\n").unwrap();
        } else if line.contains(" extern \"C\" fn ") && is_exported {
            let mut whole = line.to_owned();
            while !whole.ends_with('{') {
                whole += lines.next().unwrap().trim();
            }
            let (name, rest) = whole.split_once("fn ").unwrap().1.split_once('(').unwrap();
            let (parameters, result) = rest.split_once(") -> ").unwrap();
            let parameters: Vec<String> = parameters
                .split(',')
                .filter(|parameter| !parameter.is_empty())
                .map(|parameter| parameter.split_once(": ").unwrap())
                .map(|(name, of)| format!("    {}", c_type(of, name.trim())))
                .collect();
            let result = c_type(result.trim_end_matches(" {"), name);
            write!(header, "\n{comment}{result}(\n{});\n", parameters.join(",\n")).unwrap();
        }
        documented.clear();
        is_exported = false;
    }
}

/// The lines up to the closing brace, with their comments.
fn body<'a>(lines: &mut impl Iterator<Item = &'a str>, line: impl Fn(&str) -> String) -> String {
    let mut documented = Vec::new();
    let mut body = String::new();
    for text in lines.take_while(|line| *line != "}").map(str::trim) {
        match text.strip_prefix("///") {
            Some(text) => documented.push(text.trim()),
            None => {
                body += &comment(&documented, "    ");
                body += &line(text);
                documented.clear();
            }
        }
    }
    body
}

fn made() -> String {
    let mut header = BEGIN.to_owned();
    SOURCES.iter().for_each(|source| definitions(source, &mut header));
    header + END
}

#[test]
fn the_header_says_what_the_library_has() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("include/vkstash.h");
    let made = made();
    if std::env::var_os(PUBLISH).is_some() {
        std::fs::write(&path, &made).unwrap();
    }
    assert!(std::fs::read_to_string(path).unwrap() == made, "publish it anew: {PUBLISH}=1");
    let functions = SOURCES.iter().flat_map(|source| source.matches("no_mangle")).count();
    assert_eq!(made.matches("\nVkstashResult vkstash_").count() + 1, functions, "each exported function");
    for function in made.split("\nVkstashResult ").skip(1).filter_map(|rest| rest.split_once('(')) {
        let name = std::ffi::CString::new(function.0).unwrap();
        assert!(super::functions::of_name(&name).is_some(), "vkstash_get_proc_addr knows {name:?}");
    }
}
