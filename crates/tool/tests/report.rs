//! `vkstash report` over what a real program left on the programmable driver, and in a browser.

use vkstash_model::app_name::AppName;
use vkstash_model::record::Kind;
use vkstash_store::stash::browse::Browser;
use vkstash_store::stash::open::Stash;

use super::doctor::{Machine, machine};
use super::*;

const NAME: &str = "vkstash-states";
const BROWSERS: [&str; 3] = ["chromium", "chromium-browser", "google-chrome"];

/// A stash of two runs.
fn filled() -> Option<Machine> {
    let machine = machine()?;
    let program = Path::new(env!("CARGO_BIN_EXE_vkstash")).parent().unwrap().join(NAME);
    if !program.exists() {
        skip::missing(&skip::this_test(), &format!("no {NAME} (cargo build --workspace makes it)"));
        return None;
    }
    for _ in 0..2 {
        let mut command = machine.tool();
        command.args(["run", "--quiet", "--"]).arg(&program);
        command.args(["--cache", "fresh", "--state", "viewport", "--count", "12"]);
        let ran = output(&mut command);
        assert!(ran.status.success(), "{ran:?}");
    }
    Some(machine)
}

impl Machine {
    fn stash(&self) -> PathBuf {
        self.sandbox.home().join(".cache/vkstash")
    }

    /// The folder of the only application.
    fn application(&self) -> PathBuf {
        let folders = fs::read_dir(self.stash()).unwrap().map(|entry| entry.unwrap().path());
        let mut folders = folders.filter(|path| path.join("runs").is_dir());
        let folder = folders.next().unwrap();
        assert!(folders.next().is_none());
        folder
    }

    /// The files of a kind in the folder of reports, the oldest first.
    fn runs(&self, extension: &str) -> Vec<PathBuf> {
        let files = fs::read_dir(self.application().join("runs")).unwrap().map(|entry| entry.unwrap().path());
        let mut files: Vec<_> =
            files.filter(|path| path.extension().is_some_and(|found| found == extension)).collect();
        files.sort();
        files
    }

    fn page(&self, name: &str, arguments: &[&str]) -> (PathBuf, String) {
        let path = self.sandbox.path(name);
        let written = output(self.tool().arg("report").args(arguments).arg("--output").arg(&path));
        assert!(written.status.success() && written.stderr.is_empty(), "{written:?}");
        let page = fs::read_to_string(&path).unwrap();
        assert_well_formed(&page);
        (path, page)
    }
}

/// Puts the creations of a timeline into frames, from 8,120 on, each of 212 ms; the call of the first takes 180.
fn put_into_frames(file: &Path) {
    let mut bytes = fs::read(file).unwrap();
    let mut frames = Vec::new();
    for (number, entry) in (8120_u32..).zip(bytes[16..].chunks_exact_mut(64)) {
        entry[56..60].copy_from_slice(&number.to_le_bytes());
        let tenths = if number == 8120 { 1_800_000_u32 } else { 20_000 };
        entry[24..28].copy_from_slice(&tenths.to_le_bytes());
        let mut frame = [0; 64];
        frame[..4].copy_from_slice(&number.to_le_bytes());
        frame[4..8].copy_from_slice(&(2_120_000 - (number - 8120)).to_le_bytes());
        frame[8..16].copy_from_slice(&entry[16..24]);
        frame[30] = 255;
        for closed in [entry, &mut frame[..]] {
            let crc = crc32c::crc32c(&closed[..60]);
            closed[60..].copy_from_slice(&crc.to_le_bytes());
        }
        frames.extend(frame);
    }
    fs::write(file, [bytes, frames].concat()).unwrap();
}

#[test]
fn slow_frames_are_told_in_words() {
    let Some(machine) = filled() else { return };
    let files = machine.runs("vkl");
    files.iter().for_each(|file| put_into_frames(file));
    let (_, page) = machine.page("report.html", &[NAME]);
    // In the first run it was compiled, in the last one it was there.
    for expected in [
        "<li>frame 8,120: 212 ms, 180 ms of it pipeline <a href=\"#p-",
        "</code></a>, graphics, vertex, fragment; was ready in the next run</li>",
        "</code></a>, graphics, vertex, fragment; stash</li>",
        ", frame 8,131</span>",
    ] {
        assert!(page.contains(expected), "{expected}: {page}");
    }
    assert_eq!(page.matches("<li>frame ").count(), 24, "{page}");
    // Without the later run it is a promise.
    fs::remove_file(&files[1]).unwrap();
    let (_, page) = machine.page("first.html", &[NAME]);
    assert!(page.contains("fragment; ready in the next run</li>"), "{page}");
}

/// Elements that have no end.
const EMPTY: [&str; 3] = ["meta", "br", "!DOCTYPE"];

/// Every element ends, in the right order, and only text of the page's own script and style is left out.
fn assert_well_formed(page: &str) {
    let mut open: Vec<&str> = Vec::new();
    let mut rest = page;
    while let Some((_, tag)) = rest.split_once('<') {
        let (tag, after) = tag.split_once('>').unwrap();
        let name = tag.trim_start_matches('/').split([' ', '/']).next().unwrap();
        rest = after;
        if tag.starts_with('/') {
            assert_eq!(open.pop(), Some(name), "{tag} after {open:?}");
        } else if !EMPTY.contains(&name) && !tag.ends_with('/') {
            assert!(name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit()), "{tag}");
            open.push(name);
            if ["script", "style"].contains(&name) {
                rest = &rest[rest.find(&format!("</{name}>")).unwrap()..];
            }
        }
        assert_eq!(tag.matches('"').count() % 2, 0, "{tag}");
    }
    assert!(open.is_empty() && page.ends_with("</html>\n"), "{open:?}");
    for outside in ["://", "\"//", "url(", "@import", "src=", "<link", "onerror=\""] {
        assert!(!page.contains(outside), "{outside}");
    }
}

#[test]
fn a_page_has_the_runs_and_the_pipelines_and_refers_to_nothing_outside() {
    let Some(machine) = filled() else { return };
    let (path, page) = machine.page("report.html", &[]);
    for expected in [
        "<h1><bdi>vkstash-states</bdi></h1>",
        "http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'sha256-",
        "name=\"viewport\" content=\"width=device-width",
        "<dt>Pipelines in the stash</dt><dd>12</dd>",
        "<dt>Runs</dt><dd>2</dd>",
        "<dt>Ready in the last session</dt><dd>12 of 12</dd>",
        "; 12 of 12 pipelines were ready.</p>",
        "Of each session: <svg",
        " (the first)</th><td>driver 0.0.1</td>",
        "12 pipelines of the last run: what compiling them took",
        "<th scope=\"row\">Over 16 ms</th>",
        "<tr><th scope=\"row\">compile</th><td class=\"number\">12</td><td class=\"number\">100.0 %</td>",
        "graphics: vertex, fragment</th>",
        "input assembly: triangle list",
        "<noscript>",
        "tabindex=\"0\"",
        "was ready in the next run",
    ] {
        assert!(page.contains(expected), "{expected}: {page}");
    }
    // Each row has an anchor, and each link leads to one.
    let anchors: Vec<&str> =
        page.split("<tr id=\"").skip(1).map(|rest| rest.split('"').next().unwrap()).collect();
    assert_eq!(anchors.len(), 12);
    for link in page.split("href=\"#p-").skip(1) {
        assert!(anchors.contains(&format!("p-{}", link.split('"').next().unwrap()).as_str()));
    }
    let again = one_error_line(&output(machine.tool().args(["report", NAME, "-o"]).arg(&path))).to_owned();
    assert!(again.contains("is there already"), "{again}");
    let to_pipe = output(machine.tool().args(["report", NAME, "--output", "-"]));
    assert!(to_pipe.status.success() && text(&to_pipe.stdout).ends_with("</html>\n"));
    let nowhere = machine.sandbox.path("nowhere/report.html");
    let complaint = one_error_line(&output(machine.tool().args(["report", "-o"]).arg(nowhere))).to_owned();
    assert!(complaint.contains("cannot create"), "{complaint}");
    let complaint = one_error_line(&output(machine.tool().args(["report", "nobody", "-o", "x"]))).to_owned();
    assert!(complaint.contains("`vkstash list`"), "{complaint}");
}

#[test]
fn a_page_that_is_only_looked_at_needs_no_name() {
    let Some(machine) = filled() else { return };
    let programs = machine.sandbox.path("programs");
    fs::create_dir(&programs).unwrap();
    let opener = programs.join("xdg-open");
    fs::write(&opener, "#!/bin/sh\necho \"opened $1\"\n").unwrap();
    fs::set_permissions(&opener, fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:{}", programs.display(), std::env::var("PATH").unwrap());
    let opened = || output(machine.tool().args(["report", NAME, "--open"]).env("PATH", &path));
    for _ in 0..2 {
        let done = opened();
        let last = text(&done.stdout).lines().last().unwrap();
        let page = fs::read_to_string(last.strip_prefix("opened ").unwrap()).unwrap();
        assert!(done.status.success() && page.ends_with("</html>\n"), "{done:?}");
    }
    fs::write(&opener, "#!/bin/sh\nexit 3\n").unwrap();
    let complaint = one_error_line(&opened()).to_owned();
    assert!(complaint.contains("cannot open /") && complaint.contains("exit status: 3"), "{complaint}");
}

#[test]
fn json_has_stable_names() {
    let Some(machine) = filled() else { return };
    let printed = output(machine.tool().args(["report", NAME, "--json"]));
    assert!(printed.status.success(), "{printed:?}");
    let json: serde_json::Value = serde_json::from_slice(&printed.stdout).unwrap();
    assert!(json["schema"] == 2 && json["application"] == NAME && json["pipelines"] == 12, "{json}");
    assert_eq!(json["comparison"]["pipelines"], 12, "{json}");
    assert!(json["comparison"]["without_stash"]["over_4_ms"].is_u64(), "{json}");
    let timelines = json["timelines"].as_array().unwrap();
    assert_eq!(timelines.len(), 2, "{json}");
    for run in timelines {
        assert_eq!(run["creations"], 12, "{run}");
        assert_eq!(run["marks"].as_array().unwrap().len(), 12, "{run}");
        let shares = run["sources"].as_array().unwrap().iter();
        assert_eq!(shares.map(|share| share["creations"].as_u64().unwrap()).sum::<u64>(), 12, "{run}");
    }
    let history = json["history"].as_array().unwrap();
    assert_eq!(history.len(), 2, "{json}");
    assert!(history[0]["is_first"] == true && history[1]["is_first"] == false, "{json}");
    assert!(history[1]["calls_ns"].as_u64() > Some(0) && history[1]["ready"] == 12, "{json}");
    assert!(history[1]["drivers"][0]["name"].as_str().unwrap().starts_with("driver "), "{json}");
    let help = output(machine.tool().arg("report"));
    assert!(help.status.code() == Some(2) && text(&help.stderr).contains("--output"), "{help:?}");
}

#[test]
fn a_missing_or_damaged_timeline_is_named_on_the_page() {
    let Some(machine) = filled() else { return };
    let files = machine.runs("vkl");
    let mut bytes = fs::read(&files[1]).unwrap();
    bytes[16 + 20] ^= 0xff;
    fs::write(&files[1], &bytes).unwrap();
    let (_, page) = machine.page("damaged.html", &[NAME]);
    assert!(
        page.contains("1 damaged place in the timelines cannot be read") && page.contains("11 creations")
    );
    fs::write(&files[1], b"something else").unwrap();
    let (_, page) = machine.page("other.html", &[NAME]);
    assert!(page.contains("1 timeline cannot be read"), "{page}");
    files.iter().for_each(|file| fs::remove_file(file).unwrap());
    let (_, page) = machine.page("without.html", &[NAME]);
    assert!(page.contains("there is no timeline") && !page.contains("<script"), "{page}");
    assert!(page.contains("There is nothing to compare") && page.contains("The slowest pipelines"), "{page}");
    // No stash at all.
    let none = machine.sandbox.path("none");
    let complaint = output(machine.tool().args(["report", "-o", "x", "--dir"]).arg(&none));
    assert!(one_error_line(&complaint).contains("nothing is stashed yet"));
}

#[test]
fn hostile_names_are_text() {
    let Some(machine) = filled() else { return };
    // The folder of an application begins with its name; here with characters that no layer writes there.
    let folder = machine.stash().join("<img onload=a>\u{202e}&amp;'\"\n<b>");
    fs::rename(machine.application(), &folder).unwrap();
    let (_, page) = machine.page("hostile.html", &[]);
    assert!(page.contains("&lt;img onload=a&gt;\u{fffd}&amp;amp;&#39;&quot;\u{fffd}&lt;b&gt;"), "{page}");
    assert!(!page.contains("<img") && !page.contains('\u{202e}') && !page.contains("<b>"));
}

/// None, with a line that says why, without a browser.
fn browser() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path)
        .flat_map(|folder| BROWSERS.map(|name| folder.join(name)))
        .find(|file| file.exists());
    if found.is_none() {
        skip::missing(&skip::this_test(), "no Chromium (scripts/setup.sh installs it)");
    }
    found
}

/// Runs the browser without a window on a page. The page cannot use the network, and the browser gets none either.
fn browse(machine: &Machine, browser: &Path, page: &str, options: &[&str]) -> String {
    let mut command = Command::new(browser);
    command.env("HOME", machine.sandbox.home()).env("TMPDIR", machine.sandbox.temp());
    command.args([
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--no-first-run",
    ]);
    command.args([
        "--hide-scrollbars",
        "--virtual-time-budget=3000",
        "--host-resolver-rules=MAP * ~NOTFOUND",
    ]);
    command.arg(format!("--user-data-dir={}", machine.sandbox.path("profile").display()));
    command.args(options).arg(format!("file://{page}"));
    let shown = output(&mut command);
    assert!(shown.status.success(), "{shown:?}");
    let console = text(&shown.stderr);
    assert!(!console.contains("Refused to") && !console.contains("Uncaught"), "{console}");
    String::from_utf8_lossy(&shown.stdout).into_owned()
}

/// The text of the paragraph with this id.
fn paragraph<'a>(dom: &'a str, id: &str) -> &'a str {
    let (_, rest) = dom.split_once(&format!("<p id=\"{id}\"")).unwrap();
    rest.split_once('>').unwrap().1.split_once("</p>").unwrap().0
}

#[test]
fn keys_zoom_and_move_the_timeline_and_read_it_aloud() {
    let Some(machine) = filled() else { return };
    let Some(browser) = browser() else { return };
    machine.runs("vkl").iter().for_each(|file| put_into_frames(file));
    let (_, page) = machine.page("report.html", &[NAME]);
    // The page's own policy allows no other script.
    let policy = page.lines().find(|line| line.contains("Content-Security-Policy")).unwrap();
    let shown = |keys: &str| {
        let press = format!(
            "<script>for (const key of {keys}) document.getElementById(\"view\").dispatchEvent(\
             new KeyboardEvent(\"keydown\", {{ key }}));</script></body>"
        );
        let pressed = machine.sandbox.path("pressed.html");
        fs::write(&pressed, page.replace(policy, "").replace("</body>", &press)).unwrap();
        browse(&machine, &browser, pressed.to_str().unwrap(), &["--dump-dom"])
    };
    let ranges = ["[]", "['+', '+']", "['+', '+', 'ArrowRight']", "['+', '+', '-']"].map(|keys| {
        let dom = shown(keys);
        paragraph(&dom, "range").split(';').next().unwrap().to_owned()
    });
    for (place, range) in ranges.iter().enumerate() {
        assert!(!ranges[..place].contains(range), "{ranges:?}");
    }
    let dom = shown("['+', 'Home', 'ArrowDown']");
    assert!(paragraph(&dom, "range").starts_with(&ranges[0]), "{dom}");
    let read = paragraph(&dom, "detail");
    assert!(read.contains("frame 8,1") && read.contains("graphics: vertex, fragment"), "{read}");
    assert_eq!(dom.matches(" chosen\" x=").count(), 1, "{dom}");
}

#[test]
fn a_browser_draws_the_timeline_on_small_and_large_screens_by_day_and_night() {
    let Some(machine) = filled() else { return };
    let Some(browser) = browser() else { return };
    machine.runs("vkl").iter().for_each(|file| put_into_frames(file));
    let (path, _) = machine.page("report.html", &[NAME]);
    let page = path.to_str().unwrap();
    let dom = browse(&machine, &browser, page, &["--enable-logging=stderr", "--dump-dom"]);
    assert!(dom.contains("data-marks=\"24\""), "{dom}");
    assert_eq!(dom.matches("<rect class=\"frame\"").count(), 12, "{dom}");
    assert_eq!(dom.matches("<rect class=\"mark s").count(), 12, "{dom}");
    assert!(!dom.contains("id=\"picture\" hidden"), "{dom}");
    let folder = std::env::var_os("VKSTASH_SCREENSHOTS").map(PathBuf::from);
    let mut taken = Vec::new();
    for (size, scheme) in
        [("390,844", "light"), ("390,844", "dark"), ("1280,800", "light"), ("1280,800", "dark")]
    {
        let file = format!("{}-{scheme}.png", size.replace(',', "x"));
        let shot = folder.clone().unwrap_or_else(|| machine.sandbox.path("")).join(file);
        let preferred = if scheme == "dark" { "0" } else { "1" };
        let options = [
            format!("--screenshot={}", shot.display()),
            format!("--window-size={size}"),
            format!("--blink-settings=preferredColorScheme={preferred}"),
        ];
        browse(&machine, &browser, page, &options.each_ref().map(String::as_str));
        let bytes = fs::read(&shot).unwrap();
        // A blank picture of these sizes is smaller.
        assert!(bytes.starts_with(b"\x89PNG") && bytes.len() > 20_000, "{}: {}", shot.display(), bytes.len());
        assert!(!taken.contains(&bytes), "{} looks like another one", shot.display());
        taken.push(bytes);
    }
}

/// A stash of 100,000 pipelines with recipes of a real program, and eight full timelines:
/// `cargo test --release -p vkstash-tool --test tool a_page_of_100_000 -- --ignored --nocapture`
#[test]
#[ignore = "prints figures"]
fn a_page_of_100_000_pipelines() {
    let Some(machine) = filled() else { return };
    let folder = machine.application().file_name().unwrap().to_str().unwrap().to_owned();
    let mut recipes = Vec::new();
    let portable = Browser::open(&machine.stash(), &folder, "portable").unwrap();
    portable.for_each(&|kind| kind == Kind::Recipe, &mut |_, _, recipe| recipes.push(recipe.to_vec()));
    let dir = machine.sandbox.path("large");
    let name = AppName::new(Some(b"game"), b"/bin/game");
    let stash = Stash::open_patiently(&dir, &name).unwrap();
    let device = stash.device(&header()).unwrap();
    let (mut numbers, mut keys) = (Numbers(1), Vec::new());
    for number in 0..100_000_u32 {
        let mut key = [0; 32];
        key.fill_with(|| numbers.next() as u8);
        let recipe = &recipes[number as usize % recipes.len()];
        while !stash.portable().put(Kind::Recipe, &key, recipe.as_slice().into()) {
            std::thread::yield_now();
        }
        let artifact = [&number.to_le_bytes()[..], &[1, 0, 0, 0], &noise(100)].concat();
        // The queue has room for some thousands.
        while !device.put(Kind::Artifact, &key, artifact.clone().into()) {
            std::thread::yield_now();
        }
        keys.push(key);
    }
    drop((device, stash));
    let runs = dir.join(&name.folder).join("runs");
    fs::create_dir_all(&runs).unwrap();
    let timeline = fs::read(&machine.runs("vkl")[0]).unwrap();
    let entries = timeline[16..16 + 64 * 12].repeat(1_400);
    for run in 0..8_u64 {
        let mut full = [&timeline[..16], &entries].concat();
        for (number, entry) in (0_u64..).zip(full[16..].chunks_exact_mut(64)) {
            entry[..16].copy_from_slice(&keys[((number + run * 12_000) % 100_000) as usize][..16]);
            entry[16..24].copy_from_slice(&(number * 40_000).to_le_bytes());
            entry[24..28].copy_from_slice(&(numbers.next() as u32 % 1_000_000).to_le_bytes());
            let crc = crc32c::crc32c(&entry[..60]);
            entry[60..].copy_from_slice(&crc.to_le_bytes());
        }
        fs::write(runs.join(format!("run-{run:016x}-00000001-0000000000000001.vkl")), &full).unwrap();
    }
    let mut times = Vec::new();
    for run in 0..5 {
        let page = machine.sandbox.path(&format!("{run}.html"));
        let mut command = machine.tool();
        command.args(["report", "game", "--dir"]).arg(&dir).arg("--output").arg(&page);
        let began = Instant::now();
        let output = output(&mut command);
        times.push(began.elapsed());
        println!("{}", text(&output.stdout));
        assert!(output.status.success() && fs::metadata(&page).unwrap().len() < 5_000_000, "{output:?}");
    }
    times.sort();
    println!("vkstash report: {:.1?} (fastest {:.1?})", times[2], times[0]);
}
