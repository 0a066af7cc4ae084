//! Reading a part from outside.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::FileExt;

use crate::stash::browse::Browser;
use crate::tests::damage::device_folder;
use crate::tests::*;

fn recipes(browser: &Browser) -> BTreeMap<Key, Vec<u8>> {
    let mut found = BTreeMap::new();
    browser.for_each(&|kind| kind == Kind::Recipe, &mut |kind, key, bytes| {
        assert_eq!(kind, Kind::Recipe);
        assert!(found.insert(*key, bytes.to_vec()).is_none(), "each key once");
    });
    found
}

fn put(root: &Path, number: u64, bytes: &[u8]) {
    let stash = open(root);
    assert!(stash.portable().put(Kind::Recipe, &key(number), bytes.into()));
    assert!(stash.portable().put(Kind::Layout, &key(number), bytes.into()));
}

#[test]
fn the_newest_good_record_of_each_key_is_given() {
    let root = root();
    put(root.path(), 1, &noise(1, 300));
    put(root.path(), 2, &noise(2, 300));
    let first = segments(root.path());
    put(root.path(), 1, &noise(3, 300));
    let newest: Vec<_> = segments(root.path()).into_iter().filter(|file| !first.contains(file)).collect();
    // A segment that is still written.
    let stash = open(root.path());
    assert!(stash.portable().put(Kind::Recipe, &key(4), noise(4, 300)));
    flush_all(&stash);
    let before = fs::read_dir(root.path().join(app().folder).join("portable")).unwrap().count();

    let opened = || Browser::open(root.path(), &app().folder, "portable").unwrap();
    let expected = [(1, 3), (2, 2), (4, 4)].map(|(of, bytes)| (key(of), noise(bytes, 300).into()));
    assert_eq!(recipes(&opened()), BTreeMap::from(expected));
    let mut bytes = Vec::new();
    assert!(opened().read(Kind::Recipe, &key(1), &mut bytes) && bytes[..] == *noise(3, 300));
    assert!(
        !opened().read(Kind::Recipe, &key(9), &mut bytes)
            && !opened().read(Kind::Module, &key(1), &mut bytes)
    );

    // Damage uncovers the older one.
    let [file] = newest.try_into().unwrap();
    let place = fs::read(&file).unwrap().windows(300).position(|bytes| bytes[..] == *noise(3, 300)).unwrap();
    fs::File::options().write(true).open(&file).unwrap().write_all_at(b"damage", place as u64 + 9).unwrap();
    assert_eq!(recipes(&opened())[&key(1)], *noise(1, 300));
    assert!(opened().read(Kind::Recipe, &key(1), &mut bytes) && bytes[..] == *noise(1, 300));
    let after = fs::read_dir(root.path().join(app().folder).join("portable")).unwrap().count();
    assert_eq!(before, after, "nothing is created");
}

#[test]
fn segments_of_other_devices_and_missing_parts_give_nothing() {
    let root = root();
    put(root.path(), 1, &noise(1, 300));
    let stash = open(root.path());
    put_all(&stash.device(&header()).unwrap(), Kind::Artifact, 0..3);
    drop(stash);
    let device = device_folder(root.path(), &header());
    let foreign = device.with_file_name("device-0123456789abcdef");
    fs::rename(&device, &foreign).unwrap();
    let browser = Browser::open(root.path(), &app().folder, "device-0123456789abcdef").unwrap();
    browser.for_each(&|_| true, &mut |kind, _, _| panic!("{kind:?} of another device"));
    assert!(
        Browser::open(root.path(), &app().folder, "device-0000000000000000")
            .is_err_and(|error| error.is_missing())
    );
}
