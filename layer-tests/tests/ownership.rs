//! Owners of the files that a program leaves, and files that it does not touch.

use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::json;
use vkstash_layer_tests::child::Scenario;
use vkstash_layer_tests::env::{Driver, Env};
use vkstash_layer_tests::suite::{files, on, run};
use vkstash_layer_tests::work::Work;

/// A user without a session.
const USER: u32 = 1234;

/// Standard error of a run that logs to this file. There is a line to log, because its report cannot be written.
fn logged(scenario: &Scenario, env: &Env, log: &Path) -> String {
    let file = scenario.folder().join("a-file");
    fs::write(&file, "").unwrap();
    let env = env.clone().report(file).var("VKSTASH_LOG", "trace").var("VKSTASH_LOG_FILE", log);
    let outcome = scenario.run("work", &env, &Work::default());
    assert!(!outcome.hung, "{}", outcome.ending());
    outcome.ok();
    outcome.stderr
}

#[test]
fn a_log_file_must_belong_to_the_user_and_must_not_block() {
    on(Driver::Test(json!({})), |scenario, env| {
        let at = |name: &str| scenario.folder().join(name);
        let own = at("own");
        for _ in 0..2 {
            let before = own.metadata().map_or(0, |metadata| metadata.len());
            let said = logged(scenario, env, &own);
            assert!(!said.contains("vkstash:"), "{said}");
            let metadata = own.metadata().unwrap();
            assert_eq!(metadata.permissions().mode() & 0o7777, 0o600);
            assert!(metadata.len() > before);
        }
        let (target, link, other_name, pipe, folder, dangling) =
            (at("target"), at("link"), at("other-name"), at("pipe"), at("folder"), at("dangling"));
        fs::write(&target, "theirs").unwrap();
        symlink(&target, &link).unwrap();
        symlink(at("not-there"), &dangling).unwrap();
        fs::hard_link(&target, &other_name).unwrap();
        fs::create_dir(&folder).unwrap();
        assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        for path in [&link, &dangling, &other_name, &pipe, &folder, &PathBuf::from("/dev/null")] {
            let said = logged(scenario, env, path);
            let refusal = format!("vkstash: warn: {}: ", path.display());
            assert!(said.contains(&refusal) && said.contains("go to standard error"), "{said}");
        }
        assert_eq!(fs::read(&target).unwrap(), b"theirs");
        assert!(!at("not-there").exists() && pipe.metadata().unwrap().file_type().is_fifo());
        // The pipe has a reader, but is not a regular file.
        let reader = fs::OpenOptions::new().read(true).write(true).open(&pipe).unwrap();
        assert!(logged(scenario, env, &pipe).contains("not a regular file"));
        drop(reader);
    });
}

/// `sudo` may leave HOME as it is.
#[test]
fn root_leaves_no_file_in_a_users_folder_that_the_user_cannot_use() {
    on(Driver::Test(json!({})), |scenario, env| {
        // SAFETY: geteuid has no preconditions.
        if unsafe { libc::geteuid() } != 0 {
            return scenario.not_here("only root can be in somebody's folder");
        }
        let home = scenario.folder().join("their-home");
        fs::create_dir(&home).unwrap();
        chown(&home, Some(USER), Some(0)).unwrap();
        // Root in this test lacks the right to override permissions.
        fs::set_permissions(&home, fs::Permissions::from_mode(0o775)).unwrap();
        let reports = home.join("reports");
        let their = |env: &Env| env.clone().stash(home.join(".cache/vkstash")).report(&reports);

        let made = scenario.run("work", &their(env), &Work::default());
        made.ok();
        let line = format!("in a folder of user {USER}");
        assert!(made.stderr.contains(&line), "{}", made.stderr);
        let left: Vec<_> = fs::read_dir(&home).unwrap().map(|entry| entry.unwrap().path()).collect();
        assert!(left.is_empty(), "{left:?}");

        // If the user has created the folders, the report belongs to the user, and no stash is made.
        fs::create_dir_all(home.join(".cache/vkstash")).unwrap();
        fs::create_dir(&reports).unwrap();
        for path in [home.join(".cache"), home.join(".cache/vkstash"), reports.clone()] {
            chown(&path, Some(USER), Some(0)).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o775)).unwrap();
        }
        let log = home.join("log");
        let env = their(env).var("VKSTASH_LOG_FILE", &log);
        scenario.run("work", &env, &Work::default()).ok();
        assert_eq!(files(&reports, ".vkr").len(), 1);
        let left = files(&home, "");
        assert_eq!(left.len(), 2, "the report and the log: {left:?}");
        for path in left {
            let metadata = path.metadata().unwrap();
            assert_eq!((metadata.uid(), metadata.mode() & 0o777), (USER, 0o600), "{}", path.display());
        }
        assert!(fs::read_to_string(&log).is_ok_and(|text| text.contains("nothing is stashed in this run")));
    });
}

#[test]
fn a_program_of_root_has_a_stash_in_a_world_writable_folder() {
    on(Driver::Test(json!({})), |scenario, env| {
        let all = scenario.folder().join("all");
        fs::create_dir(&all).unwrap();
        // SAFETY: geteuid has no preconditions.
        if unsafe { libc::geteuid() } == 0 {
            chown(&all, Some(USER), Some(USER)).unwrap();
        }
        fs::set_permissions(&all, fs::Permissions::from_mode(0o1777)).unwrap();
        let env = env.clone().stash(all.join("stash"));
        run(scenario, &env, &Work::default());
        assert_eq!(run(scenario, &env, &Work::default()).reports.sum("served"), 3);
    });
}
