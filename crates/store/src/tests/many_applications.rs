//! The limits of a stash with many applications.

use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt as _;

use crate::maintenance::run;
use crate::maintenance::work::Work;
use crate::tests::processes::in_a_child;
use crate::tests::*;
use vkstash_host::disk::folder::Folder;

/// Each has the records of a real one, and was used a second later than the one before.
fn applications(root: &Path, count: u64) {
    let stash = open(root);
    put_all(stash.portable(), Kind::Module, 0..20);
    drop(stash);
    let [segment] = segments(root).try_into().unwrap();
    let name = segment.file_name().unwrap().to_str().unwrap();
    let age = u64::from_str_radix(&name[..16], 16).unwrap() - 1000 * count;
    for number in 0..count {
        let part = root.join(format!("game-{number:016x}")).join("portable");
        DirBuilder::new().recursive(true).mode(0o700).create(&part).unwrap();
        std::fs::copy(&segment, part.join(format!("{:016x}{}", age + 1000 * number, &name[16..]))).unwrap();
    }
}

#[test]
fn a_program_keeps_the_limit_of_a_thousand_applications_with_few_descriptors() {
    let test = "a_program_keeps_the_limit_of_a_thousand_applications_with_few_descriptors";
    in_a_child(test, &[], || {
        let root = root();
        applications(root.path(), 1000);
        let bytes = || {
            let parts =
                std::fs::read_dir(root.path()).unwrap().map(|entry| entry.unwrap().path().join("portable"));
            let files = parts.flat_map(|part| files(&part, "vks"));
            files.map(|file| file.metadata().unwrap().len()).sum::<u64>()
        };
        let limit = bytes() / 2;
        std::fs::write(root.path().join("config.toml"), format!("limit = {limit}\nfree-space = 'none'\n"))
            .unwrap();
        let files = rustix::process::Rlimit { current: Some(64), maximum: Some(64) };
        rustix::process::setrlimit(rustix::process::Resource::Nofile, files).unwrap();
        let stash = open(root.path());
        put_all(stash.portable(), Kind::Module, 20..40);
        stash.flush(LONG);
        let home = Arc::new(Folder::root(root.path(), false).unwrap());
        let work = Work {
            application: Some(&app().folder),
            at_shutdown: false,
            interrupted: &|| false,
            progress: &|_, _| {},
            modules_of: |_, _| {},
        };
        let outcome = run::maintain(&home, &work);
        assert!(outcome.evicted_records > 1000 && bytes() <= limit, "{} of {limit}: {outcome:?}", bytes());
        assert_eq!(count_good(stash.portable(), Kind::Module, 0..40), 40, "what runs stays");
    });
}

#[test]
fn a_program_that_is_never_idle_keeps_the_limit_at_its_end() {
    let root = root();
    applications(root.path(), 20);
    for number in 2..10 {
        std::fs::write(root.path().join("config.toml"), "limit = 20000\nfree-space = 'none'\n").unwrap();
        let stash = open(root.path());
        put_all(stash.portable(), Kind::Module, number * 20..number * 20 + 3);
        drop(stash);
    }
    let left = std::fs::read_dir(root.path())
        .unwrap()
        .filter(|entry| !files(&entry.as_ref().unwrap().path().join("portable"), "vks").is_empty());
    assert!(left.count() < 10 && segments(root.path()).len() < 8);
}
