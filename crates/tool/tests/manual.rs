//! Man pages and completions know every command.

use vkstash_model::app_name::AppName;
use vkstash_model::variables::{self, Audience, Variable};
use vkstash_store::stash::open::Stash;

use super::*;

/// The commands that `vkstash --help` lists.
fn commands(sandbox: &Sandbox) -> Vec<String> {
    let help = output(sandbox.tool().arg("--help"));
    let groups = text(&help.stdout).lines().take_while(|line| *line != "Options:");
    let lines = groups.filter(|line| line.starts_with("  "));
    lines.map(|line| line.split_whitespace().next().unwrap().to_owned()).collect()
}

#[test]
fn each_command_has_a_page_and_hidden_ones_have_none() {
    let sandbox = Sandbox::new();
    let folder = sandbox.path("man/man1");
    let written = output(sandbox.tool().arg("man").arg(&folder));
    assert!(written.status.success(), "{written:?}");
    let commands = commands(&sandbox);
    assert!(commands.len() > 20, "{commands:?}");
    for command in &commands {
        let page = fs::read_to_string(folder.join(format!("vkstash-{command}.1"))).unwrap();
        assert!(page.contains(".SH SYNOPSIS") && page.contains(".SH DESCRIPTION"), "{command}: {page}");
    }
    let page = fs::read_to_string(folder.join("vkstash-prewarm.1")).unwrap();
    let (options, details) = page.split_once("\n.SH DETAILS\n").unwrap();
    assert!(options.contains(".SH OPTIONS") && !options.contains(".SH EXTRA"), "{page}");
    assert!(details.contains("\n.SS \"The service\"\n") && !details.contains('`'), "{page}");
    let page = fs::read_to_string(folder.join("vkstash.1")).unwrap();
    assert!(page.contains(".TH vkstash 1"), "{page}");
    let (_, environment) = page.split_once(".SH ENVIRONMENT\n").unwrap();
    for Variable { name, audience, .. } in variables::ALL {
        let is_shown = environment.contains(&format!("\\fB{name}\\fR\n"));
        assert_eq!(is_shown, *audience != Audience::Internal, "{name}: {environment}");
    }
    let page = fs::read_to_string(folder.join("vkstash-config.1")).unwrap();
    assert!(page.contains("excluded\\-programs"), "{page}");
    for hidden in ["prewarm-worker", "doctor-probe", "man"] {
        assert!(!folder.join(format!("vkstash-{hidden}.1")).exists());
        assert!(!commands.contains(&hidden.to_owned()));
    }
    let refused = output(sandbox.tool().args(["man", "/proc/man"]));
    assert_eq!(refused.status.code(), Some(1));
    assert!(one_error_line(&refused).contains("/proc/man"));
}

/// What bash offers for these words, the last of which is incomplete.
fn completed(sandbox: &Sandbox, words: &[&str]) -> Vec<String> {
    let script = output(sandbox.tool().args(["completions", "bash"]));
    assert!(script.status.success(), "{script:?}");
    let file = sandbox.path("completions");
    fs::write(&file, &script.stdout).unwrap();
    let ask = "source \"$0\"; COMP_WORDS=(vkstash \"$@\"); COMP_CWORD=$#; COMP_TYPE=9; \
        _clap_complete_vkstash vkstash \"${!#}\"; printf '%s\\n' \"${COMPREPLY[@]}\"";
    let mut bash = Command::new("bash");
    bash.args(["--norc", "-c", ask]).arg(&file).args(words).env_clear().env("HOME", sandbox.home());
    let folder = Path::new(env!("CARGO_BIN_EXE_vkstash")).parent().unwrap();
    bash.env("PATH", format!("{}:/usr/bin:/bin", folder.display()));
    let asked = output(&mut bash);
    assert!(asked.status.success() && asked.stderr.is_empty(), "{asked:?}");
    text(&asked.stdout).lines().map(|line| line.trim().to_owned()).filter(|line| !line.is_empty()).collect()
}

#[test]
fn bash_completes_commands_options_and_names_from_the_stash() {
    let sandbox = Sandbox::new();
    assert_eq!(completed(&sandbox, &["pru"]), ["prune"]);
    assert_eq!(completed(&sandbox, &["stats", "--las"]), ["--last-run"]);
    assert!(completed(&sandbox, &["stats", ""]).iter().all(|word| word.starts_with('-')), "an empty stash");
    for name in ["Half Life", "half-finished", "other", "an\u{1b}[2Jescape"] {
        let name = AppName::new(None, name.as_bytes());
        Stash::open(&sandbox.home().join(".cache/vkstash"), &name).unwrap();
    }
    let offered = |words: &[&str]| completed(&sandbox, words);
    let beginning = offered(&["show", "half"]);
    assert_eq!(beginning.len(), 1, "{beginning:?}");
    assert!(beginning[0].starts_with("half-finished"), "{beginning:?}");
    assert_eq!(offered(&["keep", "--application", "oth"]), ["other"]);
    assert_eq!(offered(&["export", "/tmp/x", "oth"]), ["other"]);
    assert!(!offered(&["stats", ""]).iter().any(|word| word.contains('\u{1b}')));
}

#[test]
fn every_shell_has_a_script_and_a_closed_pipe_is_an_error() {
    let sandbox = Sandbox::new();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = output(sandbox.tool().args(["completions", shell]));
        assert!(script.status.success(), "{script:?}");
        assert!(text(&script.stdout).contains("VKSTASH_COMPLETE"), "{shell}");
    }
    let closed =
        output(&mut sandbox.run(&format!("'{}' completions bash >&-", env!("CARGO_BIN_EXE_vkstash"))));
    assert_eq!(closed.status.code(), Some(1));
}
