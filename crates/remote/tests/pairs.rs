//! Whatever touches the same bytes, one after the other, in every order: what is served afterwards is what should be,
//! with the right bytes, and nothing is damaged.
//!
//! | what | where it is in the walk |
//! |---|---|
//! | artifacts, shader objects, data that is stored once | every run records some |
//! | siblings, sessions | a part of an earlier driver and a session's cache are there from the start |
//! | quarantine, export and import, bases, remotes, merges and gc, limits, clear | steps |
//!
//! What is not walked: [`ELSEWHERE`].

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use vkstash_exchange::{export::export, import::import};
use vkstash_model::failed::Refusals;
use vkstash_model::payload::{self, ShaderBinaries};
use vkstash_model::record::{CRASH_LIMIT, Kind};
use vkstash_sessions::description::{Description, Guid, Mode, Place};
use vkstash_sessions::session::Session;
use vkstash_store::format::device::DeviceHeader;
use vkstash_store::maintenance::verify::{Request, verify};
use vkstash_store::maintenance::{self, clear::clear, pack::pack};
use vkstash_store::part::open::Part;
use vkstash_store::settings::CacheKinds;
use vkstash_store::stash::open::Stash;
use vkstash_store::stash::uses::{DeviceUses, Run};

use crate::header::header;
use crate::support::*;

/// So many artifacts are recorded in a run.
const OF_A_RUN: u64 = 4;
/// The application whose records were not used for long.
const OTHER: &str = "other";
const PATIENCE: Option<Duration> = Some(Duration::from_secs(600));

/// What a stash has of a key.
#[derive(Clone, Copy, Debug, Default)]
struct Entry {
    has_artifact: bool,
    /// The key itself has a crash count at the limit.
    has_crashed: bool,
}

type Entries = BTreeMap<u64, Entry>;

/// A user's stash over at most one base.
struct User {
    world: World,
    root: PathBuf,
    base: Option<PathBuf>,
    /// What should be in the two.
    own: Entries,
    under: Entries,
    /// Whether the part of the earlier driver is in the two.
    siblings: (bool, bool),
    has_session: bool,
    /// The number of the next artifact, and of the next folder.
    next: u64,
    folders: u64,
}

/// The payload of an artifact. Every fourth has the data of the one before it.
fn recorded(number: u64) -> Vec<u8> {
    let data = noise(number - u64::from(number % 4 == 3), 3000);
    let cost = Duration::from_micros(9);
    match number % 4 {
        1 => payload::shaders_payload(
            cost,
            Refusals::NONE,
            &ShaderBinaries { uuid: [7; 16], version: 3, options: [0; 32] },
            &[&data],
        )
        .unwrap(),
        _ => [&payload::prefix(cost, Refusals::NONE)[..], &data].concat(),
    }
}

/// An artifact with the data of a quarantined one is quarantined too, as long as it is stored as a reference.
fn is_blocked(entries: &Entries, number: u64) -> bool {
    let has_crashed = |number| entries.get(&number).is_some_and(|entry| entry.has_crashed);
    has_crashed(number) || number % 4 == 3 && has_crashed(number - 1)
}

/// What another stash gets of it.
fn travels(entries: &Entries) -> Entries {
    let with = entries.iter().filter(|(_, entry)| entry.has_artifact);
    let of = |(&number, _): (&u64, &Entry)| {
        (number, Entry { has_artifact: true, has_crashed: is_blocked(entries, number) })
    };
    with.map(of).collect()
}

fn earlier_driver() -> DeviceHeader {
    DeviceHeader { driver_version: 1, ..header() }
}

impl User {
    fn new() -> User {
        let world = World::new();
        let root = world.folder.path().join("first");
        let user = User {
            world,
            root,
            base: None,
            own: Entries::new(),
            under: Entries::new(),
            siblings: (true, false),
            has_session: true,
            next: 0,
            folders: 0,
        };
        let stash = user.open();
        let sibling = stash.device(&earlier_driver()).unwrap();
        assert!(sibling.put(Kind::Artifact, &key(1000), recorded(1000).into()));
        drop((sibling, stash));
        user.session().store(b"key", &[7; 500]).unwrap();
        user
    }

    fn folder(&mut self) -> PathBuf {
        self.folders += 1;
        self.world.folder.path().join(self.folders.to_string())
    }

    fn open(&self) -> Arc<Stash> {
        let bases = self.base.iter().cloned().collect();
        let run = Run::of_this_process();
        Stash::open_in_run(&self.root, bases, &app("game"), run, PATIENCE, PATIENCE).unwrap()
    }

    fn session(&self) -> Session {
        let description = Description {
            identifier: Guid([1; 16]),
            mode: Mode::Disk,
            driver_versioned: false,
            working_directory: false,
            maximum_in_memory_bytes: 0,
            maximum_in_memory_entries: 0,
            maximum_value_file_bytes: 0,
            version: 1,
        };
        Session::create(&description, Some(&Place::new(&self.root, &app("game"))), None).unwrap()
    }

    /// A run of the program, which is served what is there and records more.
    fn run(&mut self) {
        let stash = self.open();
        let device = stash.device(&header()).unwrap();
        for number in self.next..self.next + OF_A_RUN {
            assert!(device.put(Kind::Artifact, &key(number), recorded(number).into()));
            stash.note_use(&DeviceUses::of(0), &key(number));
            self.own.insert(number, Entry { has_artifact: true, has_crashed: false });
        }
        self.next += OF_A_RUN;
    }

    fn put_counts(&self, numbers: &[u64], count: u8) {
        let stash = self.open();
        let device = stash.device(&header()).unwrap();
        for number in numbers {
            assert!(device.put(Kind::CrashCount, &key(*number), Box::new([count])));
        }
    }

    /// Another root takes the place of this one.
    fn moves(&mut self, root: PathBuf, own: Entries, base: Option<PathBuf>, under: Entries) {
        self.siblings = if base.is_some() { (false, self.siblings.0) } else { (self.siblings.0, false) };
        (self.root, self.own, self.base, self.under) = (root, own, base, under);
        self.has_session = false;
    }

    fn archive(&self) -> Vec<u8> {
        let folders = [header(), earlier_driver()].map(|header| format!("device-{}", header.short_digest()));
        let mut parts = vec!["portable".to_owned()];
        parts.extend(
            folders.into_iter().filter(|part| self.root.join(app("game").folder).join(part).is_dir()),
        );
        let parts: Vec<_> = parts.into_iter().map(|part| (app("game").folder, part)).collect();
        let mut bytes = Vec::new();
        export(&self.root, &parts, &mut bytes).unwrap();
        bytes
    }

    fn is_served(&self, number: u64) -> bool {
        let under = || self.under.get(&number).is_some_and(|entry| entry.has_artifact && !entry.has_crashed);
        match self.own.get(&number) {
            Some(_) if is_blocked(&self.own, number) => false,
            Some(entry) if entry.has_artifact => true,
            _ => under(),
        }
    }

    fn check(&self, after: &str) {
        let stash = self.open();
        let device = stash.device(&header()).unwrap();
        let mut read = Vec::new();
        for number in 0..self.next {
            let found = device.read(Kind::Artifact, &key(number), &mut read);
            assert!(!found || read == recorded(number), "{after}: {number}");
            let is_served = found && !device.is_quarantined(&key(number));
            assert_eq!(is_served, self.is_served(number), "{after}: {number}: {:?}", self.own.get(&number));
        }
        if self.siblings.0 || self.siblings.1 {
            let sibling: Arc<Part> = stash.device(&earlier_driver()).unwrap();
            assert!(sibling.read(Kind::Artifact, &key(1000), &mut read) && read == recorded(1000), "{after}");
        }
        drop((device, stash));
        if self.has_session {
            let mut value = [0; 500];
            assert_eq!(self.session().find(b"key", Some(&mut value)).unwrap(), 500, "{after}");
        }
        let request = Request { application: None, contents: None, repair: false };
        for root in [Some(&self.root), self.base.as_ref()].into_iter().flatten() {
            let verified = verify(root, &request, &mut |_, _| {}).unwrap();
            assert!(verified.bad.is_empty() && verified.bad_folders.is_empty(), "{after}: {verified:?}");
        }
    }
}

/// What happens to a stash.
type Step = fn(&mut User);

const STEPS: [(&str, Step); 9] = [
    ("a run", User::run),
    ("a merge", |user| {
        user.run();
        maintenance::run(&user.root, |_, _| ()).unwrap();
    }),
    ("a limit", limit),
    ("a quarantine", |user| {
        let healthy = user.own.keys().copied().find(|&number| user.is_served(number));
        let Some(number) = healthy.filter(|number| user.own[number].has_artifact) else { return };
        user.put_counts(&[number], CRASH_LIMIT);
        user.own.entry(number).or_default().has_crashed = true;
    }),
    ("a release", |user| {
        let crashed: Vec<u64> =
            user.own.iter().filter(|(_, entry)| entry.has_crashed).map(|(at, _)| *at).collect();
        user.put_counts(&crashed, 0);
        user.own.values_mut().for_each(|entry| entry.has_crashed = false);
    }),
    ("an import", |user| {
        let to = user.folder();
        import(&to, &*user.archive(), true).unwrap();
        let own = travels(&user.own);
        user.moves(to, own, None, Entries::new());
    }),
    ("a base", |user| {
        let (base, root) = (user.folder(), user.folder());
        import(&base, &*user.archive(), true).unwrap();
        pack(&base).unwrap();
        let under = travels(&user.own);
        user.moves(root, Entries::new(), Some(base), under);
    }),
    ("a remote", remote),
    ("a clear", |user| {
        clear(&user.root, Some(&app("game").folder), CacheKinds::ALL).unwrap();
        // What programs died of stays.
        user.own.values_mut().for_each(|entry| entry.has_artifact = false);
        user.siblings.0 = false;
    }),
];

/// The records of an application that was not used for long yield, and those of an earlier driver.
fn limit(user: &mut User) {
    let is_segment = |path: &Path| path.extension().is_some_and(|end| end == "vks");
    let sizes = |name: &str| {
        let all = files(&user.root.join(app(name).folder)).into_iter();
        all.filter(|(path, _)| is_segment(path)).map(|(_, bytes)| bytes.len() as u64).sum::<u64>()
    };
    fill(&user.root, OTHER, 0..40);
    for (path, _) in files(&user.root.join(app(OTHER).folder)) {
        let path = user.root.join(app(OTHER).folder).join(path);
        let name = path.file_name().unwrap().to_str().unwrap();
        if is_segment(&path) {
            fs::rename(&path, path.with_file_name(format!("{:016x}{}", NOW, &name[16..]))).unwrap();
        }
    }
    // Evictions go on to nine tenths of the limit.
    let limit = sizes("game") + sizes(OTHER) / 2;
    fs::write(user.root.join("config.toml"), format!("limit = {limit}\nfree-space = 'none'\n")).unwrap();
    let outcome = maintenance::run(&user.root, |_, _| ()).unwrap();
    assert!(outcome.evicted_records > 0, "{outcome:?}");
    fs::remove_file(user.root.join("config.toml")).unwrap();
    user.siblings.0 = false;
}

/// Another machine pulls what this one publishes.
fn remote(user: &mut User) {
    let machine = user.world.machine(&format!("machine-{}", user.folders));
    let request = vkstash_remote::push::Request {
        root: user.root.clone(),
        applications: vec![app("game").folder],
        ..push_request(&machine, NOW)
    };
    let (bucket, trust, signer) = (user.world.bucket(), user.world.trust(), &user.world.signer);
    let progress = machine.lines.clone();
    wait(vkstash_remote::push::push(&bucket, &machine.home, &trust, signer, &request, progress)).unwrap();
    let puller = user.world.machine(&format!("puller-{}", user.folders));
    let mut request = pull_request(NOW + 1);
    request.applications[0].1.push(earlier_driver());
    let pulled =
        wait(vkstash_remote::pull::pull(&bucket, &puller.home, &trust, &request, puller.lines.clone()));
    assert_eq!(pulled.unwrap().failures, [], "{}", puller.lines.all());
    fs::remove_dir_all(user.world.store()).unwrap();
    let mut under = travels(&user.own);
    under.retain(|_, entry| !entry.has_crashed);
    let root = user.folder();
    user.moves(root, Entries::new(), Some(puller.home.base()), under);
}

#[test]
fn any_two_steps_leave_what_should_be_there() {
    for (first, one) in STEPS {
        for (second, other) in STEPS {
            let mut user = User::new();
            let mut after = String::new();
            for (name, step) in [(first, one), (second, other), (first, one)] {
                user.run();
                step(&mut user);
                after += name;
                user.check(&after);
                after += ", ";
            }
        }
    }
}

/// What meets the rest nowhere in the walk: why, and the tests of that.
const ELSEWHERE: [(&str, &str, &[&str]); 4] = [
    (
        "archives of Fossilize",
        "they have no records of a device, and those that they have are named by their content",
        &[
            "crates/exchange/src/tests/foz.rs::changed_archives_bring_only_what_is_true",
            "crates/exchange/src/tests/mod.rs::existing_records_stay_as_they_are",
        ],
    ),
    (
        "read-only stashes",
        "no step can change them: they are read as they are",
        &[
            "crates/store/src/tests/folders.rs::a_read_only_stash_serves_what_it_has_and_counts_what_it_drops",
            "crates/sessions/src/tests/places.rs::a_read_only_cache_is_read",
            "layer-tests/tests/bases.rs::a_base_on_a_read_only_file_system_is_used",
        ],
    ),
    (
        "namespaces of processes",
        "locks say who lives; the number of a process decides nothing",
        &[
            "crates/store/src/tests/reports.rs::the_report_of_a_running_process_is_not_folded_whatever_its_number",
            "crates/tool/tests/run.rs::signals_reach_the_command_in_a_pid_namespace",
        ],
    ),
    (
        "two users",
        "a folder of another user is refused before anything in it is read, but for bases, which nobody else can write",
        &[
            "crates/store/src/tests/folders.rs::a_folder_of_another_user_is_refused",
            "layer-tests/tests/bases.rs::a_base_that_others_may_write_to_is_not_used_and_one_line_says_so",
            "crates/tool/tests/run.rs::nobody_else_can_make_the_folder_of_a_run_again",
        ],
    ),
];

#[test]
fn what_is_not_walked_has_tests_of_its_own() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    for (what, why, tests) in ELSEWHERE {
        for test in tests {
            let (file, name) = test.split_once("::").unwrap();
            let source = fs::read_to_string(root.join(file)).unwrap();
            assert!(source.contains(&format!("fn {name}()")), "{what} ({why}): {test}");
        }
    }
}
