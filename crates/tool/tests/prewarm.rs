//! `vkstash prewarm` before it starts a worker.

use vkstash_model::app_name::AppName;
use vkstash_model::record::Kind;
use vkstash_store::format::device::DeviceHeader;
use vkstash_store::stash::open::Stash;

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

/// The first bytes of a file for 32-bit programs on x86-64, which no system executes.
fn narrow(path: &Path) {
    let mut head = [0; 20];
    head[..6].copy_from_slice(&[0x7f, b'E', b'L', b'F', 1, 1]);
    (head[16], head[18]) = (3, 3);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, head).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
#[cfg(target_arch = "x86_64")]
fn what_32_bit_programs_used_is_for_a_32_bit_worker_alone() {
    let sandbox = Sandbox::new();
    let root = sandbox.path("root");
    let stash = Stash::open_patiently(&root, &AppName::new(Some(b"game"), b"/bin/game")).unwrap();
    let part = stash.device(&DeviceHeader { pointer_width: 4, ..header() }).unwrap();
    for key in [[1; 32], [2; 32]] {
        stash.portable().put(Kind::Recipe, &key, b"recipe".as_slice().into());
        part.put(Kind::Artifact, &key, noise(64));
    }
    stash.flush(Duration::from_secs(500));
    drop((part, stash));
    let library = sandbox.path("lib32/libVkLayer_vkstash.so");
    narrow(&library);
    let prewarm = |more: &[&str]| {
        let mut command = sandbox.tool();
        command.args(["prewarm", "--all", "--library"]).arg(&library).arg("--dir").arg(&root);
        let told = output(command.args(more));
        (text(&told.stdout).to_owned(), told.status.success())
    };
    // Nothing is made for 64-bit programs in their place, and nothing has failed.
    let (said, well) = prewarm(&[]);
    assert!(
        said.contains("2 pipelines of 32-bit programs left out: install vkstash-layer_") && well,
        "{said}"
    );
    narrow(&sandbox.path("lib32/vkstash/vkstash-worker"));
    let (said, well) = prewarm(&[]);
    assert!(said.contains("\n  32-bit programs: ") && !said.contains("left out") && !well, "{said}");
    let manifest = sandbox.path("driver.json");
    fs::write(&manifest, r#"{ "ICD": { "library_path": "libvulkan_x.so" } }"#).unwrap();
    let (said, well) = prewarm(&["--driver", manifest.to_str().unwrap()]);
    assert!(said.contains("left out: --driver") && well, "{said}");
}
