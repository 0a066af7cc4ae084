//! Two programs that need the same pipeline at the same time: one compiles it, the other waits, within limits.
//!
//! The programs take turns by files: each is in the layer's call when the next step of the test begins.

use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use vkstash_layer_tests::child::{Running, Scenario, scenario};
use vkstash_layer_tests::env::{Driver, Env};
use vkstash_layer_tests::test_driver::TestDriver;
use vkstash_layer_tests::vulkan::{Device, Instance, InstanceOptions};
use vkstash_layer_tests::waiting::until;
use vkstash_layer_tests::work::{Done, Work};

/// The pipeline that both programs create: its constant is a word of its code.
const CONTENDED: u32 = 0x7E57_0C1A;
/// How often a thread that waits for another program has looked. Fewer switches may have other causes.
const LOOKS: u64 = 100;

/// What a program does.
#[derive(Clone, Serialize, Deserialize)]
struct Program {
    folder: PathBuf,
    name: String,
    /// The driver waits in the compile until there is a file `go`.
    holds: bool,
    fail_on: bool,
}

impl Program {
    fn named(scenario: &Scenario, name: &str) -> Program {
        let (folder, name) = (scenario.folder().to_owned(), name.to_owned());
        Program { folder, name, holds: false, fail_on: false }
    }

    /// A file by which this program says something.
    fn says(&self, what: &str) -> PathBuf {
        self.folder.join(format!("{}-{what}", self.name))
    }
}

/// The kinds of locks that a process has in lock files of the stash, as Linux names them.
fn locks(process: &Path) -> Vec<String> {
    let entries = fs::read_dir(process.join("fd")).into_iter().flatten().flatten();
    let files = entries.filter(|entry| fs::read_link(entry.path()).is_ok_and(|file| file.ends_with(".lock")));
    let information =
        files.flat_map(|entry| fs::read_to_string(process.join("fdinfo").join(entry.file_name())));
    let lines = information.flat_map(|text| text.lines().map(str::to_owned).collect::<Vec<_>>());
    let kind = |line: String| line.split_once("OFDLCK")?.1.split_whitespace().nth(1).map(str::to_owned);
    lines.filter_map(kind).collect()
}

/// Creates one pipeline, waits until this process may claim something and until `ask` is there, and creates the
/// contended one.
fn program(input: &Value) -> Value {
    let program: Program = serde_json::from_value(input.clone()).unwrap();
    let instance = Instance::new(&InstanceOptions::default()).unwrap();
    let work = Work { count: 1, first: CONTENDED, fail_on: program.fail_on, ..Work::default() };
    let device = Device::new(&instance, &work.device_options()).unwrap();
    let of_its_own = program.name.bytes().map(u32::from).sum();
    assert!(Work { first: of_its_own, fail_on: false, ..work.clone() }.run(&device).all_made());
    until("this process may claim something", || !locks(Path::new("/proc/self")).is_empty());
    let driver = TestDriver::open();
    if program.holds {
        let fault = json!({ "command": "vkCreateComputePipelines", "word": CONTENDED,
                            "until": program.folder.join("go") });
        driver.control(&json!({ "faults": [fault] }));
    }
    fs::write(program.says("ready"), []).unwrap();
    until("this program may ask", || program.says("ask").exists());
    let thread = fs::read_link("/proc/thread-self").unwrap();
    fs::write(program.says("asking"), thread.to_str().unwrap()).unwrap();
    serde_json::to_value(work.run(&device)).unwrap()
}

/// Two programs on the programmable driver, both of which may claim something. The first is compiling the contended
/// pipeline, and does so until there is a file `go`.
struct Pair<'a> {
    scenario: &'a Scenario,
    first: Running,
    second: Running,
    names: [Program; 2],
}

impl<'a> Pair<'a> {
    fn new(scenario: &'a Scenario, env: &Env, second: &Program) -> Pair<'a> {
        let first = Program { holds: true, ..Program::named(scenario, "first") };
        let names = [first, second.clone()];
        let [first, second] = &names;
        let in_own = |program: &Program| env.clone().report(program.says("report"));
        let running = [
            scenario.start("program", &in_own(first), first),
            scenario.start("program", &in_own(second), second),
        ];
        for program in &names {
            until("both programs may claim something", || program.says("ready").exists());
        }
        let [first, second] = running;
        fs::write(names[0].says("ask"), []).unwrap();
        let process = PathBuf::from(format!("/proc/{}", first.pid()));
        until("the first program claims the pipeline", || locks(&process).contains(&"WRITE".to_owned()));
        fs::write(names[1].says("ask"), []).unwrap();
        Pair { scenario, first, second, names }
    }

    /// Waits until the second program waits for the first.
    fn second_waits(&self) {
        let asking = self.names[1].says("asking");
        until("the second program asks", || fs::read(&asking).is_ok_and(|thread| !thread.is_empty()));
        let status = Path::new("/proc").join(fs::read_to_string(asking).unwrap()).join("status");
        let switches = || {
            let status = fs::read_to_string(&status).expect("the second program waits");
            let line = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
            line.unwrap().trim().parse::<u64>().unwrap()
        };
        let before = switches();
        until("the second program waits", || switches() >= before + LOOKS);
    }

    fn go(&self) {
        fs::write(self.scenario.folder().join("go"), []).unwrap();
    }
}

/// How many pipelines the counters say, of those that are asked for.
fn counted(running: Running, names: [&str; 3]) -> [u64; 3] {
    let outcome = running.wait();
    let done: Done = serde_json::from_value(outcome.ok()).unwrap();
    assert!(done.all_made(), "{}", outcome.stderr);
    names.map(|name| outcome.reports.sum(name))
}

const COUNTERS: [&str; 3] = ["compiled", "served_by_other", "waited_in_vain"];

fn on_pair(test: impl FnOnce(&Scenario, Env)) {
    scenario(&[("program", program)], |scenario| {
        test(
            scenario,
            scenario.on(Driver::Test(json!({}))).expect("the programmable driver is always there"),
        );
    });
}

#[test]
fn of_two_programs_one_compiles_and_the_other_is_served() {
    on_pair(|scenario, env| {
        let pair = Pair::new(scenario, &env, &Program::named(scenario, "second"));
        pair.second_waits();
        pair.go();
        assert_eq!(counted(pair.first, COUNTERS), [2, 0, 0]);
        assert_eq!(counted(pair.second, COUNTERS), [1, 1, 0], "its own one, and that of the other program");
    });
}

#[test]
fn a_program_that_is_killed_while_it_compiles_is_not_waited_for() {
    on_pair(|scenario, env| {
        let pair = Pair::new(scenario, &env, &Program::named(scenario, "second"));
        pair.second_waits();
        // SAFETY: kill takes plain numbers; the process is a child of this one that was not waited for.
        assert_eq!(unsafe { libc::kill(pair.first.pid() as libc::pid_t, libc::SIGKILL) }, 0);
        assert_eq!(counted(pair.second, COUNTERS), [2, 0, 0]);
        assert_eq!(pair.first.wait().signal(), Some(libc::SIGKILL));
    });
}

/// The second program ends while the first one compiles still.
#[test]
fn a_call_that_forbids_compiling_does_not_wait() {
    on_pair(|scenario, env| {
        let program = Program { fail_on: true, ..Program::named(scenario, "second") };
        let pair = Pair::new(scenario, &env, &program);
        let outcome = pair.second.wait();
        let done: Done = serde_json::from_value(outcome.ok()).unwrap();
        assert!(done.all_refused(), "{done:?}");
        assert_eq!(COUNTERS.map(|name| outcome.reports.sum(name)), [1, 0, 0]);
        fs::write(scenario.folder().join("go"), []).unwrap();
        assert_eq!(counted(pair.first, COUNTERS), [2, 0, 0]);
    });
}

/// The first program compiles until the second one has ended.
#[test]
fn a_program_that_takes_too_long_is_waited_for_in_vain() {
    on_pair(|scenario, env| {
        let env = env.without_var("VKSTASH_TEST_UNHURRIED");
        let pair = Pair::new(scenario, &env, &Program::named(scenario, "second"));
        let second = pair.second.wait();
        let done: Done = serde_json::from_value(second.ok()).unwrap();
        assert!(done.all_made(), "{done:?}");
        assert_eq!(second.reports.sum("waited_in_vain"), 1, "{:?}", second.reports.counters());
        assert_eq!(second.reports.sum("served_by_other"), 0);
        fs::write(scenario.folder().join("go"), []).unwrap();
        assert_eq!(counted(pair.first, COUNTERS)[2], 0);
    });
}
