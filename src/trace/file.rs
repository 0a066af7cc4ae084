//! The trace's file, in the JSON array format of trace events.
//!
//! Each event is one write, made when the event ends. So several processes may share a file, and a killed process
//! leaves whole lines. The format needs no closing bracket.

use std::cell::Cell;
use std::fmt::{Display, Write as _};
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use rustix::fs::{FlockOperation, OFlags, flock, fstat};
use rustix::io::Errno;
use rustix::time::{ClockId, clock_gettime};

use crate::faults;
use crate::user_file;
use vkstash_host::descriptor::Descriptor;
use vkstash_host::forks;
use vkstash_host::signals;

/// How long a file that another process prepares is looked at, once a millisecond.
const LOOKED_FOR: Duration = Duration::from_millis(50);

thread_local! {
    /// The thread's name is in the file.
    static IS_NAMED: Cell<bool> = const { Cell::new(false) };
}

/// An open file.
pub struct TraceFile {
    file: Descriptor,
    /// The process that writes, as in [`forks::now`]; 0: none, after a line that could not be written as a whole.
    process: AtomicU32,
}

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
        Ok(TraceFile { file, process: AtomicU32::new(forks::here()) })
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

    /// Whether this process writes to it.
    pub fn is_of_this_process(&self) -> bool {
        let process = self.process.load(Ordering::Relaxed);
        process != 0 && process == forks::now()
    }

    /// Writes an event of this thread. The trace ends with a line that cannot be written as a whole.
    pub fn write(&self, event: &Event, began: Duration, took: Duration) {
        let lines = event.lines(began, took);
        let write = || signals::write(self.file.still()?, lines.as_bytes());
        let is_whole = loop {
            match write() {
                Err(Errno::INTR) => {}
                written => break written == Ok(lines.len()),
            }
        };
        if !is_whole {
            self.process.store(0, Ordering::Relaxed);
        }
    }
}

/// What is told of an event.
pub struct Event {
    name: String,
    category: &'static str,
    /// Members of a JSON object.
    told: String,
}

impl Event {
    pub fn new(name: &str, category: &'static str) -> Event {
        Event { name: quoted(name), category, told: String::new() }
    }

    /// Tells a number.
    pub fn tell(&mut self, name: &str, value: impl Display) {
        let comma = if self.told.is_empty() { "" } else { "," };
        let _ = write!(self.told, "{comma}\"{name}\":{value}");
    }

    pub fn tell_text(&mut self, name: &str, value: &str) {
        self.tell(name, quoted(value));
    }

    /// Its line, after the one with the thread's name if it is the thread's first.
    fn lines(&self, began: Duration, took: Duration) -> String {
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
        let Event { name, category, told } = self;
        let (began, took) = (micros(began), micros(took));
        let _ = writeln!(
            text,
            "{{\"ph\":\"X\",\"ts\":{began},\"dur\":{took},{of},\"name\":{name},\"cat\":\"{category}\",\"args\":{{{told}}}}},"
        );
        text
    }
}

/// Microseconds with three decimals, exactly.
fn micros(time: Duration) -> String {
    let nanos = time.as_nanos();
    format!("{}.{:03}", nanos / 1000, nanos % 1000)
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

/// The monotonic clock, which all processes share.
pub fn now() -> Duration {
    clock_gettime(ClockId::Monotonic).try_into().unwrap_or_default()
}
