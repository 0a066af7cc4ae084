//! Commands that ask, show or wait end when their terminal is closed, and by SIGHUP and SIGTERM; so does the program
//! that they have started.

use vkstash_model::app_name::AppName;
use vkstash_model::record::Kind;
use vkstash_store::stash::open::Stash;

use super::watch::{PICTURE, Terminal};
use super::*;

/// How a command is to end.
#[derive(Clone, Copy, Debug, PartialEq)]
enum End {
    /// The terminal is closed; the command leads a session there.
    Closed,
    /// The terminal is closed; the system tells another process.
    ClosedForOthers,
    Signal(i32),
}

const ENDS: [End; 3] = [End::Closed, End::Signal(libc::SIGHUP), End::Signal(libc::SIGTERM)];

/// Starts the command on a terminal, ends it once `is_busy` says what it does, and waits for that. None: there are no
/// terminals.
fn ended(
    command: Command,
    end: End,
    is_busy: impl FnOnce(&mut Terminal),
) -> Option<std::process::ExitStatus> {
    let mut terminal = Terminal::open(80, 24)?;
    let mut child = terminal.start(command, end != End::ClosedForOthers);
    is_busy(&mut terminal);
    match end {
        End::Closed | End::ClosedForOthers => drop(terminal),
        End::Signal(signal) => {
            send(&child, signal);
            // What it still shows has to be read by somebody.
            let mut reader = terminal.typed.try_clone().unwrap();
            drop(terminal);
            std::thread::spawn(move || std::io::copy(&mut reader, &mut std::io::sink()));
        }
    }
    Some(child.wait().unwrap())
}

fn signal_of(end: End) -> Option<i32> {
    match end {
        End::Closed => Some(libc::SIGHUP),
        End::ClosedForOthers => None,
        End::Signal(signal) => Some(signal),
    }
}

#[test]
fn watch_ends() {
    let sandbox = Sandbox::new();
    for end in ENDS.into_iter().chain([End::ClosedForOthers]) {
        let mut command = sandbox.tool();
        command.arg("watch");
        let shows = |terminal: &mut Terminal| terminal.read_until(&mut Vec::new(), PICTURE);
        let Some(status) = ended(command, end, shows) else { return };
        if let Some(signal) = signal_of(end) {
            assert_eq!(status.signal(), Some(signal), "{end:?}");
        }
    }
}

/// A program that writes its number, and then waits; with `hears`, signals end it in order.
fn program(sandbox: &Sandbox, hears: bool) -> (PathBuf, String) {
    let file = sandbox.path("number");
    let name = file.display();
    let waits = if hears { "while :; do sleep 0.02; done" } else { "exec sleep 600" };
    let trap = if hears { "trap 'exit 0' HUP INT TERM;" } else { "" };
    (file.clone(), format!("{trap} echo $$ > {name}.new; mv {name}.new {name}; {waits}"))
}

/// Waits until the program is there; says its number.
fn number(file: &Path) -> u32 {
    loop {
        if let Ok(text) = fs::read_to_string(file) {
            fs::remove_file(file).unwrap();
            return text.trim().parse().unwrap();
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn run_and_its_program_end() {
    let sandbox = Sandbox::new();
    let (file, script) = program(&sandbox, false);
    for end in ENDS {
        let mut program = 0;
        let Some(status) = ended(sandbox.run(&script), end, |_| program = number(&file)) else { return };
        assert_eq!(status.signal(), signal_of(end), "{end:?}");
        assert!(!Path::new(&format!("/proc/{program}")).exists(), "{end:?}: the tool has waited for it");
    }
}

#[test]
fn bench_ends_although_its_program_hears_the_signal() {
    let sandbox = Sandbox::new();
    for hears in [false, true] {
        let (file, script) = program(&sandbox, hears);
        for end in ENDS {
            let mut command = sandbox.tool();
            command.args(["bench", "--", "sh", "-c", &script]);
            let Some(status) = ended(command, end, |_| _ = number(&file)) else { return };
            assert!(!status.success(), "{end:?} {hears}: {status}");
            assert!(!file.exists(), "{end:?} {hears}: no further run");
        }
    }
}

#[test]
fn a_question_ends_and_nothing_is_removed() {
    let sandbox = Sandbox::new();
    let (dir, app) = (sandbox.path("stash"), AppName::of_folder("game-00000000-00000001").unwrap());
    assert!(Stash::open_patiently(&dir, &app).unwrap().portable().put(Kind::Module, &[1; 32], noise(5000)));
    for end in ENDS.into_iter().chain([End::ClosedForOthers]) {
        let mut command = sandbox.tool();
        command.args(["clear", "--all", "--dir"]).arg(&dir);
        let asks = |terminal: &mut Terminal| terminal.read_until(&mut Vec::new(), "[y/N]");
        let Some(status) = ended(command, end, asks) else { return };
        assert!(!status.success(), "{end:?}: {status}");
        assert!(dir.join(&app.folder).join("portable").is_dir(), "{end:?}");
    }
}
