//! Failing writes of the layer raise no signal in the program.

use std::fs;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::net::UnixStream;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use vkstash_layer_tests::child::{Scenario, scenario};
use vkstash_layer_tests::env::{Driver, Env};
use vkstash_layer_tests::work::{self, End, Work};

/// The stream that has no reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum Unread {
    Pipe,
    Socket,
    /// A pipe that is full, and whose reader reads nothing.
    FullPipe,
    FullSocket,
    /// A terminal with room for a few bytes, from which nobody reads.
    Terminal,
}

const UNREAD: [Unread; 5] =
    [Unread::Pipe, Unread::Socket, Unread::FullPipe, Unread::FullSocket, Unread::Terminal];

/// A program like one in C, with failing writes.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Trouble {
    work: Work,
    standard_error: Option<Unread>,
    /// RLIMIT_FSIZE, in bytes.
    file_size: Option<u64>,
}

/// The blocked and the pending signals of the creating thread afterwards.
fn signals_now() -> (u64, u64) {
    let status = fs::read_to_string("/proc/thread-self/status").unwrap();
    let field = |name: &str| {
        let text = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        u64::from_str_radix(text.trim(), 16).unwrap()
    };
    (field("SigBlk:"), field("SigPnd:"))
}

fn unread(what: Unread) -> OwnedFd {
    match what {
        Unread::Pipe => pipe().1,
        Unread::Socket => UnixStream::pair().unwrap().1.into(),
        Unread::FullPipe => {
            let (reader, writer) = pipe();
            full(reader, writer)
        }
        Unread::FullSocket => {
            let (reader, writer) = UnixStream::pair().unwrap();
            full(reader.into(), writer.into())
        }
        Unread::Terminal => {
            let mut ends = [0; 2];
            let (name, settings, size) = (std::ptr::null_mut(), std::ptr::null_mut(), std::ptr::null_mut());
            // SAFETY: valid pointers to two descriptors, which nothing else owns, and defaults for the rest.
            let [master, slave] = unsafe {
                let [master, slave] = &mut ends;
                assert_eq!(libc::openpty(master, slave, name, settings, size), 0);
                ends.map(|fd| OwnedFd::from_raw_fd(fd))
            };
            let mut few = [0_u8; 20];
            let mut reader = fs::File::from(master.try_clone().unwrap());
            let slave = full(master, slave);
            std::io::Read::read_exact(&mut reader, &mut few).unwrap();
            std::mem::forget(reader);
            slave
        }
    }
}

fn pipe() -> (OwnedFd, OwnedFd) {
    let mut ends = [0; 2];
    // SAFETY: a valid array for two descriptors, which nothing else owns.
    let [reader, writer] = unsafe {
        assert_eq!(libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC), 0);
        ends.map(|fd| OwnedFd::from_raw_fd(fd))
    };
    (reader, writer)
}

/// The writing end, into which nothing more can be written. The reading end stays open.
fn full(reader: OwnedFd, writer: OwnedFd) -> OwnedFd {
    std::mem::forget(reader);
    // SAFETY: an open descriptor and valid memory.
    unsafe {
        let flags = libc::fcntl(writer.as_raw_fd(), libc::F_GETFL);
        assert_eq!(libc::fcntl(writer.as_raw_fd(), libc::F_SETFL, flags | libc::O_NONBLOCK), 0);
        for length in [4096, 1] {
            while libc::write(writer.as_raw_fd(), [0_u8; 4096].as_ptr().cast(), length) > 0 {}
        }
        assert_eq!(libc::fcntl(writer.as_raw_fd(), libc::F_SETFL, flags), 0);
    }
    writer
}

fn step(input: &Value) -> Value {
    let trouble: Trouble = serde_json::from_value(input.clone()).unwrap();
    // SAFETY: signal and setrlimit get valid arguments. Rust programs ignore SIGPIPE; most others do not.
    unsafe {
        libc::signal(libc::SIGPIPE, libc::SIG_DFL);
        libc::signal(libc::SIGXFSZ, libc::SIG_DFL);
        if let Some(what) = trouble.standard_error {
            assert_eq!(libc::dup2(unread(what).as_raw_fd(), 2), 2);
        }
        if let Some(bytes) = trouble.file_size {
            let limit = libc::rlimit { rlim_cur: bytes as libc::rlim_t, rlim_max: libc::RLIM_INFINITY };
            assert_eq!(libc::setrlimit(libc::RLIMIT_FSIZE, &limit), 0);
        }
    }
    let before = signals_now();
    let done = work::step(&serde_json::to_value(&trouble.work).unwrap());
    assert_eq!(signals_now(), before, "the mask and what is pending");
    done
}

fn on_test_driver(test: impl FnOnce(&Scenario, &Env)) {
    scenario(&[("step", step)], |scenario| {
        if let Some(env) = scenario.on(Driver::Test(json!({}))) {
            test(scenario, &env);
        }
    });
}

/// Runs it; it must end normally with every pipeline. Gives the number of served ones.
fn run(scenario: &Scenario, env: &Env, trouble: &Trouble) -> u64 {
    let outcome = scenario.run("step", env, trouble);
    let done: work::Done = serde_json::from_value(outcome.ok()).unwrap();
    assert!(done.all_made(), "{done:?}");
    outcome.reports.sum("served")
}

/// `env` with lines to log: the report cannot be written.
fn with_log_lines(scenario: &Scenario, env: &Env) -> Env {
    let file = scenario.folder().join("a-file");
    fs::write(&file, "").unwrap();
    env.clone().report(file).var("VKSTASH_LOG", "trace")
}

/// A report folder of its own for each run.
fn reporting(scenario: &Scenario, env: &Env, name: &str) -> Env {
    env.clone().report(scenario.folder().join(name))
}

#[test]
fn a_standard_error_without_a_reader_ends_or_stops_no_program() {
    on_test_driver(|scenario, env| {
        let env = with_log_lines(scenario, env);
        let without_stash = env.clone().stash(scenario.folder().join("a-file"));
        for env in [&env, &without_stash] {
            let said = scenario.run("step", env, &Trouble::default()).stderr;
            assert!(said.contains("vkstash: "), "{said}");
            for what in UNREAD {
                for end in [End::Orderly, End::Exit] {
                    let work = Work { end, ..Work::default() };
                    run(scenario, env, &Trouble { work, standard_error: Some(what), ..Trouble::default() });
                }
            }
        }
    });
}

#[test]
fn programs_with_a_file_size_limit_run_on() {
    on_test_driver(|scenario, env| {
        let log = scenario.folder().join("log");
        let logging = with_log_lines(scenario, env).var("VKSTASH_LOG_FILE", &log);
        let limited = |count, bytes, end| Trouble {
            work: Work { count, end, ..Work::default() },
            file_size: Some(bytes),
            ..Trouble::default()
        };
        // The stash is empty at first.
        for env in [env, &logging] {
            for end in [End::Orderly, End::Exit] {
                run(scenario, env, &limited(2, 0, end));
            }
        }
        run(scenario, env, &Trouble::default());
        // Without a disk the artifacts cannot be marked as verified, so they stay unverified.
        for (number, env) in [env, &logging, env, &logging].into_iter().enumerate() {
            let end = if number < 2 { End::Orderly } else { End::Exit };
            run(scenario, env, &limited(3, 0, end));
        }
        // A file that is longer than the limit already, and one that reaches it.
        fs::write(&log, [b'\n'; 4096]).unwrap();
        for bytes in [64, 100, 1000] {
            run(scenario, &logging, &limited(5, bytes, End::Orderly));
        }
        let served = run(scenario, &reporting(scenario, env, "last"), &Trouble::default());
        assert_eq!(served, 3);
    });
}

/// After a death each artifact is marked, on the thread that creates the pipeline.
#[test]
fn unwritable_marks_end_no_program() {
    on_test_driver(|scenario, env| {
        run(scenario, env, &Trouble::default());
        let deadly = json!({ "faults": [{ "command": "vkCreatePipelineCache", "call": 1, "die": "segv" }] });
        let deadly = scenario.on(Driver::Test(deadly)).unwrap().stash(env.stash_folder());
        let dead = scenario.run("step", &deadly, &Trouble::default());
        assert_eq!(dead.signal(), Some(libc::SIGSEGV), "{}", dead.ending());
        for bytes in [0, 64, 100] {
            run(scenario, env, &Trouble { file_size: Some(bytes), ..Trouble::default() });
        }
        let served = run(scenario, &reporting(scenario, env, "last"), &Trouble::default());
        assert_eq!(served, 3);
    });
}

/// A process in a terminal's background, where a write stops the process (`stty tostop`).
fn in_the_background(input: &Value) -> Value {
    // SAFETY: system calls with valid arguments. The forked child goes on as a program with one thread that has not
    // used Vulkan yet, and ends without returning.
    unsafe {
        assert!(libc::setsid() > 0, "{}", std::io::Error::last_os_error());
        // The terminal is closed before this process ends.
        libc::signal(libc::SIGHUP, libc::SIG_IGN);
        let (mut control, mut terminal) = (0, 0);
        let none = std::ptr::null_mut();
        assert_eq!(libc::openpty(&mut control, &mut terminal, none, none.cast(), none.cast()), 0);
        let (_control, terminal) = (OwnedFd::from_raw_fd(control), OwnedFd::from_raw_fd(terminal));
        assert_eq!(libc::ioctl(terminal.as_raw_fd(), libc::TIOCSCTTY, 0), 0);
        let mut modes: libc::termios = std::mem::zeroed();
        assert_eq!(libc::tcgetattr(terminal.as_raw_fd(), &mut modes), 0);
        modes.c_lflag |= libc::TOSTOP;
        assert_eq!(libc::tcsetattr(terminal.as_raw_fd(), libc::TCSANOW, &modes), 0);
        let child = libc::fork();
        if child == 0 {
            libc::setpgid(0, 0);
            assert_eq!(libc::dup2(terminal.as_raw_fd(), 2), 2);
            let work: Work = serde_json::from_value(input.clone()).unwrap();
            let done = work::step(&serde_json::to_value(work).unwrap());
            let done: work::Done = serde_json::from_value(done).unwrap();
            libc::_exit(if done.all_made() { 7 } else { 1 });
        }
        let mut status = 0;
        assert_eq!(libc::waitpid(child, &mut status, libc::WUNTRACED), child);
        if libc::WIFSTOPPED(status) {
            libc::kill(child, libc::SIGKILL);
            libc::waitpid(child, std::ptr::null_mut(), 0);
        }
        json!((libc::WIFSTOPPED(status), libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 7))
    }
}

#[test]
fn a_log_line_on_a_terminal_stops_no_background_program() {
    scenario(&[("step", in_the_background)], |scenario| {
        let Some(env) = scenario.on(Driver::Test(json!({}))) else { return };
        let env = with_log_lines(scenario, &env);
        assert_eq!(scenario.run("step", &env, &Work::default()).ok(), json!([false, true]));
    });
}
