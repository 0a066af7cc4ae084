//! The C API: the header in C and in C++, and programs that link the layer's library.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use vkstash_layer_tests::{paths, skip};

const WARNINGS: [&str; 4] = ["-Wall", "-Wextra", "-Wpedantic", "-Werror"];

fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
}

/// A compiler with the name that the language's programs usually have.
fn compiler(name: &str) -> Option<Command> {
    let there = Command::new(name).arg("--version").output().is_ok_and(|output| output.status.success());
    if !there {
        skip::missing(&skip::this_test(), &format!("no compiler {name}"));
    }
    there.then(|| Command::new(name))
}

fn succeed(command: &mut Command) -> String {
    let Output { status, stdout, stderr } = command.output().unwrap();
    let text = [stdout, stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    assert!(status.success(), "{command:?}: {status}\n{}\n{}", text[0], text[1]);
    text[0].clone()
}

#[test]
fn c_and_cpp_take_the_header_without_warnings() {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("header.c");
    fs::write(&source, "#include <vkstash.h>\n#include <vkstash.h>\nint main(void) { return 0; }\n").unwrap();
    for (name, language, standard) in [("cc", "c", "-std=c99"), ("c++", "c++", "-std=c++17")] {
        let Some(mut compiler) = compiler(name) else { continue };
        compiler.args(WARNINGS).args([standard, "-x", language, "-fsyntax-only"]);
        succeed(compiler.arg("-I").arg(repository().join("include")).arg(&source));
    }
}

/// Programs of 32 bits use the 32-bit library. Freestanding, because the header needs no C library, of which the
/// machine may have no 32-bit headers.
#[test]
fn c_and_cpp_take_the_header_for_32_bits() {
    let folder = tempfile::tempdir().unwrap();
    let [source, empty] = ["header.c", "empty.c"].map(|name| folder.path().join(name));
    fs::write(&source, "#include <vkstash.h>\ntypedef char narrow[sizeof(void *) == 4 ? 1 : -1];\n").unwrap();
    fs::write(&empty, "int nothing;\n").unwrap();
    for (name, language, standard) in [("cc", "c", "-std=c99"), ("c++", "c++", "-std=c++17")] {
        let Some(mut probe) = compiler(name) else { continue };
        probe.args(["-m32", "-x", language, "-fsyntax-only"]).arg(&empty);
        if !probe.output().unwrap().status.success() {
            skip::not_here(&skip::this_test(), &format!("{name} does not compile for 32 bits"));
            continue;
        }
        let Some(mut compiler) = compiler(name) else { continue };
        compiler.args(WARNINGS).args([standard, "-m32", "-ffreestanding", "-x", language, "-fsyntax-only"]);
        succeed(compiler.arg("-I").arg(repository().join("include")).arg(&source));
    }
}

/// What pkg-config says of the library under test.
fn flags(folder: &Path) -> Vec<String> {
    let library = paths::layer_library();
    let text = fs::read_to_string(repository().join("include/vkstash.pc.in")).unwrap();
    let text = text.replace("@PREFIX@", "/usr").replace("@VERSION@", env!("CARGO_PKG_VERSION"));
    let text = text.replace("@LIBDIR@", library.parent().unwrap().to_str().unwrap());
    let text = text.replace("@INCLUDEDIR@", repository().join("include").to_str().unwrap());
    assert!(!text.contains('@'), "{text}");
    fs::write(folder.join("vkstash.pc"), text).unwrap();
    let mut command = Command::new("pkg-config");
    if command.args(["--cflags", "--libs", "vkstash"]).env("PKG_CONFIG_PATH", folder).output().is_err() {
        // Without pkg-config the test passes the flags that the file would give.
        let library = library.parent().unwrap().display();
        return [format!("-I{}", repository().join("include").display()), format!("-L{library}")]
            .into_iter()
            .chain(["-lVkLayer_vkstash".to_owned()])
            .collect();
    }
    succeed(&mut command).split_whitespace().map(str::to_owned).collect()
}

/// The program, as C or as C++.
fn program(folder: &Path, name: &str, language: &str, standard: &str) -> Option<PathBuf> {
    compiled("session", folder, name, language, standard)
}

/// A program of `tests/api`, as C or as C++.
fn compiled(source: &str, folder: &Path, name: &str, language: &str, standard: &str) -> Option<PathBuf> {
    let mut compiler = compiler(name)?;
    let program = folder.join(format!("{source}-{language}"));
    let source = repository().join(format!("layer-tests/tests/api/{source}.c"));
    compiler
        .args(WARNINGS)
        .args([standard, "-g", "-pthread", "-x", language])
        .arg(source)
        .args(["-x", "none"]);
    succeed(compiler.arg("-o").arg(&program).args(flags(folder)));
    Some(program)
}

/// Runs the program with a stash of its own.
fn run(program: &Path, root: &Path, what: &str, environment: &[(&str, &str)]) {
    let mut command = Command::new(program);
    for (name, _) in std::env::vars_os() {
        if name.as_encoded_bytes().starts_with(b"VKSTASH") {
            command.env_remove(name);
        }
    }
    let library = paths::layer_library();
    command.arg(what).env("LD_LIBRARY_PATH", library.parent().unwrap());
    command.env("VKSTASH_DIR", root).envs(environment.iter().copied());
    assert_eq!(succeed(&mut command), "done\n");
}

fn sessions(root: &Path) -> Vec<PathBuf> {
    let applications = fs::read_dir(root).unwrap().map(|entry| entry.unwrap().path().join("sessions"));
    applications
        .filter_map(|folder| fs::read_dir(folder).ok())
        .flatten()
        .map(|entry| entry.unwrap().path())
        .collect()
}

#[test]
fn programs_in_c_and_cpp_use_sessions() {
    for (name, language, standard) in [("cc", "c", "-std=c99"), ("c++", "c++", "-std=c++17")] {
        let folder = tempfile::tempdir().unwrap();
        let Some(program) = program(folder.path(), name, language, standard) else { continue };
        let root = folder.path().join("stash");
        run(&program, &root, "store", &[]);
        assert_eq!(sessions(&root).len(), 3, "{:?}", sessions(&root));
        run(&program, &root, "find", &[]);
        run(&program, &root, "find", &[("VKSTASH_DEVELOPER_MODE", "1")]);
        assert_eq!(sessions(&root).len(), 3);
        // With DELETE the program clears its caches.
        run(&program, &root, "store", &[("DELETE", "1")]);
        assert!(sessions(&root).is_empty(), "{:?}", sessions(&root));
    }
}

#[test]
fn a_program_that_loads_the_library_uses_sessions_and_forks() {
    let folder = tempfile::tempdir().unwrap();
    let Some(mut compiler) = compiler("cc") else { return };
    let program = folder.path().join("forked");
    compiler.args(WARNINGS).args(["-std=c99", "-D_POSIX_C_SOURCE=200809L", "-o"]).arg(&program);
    compiler.arg("-I").arg(repository().join("include"));
    succeed(compiler.arg(repository().join("layer-tests/tests/api/forked.c")).arg("-ldl"));
    let library = paths::layer_library();
    run(&program, &folder.path().join("stash"), library.to_str().unwrap(), &[]);
}

/// It finds the library among those of the process, or does without.
#[test]
fn the_smallest_example_works_with_and_without_the_library() {
    let source = repository().join("examples/session.c");
    let folder = tempfile::tempdir().unwrap();
    let Some(mut compiler) = compiler("cc") else { return };
    let program = folder.path().join("session");
    compiler.args(WARNINGS).args(["-std=c11", "-I"]).arg(repository().join("include"));
    succeed(compiler.arg(&source).arg("-o").arg(&program).arg("-ldl"));
    let library = paths::layer_library();
    let stash = folder.path().join("stash");
    let run = |library: Option<&Path>| translated(Command::new(&program).args(library), &stash);
    let without = ("no session: libVkLayer_vkstash.so is not loaded", "translated: A SHADER\n");
    assert_said(&run(None), without);
    assert_said(&run(Some(&library)), ("session: open\n", "translated: A SHADER\n"));
    assert_said(&run(Some(&library)), ("session: open\n", "from the session: A SHADER\n"));
    assert_said(&run(None), without);
    let mut disabled = Command::new(&program);
    let disabled = translated(disabled.arg(&library).env("VKSTASH_DISABLE", "1"), &stash);
    assert_said(&disabled, ("no session: disabled (VKSTASH_DISABLE", "translated: A SHADER\n"));
}

/// Where linkers drop libraries of which nothing is needed, the linked example keeps it, and says why it has no
/// session.
#[test]
fn the_example_linked_as_needed_has_a_session_and_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let Some(mut compiler) = compiler("cc") else { return };
    let program = folder.path().join("session");
    compiler.args(WARNINGS).args(["-std=c11", "-DLINKED", "-Wl,--as-needed"]);
    compiler.arg(repository().join("examples/session.c")).arg("-o").arg(&program);
    succeed(compiler.args(flags(folder.path())).arg("-ldl"));
    let stash = folder.path().join("stash");
    let run = |variables: &[(&str, &str)]| {
        let mut command = Command::new(&program);
        command.env("LD_LIBRARY_PATH", paths::layer_library().parent().unwrap());
        translated(command.envs(variables.iter().copied()), &stash)
    };
    assert_said(&run(&[]), ("session: open\n", "translated: A SHADER\n"));
    assert_said(&run(&[]), ("session: open\n", "from the session: A SHADER\n"));
    let disabled = ("no session: disabled (VKSTASH_DISABLE", "translated: A SHADER\n");
    assert_said(&run(&[("VKSTASH_DISABLE", "1")]), disabled);
    fs::write(stash.join("config.toml"), "disabled-caches = ['sessions']\n").unwrap();
    assert_said(&run(&[]), disabled);
}

/// What the example prints, with this stash.
fn translated(example: &mut Command, stash: &Path) -> Output {
    let output = example.env("VKSTASH_DIR", stash).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    output
}

/// What the example says of its session, in a line of its own after the library's, and what it prints.
fn assert_said(output: &Output, (of_session, printed): (&str, &str)) {
    let said = format!("\n{}", String::from_utf8_lossy(&output.stderr));
    assert!(said.contains(&format!("\n{of_session}")), "{said:?}, not {of_session:?}");
    assert_eq!(String::from_utf8_lossy(&output.stdout), printed);
}

#[test]
fn sessions_are_used_and_destroyed_without_thread_local_storage() {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = compiled("late", folder.path(), "cc", "c", "-std=c99") else { return };
    for _ in 0..3 {
        let root = tempfile::tempdir().unwrap();
        run(&program, root.path(), "late", &[]);
    }
}

/// An exported function answers, whatever the environment.
#[test]
fn a_disabled_layer_has_no_sessions() {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = program(folder.path(), "cc", "c", "-std=c99") else { return };
    let mut command = Command::new(&program);
    command.arg("store").env("LD_LIBRARY_PATH", paths::layer_library().parent().unwrap());
    command.env("VKSTASH_DIR", folder.path()).env("VKSTASH_DISABLE", "");
    let output = command.output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(stderr.contains("is -7, not VKSTASH_SUCCESS"), "{stderr}");
}
