//! The output of `vkstash stats --json` is what docs/schema/stats.json says.

use boon::{Compiler, Schemas};
use vkstash_model::app_name::AppName;
use vkstash_model::counters::Count;

use super::stats::{run_on, shown};
use super::*;

#[test]
fn the_output_is_valid_and_other_objects_are_not() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/schema/stats.json");
    let schema: serde_json::Value = serde_json::from_slice(&fs::read(file).unwrap()).unwrap();
    let (mut schemas, mut compiler) = (Schemas::new(), Compiler::new());
    compiler.add_resource("stats.json", schema).unwrap();
    let compiled = compiler.compile("stats.json", &mut schemas).unwrap();
    let is_valid =
        |value: &serde_json::Value| schemas.validate(value, compiled).map_err(|error| error.to_string());

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
        let value: serde_json::Value = serde_json::from_str(&shown(&sandbox, &root, arguments)).unwrap();
        assert_eq!(is_valid(&value), Ok(()), "{arguments:?}");
        let mut wrong = value.clone();
        wrong["applications"][0]["counters"]["served"] = "two".into();
        assert!(is_valid(&wrong).is_err());
        let mut wrong = value;
        wrong["applications"][0].as_object_mut().unwrap().remove("hit_percent");
        assert!(is_valid(&wrong).is_err());
    }
    let empty: serde_json::Value =
        serde_json::from_str(&shown(&sandbox, &sandbox.path("missing"), &["--json"])).unwrap();
    assert_eq!(is_valid(&empty), Ok(()));
}
