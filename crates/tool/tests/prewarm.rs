//! `vkstash prewarm` before it starts a worker.

use super::*;

fn prewarm(sandbox: &Sandbox, manifest: &Path, more: &[&str]) -> Output {
    output(sandbox.tool().args(["prewarm", "--all", "--driver"]).arg(manifest).args(more))
}

#[test]
fn prewarm_says_in_one_line_why_a_file_is_no_manifest_of_a_driver() {
    let sandbox = Sandbox::new();
    let icd = r#"{ "file_format_version": "1.0.0", "ICD": { "library_path": "libvulkan_x.so" } }"#;
    for (name, content, why) in [
        ("library.so", Some("\x7fELF"), "has no ICD.library_path"),
        ("layer.json", Some(r#"{ "layer": { "library_path": "libVkLayer_x.so" } }"#), "radeon_icd.json"),
        ("number.json", Some(r#"{ "ICD": { "library_path": 1 } }"#), "has no ICD.library_path"),
        ("missing.json", None, "cannot read the driver's manifest"),
        ("of:two.json", Some(icd), "separates them by colons"),
    ] {
        let manifest = sandbox.path(name);
        if let Some(content) = content {
            fs::write(&manifest, content).unwrap();
        }
        let told = prewarm(&sandbox, &manifest, &[]);
        let said = text(&told.stderr);
        assert_eq!(told.status.code(), Some(1), "{said}");
        assert!(told.stdout.is_empty() && said.lines().count() == 1, "{said}");
        assert!(said.contains(why) && said.contains(name), "{said}");
    }
    let folder = prewarm(&sandbox, &sandbox.temp(), &[]);
    assert!(text(&folder.stderr).contains("not a regular file"), "{folder:?}");

    // There is nothing to make.
    let manifest = sandbox.path("driver.json");
    fs::write(&manifest, icd).unwrap();
    let told = prewarm(&sandbox, &manifest, &[]);
    assert!(told.status.success() && told.stderr.is_empty(), "{told:?}");
    // What a program has left, its own driver has.
    assert_eq!(prewarm(&sandbox, &manifest, &["--finish", "00"]).status.code(), Some(2));
    assert!(sandbox.nothing_left_in_temp());
}
