//! `vkstash list` and `vkstash show` over what a real program left, on the programmable driver.

use super::doctor::{Machine, machine};
use super::*;

pub(super) const NAME: &str = "vkstash-states";

/// A stash with some pipelines of one program.
pub(super) fn filled() -> Option<Machine> {
    let machine = machine()?;
    let program = Path::new(env!("CARGO_BIN_EXE_vkstash")).parent().unwrap().join(NAME);
    if !program.exists() {
        skip::missing(&skip::this_test(), &format!("no {NAME} (cargo build --workspace makes it)"));
        return None;
    }
    machine.run_program();
    Some(machine)
}

impl Machine {
    /// Creates the pipelines.
    fn run_program(&self) {
        let program = Path::new(env!("CARGO_BIN_EXE_vkstash")).parent().unwrap().join(NAME);
        let mut command = self.tool();
        command.args(["run", "--quiet", "--"]).arg(program);
        command.args(["--cache", "fresh", "--state", "viewport", "--count", "12"]);
        let ran = output(&mut command);
        assert!(ran.status.success(), "{ran:?}");
    }

    fn said(&self, arguments: &[&str]) -> String {
        let output = output(self.tool().args(arguments));
        assert!(output.status.success(), "{arguments:?}: {output:?}");
        text(&output.stdout).to_owned()
    }

    fn complaint(&self, arguments: &[&str]) -> String {
        one_error_line(&output(self.tool().args(arguments))).to_owned()
    }
}

#[test]
fn applications_and_their_pipelines_are_listed() {
    let Some(machine) = filled() else { return };
    let listed = machine.said(&["list"]);
    let lines: Vec<_> = listed.lines().collect();
    assert!(lines.len() == 3 && lines[1].ends_with(NAME) && lines[1].contains(" 12 "), "{listed}");
    let json: serde_json::Value = serde_json::from_str(&machine.said(&["list", "--json"])).unwrap();
    assert!(json[0]["name"] == NAME && json[0]["pipelines"] == 12 && json[0]["runs"] == 1, "{json}");

    let shown = machine.said(&["show", NAME]);
    let lines: Vec<_> = shown.lines().collect();
    assert!(lines.len() == 14 && lines[13] == "12 pipelines", "{shown}");
    assert!(lines[1..13].iter().all(|line| line.ends_with("  graphics: vertex, fragment")), "{shown}");
    let json: serde_json::Value = serde_json::from_str(&machine.said(&["show", NAME, "--json"])).unwrap();
    let pipelines = json.as_array().unwrap();
    assert!(pipelines.iter().all(|one| one["devices"][0]["compile_ns"].is_u64()), "{json}");
    // The newest use comes first.
    let uses: Vec<_> = pipelines.iter().map(|one| one["last_use_unix_ms"].as_u64().unwrap()).collect();
    assert!(uses.is_sorted_by(|one, next| one >= next), "{uses:?}");
    assert_eq!(machine.complaint(&["show", "nobody"]).matches("`vkstash list`").count(), 1);
}

#[test]
fn how_the_last_run_got_its_pipelines_is_told() {
    let Some(machine) = filled() else { return };
    let all: serde_json::Value =
        serde_json::from_str(&machine.said(&["show", NAME, "--last-run", "--json"])).unwrap();
    let all = all.as_array().unwrap();
    assert_eq!(all.len(), 12);
    for one in all {
        let tried = one["tried"].as_array().unwrap();
        assert_eq!(
            (&one["got"], &tried.last().unwrap()["source"]),
            (&"pipeline".into(), &"compile".into()),
            "{one}"
        );
        let sum: u64 = tried.iter().map(|step| step["took_ns"].as_u64().unwrap()).sum();
        assert!(sum <= one["took_ns"].as_u64().unwrap() + 100, "{one}");
    }
    let listed = machine.said(&["show", NAME, "--last-run"]);
    assert!(listed.ends_with("12 creations\n") && listed.matches(", compiled (").count() == 12, "{listed}");
    // A run that compiles nothing: a worker may be first.
    machine.run_program();
    let told = machine.said(&["show", NAME, "latest", "--last-run"]);
    assert!(
        told.contains("last run: created in ") && told.contains(" had it (") && !told.contains("compiled ("),
        "{told}"
    );
    assert!(told.contains("  the order: "), "{told}");
    let json: serde_json::Value =
        serde_json::from_str(&machine.said(&["show", NAME, "latest", "--last-run", "--json"])).unwrap();
    assert_eq!(json["last_run"].as_array().unwrap().len(), 1, "{json}");
    let without: serde_json::Value =
        serde_json::from_str(&machine.said(&["show", NAME, "latest", "--json"])).unwrap();
    assert!(without.get("last_run").is_none(), "{without}");
}

#[test]
fn a_pipeline_is_described_and_its_shaders_are_written() {
    let Some(machine) = filled() else { return };
    let folder = machine.sandbox.path("shaders");
    let shaders = folder.to_str().unwrap();
    let shown = machine.said(&["show", NAME, "latest", "--spirv", shaders]);
    for expected in [
        "\ngraphics: vertex, fragment\nlast use: ",
        ": artifact of ",
        "\nvertex: module ",
        ", entry point \"main\"\n",
        "\ninput assembly: triangle list\n",
        "\n  viewport: ",
        "\nlayout: ",
    ] {
        assert!(shown.contains(expected), "{expected:?}: {shown}");
    }
    let mut files: Vec<_> = fs::read_dir(&folder).unwrap().map(|file| file.unwrap().path()).collect();
    files.sort();
    assert_eq!(files.len(), 2, "{files:?}");
    for file in &files {
        assert!(fs::read(file).unwrap().starts_with(&0x0723_0203_u32.to_le_bytes()), "{}", file.display());
    }
    // Files that are there with the same shaders are left, and other ones are an error.
    machine.said(&["show", NAME, "latest", "--spirv", shaders]);
    fs::write(&files[0], "mine").unwrap();
    let complaint = machine.complaint(&["show", NAME, "latest", "--spirv", shaders]);
    assert!(complaint.contains("cannot write") && fs::read(&files[0]).unwrap() == b"mine", "{complaint}");

    let key = shown.lines().next().unwrap();
    assert_eq!(machine.said(&["show", NAME, &key[..20].to_uppercase()]), shown);
    let json = machine.said(&["show", NAME, key, "--json"]);
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert!(json["key"] == key && json["description"].as_array().unwrap().len() > 8, "{json}");
    assert!(machine.complaint(&["show", NAME, ""]).contains("12 pipelines; give more digits"));
    assert!(machine.complaint(&["show", NAME, "xyz"]).contains("no pipeline whose key begins with \"xyz\""));
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let Some(machine) = filled() else { return };
    for arguments in [&["list"] as &[&str], &["show", NAME], &["show", NAME, "latest"], &["stats"]] {
        let mut child =
            machine.tool().args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success() && output.stderr.is_empty(), "{arguments:?}: {output:?}");
    }
}
