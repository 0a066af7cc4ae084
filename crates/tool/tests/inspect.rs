//! `vkstash inspect` says what a segment file holds, and what of it is damaged.

use vkstash_model::app_name::AppName;
use vkstash_model::record::Kind;
use vkstash_store::stash::open::Stash;

use super::*;

fn inspect(sandbox: &Sandbox, words: &[&str], file: &Path) -> Output {
    output(sandbox.tool().arg("inspect").args(words).arg(file))
}

/// A device part's segment, in a folder that everybody may write to.
fn segment(sandbox: &Sandbox) -> PathBuf {
    let dir = sandbox.path("stash");
    let app = AppName::new(Some(b"game"), b"/bin/game");
    let stash = Stash::open_patiently(&dir, &app).unwrap();
    let part = stash.device(&header()).unwrap();
    for key in 0..3 {
        assert!(part.put(Kind::Artifact, &[key; 32], noise(1000 + usize::from(key))));
    }
    drop((part, stash));
    let mut folders = fs::read_dir(dir.join(&app.folder)).unwrap().map(|entry| entry.unwrap().path());
    let part = folders.find(|path| path.to_str().unwrap().contains("device-")).unwrap();
    let mut files = fs::read_dir(part).unwrap().map(|entry| entry.unwrap().path());
    let segment = files.find(|path| path.extension().is_some_and(|end| end == "vks")).unwrap();
    let place = sandbox.path("downloads");
    fs::create_dir(&place).unwrap();
    fs::set_permissions(&place, fs::Permissions::from_mode(0o777)).unwrap();
    let copy = place.join("a copy\u{1b}[2J.vks");
    fs::copy(segment, &copy).unwrap();
    copy
}

#[test]
fn a_copy_anywhere_is_described() {
    let sandbox = Sandbox::new();
    let file = segment(&sandbox);
    let shown = inspect(&sandbox, &["--records"], &file);
    assert!(shown.status.success(), "{shown:?}");
    let told = text(&shown.stdout);
    for expected in [", complete\n", ", format 2, ", "for device 0x", "artifact", "pipelineCacheUUID"] {
        assert!(told.contains(expected), "{expected}: {told}");
    }
    for key in 0..3u8 {
        assert!(told.contains(&format!("plain  {}\n", hex::encode([key; 32]))), "{told}");
    }
    let json = inspect(&sandbox, &["--json"], &file);
    let json = schemas::described("inspect", &json.stdout);
    assert_eq!(json["state"], "sealed");
    assert_eq!(json["bytes"], fs::metadata(&file).unwrap().len());
    assert_eq!(json["device"]["vendor_id"], header().vendor_id);
    let records = json["records"].as_array().unwrap();
    assert_eq!(records.len(), 3);
    assert!(records.iter().all(|record| record["codec"] == "plain" && record["is_whole"] == true));
}

#[test]
fn damage_is_named_and_no_file_makes_it_panic() {
    let sandbox = Sandbox::new();
    let file = segment(&sandbox);
    let whole = fs::read(&file).unwrap();
    let json = inspect(&sandbox, &["--json"], &file);
    let json: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
    let second = usize::try_from(json["records"][1]["offset"].as_u64().unwrap()).unwrap();
    let mut bytes = whole.clone();
    bytes[second + 500] ^= 1;
    fs::write(&file, &bytes).unwrap();
    let shown = inspect(&sandbox, &["--records"], &file);
    assert_eq!(shown.status.code(), Some(1), "{shown:?}");
    assert_eq!(one_error_line(&shown), "vkstash: 1 damaged record\n");
    assert_eq!(text(&shown.stdout).matches("  damaged\n").count(), 1);
    // Every place of the file, by steps.
    for at in (0..whole.len()).step_by(97) {
        let mut bytes = whole.clone();
        bytes[at] ^= 0x40;
        fs::write(&file, &bytes).unwrap();
        let shown = inspect(&sandbox, &["--records"], &file);
        assert!(matches!(shown.status.code(), Some(0 | 1)), "{at}: {shown:?}");
        assert!(shown.status.success() || !one_error_line(&shown).is_empty());
        fs::write(&file, &whole[..at]).unwrap();
        let shown = inspect(&sandbox, &[], &file);
        assert!(matches!(shown.status.code(), Some(0 | 1)), "{at}: {shown:?}");
    }
    for (path, said) in [
        (sandbox.path("downloads"), "not a regular file"),
        (sandbox.path("missing.vks"), "cannot be read"),
        (sandbox.path("no/folder.vks"), "cannot be opened"),
        (PathBuf::from("/"), "names no file"),
    ] {
        let shown = inspect(&sandbox, &[], &path);
        assert_eq!(shown.status.code(), Some(1), "{shown:?}");
        assert!(one_error_line(&shown).contains(said), "{said}: {shown:?}");
    }
}
