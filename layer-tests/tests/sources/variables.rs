//! Each variable of the environment that the code names is in the list that users see.

use std::fs;
use std::path::Path;

use syn::visit::{self, Visit};
use vkstash_model::variables::ALL;

use super::words::{files, repository};

/// Those of tests: of cases, and the switch that has tests write the files that they compare.
const OF_TESTS: [&str; 2] = ["VKSTASH_TEST_", "VKSTASH_PUBLISH_GOLDEN"];

/// The texts that are names of variables, outside tests.
#[derive(Default)]
struct Names(Vec<String>);

impl Names {
    fn of(text: &str) -> Vec<String> {
        let mut names = Names::default();
        names.visit_file(&syn::parse_file(text).unwrap());
        names.0
    }

    fn look_at(&mut self, text: &str) {
        let is_name = text.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'_');
        let has_prefix = text == "VKSTASH" || text.starts_with("VKSTASH_");
        // `VKSTASH_` alone begins names.
        let is_whole = is_name && has_prefix && !text.ends_with('_');
        if is_whole && !OF_TESTS.iter().any(|of_tests| text.starts_with(of_tests)) {
            self.0.push(text.to_owned());
        }
    }
}

impl<'ast> Visit<'ast> for Names {
    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        let is_test = |attribute: &syn::Attribute| {
            attribute.path().is_ident("cfg")
                && attribute.parse_args::<syn::Ident>().is_ok_and(|word| word == "test")
        };
        if !item.attrs.iter().any(is_test) {
            visit::visit_item_mod(self, item);
        }
    }

    fn visit_lit_str(&mut self, text: &'ast syn::LitStr) {
        self.look_at(&text.value());
    }

    fn visit_lit_byte_str(&mut self, text: &'ast syn::LitByteStr) {
        self.look_at(&String::from_utf8_lossy(&text.value()));
    }
}

fn is_of_a_program(file: &Path) -> bool {
    let is_test = file.iter().any(|part| part == "tests" || part == "tests.rs" || part == "examples");
    let is_source =
        file.starts_with("src") || (file.starts_with("crates") && file.iter().any(|part| part == "src"));
    is_source && !is_test && file.extension().is_some_and(|extension| extension == "rs")
}

#[test]
fn each_variable_that_the_code_names_is_in_the_list() {
    for file in files().iter().filter(|file| is_of_a_program(file)) {
        for name in Names::of(&fs::read_to_string(repository().join(file)).unwrap()) {
            assert!(ALL.iter().any(|variable| variable.name == name), "{}: {name}", file.display());
        }
    }
    for variable in ALL {
        assert_eq!(ALL.iter().filter(|other| other.name == variable.name).count(), 1, "{}", variable.name);
    }
}

#[test]
fn names_in_tests_and_parts_of_names_are_left_out() {
    let text =
        "fn a() { b(\"VKSTASH_ONE\", b\"VKSTASH\", \"VKSTASH_\", \"VKSTASH_TEST_X\", \"a VKSTASH_TWO\"); }
        #[cfg(test)] mod tests { const C: &str = \"VKSTASH_THREE\"; }
        #[cfg(unix)] mod others { const D: &str = \"VKSTASH_FOUR\"; }";
    assert_eq!(Names::of(text), ["VKSTASH_ONE", "VKSTASH", "VKSTASH_FOUR"]);
}
