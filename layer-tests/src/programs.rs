//! Real programs that nobody here wrote, started with and without the layer.
//!
//! `scripts/programs.sh` brings them to the folder `programs` beside the build profiles. On RADV they run on
//! Mesa's own stand-in for the kernel driver, which has memory and takes submits but draws nothing.

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

/// A program that hangs is killed after this long. No test measures time with it.
const PATIENCE: Duration = Duration::from_secs(600);

/// One of the programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Program {
    /// Our few lines over the wgpu crate.
    Wgpu,
    /// The same with wgpu's own pipeline cache.
    WgpuCache,
    /// Dawn, as Node.js module.
    Dawn,
    /// A small network in ncnn.
    Ncnn,
    /// Kernels in taichi.
    Taichi,
    /// The first picture of a film.
    Mpv,
    /// A cube, twenty times.
    Vkcube,
    /// Direct3D 12 through vkd3d: a triangle, ended by a key press.
    Vkd3dTriangle,
    /// Direct3D 12 through vkd3d: gears that turn, ended by a signal.
    Vkd3dGears,
    /// llama.cpp, as Node.js module: a model of nothing says eight tokens.
    Llama,
    /// GTK 4 draws a scene into a picture.
    Gtk,
    /// Qt Quick does.
    Qt,
    /// OpenGL through Mesa's zink: gears that turn, ended by a signal.
    Zink,
}

/// All of them, in the order of the table.
pub const ALL: [Program; 13] = [
    Program::Wgpu,
    Program::WgpuCache,
    Program::Dawn,
    Program::Vkd3dTriangle,
    Program::Vkd3dGears,
    Program::Ncnn,
    Program::Taichi,
    Program::Llama,
    Program::Mpv,
    Program::Gtk,
    Program::Qt,
    Program::Zink,
    Program::Vkcube,
];

/// How one run went.
#[derive(Clone, Debug)]
pub struct Ran {
    /// Exit status as a shell says it: 128 and the number of a signal, and so on.
    pub status: i32,
    /// What it printed, and a hash of what it showed.
    pub output: Vec<u8>,
    /// Its standard error.
    pub stderr: String,
    /// From start to end.
    pub wall: Duration,
    /// The layer's reports.
    pub reports: Reports,
    /// The layer was mapped by a program in a window, shortly before that was ended.
    seen: bool,
}

impl Ran {
    /// Whether the layer was in it.
    pub fn had_layer(&self) -> bool {
        !self.reports.0.is_empty() || self.seen
    }
}

/// One program at a time: they are compared by time, and xvfb-run looks for a free display number.
pub fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Where scripts/programs.sh puts what it brings.
pub fn folder() -> PathBuf {
    paths::profile_folder().with_file_name("programs")
}

fn sources() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("programs")
}

/// Mesa's stand-in for the kernel's amdgpu driver.
fn shim() -> PathBuf {
    folder().join("amdgpu-shim.so")
}

/// Why scripts/programs.sh could not bring `name`, if it said so.
fn said_to_be_missing(name: &str) -> Option<String> {
    let list = fs::read_to_string(folder().join("skipped")).unwrap_or_default();
    list.lines().find_map(|line| Some(line.strip_prefix(name)?.strip_prefix(": ")?.to_owned()))
}

/// A program or a part of it that is not here.
#[derive(Debug)]
pub enum Missing {
    /// scripts/programs.sh said that it cannot be had here.
    Known(String),
    /// Nobody said so.
    Unknown(String),
}

impl Program {
    /// What scripts/programs.sh calls the package that it is in.
    pub fn package(self) -> &'static str {
        match self {
            Program::Wgpu | Program::WgpuCache => "wgpu",
            Program::Dawn => "dawn",
            Program::Ncnn => "ncnn",
            Program::Taichi => "taichi",
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

    /// Whether its runs on this driver say something: on lavapipe llama.cpp compiles for minutes, without the layer too, and
    /// what zink's own threads compile until a signal ends the program is a matter of chance.
    pub fn runs_on(self, driver: &Driver) -> bool {
        !matches!((self, driver), (Program::Llama, Driver::Lavapipe) | (Program::Zink, Driver::Radv))
    }

    /// Its version, as scripts/programs.sh noted it.
    pub fn version(self) -> String {
        let list = fs::read_to_string(folder().join("versions")).unwrap_or_default();
        let found = list.lines().find_map(|line| line.strip_prefix(self.package())?.strip_prefix(": "));
        found.unwrap_or("unknown").to_owned()
    }

    /// Whether it makes the same pipelines in each run: one that a signal ends may not come to all of them.
    pub fn ends_by_itself(self) -> bool {
        self.end().is_none()
    }

    /// Whether what it puts out says something about what it drew.
    pub fn is_compared(self) -> bool {
        !matches!(self, Program::Vkcube | Program::Vkd3dGears | Program::Zink)
    }

    /// Whether it needs a screen.
    fn windowed(self) -> bool {
        match self {
            Program::Mpv | Program::Vkcube | Program::Vkd3dTriangle | Program::Vkd3dGears => true,
            Program::Gtk | Program::Qt | Program::Zink => true,
            Program::Wgpu | Program::WgpuCache | Program::Dawn | Program::Ncnn => false,
            Program::Taichi | Program::Llama => false,
        }
    }

    /// Whether it is here, with what it needs on this driver.
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

    /// The file that is there if the program is.
    fn file(self) -> PathBuf {
        let folder = folder();
        let file = match self {
            Program::Wgpu | Program::WgpuCache => "wgpu/debug/vkstash-program-wgpu",
            Program::Dawn => "node/node_modules/webgpu/index.js",
            Program::Ncnn => "python/has-ncnn",
            Program::Taichi => "python/has-taichi",
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

    /// The command line, without what is needed around it. `place`: where it may leave a picture.
    fn command(self, driver: &Driver, place: &Path) -> Vec<String> {
        let text = |path: PathBuf| path.to_str().expect("a readable path").to_owned();
        let folder = folder();
        let python = |name: &str| {
            vec![text(folder.join("python/bin/python")), text(sources().join(name).join("run.py"))]
        };
        // A picture to a file, then its hash.
        let drawn = |script: &str, scene: &str| {
            let script = format!("{script} && sha256sum <\"$2\"");
            let (program, scene) = (text(self.file()), text(sources().join(scene)));
            vec!["sh".into(), "-c".into(), script, program, scene, text(place.join("picture.png"))]
        };
        match self {
            Program::Wgpu => vec![text(self.file())],
            Program::WgpuCache => vec![text(self.file()), "--cache".into()],
            Program::Dawn => {
                vec!["node".into(), text(sources().join("dawn/run.mjs")), text(folder.join("node"))]
            }
            Program::Ncnn => python("ncnn"),
            Program::Taichi => python("taichi"),
            Program::Mpv => {
                let mut command: Vec<String> =
                    ["mpv", "--no-config", "--really-quiet", "--vo=gpu", "--gpu-api=vulkan", "--untimed"]
                        .map(str::to_owned)
                        .to_vec();
                if *driver == Driver::Lavapipe {
                    // It takes a CPU only if told to.
                    command.push("--vulkan-device=@DEVICE@".into());
                }
                // What takes more shaders than the plain way.
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

    /// What has it draw with Vulkan.
    fn variables(self) -> &'static [(&'static str, &'static str)] {
        match self {
            // The device, also where it takes it for one that is not worth it.
            Program::Llama => &[("GGML_VK_VISIBLE_DEVICES", "0")],
            Program::Gtk => &[("GDK_BACKEND", "x11")],
            Program::Qt => &[("QSG_RHI_BACKEND", "vulkan"), ("QT_QPA_PLATFORM", "xcb")],
            // It takes a CPU only if told to.
            Program::Zink => &[("MESA_LOADER_DRIVER_OVERRIDE", "zink"), ("LIBGL_ALWAYS_SOFTWARE", "1")],
            _ => &[],
        }
    }

    /// How programs that go on for ever are ended.
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
            // The real start-up of the driver, on the stand-in; without a real GPU the X server gets its
            // pictures copied, out of linear images.
            env = env.without_var("RADV_FORCE_FAMILY").var("AMDGPU_GPU_ID", "navi21");
            env = env.var("MESA_VK_WSI_DEBUG", "sw,linear");
            // Into the program alone.
            words.extend(["env".into(), format!("LD_PRELOAD={}", shim().display())]);
        }
        if self == Program::Ncnn {
            // It opens the driver that it finds here by itself, past the loader: so let it find the loader.
            let manifest = place.join("loader.json");
            let loader = json!({ "library_path": loader_library(), "api_version": "1.3.0" });
            let content = json!({ "file_format_version": "1.0.0", "ICD": loader });
            fs::write(&manifest, content.to_string()).expect("a private file");
            env = env.var("VK_ICD_FILENAMES", manifest);
        }
        for (name, value) in self.variables() {
            env = env.var(name, value);
        }
        words.extend(self.command(env.driver(), place));
        if words.iter().any(|word| word.contains("@DEVICE@")) {
            let name = mpv_device(&env);
            words.iter_mut().for_each(|word| *word = word.replace("@DEVICE@", &name));
        }
        let started = Instant::now();
        let (mut status, stdout, stderr) = run_to_its_end(&env, &words);
        if let Ok(text) = fs::read_to_string(picture.with_extension("status")) {
            status = text.trim().parse().expect("a number");
        }
        let wall = started.elapsed();
        let seen = picture.with_extension("layer").exists();
        Ran { status, output: stdout, stderr, wall, seen, reports: Reports::read(&report) }
    }
}

/// The Vulkan loader's library.
fn loader_library() -> PathBuf {
    let folders = ["/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib"];
    let libraries = folders.map(|folder| Path::new(folder).join("libvulkan.so.1"));
    libraries.into_iter().find(|path| path.exists()).unwrap_or_else(|| "libvulkan.so.1".into())
}

/// What mpv calls the only device that there is.
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
    // A group of its own, so that what it started goes with it.
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
            // SAFETY: a system call without pointers; the group is the child's own and the child still there.
            unsafe { libc::kill(-group, libc::SIGKILL) };
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}
