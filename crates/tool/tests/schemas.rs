//! The output of each command with `--json` is what its JSON Schema in docs/schema says.

use std::os::fd::FromRawFd as _;

use boon::{Compiler, Schemas};
use serde_json::Value;
use vkstash_model::app_name::AppName;
use vkstash_model::counters::Count;
use vkstash_model::live::{self, Activity, MAGIC, SIZE, VERSION, call, header as place};

use super::stats::{run_on, shown};
use super::*;

/// Whether this is an output of the command with that schema.
fn is_valid(name: &str, value: &Value) -> Result<(), String> {
    let name = format!("{name}.json");
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/schema").join(&name);
    let schema: Value = serde_json::from_slice(&fs::read(file).unwrap()).unwrap();
    let (mut schemas, mut compiler) = (Schemas::new(), Compiler::new());
    compiler.add_resource(&name, schema).unwrap();
    let compiled = compiler.compile(&name, &mut schemas).unwrap();
    schemas.validate(value, compiled).map_err(|error| error.to_string())
}

/// What was printed, which this schema describes.
pub(super) fn described(name: &str, printed: &[u8]) -> Value {
    let value = serde_json::from_slice(printed).unwrap();
    assert_eq!(is_valid(name, &value), Ok(()), "{name}: {value}");
    value
}

#[test]
fn statistics_are_valid_and_other_objects_are_not() {
    let sandbox = Sandbox::new();
    let root = sandbox.path("root");
    let app = AppName::new(Some(b"game"), b"/bin/game");
    for moment in [1000, 2000] {
        let counters = [(Count::Served, 2), (Count::Compiled, 1)];
        run_on(&root, &app, (moment, 1), ("Test GPU", &header()), &counters, &[1, 2]);
    }
    fs::write(root.join(&app.folder).join("portable/a.vks"), "no segment").unwrap();
    for arguments in
        [&["--json"] as &[&str], &["--json", "--last-run"], &["--json", "--since", "1970-01-01", "game"]]
    {
        let value = described("stats", shown(&sandbox, &root, arguments).as_bytes());
        let mut wrong = value.clone();
        wrong["applications"][0]["counters"]["served"] = "two".into();
        assert!(is_valid("stats", &wrong).is_err());
        let mut wrong = value;
        wrong["applications"][0].as_object_mut().unwrap().remove("hit_percent");
        assert!(is_valid("stats", &wrong).is_err());
    }
    described("stats", shown(&sandbox, &sandbox.path("missing"), &["--json"]).as_bytes());
}

/// A live page of this process, with a call that compiles.
fn page() -> fs::File {
    // SAFETY: the name ends with a zero, and what is opened has no other owner.
    let mut file = unsafe {
        let opened = libc::memfd_create(c"vkstash-live".as_ptr(), libc::MFD_CLOEXEC);
        assert!(opened >= 0);
        fs::File::from_raw_fd(opened)
    };
    let mut numbers = [0_u64; SIZE / 8];
    (numbers[place::MAGIC], numbers[place::VERSION]) = (MAGIC, VERSION);
    (numbers[place::SIZE], numbers[place::PID]) = (SIZE as u64, std::process::id().into());
    for (field, value) in [
        (call::SEQUENCE, call::NEXT + call::IN_FLIGHT),
        (call::STARTED, 1),
        (call::KEY, 7),
        (call::ACTIVITY, Activity::Compile as u64),
    ] {
        numbers[live::CALLS + field] = value;
    }
    file.write_all(&numbers.map(u64::to_ne_bytes).concat()).unwrap();
    file
}

#[test]
fn what_commands_print_is_valid_and_other_objects_are_not() {
    let Some(machine) = show::filled() else { return };
    let _page = page();
    // With a name that no output is valid without.
    for (schema, arguments, name) in [
        ("config", &["config"] as &[&str], "problems"),
        ("config", &["config", "--application", show::NAME], "applications"),
        ("doctor", &["doctor"], "level"),
        ("list", &["list"], "last_use_unix_ms"),
        ("prewarm", &["prewarm", "--all"], "well"),
        ("prewarm", &["prewarm", "--all", "--dry-run"], "applications"),
        ("report", &["report"], "slowest"),
        ("show", &["show", show::NAME], "devices"),
        ("show", &["show", show::NAME, "latest"], "description"),
        ("show", &["show", show::NAME, "latest", "--last-run"], "deaths"),
        ("show", &["show", show::NAME, "--last-run"], "tried"),
        ("stats", &["stats"], "applications"),
        ("verify", &["verify", "--contents"], "bad_folders"),
        ("watch", &["watch", "--once"], "pid"),
    ] {
        let printed = output(machine.tool().args(arguments).arg("--json"));
        let mut value = described(schema, &printed.stdout);
        let object = if value.is_array() { value.get_mut(0).unwrap() } else { &mut value };
        assert!(object.as_object_mut().unwrap().remove(name).is_some(), "{arguments:?}: {value}");
        assert!(is_valid(schema, &value).is_err(), "{arguments:?}: {value}");
    }
    let watched = described("watch", &output(machine.tool().args(["watch", "--once", "--json"])).stdout);
    let mut programs = watched.as_array().unwrap().iter();
    let own = programs.find(|program| program["pid"] == std::process::id()).unwrap();
    assert_eq!(own["calls"][0]["step"], "compile", "{watched}");
}
