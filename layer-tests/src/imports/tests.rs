use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::floors::Floors;
use super::graph::Graph;
use super::tree::Tree;

fn tree(files: &[(&str, &str)]) -> Tree {
    let files: BTreeMap<PathBuf, String> =
        files.iter().map(|(path, text)| (PathBuf::from(path), (*text).to_owned())).collect();
    Tree::read(Path::new("lib.rs"), &|path| files.get(path).cloned()).unwrap()
}

fn circles(files: &[(&str, &str)]) -> Vec<String> {
    let graph = Graph::draw(&tree(files));
    graph.circles().iter().map(|circle| graph.ties(circle)).collect()
}

fn upwards(files: &[(&str, &str)]) -> Vec<String> {
    let tree = tree(files);
    let floors = Floors::read(files[0].1);
    assert_eq!(floors.disagreements(&tree), Vec::<String>::new());
    Graph::draw(&tree).upwards(&tree, &[], &floors)
}

#[test]
fn two_files_that_name_each_other_are_a_circle_with_its_names() {
    let found = circles(&[
        ("lib.rs", "mod a; mod b; mod c;"),
        ("a.rs", "use crate::b::{One, Two as Other}; use crate::c::Three;"),
        ("b.rs", "fn f() -> u32 { crate::a::four(1) }"),
        ("c.rs", "use std::fmt;"),
    ]);
    assert_eq!(found, ["  a.rs takes One, Two from b.rs\n  b.rs takes four from a.rs\n"]);
}

#[test]
fn a_circle_of_three_hides_in_nested_trees_and_in_macros() {
    let found = circles(&[
        ("lib.rs", "mod room; mod b;"),
        ("room/mod.rs", "pub mod a; pub mod c;"),
        ("room/a.rs", "use {std::fmt, crate::{b::{self, inner::{deep as d}}, other}}; fn f() { b::g() }"),
        ("b.rs", "pub mod inner { pub fn deep() { say!(\"{}\", super::super::room::c::Name) } }"),
        ("room/c.rs", "pub(in crate::b) struct Name; fn f(x: &super::a::Thing<'_>) {}"),
    ]);
    let text = "  b.rs takes Name from room/c.rs\n  room/a.rs takes deep, g from b.rs\n  room/c.rs takes Thing \
                from room/a.rs\n";
    assert_eq!(found, [text]);
}

#[test]
fn names_that_a_module_re_exports_come_from_their_own_file() {
    let files = |room: &'static str, b: &'static str| {
        [("lib.rs", "mod room;"), ("room/mod.rs", room), ("room/a.rs", "pub struct A;"), ("room/b.rs", b)]
    };
    assert!(circles(&files("mod a; mod b; pub use a::A; pub use b::B;", "use super::A;")).is_empty());
    assert!(circles(&files("mod a; mod b; pub(crate) use a::*; pub use b::B;", "use super::A;")).is_empty());
    // Items in mod.rs itself count, and so does its use of the modules below.
    let tied = files("mod a; mod b; pub struct A; fn f() { b::g() }", "use super::A;");
    assert_eq!(
        circles(&tied),
        ["  room/b.rs takes A from room/mod.rs\n  room/mod.rs takes g from room/b.rs\n"]
    );
    let taken = files("mod a; mod b; use b::B; pub struct A(B);", "use crate::room::A;");
    assert_eq!(circles(&taken).len(), 1);
}

#[test]
fn a_path_through_an_imported_module_leads_to_the_file_behind_it() {
    let found = circles(&[
        ("lib.rs", "mod room; mod other;"),
        ("room/mod.rs", "pub mod a; use crate::other; fn f() { other::g() }"),
        ("room/a.rs", ""),
        ("other.rs", "use crate::room; pub fn g() { room::a::h() }"),
    ]);
    assert!(found.is_empty(), "{found:?}");
}

#[test]
fn what_only_tests_compile_is_left_out() {
    let found = circles(&[
        ("lib.rs", "mod a; mod b; #[cfg(test)] mod tests;"),
        ("a.rs", "use crate::b::One; #[cfg(test)] mod tests { use super::*; use crate::b::Two; }"),
        (
            "b.rs",
            "#[cfg(test)] use crate::a::{One, Two}; #[cfg(test)] #[allow(dead_code)] pub(crate) fn f<A, B>(a: A) \
             { crate::a::g() } struct S { #[cfg(test)] field: crate::a::T, other: u32 }",
        ),
    ]);
    assert!(found.is_empty(), "{found:?}");
}

#[test]
fn the_map_is_read_and_held_against_the_modules() {
    let root = "//! A crate.\n//!\n//! - [`top`] what [`low`] does; `beside` too\n//! - [mod@low], `lower` and [`last`] \
                the rest,\n//!   with `top` in words\n//!\n//! More of `top`.\nmod top; mod low; mod new;";
    let floors = Floors::read(root);
    assert_eq!([floors.of("top"), floors.of("beside"), floors.of("low")], [Some(0), Some(0), Some(1)]);
    assert_eq!([floors.of("lower"), floors.of("last"), floors.of("new")], [Some(1), Some(1), None]);
    let tree = tree(&[("lib.rs", root), ("top.rs", ""), ("low.rs", ""), ("new.rs", "")]);
    let wrong = ["the map lists new 0 times", "no module beside", "no module lower", "no module last"];
    let found = floors.disagreements(&tree);
    assert!(
        found.len() == 4 && found.iter().zip(wrong).all(|(one, other)| one.ends_with(other)),
        "{found:?}"
    );
}

#[test]
fn an_import_from_a_higher_floor_is_found() {
    let root = "//! - `top` one\n//! - `middle`, `beside` two\n//! - `low` three\nmod top; mod middle; mod beside; mod low;";
    let files = |low: &'static str| {
        [
            ("lib.rs", root),
            ("top.rs", "use crate::{low::L, middle::{self, M}};"),
            ("middle.rs", "use crate::beside::B;"),
            ("beside.rs", ""),
            ("low/mod.rs", "mod inner;"),
            ("low/inner.rs", low),
        ]
    };
    assert!(upwards(&files("use super::L;")).is_empty());
    let planted =
        "use {crate::{self as all, low::L, middle::{deep::{M, N}}}}; fn f() { all::top::T; crate::X }";
    assert_eq!(
        upwards(&files(planted)),
        [
            "low/inner.rs takes X from lib.rs",
            "low/inner.rs takes deep from middle.rs",
            "low/inner.rs takes T from top.rs"
        ]
    );
}

#[test]
fn rooms_have_floors_of_their_own() {
    let files = [
        ("lib.rs", "mod other; mod room;"),
        ("other.rs", "use crate::room::low::L;"),
        ("room/mod.rs", "//! - `high` one\n//! - `low` two\nmod high; mod low;"),
        ("room/high.rs", "use super::low::L; use crate::other::O;"),
        ("room/low.rs", "use super::high::H; use crate::other::O;"),
    ];
    let tree = tree(&files);
    let floors = Floors::read(files[2].1);
    let found = Graph::draw(&tree).upwards(&tree, &["room".to_owned()], &floors);
    assert_eq!(found, ["room/low.rs takes H from room/high.rs"]);
}
