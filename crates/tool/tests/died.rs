//! A program that ends while its driver compiles: what the commands tell of it.

use serde_json::Value;
use vkstash_fossilize::archive::{Reader, Tag};

use super::doctor::{Machine, machine};
use super::*;

const NAME: &str = "vkstash-states";
/// At the first compile: the word is that with which every module begins.
const DIES: &str = r#"{"faults":[{"command":"vkCreateGraphicsPipelines","word":119734787,"die":"kill"}]}"#;

fn run(machine: &Machine, script: &str) -> Output {
    let program = Path::new(env!("CARGO_BIN_EXE_vkstash")).parent().unwrap().join(NAME);
    let mut command = machine.tool();
    command.args(["run", "--quiet", "--"]).arg(program).env("VKSTASH_TEST_ICD", script);
    output(command.args(["--state", "viewport", "--count", "5"]))
}

fn said(machine: &Machine, arguments: &[&str]) -> String {
    let output = output(machine.tool().args(arguments));
    assert!(output.status.success(), "{arguments:?}: {output:?}");
    text(&output.stdout).to_owned()
}

/// The next step that the doctor names for what a program ended at, and its key's first digits.
fn doctor(machine: &Machine) -> (String, String) {
    let said = text(&output(machine.tool().arg("doctor")).stdout).to_owned();
    let found = format!("note   {NAME} died while compiling ");
    let mut lines = said.lines().skip_while(|line| !line.starts_with(&found));
    let (line, next) = (lines.next().unwrap_or_else(|| panic!("{said}")), lines.next().unwrap());
    let (key, kind) = line.strip_prefix(&found).unwrap().split_once(' ').unwrap();
    assert_eq!(kind, "(graphics)", "{said}");
    (key.to_owned(), next.to_owned())
}

#[test]
fn what_a_program_ended_at_is_named_shown_and_exported_as_soon_as_it_is_recorded() {
    let Some(machine) = machine() else { return };
    let ended = run(&machine, DIES);
    assert!(!ended.status.success(), "{ended:?}");
    let folder = fs::read_dir(machine.sandbox.home().join(".cache/vkstash")).unwrap();
    let folder = folder.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let folder = folder.filter(|name| name.starts_with(NAME)).collect::<Vec<_>>().concat();
    let (key, next) = doctor(&machine);
    assert!(next.contains("run the program again") && !next.contains("export"), "{next}");
    let file = machine.sandbox.path("one.foz").to_str().unwrap().to_owned();
    for command in [&["show", NAME, &key][..], &["export", &file, NAME, &key]] {
        let refused = output(machine.tool().args(command));
        assert!(one_error_line(&refused).contains("before it was recorded: the next run"), "{refused:?}");
    }
    run(&machine, DIES);
    let (same, next) = doctor(&machine);
    assert_eq!(same, key);
    let steps = [format!("`vkstash show {NAME} {key}`"), format!("`vkstash export {key}.foz {NAME} {key}`")];
    assert!(steps.iter().all(|step| next.contains(step)) && next.contains("`vkstash quarantine`"), "{next}");
    let listed = said(&machine, &["quarantine"]);
    assert!(listed.contains(&key) && listed.contains("(died twice while compiling, graphics)"), "{listed}");

    let shown = said(&machine, &["show", &folder, &key]);
    assert!(shown.contains("\nprograms died twice while compiling it, last "), "{shown}");
    let json: Value = serde_json::from_str(&said(&machine, &["show", NAME, &key, "--json"])).unwrap();
    assert!(json["deaths"][0]["times"] == 2 && json["deaths"][0]["last_unix_ms"].is_u64(), "{json}");
    let told = said(&machine, &["export", &file, &folder, &key]);
    assert!(told.starts_with("the pipeline exported to ") && told.contains(&file), "{told}");
    let archive = Reader::open(Path::new(&file)).unwrap();
    let [pipeline] = archive.entries_of(Tag::GraphicsPipeline) else { panic!("{told}") };
    let first: String = hex::encode(pipeline.hash().to_le_bytes());
    assert!(first.starts_with(&key), "{first} {key}");
    let counts = [Tag::ShaderModule, Tag::PipelineLayout, Tag::RenderPass, Tag::ComputePipeline];
    assert_eq!(counts.map(|tag| archive.entries_of(tag).len()), [2, 1, 0, 0]);

    // It is compiled at last.
    assert!(run(&machine, "{}").status.success());
    let shown = said(&machine, &["show", NAME, &key]);
    assert!(!shown.contains("programs died"), "{shown}");
    assert_eq!(said(&machine, &["quarantine"]), "nothing is quarantined\n");
}

#[test]
fn keys_that_lead_to_no_pipeline_are_errors_of_one_line() {
    let Some(machine) = machine() else { return };
    assert!(run(&machine, "{}").status.success());
    let [foz, tar] =
        ["one.foz", "one.tar"].map(|name| machine.sandbox.path(name).to_str().unwrap().to_owned());
    let json: Value = serde_json::from_str(&said(&machine, &["show", NAME, "--json"])).unwrap();
    let keys: Vec<_> = json.as_array().unwrap().iter().map(|one| one["key"].as_str().unwrap()).collect();
    let digit = |&digit: &char| keys.iter().all(|key| !key.starts_with(digit));
    let unknown = "0123456789abcdef".chars().find(digit).unwrap().to_string();
    for (arguments, expected) in [
        (
            ["export", &foz, NAME, &unknown],
            format!("no pipeline whose key begins with {unknown:?}: `vkstash show"),
        ),
        (["export", &tar, NAME, keys[0]], "name a file that ends in .foz".to_owned()),
        (["export", &foz, "nobody", keys[0]], "no application \"nobody\"".to_owned()),
        (["export", &foz, NAME, "4x"], "no application \"4x\"".to_owned()),
    ] {
        let refused = output(machine.tool().args(arguments));
        assert!(one_error_line(&refused).contains(&expected), "{arguments:?}: {refused:?}");
        assert_eq!(refused.status.code(), Some(1));
        assert!(!Path::new(&foz).exists() && !Path::new(&tar).exists());
    }
    let told = said(&machine, &["export", &foz, NAME, &keys[0][..20].to_uppercase()]);
    assert!(told.starts_with("the pipeline exported to "), "{told}");
    assert_eq!(Reader::open(Path::new(&foz)).unwrap().entries_of(Tag::GraphicsPipeline).len(), 1);
}
