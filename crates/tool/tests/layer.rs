//! `vkstash run` with the layer itself, a real driver and a real Vulkan program.

use super::*;

/// The layer and programs in the target folder, and a driver that needs no GPU.
pub(super) struct Real {
    pub(super) sandbox: Sandbox,
    library: PathBuf,
    driver: PathBuf,
    program: PathBuf,
}

const LAVAPIPE: &str = "lvp_icd";
/// RADV, on its null device.
pub(super) const RADV: &str = "radeon_icd";

/// None, with a line that says why, where a file is missing.
pub(super) fn real(driver_name: &str) -> Option<Real> {
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
        skip::missing(&skip::this_test(), &format!("no {what}"));
        return None;
    }
    Some(Real { sandbox: Sandbox::new(), library, driver: driver?, program })
}

impl Real {
    /// `vkstash run -- vkstash-corpus ...` on that driver, without the driver's own disk cache.
    fn run(&self, arguments: &[&str]) -> Command {
        self.with(&["run"], arguments)
    }

    /// The tool with this library and this driver, without the driver's own disk cache.
    fn tool(&self) -> Command {
        let mut command = self.sandbox.tool();
        command.env("VKSTASH_LIBRARY", &self.library).env("MESA_SHADER_CACHE_DISABLE", "true");
        command.env("VK_DRIVER_FILES", &self.driver).env("VK_ICD_FILENAMES", &self.driver);
        command.env("RADV_FORCE_FAMILY", "navi21");
        command
    }

    /// `vkstash WORDS -- vkstash-corpus ...` on that driver.
    pub(super) fn with(&self, words: &[&str], arguments: &[&str]) -> Command {
        let mut command = self.tool();
        command.args(words).arg("--").arg(&self.program).args(arguments);
        command
    }

    /// A folder with one small compute shader.
    pub(super) fn modules(&self) -> String {
        let folder = self.sandbox.path("modules");
        fs::create_dir_all(&folder).unwrap();
        let words = SHADER.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>();
        fs::write(folder.join("empty.spv"), words).unwrap();
        folder.to_str().unwrap().to_owned()
    }
}

impl Real {
    /// A first run, in which one pipeline is compiled. False, with a line that says why, where this driver needs a
    /// GPU.
    pub(super) fn compiles(&self, arguments: &[&str]) -> bool {
        let first = output(&mut self.run(arguments));
        if !first.status.success() {
            let why = String::from_utf8_lossy(&first.stderr).into_owned();
            skip::missing(&skip::this_test(), &format!("RADV has no null device: {why}"));
            return false;
        }
        assert!(last_line(&first).ends_with("; 0 of 1 pipeline was ready"), "{first:?}");
        true
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
fn the_second_run_is_served_and_the_statistics_show_it() {
    let Some(real) = real(RADV) else { return };
    let modules = real.modules();
    let arguments = ["--modules", &modules];
    if !real.compiles(&arguments) {
        return;
    }
    let second = output(&mut real.run(&arguments));
    assert!(is_served(&second), "{second:?}");
    assert!(real.sandbox.nothing_left_in_temp());

    let stats = output(real.sandbox.tool().args(["stats", "--json"]));
    let json: serde_json::Value = serde_json::from_slice(&stats.stdout).unwrap();
    let application = &json["applications"][0];
    assert_eq!((&application["name"], &application["runs"]), (&"vkstash-corpus".into(), &2.into()));
    assert_eq!(application["hit_percent"], 50.0);
    assert_eq!(application["devices"][0]["driver"], "VK_DRIVER_ID_MESA_RADV");
}

#[test]
fn what_the_user_has_disabled_is_named_as_the_reason() {
    let Some(real) = real(RADV) else { return };
    let modules = real.modules();
    let arguments = ["--modules", &modules];
    if !real.compiles(&arguments) {
        return;
    }
    let set = output(real.sandbox.tool().args(["cache", "disable", "compilations"]));
    assert!(set.status.success(), "{set:?}");
    let stats = || text(&output(real.sandbox.tool().arg("stats")).stdout).to_owned();
    assert!(stats().contains("\n  disabled by the settings: "), "{}", stats());
    for _ in 0..2 {
        let run = output(&mut real.run(&arguments));
        let said = text(&run.stderr);
        assert!(said.contains("\nvkstash: vkstash-corpus: disabled by the settings: "), "{said}");
        assert!(last_line(&run).ends_with("; 0 of 1 pipeline was ready"), "{said}");
    }
    let json = output(real.sandbox.tool().args(["stats", "--json"]));
    let json: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
    let remark = json["applications"][0]["remark"].as_str().unwrap_or_else(|| panic!("no remark: {json}"));
    assert!(remark.contains("nothing was served in 3 runs; compilations were disabled"), "{json}");
}

/// Whether the one pipeline was served: before the program asked, if a worker was fast.
fn is_served(run: &Output) -> bool {
    last_line(run).contains("; 1 of 1 pipeline was ready")
}

#[test]
fn imported_artifacts_are_served() {
    let Some(real) = real(RADV) else { return };
    let modules = real.modules();
    let arguments = ["--modules", &modules];
    if !real.compiles(&arguments) {
        return;
    }
    let archive = real.sandbox.path("archive.tar");
    let exported = output(real.sandbox.tool().arg("export").arg(&archive));
    assert!(exported.status.success(), "{exported:?}");
    fs::remove_dir_all(real.sandbox.home().join(".cache/vkstash")).unwrap();
    let imported = output(real.sandbox.tool().args(["import", "--artifacts"]).arg(&archive));
    let told = text(&imported.stdout);
    assert!(told.starts_with("vkstash-corpus: 1 recipe, 1 module, 1 artifact, "), "{imported:?}");
    let warm = output(&mut real.run(&arguments));
    assert!(is_served(&warm), "{warm:?}");
}

#[test]
fn a_driver_that_keeps_nothing_is_named() {
    let Some(real) = real(LAVAPIPE) else { return };
    let modules = real.modules();
    let run = || output(real.run(&["--modules", &modules]).env("VKSTASH_BACKGROUND", "disabled"));
    let first = run();
    assert!(last_line(&first).ends_with("; 0 of 1 pipeline was ready"), "{first:?}");
    // A pipeline that compiles in a moment is nothing to tell of, unless the machine is busy.
    let second = run();
    let said = text(&second.stderr);
    let expected = "vkstash: vkstash-corpus: no benefit here: nothing was served in 2 runs; this driver's caches \
                    keep nothing that could be served";
    assert!(
        said.contains(expected) != said.contains(": nothing to gain: ") && !said.contains("prewarm"),
        "{said}"
    );
    let json = output(real.sandbox.tool().args(["stats", "--json"]));
    let json: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
    assert!(json["applications"][0]["remark"].as_str().unwrap().starts_with("no benefit here: "), "{json}");
}

#[test]
fn a_disabled_layer_records_nothing() {
    let Some(real) = real(LAVAPIPE) else { return };
    let output = output(real.run(&["--modules", &real.modules()]).env("VKSTASH_DISABLE", "1"));
    assert!(last_line(&output).contains("VKSTASH_DISABLE is set"), "{output:?}");
    assert!(!real.sandbox.home().join(".cache/vkstash").exists());
}

#[test]
fn an_installed_layer_is_off_until_switched_on() {
    let Some(real) = real(LAVAPIPE) else { return };
    let sandbox = &real.sandbox;
    let installed = output(sandbox.tool().arg("install").env("VKSTASH_LIBRARY", &real.library));
    assert!(installed.status.success(), "{installed:?}");
    let report = sandbox.path("report");
    let program = |switch: Option<&str>| {
        // As a user starts it: without the tool.
        let mut command = Command::new(&real.program);
        command.args(["--modules", &real.modules()]).env_clear().env("HOME", sandbox.home());
        command.env("VK_DRIVER_FILES", &real.driver).env("VK_ICD_FILENAMES", &real.driver);
        command
            .env("VKSTASH_OPEN_MS", "100000")
            .env("VKSTASH_END_MS", "100000")
            .env("VKSTASH_REPORT", &report)
            .envs(switch.map(|value| ("VKSTASH", value)));
        let output = output(&mut command);
        assert!(output.status.success(), "{output:?}");
        fs::read_dir(&report).map_or(0, |entries| entries.count())
    };
    assert_eq!(program(None), 0);
    assert_eq!(program(Some("1")), 1);
}

#[test]
fn a_run_without_pipelines_is_reported() {
    let Some(real) = real(LAVAPIPE) else { return };
    let output = output(&mut real.run(&["--no-pipelines"]));
    assert!(output.status.success(), "{output:?}");
    let said = text(&output.stderr);
    assert_eq!(said, "vkstash: vkstash-corpus: created no pipeline\n");
    assert!(real.sandbox.nothing_left_in_temp());
}

#[test]
fn a_run_without_a_device_says_whether_the_layer_was_loaded() {
    let Some(real) = real(LAVAPIPE) else { return };
    // Makes an instance, and no device.
    let asks = [env!("CARGO_BIN_EXE_vkstash"), "doctor-probe"];
    let said = |words: &[&str], variables: &[(&str, &str)]| {
        let mut command = real.tool();
        command.args(["run", "--"]).args(words).envs(variables.iter().copied());
        let output = output(&mut command);
        assert!(output.status.success(), "{output:?}");
        text(&output.stderr).to_owned()
    };
    let loaded = "vkstash: the layer was loaded, and no program has created a device and reported it by now";
    assert!(said(&asks, &[]).starts_with(loaded), "{}", said(&asks, &[]));
    let nested = said(&[&[asks[0], "run", "--quiet", "--"], &asks[..]].concat(), &[]);
    assert!(nested.starts_with(loaded), "{nested}");
    let disabled = said(&asks, &[("VKSTASH_DISABLE", "1")]);
    assert!(disabled.starts_with("vkstash: VKSTASH_DISABLE is set"), "{disabled}");
    let kept_out = said(&asks, &[("VK_LOADER_LAYERS_DISABLE", "~implicit~")]);
    assert!(
        kept_out.contains("the layer was not loaded") && kept_out.contains("kept the layer out"),
        "{kept_out}"
    );
    assert!(said(&["true"], &[]).starts_with("vkstash: the layer was not loaded"));
    assert!(real.sandbox.nothing_left_in_temp());
}
