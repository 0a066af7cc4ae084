//! Log lines: on standard error or in a file, nothing but warnings unless asked for.

use std::path::Path;
use std::sync::Once;
use std::{fmt, io};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, fstat, open, openat, unlinkat};
use rustix::io::Errno;
use tracing::level_filters::LevelFilter;
use tracing::{Event, Subscriber};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields, MakeWriter};
use tracing_subscriber::registry::LookupSpan;

use crate::config;
use vkstash_store::base::descriptor::Descriptor;
use vkstash_store::base::{owner, signals};

/// `vkstash: warn: text`: whoever reads a game's output must see where a line comes from.
struct OneLine;

impl<S, N> FormatEvent<S, N> for OneLine
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut to: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let level = event.metadata().level().as_str().to_ascii_lowercase();
        write!(to, "vkstash: {level}: ")?;
        context.field_format().format_fields(to.by_ref(), event)?;
        writeln!(to)
    }
}

/// Where lines go. A line that cannot be written is dropped: there is nobody to tell.
enum Sink {
    StandardError,
    File(Descriptor),
}

impl Sink {
    fn write_some(&self, text: &[u8]) -> Result<usize, Errno> {
        match self {
            Sink::StandardError => signals::write(rustix::stdio::stderr(), text),
            Sink::File(file) => signals::write(file.still()?, text),
        }
    }
}

impl io::Write for &Sink {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let mut rest = line;
        while !rest.is_empty() {
            match self.write_some(rest) {
                Ok(written @ 1..) => rest = &rest[written..],
                Err(Errno::INTR) => {}
                Ok(0) | Err(_) => break,
            }
        }
        // All of it, always: an error would be told on standard error, in a way that can raise a signal.
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Sink {
    type Writer = &'a Sink;

    fn make_writer(&'a self) -> &'a Sink {
        self
    }
}

/// Sets up logging, once in the life of the library, before the first line: most programs that load the layer
/// never need one. The subscriber is this library's own: it does not touch
/// what the program or other layers log with.
pub fn init() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let level = match std::env::var(config::LOG).as_deref() {
            Ok("off") => LevelFilter::OFF,
            Ok("error") => LevelFilter::ERROR,
            Ok("info") => LevelFilter::INFO,
            Ok("debug") => LevelFilter::DEBUG,
            Ok("trace") => LevelFilter::TRACE,
            _ => LevelFilter::WARN,
        };
        let path = std::env::var_os(config::LOG_FILE).filter(|path| !path.is_empty());
        let opened = path.map(|path| open_file(Path::new(&path)).map_err(|reason| (path, reason)));
        let (sink, refused) = match opened {
            Some(Ok(file)) => (Sink::File(file), None),
            Some(Err(refused)) => (Sink::StandardError, Some(refused)),
            None => (Sink::StandardError, None),
        };
        let builder = tracing_subscriber::fmt().with_max_level(level).with_ansi(false);
        let builder = builder.log_internal_errors(false).event_format(OneLine);
        // Only a second copy of this library in one program could have been faster; its choice stands.
        drop(tracing::subscriber::set_global_default(builder.with_writer(sink).finish()));
        if let Some((path, reason)) = refused {
            tracing::warn!("{}: {reason}; log lines go to standard error", Path::new(&path).display());
        }
    });
}

/// A regular file of the user's own, made where missing; or why not. Anybody may have put something else at a path in
/// a folder that all may write to, and opening a pipe would wait for its reader.
fn open_file(path: &Path) -> Result<Descriptor, String> {
    let failed = |error: Errno| match error {
        Errno::LOOP => "a symbolic link".to_owned(),
        Errno::NXIO => "not a regular file".to_owned(),
        error => io::Error::from(error).to_string(),
    };
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let folder = open(parent, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty());
    let folder = folder.map_err(failed)?;
    let name = path.file_name().ok_or("not a regular file")?;
    let flags = OFlags::WRONLY | OFlags::APPEND | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY;
    let flags = flags | OFlags::CLOEXEC;
    let made = openat(&folder, name, flags | OFlags::CREATE | OFlags::EXCL, Mode::RUSR | Mode::WUSR);
    let file = match made {
        Ok(file) => {
            let file = Descriptor::new(file).map_err(failed)?;
            let handed_over = owner::hand_over(&file, &folder);
            if handed_over.is_err() {
                let _ = unlinkat(&folder, name, AtFlags::empty());
            }
            return handed_over.map(|()| file).map_err(|error| error.to_string());
        }
        Err(Errno::EXIST) => openat(&folder, name, flags, Mode::empty()),
        Err(error) => Err(error),
    };
    let file = file.and_then(Descriptor::new).map_err(failed)?;
    let stat = fstat(&file).map_err(failed)?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return Err("not a regular file".to_owned());
    }
    if !owner::is_ours(stat.st_uid, &folder) {
        return Err(format!("belongs to user {}", stat.st_uid));
    }
    if stat.st_nlink > 1 {
        return Err("has another name as well".to_owned());
    }
    Ok(file)
}
