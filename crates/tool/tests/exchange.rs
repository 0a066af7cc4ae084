//! `vkstash export` and `vkstash import`: from one machine to another, over pipes, with other tools and with errors.

use vkstash_fossilize::archive::{Tag, Writer};
use vkstash_host::program::Program;
use vkstash_model::app_name::{AppName, Identity};
use vkstash_model::identifier::module_identity;
use vkstash_model::record::Kind;
use vkstash_store::stash::open::Stash;

use super::*;

fn app(name: &str) -> AppName {
    AppName::new(None, name.as_bytes())
}

fn fill(root: &Path, name: &str) {
    fill_as(root, &app(name));
}

fn fill_as(root: &Path, app: &AppName) {
    let stash = Stash::open_patiently(root, app).unwrap();
    for number in 0..3 {
        let code = noise(1000 + 4 * number);
        let payload = [&[0; 4][..], &code].concat();
        let identity = module_identity(Default::default(), &code);
        assert!(stash.portable().put(Kind::Module, &identity, payload.into()));
    }
    assert!(stash.device(&header()).unwrap().put(Kind::Artifact, &[1; 32], noise(2000)));
}

fn modules(root: &Path, name: &str) -> usize {
    Stash::open_patiently(root, &app(name)).unwrap().portable().len(Kind::Module)
}

fn artifacts(root: &Path, name: &str) -> usize {
    Stash::open_patiently(root, &app(name)).unwrap().device(&header()).unwrap().len(Kind::Artifact)
}

fn vkstash(sandbox: &Sandbox, arguments: &[&str], dir: &Path) -> Output {
    output(sandbox.tool().args(arguments).arg("--dir").arg(dir))
}

fn done(output: &Output) -> &str {
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
    text(&output.stdout)
}

#[test]
fn records_of_one_machine_are_imported_on_another() {
    let sandbox = Sandbox::new();
    let (from, to, file) = (sandbox.path("from"), sandbox.path("to"), sandbox.path("game.tar"));
    fill(&from, "game");
    fill(&from, "other");
    let file = file.to_str().unwrap();
    let told = vkstash(&sandbox, &["export", file, "game"], &from);
    assert!(done(&told).starts_with("2 files with ") && done(&told).contains(file), "{told:?}");
    assert_eq!(fs::metadata(file).unwrap().permissions().mode() & 0o777, 0o600);

    let told = vkstash(&sandbox, &["import", file], &to);
    let said = done(&told);
    assert!(said.starts_with("game: 3 modules imported\n  1 file with artifacts left out: "), "{said}");
    assert_eq!((modules(&to, "game"), artifacts(&to, "game"), modules(&to, "other")), (3, 0, 0));
    let told = vkstash(&sandbox, &["import", file, "--artifacts"], &to);
    assert_eq!(done(&told), "game: 1 artifact imported; 3 records here already\n");
    assert_eq!(artifacts(&to, "game"), 1);
    let told = vkstash(&sandbox, &["import", file, "--artifacts"], &to);
    assert_eq!(done(&told), "game: nothing new; 4 records here already\n");
}

#[test]
fn records_of_another_installation_are_those_of_the_only_one_here() {
    let sandbox = Sandbox::new();
    let (from, to, file) = (sandbox.path("from"), sandbox.path("to"), sandbox.path("game.tar"));
    let (program, file) = (Program::of(b"/bin/game", &[]), file.to_str().unwrap());
    let name =
        |steam: u64| AppName::of(&Identity { application: b"", program: &program, steam: Some(steam) });
    fill_as(&from, &name(620));
    done(&vkstash(&sandbox, &["export", file, "--portable"], &from));
    fill_as(&to, &name(1));
    assert_eq!(
        done(&vkstash(&sandbox, &["import", file], &to)),
        "game: nothing new; 3 records here already\n"
    );
    fill_as(&to, &name(2));
    assert_eq!(done(&vkstash(&sandbox, &["import", file], &to)), "game: 3 modules imported\n");
    assert!(to.join(name(620).folder).is_dir(), "two are here, and which of them it is nobody can tell");
}

#[test]
fn export_and_import_work_through_a_pipe() {
    let sandbox = Sandbox::new();
    let (from, to) = (sandbox.path("from"), sandbox.path("to"));
    fill(&from, "game");
    fill(&from, "other");
    let mut export = sandbox
        .tool()
        .args(["export", "-", "--portable", "--dir"])
        .arg(&from)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let archive = export.stdout.take().unwrap();
    let told = output(sandbox.tool().args(["import", "-", "--dir"]).arg(&to).stdin(archive));
    assert!(export.wait().unwrap().success());
    assert_eq!(done(&told), "game: 3 modules imported\nother: 3 modules imported\n");
    assert_eq!((modules(&to, "game"), modules(&to, "other")), (3, 3));
}

/// Unpacked and packed again by tar, with names longer than a header of the old format holds.
#[test]
fn archives_that_other_programs_packed_are_read() {
    let sandbox = Sandbox::new();
    let from =
        sandbox.path("a folder with quite a long name, in which somebody keeps what he got from elsewhere");
    fill(&from, "a game whose name is long as well, like many");
    for (format, base) in [("gnu", "."), ("pax", "."), ("gnu", "/"), ("pax", "/")] {
        let (file, to) = (sandbox.path("packed.tar"), sandbox.path("to"));
        let mut tar = Command::new("tar");
        let whole = from.strip_prefix("/").unwrap();
        let (folder, what) =
            if base == "/" { (Path::new("/"), whole) } else { (from.as_path(), Path::new(".")) };
        tar.args(["--format", format, "-C"]).arg(folder).arg("-cf").arg(&file).arg(what);
        assert!(tar.status().unwrap().success());
        let told = vkstash(&sandbox, &["import", file.to_str().unwrap(), "--artifacts"], &to);
        let said = done(&told);
        let expected = "a_game_whose_name_is_long_as_well_like_many: 3 modules, 1 artifact imported\n";
        assert!(
            said.starts_with(expected) && said.contains("in the archive skipped"),
            "{format} {base}: {said}"
        );
        fs::remove_dir_all(to).unwrap();
    }
}

#[test]
fn an_export_overwrites_nothing() {
    let sandbox = Sandbox::new();
    let from = sandbox.path("from");
    fill(&from, "game");
    let file = sandbox.path("precious");
    fs::write(&file, "precious").unwrap();
    let refused = vkstash(&sandbox, &["export", file.to_str().unwrap()], &from);
    assert_eq!(refused.status.code(), Some(1));
    assert!(one_error_line(&refused).contains("is there already"));
    assert_eq!(fs::read(&file).unwrap(), b"precious");
}

#[test]
fn errors_are_printed_in_one_line() {
    let sandbox = Sandbox::new();
    let (from, none, file) = (sandbox.path("from"), sandbox.path("none"), sandbox.path("archive.tar"));
    fill(&from, "game");
    let file = file.to_str().unwrap();
    let other = sandbox.path("other.txt");
    fs::write(&other, "something else".repeat(100)).unwrap();
    for (arguments, dir, what) in [
        (&["export", file][..], &none, "there is nothing to export"),
        (&["export", file, "nobody"], &from, "no application \"nobody\""),
        (&["export", "/nowhere/archive.tar"], &from, "cannot create /nowhere/archive.tar"),
        (&["import", "/nowhere/archive.tar"], &from, "cannot open /nowhere/archive.tar"),
        (&["import", other.to_str().unwrap()], &from, "no files of a stash"),
        (&["import", "/etc/passwd"], &from, "no files of a stash"),
        (&["import", "/dev/null"], &from, "no files of a stash"),
    ] {
        let refused = vkstash(&sandbox, arguments, dir);
        assert_eq!(refused.status.code(), Some(1), "{arguments:?}");
        assert!(one_error_line(&refused).contains(what), "{arguments:?}: {refused:?}");
    }
    assert!(!Path::new(file).exists() && !none.exists());
    assert_eq!(modules(&from, "game"), 3);
}

/// An archive's file header in which one field holds something other than a number.
fn odd_header(field: std::ops::Range<usize>, text: &[u8], path: &[u8]) -> Vec<u8> {
    let mut header = tar::Header::new_ustar();
    header.set_size(0);
    header.set_mode(0o600);
    header.as_old_mut().name[..path.len()].copy_from_slice(path);
    header.set_cksum();
    let mut bytes = header.as_bytes().to_vec();
    bytes[field.start..field.start + text.len()].copy_from_slice(text);
    bytes[148..156].fill(b' ');
    let sum: u32 = bytes.iter().map(|&byte| u32::from(byte)).sum();
    if !field.contains(&148) {
        bytes[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    } else {
        bytes[field.start..field.start + text.len()].copy_from_slice(text);
    }
    bytes.resize(2048, 0);
    bytes
}

#[test]
fn control_characters_of_an_archive_do_not_reach_the_terminal() {
    let sandbox = Sandbox::new();
    let (to, file) = (sandbox.path("to"), sandbox.path("odd.tar"));
    let odd = b"\x1b[2J\x07\x9b";
    let path = b"g-01234567-89abcdef/portable/\x1b[2J\x07.vks";
    let plain = b"g-01234567-89abcdef/portable/x.vks";
    let mut told = 0;
    for (field, path) in
        [(0..0, &path[..]), (100..108, plain), (124..136, plain), (148..156, plain), (136..148, plain)]
    {
        let text = if field.is_empty() { &b""[..] } else { &odd[..] };
        fs::write(&file, odd_header(field.clone(), text, path)).unwrap();
        let output = vkstash(&sandbox, &["import", file.to_str().unwrap()], &to);
        for bytes in [&output.stdout, &output.stderr] {
            let shown = text_of(bytes);
            told += usize::from(shown.contains("[2J"));
            assert!(!shown.contains(|c: char| c.is_control() && c != '\n'), "{field:?}: {shown:?}");
        }
    }
    assert!(told >= 1, "none of it was told");
}

fn text_of(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// The files below a folder, with their lengths.
fn listed(folder: &Path) -> Vec<(PathBuf, u64)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let metadata = entry.metadata().unwrap();
        found.push((entry.path(), metadata.len()));
        if metadata.is_dir() {
            found.extend(listed(&entry.path()));
        }
    }
    found
}

const ENDINGS: [i32; 4] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGKILL];

#[test]
fn an_interrupted_import_leaves_nothing_behind() {
    let sandbox = Sandbox::new();
    let from = sandbox.path("from");
    fill(&from, "game");
    let archive = output(sandbox.tool().args(["export", "-", "--dir"]).arg(&from)).stdout;
    for signal in ENDINGS {
        let to = sandbox.path("to");
        let mut command = sandbox.tool();
        interruptible(&mut command);
        command.args(["import", "-", "--artifacts", "--dir"]).arg(&to).stdin(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut pipe = child.stdin.take().unwrap();
        // In the middle of the first file.
        pipe.write_all(&archive[..1500]).unwrap();
        let began = Instant::now();
        let is_open = || {
            let open = fs::read_dir(format!("/proc/{}/fd", child.id())).unwrap();
            let mut targets = open.flatten().filter_map(|entry| fs::read_link(entry.path()).ok());
            targets.any(|target| target.starts_with(&to) && target != to)
        };
        while !is_open() {
            assert!(began.elapsed() < Duration::from_secs(600), "nothing was begun");
            std::thread::sleep(Duration::from_millis(2));
        }
        send(&child, signal);
        assert_eq!(child.wait().unwrap().signal(), Some(signal));
        assert_eq!(listed(&to), [], "signal {signal}");
        fs::remove_dir_all(&to).unwrap();
    }
}

#[test]
fn an_interrupted_export_leaves_nothing_behind() {
    let sandbox = Sandbox::new();
    let (from, place) = (sandbox.path("from"), sandbox.path("place"));
    fs::create_dir(&place).unwrap();
    let stash = Stash::open_patiently(&from, &app("game")).unwrap();
    assert!(stash.portable().put(Kind::Module, &[1; 32], noise(100)));
    drop(stash);
    // Long enough to be interrupted, and sparse.
    let segment = fs::read_dir(from.join(app("game").folder).join("portable")).unwrap().next().unwrap();
    let segment = fs::File::options().write(true).open(segment.unwrap().path()).unwrap();
    segment.set_len(1 << 30).unwrap();
    for signal in ENDINGS {
        let mut command = sandbox.tool();
        interruptible(&mut command);
        command.args(["export"]).arg(place.join("file.tar")).arg("--dir").arg(&from);
        let mut child = command.stdout(Stdio::null()).spawn().unwrap();
        let began = Instant::now();
        let is_writing = || {
            let open = fs::read_dir(format!("/proc/{}/fd", child.id())).unwrap();
            let of_place =
                |entry: &fs::DirEntry| fs::read_link(entry.path()).is_ok_and(|to| to.starts_with(&place));
            open.flatten().any(|entry| of_place(&entry) && entry.metadata().is_ok_and(|file| file.len() > 0))
        };
        while !is_writing() {
            assert!(began.elapsed() < Duration::from_secs(600), "nothing was begun");
            std::thread::yield_now();
        }
        send(&child, signal);
        assert_eq!(child.wait().unwrap().signal(), Some(signal));
        assert_eq!(listed(&place), [], "signal {signal}");
    }
}

#[test]
fn a_full_disk_leaves_no_partial_archive() {
    let sandbox = Sandbox::new();
    let (from, file) = (sandbox.path("from"), sandbox.path("archive.tar"));
    fill(&from, "game");
    let mut limited = Command::new("sh");
    limited.args([
        "-c",
        "trap '' XFSZ; ulimit -f 4; exec \"$@\"",
        "sh",
        env!("CARGO_BIN_EXE_vkstash"),
        "export",
    ]);
    let failed = output(limited.arg(&file).arg("--dir").arg(&from));
    assert_eq!(failed.status.code(), Some(1));
    assert!(one_error_line(&failed).contains("cannot export game-"), "{failed:?}");
    assert!(!file.exists());
}

#[test]
fn an_export_of_damaged_files_says_so() {
    let sandbox = Sandbox::new();
    let (from, file) = (sandbox.path("from"), sandbox.path("game.tar"));
    fill(&from, "game");
    let part = from.join(app("game").folder).join("portable");
    let segment = fs::read_dir(part).unwrap().next().unwrap().unwrap().path();
    let mut bytes = fs::read(&segment).unwrap();
    bytes[1200..1207].copy_from_slice(b"damaged");
    fs::write(&segment, bytes).unwrap();
    let exported = vkstash(&sandbox, &["export", file.to_str().unwrap()], &from);
    assert!(exported.status.success() && file.exists(), "{exported:?}");
    let said = "vkstash: 1 file of these is not whole: `vkstash verify` says which\n";
    assert_eq!(text(&exported.stderr), said);
}

#[test]
fn archives_of_fossilize_are_told_from_others_and_say_whose_they_are() {
    let sandbox = Sandbox::new();
    let dir = sandbox.path("stash");
    fill(&dir, "game");
    // Modules alone are nothing that Fossilize could replay.
    let nothing = vkstash(&sandbox, &["export", sandbox.path("x.foz").to_str().unwrap()], &dir);
    assert!(one_error_line(&nothing).contains("nothing to export"), "{nothing:?}");
    let refused = |name: &str, bytes: &[u8], more: &[&str], said: &str| {
        let file = sandbox.path(name);
        fs::write(&file, bytes).unwrap();
        let output = vkstash(&sandbox, &[&["import", file.to_str().unwrap()], more].concat(), &dir);
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        assert!(one_error_line(&output).contains(said), "{output:?}");
    };
    refused("a.foz", b"", &[], "is not an archive of Fossilize");
    refused("b.foz", b"no archive", &["--application", "game"], "is not an archive of Fossilize");
    let empty = [b"\x81FOSSILIZEDB\0\0\0".as_slice(), &[6]].concat();
    refused("c.foz", &empty, &[], "no named program, and the stash has none of that name");
    refused("c", &empty, &["--application", "nobody"], "no application \"nobody\"");
    refused("d.tar", b"no archive", &["--application", "game"], "is no archive of Fossilize");
    let taken = vkstash(
        &sandbox,
        &["import", sandbox.path("c.foz").to_str().unwrap(), "--application", "game"],
        &dir,
    );
    assert_eq!(done(&taken), "game: nothing new\n");
    let folder = vkstash(&sandbox, &["import", sandbox.path("").to_str().unwrap()], &dir);
    assert_eq!(folder.status.code(), Some(1), "{folder:?}");
}

#[test]
fn archives_of_steam_are_found_by_the_games_number() {
    let sandbox = Sandbox::new();
    let dir = sandbox.path("stash");
    let none = vkstash(&sandbox, &["import", "--steam"], &dir);
    assert!(one_error_line(&none).contains("Steam is not installed"), "{none:?}");
    let steam = sandbox.home().join(".local/share/Steam/steamapps");
    let folder = steam.join("shadercache/4711/fozpipelinesv6");
    fs::create_dir_all(&folder).unwrap();
    let empty = [b"\x81FOSSILIZEDB\0\0\0".as_slice(), &[6]].concat();
    fs::write(folder.join("steam_pipeline_cache.foz"), empty).unwrap();
    fs::write(steam.join("appmanifest_4711.acf"), "\"AppState\"\n{\n\t\"name\"\t\"A\u{1b}[2J Game\"\n}\n")
        .unwrap();
    let listed = vkstash(&sandbox, &["import", "--steam"], &dir);
    assert_eq!(done(&listed), "4711  A\u{fffd}[2J Game, 1 archive\n");
    let other = vkstash(&sandbox, &["import", "--steam", "7"], &dir);
    assert!(one_error_line(&other).contains("no shader archives of the game 7"), "{other:?}");
    let taken = vkstash(&sandbox, &["import", "--steam", "4711", "--program", "/games/a.exe"], &dir);
    assert_eq!(done(&taken), "a: nothing new\n");
}

/// An archive of one entry, which says what a program calls itself.
fn archive_of(program: &str) -> Vec<u8> {
    let example = include_str!("../../fossilize/src/json/golden/application.json");
    let mut writer = Writer::new(Vec::new()).unwrap();
    let document = example.replace("\"game\"", &format!("{program:?}"));
    assert!(writer.write(Tag::ApplicationInfo, 1, document.as_bytes()).unwrap());
    writer.finish().unwrap()
}

#[test]
fn an_archive_of_steam_that_cannot_be_read_costs_itself_alone() {
    let sandbox = Sandbox::new();
    let dir = sandbox.path("stash");
    fill_as(&dir, &AppName::new(Some(b"game"), b"/bin/game"));
    let folder = sandbox.home().join(".local/share/Steam/steamapps/shadercache/4711/fozpipelinesv6");
    fs::create_dir_all(&folder).unwrap();
    let put = |name: &str, bytes: &[u8]| fs::write(folder.join(name), bytes).unwrap();
    // What Fossilize's layer leaves where nothing was recorded.
    put("a.foz", b"");
    put("b.foz", b"\x81FOSSILIZEDB\0\0\0");
    put("c.foz", b"\x81FOSSILIZEDB\0\0\0\x06");
    put("z.foz", &archive_of("game"));
    let import = || vkstash(&sandbox, &["import", "--steam", "4711"], &dir);
    let taken = import();
    let said = done(&taken);
    assert!(said.starts_with("game: ") && said.lines().count() == 2, "{said}");
    assert!(said.ends_with("\nskipped: 3 archives without entries\n"), "{said}");
    put("d.foz", b"something else altogether");
    put("e.foz", &archive_of("somebody else"));
    let partly = import();
    let said = text(&partly.stdout);
    let lines: Vec<_> = said.lines().collect();
    assert!(lines[0].starts_with("left out: ") && lines[0].contains("d.foz is not an archive"), "{said}");
    assert!(lines[1].starts_with("left out: ") && lines[1].contains("e.foz is of somebody else"), "{said}");
    assert_eq!(lines[2..], ["game: nothing new", "skipped: 3 archives without entries"]);
    assert_eq!(one_error_line(&partly), "vkstash: 2 of 6 archives left out\n");
    assert_eq!(partly.status.code(), Some(1));
}
