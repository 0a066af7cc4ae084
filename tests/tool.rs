//! Drives the real `vkstash` binary as a person, a shell or a launcher would.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test ends at the first surprise")]

use std::ffi::OsStr;
use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

const LAYER_NAME: &str = "VK_LAYER_VKSTASH_pipeline_cache";

/// A home, a temporary folder and a stand-in for the layer library, for one test.
struct House {
    folder: TempDir,
}

impl House {
    fn new() -> House {
        let house = House { folder: TempDir::new().unwrap() };
        fs::create_dir(house.temp()).unwrap();
        fs::create_dir(house.home()).unwrap();
        house
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn temp(&self) -> PathBuf {
        self.path("tmp")
    }

    fn home(&self) -> PathBuf {
        self.path("home")
    }

    /// The tool in an environment of which nothing but PATH comes from the machine. This test's own
    /// executable stands for the layer library: it has the right architecture, and nothing here loads it.
    fn tool(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_vkstash"));
        command.env_clear().env("PATH", std::env::var_os("PATH").unwrap());
        command.env("HOME", self.home()).env("TMPDIR", self.temp());
        command.env("VKSTASH_LIBRARY", std::env::current_exe().unwrap());
        interruptible(&mut command);
        command
    }

    /// `vkstash run --quiet -- sh -c SCRIPT`.
    fn run(&self, script: &str) -> Command {
        let mut command = self.tool();
        command.args(["run", "--quiet", "--", "sh", "-c", script]);
        command
    }

    fn nothing_left_in_temp(&self) -> bool {
        fs::read_dir(self.temp()).unwrap().next().is_none()
    }
}

/// Whoever starts these tests in the background has interrupts ignored in them, and so in what they start.
fn interruptible(command: &mut Command) {
    // SAFETY: signal is async-signal-safe.
    unsafe {
        command.pre_exec(|| {
            libc::signal(libc::SIGINT, libc::SIG_DFL);
            libc::signal(libc::SIGQUIT, libc::SIG_DFL);
            Ok(())
        });
    }
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

fn output(command: &mut Command) -> Output {
    command.output().unwrap()
}

fn one_error_line(output: &Output) -> &str {
    let line = text(&output.stderr);
    assert!(line.starts_with("vkstash: ") && line.ends_with('\n'), "{line:?}");
    assert_eq!(line.lines().count(), 1, "{line}");
    line
}

/// Starts `command` and waits until the command inside has said that it is ready.
fn started(command: &mut Command) -> (Child, BufReader<std::process::ChildStdout>) {
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    lines.read_line(&mut line).unwrap();
    assert_eq!(line, "ready\n");
    (child, lines)
}

fn send(child: &Child, signal: i32) {
    let pid = i32::try_from(child.id()).unwrap();
    // SAFETY: kill takes plain numbers, and the child has not been waited for.
    assert_eq!(unsafe { libc::kill(pid, signal) }, 0);
}

mod run {
    use super::*;

    #[test]
    fn the_exit_status_is_the_commands() {
        let house = House::new();
        for code in [0, 1, 2, 77, 126, 255] {
            assert_eq!(output(&mut house.run(&format!("exit {code}"))).status.code(), Some(code));
        }
        assert!(house.nothing_left_in_temp());
    }

    #[test]
    fn a_command_that_dies_of_a_signal_takes_the_tool_with_it() {
        let house = House::new();
        for signal in [libc::SIGKILL, libc::SIGTERM, libc::SIGSEGV, libc::SIGINT, libc::SIGPIPE] {
            let status = output(&mut house.run(&format!("kill -{signal} $$"))).status;
            assert_eq!(status.signal(), Some(signal), "{status:?}");
            assert!(!status.core_dumped());
        }
        assert!(house.nothing_left_in_temp());
    }

    #[test]
    fn a_missing_command_is_127_and_one_that_is_no_program_126() {
        let house = House::new();
        let missing = output(house.tool().args(["run", "--", "/no/such/command"]));
        assert_eq!(missing.status.code(), Some(127));
        assert!(one_error_line(&missing).contains("/no/such/command"));

        let file = house.path("not-a-program");
        fs::write(&file, "text").unwrap();
        let refused = output(house.tool().args(["run", "--"]).arg(&file));
        assert_eq!(refused.status.code(), Some(126));
        assert!(one_error_line(&refused).contains("not-a-program"));
        assert!(house.nothing_left_in_temp());
    }

    #[test]
    fn arguments_arrive_as_they_were_given() {
        let house = House::new();
        let script = r#"for a in "$@"; do printf '[%s]' "$a"; done"#;
        let mut command = house.tool();
        command.args(["run", "--quiet", "--", "sh", "-c", script, "sh"]);
        command.args(["--quiet", "-x", "--", "two words", "", "$HOME", "--dir=a"]);
        assert_eq!(text(&output(&mut command).stdout), "[--quiet][-x][--][two words][][$HOME][--dir=a]");

        let mut without_dashes = house.tool();
        without_dashes.args(["run", "-q", "sh", "-c", script, "sh", "--quiet"]);
        assert_eq!(text(&output(&mut without_dashes).stdout), "[--quiet]");
    }

    #[test]
    fn an_argument_that_is_no_text_arrives_too() {
        use std::os::unix::ffi::OsStrExt as _;
        let house = House::new();
        let mut command = house.tool();
        command.args(["run", "--quiet", "--", "printf", "%s"]).arg(OsStr::from_bytes(b"\xff\xfe"));
        assert_eq!(output(&mut command).stdout, b"\xff\xfe");
    }

    #[test]
    fn standard_streams_are_the_commands() {
        let house = House::new();
        let mut command = house.run("cat; echo error >&2");
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        child.stdin.take().unwrap().write_all(b"in\0put").unwrap();
        let output = child.wait_with_output().unwrap();
        assert_eq!((output.stdout.as_slice(), text(&output.stderr)), (b"in\0put".as_slice(), "error\n"));
    }

    #[test]
    fn the_environment_is_the_callers_plus_the_layer() {
        let house = House::new();
        let script =
            "echo $MINE; echo $VKSTASH; echo ${VKSTASH_DIR-unset}; test -d $VKSTASH_REPORT && echo folder";
        let output = output(house.run(script).env("MINE", "kept").env("VKSTASH", "0"));
        assert_eq!(text(&output.stdout), "kept\n1\nunset\nfolder\n");
    }

    #[test]
    fn a_relative_stash_folder_becomes_absolute() {
        let house = House::new();
        let mut command = house.tool();
        command.current_dir(house.home());
        command.args(["run", "--quiet", "--dir", "stash", "--", "sh", "-c", "echo $VKSTASH_DIR"]);
        let expected = format!("{}\n", fs::canonicalize(house.home()).unwrap().join("stash").display());
        assert_eq!(text(&output(&mut command).stdout), expected);
    }

    #[test]
    fn the_manifest_is_in_front_of_the_data_folders() {
        let house = House::new();
        let script = "echo $XDG_DATA_DIRS; cat ${XDG_DATA_DIRS%%:*}/vulkan/implicit_layer.d/*.json";
        let rest = |dirs: Option<&str>| {
            let mut command = house.run(script);
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
            assert!(Path::new(folder).starts_with(house.temp()));
            rest.to_owned()
        };
        assert_eq!(rest(None), "/usr/local/share:/usr/share");
        assert_eq!(rest(Some("")), "/usr/local/share:/usr/share");
        assert_eq!(rest(Some("/a:/b")), "/a:/b");
        assert!(house.nothing_left_in_temp());
    }

    #[test]
    fn newer_loaders_find_the_manifest_through_their_own_variables() {
        let house = House::new();
        let only = output(house.run("ls ${VK_IMPLICIT_LAYER_PATH%%:*}").env("VK_IMPLICIT_LAYER_PATH", "/a"));
        assert!(text(&only.stdout).starts_with("VkLayer_vkstash."), "{only:?}");
        let unset =
            output(&mut house.run("echo ${VK_IMPLICIT_LAYER_PATH-unset}; ls $VK_ADD_IMPLICIT_LAYER_PATH"));
        assert!(text(&unset.stdout).starts_with("unset\nVkLayer_vkstash."), "{unset:?}");
        let mut command = house.run("echo ${VK_ADD_IMPLICIT_LAYER_PATH#*:}");
        let added = output(command.env("VK_ADD_IMPLICIT_LAYER_PATH", "/a:/b"));
        assert_eq!(text(&added.stdout), "/a:/b\n");
    }

    #[test]
    fn the_folder_of_the_run_is_private() {
        let house = House::new();
        let output = output(&mut house.run("stat -c %a ${XDG_DATA_DIRS%%:*}"));
        assert_eq!(text(&output.stdout), "700\n");
    }

    #[test]
    fn a_temporary_folder_that_a_search_path_cannot_name_is_not_used() {
        let house = House::new();
        let odd = house.path("a:b");
        fs::create_dir(&odd).unwrap();
        let output = output(house.run("ls ${XDG_DATA_DIRS%%:*}/vulkan/implicit_layer.d").env("TMPDIR", &odd));
        assert!(text(&output.stdout).starts_with("VkLayer_vkstash."), "{output:?}");
        assert!(fs::read_dir(&odd).unwrap().next().is_none());
    }

    #[test]
    fn the_end_is_one_line_unless_quiet() {
        let house = House::new();
        let loud = output(house.tool().args(["run", "--", "true"]));
        assert!(one_error_line(&loud).contains("no pipeline was created ("));
        assert!(loud.stdout.is_empty());
        let quiet = output(house.tool().args(["run", "--quiet", "--", "true"]));
        assert!(quiet.stderr.is_empty() && quiet.stdout.is_empty());
    }

    #[test]
    fn a_disabled_layer_stays_disabled_and_is_named() {
        let house = House::new();
        let mut command = house.tool();
        command.args(["run", "--", "sh", "-c", "echo $VKSTASH_DISABLE"]).env("VKSTASH_DISABLE", "yes");
        let output = output(&mut command);
        assert_eq!(text(&output.stdout), "yes\n");
        assert!(one_error_line(&output).contains("VKSTASH_DISABLE"));
    }

    #[test]
    fn without_a_library_the_command_still_runs() {
        let house = House::new();
        let mut command = house.run("echo ran; echo ${VKSTASH-unset}; exit 3");
        let output = output(command.env("VKSTASH_LIBRARY", house.path("gone.so")));
        assert_eq!((text(&output.stdout), output.status.code()), ("ran\nunset\n", Some(3)));
        assert!(one_error_line(&output).contains("gone.so"));
    }

    #[test]
    fn without_a_temporary_folder_the_command_still_runs() {
        let house = House::new();
        let output = output(house.run("echo ran").env("TMPDIR", house.path("nowhere")));
        assert_eq!((text(&output.stdout), output.status.code()), ("ran\n", Some(0)));
        assert!(one_error_line(&output).contains("running without the stash"));
    }

    #[test]
    fn a_library_that_was_asked_for_by_name_must_be_one() {
        let house = House::new();
        let file = house.path("text.so");
        fs::write(&file, "not a library").unwrap();
        let output = output(house.tool().args(["run", "--library"]).arg(&file).args(["--", "echo", "ran"]));
        assert_eq!((text(&output.stdout), output.status.code()), ("", Some(1)));
        assert!(one_error_line(&output).contains("not a shared library"));
    }

    #[test]
    fn wrong_usage_is_2() {
        let house = House::new();
        for wrong in [vec![], vec!["run"], vec!["run", "--typo", "true"], vec!["fly"]] {
            assert_eq!(output(house.tool().args(&wrong)).status.code(), Some(2), "{wrong:?}");
        }
    }

    #[test]
    fn signals_reach_the_command() {
        let house = House::new();
        for (name, signal) in
            [("TERM", libc::SIGTERM), ("HUP", libc::SIGHUP), ("USR1", libc::SIGUSR1), ("USR2", libc::SIGUSR2)]
        {
            let script = format!("trap 'echo got; exit 7' {name}; echo ready; while :; do sleep 0.02; done");
            let (mut child, mut lines) = started(&mut house.run(&script));
            send(&child, signal);
            let mut line = String::new();
            lines.read_line(&mut line).unwrap();
            assert_eq!((line.as_str(), child.wait().unwrap().code()), ("got\n", Some(7)), "{name}");
        }
        assert!(house.nothing_left_in_temp());
    }

    #[test]
    fn a_terminated_command_leaves_no_folder_behind() {
        let house = House::new();
        let (mut child, _lines) = started(&mut house.run("echo ready; exec sleep 60"));
        assert!(!house.nothing_left_in_temp());
        send(&child, libc::SIGTERM);
        assert_eq!(child.wait().unwrap().signal(), Some(libc::SIGTERM));
        assert!(house.nothing_left_in_temp());
    }

    #[test]
    fn an_interrupt_sent_to_the_tool_alone_is_passed_on() {
        let house = House::new();
        let (mut child, _lines) = started(&mut house.run("echo ready; exec sleep 60"));
        send(&child, libc::SIGINT);
        assert_eq!(child.wait().unwrap().signal(), Some(libc::SIGINT));
    }

    #[test]
    fn a_control_c_at_the_terminal_arrives_once() {
        use std::fs::File;
        use std::os::fd::FromRawFd as _;
        let house = House::new();
        let (mut master, mut terminal) = (-1, -1);
        // SAFETY: openpty writes the two numbers, and NULL stands for what is not wanted.
        let opened = unsafe {
            libc::openpty(
                &mut master,
                &mut terminal,
                std::ptr::null_mut(),
                std::ptr::null(),
                std::ptr::null(),
            )
        };
        if opened != 0 {
            eprintln!("skipped: this machine gives out no terminals ({})", std::io::Error::last_os_error());
            return;
        }
        // SAFETY: both are open and belong to nobody else.
        let (mut master, terminal) = unsafe { (File::from_raw_fd(master), File::from_raw_fd(terminal)) };
        let script = "n=0; trap 'n=$((n+1))' INT; echo ready; \
                      while [ $n = 0 ]; do sleep 0.02; done; sleep 0.3; exit $((10 + n))";
        let mut command = house.run(script);
        command.stdin(terminal.try_clone().unwrap());
        // SAFETY: setsid and ioctl are async-signal-safe; standard input is the terminal by now.
        unsafe {
            command.pre_exec(|| {
                libc::setsid();
                if libc::ioctl(0, libc::TIOCSCTTY, 0) < 0 {
                    Err(std::io::Error::last_os_error())
                } else {
                    Ok(())
                }
            });
        }
        let (mut child, _lines) = started(&mut command);
        master.write_all(b"\x03").unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(11));
    }

    #[test]
    fn the_command_starts_with_no_signal_blocked() {
        let house = House::new();
        let mut command = house.tool();
        command.args(["run", "--quiet", "--", "grep", "-E", "SigBlk|SigIgn", "/proc/self/status"]);
        let mut direct = Command::new("grep");
        direct.args(["-E", "SigBlk|SigIgn", "/proc/self/status"]);
        interruptible(&mut direct);
        // Without the signals that the C library keeps to itself: it sets them as it likes when it starts
        // a program.
        let signals = |command: &mut Command| -> Vec<u64> {
            let output = super::output(command);
            let masks = text(&output.stdout).lines().map(|line| line.split_whitespace().last().unwrap());
            masks.map(|mask| u64::from_str_radix(mask, 16).unwrap() & !(0b11 << 31)).collect()
        };
        assert_eq!(signals(&mut command), signals(&mut direct));
    }

    #[test]
    fn a_caller_that_ignores_its_children_gets_the_status_all_the_same() {
        let house = House::new();
        let mut command = house.tool();
        command.args(["run", "--quiet", "--", "grep", "SigIgn", "/proc/self/status"]);
        // SAFETY: signal is async-signal-safe and gets constants.
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

    #[test]
    fn a_stopped_and_continued_tool_goes_on_waiting() {
        let house = House::new();
        let (mut child, _lines) = started(&mut house.run("echo ready; sleep 0.3; exit 9"));
        send(&child, libc::SIGSTOP);
        std::thread::sleep(Duration::from_millis(50));
        send(&child, libc::SIGCONT);
        assert_eq!(child.wait().unwrap().code(), Some(9));
    }

    #[test]
    fn waiting_costs_no_time_after_the_end() {
        let house = House::new();
        let start = Instant::now();
        assert!(output(&mut house.run("true")).status.success());
        assert!(start.elapsed() < Duration::from_secs(5));
    }

    #[test]
    fn a_run_within_a_run_works() {
        let house = House::new();
        let tool = env!("CARGO_BIN_EXE_vkstash");
        let output = output(&mut house.run(&format!("{tool} run --quiet -- sh -c 'exit 4'")));
        assert_eq!(output.status.code(), Some(4));
        assert!(house.nothing_left_in_temp());
    }
}

/// `vkstash run` with the layer itself, a real driver and a real Vulkan program.
mod layer {
    use super::*;

    /// What lies in the target folder when the whole workspace is built, and a driver that needs no GPU.
    struct Real {
        house: House,
        library: PathBuf,
        driver: PathBuf,
        program: PathBuf,
    }

    const LAVAPIPE: &str = "lvp_icd";
    /// On its null device.
    const RADV: &str = "radeon_icd";

    /// None, with a line that says why, where something is missing.
    fn real(driver_name: &str) -> Option<Real> {
        let target = Path::new(env!("CARGO_BIN_EXE_vkstash")).parent().unwrap();
        let library = target.join("libVkLayer_vkstash.so");
        let program = target.join("vkstash-corpus");
        let drivers = fs::read_dir("/usr/share/vulkan/icd.d").ok();
        let mut drivers = drivers.into_iter().flatten().map(|entry| entry.unwrap().path());
        let driver = drivers.find(|path| {
            let name = path.file_name().unwrap().to_str().unwrap();
            name.starts_with(driver_name) && name.ends_with(".json") && !name.contains("i686")
        });
        let missing = [
            (library.exists(), "the layer library (cargo build --workspace makes it)"),
            (program.exists(), "vkstash-corpus (cargo build --workspace makes it)"),
            (driver.is_some(), driver_name),
        ];
        if let Some((_, what)) = missing.into_iter().find(|(there, _)| !there) {
            assert!(
                std::env::var_os("VKSTASH_REQUIRE_DRIVERS").is_none_or(|value| value != "1"),
                "no {what}"
            );
            eprintln!("skipped: no {what}");
            return None;
        }
        Some(Real { house: House::new(), library, driver: driver?, program })
    }

    impl Real {
        /// `vkstash run -- vkstash-corpus ...` on that driver, without the driver's own disk cache.
        fn run(&self, arguments: &[&str]) -> Command {
            let mut command = self.house.tool();
            command.env("VKSTASH_LIBRARY", &self.library).env("MESA_SHADER_CACHE_DISABLE", "true");
            command.env("VK_DRIVER_FILES", &self.driver).env("VK_ICD_FILENAMES", &self.driver);
            command.env("RADV_FORCE_FAMILY", "navi21");
            command.args(["run", "--"]).arg(&self.program).args(arguments);
            command
        }

        /// A folder with one small compute shader.
        fn modules(&self) -> String {
            let folder = self.house.path("modules");
            fs::create_dir_all(&folder).unwrap();
            let words = SHADER.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>();
            fs::write(folder.join("empty.spv"), words).unwrap();
            folder.to_str().unwrap().to_owned()
        }
    }

    /// `void main() {}` with a local size of 1, 1, 1.
    #[rustfmt::skip]
    const SHADER: [u32; 35] = [
        0x0723_0203, 0x0001_0000, 0, 5, 0,
        // OpCapability Shader; OpMemoryModel Logical GLSL450
        0x0002_0011, 1, 0x0003_000e, 0, 1,
        // OpEntryPoint GLCompute %1 "main"; OpExecutionMode %1 LocalSize 1 1 1
        0x0005_000f, 5, 1, 0x6e69_616d, 0, 0x0006_0010, 1, 17, 1, 1, 1,
        // %2 = OpTypeVoid; %3 = OpTypeFunction %2; %1 = OpFunction %2 None %3
        0x0002_0013, 2, 0x0003_0021, 3, 2, 0x0005_0036, 2, 1, 0, 3,
        // OpLabel %4; OpReturn; OpFunctionEnd
        0x0002_00f8, 4, 0x0001_00fd, 0x0001_0038,
    ];

    fn last_line(output: &Output) -> &str {
        assert!(output.status.success(), "{output:?}");
        text(&output.stderr).lines().last().unwrap()
    }

    #[test]
    fn the_second_run_is_served_and_the_statistics_know() {
        let Some(real) = real(RADV) else { return };
        let modules = real.modules();
        let arguments = ["--modules", &modules];
        let first = output(&mut real.run(&arguments));
        let required = std::env::var_os("VKSTASH_REQUIRE_DRIVERS").is_some_and(|value| value == "1");
        if !first.status.success() && !required {
            eprintln!("skipped: RADV has no null device here");
            return;
        }
        assert!(
            last_line(&first).starts_with("vkstash: 0 served (0.0 %), 1 compiled, 0 bypassed; "),
            "{first:?}"
        );
        let second = output(&mut real.run(&arguments));
        assert!(last_line(&second).starts_with("vkstash: 1 served (100.0 %), 0 compiled, "), "{second:?}");
        assert!(real.house.nothing_left_in_temp());

        let stats = output(real.house.tool().args(["stats", "--json"]));
        let json: serde_json::Value = serde_json::from_slice(&stats.stdout).unwrap();
        let application = &json["applications"][0];
        assert_eq!((&application["name"], &application["runs"]), (&"vkstash-corpus".into(), &2.into()));
        assert_eq!(application["hit_percent"], 50.0);
        assert_eq!(application["devices"][0]["driver"], "VK_DRIVER_ID_MESA_RADV");
    }

    #[test]
    fn a_disabled_layer_records_nothing() {
        let Some(real) = real(LAVAPIPE) else { return };
        let output = output(real.run(&["--modules", &real.modules()]).env("VKSTASH_DISABLE", "1"));
        assert!(last_line(&output).contains("VKSTASH_DISABLE is set"), "{output:?}");
        assert!(!real.house.home().join(".cache/vkstash").exists());
    }

    #[test]
    fn an_installed_layer_waits_to_be_switched_on() {
        let Some(real) = real(LAVAPIPE) else { return };
        let house = &real.house;
        let installed = output(house.tool().arg("install").env("VKSTASH_LIBRARY", &real.library));
        assert!(installed.status.success(), "{installed:?}");
        let report = house.path("report");
        let program = |switch: Option<&str>| {
            // As a user starts it: without the tool.
            let mut command = Command::new(&real.program);
            command.args(["--modules", &real.modules()]).env_clear().env("HOME", house.home());
            command.env("VK_DRIVER_FILES", &real.driver).env("VK_ICD_FILENAMES", &real.driver);
            command.env("VKSTASH_REPORT", &report).envs(switch.map(|value| ("VKSTASH", value)));
            let output = output(&mut command);
            assert!(output.status.success(), "{output:?}");
            fs::read_dir(&report).map_or(0, |entries| entries.count())
        };
        assert_eq!(program(None), 0);
        assert_eq!(program(Some("1")), 1);
    }

    #[test]
    fn a_program_without_pipelines_is_told_so() {
        let Some(real) = real(LAVAPIPE) else { return };
        let output = output(&mut real.run(&["--no-pipelines"]));
        assert!(output.status.success(), "{output:?}");
        assert!(text(&output.stderr).starts_with("vkstash: no pipeline was created"), "{output:?}");
        assert!(real.house.nothing_left_in_temp());
    }
}

mod install {
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
    fn both_manifests_of_a_user_come_and_go() {
        let house = House::new();
        let installed = output(house.tool().arg("install"));
        assert!(installed.status.success(), "{installed:?}");
        assert!(text(&installed.stdout).contains("VKSTASH=1"));
        let vulkan = house.home().join(".local/share/vulkan");
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
        // Once more is an update.
        assert!(output(house.tool().arg("install")).status.success());
        assert_eq!(manifests(&vulkan).len(), 2);

        let removed = output(house.tool().arg("uninstall"));
        assert!(removed.status.success());
        assert_eq!(text(&removed.stdout).lines().count(), 2);
        assert!(manifests(&vulkan).is_empty());
        let again = output(house.tool().arg("uninstall"));
        assert!(again.status.success() && text(&again.stdout).contains("not installed"));
    }

    #[test]
    fn the_users_data_folder_is_respected() {
        let house = House::new();
        let data = house.path("data");
        assert!(output(house.tool().arg("install").env("XDG_DATA_HOME", &data)).status.success());
        assert_eq!(manifests(&data.join("vulkan")).len(), 2);
        assert!(manifests(&house.home().join(".local/share/vulkan")).is_empty());
    }

    #[test]
    fn a_packager_writes_into_a_staging_folder_and_names_the_final_library() {
        let house = House::new();
        let stage = house.path("stage");
        let library = "/usr/lib/vkstash-test/libVkLayer_vkstash.so";
        let staged = stage.join(&library[1..]);
        fs::create_dir_all(staged.parent().unwrap()).unwrap();
        fs::copy(std::env::current_exe().unwrap(), &staged).unwrap();
        let mut command = house.tool();
        command.args(["install", "--prefix", "/usr", "--library", library, "--destdir"]).arg(&stage);
        let installed = output(&mut command);
        assert!(installed.status.success(), "{installed:?}");
        let found = manifests(&stage.join("usr/share/vulkan"));
        assert_eq!(found.len(), 2);
        assert!(found.iter().all(|path| json(path)["layer"]["library_path"] == library));
    }

    #[test]
    fn a_foreign_file_is_neither_overwritten_nor_removed_and_stops_everything() {
        let house = House::new();
        let prefix = house.path("prefix");
        let folder = prefix.join("share/vulkan/explicit_layer.d");
        fs::create_dir_all(&folder).unwrap();
        let foreign = folder.join(format!("VkLayer_vkstash.{}.json", std::env::consts::ARCH));
        for content in ["{\"layer\": {\"name\": \"VK_LAYER_other\"}}", "not json", ""] {
            fs::write(&foreign, content).unwrap();
            for verb in ["install", "uninstall"] {
                let refused = output(house.tool().args([verb, "--prefix"]).arg(&prefix));
                assert_eq!(refused.status.code(), Some(1));
                assert!(one_error_line(&refused).contains("left alone"));
                assert_eq!(fs::read_to_string(&foreign).unwrap(), content);
                assert_eq!(manifests(&prefix.join("share/vulkan")), std::slice::from_ref(&foreign));
            }
        }
    }

    #[test]
    fn a_symbolic_link_is_not_followed() {
        let house = House::new();
        let prefix = house.path("prefix");
        assert!(output(house.tool().args(["install", "--prefix"]).arg(&prefix)).status.success());
        let path = manifests(&prefix.join("share/vulkan")).remove(0);
        let elsewhere = house.path("elsewhere.json");
        fs::rename(&path, &elsewhere).unwrap();
        std::os::unix::fs::symlink(&elsewhere, &path).unwrap();
        let refused = output(house.tool().args(["install", "--prefix"]).arg(&prefix));
        assert_eq!(refused.status.code(), Some(1));
        assert!(path.is_symlink());
    }

    #[test]
    fn a_library_that_is_none_is_refused() {
        let house = House::new();
        let file = house.path("text.so");
        fs::write(&file, "text").unwrap();
        let refused = output(house.tool().args(["install", "--library"]).arg(&file));
        assert_eq!(refused.status.code(), Some(1));
        assert!(one_error_line(&refused).contains("not a shared library"));
        assert!(manifests(&house.home().join(".local/share/vulkan")).is_empty());
    }

    #[test]
    fn a_folder_that_cannot_be_written_is_one_clear_line() {
        let house = House::new();
        let file = house.path("file");
        fs::write(&file, "").unwrap();
        let refused = output(house.tool().args(["install", "--prefix"]).arg(&file));
        assert_eq!(refused.status.code(), Some(1));
        assert!(one_error_line(&refused).contains("file/share/vulkan"));
    }
}

mod stats {
    use VkLayer_vkstash::stats::{Count, DeviceReport, RunReport, StoreReport};
    use VkLayer_vkstash::store::header::DeviceHeader;
    use VkLayer_vkstash::store::name::AppName;
    use VkLayer_vkstash::store::part::{Key, Kind};
    use VkLayer_vkstash::store::stash::Stash;

    use super::*;

    fn stats(house: &House, dir: &Path, json: bool) -> Output {
        let mut command = house.tool();
        command.arg("stats").arg("--dir").arg(dir);
        if json {
            command.arg("--json");
        }
        output(&mut command)
    }

    fn parsed(output: &Output) -> serde_json::Value {
        assert!(output.status.success(), "{output:?}");
        serde_json::from_slice(&output.stdout).unwrap()
    }

    #[test]
    fn a_missing_and_an_empty_root_have_nothing_recorded_yet() {
        let house = House::new();
        for dir in [house.path("missing"), house.temp()] {
            let output = stats(&house, &dir, false);
            assert!(output.status.success());
            assert_eq!(text(&output.stdout), format!("nothing recorded yet in {}\n", dir.display()));
            let json = parsed(&stats(&house, &dir, true));
            assert_eq!(json["schema"], 1);
            assert_eq!(json["applications"], serde_json::json!([]));
        }
    }

    #[test]
    fn the_users_cache_folder_is_the_default() {
        let house = House::new();
        let of = |command: &mut Command| parsed(&output(command.args(["stats", "--json"])))["root"].clone();
        assert_eq!(of(&mut house.tool()), house.home().join(".cache/vkstash").to_str().unwrap());
        let cache = house.path("cache");
        assert_eq!(of(house.tool().env("XDG_CACHE_HOME", &cache)), cache.join("vkstash").to_str().unwrap());
        assert_eq!(of(house.tool().env("VKSTASH_DIR", &cache)), cache.to_str().unwrap());
    }

    #[test]
    fn a_root_that_is_a_file_is_one_clear_line() {
        let house = House::new();
        let file = house.path("file");
        fs::write(&file, "").unwrap();
        let output = stats(&house, &file, false);
        assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(1), b"".as_slice()));
        assert!(one_error_line(&output).contains("cannot read the stash"));
    }

    #[test]
    fn a_root_full_of_other_things_has_nothing_recorded_yet() {
        let house = House::new();
        let root = house.path("root");
        fs::create_dir_all(root.join("some-folder/runs")).unwrap();
        fs::write(root.join("some-folder/runs/x"), "x").unwrap();
        fs::write(root.join("game-0123456789abcdef"), "a file").unwrap();
        std::os::unix::fs::symlink("/", root.join("link-0123456789abcdef")).unwrap();
        let output = stats(&house, &root, false);
        let shown = text(&output.stdout);
        assert!(shown.starts_with("nothing recorded yet"), "{shown}");
        assert!(shown.contains("is a symbolic link") && shown.lines().count() == 2, "{shown}");
    }

    /// A process that is not there any more: reports of running ones are never folded.
    fn ended_process() -> u32 {
        let mut child = Command::new("true").spawn().unwrap();
        child.wait().unwrap();
        child.id()
    }

    fn header() -> DeviceHeader {
        DeviceHeader {
            vendor_id: 0x1002,
            device_id: 0x73bf,
            pipeline_cache_uuid: [7; 16],
            driver_id: 3,
            driver_version: (25 << 22) | 7,
            pointer_width: 8,
            schema: 1,
            features_digest: [9; 32],
        }
    }

    fn key(number: u8) -> Key {
        [number; std::mem::size_of::<Key>()]
    }

    /// One run of an application as the layer does it: `put` goes into its device part.
    fn run_of(root: &Path, app: &AppName, moment: u64, pid: u32, counters: &[(Count, u64)], put: &[u8]) {
        let stash = Stash::open(root, app).unwrap();
        let part = stash.device(&header()).unwrap();
        for &number in put {
            assert!(stash.portable().put(Kind::Recipe, &key(number), vec![number; 100].into()));
            assert!(part.put(Kind::Artifact, &key(number), vec![number; 4000].into()));
        }
        let counters = counters.iter().map(|&(what, value)| (what.name().to_owned(), value)).collect();
        let device = DeviceReport {
            name: "Test GPU".to_owned(),
            vendor_id: header().vendor_id,
            device_id: header().device_id,
            driver_id: header().driver_id,
            driver_version: header().driver_version,
            part: part.name().to_owned(),
            counters,
            bypassed: Vec::new(),
        };
        let report = RunReport {
            application: app.display.clone(),
            started_unix_ms: moment,
            updated_unix_ms: moment + 5,
            pid,
            devices: vec![device],
            store: StoreReport::default(),
        };
        stash.set_reporter(Box::new(move |store| RunReport { store, ..report.clone() }));
        stash.touch();
        drop(part);
        drop(stash);
    }

    fn game() -> AppName {
        AppName::new(Some(b"My Game"), b"/usr/bin/game", &[])
    }

    #[test]
    fn folded_runs_count_like_the_others() {
        let house = House::new();
        let root = house.path("root");
        let pid = ended_process();
        for run in 0..150 {
            let served = if run == 0 { 0 } else { 2 };
            let counters = [(Count::Served, served), (Count::Compiled, 2 - served)];
            let put: &[u8] = if run == 0 { &[1, 2] } else { &[] };
            run_of(&root, &game(), 1_000_000 + run * 1000, pid, &counters, put);
        }
        let reports = fs::read_dir(root.join(game().folder).join("runs")).unwrap();
        let left = reports.filter(|entry| entry.as_ref().unwrap().path().extension() == Some("vkr".as_ref()));
        assert!(left.count() < 100, "nothing was folded");

        let json = parsed(&stats(&house, &root, true));
        let application = &json["applications"][0];
        assert_eq!(application["runs"], 150);
        assert_eq!(application["since_unix_ms"], 1_000_000);
        assert_eq!(application["last_use_unix_ms"], 1_149_005);
        assert_eq!(application["counters"]["served"], 298);
        assert_eq!(application["hit_percent"], 99.3);
        assert_eq!(application["store"]["written_records"], 4);
        assert_eq!(application["benefit"], "some");
        let output = stats(&house, &root, false);
        let shown = text(&output.stdout);
        assert!(shown.contains("My_Game: ") && shown.contains(", 150 runs since 1970-01-01"), "{shown}");
    }

    #[test]
    fn parts_are_listed_with_sizes_records_and_what_they_are_bound_to() {
        let house = House::new();
        let root = house.path("root");
        run_of(&root, &game(), 1000, 1, &[(Count::Compiled, 3)], &[1, 2, 3]);
        let json = parsed(&stats(&house, &root, true));
        let application = &json["applications"][0];
        let parts = application["parts"].as_array().unwrap();
        assert_eq!(parts.len(), 2, "{parts:?}");
        assert_eq!((&parts[0]["name"], &parts[0]["records"]["recipe"]), (&"portable".into(), &3.into()));
        assert!(parts[0]["bound_to"].is_null());
        assert_eq!(parts[1]["name"], application["devices"][0]["parts"][0]);
        assert_eq!(parts[1]["records"], serde_json::json!({ "artifact": 3 }));
        assert_eq!(parts[1]["payload_bytes"]["artifact"], 12_000);
        assert_eq!(parts[1]["sealed_segments"], 1);
        assert_eq!(parts[1]["bound_to"]["driver"], "VK_DRIVER_ID_MESA_RADV");
        let bytes: u64 = parts.iter().map(|part| part["bytes"].as_u64().unwrap()).sum();
        assert!(bytes > 12_300);
        assert_eq!((&application["bytes"], &json["bytes"]), (&bytes.into(), &bytes.into()));
        assert_eq!(application["benefit"], "unknown");
        let output = stats(&house, &root, false);
        let shown = text(&output.stdout);
        assert!(shown.contains("(MESA_RADV 25.0.7): ") && shown.contains(", 3 artifacts\n"), "{shown}");
    }

    #[test]
    fn nothing_served_in_several_runs_is_said_plainly() {
        let house = House::new();
        let root = house.path("root");
        for run in 1..=3 {
            run_of(&root, &game(), run * 1000, 1, &[(Count::DriverHad, 9)], &[]);
        }
        let json = parsed(&stats(&house, &root, true));
        assert_eq!(json["applications"][0]["benefit"], "none");
        let output = stats(&house, &root, false);
        let shown = text(&output.stdout);
        assert!(
            shown.contains("  no benefit here: nothing was served in 3 runs; the driver's own cache"),
            "{shown}"
        );
    }

    #[test]
    fn damaged_and_foreign_segments_are_named() {
        let house = House::new();
        let root = house.path("root");
        run_of(&root, &game(), 1000, 1, &[(Count::Compiled, 3)], &[1, 2, 3]);
        let stash = root.join(game().folder);
        let device = fs::read_dir(&stash).unwrap().map(|entry| entry.unwrap().path());
        let device = device.into_iter().find(|path| path.to_str().unwrap().contains("/device-")).unwrap();
        let segment = |folder: &Path| fs::read_dir(folder).unwrap().next().unwrap().unwrap().path();
        let (own, portable) = (segment(&device), segment(&stash.join("portable")));
        fs::write(device.join("aaa.vks"), "no segment, but longer than the header of one is. ".repeat(20))
            .unwrap();
        fs::copy(&portable, device.join("bbb.vks")).unwrap();
        fs::write(device.join("ccc.vks"), "").unwrap();
        std::os::unix::fs::symlink(&own, device.join("ddd.vks")).unwrap();
        // Without its end it has no index, and the record at the end is cut.
        let whole = fs::read(&own).unwrap();
        fs::write(&own, &whole[..9000]).unwrap();

        let json = parsed(&stats(&house, &root, true));
        let part = &json["applications"][0]["parts"][1];
        let refused = part["refused_files"].as_array().unwrap();
        let reasons: Vec<_> = refused.iter().map(|file| file["reason"].as_str().unwrap()).collect();
        assert_eq!(reasons, ["not_a_segment", "other_part", "truncated", "symbolic_link"]);
        assert_eq!((&part["sealed_segments"], &part["records"]["artifact"]), (&0.into(), &2.into()));
        let output = stats(&house, &root, false);
        let shown = text(&output.stdout);
        assert!(shown.contains("    refused aaa.vks: not a segment\n"), "{shown}");
        assert!(shown.contains("    refused ddd.vks: a symbolic link\n"), "{shown}");
        assert!(shown.contains("2 artifacts"), "{shown}");
    }

    #[test]
    fn what_the_store_met_is_shown() {
        let house = House::new();
        let root = house.path("root");
        let stash = Stash::open(&root, &game()).unwrap();
        stash.set_reporter(Box::new(|_| RunReport {
            store: StoreReport {
                unusable: "a read-only file system".to_owned(),
                refused: [("other_driver".to_owned(), 2)].into(),
                damaged_records: 4,
                write_errors: [("no space left on device".to_owned(), 3)].into(),
                dropped: 1,
                ..StoreReport::default()
            },
            ..RunReport::default()
        }));
        stash.touch();
        drop(stash);
        let store = &parsed(&stats(&house, &root, true))["applications"][0]["store"];
        assert_eq!(store["unusable"]["a read-only file system"], 1);
        assert_eq!((&store["damaged_records"], &store["dropped"]), (&4.into(), &1.into()));
        assert_eq!(store["write_errors"]["no space left on device"], 3);
        let output = stats(&house, &root, false);
        let shown = text(&output.stdout);
        for line in [
            "  the stash could not be used in 1 run: a read-only file system\n",
            "  files refused in those runs: 2 other_driver\n",
            "  4 damaged records skipped in those runs\n",
            "  failed writes: 3 no space left on device\n",
            "  1 record not written\n",
        ] {
            assert!(shown.contains(line), "{line}{shown}");
        }
    }

    #[test]
    fn a_root_that_others_may_write_to_is_one_clear_line() {
        let house = House::new();
        let root = house.path("root");
        run_of(&root, &game(), 1000, 1, &[], &[1]);
        fs::set_permissions(&root, fs::Permissions::from_mode(0o777)).unwrap();
        let refused = stats(&house, &root, false);
        assert_eq!((refused.status.code(), refused.stdout.as_slice()), (Some(1), b"".as_slice()));
        assert!(one_error_line(&refused).contains("can be written to by others (mode 777)"));
    }

    #[test]
    fn a_root_that_cannot_be_read_is_one_clear_line() {
        let house = House::new();
        let root = house.path("root");
        fs::create_dir(&root).unwrap();
        fs::set_permissions(&root, fs::Permissions::from_mode(0o000)).unwrap();
        if fs::read_dir(&root).is_ok() {
            eprintln!("skipped: permissions do not bind this user");
            return;
        }
        let refused = stats(&house, &root, true);
        assert_eq!((refused.status.code(), refused.stdout.as_slice()), (Some(1), b"".as_slice()));
        assert!(one_error_line(&refused).contains("cannot be opened"));
    }

    #[test]
    fn an_application_that_others_may_write_to_is_left_out_with_its_reason() {
        let house = House::new();
        let root = house.path("root");
        run_of(&root, &game(), 1000, 1, &[(Count::Compiled, 1)], &[1]);
        let other = AppName::new(Some(b"Other"), b"/usr/bin/other", &[]);
        run_of(&root, &other, 2000, 1, &[(Count::Compiled, 1)], &[1]);
        let folder = root.join(&other.folder);
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o770)).unwrap();
        let json = parsed(&stats(&house, &root, true));
        assert_eq!(json["applications"].as_array().unwrap().len(), 1);
        assert_eq!(json["unreadable"][0]["path"], folder.to_str().unwrap());
        let output = stats(&house, &root, false);
        let shown = text(&output.stdout);
        assert!(shown.contains("left out: ") && shown.contains("(mode 770)"), "{shown}");
    }

    #[test]
    fn a_reader_that_leaves_early_is_no_error() {
        let house = House::new();
        let tool = env!("CARGO_BIN_EXE_vkstash");
        let mut shell = Command::new("sh");
        shell
            .args(["-c", "{ sleep 0.1; \"$0\" stats; echo $? >&2; } | true", tool])
            .env("HOME", house.home());
        assert_eq!(text(&output(&mut shell).stderr), "0\n");
    }
}
