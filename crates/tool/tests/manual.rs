//! Man pages and completions know every command.

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
    let page = fs::read_to_string(folder.join("vkstash.1")).unwrap();
    assert!(page.contains(".TH vkstash 1"), "{page}");
    for hidden in ["prewarm-worker", "doctor-probe", "man"] {
        assert!(!folder.join(format!("vkstash-{hidden}.1")).exists());
        assert!(!commands.contains(&hidden.to_owned()));
    }
    let refused = output(sandbox.tool().args(["man", "/proc/man"]));
    assert_eq!(refused.status.code(), Some(1));
    assert!(one_error_line(&refused).contains("/proc/man"));
}

#[test]
fn shells_complete_the_commands() {
    let sandbox = Sandbox::new();
    for shell in ["bash", "zsh", "fish"] {
        let script = output(sandbox.tool().args(["completions", shell]));
        assert!(script.status.success(), "{script:?}");
        for command in commands(&sandbox) {
            assert!(text(&script.stdout).contains(&command), "{shell}: {command}");
        }
    }
    // bash itself takes it, and offers what begins so.
    let script = output(sandbox.tool().args(["completions", "bash"]));
    let file = sandbox.path("completions");
    fs::write(&file, &script.stdout).unwrap();
    let ask = "source \"$0\"; COMP_WORDS=(vkstash pru); COMP_CWORD=1; _vkstash vkstash pru vkstash; \
        echo \"${COMPREPLY[@]}\"";
    let asked = output(Command::new("bash").args(["--norc", "-c", ask]).arg(&file));
    assert_eq!(text(&asked.stdout), "prune\n", "{asked:?}");
    let closed =
        output(&mut sandbox.run(&format!("'{}' completions bash >&-", env!("CARGO_BIN_EXE_vkstash"))));
    assert_eq!(closed.status.code(), Some(1));
}
