//! Real programs, started with and without the layer.
//!
//! `scripts/programs.sh` installs them in the folder `programs` beside the build profiles. On RADV they run on Mesa's
//! fake render node, which has memory and accepts submissions but draws nothing.

use std::fs;
use std::io::Read;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde_json::json;

use crate::env::{Driver, Env};
use crate::paths;
use crate::report::Reports;

/// A program that hangs is killed after this time. No test measures with it.
const PATIENCE: Duration = Duration::from_secs(1800);

/// A program that is run with and without the layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Program {
    /// A small program over the wgpu crate.
    Wgpu,
    /// The small program over the wgpu crate, with wgpu's own pipeline cache.
    WgpuCache,
    /// Dawn, as Node.js module.
    Dawn,
    /// A small network in ncnn.
    Ncnn,
    /// Kernels in taichi.
    Taichi,
    /// Kernels in slangpy, which enables VK_KHR_pipeline_binary.
    Slangpy,
    /// A scene in pygfx, over the wgpu of Python.
    Pygfx,
    /// The first picture of a film.
    Mpv,
    /// A cube, twenty times.
    Vkcube,
    /// Direct3D 12 through vkd3d: a triangle, ended by a key press.
    Vkd3dTriangle,
    /// Direct3D 12 through vkd3d: gears that turn, ended by a signal.
    Vkd3dGears,
    /// llama.cpp, as Node.js module: an empty model generates eight tokens.
    Llama,
    /// GTK 4 draws a scene into a picture.
    Gtk,
    /// Qt Quick draws a scene into a picture.
    Qt,
    /// OpenGL through Mesa's zink: gears that turn, ended by a signal.
    Zink,
}

/// All programs, in the order of the table in the documentation.
pub const ALL: [Program; 15] = [
    Program::Wgpu,
    Program::WgpuCache,
    Program::Dawn,
    Program::Vkd3dTriangle,
    Program::Vkd3dGears,
    Program::Ncnn,
    Program::Taichi,
    Program::Slangpy,
    Program::Pygfx,
    Program::Llama,
    Program::Mpv,
    Program::Gtk,
    Program::Qt,
    Program::Zink,
    Program::Vkcube,
];

/// The result of one run.
#[derive(Clone, Debug)]
pub struct Ran {
    /// Exit status as a shell gives it: 128 plus the number of a signal.
    pub status: i32,
    /// Its standard output, and a hash of what it drew.
    pub output: Vec<u8>,
    /// Its standard error.
    pub stderr: String,
    /// From start to end.
    pub wall: Duration,
    /// Its processor time, and that of what it has started and waited for: the display too.
    pub processor: Duration,
    /// The layer's reports.
    pub reports: Reports,
    /// The layer was mapped by a program with a window, shortly before that was ended.
    seen: bool,
}

impl Ran {
    /// Whether the layer was loaded.
    pub fn had_layer(&self) -> bool {
        !self.reports.0.is_empty() || self.seen
    }
}

/// One program at a time: their times are compared, and xvfb-run searches for a free display number.
pub fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The folder in which scripts/programs.sh installs programs.
pub fn folder() -> PathBuf {
    paths::profile_folder().with_file_name("programs")
}

fn sources() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("programs")
}

/// Mesa's fake render node.
pub fn shim() -> PathBuf {
    folder().join("amdgpu-shim.so")
}

/// Why scripts/programs.sh could not install `name`, if it said so.
fn said_to_be_missing(name: &str) -> Option<String> {
    let list = fs::read_to_string(folder().join("skipped")).unwrap_or_default();
    list.lines().find_map(|line| Some(line.strip_prefix(name)?.strip_prefix(": ")?.to_owned()))
}

/// A program, or a part of it, is missing.
#[derive(Debug)]
pub enum Missing {
    /// scripts/programs.sh said that it cannot be installed here.
    Known(String),
    /// scripts/programs.sh did not say so.
    Unknown(String),
}

impl Program {
    /// The name of its package in scripts/programs.sh.
    pub fn package(self) -> &'static str {
        match self {
            Program::Wgpu | Program::WgpuCache => "wgpu",
            Program::Dawn => "dawn",
            Program::Ncnn => "ncnn",
            Program::Taichi => "taichi",
            Program::Slangpy => "slangpy",
            Program::Pygfx => "pygfx",
            Program::Mpv => "mpv",
            Program::Vkcube => "vkcube",
            Program::Vkd3dTriangle | Program::Vkd3dGears => "vkd3d",
            Program::Llama => "llama",
            Program::Gtk => "gtk",
            Program::Qt => "qt",
            Program::Zink => "zink",
        }
    }

    /// Its name in the table.
    pub fn title(self) -> &'static str {
        match self {
            Program::Wgpu => "wgpu",
            Program::WgpuCache => "wgpu, own cache",
            Program::Dawn => "Dawn",
            Program::Ncnn => "ncnn",
            Program::Taichi => "taichi",
            Program::Slangpy => "slangpy",
            Program::Pygfx => "pygfx",
            Program::Mpv => "mpv",
            Program::Vkcube => "vkcube",
            Program::Vkd3dTriangle => "vkd3d-triangle",
            Program::Vkd3dGears => "vkd3d-gears",
            Program::Llama => "llama.cpp",
            Program::Gtk => "GTK 4",
            Program::Qt => "Qt Quick",
            Program::Zink => "zink, glxgears",
        }
    }

    /// Whether its runs on this driver can be compared: on lavapipe llama.cpp compiles for minutes, without the layer
    /// too; what zink's own threads compile until a signal ends the program is a matter of chance.
    pub fn runs_on(self, driver: &Driver) -> bool {
        !matches!((self, driver), (Program::Llama, Driver::Lavapipe) | (Program::Zink, Driver::Radv))
    }

    /// Its version, as scripts/programs.sh recorded it.
    pub fn version(self) -> String {
        let list = fs::read_to_string(folder().join("versions")).unwrap_or_default();
        let found = list.lines().find_map(|line| line.strip_prefix(self.package())?.strip_prefix(": "));
        found.unwrap_or("unknown").to_owned()
    }

    /// Whether the program creates the same pipelines in each run: a program that is ended by a signal may not create
    /// all of them.
    pub fn ends_by_itself(self) -> bool {
        self.end().is_none()
    }

    /// Whether the program dies of a signal now and then, also without the layer: taichi on a busy machine.
    pub fn crashes_without_the_layer(self) -> bool {
        matches!(self, Program::Taichi)
    }

    /// Whether the program's output depends on what it drew.
    pub fn is_compared(self) -> bool {
        !matches!(self, Program::Vkcube | Program::Vkd3dGears | Program::Zink)
    }

    /// Whether the program needs a display.
    fn windowed(self) -> bool {
        match self {
            Program::Mpv | Program::Vkcube | Program::Vkd3dTriangle | Program::Vkd3dGears => true,
            Program::Gtk | Program::Qt | Program::Zink => true,
            Program::Wgpu | Program::WgpuCache | Program::Dawn | Program::Ncnn => false,
            Program::Taichi | Program::Slangpy | Program::Pygfx | Program::Llama => false,
        }
    }

    /// Whether the program is installed, with what it needs on this driver.
    pub fn find(self, driver: &Driver) -> Result<(), Missing> {
        let mut wanted = vec![(self.package(), self.file())];
        if self.windowed() {
            wanted.push(("xvfb", PathBuf::from("/usr/bin/xvfb-run")));
        }
        if *driver == Driver::Radv {
            wanted.push(("amdgpu-shim", shim()));
        }
        for (name, file) in wanted {
            if file.exists() {
                continue;
            }
            return Err(match said_to_be_missing(name) {
                Some(reason) => Missing::Known(format!("{name}: {reason}")),
                None => Missing::Unknown(format!("{name}: no {}: run scripts/programs.sh", file.display())),
            });
        }
        Ok(())
    }

    /// A file that exists if the program is installed.
    fn file(self) -> PathBuf {
        let folder = folder();
        let file = match self {
            Program::Wgpu | Program::WgpuCache => "wgpu/release/vkstash-program-wgpu",
            Program::Dawn => "node/node_modules/webgpu/index.js",
            Program::Ncnn => "python/has-ncnn",
            Program::Taichi => "python/has-taichi",
            Program::Slangpy => "python/has-slangpy",
            Program::Pygfx => "python/has-pygfx",
            Program::Mpv => "/usr/bin/mpv",
            Program::Vkcube => "/usr/bin/vkcube",
            Program::Vkd3dTriangle => "/usr/bin/vkd3d-triangle",
            Program::Vkd3dGears => "/usr/bin/vkd3d-gears",
            Program::Llama => "llama/model.gguf",
            Program::Gtk => "/usr/bin/gtk4-rendernode-tool",
            Program::Qt => "/usr/lib/qt6/bin/qml",
            Program::Zink => "/usr/bin/glxgears",
        };
        folder.join(file)
    }

    /// The command line of the program alone. It may write a picture to `place`.
    fn command(self, env: &Env, place: &Path) -> Vec<String> {
        let text = |path: PathBuf| path.to_str().expect("a readable path").to_owned();
        let folder = folder();
        let python = |name: &str| {
            vec![text(folder.join("python/bin/python")), text(sources().join(name).join("run.py"))]
        };
        // Draws into a file and prints its hash.
        let drawn = |script: &str, scene: &str| {
            let script = format!("{script} && sha256sum <\"$2\"");
            let (program, scene) = (text(self.file()), text(sources().join(scene)));
            vec!["sh".into(), "-c".into(), script, program, scene, text(place.join("picture.png"))]
        };
        match self {
            Program::Wgpu => vec![text(self.file())],
            Program::WgpuCache => {
                vec![text(self.file()), "--cache".into(), text(env.home().join("wgpu-cache"))]
            }
            Program::Dawn => {
                vec!["node".into(), text(sources().join("dawn/run.mjs")), text(folder.join("node"))]
            }
            Program::Ncnn => python("ncnn"),
            Program::Taichi => python("taichi"),
            Program::Slangpy => python("slangpy"),
            Program::Pygfx => python("pygfx"),
            Program::Mpv => {
                let mut command: Vec<String> =
                    ["mpv", "--no-config", "--really-quiet", "--vo=gpu", "--gpu-api=vulkan", "--untimed"]
                        .map(str::to_owned)
                        .to_vec();
                if *env.driver() == Driver::Lavapipe {
                    // mpv uses a CPU driver only on request.
                    command.push("--vulkan-device=@DEVICE@".into());
                }
                // Options that need more shaders than the default.
                command.extend(["--pause", "--scale=ewa_lanczossharp", "--deband=yes"].map(str::to_owned));
                command.push("av://lavfi:testsrc=size=320x240".into());
                command
            }
            Program::Vkcube => vec!["vkcube".into(), "--c".into(), "20".into()],
            Program::Vkd3dTriangle => vec!["vkd3d-triangle".into()],
            Program::Vkd3dGears => vec!["vkd3d-gears".into()],
            Program::Llama => vec![
                "node".into(),
                text(sources().join("llama/run.mjs")),
                text(folder.join("llama")),
                text(self.file()),
            ],
            Program::Gtk => drawn("\"$0\" render --renderer=vulkan \"$1\" \"$2\" >&2", "gtk/scene.node"),
            Program::Qt => drawn("\"$0\" \"$1\" -- \"$2\"", "qt/scene.qml"),
            Program::Zink => vec!["glxgears".into()],
        }
    }

    /// Variables that make it draw with Vulkan.
    fn variables(self) -> &'static [(&'static str, &'static str)] {
        match self {
            // The device, even if the program considers it too slow.
            Program::Llama => &[("GGML_VK_VISIBLE_DEVICES", "0")],
            Program::Gtk => &[("GDK_BACKEND", "x11")],
            Program::Qt => &[("QSG_RHI_BACKEND", "vulkan"), ("QT_QPA_PLATFORM", "xcb")],
            // zink uses a CPU driver only on request.
            Program::Zink => &[("MESA_LOADER_DRIVER_OVERRIDE", "zink"), ("LIBGL_ALWAYS_SOFTWARE", "1")],
            _ => &[],
        }
    }

    /// How a program that does not end by itself is ended.
    fn end(self) -> Option<&'static str> {
        match self {
            Program::Vkd3dTriangle => Some("key"),
            Program::Mpv => Some("term"),
            Program::Vkd3dGears | Program::Zink => Some("moving"),
            _ => None,
        }
    }

    /// Runs it once. `place` is a private folder of this run.
    pub fn run(self, env: &Env, place: &Path) -> Ran {
        fs::create_dir_all(place).expect("a private folder");
        let report = place.join("report");
        let mut env = env.clone().report(&report).var("NO_COLOR", "1");
        let mut words: Vec<String> = Vec::new();
        let picture = place.join("Xvfb_screen0");
        if self.windowed() {
            let screen = format!("-screen 0 640x480x24 -wr -fbdir {}", place.display());
            words.extend(["xvfb-run".into(), "-a".into(), "-s".into(), screen]);
            let script = sources().join("window.sh");
            let end = self.end().unwrap_or("none");
            words
                .extend(["sh", &script.to_string_lossy(), end, &picture.to_string_lossy()].map(String::from));
        }
        if *env.driver() == Driver::Radv {
            // The real start-up of the driver, on the fake render node. Without a real GPU the X server gets copies
            // of the pictures, from linear images.
            env = env.without_var("RADV_FORCE_FAMILY").var("AMDGPU_GPU_ID", "navi21");
            env = env.var("MESA_VK_WSI_DEBUG", "sw,linear");
            // Preloaded into the program alone.
            words.extend(["env".into(), format!("LD_PRELOAD={}", shim().display())]);
        }
        if self == Program::Ncnn {
            // The program opens the driver that it finds here directly, without the loader; so let it find the loader.
            let manifest = place.join("loader.json");
            let loader = json!({ "library_path": loader_library(), "api_version": "1.3.0" });
            let content = json!({ "file_format_version": "1.0.0", "ICD": loader });
            fs::write(&manifest, content.to_string()).expect("a private file");
            env = env.var("VK_ICD_FILENAMES", manifest);
        }
        for (name, value) in self.variables() {
            env = env.var(name, value);
        }
        words.extend(self.command(&env, place));
        if words.iter().any(|word| word.contains("@DEVICE@")) {
            let name = mpv_device(&env);
            words.iter_mut().for_each(|word| *word = word.replace("@DEVICE@", &name));
        }
        let (started, processor) = (Instant::now(), of_children());
        let (mut status, stdout, stderr) = run_to_its_end(&env, &words);
        if let Ok(text) = fs::read_to_string(picture.with_extension("status")) {
            status = text.trim().parse().expect("a number");
        }
        let (wall, processor) = (started.elapsed(), of_children().saturating_sub(processor));
        let seen = picture.with_extension("layer").exists();
        Ran { status, output: stdout, stderr, wall, processor, seen, reports: Reports::read(&report) }
    }
}

/// The processor time of the children that have ended.
fn of_children() -> Duration {
    // SAFETY: plain data, and the call writes all of it.
    let usage = unsafe {
        let mut usage = std::mem::zeroed::<libc::rusage>();
        libc::getrusage(libc::RUSAGE_CHILDREN, &mut usage);
        usage
    };
    let time = |of: libc::timeval| Duration::new(of.tv_sec as u64, of.tv_usec as u32 * 1000);
    time(usage.ru_utime) + time(usage.ru_stime)
}

/// The Vulkan loader's library.
fn loader_library() -> PathBuf {
    let folders = ["/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib"];
    let libraries = folders.map(|folder| Path::new(folder).join("libvulkan.so.1"));
    libraries.into_iter().find(|path| path.exists()).unwrap_or_else(|| "libvulkan.so.1".into())
}

/// mpv's name for the only device.
fn mpv_device(env: &Env) -> String {
    let words = ["mpv", "--no-config", "--vo=gpu", "--vulkan-device=help"].map(String::from);
    let (_, stdout, stderr) = run_to_its_end(&env.clone().without_layer(), &words);
    let text = String::from_utf8_lossy(&stdout).into_owned();
    let name = text.lines().find_map(|line| line.trim().strip_prefix('\'')?.split('\'').next());
    name.unwrap_or_else(|| panic!("mpv lists no device: {text} {stderr}")).to_owned()
}

fn run_to_its_end(env: &Env, words: &[String]) -> (i32, Vec<u8>, String) {
    let mut command = Command::new(&words[0]);
    env.apply(&mut command);
    command.args(&words[1..]).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    // A process group of its own, so that its children are killed with it.
    command.process_group(0);
    let mut child = command.spawn().unwrap_or_else(|error| panic!("{words:?}: {error}"));
    let stdout = collect(child.stdout.take().expect("a pipe"));
    let stderr = collect(child.stderr.take().expect("a pipe"));
    let status = wait(&mut child);
    let text = String::from_utf8_lossy(&stderr.join().expect("a thread that only reads")).into_owned();
    (status, stdout.join().expect("a thread that only reads"), text)
}

fn collect(mut pipe: impl Read + Send + 'static) -> std::thread::JoinHandle<Vec<u8>> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        pipe.read_to_end(&mut bytes).expect("a pipe that can be read");
        bytes
    })
}

fn wait(child: &mut Child) -> i32 {
    let started = Instant::now();
    loop {
        if let Some(status) = child.try_wait().expect("a child of ours") {
            return status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0));
        }
        if started.elapsed() > PATIENCE {
            let group = i32::try_from(child.id()).expect("a process number");
            // SAFETY: kill takes plain numbers; the group is the child's own, and the child has not been waited for.
            unsafe { libc::kill(-group, libc::SIGKILL) };
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}
