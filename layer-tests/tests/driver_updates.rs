//! Tests of the words about an update of the driver: what is not ready is said before programs run, and what was
//! prepared is said afterwards.

use std::fs;
use std::process::Output;

use serde_json::{Value, json};
use vkstash_layer_tests::env::{Driver, Env};
use vkstash_layer_tests::suite::{on, run};
use vkstash_layer_tests::updates::{tool, updated};
use vkstash_layer_tests::work::Work;

/// What the tool answers.
fn ended(env: &Env, arguments: &[&str]) -> Output {
    tool(env, arguments).output().unwrap()
}

fn said(output: &Output) -> String {
    [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes).into_owned()).concat()
}

/// What the four commands say of updates.
fn told(env: &Env) -> [String; 4] {
    let commands: [&[&str]; 4] = [&["stats"], &["list"], &["doctor"], &["run", "--", "true"]];
    commands.map(|arguments| {
        let said = said(&ended(env, arguments));
        let lines = said.lines().filter(|line| line.contains("not ready:") || line.contains("prepared:"));
        // What an application lacks is said below its name.
        lines.filter(|line| !line.starts_with(' ')).collect::<Vec<_>>().join("\n")
    })
}

#[test]
fn what_an_update_has_made_useless_is_said_before_the_program_and_what_was_prepared_afterwards() {
    on(Driver::Test(json!({})), |scenario, env| {
        run(scenario, env, &Work::default());
        assert_eq!(told(env), [""; 4].map(str::to_owned), "the driver has everything");
        let updated = updated(scenario, env, &json!({}));
        for line in told(&updated) {
            assert!(line.contains(" is new here, 3 pipelines of 1 program"), "{line}");
            assert!(line.ends_with(": vkstash prewarm --all"), "{line}");
        }
        let json: Value = serde_json::from_slice(&ended(&updated, &["stats", "--json"]).stdout).unwrap();
        assert_eq!(
            (&json["not_ready"]["pipelines"], &json["prepared"]),
            (&json!(3), &Value::Null),
            "{json:#}"
        );
        assert!(ended(&updated, &["prewarm", "--all"]).status.success());
        let [stats, list, doctor, before_run] = told(&updated);
        for line in [stats, list, doctor] {
            assert!(line.contains("prepared: 3 pipelines of 1 program for "), "{line}");
        }
        assert_eq!(before_run, "", "a program that has everything is not held up by words");
        // The old driver has everything still.
        assert_eq!(told(env)[0], "");
    });
}

/// Otherwise the line would never go away, and neither would a service that works until it does.
#[test]
fn what_cannot_be_made_is_not_said_to_be_not_ready_for_ever() {
    on(Driver::Test(json!({})), |scenario, env| {
        let work = Work { first: 0x5eed_0001, count: 4, ..Work::default() };
        run(scenario, env, &work);
        let faults = json!([{ "command": "vkCreateComputePipelines", "word": 0x5eed_0002, "die": "segv" }]);
        let updated = updated(scenario, env, &json!({ "faults": faults }));
        assert!(told(&updated)[0].contains("4 pipelines of 1 program"));
        assert!(!ended(&updated, &["prewarm", "--all"]).status.success());
        let line = &told(&updated)[0];
        assert!(line.contains("prepared: 3 pipelines of 1 program"), "{line}");
    });
}

/// Nothing of a user's is broken by a file that is not understood, and by one that cannot be written.
#[test]
fn a_damaged_or_missing_note_is_made_again_and_an_empty_stash_gets_none() {
    on(Driver::Test(json!({})), |scenario, env| {
        let note = env.stash_folder().join("drivers.json");
        assert!(said(&ended(env, &["stats"])).contains("nothing recorded yet"));
        assert!(!note.exists());
        run(scenario, env, &Work::default());
        let updated = updated(scenario, env, &json!({}));
        for text in [None, Some("{"), Some("{\"version\":9}"), Some("\u{0}")] {
            if let Some(text) = text {
                fs::write(&note, text).unwrap();
            }
            assert!(told(&updated)[0].contains("3 pipelines of 1 program"), "{text:?}");
            assert!(fs::read_to_string(&note).unwrap().contains("\"version\": 1"));
        }
        // One that cannot be written: whoever asks is told, and no program waits for drivers each time.
        fs::remove_file(&note).unwrap();
        fs::create_dir(&note).unwrap();
        let [stats, _, _, before_run] = told(&updated);
        assert!(stats.contains("3 pipelines of 1 program"), "{stats}");
        assert_eq!(before_run, "");
    });
}

/// A driver that hangs keeps nobody from the statistics or from a program.
#[test]
fn drivers_that_do_not_answer_are_no_reason_to_fail() {
    on(Driver::Test(json!({})), |scenario, env| {
        run(scenario, env, &Work::default());
        let faults = json!([{ "command": "vkCreateInstance", "hang_ms": 100_000 }]);
        let hanging = updated(scenario, env, &json!({ "faults": faults }));
        let output = ended(&hanging, &["run", "--", "true"]);
        assert!(output.status.success(), "{}", said(&output));
        let output = ended(&hanging, &["stats"]);
        assert!(output.status.success() && said(&output).contains("pipelines"), "{}", said(&output));
        let dying =
            updated(scenario, env, &json!({ "faults": [{ "command": "vkCreateInstance", "die": "segv" }] }));
        let output = ended(&dying, &["list"]);
        assert!(output.status.success() && said(&output).contains("1 application"), "{}", said(&output));
    });
}
