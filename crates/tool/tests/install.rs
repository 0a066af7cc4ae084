//! `vkstash install` and `vkstash uninstall` write and remove manifests, and what programs in C need.

use super::*;

fn manifests(vulkan: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for kind in ["implicit_layer.d", "explicit_layer.d"] {
        let Ok(entries) = fs::read_dir(vulkan.join(kind)) else { continue };
        found.extend(entries.map(|entry| entry.unwrap().path()));
    }
    found.sort();
    found
}

fn json(path: &Path) -> serde_json::Value {
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

#[test]
fn both_manifests_are_installed_and_removed() {
    let sandbox = Sandbox::new();
    let installed = output(sandbox.tool().arg("install"));
    assert!(installed.status.success(), "{installed:?}");
    assert!(text(&installed.stdout).contains("VKSTASH=1"));
    let vulkan = sandbox.home().join(".local/share/vulkan");
    let found = manifests(&vulkan);
    assert_eq!(found.len(), 2);
    for path in &found {
        let manifest = json(path);
        assert_eq!(manifest["layer"]["name"], LAYER_NAME);
        let library = manifest["layer"]["library_path"].as_str().unwrap();
        assert!(Path::new(library).is_absolute());
        let name = format!("VkLayer_vkstash.{}.json", std::env::consts::ARCH);
        assert_eq!(path.file_name(), Some(OsStr::new(&name)));
        assert_eq!(fs::metadata(path).unwrap().permissions().mode() & 0o777, 0o644);
    }
    // A second installation is an update.
    assert!(output(sandbox.tool().arg("install")).status.success());
    assert_eq!(manifests(&vulkan).len(), 2);

    let removed = output(sandbox.tool().arg("uninstall"));
    assert!(removed.status.success());
    let expected = "the header, the file for pkg-config, and six files of the service, too";
    assert_eq!(text(&removed.stdout).lines().count(), 10, "{expected}");
    assert!(manifests(&vulkan).is_empty());
    let left = fs::read_dir(sandbox.home().join(".local/share")).unwrap().count();
    assert_eq!(left, 0, "no empty folder is left");
    let again = output(sandbox.tool().arg("uninstall"));
    assert!(again.status.success() && text(&again.stdout).contains("not installed"));
}

#[test]
fn the_users_data_folder_is_respected() {
    let sandbox = Sandbox::new();
    let data = sandbox.path("data");
    assert!(output(sandbox.tool().arg("install").env("XDG_DATA_HOME", &data)).status.success());
    assert_eq!(manifests(&data.join("vulkan")).len(), 2);
    assert!(manifests(&sandbox.home().join(".local/share/vulkan")).is_empty());
}

#[test]
fn a_packager_writes_into_a_staging_folder_and_names_the_final_library() {
    let sandbox = Sandbox::new();
    let stage = sandbox.path("stage");
    let library = "/usr/lib/vkstash-test/libVkLayer_vkstash.so";
    let staged = stage.join(&library[1..]);
    fs::create_dir_all(staged.parent().unwrap()).unwrap();
    fs::copy(std::env::current_exe().unwrap(), &staged).unwrap();
    let mut command = sandbox.tool();
    command.args(["install", "--prefix", "/usr", "--library", library, "--destdir"]).arg(&stage);
    let installed = output(&mut command);
    assert!(installed.status.success(), "{installed:?}");
    let found = manifests(&stage.join("usr/share/vulkan"));
    assert_eq!(found.len(), 2);
    assert!(found.iter().all(|path| json(path)["layer"]["library_path"] == library));
    let header = fs::read_to_string(stage.join("usr/include/vkstash.h")).unwrap();
    assert!(header.contains("vkstash_create_session"));
    let pkg_config = fs::read_to_string(stage.join("usr/share/pkgconfig/vkstash.pc")).unwrap();
    for line in
        ["libdir=${prefix}/lib/vkstash-test", "includedir=${prefix}/include", "prefix=${pcfiledir}/../.."]
    {
        assert!(pkg_config.lines().any(|found| found == line), "{pkg_config}");
    }
    assert!(pkg_config.contains("-l:libVkLayer_vkstash.so") && !pkg_config.contains('@'), "{pkg_config}");
}

#[test]
fn the_header_and_the_file_for_pkg_config_lie_in_the_users_data_folder() {
    let sandbox = Sandbox::new();
    let installed = output(sandbox.tool().arg("install"));
    assert!(installed.status.success());
    let share = sandbox.home().join(".local/share");
    let said = format!("PKG_CONFIG_PATH={}\n", share.join("pkgconfig").display());
    assert!(text(&installed.stdout).contains(&said), "{installed:?}");
    let files = [share.join("vkstash/include/vkstash.h"), share.join("pkgconfig/vkstash.pc")];
    assert!(files.iter().all(|file| file.is_file()));
    let mut pkg_config = Command::new("pkg-config");
    pkg_config.args(["--cflags", "vkstash"]).env("PKG_CONFIG_PATH", share.join("pkgconfig"));
    if let Ok(output) = pkg_config.output() {
        let named = text(&output.stdout).trim().strip_prefix("-I").map(Path::new);
        let expected = share.join("vkstash/include").canonicalize().unwrap();
        assert_eq!(named.and_then(|path| path.canonicalize().ok()), Some(expected), "{output:?}");
    }
    // The user's own file stays, and stops everything.
    fs::write(&files[0], "/* my own header */").unwrap();
    let refused = output(sandbox.tool().arg("install"));
    assert!(one_error_line(&refused).contains("vkstash.h"), "{refused:?}");
    assert!(output(sandbox.tool().arg("uninstall")).status.success());
    assert!(files[0].is_file() && !files[1].exists());
}

#[test]
fn a_foreign_file_is_neither_overwritten_nor_removed_and_stops_everything() {
    let sandbox = Sandbox::new();
    let prefix = sandbox.path("prefix");
    let folder = prefix.join("share/vulkan/explicit_layer.d");
    fs::create_dir_all(&folder).unwrap();
    let foreign = folder.join(format!("VkLayer_vkstash.{}.json", std::env::consts::ARCH));
    for content in ["{\"layer\": {\"name\": \"VK_LAYER_other\"}}", "not json", ""] {
        fs::write(&foreign, content).unwrap();
        for verb in ["install", "uninstall"] {
            let refused = output(sandbox.tool().args([verb, "--prefix"]).arg(&prefix));
            assert_eq!(refused.status.code(), Some(1));
            assert!(one_error_line(&refused).contains("left alone"));
            assert_eq!(fs::read_to_string(&foreign).unwrap(), content);
            assert_eq!(manifests(&prefix.join("share/vulkan")), std::slice::from_ref(&foreign));
        }
    }
}

#[test]
fn a_symbolic_link_is_not_followed() {
    let sandbox = Sandbox::new();
    let prefix = sandbox.path("prefix");
    assert!(output(sandbox.tool().args(["install", "--prefix"]).arg(&prefix)).status.success());
    let path = manifests(&prefix.join("share/vulkan")).remove(0);
    let elsewhere = sandbox.path("elsewhere.json");
    fs::rename(&path, &elsewhere).unwrap();
    std::os::unix::fs::symlink(&elsewhere, &path).unwrap();
    let refused = output(sandbox.tool().args(["install", "--prefix"]).arg(&prefix));
    assert_eq!(refused.status.code(), Some(1));
    assert!(path.is_symlink());
}

#[test]
fn a_file_that_is_not_a_library_is_refused() {
    let sandbox = Sandbox::new();
    let file = sandbox.path("text.so");
    fs::write(&file, "text").unwrap();
    let refused = output(sandbox.tool().args(["install", "--library"]).arg(&file));
    assert_eq!(refused.status.code(), Some(1));
    assert!(one_error_line(&refused).contains("not a shared library"));
    assert!(manifests(&sandbox.home().join(".local/share/vulkan")).is_empty());
}

#[test]
fn a_folder_that_cannot_be_written_is_reported_in_one_line() {
    let sandbox = Sandbox::new();
    let file = sandbox.path("file");
    fs::write(&file, "").unwrap();
    let refused = output(sandbox.tool().args(["install", "--prefix"]).arg(&file));
    assert_eq!(refused.status.code(), Some(1));
    assert!(one_error_line(&refused).contains("file/share/vulkan"));
}

/// `sudo` may keep HOME.
#[test]
fn root_installs_nothing_into_a_users_home() {
    // SAFETY: geteuid has no preconditions.
    if unsafe { libc::geteuid() } != 0 {
        return skip::not_here(&skip::this_test(), "only root can be in somebody's home");
    }
    let sandbox = Sandbox::new();
    std::os::unix::fs::chown(sandbox.home(), Some(1234), Some(1234)).unwrap();
    let refused = output(sandbox.tool().arg("install"));
    assert_eq!(refused.status.code(), Some(1), "{refused:?}");
    assert!(one_error_line(&refused).contains("user 1234"), "{refused:?}");
    let kept = output(sandbox.tool().args(["keep", "--limit", "1GiB"]));
    assert_eq!(kept.status.code(), Some(1), "{kept:?}");
    assert!(one_error_line(&kept).contains("user 1234"), "{kept:?}");
    assert!(fs::read_dir(sandbox.home()).unwrap().next().is_none());
}

/// The page for players, whose commands a test follows.
const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/player.md");
const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../contrib/packaging/install.sh");

/// The commands of the page's section about removing, block by block.
fn commands_of_the_page() -> Vec<String> {
    let page = fs::read_to_string(PAGE).unwrap();
    let (_, section) = page.split_once("## Removing it\n").unwrap();
    let blocks = section.split("```sh\n").skip(1).map(|block| block.split_once("```").unwrap().0);
    blocks.map(str::to_owned).collect()
}

/// A folder like the archive's, below a home.
fn unpacked(sandbox: &Sandbox) -> PathBuf {
    let archive = sandbox.home().join("vkstash-0.1.0-x86_64");
    let copied = |from: &Path, to: &str| {
        let to = archive.join(to);
        fs::create_dir_all(to.parent().unwrap()).unwrap();
        fs::copy(from, to).unwrap();
    };
    copied(Path::new(SCRIPT), "install.sh");
    copied(Path::new(env!("CARGO_BIN_EXE_vkstash")), "bin/vkstash");
    copied(&std::env::current_exe().unwrap(), "lib/libVkLayer_vkstash.so");
    for file in [
        "share/man/man1/vkstash.1.gz",
        "share/bash-completion/completions/vkstash",
        "share/zsh/site-functions/_vkstash",
        "share/fish/vendor_completions.d/vkstash.fish",
        "share/doc/vkstash/docs/player.md",
        "lib/systemd/user/vkstash-remote.timer",
        "share/vulkan/implicit_layer.d/VkLayer_vkstash.x86_64.json",
    ] {
        copied(Path::new(PAGE), file);
    }
    archive
}

/// Everything that is not a folder below these, and every folder of vkstash's.
fn left_in(folders: &[PathBuf]) -> Vec<PathBuf> {
    let mut left = Vec::new();
    for entry in folders.iter().flat_map(|folder| fs::read_dir(folder).unwrap()).map(Result::unwrap) {
        let path = entry.path();
        if !entry.file_type().unwrap().is_dir() || entry.file_name().to_string_lossy().contains("vkstash") {
            left.push(path.clone());
        }
        if entry.file_type().unwrap().is_dir() {
            left.extend(left_in(&[path]));
        }
    }
    left
}

fn installed_from_the_archive(sandbox: &Sandbox) -> String {
    let archive = unpacked(sandbox);
    let mut install = sandbox.command("sh");
    install.arg(archive.join("install.sh")).arg("--user").env_remove("VKSTASH_LIBRARY");
    let installed = output(&mut install);
    assert!(installed.status.success(), "{installed:?}");
    text(&installed.stdout).to_owned()
}

fn shell(sandbox: &Sandbox, script: &str) -> String {
    let mut shell = sandbox.command("sh");
    shell.args(["-euc", script]).current_dir(sandbox.home()).env_remove("VKSTASH_LIBRARY");
    let done = output(shell.stdin(Stdio::null()));
    assert!(done.status.success(), "{script}: {done:?}");
    text(&done.stdout).to_owned()
}

/// A run, a setting, and a folder of what vkstash-remote fetches.
fn use_it(sandbox: &Sandbox) {
    shell(sandbox, "~/.local/bin/vkstash run --quiet -- true");
    shell(sandbox, "~/.local/bin/vkstash config set limit 8GiB");
    let stash = sandbox.home().join(".cache/vkstash/game-0000000000000001");
    for file in [stash.join("portable/x"), sandbox.home().join(".local/share/vkstash/remote/store/base/x")] {
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, "").unwrap();
    }
}

#[test]
fn the_script_of_the_archive_says_what_the_tool_says() {
    let sandbox = Sandbox::new();
    let said = installed_from_the_archive(&sandbox);
    let tool = shell(&sandbox, "~/.local/bin/vkstash install");
    assert!(tool.lines().count() > 12 && said.contains(&tool), "{said}");
    let own: Vec<_> = said.lines().filter(|line| !tool.contains(line)).collect();
    assert_eq!(own.len(), 3, "what was copied, the PATH, and doctor: {own:?}");
    assert!(own[0].starts_with("copied 8 files of vkstash "), "{own:?}");
}

#[test]
fn the_steps_of_the_page_for_players_leave_nothing() {
    let commands = commands_of_the_page();
    assert_eq!(commands.len(), 2, "{commands:?}");
    let [purging, by_hand] = [0, 1].map(|block: usize| commands[block].clone());
    let asked = purging.replace("--purge", "--purge --yes");
    assert_ne!(asked, purging);
    let not_purging = purging.replace(" --purge", "");
    for steps in [vec![asked], vec![not_purging, by_hand]] {
        let sandbox = Sandbox::new();
        installed_from_the_archive(&sandbox);
        use_it(&sandbox);
        let places = [sandbox.home(), sandbox.temp()];
        assert!(left_in(&places).len() > 30, "{:?}", left_in(&places));
        for step in &steps {
            shell(&sandbox, step);
        }
        assert_eq!(left_in(&places), [] as [PathBuf; 0], "{steps:?}");
    }
}

#[test]
fn what_was_copied_below_a_prefix_is_removed_by_the_tool_and_by_the_script() {
    for by_the_script in [false, true] {
        let sandbox = Sandbox::new();
        let (archive, prefix) = (unpacked(&sandbox), sandbox.path("prefix"));
        let [script, below] =
            [archive.join("install.sh"), prefix.clone()].map(|path| path.display().to_string());
        shell(&sandbox, &format!("sh {script} --prefix {below}"));
        assert!(prefix.join("bin/vkstash").exists() && prefix.join("share/vkstash/installed-files").exists());
        fs::write(prefix.join("bin/other"), "").unwrap();
        // That of the user is another one.
        shell(&sandbox, &format!("{below}/bin/vkstash uninstall"));
        assert!(prefix.join("bin/vkstash").exists());
        let tool = format!("{below}/bin/vkstash uninstall --prefix {below}");
        let by_script = format!("sh {script} --uninstall --prefix={below}");
        shell(&sandbox, if by_the_script { &by_script } else { &tool });
        assert_eq!(left_in(std::slice::from_ref(&prefix)), [prefix.join("bin/other")]);
    }
}

#[test]
fn nothing_is_purged_before_somebody_was_asked() {
    let sandbox = Sandbox::new();
    installed_from_the_archive(&sandbox);
    use_it(&sandbox);
    let before = left_in(&[sandbox.home()]);
    let refused = output(sandbox.tool().args(["uninstall", "--purge"]).stdin(Stdio::null()));
    assert_eq!(refused.status.code(), Some(1), "{refused:?}");
    assert!(one_error_line(&refused).contains("say --yes"), "{refused:?}");
    assert!(text(&refused.stdout).contains("/.cache/vkstash\n"), "{refused:?}");
    assert_eq!(left_in(&[sandbox.home()]), before);
    for place in [&["--system"][..], &["--prefix", "/nowhere"]] {
        let wrong = output(sandbox.tool().args(["uninstall", "--purge", "--yes"]).args(place));
        assert_eq!(wrong.status.code(), Some(2), "{wrong:?}");
    }
    // Without it, what stays is named, and a stash elsewhere is never touched.
    let elsewhere = sandbox.path("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    let said = output(sandbox.tool().arg("uninstall"));
    assert!(text(&said.stdout).contains("are left in:\n"), "{said:?}");
    assert!(sandbox.home().join(".cache/vkstash").exists());
    let purged =
        output(sandbox.tool().args(["uninstall", "--purge", "--yes"]).env("VKSTASH_DIR", &elsewhere));
    assert!(purged.status.success() && elsewhere.exists(), "{purged:?}");
    assert!(text(&purged.stdout).contains("VKSTASH_DIR names "), "{purged:?}");
    assert!(!sandbox.home().join(".cache/vkstash").exists());
}
