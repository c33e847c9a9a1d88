//! `floodmark metrics`: serves the metrics of a growing trace to Prometheus.
//!
//! A scrape reads what is new in the files and returns their current metrics. Nothing runs between two scrapes, so
//! there is no registry: [`text`] writes the lines of the format from [`LiveSummary`]s.
//!
//! Listens on loopback unless the user gives another address; answers only `GET /metrics`.

mod serve;
mod text;

use floodmark_analysis::LiveSummary;
use floodmark_files::traces::OpenError;

use crate::args::MetricsArgs;
use crate::text::failure::{Failure, Problem, Result};
use crate::text::output;
use crate::traces::watched_trace::{WatchedTrace, watched_paths};

/// The served traces.
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

    /// Reads what is new in the files, and returns the metrics.
    fn newest_text(&mut self) -> Result<String, OpenError> {
        for source in &mut self.0 {
            source.refresh()?;
        }
        Ok(self.text())
    }
}

/// Serves metrics until Ctrl-C; with `--once` returns them as text.
pub(crate) fn metrics(args: &MetricsArgs) -> Result<String> {
    let sources = Sources::open(args)?;
    if args.once {
        return Ok(sources.text());
    }
    if !args.listen.ip().is_loopback() {
        output::note(&format!(
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
