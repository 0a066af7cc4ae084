//! `vkstash run`: the command it starts, its signals and its exit status.

use std::os::unix::fs::MetadataExt as _;
use std::time::SystemTime;

use super::*;

#[test]
fn the_exit_status_is_the_commands() {
    let sandbox = Sandbox::new();
    for code in [0, 1, 2, 77, 126, 255] {
        assert_eq!(output(&mut sandbox.run(&format!("exit {code}"))).status.code(), Some(code));
    }
    assert!(sandbox.nothing_left_in_temp());
}

#[test]
fn a_command_that_dies_of_a_signal_takes_the_tool_with_it() {
    let sandbox = Sandbox::new();
    for signal in [libc::SIGKILL, libc::SIGTERM, libc::SIGSEGV, libc::SIGINT, libc::SIGPIPE] {
        let status = output(&mut sandbox.run(&format!("kill -{signal} $$"))).status;
        assert_eq!(status.signal(), Some(signal), "{status:?}");
        assert!(!status.core_dumped());
    }
    assert!(sandbox.nothing_left_in_temp());
}

#[test]
fn a_missing_command_is_127_and_a_file_that_is_not_executable_126() {
    let sandbox = Sandbox::new();
    let missing = output(sandbox.tool().args(["run", "--", "/no/such/command"]));
    assert_eq!(missing.status.code(), Some(127));
    assert!(one_error_line(&missing).contains("/no/such/command"));

    let file = sandbox.path("not-a-program");
    fs::write(&file, "text").unwrap();
    let refused = output(sandbox.tool().args(["run", "--"]).arg(&file));
    assert_eq!(refused.status.code(), Some(126));
    assert!(one_error_line(&refused).contains("not-a-program"));
    assert!(sandbox.nothing_left_in_temp());
}

#[test]
fn arguments_arrive_as_they_were_given() {
    let sandbox = Sandbox::new();
    let script = r#"for a in "$@"; do printf '[%s]' "$a"; done"#;
    let mut command = sandbox.tool();
    command.args(["run", "--quiet", "--", "sh", "-c", script, "sh"]);
    command.args(["--quiet", "-x", "--", "two words", "", "$HOME", "--dir=a"]);
    assert_eq!(text(&output(&mut command).stdout), "[--quiet][-x][--][two words][][$HOME][--dir=a]");

    let mut without_dashes = sandbox.tool();
    without_dashes.args(["run", "-q", "sh", "-c", script, "sh", "--quiet"]);
    assert_eq!(text(&output(&mut without_dashes).stdout), "[--quiet]");
}

#[test]
fn an_argument_that_is_no_text_arrives_too() {
    use std::os::unix::ffi::OsStrExt as _;
    let sandbox = Sandbox::new();
    let mut command = sandbox.tool();
    command.args(["run", "--quiet", "--", "printf", "%s"]).arg(OsStr::from_bytes(b"\xff\xfe"));
    assert_eq!(output(&mut command).stdout, b"\xff\xfe");
}

#[test]
fn standard_streams_are_the_commands() {
    let sandbox = Sandbox::new();
    let mut command = sandbox.run("cat; echo error >&2");
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"in\0put").unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.stdout.as_slice(), text(&output.stderr)), (b"in\0put".as_slice(), "error\n"));
}

#[test]
fn the_environment_is_the_callers_plus_the_layer() {
    let sandbox = Sandbox::new();
    let script =
        "echo $MINE; echo $VKSTASH; echo ${VKSTASH_DIR-unset}; test -d $VKSTASH_REPORT && echo folder";
    let output = output(sandbox.run(script).env("MINE", "kept").env("VKSTASH", "0"));
    assert_eq!(text(&output.stdout), "kept\n1\nunset\nfolder\n");
}

#[test]
fn limits_of_the_drivers_own_caches_are_raised_where_nobody_set_them() {
    let sandbox = Sandbox::new();
    let script = "echo ${MESA_SHADER_CACHE_MAX_SIZE-unset} ${__GL_SHADER_DISK_CACHE_SIZE-unset}";
    let printed = |command: &mut Command| text(&output(command).stdout).trim().to_owned();
    let bytes =
        |json: serde_json::Value, i: usize| json["keep"]["driver_limits"][i]["raised_to_bytes"].as_u64();
    let stats = || sandbox.tool().args(["stats", "--json"]).output().unwrap().stdout;
    let stats: serde_json::Value = serde_json::from_slice(&stats()).unwrap();
    // What `stats` says is what is done, whatever the size of this disk.
    let mesa = bytes(stats.clone(), 0).map_or("unset".to_owned(), |bytes| format!("{}G", bytes >> 30));
    let nvidia = bytes(stats, 1).map_or("unset".to_owned(), |bytes| bytes.to_string());
    assert_eq!(printed(&mut sandbox.run(script)), format!("{mesa} {nvidia}"));

    let mut chosen = sandbox.run(script);
    chosen.env("MESA_SHADER_CACHE_MAX_SIZE", "3G");
    assert_eq!(printed(&mut chosen), format!("3G {nvidia}"));
    for kept in ["keep", "unknown"] {
        let mut by_variable = sandbox.run(script);
        let expected = if kept == "keep" { "unset unset".to_owned() } else { format!("{mesa} {nvidia}") };
        assert_eq!(printed(by_variable.env("VKSTASH_DRIVER_LIMITS", kept)), expected);
    }
    let mut by_option = sandbox.tool();
    by_option.args(["run", "--quiet", "--driver-limits", "keep", "--", "sh", "-c", script]);
    assert_eq!(printed(&mut by_option), "unset unset");
    // A cache that is off needs no limit.
    let disable = ["cache", "disable", "driver-managed"];
    assert!(sandbox.tool().args(disable).status().unwrap().success());
    assert_eq!(printed(&mut sandbox.run(script)), "unset unset");
}

#[test]
fn translators_get_a_folder_in_the_stash_where_the_user_named_none() {
    let sandbox = Sandbox::new();
    let script = "echo ${DXVK_SHADER_CACHE_PATH-unset} ${VKD3D_SHADER_CACHE_PATH-unset}; \
                  [ \"$DXVK_STATE_CACHE_PATH\" = \"$DXVK_SHADER_CACHE_PATH\" ] || echo \"${DXVK_STATE_CACHE_PATH-none}\"";
    let printed = |command: &mut Command| text(&output(command).stdout).trim().to_owned();
    let line = printed(&mut sandbox.run(&format!("{script}; test -d $VKD3D_SHADER_CACHE_PATH || echo none")));
    let (dxvk, vkd3d) = line.split_once(' ').unwrap();
    assert_eq!(dxvk, vkd3d);
    let all = sandbox.home().join(".cache/vkstash/.translators");
    assert!(Path::new(dxvk).starts_with(&all) && dxvk.contains("/sh-"), "{dxvk}");
    assert!(Path::new(dxvk).is_dir(), "the game may go on, and vkd3d-proton creates no folder");

    assert_eq!(printed(sandbox.run(script).env("VKD3D_SHADER_CACHE_PATH", "0")), format!("{dxvk} 0"));
    let mut both = sandbox.run(script);
    both.env("VKD3D_SHADER_CACHE_PATH", "/a").env("DXVK_SHADER_CACHE_PATH", "");
    assert_eq!(
        printed(&mut both),
        format!("/a\n{dxvk}"),
        "the state cache of DXVK has a variable of its own"
    );
    assert_eq!(printed(both.env("DXVK_STATE_CACHE_PATH", "/b")), "/a\n/b");
    for (value, expected) in [("keep", "unset unset".to_owned()), ("unknown", line.clone())] {
        assert_eq!(printed(sandbox.run(script).env("VKSTASH_TRANSLATOR_CACHES", value)), expected);
    }
    let by_option = |value: &str| {
        let mut command = sandbox.tool();
        command.env("VKSTASH_TRANSLATOR_CACHES", "keep");
        command.args(["run", "--quiet", "--translator-caches", value, "--", "sh", "-c", script]);
        printed(&mut command)
    };
    assert_eq!((by_option("stash"), by_option("keep")), (line.clone(), "unset unset".to_owned()));
}

#[test]
fn translators_folders_that_are_empty_and_old_are_removed_by_a_later_run() {
    let sandbox = Sandbox::new();
    let run = |script: &str, game: &str| {
        let ran = output(sandbox.tool().args(["run", "-q", "--", "sh", "-c", script, game]));
        PathBuf::from(text(&ran.stdout).trim())
    };
    let names = "echo $VKD3D_SHADER_CACHE_PATH";
    let fresh = run(names, "/games/fresh.exe");
    let empty = run(names, "/games/empty.exe");
    let again = run(names, "/games/again.exe");
    let filled = run(&format!("{names}; touch $VKD3D_SHADER_CACHE_PATH/cache"), "/games/filled.exe");
    for folder in [&empty, &again, &filled] {
        let before = SystemTime::now() - Duration::from_secs(25 * 60 * 60);
        fs::File::open(folder).unwrap().set_modified(before).unwrap();
    }
    assert_eq!(run(names, "/games/again.exe"), again);
    let there = [&fresh, &empty, &again, &filled].map(|folder| folder.is_dir());
    assert_eq!(there, [true, false, true, true]);
}

#[test]
fn the_program_in_the_end_names_its_translators_folder() {
    let sandbox = Sandbox::new();
    let game = sandbox.path("game");
    fs::write(&game, "#!/bin/sh\necho $DXVK_SHADER_CACHE_PATH\n").unwrap();
    fs::set_permissions(&game, fs::Permissions::from_mode(0o755)).unwrap();
    let game = game.to_str().unwrap();
    let folder = |words: &[&str]| {
        let ran = output(sandbox.tool().args(["run", "--quiet", "--"]).args(words).arg(game));
        text(&ran.stdout).trim().to_owned()
    };
    let alone = folder(&[]);
    assert!(alone.contains("/game-"), "{alone}");
    let tool = env!("CARGO_BIN_EXE_vkstash");
    let wrappers: [&[&str]; 5] =
        [&["env", "A=b"], &["nice", "-n", "1"], &["sh"], &["timeout", "60"], &[tool, "run", "-q", "--"]];
    for words in wrappers {
        assert_eq!(folder(words), alone, "{words:?}");
    }
    let by_text = output(sandbox.tool().args(["run", "-q", "--", "sh", "-c", &format!("exec {game}")]));
    assert_eq!(text(&by_text.stdout).trim(), alone);
}

#[test]
fn a_translators_cache_is_named_at_the_end_and_nothing_else_touches_it() {
    let sandbox = Sandbox::new();
    let run =
        |script: &str| output(sandbox.tool().args(["run", "--", "sh", "-c", script, "/games/a/Game.exe"]));
    let stays = "cat $VKD3D_SHADER_CACHE_PATH/vkd3d-proton.Game.cache 2>/dev/null";
    let written = run("echo translated > $VKD3D_SHADER_CACHE_PATH/vkd3d-proton.Game.cache");
    let said = text(&written.stderr).lines().next().unwrap();
    assert!(said.starts_with("vkstash: the translator's cache is in ") && said.contains("/Game-"), "{said}");
    let folder = PathBuf::from(said.rsplit_once(" in ").unwrap().1);
    assert_eq!(fs::metadata(&folder).unwrap().permissions().mode() & 0o777, 0o700);
    let commands: [&[&str]; 8] = [
        &["gc"],
        &["verify", "--contents"],
        &["list"],
        &["stats"],
        &["cache", "clear", "sessions"],
        &["prune", "--older-than", "0s", "--yes"],
        &["doctor"],
        &["uninstall"],
    ];
    for command in commands {
        let done = output(sandbox.tool().args(command));
        assert!(!text(&done.stdout).contains("translators/"), "{command:?}: {done:?}");
        // The library of this test's sandbox cannot be loaded.
        assert!(done.status.success() || command[0] == "doctor", "{command:?}: {done:?}");
    }
    assert_eq!(text(&run(stays).stdout), "translated\n");
    let other = output(sandbox.tool().args(["run", "-q", "--", "sh", "-c", stays, "/games/b/Game.exe"]));
    assert_eq!(text(&other.stdout), "");
}

#[test]
fn a_relative_stash_folder_becomes_absolute() {
    let sandbox = Sandbox::new();
    let mut command = sandbox.tool();
    command.current_dir(sandbox.home());
    command.args(["run", "--quiet", "--dir", "stash", "--", "sh", "-c", "echo $VKSTASH_DIR"]);
    let expected = format!("{}\n", fs::canonicalize(sandbox.home()).unwrap().join("stash").display());
    assert_eq!(text(&output(&mut command).stdout), expected);
}

#[test]
fn the_manifest_is_in_front_of_the_data_folders() {
    let sandbox = Sandbox::new();
    let script = "echo $XDG_DATA_DIRS; cat ${XDG_DATA_DIRS%%:*}/vulkan/implicit_layer.d/*.json";
    let rest = |dirs: Option<&str>| {
        let mut command = sandbox.run(script);
        if let Some(dirs) = dirs {
            command.env("XDG_DATA_DIRS", dirs);
        }
        let output = output(&mut command);
        let (line, json) = text(&output.stdout).split_once('\n').unwrap();
        let manifest: serde_json::Value = serde_json::from_str(json).unwrap();
        assert_eq!(manifest["layer"]["name"], LAYER_NAME);
        let library = std::env::current_exe().unwrap();
        assert_eq!(manifest["layer"]["library_path"], library.to_str().unwrap());
        let (folder, rest) = line.split_once(':').unwrap();
        assert!(Path::new(folder).starts_with(sandbox.temp()));
        rest.to_owned()
    };
    assert_eq!(rest(None), "/usr/local/share:/usr/share");
    assert_eq!(rest(Some("")), "/usr/local/share:/usr/share");
    assert_eq!(rest(Some("/a:/b")), "/a:/b");
    assert!(sandbox.nothing_left_in_temp());
}

#[test]
fn newer_loaders_find_the_manifest_through_their_own_variables() {
    let sandbox = Sandbox::new();
    let only = output(sandbox.run("ls ${VK_IMPLICIT_LAYER_PATH%%:*}").env("VK_IMPLICIT_LAYER_PATH", "/a"));
    assert!(text(&only.stdout).starts_with("VkLayer_vkstash."), "{only:?}");
    let unset =
        output(&mut sandbox.run("echo ${VK_IMPLICIT_LAYER_PATH-unset}; ls $VK_ADD_IMPLICIT_LAYER_PATH"));
    assert!(text(&unset.stdout).starts_with("unset\nVkLayer_vkstash."), "{unset:?}");
    let mut command = sandbox.run("echo ${VK_ADD_IMPLICIT_LAYER_PATH#*:}");
    let added = output(command.env("VK_ADD_IMPLICIT_LAYER_PATH", "/a:/b"));
    assert_eq!(text(&added.stdout), "/a:/b\n");
}

#[test]
fn the_folder_of_the_run_is_private() {
    let sandbox = Sandbox::new();
    let output = output(&mut sandbox.run("stat -c %a ${XDG_DATA_DIRS%%:*}"));
    assert_eq!(text(&output.stdout), "700\n");
}

/// The folder with the manifests that a run has named, and the inode and text of the only one.
fn manifests_of(command: &mut Command) -> (PathBuf, u64, String) {
    let printed = output(command);
    let folder = PathBuf::from(text(&printed.stdout).split(':').next().unwrap());
    let [manifest] = only_files(&folder.join("vulkan/implicit_layer.d")).try_into().unwrap();
    let inode = fs::metadata(&manifest).unwrap().ino();
    (folder, inode, fs::read_to_string(manifest).unwrap())
}

fn only_files(folder: &Path) -> Vec<PathBuf> {
    fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect()
}

#[test]
fn what_the_loader_reads_stays_after_the_run_and_is_used_again() {
    let sandbox = Sandbox::new();
    let run = || manifests_of(&mut sandbox.run("printf %s $XDG_DATA_DIRS"));
    let (folder, inode, first) = run();
    assert!(folder.starts_with(sandbox.runs()), "{folder:?}");
    assert_eq!(run(), (folder.clone(), inode, first.clone()), "it is not written again");
    // Another library, another folder.
    let library = sandbox.path("lib.so");
    fs::copy(std::env::current_exe().unwrap(), &library).unwrap();
    let mut other = sandbox.tool();
    other.args(["run", "--quiet", "--library"]).arg(&library);
    let (other, _, text) = manifests_of(other.args(["--", "sh", "-c", "printf %s $XDG_DATA_DIRS"]));
    assert!(other != folder && text.contains(library.to_str().unwrap()), "{other:?}: {text}");
    // What is damaged or missing is mended.
    let manifest = only_files(&folder.join("vulkan/implicit_layer.d")).remove(0);
    for damage in ["", "{}", &first[..first.len() / 2], &format!("{first} ")] {
        fs::write(&manifest, damage).unwrap();
        assert_eq!(run().2, first, "{damage}");
    }
    fs::set_permissions(&manifest, fs::Permissions::from_mode(0o000)).unwrap();
    assert_eq!(run().2, first);
    fs::remove_dir_all(folder.join("vulkan")).unwrap();
    assert_eq!(run().2, first);
    assert_eq!(sandbox.for_the_loader().len(), 2);
}

#[test]
fn runs_at_once_share_what_the_loader_reads() {
    let sandbox = Sandbox::new();
    let start =
        |_| sandbox.run("cat ${XDG_DATA_DIRS%%:*}/vulkan/implicit_layer.d/*").stdout(Stdio::piped()).spawn();
    let started: Vec<_> = (0..12).map(start).collect();
    let ended = started.into_iter().map(|child| child.unwrap().wait_with_output().unwrap());
    let texts: std::collections::BTreeSet<_> = ended.map(|output| text(&output.stdout).to_owned()).collect();
    assert!(texts.len() == 1 && texts.first().unwrap().contains(LAYER_NAME), "{texts:?}");
    assert_eq!(sandbox.for_the_loader().len(), 1);
    assert!(sandbox.nothing_left_in_temp());
}

#[test]
fn what_no_run_has_used_for_long_is_removed_by_one_that_adds_to_it() {
    let sandbox = Sandbox::new();
    let with = |name: &str, script: &str| {
        let library = sandbox.path(name);
        fs::copy(std::env::current_exe().unwrap(), &library).unwrap();
        let mut command = sandbox.run(script);
        command.env("VKSTASH_LIBRARY", library);
        command
    };
    let print = "printf %s $XDG_DATA_DIRS";
    let [recent, old, used] = ["recent", "old", "used"].map(|name| manifests_of(&mut with(name, print)).0);
    let (mut user, _lines) = started(with("used", "echo ready; read line").stdin(Stdio::piped()));
    let long_ago = |path: &Path| {
        let before = std::time::SystemTime::now() - Duration::from_secs(31 * 24 * 3600);
        fs::File::open(path).unwrap().set_modified(before).unwrap();
    };
    [&old, &used].into_iter().for_each(|path| long_ago(path));
    // A run that adds nothing looks for nothing.
    manifests_of(&mut with("recent", print));
    assert!(old.exists());
    let new = manifests_of(&mut with("new", print)).0;
    assert!(!old.exists() && [&recent, &used, &new].iter().all(|path| path.exists()));
    drop(user.stdin.take());
    user.wait().unwrap();
    // Its use is what counts, and not when it was made.
    long_ago(&used);
    manifests_of(&mut with("used", print));
    manifests_of(&mut with("newer", print));
    assert!(used.exists());
}

#[test]
fn a_temporary_folder_that_a_search_path_cannot_name_is_not_used() {
    let sandbox = Sandbox::new();
    let odd = sandbox.path("a:b");
    fs::create_dir(&odd).unwrap();
    let output = output(sandbox.run("ls ${XDG_DATA_DIRS%%:*}/vulkan/implicit_layer.d").env("TMPDIR", &odd));
    assert!(text(&output.stdout).starts_with("VkLayer_vkstash."), "{output:?}");
    assert!(fs::read_dir(&odd).unwrap().next().is_none());
}

#[test]
fn an_empty_name_of_the_temporary_folder_is_none() {
    let sandbox = Sandbox::new();
    let output = output(sandbox.run("ls ${XDG_DATA_DIRS%%:*}/vulkan/implicit_layer.d").env("TMPDIR", ""));
    assert!(text(&output.stdout).starts_with("VkLayer_vkstash."), "{output:?}");
}

/// A seccomp filter under which every call that waits for a disk fails with EIO.
fn without_syncs(command: &mut Command) {
    let calls = [libc::SYS_fsync, libc::SYS_fdatasync, libc::SYS_syncfs, libc::SYS_sync_file_range];
    let statement = |code: u32, jt: u8, jf: u8, k: u32| libc::sock_filter { code: code as u16, jt, jf, k };
    // The number of the call is the first field of seccomp_data.
    let mut filter = vec![statement(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0)];
    for call in calls {
        filter.push(statement(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 0, 1, call as u32));
        let refuse = libc::SECCOMP_RET_ERRNO | libc::EIO as u32;
        filter.push(statement(libc::BPF_RET | libc::BPF_K, 0, 0, refuse));
    }
    filter.push(statement(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ALLOW));
    // SAFETY: prctl is async-signal-safe; the filter lives in the closure, and the kernel copies it in the call.
    unsafe {
        command.pre_exec(move || {
            let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_mut_ptr() };
            let set = libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
                && libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program) == 0;
            if set { Ok(()) } else { Err(std::io::Error::last_os_error()) }
        });
    }
}

#[test]
fn a_run_waits_for_no_disk() {
    let sandbox = Sandbox::new();
    let mut command = sandbox.run("ls ${XDG_DATA_DIRS%%:*}/vulkan/implicit_layer.d");
    without_syncs(&mut command);
    let ran = output(&mut command);
    assert!(text(&ran.stdout).starts_with("VkLayer_vkstash."), "{ran:?}");
    // What is installed has to be there after a crash of the machine.
    let mut install = sandbox.tool();
    without_syncs(install.arg("install"));
    assert_eq!(output(&mut install).status.code(), Some(1));
}

#[test]
fn the_end_is_one_line_unless_quiet() {
    let sandbox = Sandbox::new();
    let loud = output(sandbox.tool().args(["run", "--", "true"]));
    assert!(one_error_line(&loud).contains("the layer was not loaded: the command does not use Vulkan"));
    assert!(loud.stdout.is_empty());
    let quiet = output(sandbox.tool().args(["run", "--quiet", "--", "true"]));
    assert!(quiet.stderr.is_empty() && quiet.stdout.is_empty());
}

#[test]
fn a_disabled_layer_stays_disabled_and_is_named() {
    let sandbox = Sandbox::new();
    let mut command = sandbox.tool();
    command.args(["run", "--", "sh", "-c", "echo $VKSTASH_DISABLE"]).env("VKSTASH_DISABLE", "yes");
    let output = output(&mut command);
    assert_eq!(text(&output.stdout), "yes\n");
    assert!(one_error_line(&output).contains("VKSTASH_DISABLE"));
}

#[test]
fn without_a_library_the_command_still_runs() {
    let sandbox = Sandbox::new();
    let mut command = sandbox.run("echo ran; echo ${VKSTASH-unset}; exit 3");
    let output = output(command.env("VKSTASH_LIBRARY", sandbox.path("gone.so")));
    assert_eq!((text(&output.stdout), output.status.code()), ("ran\nunset\n", Some(3)));
    assert!(one_error_line(&output).contains("gone.so"));
}

#[test]
fn without_a_temporary_folder_the_command_still_runs() {
    let sandbox = Sandbox::new();
    let output = output(sandbox.run("echo ran").env("TMPDIR", sandbox.path("nowhere")));
    assert_eq!((text(&output.stdout), output.status.code()), ("ran\n", Some(0)));
    assert!(one_error_line(&output).contains("running without the stash"));
}

#[test]
fn a_library_named_by_the_user_must_be_usable() {
    let sandbox = Sandbox::new();
    let file = sandbox.path("text.so");
    fs::write(&file, "not a library").unwrap();
    let output = output(sandbox.tool().args(["run", "--library"]).arg(&file).args(["--", "echo", "ran"]));
    assert_eq!((text(&output.stdout), output.status.code()), ("", Some(1)));
    assert!(one_error_line(&output).contains("not a shared library"));
}

#[test]
fn wrong_usage_is_2() {
    let sandbox = Sandbox::new();
    for wrong in [vec![], vec!["run"], vec!["run", "--typo", "true"], vec!["fly"]] {
        assert_eq!(output(sandbox.tool().args(&wrong)).status.code(), Some(2), "{wrong:?}");
    }
}

#[test]
fn signals_reach_the_command() {
    let sandbox = Sandbox::new();
    for (name, signal) in
        [("TERM", libc::SIGTERM), ("HUP", libc::SIGHUP), ("USR1", libc::SIGUSR1), ("USR2", libc::SIGUSR2)]
    {
        let script = format!("trap 'echo got; exit 7' {name}; echo ready; while :; do sleep 0.02; done");
        let mut command = sandbox.run(&script);
        // A shell cannot trap a signal that it inherits as ignored, from nohup for instance. SAFETY: the closure runs
        // between fork and exec; it only calls signal, which is async-signal-safe, with constants.
        unsafe {
            command.pre_exec(move || {
                libc::signal(signal, libc::SIG_DFL);
                Ok(())
            });
        }
        let (mut child, mut lines) = started(&mut command);
        send(&child, signal);
        let mut line = String::new();
        lines.read_line(&mut line).unwrap();
        assert_eq!((line.as_str(), child.wait().unwrap().code()), ("got\n", Some(7)), "{name}");
    }
    assert!(sandbox.nothing_left_in_temp());
}

/// As the first process of a container, whose session is that of a process outside.
#[test]
fn signals_reach_the_command_in_a_pid_namespace() {
    let alone = ["unshare", "--map-root-user", "--pid", "--fork", "--kill-child"];
    if !Command::new(alone[0]).args(&alone[1..]).arg("true").output().is_ok_and(|made| made.status.success())
    {
        skip::not_here(&skip::this_test(), "no namespaces of processes");
        return;
    }
    let sandbox = Sandbox::new();
    for name in ["TERM", "HUP", "INT"] {
        // The end of a namespace's first process ends all others.
        let script =
            format!("trap 'echo got; exit 7' {name}; kill -{name} $PPID; while :; do sleep 0.02; done");
        let mut command = sandbox.command(alone[0]);
        command
            .args(&alone[1..])
            .arg(env!("CARGO_BIN_EXE_vkstash"))
            .args(["run", "--quiet", "--", "sh", "-c", &script]);
        let output = output(&mut command);
        assert_eq!((text(&output.stdout), output.status.code()), ("got\n", Some(7)), "{name}: {output:?}");
    }
}

#[test]
fn a_terminated_command_leaves_no_folder_behind() {
    let sandbox = Sandbox::new();
    let (mut child, _lines) = started(&mut sandbox.run("echo ready; exec sleep 60"));
    assert!(!sandbox.nothing_left_in_temp());
    send(&child, libc::SIGTERM);
    assert_eq!(child.wait().unwrap().signal(), Some(libc::SIGTERM));
    assert!(sandbox.nothing_left_in_temp());
}

#[test]
fn an_interrupt_sent_to_the_tool_alone_is_passed_on() {
    let sandbox = Sandbox::new();
    let (mut child, _lines) = started(&mut sandbox.run("echo ready; exec sleep 60"));
    send(&child, libc::SIGINT);
    assert_eq!(child.wait().unwrap().signal(), Some(libc::SIGINT));
}

#[test]
fn a_control_c_at_the_terminal_arrives_once() {
    use std::fs::File;
    use std::os::fd::FromRawFd as _;
    let sandbox = Sandbox::new();
    let (mut master, mut terminal) = (-1, -1);
    // SAFETY: openpty writes the two numbers, and NULL stands for what is not wanted.
    let opened = unsafe {
        libc::openpty(&mut master, &mut terminal, std::ptr::null_mut(), std::ptr::null(), std::ptr::null())
    };
    if opened != 0 {
        let why = std::io::Error::last_os_error();
        skip::not_here(&skip::this_test(), &format!("no terminals: {why}"));
        return;
    }
    // SAFETY: openpty opened both, and nothing else owns them.
    let (mut master, terminal) = unsafe { (File::from_raw_fd(master), File::from_raw_fd(terminal)) };
    let script = "n=0; trap 'n=$((n+1))' INT; echo ready; \
                  while [ $n = 0 ]; do sleep 0.02; done; sleep 0.3; exit $((10 + n))";
    let mut command = sandbox.run(script);
    command.stdin(terminal.try_clone().unwrap());
    // SAFETY: setsid and ioctl are async-signal-safe; standard input is the terminal by now.
    unsafe {
        command.pre_exec(|| {
            libc::setsid();
            if libc::ioctl(0, libc::TIOCSCTTY, 0) < 0 { Err(std::io::Error::last_os_error()) } else { Ok(()) }
        });
    }
    let (mut child, _lines) = started(&mut command);
    master.write_all(b"\x03").unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(11));
}

#[test]
fn the_command_starts_with_no_signal_blocked() {
    let sandbox = Sandbox::new();
    let mut command = sandbox.tool();
    command.args(["run", "--quiet", "--", "grep", "-E", "SigBlk|SigIgn", "/proc/self/status"]);
    let mut direct = Command::new("grep");
    direct.args(["-E", "SigBlk|SigIgn", "/proc/self/status"]);
    interruptible(&mut direct);
    // Without the signals that the C library reserves: it sets them when it starts a program.
    let signals = |command: &mut Command| -> Vec<u64> {
        let output = super::output(command);
        let masks = text(&output.stdout).lines().map(|line| line.split_whitespace().last().unwrap());
        masks.map(|mask| u64::from_str_radix(mask, 16).unwrap() & !(0b11 << 31)).collect()
    };
    assert_eq!(signals(&mut command), signals(&mut direct));
}

#[test]
fn a_caller_that_ignores_its_children_gets_the_status_all_the_same() {
    let sandbox = Sandbox::new();
    let mut command = sandbox.tool();
    command.args(["run", "--quiet", "--", "grep", "SigIgn", "/proc/self/status"]);
    // SAFETY: the closure runs between fork and exec; it only calls signal, which is async-signal-safe, with constants.
    unsafe {
        command.pre_exec(|| {
            libc::signal(libc::SIGCHLD, libc::SIG_IGN);
            Ok(())
        });
    }
    let output = output(&mut command);
    assert_eq!(output.status.code(), Some(0));
    let ignored = text(&output.stdout).split_whitespace().nth(1).unwrap().to_owned();
    let ignored = u64::from_str_radix(&ignored, 16).unwrap();
    assert_ne!(ignored & (1 << (libc::SIGCHLD - 1)), 0, "the command inherits what the caller chose");
}

/// The ignored signals that `grep` prints of the command, with `signal` set as the caller has it.
fn ignored_with(sandbox: &Sandbox, signal: i32, before: libc::sighandler_t) -> u64 {
    let mut command = sandbox.tool();
    command.args(["run", "--quiet", "--", "grep", "SigIgn", "/proc/self/status"]);
    // SAFETY: the closure runs between fork and exec; it only calls signal, which is async-signal-safe, with constants.
    unsafe {
        command.pre_exec(move || {
            libc::signal(signal, before);
            Ok(())
        });
    }
    let output = output(&mut command);
    u64::from_str_radix(text(&output.stdout).split_whitespace().nth(1).unwrap(), 16).unwrap()
}

#[test]
fn the_command_meets_failing_writes_as_the_caller_would() {
    let sandbox = Sandbox::new();
    for signal in [libc::SIGPIPE, libc::SIGXFSZ] {
        let bit = 1 << (signal - 1);
        assert_ne!(ignored_with(&sandbox, signal, libc::SIG_IGN) & bit, 0, "{signal}");
        assert_eq!(ignored_with(&sandbox, signal, libc::SIG_DFL) & bit, 0, "{signal}");
    }
}

#[test]
fn where_no_file_may_be_written_the_tool_says_so_and_runs_the_command() {
    let sandbox = Sandbox::new();
    let limited = |arguments: &str| {
        let tool = sandbox.tool();
        let environment = tool.get_envs().filter_map(|(name, value)| Some((name, value?)));
        let mut shell = Command::new("sh");
        shell.arg("-c").arg(format!("ulimit -f 0; exec \"$0\" {arguments}")).arg(tool.get_program());
        output(shell.env_clear().envs(environment))
    };
    let ran = limited("run -- sh -c 'exit 7'");
    assert_eq!(ran.status.code(), Some(7), "{ran:?}");
    assert!(text(&ran.stderr).contains("running without the stash"), "{ran:?}");
    for command in ["install", "keep --limit 1GiB"] {
        let failed = limited(command);
        assert_eq!(failed.status.code(), Some(1), "{command}: {failed:?}");
        one_error_line(&failed);
    }
}

/// `script` in a shell, with the tool as `$0`.
fn shell(sandbox: &Sandbox, script: &str) -> Command {
    let mut command = Command::new("sh");
    let tool = sandbox.tool();
    command.args(["-c", script]).arg(tool.get_program()).env_clear();
    command.envs(tool.get_envs().filter_map(|(name, value)| Some((name, value?))));
    command
}

#[test]
fn streams_that_are_closed_are_closed_for_the_command() {
    let sandbox = Sandbox::new();
    let list =
        "\"$0\" run --quiet -- sh -c 'for n in 0 1 2; do [ -e /proc/$$/fd/$n ] || echo $n >>seen; done'";
    for (closed, expected) in
        [("", ""), ("<&-", "0\n"), (">&-", "1\n"), ("2>&-", "2\n"), ("<&- >&-", "0\n1\n")]
    {
        let seen = sandbox.home().join("seen");
        fs::write(&seen, "").unwrap();
        assert!(
            shell(&sandbox, &format!("{list} {closed}"))
                .current_dir(sandbox.home())
                .status()
                .unwrap()
                .success()
        );
        assert_eq!(fs::read_to_string(&seen).unwrap(), expected, "{closed:?}");
    }
}

#[test]
fn a_closed_standard_output_is_an_error() {
    let sandbox = Sandbox::new();
    for arguments in
        ["stats", "stats --json", "keep", "gc", "quarantine", "uninstall", "--help", "stats --help", "-V"]
    {
        // Closed, open for reading only, and full.
        for where_to in [">&-", "1</dev/null", ">/dev/full"] {
            let output = output(&mut shell(&sandbox, &format!("\"$0\" {arguments} {where_to}")));
            assert_eq!(output.status.code(), Some(1), "{arguments} {where_to}");
            assert!(one_error_line(&output).contains("cannot print"), "{arguments} {where_to}: {output:?}");
        }
        let fine = shell(&sandbox, &format!("\"$0\" {arguments} | true")).status().unwrap();
        assert!(fine.success());
    }
}

#[test]
fn folders_of_killed_runs_are_removed_by_the_next_run() {
    let sandbox = Sandbox::new();
    let (mut killed, lines) = started(sandbox.run("echo ready; read line").stdin(Stdio::piped()));
    let (mut alive, _lines) = started(sandbox.run("echo ready; read line").stdin(Stdio::piped()));
    killed.kill().unwrap();
    killed.wait().unwrap();
    drop(lines);
    let folders = || fs::read_dir(sandbox.runs()).unwrap().count() - sandbox.for_the_loader().len();
    assert_eq!(folders(), 2);
    // Folders of others in the same place.
    let odd = ["vkstash-", "vkstash-run", "vkstash-translator-1"].map(|name| sandbox.runs().join(name));
    odd.iter().for_each(|path| fs::create_dir(path).unwrap());
    let link = sandbox.runs().join("vkstash-run-1-2-3");
    std::os::unix::fs::symlink(sandbox.home(), &link).unwrap();
    fs::write(sandbox.home().join("precious"), "").unwrap();
    assert!(output(&mut sandbox.run("true")).status.success());
    odd.iter().for_each(|path| fs::remove_dir(path).unwrap());
    fs::remove_file(&link).unwrap();
    assert!(sandbox.home().join("precious").exists());
    assert_eq!(folders(), 1, "the one that goes on keeps its folder");
    drop(alive.stdin.take());
    alive.wait().unwrap();
    assert!(sandbox.nothing_left_in_temp());
}

#[test]
fn nobody_else_can_make_the_folder_of_a_run_again() {
    let sandbox = Sandbox::new();
    let runtime = sandbox.path("runtime");
    fs::create_dir(&runtime).unwrap();
    let folder = || {
        let output = output(sandbox.run("printf %s $VKSTASH_REPORT").env("XDG_RUNTIME_DIR", &runtime));
        (PathBuf::from(text(&output.stdout)), text(&output.stderr).to_owned())
    };
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o7777;
    let (reports, _) = folder();
    assert!(reports.starts_with(sandbox.runs()) && !reports.exists(), "{reports:?}");
    assert_eq!(mode(&sandbox.runs()), 0o700, "what a process that lives on names is out of reach");
    // One that another user may write to is not used, ...
    let own = runtime.join(sandbox.runs().file_name().unwrap());
    fs::set_permissions(sandbox.runs(), fs::Permissions::from_mode(0o770)).unwrap();
    assert!(folder().0.starts_with(&own));
    // ... and neither is where a link leads.
    fs::remove_dir_all(sandbox.runs()).unwrap();
    std::os::unix::fs::symlink(sandbox.home(), sandbox.runs()).unwrap();
    assert!(folder().0.starts_with(&own));
    assert_eq!(mode(&own), 0o700);
    fs::set_permissions(&own, fs::Permissions::from_mode(0o707)).unwrap();
    let (none, told) = folder();
    assert!(none.as_os_str().is_empty() && told.contains("running without the stash"), "{told}");
}

/// The state of a process by /proc: R, S, T (stopped), Z.
fn state(pid: u32) -> char {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    // The name stands in parentheses before it, and may contain some itself.
    stat.rsplit_once(") ").unwrap().1.chars().next().unwrap()
}

#[test]
fn a_stopped_and_continued_tool_goes_on_waiting() {
    let sandbox = Sandbox::new();
    let mut command = sandbox.run("echo ready; read line; exit 9");
    let (mut child, _lines) = started(command.stdin(Stdio::piped()));
    send(&child, libc::SIGSTOP);
    while state(child.id()) != 'T' {
        std::thread::yield_now();
    }
    send(&child, libc::SIGCONT);
    drop(child.stdin.take());
    assert_eq!(child.wait().unwrap().code(), Some(9));
}

#[test]
fn the_tool_ends_with_its_command_whatever_that_leaves_running() {
    let sandbox = Sandbox::new();
    let output = output(&mut sandbox.run("sleep 600 >/dev/null 2>&1 & echo $!; exit 3"));
    let left: libc::pid_t = text(&output.stdout).trim().parse().unwrap();
    // SAFETY: kill takes plain numbers; the shell printed this one for the process that it left running.
    let was_running = unsafe { libc::kill(left, libc::SIGKILL) } == 0;
    assert!(was_running, "the tool has waited for it");
    assert_eq!(output.status.code(), Some(3));
    assert!(sandbox.nothing_left_in_temp());
}

#[test]
fn a_run_within_a_run_works() {
    let sandbox = Sandbox::new();
    let tool = env!("CARGO_BIN_EXE_vkstash");
    let output = output(&mut sandbox.run(&format!("{tool} run --quiet -- sh -c 'exit 4'")));
    assert_eq!(output.status.code(), Some(4));
    assert!(sandbox.nothing_left_in_temp());
}

#[test]
fn a_browser_that_the_user_names_runs_with_the_stash() {
    let sandbox = Sandbox::new();
    let browser = sandbox.path("firefox");
    fs::write(&browser, "#!/bin/sh\nprintf '<%s>' \"${VKSTASH_EXCLUDED_PROGRAMS-unset}\"\n").unwrap();
    fs::set_permissions(&browser, fs::Permissions::from_mode(0o755)).unwrap();
    let run = |value: Option<&str>, program: &Path| {
        let mut command = sandbox.tool();
        command
            .args(["run", "--"])
            .arg(program)
            .envs(value.map(|value| ("VKSTASH_EXCLUDED_PROGRAMS", value)));
        let output = output(&mut command);
        (text(&output.stdout).to_owned(), text(&output.stderr).contains("firefox is left alone elsewhere"))
    };
    assert_eq!(run(None, &browser), ("<>".to_owned(), true));
    assert_eq!(run(Some("other"), &browser), ("<other>".to_owned(), false), "the user has said more");
    let wrapped = output(sandbox.tool().args(["run", "--", "env", "A=b", "nice"]).arg(&browser));
    assert!(
        text(&wrapped.stdout) == "<>" && text(&wrapped.stderr).contains("firefox is left alone elsewhere")
    );
    let game = sandbox.path("game");
    fs::copy(&browser, &game).unwrap();
    assert_eq!(run(None, &game), ("<unset>".to_owned(), false));
}
