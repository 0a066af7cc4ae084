//! Log lines: on standard error or in a file, nothing but warnings unless asked for.

use std::path::Path;
use std::sync::Once;
use std::{fmt, io};

use rustix::fs::OFlags;
use rustix::io::Errno;
use tracing::level_filters::LevelFilter;
use tracing::{Event, Subscriber};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields, MakeWriter};
use tracing_subscriber::layer::{Layer as _, SubscriberExt as _};
use tracing_subscriber::registry::LookupSpan;

use crate::config::OfProcess;
use crate::trace::file::TraceFile;
use crate::user_file;
use vkstash_store::base::descriptor::Descriptor;
use vkstash_store::base::signals;

/// `vkstash: warn: text`: the reader of a game's output must see where a line comes from.
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

/// Where lines go. A line that cannot be written is dropped: it could be reported nowhere else. Nor does the program
/// wait for the reader of its standard error.
enum Sink {
    StandardError,
    File(Descriptor),
}

impl Sink {
    fn write_some(&self, text: &[u8]) -> Result<usize, Errno> {
        match self {
            Sink::StandardError => signals::write_if_ready(rustix::stdio::stderr(), text),
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
        let OfProcess { log, log_file, trace, .. } = OfProcess::get();
        let level = match log.as_deref() {
            Some("off") => LevelFilter::OFF,
            Some("error") => LevelFilter::ERROR,
            Some("info") => LevelFilter::INFO,
            Some("debug") => LevelFilter::DEBUG,
            Some("trace") => LevelFilter::TRACE,
            _ => LevelFilter::WARN,
        };
        let open = |path: &'static Path| user_file::open(path, OFlags::WRONLY);
        let opened = log_file.as_deref().map(|path| open(path).map_err(|reason| (path, reason)));
        let (sink, refused) = match opened {
            Some(Ok(file)) => (Sink::File(file), None),
            Some(Err(refused)) => (Sink::StandardError, Some(refused)),
            None => (Sink::StandardError, None),
        };
        let trace = trace.as_deref().map(|path| TraceFile::open(path).map_err(|reason| (path, reason)));
        let (trace, no_trace) = match trace {
            Some(Ok(trace)) => (Some(trace), None),
            Some(Err(refused)) => (None, Some(refused)),
            None => (None, None),
        };
        // Only a second copy of this library in one program could have been faster; its choice stands.
        drop(match trace {
            None => {
                let builder = tracing_subscriber::fmt().with_max_level(level).with_ansi(false);
                let builder = builder.log_internal_errors(false).event_format(OneLine);
                tracing::subscriber::set_global_default(builder.with_writer(sink).finish())
            }
            Some(trace) => {
                let lines = tracing_subscriber::fmt::layer().with_ansi(false).log_internal_errors(false);
                let lines = lines.event_format(OneLine).with_writer(sink).with_filter(level);
                let both = tracing_subscriber::registry().with(lines).with(trace.layer());
                tracing::subscriber::set_global_default(both)
            }
        });
        if let Some((path, reason)) = refused {
            tracing::warn!("{}: {reason}; log lines go to standard error", path.display());
        }
        if let Some((path, reason)) = no_trace {
            tracing::warn!("{}: {reason}; no trace is written", path.display());
        }
    });
}
