//! Several processes, and their deaths. Children are this test's own binary, started again for one test.

use std::process::{Command, Stdio};

use crate::tests::*;

const VARIABLE: &str = "VKSTASH_TEST_CHILD";
pub(crate) const FOLDER: &str = "VKSTASH_TEST_FOLDER";

/// Runs `body` in a process of its own: starts this test again, which then runs `body` instead. `test` is
/// the name of the calling test function.
pub(crate) fn in_a_child(test: &str, environment: &[(&str, &Path)], body: impl FnOnce()) {
    if std::env::var_os(VARIABLE).is_some_and(|child| child == test) {
        return body();
    }
    let status = child(test).envs(environment.iter().copied()).status().unwrap();
    assert!(status.success(), "{status}");
}

pub(crate) fn child(test: &str) -> Command {
    let thread = std::thread::current();
    // The harness runs tests on the main thread when there is only one; everywhere else the name is known.
    let name = thread.name().filter(|name| *name != "main").unwrap_or(test);
    assert!(name.ends_with(test), "{test} is not the name of this test");
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args([test, "--nocapture"]).env(VARIABLE, test).stdout(Stdio::null());
    command
}

pub(crate) fn folder_of_child(test: &str) -> Option<PathBuf> {
    std::env::var_os(VARIABLE).filter(|child| child == test)?;
    std::env::var_os(FOLDER).map(PathBuf::from)
}

#[test]
fn what_was_written_survives_kill_9() {
    let test = "what_was_written_survives_kill_9";
    if let Some(folder) = folder_of_child(test) {
        let stash = open(&folder);
        put_all(stash.portable(), Kind::Recipe, 0..1000);
        stash.flush(LONG);
        std::fs::write(folder.join("written"), []).unwrap();
        let mut number = 1000;
        while stash.portable().put(Kind::Recipe, &key(number), payload(number)) {
            number += 1;
        }
        // The queue is full; the parent is about to kill this process.
        std::thread::sleep(LONG);
    }
    let root = root();
    let mut child = child(test).env(FOLDER, root.path()).spawn().unwrap();
    while !root.path().join("written").exists() {
        assert_eq!(child.try_wait().unwrap(), None, "the child must not end by itself");
        std::thread::sleep(Duration::from_millis(5));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let stash = open(root.path());
    assert_eq!(count_good(stash.portable(), Kind::Recipe, 0..1000), 1000);
    assert_eq!(stash.report().damaged_records, 0);
    let all = stash.portable().len(Kind::Recipe) as u64;
    assert_eq!(
        count_good(stash.portable(), Kind::Recipe, 0..all),
        all,
        "in the order in which they were put"
    );
}

#[test]
fn two_stashes_at_once_do_not_disturb_each_other() {
    let root = root();
    let (one, two) = (open(root.path()), open(root.path()));
    put_all(one.portable(), Kind::Recipe, 0..500);
    put_all(two.portable(), Kind::Recipe, 250..750);
    one.flush(LONG);
    drop(two);
    put_all(one.portable(), Kind::Recipe, 750..1000);
    drop(one);
    assert_eq!(count_good(open(root.path()).portable(), Kind::Recipe, 0..1000), 1000);
}

#[test]
fn two_processes_at_once_do_not_disturb_each_other() {
    let test = "two_processes_at_once_do_not_disturb_each_other";
    if let Some(folder) = folder_of_child(test) {
        let stash = open(&folder);
        put_all(stash.portable(), Kind::Recipe, 0..500);
        return;
    }
    let root = root();
    let mut children: Vec<_> =
        (0..3).map(|_| child(test).env(FOLDER, root.path()).spawn().unwrap()).collect();
    let stash = open(root.path());
    put_all(stash.portable(), Kind::Recipe, 500..1000);
    children.iter_mut().for_each(|child| assert!(child.wait().unwrap().success()));
    drop(stash);
    assert_eq!(segments(root.path()).len(), 4);
    assert_eq!(count_good(open(root.path()).portable(), Kind::Recipe, 0..1000), 1000);
}

#[test]
fn a_forked_child_reads_and_writes_nothing() {
    in_a_child("a_forked_child_reads_and_writes_nothing", &[], || {
        let root = root();
        let stash = open(root.path());
        put_all(stash.portable(), Kind::Recipe, 0..10);
        stash.flush(LONG);
        // SAFETY: the child only reads, is refused, and leaves by _exit; what it calls is what a host's
        // forked child may call.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let mut buffer = Vec::with_capacity(4096);
            let reads = stash.portable().read(Kind::Recipe, &key(1), &mut buffer);
            let puts = stash.portable().put(Kind::Recipe, &key(99), Box::new([1]));
            note_use(&stash, &key(1));
            stash.touch();
            stash.flush(LONG);
            drop(stash);
            // SAFETY: ends the child without running the parent's handlers.
            unsafe { libc::_exit(if reads && !puts { 0 } else { 1 }) };
        }
        let mut status = 0;
        // SAFETY: `child` is this process's child and `status` lives on this stack.
        assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
        assert_eq!(status, 0);
        put_all(stash.portable(), Kind::Recipe, 10..20);
        drop(stash);
        assert_eq!(segments(root.path()).len(), 1);
        assert_eq!(count_good(open(root.path()).portable(), Kind::Recipe, 0..20), 20);
    });
}

#[test]
fn no_signal_that_is_sent_to_the_host_is_handled_on_the_writer() {
    in_a_child("no_signal_that_is_sent_to_the_host_is_handled_on_the_writer", &[], || {
        let root = root();
        let stash = open(root.path());
        put_all(stash.portable(), Kind::Recipe, 0..1);
        stash.flush(LONG);
        let blocked = |task: PathBuf| {
            let status = std::fs::read_to_string(task.join("status")).unwrap_or_default();
            let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).unwrap().trim();
            // The helper may have ended: Linux then shows nothing, or no threads and no masks.
            if status.is_empty() || field("Threads:") == "0" {
                return None;
            }
            field("Name:").starts_with("vkstash-").then(|| field("SigBlk:").to_owned())
        };
        let tasks = std::fs::read_dir("/proc/self/task").unwrap();
        let masks: Vec<_> = tasks.filter_map(|task| blocked(task.unwrap().path())).collect();
        // All but KILL, STOP and the two that the C library keeps for itself; it blocks them, too, in a thread that
        // ends. And but for those that a thread raises itself.
        assert!(!masks.is_empty());
        let raised = [libc::SIGSEGV, libc::SIGBUS, libc::SIGILL, libc::SIGFPE, libc::SIGTRAP, libc::SIGSYS];
        let all: u64 = raised.iter().fold(0xffff_fffe_7ffb_feff, |all, signal| all & !(1 << (signal - 1)));
        for mask in masks {
            assert_eq!(u64::from_str_radix(&mask, 16).unwrap() & all, all, "{mask}");
        }
    });
}

#[test]
fn a_full_disk_costs_what_does_not_fit_and_nothing_else() {
    in_a_child("a_full_disk_costs_what_does_not_fit_and_nothing_else", &[], || {
        let root = root();
        // The writer blocks SIGXFSZ, so the limit's signal does not end the process.
        let limit = libc::rlimit { rlim_cur: 100_000, rlim_max: libc::RLIM_INFINITY };
        // SAFETY: `limit` is valid for the call; this process runs only this test.
        assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_FSIZE, &limit) }, 0);
        let stash = open(root.path());
        let record = |number: u64| vec![number as u8; 9000].into_boxed_slice();
        for number in 0..30 {
            // Once the writer has met the limit, records are no longer taken, but counted.
            stash.portable().put(Kind::Artifact, &key(number), record(number));
        }
        stash.flush(LONG);
        let report = stash.report();
        assert_eq!(report.write_errors.len(), 1, "{report:?}");
        assert_eq!(report.written_records + report.dropped, 30, "{report:?}");
        assert_eq!(report.written_records, 11, "as many whole records as fit");
        assert!(!stash.portable().put(Kind::Artifact, &key(99), record(9)), "nothing is taken for a while");
        drop(stash);

        let stash = open(root.path());
        let mut buffer = Vec::new();
        let there = |number: &u64| stash.portable().read(Kind::Artifact, &key(*number), &mut buffer);
        assert_eq!((0..30).filter(there).collect::<Vec<_>>(), (0..11).collect::<Vec<_>>());
        assert_eq!(stash.report().damaged_records, 0);
    });
}

fn writers() -> usize {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    let names = tasks.filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("comm")).ok());
    names.filter(|name| name.trim_end() == "vkstash-writer").count()
}

/// After a time without work the writer ends, and the next record starts another one. Run with `cargo nextest run
/// --release -p vkstash-store what_a_record_costs_after_a_rest --run-ignored only --no-capture`.
#[test]
#[ignore = "it measures"]
fn what_a_record_costs_after_a_rest() {
    let root = root();
    let stash = open(root.path());
    let put = |number| {
        let began = std::time::Instant::now();
        put_all(stash.portable(), Kind::Recipe, number..number + 1);
        began.elapsed()
    };
    put(0);
    stash.flush(LONG);
    for round in 1..4 {
        while writers() > 0 {
            std::thread::sleep(Duration::from_millis(100));
        }
        let after = put(2 * round);
        stash.flush(LONG);
        println!("after a rest {after:?}, beside a writer {:?}", put(2 * round + 1));
    }
}

#[test]
fn the_writer_of_an_idle_program_ends_and_another_one_goes_on() {
    in_a_child("the_writer_of_an_idle_program_ends_and_another_one_goes_on", &[], || {
        let root = root();
        let stash = open(root.path());
        let served = std::sync::Arc::new(std::sync::atomic::AtomicU64::new(1));
        let counter = served.clone();
        stash.set_reporter(Box::new(move |store| {
            let updated_unix_ms = counter.load(std::sync::atomic::Ordering::SeqCst);
            crate::reports::model::RunReport { updated_unix_ms, store, ..Default::default() }
        }));
        assert_eq!(writers(), 0, "nothing was written or counted");
        stash.touch();
        let started = std::time::Instant::now();
        let reported = |number: u64| {
            let runs = crate::reports::runs::read_all(&root.path().join(app().folder).join("runs"));
            runs.iter().any(|run| run.updated_unix_ms == number)
        };
        let wait_for = |done: &dyn Fn() -> bool| {
            while !done() {
                assert!(started.elapsed() < LONG, "it never comes to that");
                std::thread::sleep(Duration::from_millis(10));
            }
        };
        wait_for(&|| reported(1));
        for number in 2..5 {
            wait_for(&|| writers() == 0);
            served.store(number, std::sync::atomic::Ordering::SeqCst);
            match number {
                2 => stash.touch(),
                3 => note_use(&stash, &key(3)),
                _ => put_all(stash.portable(), Kind::Recipe, 0..1),
            }
            wait_for(&|| reported(number));
        }
        wait_for(&|| writers() == 0);
        // The last one seals what the ones before it have begun.
        drop(stash);
        let stash = open(root.path());
        let view = stash.portable().view();
        assert_eq!((view.segments().len(), view.has_orphans()), (1, false));
    });
}
