//! `vkstash doctor` on machines that are well and on ones that are not. The driver is the programmable one.

use vkstash_model::app_name::AppName;
use vkstash_model::record::Kind;
use vkstash_store::stash::open::Stash;

use super::*;

/// The layer, and a manifest of the programmable driver.
pub(crate) struct Machine {
    pub(crate) sandbox: Sandbox,
    library: PathBuf,
    driver: PathBuf,
}

/// None, with a line that says why, where a file is missing.
pub(crate) fn machine() -> Option<Machine> {
    let target = Path::new(env!("CARGO_BIN_EXE_vkstash")).parent().unwrap();
    let library = target.join("libVkLayer_vkstash.so");
    let driver = target.join("libvkstash_test_icd.so");
    if let Some(missing) = [&library, &driver].into_iter().find(|path| !path.exists()) {
        skip::missing(&skip::this_test(), &format!("no {} (cargo build --workspace)", missing.display()));
        return None;
    }
    let sandbox = Sandbox::new();
    let manifest = sandbox.path("driver.json");
    let text = serde_json::json!({
        "file_format_version": "1.0.1",
        "ICD": { "library_path": driver, "api_version": "1.3.0" },
    });
    fs::write(&manifest, text.to_string()).unwrap();
    Some(Machine { sandbox, library, driver: manifest })
}

impl Machine {
    pub(crate) fn tool(&self) -> Command {
        let mut command = self.sandbox.tool();
        command.env("VKSTASH_LIBRARY", &self.library).env("NODEVICE_SELECT", "1");
        command.env("VK_DRIVER_FILES", &self.driver).env("VK_ICD_FILENAMES", &self.driver);
        command
    }

    /// What `doctor` says of these variables: its exit status and its lines.
    fn doctor(&self, variables: &[(&str, &str)]) -> (i32, String) {
        let output = output(self.tool().arg("doctor").envs(variables.iter().copied()));
        (output.status.code().unwrap(), text(&output.stdout).to_owned())
    }

    fn install(&self) -> PathBuf {
        let copy = self.sandbox.path("layer.so");
        fs::copy(&self.library, &copy).unwrap();
        let installed = output(self.tool().arg("install").env("VKSTASH_LIBRARY", &copy));
        assert!(installed.status.success(), "{installed:?}");
        copy
    }
}

fn wrong(said: &str) -> Vec<&str> {
    said.lines().filter(|line| line.starts_with("WRONG")).collect()
}

#[test]
fn a_machine_that_is_well_is_called_so_and_nothing_is_made() {
    let Some(machine) = machine() else { return };
    let (status, said) = machine.doctor(&[]);
    assert_eq!((status, wrong(&said).len()), (0, 0), "{said}");
    for expected in [
        "\nok     the Vulkan loader knows Vulkan 1.",
        ": offers cache control",
        "\nok     a small Vulkan program under `vkstash run` has the layer\n",
        "\nnote   VKSTASH is not set here",
        "\nnote   32-bit programs (",
        ": nothing is stashed yet\n",
    ] {
        assert!(said.contains(expected), "{expected}: {said}");
    }
    assert!(machine.sandbox.nothing_left_in_temp());
    assert!(fs::read_dir(machine.sandbox.home()).unwrap().next().is_none(), "nothing is stashed");
}

#[test]
fn an_installed_layer_is_tried_and_a_library_that_went_away_is_named() {
    let Some(machine) = machine() else { return };
    let library = machine.install();
    let tried = "a small Vulkan program with VKSTASH=1 has the installed layer\n";
    let (status, said) = machine.doctor(&[("VKSTASH", "1")]);
    assert!(status == 0 && said.contains(tried) && said.contains("ok     VKSTASH=1 is set here"), "{said}");
    // What the environment forbids is tried, too.
    let (status, said) = machine.doctor(&[("VK_LOADER_LAYERS_DISABLE", "~all~")]);
    assert!(status == 1 && wrong(&said)[0].contains("VK_LOADER_LAYERS_DISABLE=~all~"), "{said}");
    fs::remove_file(&library).unwrap();
    let (status, said) = machine.doctor(&[]);
    assert!(status == 1 && said.contains("names a library that cannot be used"), "{said}");
    assert!(said.contains("next: run `vkstash install` again"), "{said}");
}

#[test]
fn what_a_driver_or_the_environment_does_is_named() {
    let Some(machine) = machine() else { return };
    let crash = r#"{"faults":[{"command":"vkEnumeratePhysicalDevices","die":"segv"}]}"#;
    for (variables, expected) in [
        (("VKSTASH_TEST_ICD", crash), "fails here without the layer, too: it ended with signal: 11"),
        (("VKSTASH_TEST_ICD", r#"{"physical_devices":0}"#), "no program can use Vulkan here: "),
        (("VK_DRIVER_FILES", "/nowhere"), "no program can use Vulkan here: vkCreateInstance: "),
        (("VKSTASH_DISABLE", "1"), "VKSTASH_DISABLE is set, which switches the layer off"),
        (("VKSTASH", "on"), "VKSTASH is \"on\": the loader enables the layer for the value 1 only"),
    ] {
        let (status, said) = machine.doctor(&[variables]);
        assert!(status == 1 && wrong(&said).len() == 1 && said.contains(expected), "{expected}: {said}");
    }
    let (status, said) =
        machine.doctor(&[("VKSTASH_TEST_ICD", r#"{"without":["VK_EXT_shader_module_identifier"]}"#)]);
    assert!(status == 0 && said.contains("identifiers come from the layer"), "{said}");
}

#[test]
fn folders_of_old_names_are_told_of_and_can_be_cleared() {
    let Some(machine) = machine() else { return };
    let (dir, old) = (machine.sandbox.path("stash"), "game-0123456789abcdef");
    let name = AppName::new(None, b"/bin/game");
    let stash = Stash::open_patiently(&dir, &name).unwrap();
    assert!(stash.portable().put(Kind::Recipe, &[1; 32], [1; 500].as_slice().into()));
    drop(stash);
    let told =
        "no program uses 1 folder of the stash, named as before version 0.1.0, such as game-0123456789abcdef";
    let says = || machine.doctor(&[("VKSTASH_DIR", dir.to_str().unwrap())]);
    let (status, said) = says();
    assert!(status == 0 && !said.contains("before version"), "{said}");
    fs::rename(dir.join(&name.folder), dir.join(old)).unwrap();
    let (status, said) = says();
    assert!(
        status == 0 && said.contains(told) && said.contains("`vkstash clear game-0123456789abcdef`"),
        "{said}"
    );
    let cleared = output(machine.tool().args(["clear", old, "--yes", "--dir"]).arg(&dir));
    assert!(cleared.status.success() && !dir.join(old).exists(), "{cleared:?}");
}

#[test]
fn a_stash_that_cannot_be_used_or_is_damaged_is_named() {
    let Some(machine) = machine() else { return };
    let file = machine.sandbox.path("file");
    fs::write(&file, "no folder").unwrap();
    let (status, said) = machine.doctor(&[("VKSTASH_DIR", file.to_str().unwrap())]);
    assert!(status == 1 && wrong(&said).len() == 1 && said.contains(file.to_str().unwrap()), "{said}");

    let dir = machine.sandbox.path("stash");
    let name = AppName::new(Some(b"game"), b"/bin/game");
    let stash = Stash::open_patiently(&dir, &name).unwrap();
    for number in 0..20 {
        assert!(stash.portable().put(Kind::Recipe, &[number; 32], vec![number; 500].into()));
    }
    drop(stash);
    fs::write(dir.join("config.toml"), "limt = '5GiB'\n").unwrap();
    let output = output(machine.tool().args(["doctor", "--json", "--dir"]).arg(&dir));
    assert!(output.status.success(), "{output:?}");
    let findings: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let found = |level: &str, part: &str| {
        let all = findings.as_array().unwrap();
        all.iter()
            .any(|finding| finding["level"] == level && finding["text"].as_str().unwrap().contains(part))
    };
    assert!(found("note", "limt") && found("good", ": 1 application, "), "{findings}");
}

#[test]
fn caches_that_the_user_has_disabled_are_named() {
    let Some(machine) = machine() else { return };
    assert!(!machine.doctor(&[]).1.contains("disabled for"));
    let set = output(machine.tool().args(["cache", "disable", "compilations"]));
    assert!(set.status.success(), "{set:?}");
    let (status, said) = machine.doctor(&[]);
    assert!(
        said.contains("note   caches of the kind compilations are disabled for all programs\n"),
        "{said}"
    );
    assert!(said.contains("`vkstash cache enable compilations` enables them"), "{said}");
    assert_eq!((status, said.matches("disabled for").count()), (0, 1), "{said}");
}

#[test]
fn the_drivers_own_caches_and_sandboxes_are_told_of() {
    let Some(machine) = machine() else { return };
    let home = machine.sandbox.home();
    let cache = home.join(".cache/mesa_shader_cache_db");
    fs::create_dir_all(&cache).unwrap();
    fs::File::create(cache.join("mesa_cache.db")).unwrap().set_len(1000 << 20).unwrap();
    fs::create_dir_all(home.join(".var/app/org.example.Game")).unwrap();
    fs::create_dir_all(home.join(".local/share/Steam")).unwrap();
    let (status, said) = machine.doctor(&[]);
    assert_eq!(status, 0, "{said}");
    assert!(said.contains("note   Mesa's own cache has 1000.0 MiB of at most 1.0 GiB in "), "{said}");
    assert!(
        said.contains("note   programs that were installed with Flatpak run without the layer"),
        "{said}"
    );
    assert!(said.contains("ok     Steam's runtime takes the installed layer over"), "{said}");
    let larger = [("MESA_SHADER_CACHE_MAX_SIZE", "8G"), ("VKSTASH_DIR", "/tmp/elsewhere")];
    let (_, said) = machine.doctor(&larger);
    assert!(said.contains("ok     Mesa's own cache has 1000.0 MiB of at most 8.0 GiB"), "{said}");
    assert!(said.contains("note   games in Steam's runtime may not see the stash: /tmp/elsewhere"), "{said}");
}

/// What `vkstash run` would set is said where it is not used.
#[test]
fn the_line_for_larger_limits_is_printed_where_nobody_has_set_them() {
    let sandbox = Sandbox::new();
    let printed = |arguments: &[&str], set: &[(&str, &str)]| {
        text(&output(sandbox.tool().args(arguments).envs(set.iter().copied())).stdout).to_owned()
    };
    let script = "for name in MESA_SHADER_CACHE_MAX_SIZE __GL_SHADER_DISK_CACHE_SIZE; do \
                  eval \"[ -z \\\"\\$$name\\\" ] || printf ' %s' $name=\\$$name\"; done";
    let raised = text(&output(&mut sandbox.run(script)).stdout).to_owned();
    let line = format!("VKSTASH=1{raised} %command%");
    for arguments in [&["doctor"] as &[_], &["install", "--no-service"]] {
        let said = printed(arguments, &[]);
        // On a disk without room nothing is raised.
        assert_eq!(said.contains("MAX_SIZE="), !raised.is_empty(), "{said}");
        assert!(raised.is_empty() || said.contains(&line), "{line}: {said}");
        let chosen = [("MESA_SHADER_CACHE_MAX_SIZE", "2G"), ("__GL_SHADER_DISK_CACHE_SIZE", "1")];
        let said = printed(arguments, &chosen);
        assert!(!said.contains("MAX_SIZE=") && !said.contains("CACHE_SIZE="), "{said}");
    }
}

#[test]
fn files_that_never_end_or_never_begin_are_not_waited_for() {
    let sandbox = Sandbox::new();
    let manifests = sandbox.path("manifests");
    fs::create_dir(&manifests).unwrap();
    let fifo = sandbox.path("fifo");
    assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    let layer = serde_json::json!({ "name": LAYER_NAME, "library_path": fifo });
    let manifest = serde_json::json!({ "file_format_version": "1.2.1", "layer": layer });
    fs::write(manifests.join("named.json"), manifest.to_string()).unwrap();
    let looked = output(sandbox.tool().arg("doctor").env("VK_ADD_IMPLICIT_LAYER_PATH", &manifests));
    assert!(text(&looked.stdout).contains("not a regular file"), "{looked:?}");
    let ran = output(sandbox.tool().args(["run", "--quiet", "--", "true"]).env("VKSTASH_LIBRARY", &fifo));
    assert!(ran.status.code().is_some(), "{ran:?}");
    let refused = output(sandbox.tool().args(["install", "--library"]).arg(&fifo));
    assert_eq!(refused.status.code(), Some(1), "{refused:?}");
    assert!(one_error_line(&refused).contains("not a regular file"), "{refused:?}");
}

/// A base that `vkstash-remote` has pulled.
struct Pulled {
    sandbox: Sandbox,
    remote: PathBuf,
    base: PathBuf,
}

impl Pulled {
    /// None, with a line that says why, where that program is missing.
    fn new() -> Option<Pulled> {
        let remote = Path::new(env!("CARGO_BIN_EXE_vkstash")).with_file_name("vkstash-remote");
        if !remote.exists() {
            skip::missing(&skip::this_test(), "no vkstash-remote (cargo build --workspace)");
            return None;
        }
        let sandbox = Sandbox::new();
        let stash = Stash::open_patiently(&sandbox.path("stash"), &AppName::new(Some(b"game"), b"/x"));
        let code = [7; 400];
        let identity = vkstash_model::identifier::module_identity(Default::default(), &code);
        assert!(stash.unwrap().portable().put(Kind::Module, &identity, [&[0; 4][..], &code].concat().into()));
        let pulled = Pulled { base: sandbox.path("pulled/base"), sandbox, remote };
        let sandbox = &pulled.sandbox;
        let key = sandbox.path("key");
        let made = pulled.remote(&["key", "--no-password", key.to_str().unwrap()]);
        fs::create_dir_all(pulled.signers().parent().unwrap()).unwrap();
        fs::write(pulled.signers(), made.stdout).unwrap();
        let store = format!("file://{}", sandbox.path("store").display());
        let stash = sandbox.path("stash");
        let of = ["--dir", stash.to_str().unwrap(), "--into"];
        let pushed = [&["push", "--to", &store, "--key", key.to_str().unwrap()], &of[..]].concat();
        pulled.remote(&[&pushed[..], &[sandbox.path("pushed").to_str().unwrap()]].concat());
        let all = [&["pull", "--from", &store, "--all"], &of[..]].concat();
        pulled.remote(&[&all[..], &[sandbox.path("pulled").to_str().unwrap()]].concat());
        Some(pulled)
    }

    fn signers(&self) -> PathBuf {
        self.sandbox.home().join(".config/vkstash/signers.toml")
    }

    fn remote(&self, arguments: &[&str]) -> Output {
        let done = output(self.sandbox.command(self.remote.to_str().unwrap()).args(arguments));
        assert!(done.status.success(), "{done:?}");
        done
    }
}

#[test]
fn a_base_whose_signer_is_not_trusted_any_more_is_told_of_before_and_after_the_next_pull() {
    let Some(pulled) = Pulled::new() else { return };
    let sandbox = &pulled.sandbox;
    let told = |variables: &[(&str, &str)]| {
        let said = output(sandbox.tool().arg("doctor").envs(variables.iter().copied()));
        text(&said.stdout).lines().filter(|line| line.contains("pulled/base")).collect::<Vec<_>>().join("\n")
    };
    let of_environment = [("VKSTASH_BASE", pulled.base.to_str().unwrap())];
    assert_eq!(told(&of_environment), "");
    fs::write(pulled.signers(), "").unwrap();
    // A base that no program looks into is not told of.
    assert_eq!(told(&[]), "");
    let before = told(&of_environment);
    assert!(before.starts_with("note   the base "), "{before}");
    assert!(
        before.ends_with("no pinned signer has signed it; programs use it until the next pull"),
        "{before}"
    );
    let added = output(sandbox.tool().args(["base", "add"]).arg(&pulled.base));
    assert!(added.status.success(), "{added:?}");
    assert_eq!(told(&[]), before);
    let into = sandbox.path("pulled");
    let mut pull = sandbox.command(pulled.remote.to_str().unwrap());
    pull.args(["pull", "--from", "file:///nowhere", "--into"]).arg(&into);
    assert_eq!(output(&mut pull).status.code(), Some(1));
    assert!(told(&[]).ends_with("no pinned signer has signed it; put aside"), "{}", told(&[]));
    assert!(fs::read_dir(&pulled.base).unwrap().next().is_none());
}
