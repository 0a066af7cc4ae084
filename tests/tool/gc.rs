//! `vkstash gc`: a stash that is larger than its limit is not afterwards.

use VkLayer_vkstash::store::name::AppName;
use VkLayer_vkstash::store::part::Kind;
use VkLayer_vkstash::store::stash::Stash;

use super::*;

fn gc(house: &House, dir: &Path) -> String {
    let output = output(house.tool().arg("gc").arg("--dir").arg(dir));
    assert!(output.status.success(), "{output:?}");
    text(&output.stdout).to_owned()
}

#[test]
fn what_is_beyond_the_limit_goes_and_is_told() {
    let house = House::new();
    let dir = house.path("stash");
    assert_eq!(gc(&house, &dir), "nothing had to go, and nothing had to be merged\n");
    let app = AppName::new(Some(b"game"), b"/bin/game", &[]);
    let stash = Stash::open(&dir, &app).unwrap();
    for number in 0..20 {
        assert!(stash.portable().put(Kind::Module, &[number; 32], noise(50_000)));
    }
    drop(stash);
    assert_eq!(gc(&house, &dir), "nothing had to go, and nothing had to be merged\n");
    let set = output(house.tool().args(["keep", "--limit", "500KiB", "--dir"]).arg(&dir));
    assert!(set.status.success(), "{set:?}");
    let told = gc(&house, &dir);
    assert!(told.contains("(total_limit)") && told.contains("evicted: 11 records"), "{told}");
    let stash = Stash::open(&dir, &app).unwrap();
    assert_eq!(stash.portable().len(Kind::Module), 9);
}
