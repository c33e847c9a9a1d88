//! The formats of other tools: their names, how their files are called, who reads them.

use std::io::{self, Write};
use std::path::Path;

use clap::ValueEnum;
use floodmark_export::{
    Coding, ExportError, Options, write_chrome, write_collapsed, write_csv, write_flamegraph,
    write_perfetto, write_png, write_speedscope, write_steps_csv, write_svg, write_timeline,
};
use floodmark_snapshot::write_snapshot;
use floodmark_trace::Trace;

use crate::commands::export::saved_page::write_page;

/// A format of another tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// The page of `floodmark view` in one file, which needs no server
    Html,
    /// A memory snapshot of torch, for its `_memory_viz.py` and <https://pytorch.org/memory_viz>
    TorchSnapshot,
    /// Memory by call stack, at the peak and over time, for <https://www.speedscope.app>
    Speedscope,
    /// Counters, phases, modules and the largest allocations over time, for <https://ui.perfetto.dev>
    Perfetto,
    /// The same as JSON, for `chrome://tracing` and others; larger
    Chrome,
    /// Events, allocations, stacks and steps as tables, a folder for each rank, for DuckDB, Polars or Spark
    Parquet,
    /// The same tables as Arrow's own files
    Arrow,
    /// A point for each step and a picture, as event files in a folder
    Tensorboard,
    /// Events, layers and a summary, as JSON
    Timeline,
    /// A picture of allocated, active and reserved memory over time
    Svg,
    /// The same picture in pixels
    Png,
    /// Every event, as comma-separated values
    Csv,
    /// A row for each step, as comma-separated values
    CsvSteps,
    /// What each call stack held at the peak, a line each, for flame graph tools
    Collapsed,
    /// What each call stack held at the peak, as a picture for the browser
    Flamegraph,
}

impl Format {
    /// Who reads it.
    pub(crate) fn reader(self) -> &'static str {
        match self {
            Self::TorchSnapshot => "see it with `python -m torch.cuda._memory_viz trace_plot FILE`",
            Self::Speedscope => "drop it on https://www.speedscope.app",
            Self::Perfetto => "open it at https://ui.perfetto.dev",
            Self::Chrome => "open it at `chrome://tracing` or https://ui.perfetto.dev",
            Self::Parquet => "DuckDB: `SELECT * FROM 'FOLDER/rank=*/allocations.parquet'`",
            Self::Arrow => "pyarrow and Polars read it",
            Self::Tensorboard => "see it with `tensorboard --logdir FOLDER`",
            Self::Timeline => "it is JSON: `events`, `layer_stats` and `summary`",
            Self::Html | Self::Svg | Self::Flamegraph => "open it in a browser",
            Self::Png => "open it in any viewer of pictures",
            Self::Csv | Self::CsvSteps => "any spreadsheet and pandas read it",
            Self::Collapsed => "any flame graph tool reads it",
        }
    }

    /// How the file of a trace is called: what follows its name.
    pub(crate) fn ending(self) -> &'static str {
        match self {
            Self::Html => "html",
            Self::TorchSnapshot => "snapshot.pickle",
            Self::Speedscope => "speedscope.json",
            Self::Perfetto => "pftrace",
            Self::Chrome => "chrome.json",
            Self::Parquet => "parquet",
            Self::Arrow => "arrow",
            Self::Tensorboard => "tensorboard",
            Self::Timeline => "timeline.json",
            Self::Svg => "svg",
            Self::Png => "png",
            Self::Csv => "csv",
            Self::CsvSteps => "steps.csv",
            Self::Collapsed => "collapsed.txt",
            Self::Flamegraph => "flamegraph.svg",
        }
    }

    /// What is written for each rank, where the format is a folder.
    pub(crate) fn folder(self) -> Option<Folder> {
        match self {
            Self::Parquet => Some(Folder::Tables(Coding::Parquet)),
            Self::Arrow => Some(Folder::Tables(Coding::Arrow)),
            Self::Tensorboard => Some(Folder::Tensorboard),
            Self::Html
            | Self::TorchSnapshot
            | Self::Speedscope
            | Self::Perfetto
            | Self::Chrome
            | Self::Timeline
            | Self::Svg
            | Self::Png
            | Self::Csv
            | Self::CsvSteps
            | Self::Collapsed
            | Self::Flamegraph => None,
        }
    }

    /// Whether a terminal would show nothing but noise.
    pub(crate) fn is_binary(self) -> bool {
        matches!(self, Self::TorchSnapshot | Self::Perfetto | Self::Png)
    }

    /// The format of a file of this name, where that is clear: `x.speedscope.json` is, `x.json` is not.
    fn of_path(path: &Path) -> Option<Self> {
        let name = path.file_name()?.to_str()?.to_ascii_lowercase();
        let fits = |format: &Self| name.ends_with(&format!(".{}", format.ending()));
        let all = Self::value_variants().iter().copied();
        all.filter(fits).max_by_key(|format| format.ending().len())
    }

    /// The format that is named, or else that of a file's name.
    pub fn choose(name: Option<&str>, path: Option<&Path>) -> Result<Self, NotAFormat> {
        match (name, path) {
            (Some(name), _) => Self::from_str(name, false)
                .map_err(|_| NotAFormat::Unknown { name: name.to_owned() }),
            (None, path) => path.and_then(Self::of_path).ok_or(NotAFormat::Unclear),
        }
    }

    /// Writes a trace into one file.
    pub fn write(
        self,
        trace: &Trace,
        options: &Options,
        out: &mut impl Write,
    ) -> Result<(), ExportError> {
        match self {
            Self::Html => write_page(trace, options.device, out),
            Self::TorchSnapshot => Ok(write_snapshot(trace, options.device, out)?),
            Self::Speedscope => write_speedscope(trace, options, out),
            Self::Perfetto => write_perfetto(trace, options, out),
            Self::Chrome => write_chrome(trace, options, out),
            Self::Parquet | Self::Arrow | Self::Tensorboard => Err(ExportError::NeedsFolder),
            Self::Timeline => write_timeline(trace, options, out),
            Self::Svg => write_svg(trace, options, out),
            Self::Png => write_png(trace, options, out),
            Self::Csv => write_csv(trace, options, out),
            Self::CsvSteps => write_steps_csv(trace, options, out),
            Self::Collapsed => write_collapsed(trace, options, out),
            Self::Flamegraph => write_flamegraph(trace, options, out),
        }
    }
}

/// A format of several files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Folder {
    /// Tables, a folder for each rank.
    Tables(Coding),
    /// Event files; of several ranks, a folder for each.
    Tensorboard,
}

/// Nobody can tell which format is meant.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotAFormat {
    /// There is none of this name.
    #[error("`{name}` is no format; there are {}", names())]
    Unknown {
        /// The name.
        name: String,
    },
    /// The name of the file does not say it.
    #[error("the name of the file does not tell the format; say which with `to`: {}", names())]
    Unclear,
}

/// The names of all formats.
fn names() -> String {
    let values = Format::value_variants().iter().filter_map(ValueEnum::to_possible_value);
    let names: Vec<String> = values.map(|value| format!("`{}`", value.get_name())).collect();
    names.join(", ")
}

/// Draws a chart that is described in JSON, as `png` or `svg`.
pub fn draw(chart: &str, format: &str) -> io::Result<Vec<u8>> {
    let chart: floodmark_export::Chart = serde_json::from_str(chart)?;
    let mut out = Vec::new();
    match Format::choose(Some(format), None) {
        Ok(Format::Svg) => floodmark_export::write_chart_svg(&chart, &mut out),
        Ok(Format::Png) => floodmark_export::write_chart_png(&chart, &mut out),
        _ => {
            return Err(io::Error::other(format!(
                "a chart is drawn as `svg` or `png`, not `{format}`"
            )));
        }
    }
    .map_err(io::Error::other)?;
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_says_the_format_where_it_is_clear() {
        let of = |name: &str| Format::of_path(Path::new(name));
        assert_eq!(of("a/x.svg"), Some(Format::Svg));
        assert_eq!(of("x.flamegraph.svg"), Some(Format::Flamegraph));
        assert_eq!(of("x.steps.CSV"), Some(Format::CsvSteps));
        assert_eq!(of("x.speedscope.json"), Some(Format::Speedscope));
        assert_eq!(of("x.html"), Some(Format::Html));
        assert_eq!(of("x.json"), None);
        assert_eq!(of("x.txt"), None);
        assert_eq!(of("svg"), None);
    }

    #[test]
    fn a_wrong_name_is_told_the_right_ones() {
        let text = Format::choose(Some("svgz"), None).unwrap_err().to_string();
        assert!(text.starts_with("`svgz` is no format; there are `html`, `torch-snapshot`"));
        for format in Format::value_variants() {
            let name = format.to_possible_value().unwrap().get_name().to_owned();
            assert_eq!(Format::choose(Some(&name), None), Ok(*format));
        }
    }
}
