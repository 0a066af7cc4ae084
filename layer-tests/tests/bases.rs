//! Stashes that are looked into after the user's own, and never written (docs/remote.md).

use std::ffi::CString;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use vkstash_layer_tests::child::{Run, Scenario, Step, scenario};
use vkstash_layer_tests::env::{Driver, Env};
use vkstash_layer_tests::skip;
use vkstash_layer_tests::work::{self, Caches, Code, Done, Shader, Work};
use vkstash_model::variables::CONFIG_FILE;

const STEPS: &[(&str, Step)] = &[("work", work::step), ("read-only", on_a_read_only_file_system)];

const COUNT: u32 = 20;

fn program(shader: Shader) -> Work {
    Work { shader, count: COUNT, ..Work::default() }
}

fn run(scenario: &Scenario, env: &Env, work: &Work) -> Run<Done> {
    let run = scenario.run_ok::<Done>("work", env, work);
    assert!(run.value.all_made(), "{:?}", run.value);
    run
}

/// An environment with that base, and a stash of its own.
fn fresh(scenario: &Scenario, env: &Env, name: &str, base: &Path) -> Env {
    env.clone().stash(scenario.folder().join(name)).var("VKSTASH_BASE", base)
}

/// Every file of a folder, with its bytes.
fn files(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let (mut found, mut rest) = (Vec::new(), vec![folder.to_owned()]);
    while let Some(path) = rest.pop() {
        for entry in fs::read_dir(&path).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                rest.push(path);
            } else {
                found.push((path.clone(), fs::read(path).unwrap()));
            }
        }
    }
    found.sort();
    found
}

#[test]
fn a_first_run_with_a_base_compiles_nothing() {
    scenario(STEPS, |scenario| {
        let Some(env) = scenario.on(Driver::Radv) else { return };
        let base = scenario.folder().join("base");
        let maker = env.clone().stash(&base);
        for shader in [Shader::Compute, Shader::RenderPass] {
            run(scenario, &maker, &Work { identifiers: true, ..program(shader) });
        }
        let before = files(&base);
        for (caches, code) in [
            (Caches::None, Code::Module),
            (Caches::Shared, Code::Inline),
            (Caches::Fresh, Code::Module),
            (Caches::None, Code::Identifier),
        ] {
            for shader in [Shader::Compute, Shader::RenderPass] {
                let env = &fresh(scenario, &env, &format!("{caches:?} {code:?} {shader:?}"), &base);
                let fail_on = code == Code::Identifier;
                let work = Work { caches, code, fail_on, identifiers: true, ..program(shader) };
                for time in ["first", "second"] {
                    let reports = run(scenario, env, &work).reports;
                    let seen = ["served", "compiled", "modules_new"].map(|name| reports.sum(name));
                    // Inline code needs another extension: what was recorded without it is a sibling in the base.
                    let from_base = reports.sum("from_base") + reports.sum("from_sibling");
                    assert_eq!(from_base, u64::from(COUNT), "{reports:?}");
                    assert_eq!(
                        seen,
                        [u64::from(COUNT), 0, 0],
                        "{time} {caches:?} {code:?} {shader:?}: {reports:?}"
                    );
                }
            }
        }
        assert!(files(&base) == before, "nothing is written to a base");
    });
}

#[test]
fn a_base_serves_another_installation_of_the_program() {
    scenario(STEPS, |scenario| {
        let Some(env) = scenario.on(Driver::Radv) else { return };
        let base = scenario.folder().join("base");
        let program = program(Shader::Compute);
        run(scenario, &env.clone().stash(&base).var("SteamAppId", "620"), &program);
        for (name, number) in [("none", ""), ("another", "400")] {
            let served =
                run(scenario, &fresh(scenario, &env, name, &base).var("SteamAppId", number), &program);
            assert_eq!(served.reports.sum("from_base"), u64::from(COUNT), "{name}: {served:?}");
        }
    });
}

#[test]
fn a_base_that_others_may_write_to_is_not_used_and_one_line_says_so() {
    scenario(STEPS, |scenario| {
        let Some(env) = scenario.on(Driver::Radv) else { return };
        let base = scenario.folder().join("base");
        run(scenario, &env.clone().stash(&base), &program(Shader::Compute));
        fs::set_permissions(&base, fs::Permissions::from_mode(0o777)).unwrap();
        let again = run(scenario, &fresh(scenario, &env, "own", &base), &program(Shader::Compute));
        assert_eq!((again.reports.sum("served"), again.reports.sum("compiled")), (0, u64::from(COUNT)));
        let lines: Vec<_> = again.stderr.lines().filter(|line| line.contains("a base is not used")).collect();
        assert_eq!(lines.len(), 1, "{}", again.stderr);
        let refused = again.reports.store().refused;
        let told = refused.keys().any(|reason| reason.starts_with("base: ") && reason.contains("others"));
        assert!(told, "{refused:?}");
    });
}

#[test]
fn bases_of_the_settings_are_used_unless_others_may_write_to_the_file() {
    scenario(STEPS, |scenario| {
        let Some(env) = scenario.on(Driver::Radv) else { return };
        let base = scenario.folder().join("base");
        run(scenario, &env.clone().stash(&base), &program(Shader::Compute));
        for (mode, served) in [(0o644, COUNT), (0o664, 0)] {
            let own = scenario.folder().join(format!("own {mode:o}"));
            fs::create_dir(&own).unwrap();
            fs::set_permissions(&own, fs::Permissions::from_mode(0o700)).unwrap();
            fs::write(own.join(CONFIG_FILE), format!("bases = ['{}']\n", base.display())).unwrap();
            fs::set_permissions(own.join(CONFIG_FILE), fs::Permissions::from_mode(mode)).unwrap();
            let again = run(scenario, &env.clone().stash(&own), &program(Shader::Compute));
            let seen = ["from_base", "compiled"].map(|name| again.reports.sum(name));
            assert_eq!(seen, [u64::from(served), u64::from(COUNT - served)], "{:?}", again.reports);
            let lines = again.stderr.lines().filter(|line| line.contains("others may write to this file"));
            assert!((lines.count() > 0) == (served == 0), "{}", again.stderr);
        }
    });
}

/// Mounts the base read-only, where only this thread and those that it starts see that, and does the work. The answer
/// is null where the machine does not allow it.
fn on_a_read_only_file_system(input: &Value) -> Value {
    let base = PathBuf::from(std::env::var_os("VKSTASH_BASE").unwrap());
    let path = CString::new(base.as_os_str().as_bytes()).unwrap();
    let none = std::ptr::null();
    let mounted = |source: *const libc::c_char, target: &CString, flags: libc::c_ulong| {
        // SAFETY: strings that end in NUL and live until the call is over; no data.
        (unsafe { libc::mount(source, target.as_ptr(), none, flags, none.cast()) }) == 0
    };
    // SAFETY: no pointers; what is unshared is this thread's.
    let alone = unsafe { libc::unshare(libc::CLONE_NEWNS) } == 0;
    let is_done = alone
        && mounted(none, &c"/".into(), libc::MS_REC | libc::MS_PRIVATE)
        && mounted(path.as_ptr(), &path, libc::MS_BIND)
        && mounted(none, &path, libc::MS_REMOUNT | libc::MS_BIND | libc::MS_RDONLY);
    if !is_done {
        return json!(null);
    }
    let error = fs::write(base.join("new"), "").unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::ReadOnlyFilesystem);
    work::step(input)
}

#[test]
fn a_base_on_a_read_only_file_system_is_used() {
    scenario(STEPS, |scenario| {
        let Some(env) = scenario.on(Driver::Radv) else { return };
        let base = scenario.folder().join("base");
        run(scenario, &env.clone().stash(&base), &program(Shader::Compute));
        let env = &fresh(scenario, &env, "own", &base);
        let run = scenario.run_ok::<Option<Done>>("read-only", env, &program(Shader::Compute));
        let Some(done) = run.value else {
            return skip::not_here(&skip::this_test(), "nothing may be mounted here");
        };
        assert!(done.all_made());
        let seen = ["served", "compiled"].map(|name| run.reports.sum(name));
        assert_eq!(seen, [u64::from(COUNT), 0], "{:?}", run.reports);
    });
}
