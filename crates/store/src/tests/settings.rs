//! The settings: parsing, writing, and files that cannot be used.

use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStringExt as _;
use std::os::unix::fs::{PermissionsExt, symlink};

use proptest::prelude::*;

use crate::bounds::{Limits, ModulePolicy};
use crate::format::refusal::OpenError;
use crate::settings::{
    APPLICATION_NAMES, BACKGROUND, BASE, BackgroundMode, CacheKinds, DEVELOPER_MODE, FILE, Locked,
    ROOT_NAMES, Settings, SettingsError, ValueError, base_text, change, disabled_caches, read, write,
};
use crate::stash::inspect::list_applications;
use crate::tests::*;

const DAY: u64 = 24 * 60 * 60 * 1000;

fn limit_of(value: &str) -> Option<u64> {
    Settings::parse(&format!("limit = {value}")).0.limit
}

#[test]
fn a_file_reads_as_people_write_it() {
    let text =
        "# mine\n\nlimit=512MiB\n application-limit = none\nfree-space = none\ndevice-age = 30\nmodules = 5";
    let (settings, complaints) = Settings::parse(text);
    assert_eq!(complaints, Vec::<String>::new());
    assert_eq!((settings.limit, settings.application_limit), (Some(512 << 20), Some(u64::MAX)));
    assert_eq!((settings.free_space, settings.device_age_ms), (Some(0), Some(30 * DAY)));
    assert_eq!(settings.modules, Some(ModulePolicy::UsedInLast(5)));
    let limits = settings.limits(1 << 40);
    assert_eq!((limits.total_bytes, limits.per_app, limits.free_space_floor), (512 << 20, Some(u64::MAX), 0));
    assert_eq!((limits.device_age, limits.module_policy), (30 * DAY, ModulePolicy::UsedInLast(5)));
}

#[test]
fn what_is_not_set_keeps_its_default() {
    let limits = Settings::default().limits(10_000);
    assert_eq!(limits, Limits { free_space_floor: Limits::floor_for(10_000), ..Limits::default() });
}

#[test]
fn sizes_have_units_or_are_bytes() {
    let good =
        [("0", 0), ("1000", 1000), ("4GiB", 4 << 30), ("4 gib", 4 << 30), ("3KB", 3000), ("2TiB", 2 << 40)];
    for (text, bytes) in good {
        assert_eq!(limit_of(text), Some(bytes), "{text}");
    }
    assert_eq!(limit_of("None"), Some(u64::MAX));
    for text in
        ["", "GiB", "-1", "+1", "1.5GiB", "4 G", "16777216TiB", "18446744073709551616", "4GiB 2", "é", "1€B"]
    {
        assert_eq!(limit_of(text), None, "{text}");
    }
}

#[test]
fn a_line_that_is_not_understood_is_ignored_and_kept() {
    let text = "limit = much\nshaders = 3\nnonsense\ndevice-age = 9999999999999999\nmodules = some\nfree-space = 7\n";
    let (mut settings, complaints) = Settings::parse(text);
    assert_eq!(complaints.len(), 5, "{complaints:?}");
    assert_eq!(Settings { free_space: None, ..settings.clone() }.limits(0), Settings::default().limits(0));
    assert_eq!(settings.free_space, Some(7));
    assert_eq!(settings.to_text(), text);
    settings.set("limit", "1KiB").unwrap();
    settings.unset("modules");
    let expected = "shaders = 3\nnonsense\ndevice-age = 9999999999999999\nlimit = 1KiB\nfree-space = 7\n";
    assert_eq!(settings.to_text(), expected);
}

fn base(bytes: &[u8]) -> PathBuf {
    PathBuf::from(OsString::from_vec(bytes.to_vec()))
}

#[test]
fn bases_are_several_lines_with_a_path_each() {
    let lines = ["/opt/one base\nlimit = 7", "/two", "/opt/one base", "three", "/%4", "/%00"];
    let (settings, complaints) = Settings::parse(&lines.map(|line| format!("base = {line}\n")).concat());
    assert_eq!(settings.bases, [base(b"/opt/one base"), base(b"/two")]);
    assert_eq!((settings.limit, complaints.len()), (Some(7), 3), "{complaints:?}");
    // What is not understood stays.
    let expected = "base = three\nbase = /%4\nbase = /%00\nlimit = 7\nbase = /opt/one base\nbase = /two\n";
    assert_eq!(settings.to_text(), expected);
    let mut settings = Settings::default();
    for number in 0..16 {
        settings.set(BASE, &format!("/{number}")).unwrap();
    }
    assert_eq!(settings.set(BASE, "/16"), Err(ValueError::Bases));
    assert_eq!(settings.set(BASE, "/3"), Ok(()), "it is there already");
    settings.unset(BASE);
    assert_eq!(settings, Settings::default());
}

#[test]
fn paths_of_bases_are_written_so_that_every_byte_can_be_read() {
    for (path, text) in [
        (&b"/a b/\xc3\xa9"[..], "/a b/\u{e9}"),
        (b"/100%", "/100%25"),
        (b"/line\nbreak\t", "/line%0Abreak%09"),
        (b"/not \xff\xc3", "/not %FF%C3"),
        (b"/ends  ", "/ends%20%20"),
        ("/\u{2028}\u{85}".as_bytes(), "/%E2%80%A8%C2%85"),
        (b"/=#", "/=#"),
        ("/gnp.\u{202e}exe".as_bytes(), "/gnp.%E2%80%AEexe"),
    ] {
        assert_eq!(base_text(&base(path)), text);
    }
}

/// A driver gets what a base has. The tool writes the file anew, as one that nobody else may write to.
#[test]
fn no_base_is_taken_from_a_file_that_others_may_write_to() {
    let root = root();
    let set = Settings::parse("limit = 7\nbase = /one\n").0;
    for (mode, counts) in [(0o600, true), (0o644, true), (0o620, false), (0o602, false)] {
        write(root.path(), None, &set).unwrap();
        fs::set_permissions(root.path().join(FILE), fs::Permissions::from_mode(mode)).unwrap();
        let (read_again, complaints) = read(root.path(), None).unwrap();
        assert_eq!(read_again.limit, Some(7));
        assert_eq!(
            (read_again.bases.len(), complaints.is_empty()),
            (usize::from(counts), counts),
            "{mode:o}"
        );
        write(root.path(), None, &read_again).unwrap();
        let written = read(root.path(), None).unwrap();
        assert_eq!((written.0.bases.len(), written.1.len()), (usize::from(counts), 0), "{mode:o}");
        let text = fs::read_to_string(root.path().join(FILE)).unwrap();
        assert_eq!(text.contains("# base = /one"), !counts, "{text}");
    }
}

proptest! {
    #[test]
    fn every_path_of_a_base_is_read_again(bytes in prop::collection::vec(1_u8..=255, 0..40)) {
        let path = base(&[b"/", &bytes[..]].concat());
        let mut settings = Settings::default();
        settings.set(BASE, &base_text(&path)).unwrap();
        prop_assert_eq!(&settings.bases, std::slice::from_ref(&path));
        prop_assert_eq!(Settings::parse(&settings.to_text()), (settings, Vec::new()));
    }

    #[test]
    fn written_settings_are_read_again(values in prop::array::uniform5(prop::option::of(any::<u64>())), kinds in 0..3) {
        let [limit, application_limit, free_space, days, modules] = values;
        let mut settings = Settings { limit, application_limit, free_space, ..Settings::default() };
        settings.device_age_ms = days.map(|days| (days % 100_000) * DAY);
        settings.modules = modules.map(|runs| match kinds {
            0 => ModulePolicy::All,
            1 => ModulePolicy::None,
            _ => ModulePolicy::UsedInLast(runs as u32),
        });
        prop_assert_eq!(Settings::parse(&settings.to_text()), (settings, Vec::new()));
    }

    #[test]
    fn any_text_is_read_and_nothing_of_it_is_lost(lines in prop::collection::vec("[a-z=# -]{0,12}|\\PC{0,20}", 0..8)) {
        let (settings, _) = Settings::parse(&lines.join("\n"));
        prop_assert_eq!(Settings::parse(&settings.to_text()).0, settings);
    }
}

#[test]
fn a_root_and_an_application_have_their_own_files() {
    let root = root();
    drop(open(root.path()));
    let folder = app().folder;
    let of_root = Settings::parse("# by hand\nlimit = 1GiB").0;
    write(root.path(), None, &of_root).unwrap();
    write(root.path(), Some(&folder), &Settings { limit: Some(7), ..Settings::default() }).unwrap();
    assert_eq!(read(root.path(), None).unwrap(), (of_root, Vec::new()));
    assert_eq!(read(root.path(), Some(&folder)).unwrap().0.limit, Some(7));
    let file = root.path().join(&folder).join(FILE);
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    // The settings file of the root is no application, and hides none.
    let listed = list_applications(root.path()).unwrap();
    assert_eq!(listed.iter().map(|info| info.folder.as_str()).collect::<Vec<_>>(), [folder.as_str()]);
    assert!(listed[0].unusable.is_empty(), "{listed:?}");
    // Without settings there is no file.
    write(root.path(), Some(&folder), &Settings::default()).unwrap();
    assert!(!file.exists());
}

#[test]
fn reading_makes_nothing_and_writing_makes_no_application() {
    let parent = root();
    let root = parent.path().join("stash");
    assert_eq!(read(&root, None).unwrap(), Default::default());
    assert!(!root.exists());
    write(&root, None, &Settings { limit: Some(1), ..Settings::default() }).unwrap();
    let failed = write(&root, Some("game-0123456789abcdef"), &Settings::default());
    assert!(matches!(failed, Err(SettingsError::Open(OpenError::Unreadable { .. }))), "{failed:?}");
    for name in ["", ".", "..", "a/b", "../x"] {
        let failed = write(&root, Some(name), &Settings::default());
        assert!(matches!(failed, Err(SettingsError::Open(OpenError::Name { .. }))), "{name}: {failed:?}");
    }
}

#[test]
fn changes_at_the_same_time_are_all_kept() {
    let parent = root();
    let root = parent.path().join("stash");
    std::thread::scope(|scope| {
        for number in 0..16 {
            let root = &root;
            scope.spawn(move || {
                let add = |settings: &mut Settings, _: &[String]| {
                    settings.set(BASE, &format!("/{number}")).unwrap();
                    Ok::<_, SettingsError>(())
                };
                change(root, None, add).unwrap();
            });
        }
    });
    let (settings, complaints) = read(&root, None).unwrap();
    assert_eq!((settings.bases.len(), complaints.len()), (16, 0), "{settings:?}");
}

#[test]
fn a_change_that_is_refused_leaves_all_as_it_was_and_one_that_is_made_tells_what_is_ignored() {
    let parent = root();
    let root = parent.path().join("stash");
    let refuse = |settings: &mut Settings, _: &[String]| {
        settings.limit = Some(1);
        Err(SettingsError::Busy { path: PathBuf::new() })
    };
    assert!(matches!(change(&root, None, refuse), Err(SettingsError::Busy { .. })));
    assert!(!root.exists());
    let accept = |settings: &mut Settings, _: &[String]| {
        settings.limit = Some(7);
        Ok::<_, SettingsError>(())
    };
    assert_eq!(change(&root, None, accept).unwrap(), Vec::<String>::new());
    let file = root.join(FILE);
    fs::write(&file, "colour = red\n").unwrap();
    assert!(change(&root, None, refuse).is_err());
    assert_eq!(fs::read_to_string(&file).unwrap(), "colour = red\n");
    assert_eq!(change(&root, None, accept).unwrap().len(), 1);
    assert_eq!(fs::read_to_string(&file).unwrap(), "colour = red\nlimit = 7\n");
    // What cannot be read stays.
    fs::write(&file, [0xff; 8]).unwrap();
    assert!(matches!(change(&root, None, accept), Err(SettingsError::Unusable { .. })));
    assert_eq!(fs::read(&file).unwrap(), [0xff; 8]);
}

#[test]
fn a_change_waits_for_another_one_and_reading_does_not() {
    let root = root();
    let folder = crate::disk::folder::Folder::root(root.path(), false).unwrap();
    let limit = |settings: &mut Settings, _: &[String]| {
        settings.limit = Some(7);
        Ok::<_, SettingsError>(())
    };
    crate::disk::ops::try_lock(&folder).unwrap();
    let failed = Locked::of(root.path(), None, Duration::from_millis(20)).map(drop);
    assert!(matches!(failed, Err(SettingsError::Busy { .. })), "{failed:?}");
    assert_eq!(read(root.path(), None).unwrap(), Default::default());
    std::thread::scope(|scope| {
        let changing = scope.spawn(|| change(root.path(), None, limit));
        std::thread::sleep(Duration::from_millis(50));
        assert!(!changing.is_finished());
        drop(folder);
        changing.join().unwrap().unwrap();
    });
    assert_eq!(read(root.path(), None).unwrap().0.limit, Some(7));
}

#[test]
fn a_file_that_cannot_be_used_leaves_the_defaults_and_is_named() {
    let root = root();
    let file = root.path().join(FILE);
    let folder = crate::disk::folder::Folder::root(root.path(), false).unwrap();
    let real = root.path().join("real");
    fs::write(&real, "limit = 1").unwrap();
    let spoil: [&dyn Fn(); 4] = [
        &|| symlink(&real, &file).unwrap(),
        &|| fs::write(&file, "limit = 1\n".repeat(7000)).unwrap(),
        &|| fs::write(&file, b"limit = 1\n\xff").unwrap(),
        &|| fs::create_dir(&file).unwrap(),
    ];
    for (number, spoil) in spoil.iter().enumerate() {
        spoil();
        assert_eq!(Settings::read_in(&folder), Settings::default(), "{number}");
        let failed = read(root.path(), None);
        assert!(matches!(failed, Err(SettingsError::Unusable { .. })), "{number}: {failed:?}");
        let _ = fs::remove_file(&file);
    }
}

#[test]
fn an_applications_names_are_the_roots() {
    assert!(APPLICATION_NAMES.iter().all(|name| ROOT_NAMES.contains(name)));
    for name in ROOT_NAMES {
        let mut settings = Settings::default();
        let value = match name {
            BACKGROUND => "profiling",
            DEVELOPER_MODE => "on",
            BASE => "/a base",
            _ => "none",
        };
        settings.set(name, value).unwrap();
        assert_eq!(settings.to_text().lines().count(), 1);
        settings.unset(name);
        assert_eq!(settings, Settings::default());
    }
}

#[test]
fn modes_of_background_work_have_names_and_switches_are_on_or_off() {
    for mode in BackgroundMode::ALL {
        let (settings, complaints) = Settings::parse(&format!("background = {}", mode.name()));
        assert_eq!((settings.background, complaints), (Some(mode), Vec::new()));
    }
    for (text, expected) in [("on", Some(true)), ("OFF", Some(false)), ("1", None), ("none", None)] {
        let (settings, complaints) =
            Settings::parse(&format!("developer-mode = {text}\nbackground = {text}"));
        assert_eq!((settings.developer_mode, settings.background), (expected, None));
        assert_eq!(complaints.len(), 1 + usize::from(expected.is_none()), "{complaints:?}");
    }
}

#[test]
fn kinds_of_caches_have_names_and_an_application_replaces_those_of_the_root() {
    for (text, expected) in [
        ("none", Some(CacheKinds::NONE)),
        ("compilations", Some(CacheKinds::COMPILATIONS)),
        ("Sessions  conversions", Some(CacheKinds::SESSIONS.with(CacheKinds::CONVERSIONS))),
        ("compilations conversions driver-managed sessions", Some(CacheKinds::ALL)),
        ("everything", None),
        ("sessions, conversions", None),
    ] {
        let (settings, complaints) = Settings::parse(&format!("disabled-caches = {text}"));
        assert_eq!(
            (settings.disabled_caches, complaints.is_empty()),
            (expected, expected.is_some()),
            "{text}"
        );
        if let Some(kinds) = expected {
            assert_eq!(CacheKinds::of_text(&kinds.text()), Some(kinds));
        }
    }
    let root = root();
    let folder = "game-0123456789abcdef";
    fs::create_dir(root.path().join(folder)).unwrap();
    let disables = |of, kinds| {
        write(root.path(), of, &Settings { disabled_caches: kinds, ..Settings::default() }).unwrap();
        disabled_caches(root.path(), folder)
    };
    assert_eq!(disables(None, None), CacheKinds::NONE);
    assert_eq!(disables(None, Some(CacheKinds::ALL)), CacheKinds::ALL);
    assert_eq!(disables(Some(folder), Some(CacheKinds::SESSIONS)), CacheKinds::SESSIONS);
    assert_eq!(disables(Some(folder), Some(CacheKinds::NONE)), CacheKinds::NONE);
}

/// A stash that is opened in a hurry does not say that the settings disable nothing.
#[test]
fn settings_that_were_put_off_say_nothing() {
    let root = root();
    let settings = Settings { disabled_caches: Some(CacheKinds::ALL), ..Settings::default() };
    write(root.path(), None, &settings).unwrap();
    let hasty = WaitLimits { opening: Duration::ZERO, helper: Duration::ZERO, ..WaitLimits::UNLIMITED };
    let stash = open_within(root.path(), hasty);
    assert_eq!(stash.background_mode_at_opening(), None);
    // The helper may have read them by now.
    assert!(stash.disabled_caches_at_opening().is_none_or(|kinds| kinds == CacheKinds::ALL));
    drop(stash);
    assert_eq!(open(root.path()).disabled_caches_at_opening(), Some(CacheKinds::ALL));
}

#[test]
fn bases_beyond_the_limit_stay_behind_the_others_and_each_folder_counts_once() {
    let lines: Vec<_> = (0..20).map(|number| format!("base = /{number}\n")).collect();
    let text = lines.concat();
    let (settings, complaints) = Settings::parse(&text);
    assert_eq!((settings.bases.len(), complaints.len()), (16, 4), "{complaints:?}");
    assert_eq!(settings.to_text(), text);
    let spellings = "base = /a/b\nbase = /a//b/\nbase = /a/./b\nbase = /a/b\n";
    let (settings, complaints) = Settings::parse(spellings);
    assert_eq!((settings.to_text().as_str(), complaints.len()), ("base = /a/b\n", 0));
    let (settings, _) = Settings::parse("base = /a//b/\nbase = /c/./d/\n");
    assert_eq!(settings.to_text(), "base = /a/b\nbase = /c/d\n");
}
