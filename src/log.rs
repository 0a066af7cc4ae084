//! Log lines: on standard error or in a file, nothing but warnings unless asked for.

use std::fmt::{self, Write as _};
use std::path::Path;

use rustix::fs::OFlags;
use rustix::io::Errno;
use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

use crate::config::OfProcess;
use crate::user_file;
use vkstash_host::descriptor::Descriptor;
use vkstash_host::once::Once;
use vkstash_host::signals;
use vkstash_host::text::is_printable;

/// Writes events as lines, `vkstash: warn: text`: the reader of a game's output must see where a line comes from. There
/// are no spans.
struct Lines {
    level: LevelFilter,
    sink: Sink,
}

impl Subscriber for Lines {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.is_event() && *metadata.level() <= self.level
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(self.level)
    }

    fn event(&self, event: &Event<'_>) {
        let mut line = Line(format!("vkstash: {}: ", event.metadata().level().as_str().to_ascii_lowercase()));
        event.record(&mut line);
        line.0.push('\n');
        self.sink.write(line.0.as_bytes());
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

/// The text of an event. Names of files and programs in it may hold characters that move a terminal's cursor.
struct Line(String);

impl fmt::Write for Line {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0.extend(text.chars().map(|letter| if is_printable(letter) { letter } else { '\u{fffd}' }));
        Ok(())
    }
}

impl Visit for Line {
    // No event has such a number, and printing one takes 2.6 KB of the library.
    fn record_f64(&mut self, _: &Field, _: f64) {}

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let _ = match field.name() {
            "message" => write!(self, "{value:?}"),
            name => write!(self, " {name}={value:?}"),
        };
    }
}

/// Where lines go. A line that cannot be written is dropped: it could be reported nowhere else. Nor does the program
/// wait for the reader of its standard error.
enum Sink {
    StandardError,
    File(Descriptor),
}

impl Sink {
    fn write(&self, line: &[u8]) {
        let mut rest = line;
        while !rest.is_empty() {
            match self.write_some(rest) {
                Ok(written @ 1..) => rest = &rest[written..],
                Err(Errno::INTR) => {}
                Ok(0) | Err(_) => break,
            }
        }
    }

    fn write_some(&self, text: &[u8]) -> Result<usize, Errno> {
        match self {
            Sink::StandardError => signals::write_if_ready(rustix::stdio::stderr(), text),
            Sink::File(file) => signals::write(file.still()?, text),
        }
    }
}

/// Sets up logging, once in the life of the library, before the first line: most programs that load the layer
/// never need one. The subscriber is this library's own: it does not touch what the program or other layers log with.
pub fn init() {
    static ONCE: Once = Once::new();
    ONCE.run(|| {
        let OfProcess { log, log_file, .. } = OfProcess::get();
        let (level, unknown) = match log.as_deref() {
            Some("off") => (LevelFilter::OFF, None),
            Some("error") => (LevelFilter::ERROR, None),
            Some("warn" | "") | None => (LevelFilter::WARN, None),
            Some("info") => (LevelFilter::INFO, None),
            Some("debug") => (LevelFilter::DEBUG, None),
            Some("trace") => (LevelFilter::TRACE, None),
            Some(unknown) => (LevelFilter::WARN, Some(unknown)),
        };
        let open = |path: &'static Path| user_file::open(path, OFlags::WRONLY);
        let opened = log_file.as_deref().map(|path| open(path).map_err(|reason| (path, reason)));
        let (sink, refused) = match opened {
            Some(Ok(file)) => (Sink::File(file), None),
            Some(Err(refused)) => (Sink::StandardError, Some(refused)),
            None => (Sink::StandardError, None),
        };
        // Only a second copy of this library in one program could have been faster; its choice stands.
        drop(tracing::subscriber::set_global_default(Lines { level, sink }));
        if let Some(unknown) = unknown {
            tracing::warn!(
                "VKSTASH_LOG={unknown} is none of off, error, warn, info, debug and trace: warn counts"
            );
        }
        if let Some((path, reason)) = refused {
            tracing::warn!("{}: {reason}; log lines go to standard error", path.display());
        }
    });
}
