//! The program `vkstash-remote`: its command line, and what it prints.

use std::ffi::OsString;
use std::future::Future;
use std::io::{self, IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use clap::{Args, Parser, Subcommand};
use indicatif::{ProgressBar, ProgressStyle};
use vkstash_model::variables;

use vkstash_host::text::is_printable;
use vkstash_store::format::device::DeviceHeader;
use vkstash_store::settings::places;
use vkstash_store::stash::inspect::{ApplicationInfo, list_applications};

use crate::accepted::{self, Settled};
use crate::bucket::{self, Bucket};
use crate::build;
use crate::home::Home;
use crate::in_use;
use crate::key::{self, Signer};
use crate::machine::{self, Program};
use crate::names::{self, Digest};
use crate::progress::Progress;
use crate::pull::{self, Failure, PullError};
use crate::push::{self, PushError};
use crate::room::Room;
use crate::signals::{self, Signals};
use crate::start;
use crate::trust::Trust;

/// Fetches bases for vkstash from an object store, and publishes what was recorded.
#[derive(Parser)]
#[command(name = "vkstash-remote", version, after_help = EXIT_STATUS, disable_help_subcommand = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

const EXIT_STATUS: &str = "Exit status: 0 done (also if there is nothing new), 1 failed on this machine, 2 wrong \
usage, 3 the store cannot be reached, 4 what the store has is refused, 5 others are at work, 130 interrupted, \
143 terminated. If several things went wrong, the greatest of these numbers counts; what could be done is done. \
docs/remote.md says more.";

#[derive(Subcommand)]
enum Command {
    /// Bring the base of this machine up to what the store has
    Pull(PullArgs),
    /// Publish what was recorded: with a key for everybody, without one for the inbox
    Push(PushArgs),
    /// Take what machines without a key have offered into a stash, and publish what that stash has
    ///
    /// `--prewarm` compiles it in between, with the driver of this machine. The inbox is emptied at the end.
    Build(BuildArgs),
    /// Publish that the artifacts that are quarantined on this machine must not be served by anybody
    Revoke(RevokeArgs),
    /// Say what of a base on this machine is not believed any more; fetch nothing
    ///
    /// A line on standard output for each manifest that no pinned signer has signed or that has expired.
    Check(CheckArgs),
    /// Make a key that signs
    Key(KeyArgs),
}

#[derive(Args)]
struct StoreArgs {
    /// Where the base and what is known of the store are kept, instead of the user's data folder
    #[arg(long, value_name = "DIR")]
    into: Option<PathBuf>,
    /// Who is believed, instead of the user's and the machine's signers.toml
    #[arg(long, value_name = "FILE")]
    signers: Option<PathBuf>,
    /// Look into this folder instead of the user's stash
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    #[command(flatten)]
    waits: WaitArgs,
}

#[derive(Args)]
struct PullArgs {
    /// Applications: their names, or the names of their folders; without any, those that the stash has
    #[arg(value_name = "APPLICATION")]
    applications: Vec<String>,
    /// The store: s3://BUCKET/PREFIX, gs://, az://, https:// or file://
    #[arg(long, value_name = "URL")]
    from: String,
    /// All applications that the store has
    #[arg(long)]
    all: bool,
    /// For all devices, and not for those alone that the stash knows
    #[arg(long)]
    all_devices: bool,
    /// The most bytes a second: 500KB, 2MiB
    #[arg(long, value_name = "BYTES", value_parser = bytes)]
    max_rate: Option<u64>,
    /// Print the folder of the base first, on standard output
    #[arg(long)]
    print_base: bool,
    /// Only what this command may ask for, as far as that is known before it runs
    #[arg(last = true, value_name = "COMMAND", conflicts_with_all = ["applications", "all"])]
    command: Vec<OsString>,
    #[command(flatten)]
    store: StoreArgs,
}

#[derive(Args)]
struct PushArgs {
    /// Applications: their names, or the names of their folders; without any, all of the stash
    #[arg(value_name = "APPLICATION")]
    applications: Vec<String>,
    /// The store
    #[arg(long, value_name = "URL")]
    to: String,
    #[command(flatten)]
    signing: SigningArgs,
    /// No artifacts
    #[arg(long)]
    portable: bool,
    /// Put new manifests in the place of those that nobody who is believed has signed
    #[arg(long)]
    replace: bool,
    /// Merge small segments into large ones; pull first
    #[arg(long)]
    compact: bool,
    #[command(flatten)]
    store: StoreArgs,
}

#[derive(Args)]
struct BuildArgs {
    /// Applications, by the names of their folders; without any, all that are in the inbox
    #[arg(value_name = "APPLICATION")]
    applications: Vec<String>,
    /// The store
    #[arg(long, value_name = "URL")]
    to: String,
    #[command(flatten)]
    signing: SigningArgs,
    /// Run `vkstash prewarm` before publishing
    #[arg(long)]
    prewarm: bool,
    /// The most applications that are taken which the stash does not have yet, if none are named
    #[arg(long, value_name = "N", default_value_t = 50)]
    new_applications: usize,
    #[command(flatten)]
    store: StoreArgs,
}

#[derive(Args)]
struct RevokeArgs {
    /// Applications: their names, or the names of their folders; without any, all of the stash
    #[arg(value_name = "APPLICATION")]
    applications: Vec<String>,
    /// The store
    #[arg(long, value_name = "URL")]
    to: String,
    #[command(flatten)]
    signing: SigningArgs,
    #[command(flatten)]
    store: StoreArgs,
}

/// What is waited for, and what is printed.
#[derive(Args)]
struct WaitArgs {
    /// Seconds without a byte after which the store counts as unreachable
    #[arg(long, value_name = "SECONDS", default_value_t = 30)]
    silence: u64,
    /// Seconds after which everything is over; default: a day
    #[arg(long, value_name = "SECONDS")]
    deadline: Option<u64>,
    /// Print nothing but errors
    #[arg(long, short)]
    quiet: bool,
}

#[derive(Args)]
struct SigningArgs {
    /// The file of the secret key
    #[arg(long, value_name = "FILE")]
    key: Option<PathBuf>,
    /// The file of the key's password; without it, VKSTASH_REMOTE_PASSWORD, or the terminal
    #[arg(long, value_name = "FILE")]
    password_file: Option<PathBuf>,
    /// Days until what is signed expires
    #[arg(long, value_name = "DAYS", default_value_t = 90, value_parser = clap::value_parser!(u64).range(1..=3650))]
    valid: u64,
}

#[derive(Args)]
struct CheckArgs {
    /// The folder of the base, as `pull --print-base` prints it
    #[arg(value_name = "BASE")]
    base: PathBuf,
    /// Who is believed, instead of those that the last pull believed
    #[arg(long, value_name = "FILE")]
    signers: Option<PathBuf>,
}

#[derive(Args)]
struct KeyArgs {
    /// The file of the secret key, which must not exist; the public key is written beside it
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Without a password
    #[arg(long)]
    no_password: bool,
    /// The file of the password; without it, VKSTASH_REMOTE_PASSWORD, or the terminal
    #[arg(long, value_name = "FILE")]
    password_file: Option<PathBuf>,
}

/// The exit status of a command line that means nothing.
const USAGE: u8 = 2;

/// Why the program ends.
struct End {
    text: String,
    status: u8,
}

impl End {
    fn local(error: impl std::fmt::Display) -> End {
        End { text: error.to_string(), status: Failure::Local as u8 }
    }

    fn usage(error: impl std::fmt::Display) -> End {
        End { text: error.to_string(), status: USAGE }
    }
}

impl From<PullError> for End {
    fn from(error: PullError) -> End {
        End { text: error.to_string(), status: error.failure() as u8 }
    }
}

impl From<PushError> for End {
    fn from(error: PushError) -> End {
        End { text: error.to_string(), status: error.failure() as u8 }
    }
}

impl From<build::BuildError> for End {
    fn from(error: build::BuildError) -> End {
        let failure = match &error {
            build::BuildError::Store(error) => pull::of_store(error),
            _ => Failure::Local,
        };
        End { text: error.to_string(), status: failure as u8 }
    }
}

/// Runs the program.
pub fn main(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    signals::install();
    places::use_files(variables::configs());
    let cli = match Cli::try_parse_from(arguments) {
        Ok(cli) => cli,
        Err(text) => {
            if text.use_stderr() {
                let _ = text.print();
                return ExitCode::from(USAGE);
            }
            // Help, or the version.
            return ended(print_line(text.to_string().trim_end()).map(|()| None));
        }
    };
    let done = match &cli.command {
        Command::Pull(args) => pull(args),
        Command::Push(args) => push(args),
        Command::Build(args) => build(args),
        Command::Revoke(args) => revoke(args),
        Command::Check(args) => check(args),
        Command::Key(args) => make_key(args),
    };
    ended(done)
}

fn ended(done: Result<Option<Failure>, End>) -> ExitCode {
    match done {
        Ok(None) => ExitCode::SUCCESS,
        Ok(Some(failure)) => ExitCode::from(failure as u8),
        Err(end) => {
            eprint_line(&end.text);
            ExitCode::from(end.status)
        }
    }
}

fn pull(args: &PullArgs) -> Result<Option<Failure>, End> {
    let home = home(&args.store, &args.from)?;
    if args.print_base {
        print_line(&home.base().to_string_lossy())?;
    }
    let trust = trust(args.store.signers.as_deref())?;
    let progress = Arc::new(Terminal::new(args.store.waits.quiet));
    let told: Arc<dyn Progress> = progress.clone();
    let pulled = run(&args.store.waits, async {
        // Before whatever may fail: what is not believed any more must not wait for a store that answers.
        let patience = patience(args);
        let settled = pull::settle(&home, &trust, now(), patience, progress.as_ref()).await?;
        let _ = home.note_signers(args.store.signers.as_deref());
        pull_settled(args, &home, &trust, settled, told).await
    });
    progress.clear();
    let pulled = pulled?;
    // What went wrong was said.
    let is_said = pulled.updated == 0 && !pulled.failures.is_empty();
    if !args.store.waits.quiet && !is_said {
        eprint_line(&summary(&pulled));
    }
    // Who asks for the path, or pulls for one command, names the base himself.
    let is_for_all = !args.print_base && args.command.is_empty();
    if !args.store.waits.quiet && is_for_all {
        let obstacle = in_use::obstacle(&home.base(), &root(&args.store)?, args.store.dir.as_deref());
        obstacle.iter().for_each(|line| eprint_line(line));
    }
    Ok(pulled.failures.into_iter().max())
}

fn patience(args: &PullArgs) -> Duration {
    Duration::from_secs(args.store.waits.deadline.unwrap_or(600))
}

async fn pull_settled(
    args: &PullArgs,
    home: &Home,
    trust: &Trust,
    settled: Settled,
    told: Arc<dyn Progress>,
) -> Result<pull::Pulled, End> {
    if trust.signers.is_empty() {
        return Err(End::local("no signer is pinned, so nothing can be believed (docs/remote.md)"));
    }
    let found = known(&args.store)?;
    // Who names a folder decides what it may take.
    let counts = args.store.into.is_none();
    let home = home.limited(if counts { Room::left_by(&root(&args.store)?, &found) } else { None });
    let program = Program::of(&args.command, std::env::var_os("PATH").as_deref());
    let mut chosen: Vec<&ApplicationInfo> = if args.applications.is_empty() && !args.all {
        found.iter().collect()
    } else {
        choose(&found, &args.applications)
    };
    let may_be =
        |info: &&ApplicationInfo| program.as_ref().is_some_and(|program| program.may_be(&info.folder));
    let is_known = chosen.iter().any(may_be);
    if is_known {
        chosen.retain(may_be);
    }
    let mut request = pull::Request {
        applications: with_devices(args, &chosen)?,
        kept: args.applications.is_empty() && args.command.is_empty(),
        all: args.all || (args.applications.is_empty() && found.is_empty()),
        rate: args.max_rate,
        patience: patience(args),
        now: now(),
    };
    let bucket = Bucket::open(&args.from, silence(&args.store.waits), false).map_err(PullError::Store)?;
    // What is done before a program is bounded by what that program may use.
    let mut gpus = None;
    if !args.command.is_empty() && !args.all_devices {
        gpus = machine::gpus(Path::new("/sys/bus/pci/devices"));
        if let Some(program) = program.filter(|_| !is_known) {
            restrict(&mut request, &program, &bucket).await?;
        }
    }
    Ok(pull::pull_for(&bucket, &home, trust, &request, gpus.as_deref(), settled, told).await?)
}

/// The applications to ask for, with their devices: those that were chosen of the stash, and those that only the store
/// has.
fn with_devices(
    args: &PullArgs,
    chosen: &[&ApplicationInfo],
) -> Result<Vec<(String, Vec<DeviceHeader>)>, End> {
    let headers = |info: &ApplicationInfo| {
        let devices = info.parts.iter().filter_map(|part| part.device.clone());
        if args.all_devices { Vec::new() } else { devices.collect() }
    };
    let mut applications: Vec<_> = chosen.iter().map(|info| (info.folder.clone(), headers(info))).collect();
    for name in &args.applications {
        // What only the store has is named by its folder.
        if names::application(name).is_some() && !applications.iter().any(|(known, _)| known == name) {
            applications.push((name.clone(), Vec::new()));
        }
    }
    let is_of = |name: &String, folder: &String| folder == name || display(folder) == *name;
    let is_there = |name: &&String| applications.iter().any(|(folder, _)| is_of(name, folder));
    match args.applications.iter().find(|name| !is_there(name)) {
        None => Ok(applications),
        Some(name) => Err(End::local(format!(
            "the stash has no application {name:?}; one that only the store has is named by its folder"
        ))),
    }
}

/// Restricts a pull to the applications of the store that a program may be, if there are any.
async fn restrict(request: &mut pull::Request, program: &Program, bucket: &Bucket) -> Result<(), End> {
    let folders = match bucket.folders(&names::manifests()).await {
        // Servers of plain files have no lists.
        Err(_) if !request.applications.is_empty() => Vec::new(),
        folders => folders.map_err(PullError::Store)?,
    };
    let of_program: Vec<_> = folders.into_iter().filter(|folder| program.may_be(folder)).collect();
    if !of_program.is_empty() {
        request.all = false;
        request.applications = of_program.into_iter().map(|folder| (folder, Vec::new())).collect();
    }
    Ok(())
}

fn summary(pulled: &pull::Pulled) -> String {
    match (pulled.updated, pulled.asked) {
        (_, 0) => "the store has nothing that was asked for".to_owned(),
        (0, _) => "nothing new".to_owned(),
        (updated, _) => format!(
            "{updated} applications updated: {} segments with {} records, {}",
            pulled.segments,
            pulled.records,
            size(pulled.bytes)
        ),
    }
}

fn push(args: &PushArgs) -> Result<Option<Failure>, End> {
    let home = home(&args.store, &args.to)?;
    let signer = signer(&args.signing)?;
    let found = known(&args.store)?;
    let chosen = if args.applications.is_empty() {
        found.iter().collect()
    } else {
        choose(&found, &args.applications)
    };
    if chosen.len() < args.applications.len() {
        return Err(End::local("the stash does not have all of these applications"));
    }
    let request = push::Request {
        root: root(&args.store)?,
        applications: chosen.iter().map(|info| info.folder.clone()).collect(),
        portable: args.portable,
        replace: args.replace,
        compact: args.compact,
        valid: args.signing.valid * 24 * 3600,
        now: now(),
    };
    let trust = if signer.is_some() { trust(args.store.signers.as_deref())? } else { Trust::default() };
    let bucket = writable(&args.store, &args.to)?;
    let progress = Arc::new(Terminal::new(args.store.waits.quiet));
    let told: Arc<dyn Progress> = progress.clone();
    let is_signed = signer.is_some();
    let pushed = run(&args.store.waits, async move {
        Ok(match &signer {
            Some(signer) => push::push(&bucket, &home, &trust, signer, &request, told).await?,
            None => push::offer(&bucket, &home, &request, told).await?,
        })
    });
    progress.clear();
    let pushed = pushed?;
    if !args.store.waits.quiet {
        let what =
            format!("{} segments with {} records, {}", pushed.segments, pushed.records, size(pushed.bytes));
        eprint_line(&match (is_signed, pushed.segments, pushed.manifests) {
            (_, 0, 0) => "nothing new to publish".to_owned(),
            (true, _, manifests) => format!("{what}; {manifests} manifests signed"),
            (false, ..) => format!("{what} in the inbox"),
        });
    }
    Ok((!pushed.refused.is_empty()).then_some(Failure::Refused))
}

fn build(args: &BuildArgs) -> Result<Option<Failure>, End> {
    let home = home(&args.store, &args.to)?;
    let signer = signer(&args.signing)?.ok_or_else(|| End::local("name the key that signs with --key"))?;
    let trust = trust(args.store.signers.as_deref())?;
    let bucket = writable(&args.store, &args.to)?;
    let root = root(&args.store)?;
    let progress = Arc::new(Terminal::new(args.store.waits.quiet));
    let told: Arc<dyn Progress> = progress.clone();
    let request = build::Request {
        root: root.clone(),
        applications: args.applications.clone(),
        new_applications: args.new_applications,
        now: now(),
    };
    let taken =
        run(&args.store.waits, async { Ok(build::take(&bucket, &home, &request, told.clone()).await?) })?;
    // Also what was taken before: after an update of the driver all of it is to be compiled and published.
    let found = known(&args.store)?;
    let chosen: Vec<String> = match args.applications.is_empty() {
        true => found.into_iter().map(|info| info.folder).collect(),
        false => choose(&found, &args.applications).into_iter().map(|info| info.folder.clone()).collect(),
    };
    if args.prewarm && !chosen.is_empty() {
        prewarm(&root, (!args.applications.is_empty()).then_some(&chosen[..]), progress.as_ref())?;
    }
    let push = push::Request {
        root,
        applications: chosen,
        portable: false,
        replace: false,
        compact: false,
        valid: args.signing.valid * 24 * 3600,
        now: now(),
    };
    let pushed = run(&args.store.waits, async {
        let pushed = push::push(&bucket, &home, &trust, &signer, &push, told).await?;
        build::remove(&bucket, &taken, &pushed.refused).await.map_err(PushError::Store)?;
        Ok(pushed)
    });
    progress.clear();
    let pushed = pushed?;
    if !args.store.waits.quiet {
        eprint_line(&format!(
            "{} objects with {} new records taken, {} refused; {} segments published, {} manifests signed",
            taken.objects.len(),
            taken.records,
            taken.refused,
            pushed.segments,
            pushed.manifests
        ));
    }
    Ok((taken.refused > 0 || !pushed.refused.is_empty()).then_some(Failure::Refused))
}

/// Compiles what is in the stash with the drivers of this machine, of which the stash may know none. None: of all
/// applications.
fn prewarm(root: &Path, applications: Option<&[String]>, progress: &dyn Progress) -> Result<(), End> {
    let beside = std::env::current_exe().ok().map(|path| path.with_file_name("vkstash"));
    let program = beside.filter(|path| path.is_file()).unwrap_or_else(|| PathBuf::from("vkstash"));
    let mut command = std::process::Command::new(&program);
    command.arg("prewarm").arg("--dir").arg(root).args(["--every-device", "--json"]);
    match applications {
        Some(applications) => command.args(applications),
        None => command.arg("--all"),
    };
    // Shaders of strangers are compiled there: what a driver can be led to read must not be worth reading.
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if SECRETS.iter().any(|secret| text.starts_with(secret)) {
            command.env_remove(&name);
        }
    }
    let failed = |reason: String| End::local(format!("{} prewarm has failed: {reason}", program.display()));
    command.stdin(std::process::Stdio::null()).stderr(std::process::Stdio::inherit());
    let output = command.output().map_err(|error| failed(error.to_string()))?;
    // A prewarm that prints a report has done what could be done, whatever its exit status.
    let report: serde_json::Value =
        serde_json::from_slice(&output.stdout).map_err(|_| failed(output.status.to_string()))?;
    let count = |name: &str| report[name].as_array().map_or(0, Vec::len);
    if count("quarantined") > 0 {
        let text = format!("{} pipelines are quarantined and not published", count("quarantined"));
        progress.line(&text);
    } else if !output.status.success() {
        progress.line("vkstash prewarm could not make all pipelines");
    }
    Ok(())
}

/// The beginnings of the names of variables that must not reach a driver: keys, and proxies with passwords.
const SECRETS: [&str; 13] = [
    "AWS_",
    "AZURE_",
    "GOOGLE_",
    "SERVICE_ACCOUNT",
    "MSI_",
    "IDENTITY_",
    "VKSTASH_REMOTE_PASSWORD",
    "http_proxy",
    "https_proxy",
    "all_proxy",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "ALL_PROXY",
];

fn revoke(args: &RevokeArgs) -> Result<Option<Failure>, End> {
    let home = home(&args.store, &args.to)?;
    let signer = signer(&args.signing)?.ok_or_else(|| End::local("name the key that signs with --key"))?;
    let found = known(&args.store)?;
    let chosen = if args.applications.is_empty() {
        found.iter().collect()
    } else {
        choose(&found, &args.applications)
    };
    let request = push::Request {
        root: root(&args.store)?,
        applications: chosen.iter().map(|info| info.folder.clone()).collect(),
        portable: false,
        replace: false,
        compact: false,
        valid: args.signing.valid * 24 * 3600,
        now: now(),
    };
    let trust = trust(args.store.signers.as_deref())?;
    let bucket = writable(&args.store, &args.to)?;
    let told: Arc<dyn Progress> = Arc::new(Terminal::new(args.store.waits.quiet));
    let revoked = run(&args.store.waits, async move {
        Ok(push::revoke(&bucket, &home, &trust, &signer, &request, told).await?)
    })?;
    if !args.store.waits.quiet {
        eprint_line(&format!(
            "{} artifacts revoked, {} manifests signed",
            revoked.records, revoked.manifests
        ));
    }
    Ok(None)
}

fn check(args: &CheckArgs) -> Result<Option<Failure>, End> {
    let home = Home::of_base(&args.base)
        .ok_or_else(|| End::local(format!("{} is no base that a pull has made", args.base.display())))?;
    let signers = args.signers.clone().or_else(|| home.signers());
    let trust = trust(signers.as_deref())?;
    accepted::doubts(&home, &trust, now()).iter().try_for_each(|line| print_line(line))?;
    Ok(None)
}

fn make_key(args: &KeyArgs) -> Result<Option<Failure>, End> {
    const HELP: &str =
        "--no-password makes a key without one, --password-file and VKSTASH_REMOTE_PASSWORD name one";
    let password = (!args.no_password).then(|| password(args.password_file.as_deref(), HELP));
    let password = password.transpose().map_err(End::local)?;
    let public = key::create(&args.file, password.as_ref()).map_err(End::local)?;
    let printed = print_line(&format!(
        "[[signer]]\nname = \"\"\nkey = \"{public}\"\napplications = [\"*\"]\ncontent = \"artifacts\""
    ));
    let made = format!("{} is made all the same, and its public key is {public}", args.file.display());
    printed.map(|()| None).map_err(|end| End { text: format!("{}; {made}", end.text), ..end })
}

/// Runs until it is done, the user interrupts it, or it takes too long.
fn run<T>(args: &WaitArgs, work: impl Future<Output = Result<T, End>>) -> Result<T, End> {
    has_descriptors()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(End::local)?;
    let limit = Duration::from_secs(args.deadline.unwrap_or(24 * 3600));
    let done = runtime.block_on(async {
        let mut signals = Signals::heard();
        tokio::select! {
            done = tokio::time::timeout(limit, work) => done.unwrap_or_else(|_| {
                let text = format!("not done within {} s; what was there stays", limit.as_secs());
                Err(End { text, status: Failure::Offline as u8 })
            }),
            status = signals.interrupted() => Err(End { text: signals::INTERRUPTED.to_owned(), status }),
        }
    });
    runtime.shutdown_background();
    done
}

/// Descriptors that a runtime opens; it panics where it does not get them.
const DESCRIPTORS: usize = 8;

fn has_descriptors() -> Result<(), End> {
    let opened: io::Result<Vec<_>> = (0..DESCRIPTORS).map(|_| std::fs::File::open("/dev/null")).collect();
    match opened {
        Ok(_) => Ok(()),
        Err(error) if bucket::is_lack_of_descriptors(&error) => {
            Err(End::local(bucket::BucketError::NoDescriptors))
        }
        // The system has no /dev/null, and what is opened next tells whether that matters.
        Err(_) => Ok(()),
    }
}

/// Where what belongs to this store is kept. Nothing is made for an address that is none.
fn home(args: &StoreArgs, url: &str) -> Result<Home, End> {
    bucket::check(url).map_err(End::usage)?;
    let dir = match &args.into {
        Some(dir) => dir.clone(),
        None => {
            let pulled = variables::pulled()
                .ok_or_else(|| End::local("HOME is not set; name a folder with --into"))?;
            let digits = Digest::of(url.trim_end_matches('/').as_bytes()).to_string();
            pulled.join(&digits[..16])
        }
    };
    Home::open(&dir).map_err(|error| End::local(format!("cannot use {}: {error}", dir.display())))
}

fn root(args: &StoreArgs) -> Result<PathBuf, End> {
    let root = args.dir.clone().or_else(variables::root);
    root.ok_or_else(|| End::local("cannot tell where the stash is: name it with --dir"))
}

fn known(args: &StoreArgs) -> Result<Vec<ApplicationInfo>, End> {
    list_applications(&root(args)?).map_err(End::local)
}

fn display(folder: &str) -> String {
    names::application(folder).map(|name| name.display).unwrap_or_default()
}

fn choose<'a>(found: &'a [ApplicationInfo], names: &[String]) -> Vec<&'a ApplicationInfo> {
    found
        .iter()
        .filter(|info| names.iter().any(|name| info.folder == *name || info.display == *name))
        .collect()
}

/// The pinned signers: those of this file, or else the user's and the machine's.
fn trust(file: Option<&Path>) -> Result<Trust, End> {
    if let Some(file) = file {
        return Trust::read(file).map_err(End::local);
    }
    let user = directories::BaseDirs::new().map(|folders| folders.config_dir().join("vkstash/signers.toml"));
    let mut trust = Trust::default();
    for file in user.into_iter().chain([PathBuf::from("/etc/vkstash/signers.toml")]) {
        if file.symlink_metadata().is_ok() {
            trust = trust.and(Trust::read(&file).map_err(End::local)?);
        }
    }
    Ok(trust)
}

fn signer(args: &SigningArgs) -> Result<Option<Signer>, End> {
    const HELP: &str = "the key has one; --password-file and VKSTASH_REMOTE_PASSWORD name it";
    let read = |file: &PathBuf| Signer::read(file, || password(args.password_file.as_deref(), HELP));
    args.key.as_ref().map(read).transpose().map_err(End::local)
}

fn silence(args: &WaitArgs) -> Duration {
    Duration::from_secs(args.silence.max(1))
}

fn writable(args: &StoreArgs, url: &str) -> Result<Bucket, End> {
    Ok(Bucket::open(url, silence(&args.waits), true).map_err(PushError::Store)?)
}

/// None: it is asked for on the terminal. `otherwise`: what helps where there is none.
fn password(file: Option<&Path>, otherwise: &str) -> io::Result<Option<String>> {
    let first = |text: String| text.lines().next().unwrap_or_default().to_owned();
    if let Some(file) = file {
        return std::fs::read_to_string(file).map(first).map(Some);
    }
    match std::env::var("VKSTASH_REMOTE_PASSWORD") {
        Ok(password) => Ok(Some(password)),
        Err(_) if io::stdin().is_terminal() => Ok(None),
        Err(_) => {
            Err(io::Error::other(format!("there is no terminal to ask for a password on: {otherwise}")))
        }
    }
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs())
}

/// A number of bytes with a unit.
fn bytes(text: &str) -> Result<u64, String> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let factor = match unit {
        "" | "B" => 1,
        "KB" => 1000,
        "KiB" | "K" => 1 << 10,
        "MB" => 1_000_000,
        "MiB" | "M" => 1 << 20,
        "GB" => 1_000_000_000,
        "GiB" | "G" => 1 << 30,
        _ => return Err("a size is a number with KB, KiB, MB, MiB, GB or GiB".to_owned()),
    };
    let number: u64 = number.parse().map_err(|_| "not a number".to_owned())?;
    number.checked_mul(factor).filter(|bytes| *bytes > 0).ok_or_else(|| "out of range".to_owned())
}

fn size(bytes: u64) -> String {
    indicatif::BinaryBytes(bytes).to_string()
}

/// Prints a line. Names from stores and folders may hold characters that move a terminal's cursor.
fn print_line(text: &str) -> Result<(), End> {
    let plain: String = text.chars().filter(|&c| is_printable(c) || c == '\n').collect();
    let print = || {
        let mut out = io::stdout();
        writeln!(out, "{plain}").and_then(|()| out.flush())
    };
    let closed = || Err(io::Error::other("standard output is closed"));
    let printed = if start::output_was_closed() { closed() } else { print() };
    printed.map_err(|error| End::local(format!("cannot print it: {error}")))
}

fn eprint_line(text: &str) {
    let plain: String = text.chars().map(|c| if is_printable(c) { c } else { '\u{fffd}' }).collect();
    let _ = writeln!(io::stderr(), "vkstash-remote: {plain}");
}

/// A bar on a terminal; lines everywhere.
struct Terminal {
    bar: Option<ProgressBar>,
}

impl Terminal {
    fn new(quiet: bool) -> Terminal {
        let shows = !quiet && io::stderr().is_terminal();
        let bar = shows.then(|| {
            let style =
                ProgressStyle::with_template("{bar:30} {binary_bytes} of {binary_total_bytes}, {eta}");
            ProgressBar::new(0).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
        });
        Terminal { bar }
    }

    fn clear(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

impl Progress for Terminal {
    fn line(&self, text: &str) {
        match &self.bar {
            Some(bar) => bar.suspend(|| eprint_line(text)),
            None => eprint_line(text),
        }
    }

    fn more(&self, bytes: u64) {
        if let Some(bar) = &self.bar {
            bar.inc_length(bytes);
        }
    }

    fn done(&self, bytes: u64) {
        if let Some(bar) = &self.bar {
            bar.inc(bytes);
        }
    }
}
