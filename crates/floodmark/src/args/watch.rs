//! Options of the commands that follow a growing trace.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use floodmark_analysis::By;

use crate::args::Source;

#[derive(Debug, Args)]
pub(crate) struct TopArgs {
    #[command(flatten)]
    pub(crate) source: Source,
    /// Group the rows by this at first
    #[arg(long, default_value = "line", value_parser = by_parser())]
    pub(crate) by: By,
    /// Seconds between updates
    #[arg(long, default_value = "0.5", value_name = "SECONDS", value_parser = parse_interval)]
    pub(crate) interval: Duration,
    /// Print one screen as text and exit
    #[arg(long)]
    pub(crate) once: bool,
}

#[derive(Debug, Args)]
pub(crate) struct MetricsArgs {
    /// A `.flood` file, a torch memory snapshot, or a folder with one per rank
    pub(crate) trace: PathBuf,
    /// Address to listen on; port 0 is any free port
    #[arg(long, default_value = "127.0.0.1:9400", value_name = "ADDRESS:PORT")]
    pub(crate) listen: SocketAddr,
    /// Print the metrics once and exit
    #[arg(long)]
    pub(crate) once: bool,
}

fn by_parser() -> impl TypedValueParser<Value = By> {
    PossibleValuesParser::new(["line", "module", "category", "tensor", "step"])
        .try_map(|name| name.parse::<By>())
}

/// Parses an interval in seconds, within limits for a screen.
fn parse_interval(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().unwrap_or(f64::NAN);
    if (0.05..=3600.0).contains(&seconds) {
        return Ok(Duration::from_secs_f64(seconds));
    }
    Err("an interval is 0.05 to 3600 seconds".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_is_a_number_of_seconds() {
        assert_eq!(parse_interval("0.5"), Ok(Duration::from_millis(500)));
        for wrong in ["", "0", "-1", "nan", "inf", "1e9", "1s"] {
            assert!(parse_interval(wrong).is_err(), "{wrong}");
        }
    }
}
