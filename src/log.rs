//! Log lines: on standard error or in a file, nothing but warnings unless asked for.

use std::fmt;
use std::fs::{File, OpenOptions};
use std::sync::{Mutex, Once};

use tracing::level_filters::LevelFilter;
use tracing::{Event, Subscriber};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

use crate::config;

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
        let builder = tracing_subscriber::fmt().with_max_level(level).with_ansi(false).event_format(OneLine);
        let installed = match log_file() {
            Some(file) => {
                tracing::subscriber::set_global_default(builder.with_writer(Mutex::new(file)).finish())
            }
            None => tracing::subscriber::set_global_default(builder.with_writer(std::io::stderr).finish()),
        };
        // Only a second copy of this library in one program could have been faster; its choice stands.
        drop(installed);
    });
}

fn log_file() -> Option<File> {
    let path = std::env::var_os(config::LOG_FILE).filter(|path| !path.is_empty())?;
    OpenOptions::new().append(true).create(true).open(path).ok()
}
