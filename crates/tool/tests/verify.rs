//! `vkstash verify` over whole, damaged and foreign stashes.

use std::os::unix::fs::FileExt as _;

use vkstash_model::app_name::AppName;
use vkstash_model::record::Kind;
use vkstash_store::stash::open::Stash;

use super::*;

/// A stash with the same records under two names; its files.
fn filled(dir: &Path) -> Vec<PathBuf> {
    for name in [b"game" as &[u8], b"other game"] {
        let name = AppName::new(None, name);
        let stash = Stash::open_patiently(dir, &name).unwrap();
        for number in 0..20 {
            assert!(stash.portable().put(Kind::Recipe, &[number; 32], vec![number; 500].into()));
            assert!(stash.device(&header()).unwrap().put(Kind::Artifact, &[number; 32], vec![9; 700].into()));
        }
    }
    let mut files = Vec::new();
    for application in fs::read_dir(dir).unwrap().flatten().filter(|entry| entry.path().is_dir()) {
        for part in fs::read_dir(application.path()).unwrap().flatten() {
            let within = fs::read_dir(part.path()).into_iter().flatten().flatten();
            files.extend(
                within.map(|entry| entry.path()).filter(|path| path.extension().is_some_and(|e| e == "vks")),
            );
        }
    }
    files.sort();
    assert_eq!(files.len(), 4, "{files:?}");
    files
}

fn verify(sandbox: &Sandbox, dir: &Path, more: &[&str]) -> (i32, String, String) {
    let output = output(sandbox.tool().arg("verify").args(more).arg("--dir").arg(dir));
    (output.status.code().unwrap(), text(&output.stdout).to_owned(), text(&output.stderr).to_owned())
}

fn damage(file: &Path) {
    let opened = fs::File::options().write(true).open(file).unwrap();
    opened.write_all_at(b"damaged", 1200).unwrap();
}

#[test]
fn a_whole_stash_is_whole_and_a_missing_one_too() {
    let sandbox = Sandbox::new();
    let dir = sandbox.path("stash");
    let none = "read: 0 records in 0 files of 0 applications, 0 B\neverything is whole\n";
    assert_eq!(verify(&sandbox, &dir, &[]), (0, none.to_owned(), String::new()));
    filled(&dir);
    let (status, said, complaint) = verify(&sandbox, &dir, &[]);
    assert_eq!((status, complaint.as_str()), (0, ""));
    assert!(said.starts_with("read: 80 records in 4 files of 2 applications, "), "{said}");
    assert!(said.ends_with("\neverything is whole\n"), "{said}");
    let (status, said, _) = verify(&sandbox, &dir, &["game"]);
    assert!(status == 0 && said.starts_with("read: 40 records in 2 files of 1 application, "), "{said}");
    let (status, _, complaint) = verify(&sandbox, &dir, &["no game"]);
    assert!(status == 1 && complaint.contains("no application \"no game\""), "{complaint}");
}

#[test]
fn damage_is_named_and_repaired() {
    let sandbox = Sandbox::new();
    let dir = sandbox.path("stash");
    let files = filled(&dir);
    damage(&files[1]);
    fs::write(files[3].with_file_name("00000000000000ff-0123456789abcdef.vks"), [7; 4096]).unwrap();
    let name = |file: &Path| file.strip_prefix(&dir).unwrap().to_str().unwrap().to_owned();
    let (status, said, complaint) = verify(&sandbox, &dir, &[]);
    assert_eq!(status, 1);
    assert!(said.contains(&format!("{}: 1 damaged place\n", name(&files[1]))), "{said}");
    assert!(said.contains("ff-0123456789abcdef.vks: not used: not a segment\n"), "{said}");
    assert!(complaint.contains("2 files are not whole") && complaint.contains("--repair"), "{complaint}");

    let (status, json, _) = verify(&sandbox, &dir, &["--json"]);
    let json = schemas::described("verify", json.as_bytes());
    assert_eq!(
        (status, json["records"].as_u64(), json["bad"].as_array().map(Vec::len)),
        (1, Some(80), Some(2))
    );
    assert_eq!(json["bad"][0]["fault"], serde_json::json!({ "damaged": 1 }));

    let (status, said, complaint) = verify(&sandbox, &dir, &["--repair"]);
    assert_eq!(status, 1, "the foreign file stays");
    assert!(said.contains("1 damaged place (repaired)\n"), "{said}");
    assert!(complaint.contains("1 file could not be repaired"), "{complaint}");
    fs::remove_file(files[3].with_file_name("00000000000000ff-0123456789abcdef.vks")).unwrap();
    let (status, said, _) = verify(&sandbox, &dir, &[]);
    assert!(status == 0 && said.starts_with("read: 79 records in 4 files"), "{said}");
}

/// These recipes are not what their keys say, and only their contents tell.
#[test]
fn contents_are_compared_with_their_keys() {
    let sandbox = Sandbox::new();
    let dir = sandbox.path("stash");
    filled(&dir);
    let (status, said, _) = verify(&sandbox, &dir, &["--contents"]);
    assert_eq!((status, said.matches("20 records are not what their keys say").count()), (1, 2), "{said}");
    let (status, said, _) = verify(&sandbox, &dir, &["--contents", "--repair"]);
    assert_eq!((status, said.matches("(repaired)").count()), (0, 2), "{said}");
    let (status, said, _) = verify(&sandbox, &dir, &["--contents"]);
    assert!(status == 0 && said.starts_with("read, decompressed and compared: 40 records in "), "{said}");
}

#[test]
fn a_folder_that_programs_do_not_use_is_named() {
    let sandbox = Sandbox::new();
    let dir = sandbox.path("stash");
    let files = filled(&dir);
    let part = files[0].parent().unwrap();
    fs::set_permissions(part, fs::Permissions::from_mode(0o777)).unwrap();
    let (status, said, complaint) = verify(&sandbox, &dir, &[]);
    assert!(status == 1 && said.contains(": not used: ") && said.contains("chmod go-w"), "{said}");
    assert!(!said.contains("whole") && complaint.contains(": 1 folder is not whole; "), "{complaint}");
    let (_, said, _) = verify(&sandbox, &dir, &["--json"]);
    let json = schemas::described("verify", said.as_bytes());
    assert!(json["bad_folders"][0]["reason"].as_str().unwrap().contains("777"), "{said}");
    let doctor = output(sandbox.tool().arg("doctor").arg("--dir").arg(&dir));
    let found = text(&doctor.stdout);
    assert!(doctor.status.code() == Some(1) && found.contains("has no stash"), "{found}");
}
