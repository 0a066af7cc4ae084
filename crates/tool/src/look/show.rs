//! `vkstash show`: the pipelines of an application, and what one of them is made of.
//!
//! | file | what it knows |
//! |---|---|
//! | `pipelines` | all pipelines of an application, and what each device has of them |
//! | `describe` | a recipe in Vulkan's words |
//! | `objects` | the same of pipeline layouts and render passes |
//! | `code` | writing shaders to files |
//! | `last_run` | how the last run got its pipelines |
//! | `words` | names and numbers as they are printed |

mod code;
pub(crate) mod describe;
mod last_run;
mod objects;
pub(crate) mod pipelines;
mod words;

use std::cmp::Reverse;
use std::io::{self, Write as _};

use serde::Serialize;
use vkstash_host::disk::errors::OpenError;
use vkstash_model::key;
use vkstash_model::recipe::Recipe;
use vkstash_model::record::{Key, Kind};
use vkstash_store::reports::timeline::{self, Creation};
use vkstash_store::stash::browse::Browser;
use vkstash_store::stash::deaths::{self, Death};
use vkstash_store::stash::inspect::list_applications;

use crate::cli::ShowArgs;
use crate::stash::choice::{ChoiceError, choose};
use crate::stash::deaths as died;
use crate::stash::pipeline_choice::{PipelineChoiceError, choose as choose_pipeline};
use crate::stash::root::{self, NoRoot};
use crate::term::output::{self, Printer};
use crate::term::screen;
use crate::term::table::{Column, Table};
use crate::term::time::{self, moment, span};
use crate::term::units::{counted, size};

use last_run::Created;
use pipelines::{Listed, OnDevice};
use words::DIGITS;

const COLUMNS: [Column; 5] = [
    Column::words("key", 4),
    Column::words("last use", 1),
    Column::numbers("compile", 2),
    Column::numbers("artifact", 0),
    Column::words("pipeline", 3),
];

/// The newest pipeline, in place of digits.
const LATEST: &str = "latest";

/// Why nothing could be shown.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ShowError {
    #[error(transparent)]
    NoRoot(#[from] NoRoot),
    #[error(transparent)]
    Open(#[from] OpenError),
    #[error(transparent)]
    Choice(#[from] ChoiceError),
    #[error(transparent)]
    Pipeline(#[from] PipelineChoiceError),
    #[error("{0} has no pipelines")]
    Empty(String),
    #[error("the recipe is damaged, or of another version of vkstash")]
    Recipe,
    #[error(transparent)]
    Code(#[from] code::CodeError),
    #[error("cannot make JSON of it: {0}")]
    Json(#[from] serde_json::Error),
    #[error("cannot print it: {0}")]
    Print(#[from] io::Error),
}

pub(crate) fn main(args: &ShowArgs) -> Result<(), ShowError> {
    let root = root::named(args.dir.as_deref())?;
    let found = list_applications(&root)?;
    let application = choose(&found, &args.application, &root)?;
    let creations = if args.last_run { timeline::last(&root, &application.folder) } else { Vec::new() };
    if args.last_run && args.pipeline.is_none() {
        return tell_last_run(&creations, args.json);
    }
    let portable = Browser::open(&root, &application.folder, "portable");
    let empty = || ShowError::Empty(application.display.clone());
    let portable = match (portable, &args.pipeline) {
        // It is told whether a program ended while compiling it.
        (Err(error), Some(asked)) if error.is_missing() && asked != LATEST => {
            return Err(
                choose_pipeline(&root, application, &[], asked).map_or_else(ShowError::from, |_| empty())
            );
        }
        (Err(error), _) if error.is_missing() => return Err(empty()),
        (opened, _) => opened?,
    };
    let mut listed = pipelines::of(&root, application, &portable);
    let Some(asked) = &args.pipeline else {
        return if args.json { Output::All(&listed).print() } else { Ok(tell_all(&mut listed)?) };
    };
    let at = if asked.to_lowercase() == LATEST {
        0
    } else {
        let keys: Vec<_> = listed.iter().map(|pipeline| pipeline.key.clone()).collect();
        choose_pipeline(&root, application, &keys, asked)?
    };
    let pipeline = listed.get(at).ok_or_else(empty)?;
    let died = deaths::of(&root, &application.folder);
    show(&portable, pipeline, &creations, &died, args)
}

/// Everything that the last run created.
fn tell_last_run(creations: &[Creation], json: bool) -> Result<(), ShowError> {
    if json {
        return Output::LastRun(creations.iter().map(Created::of).collect()).print();
    }
    let mut out = Printer::open()?;
    last_run::tell_all(&mut out, creations)?;
    Ok(out.flush()?)
}

/// A list, what took longest to compile first. Those of which that is not known come last, in the order of their use.
fn tell_all(listed: &mut [Listed]) -> io::Result<()> {
    listed.sort_by_key(|pipeline| Reverse(pipeline.compile_ns()));
    let now = time::now();
    let mut table = Table::new(&COLUMNS);
    for pipeline in &*listed {
        let Listed { key, last_use_unix_ms, devices, what, .. } = pipeline;
        let used = last_use_unix_ms.map_or_else(|| "never".to_owned(), |used| time::age(used, now));
        let compile = pipeline.compile_ns().map_or_else(|| "-".to_owned(), span);
        let bytes = devices.iter().filter_map(|device| device.bytes).max();
        let bytes = bytes.map_or_else(|| "-".to_owned(), |bytes| size(bytes).to_string());
        table.row([key[..DIGITS].to_owned(), used, compile, bytes, what.clone()]);
    }
    let mut text = table.lines(screen::width());
    text += &format!("{}\n", counted(listed.len() as u64, "pipeline"));
    output::print(&text)
}

/// Everything that `--json` prints.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(untagged)]
pub(crate) enum Output<'a> {
    /// Without PIPELINE: the application's pipelines, the one that was used last first.
    All(&'a [Listed]),
    /// With PIPELINE: this one.
    One(Shown<'a>),
    /// With `--last-run` and without PIPELINE: all creations of the last run in the order of their ends, at most
    /// 16,384. What was passed by without a description (`stats` counts it as bypassed) is not among them.
    LastRun(Vec<Created>),
}

impl Output<'_> {
    fn print(&self) -> Result<(), ShowError> {
        Ok(output::print(&format!("{}\n", output::escaped(&serde_json::to_string_pretty(self)?)))?)
    }
}

/// One pipeline for programs.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Shown<'a> {
    #[serde(flatten)]
    listed: &'a Listed,
    /// One object for each device part on which programs died while compiling it, since it was last compiled.
    deaths: Vec<Ended<'a>>,
    /// The lines that describe it, for people. They may change with each version.
    description: Vec<&'a str>,
    /// How the last run got it, each time. Only with `--last-run`.
    #[serde(skip_serializing_if = "Option::is_none")]
    last_run: Option<Vec<Created>>,
}

/// Programs that ended while a driver compiled a pipeline, since it was last compiled.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Ended<'a> {
    /// The name of the device part.
    part: &'a str,
    /// How many programs.
    times: u8,
    /// When the last one ended, in Unix milliseconds.
    last_unix_ms: u64,
}

impl Ended<'_> {
    fn of(death: &Death) -> Ended<'_> {
        Ended { part: &death.part, times: death.deaths, last_unix_ms: death.unix_ms }
    }

    /// A line for people.
    fn line(&self) -> String {
        let (age, moment) = (time::age(self.last_unix_ms, time::now()), moment(self.last_unix_ms));
        let times = died::times(self.times);
        format!("programs died {times} while compiling it, last {age} ({moment}), part {}", self.part)
    }
}

fn show(
    portable: &Browser,
    pipeline: &Listed,
    of_last_run: &[Creation],
    died: &[Death],
    args: &ShowArgs,
) -> Result<(), ShowError> {
    let mut bytes = Vec::new();
    let digest = hex::decode(&pipeline.key).ok().and_then(|bytes| Key::try_from(bytes).ok());
    let key: Key = digest.ok_or(ShowError::Recipe)?;
    if !portable.read(Kind::Recipe, &key, &mut bytes) {
        return Err(ShowError::Recipe);
    }
    let recipe: Recipe<'_> = key::decode(&bytes).map_err(|_| ShowError::Recipe)?;
    let creations: Vec<&Creation> = of_last_run.iter().filter(|creation| creation.is_of(&key)).collect();
    let deaths: Vec<Ended<'_>> = died.iter().filter(|death| death.key == key).map(Ended::of).collect();
    if let Some(folder) = &args.spirv {
        for file in code::write(portable, &recipe, folder)? {
            output::eprint_line(&format!("wrote {}", file.display()));
        }
    }
    let mut text = Vec::new();
    describe::describe(portable, &recipe, &mut text)?;
    let text = String::from_utf8_lossy(&text);
    if args.json {
        let created = args.last_run.then(|| creations.iter().map(|creation| Created::of(creation)).collect());
        let description = text.lines().collect();
        let shown = Shown { listed: pipeline, deaths, description, last_run: created };
        return Output::One(shown).print();
    }
    let mut out = Printer::open()?;
    writeln!(out, "{}", pipeline.key)?;
    writeln!(out, "{}", pipeline.what)?;
    if let Some(used) = pipeline.last_use_unix_ms {
        writeln!(out, "last use: {} ({})", time::age(used, time::now()), moment(used))?;
    }
    for ended in &deaths {
        writeln!(out, "{}", ended.line())?;
    }
    if args.last_run {
        last_run::tell(&mut out, of_last_run, &creations)?;
    }
    for OnDevice { device, part, bytes, compile_ns, .. } in &pipeline.devices {
        let artifact = match bytes {
            Some(bytes) => format!("artifact of {}", size(*bytes)),
            None => "no artifact of its own".to_owned(),
        };
        let compiled = compile_ns.map_or_else(String::new, |nanos| format!(", compiled in {}", span(nanos)));
        writeln!(out, "{device} (part {part}): {artifact}{compiled}")?;
    }
    out.write_all(text.as_bytes())?;
    Ok(out.flush()?)
}
