//! Claims: of several processes that need an artifact at the same time, one compiles. Two stashes of this process are
//! two open files, so they stand for two processes.

use rustix::io::Errno;

use crate::disk::faults;
use crate::disk::faults::{Fault, Plan};
use crate::disk::op::Op;
use crate::part::claiming::Claim;
use crate::part::claims::{SELDOM, VAIN_LIMIT};
use crate::tests::processes::{FOLDER, child, folder_of_child, in_a_child};
use crate::tests::*;

/// A key for finding out whether claims are possible; no other process claims it meanwhile.
const WARM_UP: u64 = 1000;

/// Waits until this part's process claims keys, which it does once it has seen another one.
fn await_claims(part: &Part, number: u64) {
    await_that("keys can be claimed", || matches!(part.claim(&key(number), no_wait), Claim::Taken(_)));
}

fn no_wait() -> Duration {
    Duration::ZERO
}

fn long() -> Duration {
    LONG
}

/// Two stashes whose device parts claim keys.
fn two(root: &Path) -> [(Arc<Stash>, Arc<Part>); 2] {
    let two = [(); 2].map(|()| {
        let stash = open(root);
        let part = stash.device(&header()).unwrap();
        // Asks the writer to come.
        assert!(matches!(part.claim(&key(WARM_UP), no_wait), Claim::Unclaimed));
        (stash, part)
    });
    two.iter().enumerate().for_each(|(at, (_, part))| await_claims(part, WARM_UP + at as u64));
    two
}

/// What became of a claim, in a word.
fn word(claim: &Claim<'_>) -> &'static str {
    match claim {
        Claim::Taken(_) => "taken",
        Claim::Unclaimed => "unclaimed",
        Claim::Recorded => "recorded",
        Claim::InVain => "in vain",
    }
}

fn claimed(part: &Part, number: u64, limit: fn() -> Duration) -> &'static str {
    word(&part.claim(&key(number), limit))
}

#[test]
fn the_second_process_waits_until_the_artifact_is_written() {
    let root = root();
    let [(_one, first), (_two, second)] = two(root.path());
    let taken = first.claim(&key(1), no_wait);
    assert_eq!(word(&taken), "taken");
    assert_eq!(claimed(&second, 1, no_wait), "in vain");
    assert_eq!(claimed(&second, 2, no_wait), "taken", "another key");
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| claimed(&second, 1, long));
        assert!(first.put(Kind::Artifact, &key(1), payload(1)));
        drop(taken);
        assert_eq!(waits.join().unwrap(), "recorded");
    });
    let mut buffer = Vec::new();
    assert!(second.read(Kind::Artifact, &key(1), &mut buffer) && *buffer == *payload(1));
}

/// What was queued is not written yet, so the claim stays when the compile is over.
#[test]
fn a_claim_lasts_until_its_artifact_is_written() {
    in_a_child("a_claim_lasts_until_its_artifact_is_written", &[], || {
        let root = root();
        let [(_one, first), (_two, second)] = two(root.path());
        let taken = first.claim(&key(1), no_wait);
        faults::begin(Plan::Block { op: Op::Write });
        assert!(first.put(Kind::Artifact, &key(1), payload(1)));
        drop(taken);
        await_that("the writer comes to the record", faults::has_held);
        assert_eq!(claimed(&second, 1, no_wait), "in vain");
        faults::end();
        assert_eq!(claimed(&second, 1, long), "recorded");
    });
}

#[test]
fn a_claim_without_an_artifact_ends_with_the_compile() {
    let root = root();
    let [(_one, first), (_two, second)] = two(root.path());
    let taken = first.claim(&key(1), no_wait);
    assert_eq!(claimed(&second, 1, no_wait), "in vain");
    drop(taken);
    assert_eq!(claimed(&second, 1, no_wait), "taken");
}

/// Another thread of the same process is not waited for.
#[test]
fn a_process_does_not_wait_for_itself() {
    let root = root();
    let [(_one, first), (_two, _second)] = two(root.path());
    let taken = first.claim(&key(1), no_wait);
    assert_eq!((word(&taken), claimed(&first, 1, long)), ("taken", "unclaimed"));
}

#[test]
fn a_process_that_is_alone_claims_nothing() {
    let root = root();
    let [(one, first), (_two, second)] = two(root.path());
    drop((first, one));
    // A child that another test forks has the files of this process open until it starts its program.
    await_that("nothing is claimed", || claimed(&second, 1, long) == "unclaimed");
}

/// The next stash of this name finds nobody.
#[test]
fn the_claim_of_a_killed_process_is_free() {
    let test = "the_claim_of_a_killed_process_is_free";
    if let Some(folder) = folder_of_child(test) {
        let stash = open(&folder);
        let part = stash.device(&header()).unwrap();
        await_claims(&part, WARM_UP + 1);
        let _taken = part.claim(&key(1), no_wait);
        std::fs::write(folder.join("claimed"), []).unwrap();
        std::thread::sleep(LONG);
    }
    let root = root();
    // One of them is there when the child is not any more.
    let [(_one, part), _other] = two(root.path());
    let mut child = child(test).env(FOLDER, root.path()).spawn().unwrap();
    await_that("the child claims a key", || root.path().join("claimed").exists());
    assert_eq!(claimed(&part, 1, no_wait), "in vain");
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| claimed(&part, 1, long));
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(waits.join().unwrap(), "taken");
    });
}

#[test]
fn after_some_waits_in_vain_few_are_tried() {
    let root = root();
    let [(_one, first), (_two, second)] = two(root.path());
    let taken = first.claim(&key(1), no_wait);
    let tried = |count: u32| (0..count).filter(|_| claimed(&second, 1, no_wait) == "in vain").count() as u32;
    assert_eq!(tried(VAIN_LIMIT), VAIN_LIMIT);
    assert_eq!(tried(4 * SELDOM), 4);
    // One that was not in vain: all are tried again.
    std::thread::scope(|scope| {
        let waits = || (0..=SELDOM).map(|_| claimed(&second, 1, long)).find(|claim| *claim != "unclaimed");
        let waits = scope.spawn(waits);
        drop(taken);
        assert_eq!(waits.join().unwrap(), Some("taken"));
    });
}

/// The child has its parent's locks, and must neither give them back nor claim for itself.
#[test]
fn a_forked_child_neither_claims_nor_ends_a_claim() {
    in_a_child("a_forked_child_neither_claims_nor_ends_a_claim", &[], || {
        let root = root();
        let [(_one, first), (_two, second)] = two(root.path());
        let taken = first.claim(&key(1), no_wait);
        // SAFETY: the child asks, which is refused, gives its copy of the claim back, and leaves by _exit; what it
        // calls is what a host's forked child may call.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let claims = matches!(first.claim(&key(2), no_wait), Claim::Unclaimed);
            drop(taken);
            // SAFETY: ends the child without running the parent's handlers.
            unsafe { libc::_exit(if claims { 0 } else { 1 }) };
        }
        let mut status = 0;
        // SAFETY: `child` is this process's child and `status` lives on this stack.
        assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
        assert_eq!(status, 0);
        assert_eq!(claimed(&second, 1, no_wait), "in vain");
        drop(taken);
        assert_eq!(claimed(&second, 1, no_wait), "taken");
    });
}

/// Whether a pair of stashes claims keys while operations of that kind fail. The writer has come when its record is
/// written.
fn claims_while_failing(op: Op, error: Errno) -> bool {
    let root = root();
    let stashes = [(); 2].map(|()| {
        let stash = open(root.path());
        let part = stash.device(&header()).unwrap();
        (stash, part)
    });
    faults::begin(Plan::Nth { fault: Fault::Error(error), op: Some(op), n: 1, on: true });
    for (at, (stash, part)) in stashes.iter().enumerate() {
        assert_eq!(claimed(part, 1, no_wait), "unclaimed");
        assert!(part.put(Kind::Artifact, &key(10 + at as u64), payload(1)));
        flush_all(stash);
    }
    faults::end();
    stashes.iter().any(|(_, part)| claimed(part, 1, no_wait) != "unclaimed")
}

#[test]
fn nothing_is_claimed_where_the_file_system_is_not_known_or_has_no_locks() {
    in_a_child("nothing_is_claimed_where_the_file_system_is_not_known_or_has_no_locks", &[], || {
        assert!(claims_while_failing(Op::Sync, Errno::IO), "what fails has nothing to do with claims");
        assert!(!claims_while_failing(Op::Space, Errno::NOSYS));
        assert!(!claims_while_failing(Op::Lock, Errno::NOLCK));
    });
}

/// The file system in a program's home that other machines share.
#[test]
fn nothing_is_claimed_on_a_network_file_system() {
    for (number, is_ours) in
        [(0xEF53, true), (0x0102_1994, true), (0x6969, false), (0xFF53_4D42, false), (0x6573_5546, false)]
    {
        assert_eq!(crate::disk::locks::OF_THIS_MACHINE.contains(&number), is_ours, "{number:#x}");
    }
}
