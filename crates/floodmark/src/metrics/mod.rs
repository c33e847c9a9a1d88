//! `floodmark metrics`: the figures of a trace that grows, for Prometheus.
//!
//! A scrape looks at the files and tells how they stand. Nothing is counted here and nothing runs between two
//! scrapes, so there is no registry: [`text`] writes the few lines of the format from the [`LiveSummary`]s alone.
//!
//! Listens on loopback unless another address was typed, answers `GET /metrics` and nothing else.

mod serve;
mod text;

use floodmark_analysis::LiveSummary;
use floodmark_files::traces::OpenError;

use crate::args::MetricsArgs;
use crate::text::failure::{Failure, Problem, Result};
use crate::text::output;
use crate::traces::watched_trace::{WatchedTrace, watched_paths};

/// All traces that are served.
#[derive(Debug)]
struct Sources(Vec<WatchedTrace>);

impl Sources {
    fn open(args: &MetricsArgs) -> Result<Self> {
        let paths = watched_paths(&args.trace)?;
        let sources = paths.iter().map(|(rank, path)| WatchedTrace::open(*rank, path));
        Ok(Self(sources.collect::<Result<_>>()?))
    }

    fn text(&self) -> String {
        let summaries: Vec<&LiveSummary> = self.0.iter().map(|source| &source.summary).collect();
        text::text(&summaries)
    }

    /// Looks at the files first.
    fn newest_text(&mut self) -> Result<String, OpenError> {
        for source in &mut self.0 {
            source.refresh()?;
        }
        Ok(self.text())
    }
}

/// Serves the figures until Ctrl-C; with `--once` gives them as text.
pub(crate) fn metrics(args: &MetricsArgs) -> Result<String> {
    let sources = Sources::open(args)?;
    if args.once {
        return Ok(sources.text());
    }
    if !args.listen.ip().is_loopback() {
        output::talk(&format!(
            "warning: anyone who can reach {} can read the figures: there is no password\n",
            args.listen
        ));
    }
    serve::serve(sources, args.listen).map_err(|error| {
        let failed = format!("Failed to listen on `{}`", args.listen);
        if error.kind() == std::io::ErrorKind::AddrInUse {
            Failure::from(Problem::PortInUse).context(failed)
        } else {
            Failure::from(error).context(failed)
        }
    })?;
    Ok(String::new())
}
