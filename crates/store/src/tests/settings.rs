//! The settings: values, files that cannot be used, and which file counts.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::time::Duration;

use proptest::prelude::*;

use crate::bounds::{Limits, ModulePolicy};
use crate::home::MOST_BASES;
use crate::part::queue::WaitLimits;
use crate::settings::file::Config;
use crate::settings::places::use_files;
use crate::settings::{
    APPLICATION_NAMES, BACKGROUND, BASES, CacheKinds, DEVELOPER_MODE, FREE_SPACE, NAMES, SETTINGS, Settings,
    UPDATE_MINUTES, UPDATE_PROCESSORS, UPDATES, ValueError, disabled_caches, read, size_text,
};
use crate::stash::inspect::list_applications;
use crate::tests::processes::in_a_child;
use crate::tests::*;
use vkstash_model::background_mode::BackgroundMode;
use vkstash_model::variables::{self, CONFIG_FILE};

const DAY: u64 = 24 * 60 * 60 * 1000;

fn limit_of(value: &str) -> Option<u64> {
    let mut settings = Settings::default();
    settings.set("limit", value).ok()?;
    settings.limit
}

#[test]
fn what_is_not_set_keeps_its_default() {
    let limits = Settings::default().limits(10_000);
    assert_eq!(limits, Limits { free_space_floor: Limits::floor_for(10_000), ..Limits::default() });
    let set =
        Config::parse("limit = 1\napplication-limit = 'none'\nfree-space = 7\ndevice-age = 30\nmodules = 5");
    let limits = set.all.limits(1 << 40);
    assert_eq!((limits.total_bytes, limits.per_app, limits.free_space_floor), (1, Some(u64::MAX), 7));
    assert_eq!((limits.device_age, limits.module_policy), (30 * DAY, ModulePolicy::UsedInLast(5)));
}

#[test]
fn the_lists_for_people_have_the_numbers() {
    let setting = |name: &str| SETTINGS.into_iter().find(|setting| setting.name == name).unwrap();
    assert_eq!(setting(BASES).value, format!("list of at most {MOST_BASES} absolute paths"));
    let free_space = format!("3 % of the disk, at most {}", size_text(Limits::LARGEST_FLOOR));
    assert_eq!(setting(FREE_SPACE).default, free_space);
    assert_eq!(Limits::floor_for(10_000), 300);
    let variable = |name: &str| variables::ALL.iter().find(|variable| variable.name == name).unwrap();
    let by_default = |time: Duration| format!("milliseconds; {} by default", time.as_millis());
    let WaitLimits { opening, refresh, end, .. } = WaitLimits::PROGRAM;
    assert_eq!(variable(variables::OPEN_MS).values, by_default(opening));
    assert!(variable(variables::OPEN_MS).meaning.contains(&format!("(at least {},", refresh.as_millis())));
    assert_eq!(variable(variables::END_MS).values, by_default(end));
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
fn each_name_has_a_value_that_is_written_as_it_is_read() {
    assert!(APPLICATION_NAMES.iter().all(|name| NAMES.contains(name)));
    for name in NAMES {
        let mut settings = Settings::default();
        assert_eq!(settings.text(name), None);
        let value = match name {
            BACKGROUND => "profiling",
            DEVELOPER_MODE | UPDATES => "on",
            UPDATE_PROCESSORS => "3",
            BASES => "/a base",
            "free-space" => "3MiB",
            _ => "none",
        };
        settings.set(name, value).unwrap();
        assert_eq!(settings.text(name).as_deref(), Some(value));
        assert_eq!(Settings::default().or(&settings), settings);
    }
    assert_eq!(Settings::default().set("colour", "red"), Err(ValueError::Name));
    let mut settings = Settings::default();
    for wrong in ["0", "-1", "none", "two"] {
        assert_eq!(settings.set(UPDATE_PROCESSORS, wrong), Err(ValueError::Processors), "{wrong}");
    }
    assert_eq!(settings.set(UPDATE_MINUTES, "1h"), Err(ValueError::Minutes));
    assert_eq!(settings.set(UPDATES, "1"), Err(ValueError::Switch));
    assert_eq!(settings, Settings::default());
}

#[test]
fn modes_of_background_work_have_names_and_switches_are_on_or_off() {
    let set = |name, value| {
        let mut settings = Settings::default();
        settings.set(name, value).map(|()| settings)
    };
    for mode in BackgroundMode::ALL {
        assert_eq!(set(BACKGROUND, mode.name()).unwrap().background, Some(mode));
    }
    for (text, expected) in
        [("on", Some(true)), ("true", Some(true)), ("OFF", Some(false)), ("1", None), ("none", None)]
    {
        assert_eq!(
            set(DEVELOPER_MODE, text).ok().and_then(|settings| settings.developer_mode),
            expected,
            "{text}"
        );
        assert!(set(BACKGROUND, text).is_err());
    }
}

#[test]
fn bases_are_absolute_paths_each_folder_counts_once_and_there_are_not_too_many() {
    let config = Config::parse("bases = ['/a/b', '/a//b/', '/a/./b', '/c d/']\n");
    assert_eq!(config.all.bases, ["/a/b", "/c d"].map(PathBuf::from));
    for wrong in ["three", "", "/a\0"] {
        assert_eq!(Settings::default().set(BASES, wrong), Err(ValueError::Base), "{wrong:?}");
    }
    let mut settings = Settings::default();
    for number in 0..16 {
        settings.set(BASES, &format!("/{number}")).unwrap();
    }
    assert_eq!(settings.set(BASES, "/16"), Err(ValueError::Bases));
    assert_eq!(settings.set(BASES, "/3"), Ok(()), "it is there already");
    let more = Settings { bases: vec!["/x".into()], ..Settings::default() };
    assert_eq!(more.or(&settings).bases.len(), 16, "those that come later are left out");
}

#[test]
fn kinds_of_caches_have_names_and_an_application_replaces_those_of_all() {
    for (text, expected) in [
        ("none", Some(CacheKinds::NONE)),
        ("compilations", Some(CacheKinds::COMPILATIONS)),
        ("Sessions  conversions", Some(CacheKinds::SESSIONS.with(CacheKinds::CONVERSIONS))),
        ("compilations conversions driver-managed sessions", Some(CacheKinds::ALL)),
        ("everything", None),
        ("sessions, conversions", None),
    ] {
        let mut settings = Settings::default();
        let _ = settings.set("disabled-caches", text);
        assert_eq!(settings.disabled_caches, expected, "{text}");
        if let Some(kinds) = expected {
            assert_eq!(CacheKinds::of_text(&kinds.text()), Some(kinds));
        }
    }
    let root = root();
    let disables = |text: &str| {
        fs::write(root.path().join(CONFIG_FILE), text).unwrap();
        disabled_caches(root.path(), "game-01234567-89abcdef")
    };
    assert_eq!(disables(""), CacheKinds::NONE);
    let all = "disabled-caches = ['compilations', 'conversions', 'driver-managed', 'sessions']\n";
    assert_eq!(disables(all), CacheKinds::ALL);
    let own = |kinds: &str| format!("{all}[application.game]\ndisabled-caches = {kinds}\n");
    assert_eq!(disables(&own("'sessions'")), CacheKinds::SESSIONS);
    assert_eq!(disables(&own("[]")), CacheKinds::NONE);
}

/// A driver gets what a base has.
#[test]
fn no_base_is_taken_from_a_file_that_others_may_write_to() {
    let root = root();
    for (mode, counts) in [(0o600, true), (0o644, true), (0o620, false), (0o602, false)] {
        let path = root.path().join(CONFIG_FILE);
        fs::write(&path, "limit = 7\nbases = ['/one']\n").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        let found = read(root.path());
        let settings = found.all();
        assert_eq!((settings.limit, settings.bases.len()), (Some(7), usize::from(counts)), "{mode:o}");
        let expected = format!("{}: line 2: `bases` does not count", path.display());
        assert_eq!(found.complaints().iter().any(|line| line.starts_with(&expected)), !counts, "{mode:o}");
        fs::remove_file(path).unwrap();
    }
}

/// The user's file counts before the system's, and both before that of the root; what is said of an application counts
/// before what is said of all.
#[test]
fn of_several_files_the_first_that_sets_a_value_counts() {
    in_a_child("of_several_files_the_first_that_sets_a_value_counts", &[], || {
        let parent = root();
        let root = parent.path().join("stash");
        fs::create_dir(&root).unwrap();
        let [user, system, missing] =
            ["user.toml", "system.toml", "missing.toml"].map(|name| parent.path().join(name));
        fs::write(&user, "limit = 1\nbases = ['/user']\n[application.game]\nbackground = 'intrusive'\n")
            .unwrap();
        fs::write(
            &system,
            "limit = 2\nfree-space = 2\n[application.game]\nlimit = 22\nbackground = 'disabled'\n",
        )
        .unwrap();
        fs::write(
            root.join(CONFIG_FILE),
            "limit = 3\nfree-space = 3\ndevice-age = 3\nbases = ['/root', '/user']\n",
        )
        .unwrap();
        use_files(vec![user, missing, system]);
        let found = read(&root);
        assert_eq!(found.files().len(), 3, "a file that is missing is none");
        let all = found.all();
        assert_eq!((all.limit, all.free_space, all.device_age_ms), (Some(1), Some(2), Some(3 * DAY)));
        assert_eq!(all.bases, ["/user", "/root"].map(PathBuf::from));
        let own = found.of("game-01234567-89abcdef");
        assert_eq!((own.limit, own.background), (Some(22), Some(BackgroundMode::Intrusive)));
        assert_eq!(found.of("other-01234567-89abcdef"), Settings::default());
        let missing = read(&parent.path().join("none")).all();
        assert_eq!(missing.limit, Some(1), "also where there is no stash");
    });
}

#[test]
fn the_file_of_a_root_is_no_application_and_reading_makes_nothing() {
    let parent = root();
    let root = parent.path().join("stash");
    assert_eq!(read(&root).all(), Settings::default());
    assert!(!root.exists());
    drop(open(&root));
    fs::write(root.join(CONFIG_FILE), "limit = 7\n").unwrap();
    let listed = list_applications(&root).unwrap();
    assert_eq!(listed.iter().map(|info| info.folder.as_str()).collect::<Vec<_>>(), [app().folder.as_str()]);
    assert!(listed[0].unusable.is_empty(), "{listed:?}");
}

#[test]
fn a_file_that_cannot_be_used_leaves_the_defaults_and_is_named() {
    let root = root();
    let file = root.path().join(CONFIG_FILE);
    let real = root.path().join("real");
    fs::write(&real, "limit = 1").unwrap();
    let spoil: [&dyn Fn(); 5] = [
        &|| symlink(&real, &file).unwrap(),
        &|| fs::write(&file, "limit = 1\n".repeat(7000)).unwrap(),
        &|| fs::write(&file, b"limit = 1\n\xff").unwrap(),
        &|| fs::write(&file, "limit = \n").unwrap(),
        &|| fs::create_dir(&file).unwrap(),
    ];
    for (number, spoil) in spoil.iter().enumerate() {
        spoil();
        let found = read(root.path());
        assert_eq!(found.all(), Settings::default(), "{number}");
        assert_eq!(found.limits_to_enforce(0), None, "{number}");
        let complaints = found.complaints();
        assert!(complaints[0].starts_with(&format!("{}: ", file.display())), "{complaints:?}");
        let _ = fs::remove_file(&file).or_else(|_| fs::remove_dir(&file));
    }
    // Files of the user's and of the system are named by paths, and may be links.
    use crate::settings::places::of_path;
    symlink(&real, &file).unwrap();
    assert_eq!(of_path(&file).unwrap().config.all.limit, Some(1));
    let pipe = root.path().join("pipe");
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
    for (path, reason) in [(pipe.as_path(), "is no regular file"), (root.path(), "is no regular file")] {
        assert_eq!(of_path(path).unwrap().refused.as_deref(), Some(reason), "{path:?}");
    }
    assert!(of_path(&root.path().join("none")).is_none() && of_path(&real.join("x")).is_none());
}

/// A stash that is opened in a hurry does not say that the settings disable nothing.
#[test]
fn settings_that_were_put_off_say_nothing() {
    let root = root();
    fs::write(root.path().join(CONFIG_FILE), "disabled-caches = ['sessions']\n").unwrap();
    let hasty = WaitLimits { opening: Duration::ZERO, helper: Duration::ZERO, ..WaitLimits::UNLIMITED };
    let stash = open_within(root.path(), hasty);
    assert_eq!(stash.background_mode_at_opening(), None);
    // The helper may have read them by now.
    assert!(stash.disabled_caches_at_opening().is_none_or(|kinds| kinds == CacheKinds::SESSIONS));
    drop(stash);
    assert_eq!(open(root.path()).disabled_caches_at_opening(), Some(CacheKinds::SESSIONS));
}

proptest! {
    #[test]
    fn any_text_is_read(lines in prop::collection::vec("[a-z=# \\[\\]\"'.-]{0,16}|\\PC{0,20}", 0..8)) {
        let text = lines.join("\n");
        let config = Config::parse(&text);
        prop_assert!(config.is_toml || !config.complaints.is_empty(), "{:?}", text);
        prop_assert!(config.complaints.iter().all(|complaint| complaint.line <= lines.len().max(1)));
    }
}
