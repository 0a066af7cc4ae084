//! The trace's file, in the JSON array format of trace events.
//!
//! The crate tracing-chrome is not used: it starts a thread, loses what it has buffered when the process is killed, and
//! its writes raise signals. Here each span is one write, made when the span ends. So several processes may share a
//! file, and a killed process leaves whole lines. The format needs no closing bracket.

use std::cell::Cell;
use std::fmt::Write as _;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use rustix::fs::{FlockOperation, OFlags, flock, fstat};
use rustix::io::Errno;
use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::span::{Attributes, Id};
use tracing::{Metadata, Subscriber};
use tracing_subscriber::filter::FilterFn;
use tracing_subscriber::layer::{Context, Layer};
use tracing_subscriber::registry::LookupSpan;

use crate::faults;
use crate::user_file;
use vkstash_store::base::descriptor::Descriptor;
use vkstash_store::base::signals;
use vkstash_store::forks;

/// The target of the spans that are written.
pub const TARGET: &str = "vkstash::trace";
/// How long a file that another process prepares is looked at, once a millisecond.
const LOOKED_FOR: Duration = Duration::from_millis(50);

/// The process that writes a trace, as in [`forks::now`]; 0: none.
static PROCESS: AtomicU32 = AtomicU32::new(0);

thread_local! {
    /// The thread's name is in the file.
    static IS_NAMED: Cell<bool> = const { Cell::new(false) };
}

/// Whether this process writes a trace.
pub fn is_of_this_process() -> bool {
    let process = PROCESS.load(Ordering::Relaxed);
    process != 0 && process == forks::now()
}

/// An open file.
pub struct TraceFile(Descriptor);

impl TraceFile {
    /// Opens a trace, or creates it. An error says in words why this cannot be done.
    pub fn open(path: &Path) -> Result<TraceFile, String> {
        let failed = |error: Errno| std::io::Error::from(error).to_string();
        let file = user_file::open(path, OFlags::RDWR)?;
        // If two processes start at the same time, only one may write the opening bracket. If the file stays
        // locked, another process has written it.
        let lock = || flock(&file, FlockOperation::NonBlockingLockExclusive);
        let attempts = faults::time_limit(LOOKED_FOR).as_millis();
        let locked =
            (0..attempts).any(|_| lock().is_ok() || (std::thread::sleep(Duration::from_millis(1)), false).1);
        let begun = TraceFile::begin(&file);
        if locked {
            let _ = flock(&file, FlockOperation::Unlock);
        }
        begun.map_err(failed)?.then_some(()).ok_or("exists and is not a trace")?;
        PROCESS.store(forks::here(), Ordering::Relaxed);
        Ok(TraceFile(file))
    }

    /// Writes the bracket at the start of the array. False: the file begins with something else.
    fn begin(file: &Descriptor) -> Result<bool, Errno> {
        if fstat(file)?.st_size == 0 {
            return Ok(signals::write(file.still()?, b"[\n")? == 2);
        }
        let mut first = [0];
        rustix::io::pread(file, &mut first, 0)?;
        Ok(first == *b"[")
    }

    /// Writes one line. The trace ends with a line that cannot be written as a whole.
    fn write(&self, line: &str) {
        let write = || signals::write(self.0.still()?, line.as_bytes());
        let is_whole = loop {
            match write() {
                Err(Errno::INTR) => {}
                written => break written == Ok(line.len()),
            }
        };
        if !is_whole {
            PROCESS.store(0, Ordering::Relaxed);
        }
    }

    /// What writes the spans of [`TARGET`].
    pub fn layer<S>(self) -> impl Layer<S>
    where
        S: Subscriber + for<'a> LookupSpan<'a>,
    {
        let is_ours = |metadata: &Metadata<'_>| metadata.is_span() && metadata.target() == TARGET;
        self.with_filter(FilterFn::new(is_ours).with_max_level_hint(LevelFilter::INFO))
    }
}

/// What is known of a span when it starts.
#[derive(Default)]
struct Begun {
    began_ns: u64,
    name: String,
    category: String,
    /// What else is told, as members of a JSON object.
    told: String,
    shortest_us: u64,
    /// The span has ended when it begins, and took so long.
    took_ns: Option<u64>,
}

impl Begun {
    fn tell(&mut self, name: &str, value: &str) {
        let comma = if self.told.is_empty() { "" } else { "," };
        let _ = write!(self.told, "{comma}\"{name}\":{value}");
    }
}

impl Visit for Begun {
    fn record_u64(&mut self, field: &Field, value: u64) {
        match field.name() {
            "shortest_us" => self.shortest_us = value,
            "took_ns" => self.took_ns = Some(value),
            name => self.tell(name, &value.to_string()),
        }
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        match field.name() {
            "name" => value.clone_into(&mut self.name),
            "category" => value.clone_into(&mut self.category),
            name => self.tell(name, &quoted(value)),
        }
    }

    fn record_debug(&mut self, _: &Field, _: &dyn std::fmt::Debug) {}
}

impl<S> Layer<S> for TraceFile
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        if let Some(span) = context.span(id) {
            let mut begun = Begun { began_ns: now_ns(), ..Begun::default() };
            attributes.record(&mut begun);
            span.extensions_mut().insert(begun);
        }
    }

    fn on_close(&self, id: Id, context: Context<'_, S>) {
        if !is_of_this_process() {
            return;
        }
        let Some(begun) = context.span(&id).and_then(|span| span.extensions_mut().remove::<Begun>()) else {
            return;
        };
        let took_ns = begun.took_ns.unwrap_or_else(|| now_ns().saturating_sub(begun.began_ns));
        if took_ns >= begun.shortest_us * 1000 {
            self.write(&lines(&begun, took_ns));
        }
    }
}

/// The line of a span, after the one with the thread's name if it is the thread's first.
fn lines(begun: &Begun, took_ns: u64) -> String {
    // SAFETY: the call takes no arguments and always succeeds.
    let thread = unsafe { libc::syscall(libc::SYS_gettid) };
    let of = format!("\"pid\":{},\"tid\":{thread}", std::process::id());
    let mut text = String::new();
    if !IS_NAMED.replace(true) {
        let name = quoted(&thread_name());
        let _ = writeln!(
            text,
            "{{\"ph\":\"M\",\"ts\":0,{of},\"name\":\"thread_name\",\"args\":{{\"name\":{name}}}}},"
        );
    }
    let (name, category) = (quoted(&begun.name), quoted(&begun.category));
    let (began, took) = (micros(begun.began_ns.saturating_sub(begun.took_ns.unwrap_or(0))), micros(took_ns));
    let told = &begun.told;
    let _ = writeln!(
        text,
        "{{\"ph\":\"X\",\"ts\":{began},\"dur\":{took},{of},\"name\":{name},\"cat\":{category},\"args\":{{{told}}}}},"
    );
    text
}

/// Microseconds with three decimals, exactly.
fn micros(ns: u64) -> String {
    format!("{}.{:03}", ns / 1000, ns % 1000)
}

/// A JSON string.
fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for letter in text.chars() {
        match letter {
            '"' | '\\' => quoted.extend(['\\', letter]),
            letter if letter.is_control() => {
                let _ = write!(quoted, "\\u{:04x}", u32::from(letter));
            }
            letter => quoted.push(letter),
        }
    }
    quoted + "\""
}

/// The name of this thread for debuggers, which threads of the program have, too.
fn thread_name() -> String {
    let mut name = [0_u8; 16];
    // SAFETY: the kernel writes at most 16 bytes, with a zero at the end.
    unsafe { libc::prctl(libc::PR_GET_NAME, name.as_mut_ptr()) };
    let end = name.iter().position(|&byte| byte == 0).unwrap_or(name.len());
    String::from_utf8_lossy(&name[..end]).into_owned()
}

/// The monotonic clock, which all processes share, in nanoseconds.
fn now_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the structure is on this stack; the clock exists on every system.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut time) };
    let (seconds, nanos) = (u64::try_from(time.tv_sec), u64::try_from(time.tv_nsec));
    seconds.unwrap_or(0) * 1_000_000_000 + nanos.unwrap_or(0)
}
