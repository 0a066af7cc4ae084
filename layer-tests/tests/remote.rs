//! One machine publishes what a program compiled, and another one serves it in its first run (docs/remote.md).

use std::fs;
use std::io::Write as _;
use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::{Value, json};
use vkstash_layer_tests::child::{Scenario, Step, scenario};
use vkstash_layer_tests::env::{Driver, Env};
use vkstash_layer_tests::work::{self, Shader, Work};
use vkstash_layer_tests::{paths, skip};

const STEPS: &[(&str, Step)] = &[("work", work::step)];

/// The tool of this build, with `vkstash-remote` beside it. None, and a line that says why: that was not built.
fn tools() -> Option<[std::path::PathBuf; 2]> {
    let tools = ["vkstash", "vkstash-remote"].map(|name| paths::profile_folder().join(name));
    if tools.iter().all(|tool| tool.is_file()) {
        return Some(tools);
    }
    skip::not_here(&skip::this_test(), "no vkstash-remote: cargo build --workspace");
    None
}

/// The environment of a machine of its own.
fn machine(scenario: &Scenario, env: &Env, name: &str) -> Env {
    let folder = scenario.folder().join(name);
    fs::create_dir_all(folder.join("config/vkstash")).unwrap();
    let env = env.clone().without_layer().stash(folder.join("stash"));
    env.var("HOME", &folder)
        .var("XDG_DATA_HOME", folder.join("data"))
        .var("XDG_CONFIG_HOME", folder.join("config"))
}

/// `vkstash run` with these options, of a program that makes pipelines.
fn run(scenario: &Scenario, env: &Env, tool: &Path, options: &[&str]) -> String {
    run_work(scenario, env, tool, options, &Work { shader: Shader::Compute, count: 20, ..Work::default() })
}

fn run_work(scenario: &Scenario, env: &Env, tool: &Path, options: &[&str], work: &Work) -> String {
    run_program(scenario, env, tool, options, work, &std::env::current_exe().unwrap())
}

fn run_program(
    scenario: &Scenario,
    env: &Env,
    tool: &Path,
    options: &[&str],
    work: &Work,
    program: &Path,
) -> String {
    let mut command = Command::new(tool);
    env.apply(&mut command);
    command.env("VKSTASH_LIBRARY", paths::layer_library()).arg("run").args(options).arg("--");
    command.arg(program);
    said(&scenario.as_step(&mut command, "work", work).output().unwrap())
}

fn said(output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{text}");
    text
}

#[test]
fn what_one_machine_published_another_one_serves_in_its_first_run() {
    scenario(STEPS, |scenario| {
        let (Some(env), Some([tool, remote])) = (scenario.on(Driver::Radv), tools()) else { return };
        let (one, two) = (machine(scenario, &env, "one"), machine(scenario, &env, "two"));
        let store = scenario.folder().join("store");
        fs::create_dir(&store).unwrap();
        let url = format!("file://{}", store.display());
        let key = scenario.folder().join("one/key");
        let made = Command::new(&remote).arg("key").arg(&key).arg("--no-password").output().unwrap();
        said(&made);
        fs::write(scenario.folder().join("two/config/vkstash/signers.toml"), &made.stdout).unwrap();
        fs::write(scenario.folder().join("one/config/vkstash/signers.toml"), &made.stdout).unwrap();

        // The first machine compiles, and publishes.
        let first =
            run(scenario, &one, &tool, &["--remote", &url, "--push", "--remote-key", key.to_str().unwrap()]);
        assert!(first.contains("; 0 of 20 pipelines were ready"), "{first}");
        // The second one has nothing of its own, and compiles nothing.
        let second = run(scenario, &two, &tool, &["--remote", &url]);
        assert!(second.contains("; 20 of 20 pipelines were ready"), "{second}");
        // Nor without the store, which is one line.
        let gone = format!("file://{}", scenario.folder().join("gone").display());
        fs::rename(&store, scenario.folder().join("moved")).unwrap();
        let third = run(scenario, &two, &tool, &["--remote", &url]);
        assert!(third.contains("; 20 of 20 pipelines were ready"), "{third}");
        assert_eq!(third.lines().filter(|line| line.starts_with("vkstash-remote: ")).count(), 1, "{third}");
        // A store that was never reached.
        let fourth = run(scenario, &machine(scenario, &two, "three"), &tool, &["--remote", &gone]);
        assert!(fourth.contains("; 0 of 20 pipelines were ready"), "{fourth}");
    });
}

/// A store, and a key that all machines believe. Returns the address and the file of the key.
fn store(scenario: &Scenario, remote: &Path, machines: &[&str]) -> (String, std::path::PathBuf) {
    let (store, key) = (scenario.folder().join("store"), scenario.folder().join("key"));
    fs::create_dir(&store).unwrap();
    let made = Command::new(remote).arg("key").arg(&key).arg("--no-password").output().unwrap();
    said(&made);
    for name in machines {
        fs::write(scenario.folder().join(name).join("config/vkstash/signers.toml"), &made.stdout).unwrap();
    }
    (format!("file://{}", store.display()), key)
}

/// A word that nothing but the modules of the next test has.
const FIRST: u32 = 0x5eed_0101;

fn under(scenario: &Scenario, name: &str, script: Value) -> Env {
    machine(scenario, &scenario.on(Driver::Test(script)).unwrap(), name)
}

#[test]
fn a_builder_compiles_what_players_offered_and_publishes_it_also_after_an_update_of_the_driver() {
    scenario(STEPS, |scenario| {
        let Some([tool, remote]) = tools() else { return };
        let fault = json!([{ "command": "vkCreateComputePipelines", "word": FIRST + 2, "die": "segv" }]);
        let player = under(scenario, "player", json!({}));
        let builder = under(scenario, "builder", json!({ "faults": fault }));
        let other = under(scenario, "other", json!({}));
        let (url, key) = store(scenario, &remote, &["player", "builder", "other"]);
        let work = Work { first: FIRST, count: 8, ..Work::default() };
        // Without a key: recipes and modules alone.
        run_work(scenario, &player, &tool, &["--remote", &url, "--push"], &work);
        let build = |env: &Env| {
            let mut command = Command::new(&remote);
            env.apply(&mut command);
            command.env("VKSTASH_LIBRARY", paths::layer_library()).args(["build", "--to", &url, "--prewarm"]);
            command.arg("--dir").arg(scenario.folder().join("builder/stash")).arg("--key").arg(&key);
            said(&command.output().unwrap())
        };
        let built = build(&builder);
        assert!(built.contains("1 pipelines are quarantined and not published"), "{built}");
        assert!(built.contains("1 objects with") && built.contains("2 manifests signed"), "{built}");
        let served = run_work(scenario, &other, &tool, &["--remote", &url], &work);
        assert!(served.contains("; 7 of 8 pipelines were ready"), "{served}");
        // The inbox is empty, and the driver is new.
        let update =
            json!({ "driver_version": 2, "pipeline_cache_uuid": "00000000000000000000000000000002" });
        let built = build(&under(scenario, "builder", update.clone()));
        assert!(built.contains("0 objects with") && built.contains("1 manifests signed"), "{built}");
        let updated = under(scenario, "updated", update);
        fs::copy(
            scenario.folder().join("other/config/vkstash/signers.toml"),
            scenario.folder().join("updated/config/vkstash/signers.toml"),
        )
        .unwrap();
        let served = run_work(scenario, &updated, &tool, &["--remote", &url], &work);
        assert!(served.contains("; 8 of 8 pipelines were ready"), "{served}");
    });
}

#[test]
fn a_base_whose_path_cannot_be_named_is_left_out_and_a_program_fetches_its_own_application_alone() {
    scenario(STEPS, |scenario| {
        let Some([tool, remote]) = tools() else { return };
        let player = under(scenario, "player", json!({}));
        let other = under(scenario, "other", json!({}));
        let (url, key) = store(scenario, &remote, &["player", "other"]);
        let work = Work { first: FIRST, count: 3, ..Work::default() };
        let options = ["--remote", &url, "--push", "--remote-key", key.to_str().unwrap()];
        run_work(scenario, &player, &tool, &options, &work);
        // Something of another program, signed by the same key.
        let manifests = scenario.folder().join("store/v1/manifests");
        let own = fs::read_dir(&manifests).unwrap().next().unwrap().unwrap().path();
        let foreign = manifests.join("foreign-01234567-89abcdef");
        fs::create_dir(&foreign).unwrap();
        fs::write(foreign.join("portable"), "never asked for").unwrap();
        let served = run_work(scenario, &other, &tool, &["--remote", &url], &work);
        assert!(served.contains("; 3 of 3 pipelines were ready"), "{served}");
        assert!(!served.contains("foreign"), "{served}");
        assert!(own.is_dir());
        let strange = other.var("XDG_DATA_HOME", scenario.folder().join("other/with:colon"));
        let strange = strange.stash(scenario.folder().join("other/stash2"));
        let ran = run_work(scenario, &strange, &tool, &["--remote", &url], &work);
        assert!(ran.contains("a base cannot have a colon in its path"), "{ran}");
        assert!(ran.contains("; 0 of 3 pipelines were ready"), "{ran}");
    });
}

/// Whatever the server does, and for as long as it does, the program runs, and one line says why it has no base.
#[test]
fn a_program_runs_without_a_server_that_is_down_slow_or_wrong() {
    scenario(STEPS, |scenario| {
        let Some([tool, remote]) = tools() else { return };
        let player = under(scenario, "player", json!({})).var("AWS_ALLOW_HTTP", "1");
        store(scenario, &remote, &["player"]);
        let work = Work { first: FIRST, count: 3, ..Work::default() };
        // Runs of two driver versions, so that several manifests are asked for.
        run_work(scenario, &player, &tool, &[], &work);
        let other = json!({ "driver_version": 2 });
        run_work(scenario, &under(scenario, "player", other), &tool, &[], &work);
        let down = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        // Takes connections, and says nothing for as long as this test runs.
        let slow = TcpListener::bind("127.0.0.1:0").unwrap();
        let wrong = TcpListener::bind("127.0.0.1:0").unwrap();
        let addresses = [down, slow.local_addr().unwrap(), wrong.local_addr().unwrap()];
        std::thread::spawn(move || {
            for socket in wrong.incoming() {
                let _ = socket.unwrap().write_all(b"220 this is no such server\r\n");
            }
        });
        for address in addresses {
            let url = format!("http://{address}/store");
            let ran = run_work(scenario, &player, &tool, &["--remote", &url, "--remote-seconds", "2"], &work);
            assert!(ran.contains("; 3 of 3 pipelines were ready"), "{ran}");
            let lines = ran.lines().filter(|line| line.starts_with("vkstash-remote: "));
            assert_eq!(lines.count(), 1, "{ran}");
        }
        // An address that is none is a line, too.
        let ran = run_work(scenario, &player, &tool, &["--remote", "file:store?x"], &work);
        assert!(
            ran.contains("is no address of a store") && ran.contains("; 3 of 3 pipelines were ready"),
            "{ran}"
        );
    });
}

#[test]
fn a_command_publishes_its_own_application_alone() {
    scenario(STEPS, |scenario| {
        let Some([tool, remote]) = tools() else { return };
        let player = under(scenario, "player", json!({}));
        let (url, key) = store(scenario, &remote, &["player"]);
        let work = Work { first: FIRST, count: 3, ..Work::default() };
        let other = scenario.folder().join("other");
        fs::copy(std::env::current_exe().unwrap(), &other).unwrap();
        run_program(scenario, &player, &tool, &[], &work, &other);
        let names = |folder: &str| {
            let folder = fs::read_dir(scenario.folder().join(folder));
            let mut names: Vec<_> =
                folder.into_iter().flatten().map(|entry| entry.unwrap().file_name()).collect();
            names.sort();
            names
        };
        let unrelated = names("player/stash");
        let published = || [names("store/v1/inbox"), names("store/v1/manifests")];
        let own = || {
            let mut own = names("player/stash");
            own.retain(|name| !unrelated.contains(name) && name != "drivers.json");
            own
        };
        // Without a key, and then with one.
        run_work(scenario, &player, &tool, &["--remote", &url, "--push"], &work);
        assert_eq!((own().len(), published()), (1, [own(), vec![]]));
        let options = ["--remote", &url, "--push", "--remote-key", key.to_str().unwrap()];
        run_work(scenario, &player, &tool, &options, &work);
        assert_eq!(published(), [own(), own()]);
        // What records nothing publishes nothing.
        let nothing = run_work(scenario, &player, &tool, &options, &Work { count: 0, ..work });
        assert!(nothing.contains("nothing is published"), "{nothing}");
        assert_eq!(published(), [own(), own()]);
    });
}

/// What a command prints, which must succeed.
fn printed(env: &Env, program: &Path, arguments: &[&str]) -> String {
    let mut command = Command::new(program);
    env.apply(&mut command);
    let output = command.args(arguments).output().unwrap();
    said(&output);
    String::from_utf8(output.stdout).unwrap().trim_end().to_owned()
}

/// "What to put on 50 nodes" of docs/remote.md, command by command, and how to undo it.
#[test]
fn nodes_are_served_by_what_the_page_puts_on_them() {
    scenario(STEPS, |scenario| {
        let Some([tool, remote]) = tools() else { return };
        let builder = under(scenario, "builder", json!({}));
        let (node, undone) = (under(scenario, "node", json!({})), under(scenario, "undone", json!({})));
        let of_disk = under(scenario, "of-disk", json!({}));
        let (url, key) = store(scenario, &remote, &["node", "undone"]);
        let work = Work { first: FIRST, count: 8, ..Work::default() };
        run_work(scenario, &builder, &tool, &[], &work);

        // With a shared disk: a link names the base.
        let disk = |name: &str| scenario.folder().join("disk").join(name);
        fs::create_dir(scenario.folder().join("disk")).unwrap();
        printed(&builder, &tool, &["base", "build", disk("1").to_str().unwrap()]);
        std::os::unix::fs::symlink("1", disk("current")).unwrap();
        let served = run_work(scenario, &of_disk.var("VKSTASH_BASE", disk("current")), &tool, &[], &work);
        assert!(served.contains("; 8 of 8 pipelines were ready"), "{served}");

        // With an object store.
        printed(&builder, &remote, &["push", "--to", &url, "--key", key.to_str().unwrap()]);
        for machine in [&node, &undone] {
            let base = printed(machine, &remote, &["pull", "--from", &url, "--all", "--print-base"]);
            printed(machine, &tool, &["base", "add", &base]);
            assert!(printed(machine, &tool, &["base", "list"]).contains(&base));
            assert_eq!(printed(machine, &remote, &["check", &base]), "");
        }
        let served = run_work(scenario, &node, &tool, &[], &work);
        assert!(served.contains("; 8 of 8 pipelines were ready"), "{served}");
        let base = printed(&undone, &remote, &["pull", "--from", &url, "--print-base"]);
        printed(&undone, &tool, &["base", "remove", &base]);
        let compiled = run_work(scenario, &undone, &tool, &[], &work);
        assert!(compiled.contains("; 0 of 8 pipelines were ready"), "{compiled}");
    });
}
