//! `vkstash bench` compares runs of a program, and says what its figures are worth.

use serde_json::Value;

use super::*;

fn bench(sandbox: &Sandbox, words: &[&str]) -> Output {
    output(sandbox.tool().arg("bench").args(words))
}

fn json(output: &Output) -> Value {
    assert!(output.status.success(), "{output:?}");
    schemas::described("bench", &output.stdout)
}

fn has_remark(json: &Value, what: &str) -> bool {
    json["remarks"].as_array().unwrap().iter().any(|remark| {
        assert!(!remark["next"].as_str().unwrap().is_empty());
        remark["what"].as_str().unwrap().contains(what)
    })
}

#[test]
fn runs_without_the_layer_and_with_new_and_filled_stashes_are_compared() {
    let Some(real) = layer::real(layer::RADV) else { return };
    let modules = real.modules();
    let arguments = ["--modules", &modules];
    if !real.compiles(&arguments) {
        return;
    }
    let stash = real.sandbox.home().join(".cache/vkstash");
    let list = |folder: &Path| -> Vec<_> {
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name()).collect()
    };
    let (before, beside) = (list(&stash), list(stash.parent().unwrap()));
    let json = json(&output(&mut real.with(&["bench", "--runs", "2", "--json"], &arguments)));
    let pipelines = &json["pipelines"];
    assert_eq!((&pipelines["requested"], &pipelines["served"]), (&1.into(), &1.into()), "{json}");
    assert_eq!(
        (&json["runs"], &json["driver_cache"]["state"]),
        (&2.into(), &"disabled".into()),
        "as Real's environment says"
    );
    for kind in ["without", "empty_stash", "filled_stash"] {
        for figure in ["seconds", "ratio", "processor_seconds"] {
            let of = |value: &str| json[kind][figure][value].as_f64().unwrap();
            assert!(of("low") > 0.0 && of("low") <= of("median") && of("median") <= of("high"), "{json}");
        }
    }
    assert_eq!(json["without"]["ratio"]["median"], 1.0);
    assert!(!has_remark(&json, "none was served") && !has_remark(&json, "no device"), "{json}");

    let table = output(&mut real.with(&["bench", "--runs", "1", "--markdown"], &arguments));
    let table = text(&table.stdout);
    assert!(table.contains("| filled stash | ") && table.contains("1 pipeline, 1 served"), "{table}");
    assert!(table.contains(" ± ") && table.contains("| new each run | disabled |"), "{table}");
    assert_eq!((list(&stash), list(stash.parent().unwrap())), (before, beside), "the user's own stash");
    assert!(real.sandbox.nothing_left_in_temp());
}

#[test]
fn what_a_comparison_is_not_worth_is_said() {
    let sandbox = Sandbox::new();
    let failing = json(&bench(&sandbox, &["-r", "1", "--json", "--", "sh", "-c", "exit 3"]));
    assert!(has_remark(&failing, "the command fails, with and without the layer"), "{failing}");
    assert!(has_remark(&failing, "the layer saw no device"), "{failing}");
    // A program that ends otherwise if the layer is there.
    let script = "test -n \"$VKSTASH_DISABLE\"";
    let other = json(&bench(&sandbox, &["-r", "1", "--json", "--", "sh", "-c", script]));
    assert!(has_remark(&other, "with the layer it ends with"), "{other}");
    assert!(sandbox.nothing_left_in_temp());
}

#[test]
fn a_command_that_cannot_be_run_or_is_killed_ends_it_with_one_line() {
    let sandbox = Sandbox::new();
    for (words, said) in [
        (&["--", "/no/such/program"][..], "cannot run /no/such/program"),
        (&["--", "sh", "-c", "kill -TERM $$"], "signal 15 ended the command"),
        (&["--library", "/no/library.so", "--", "true"], "/no/library.so"),
    ] {
        let failed = bench(&sandbox, words);
        assert_eq!(failed.status.code(), Some(1), "{failed:?}");
        assert!(one_error_line(&failed).contains(said), "{failed:?}");
        assert!(sandbox.nothing_left_in_temp());
    }
    for words in [&[][..], &["--runs", "0", "--", "true"], &["--json", "--markdown", "--", "true"]] {
        assert_eq!(bench(&sandbox, words).status.code(), Some(2));
    }
}
