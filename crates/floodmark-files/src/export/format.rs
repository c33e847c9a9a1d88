//! The formats of other tools: their names, the endings of their files, and the programs that read them.

use std::io::{self, Write};
use std::path::Path;

use floodmark_analysis::QuestionError;
use floodmark_export::{
    Coding, ExportError, Options, write_chrome, write_collapsed, write_csv, write_flamegraph,
    write_perfetto, write_png, write_speedscope, write_steps_csv, write_svg, write_timeline,
};
use floodmark_snapshot::write_snapshot;
use floodmark_trace::{Device, Trace};

macro_rules! formats {
    ($($format:ident {
        name: $name:literal,
        ending: $ending:literal,
        about: $about:literal,
        reader: $reader:literal,
    })*) => {
        /// A format of another tool.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Format {
            $(#[doc = $about] $format,)*
        }

        impl Format {
            /// Every format, in the order in which help lists them.
            pub const ALL: [Self; [$($name),*].len()] = [$(Self::$format),*];

            /// Its name on the command line.
            pub fn name(self) -> &'static str {
                match self { $(Self::$format => $name),* }
            }

            /// The ending of its files.
            pub fn ending(self) -> &'static str {
                match self { $(Self::$format => $ending),* }
            }

            /// What it is, in a line.
            pub fn about(self) -> &'static str {
                match self { $(Self::$format => $about),* }
            }

            /// The program that reads it.
            pub fn reader(self) -> &'static str {
                match self { $(Self::$format => $reader),* }
            }
        }
    };
}

formats! {
    Html {
        name: "html",
        ending: "html",
        about: "The page of `floodmark view` in one file, which needs no server",
        reader: "open it in a browser",
    }
    TorchSnapshot {
        name: "torch-snapshot",
        ending: "snapshot.pickle",
        about: "A memory snapshot of torch, for its `_memory_viz.py` and <https://pytorch.org/memory_viz>",
        reader: "see it with `python -m torch.cuda._memory_viz trace_plot FILE`",
    }
    Speedscope {
        name: "speedscope",
        ending: "speedscope.json",
        about: "Memory by call stack, at the peak and over time, for <https://www.speedscope.app>",
        reader: "drop it on https://www.speedscope.app",
    }
    Perfetto {
        name: "perfetto",
        ending: "pftrace",
        about: "Counters, phases, modules and the largest allocations over time, for <https://ui.perfetto.dev>",
        reader: "open it at https://ui.perfetto.dev",
    }
    Chrome {
        name: "chrome",
        ending: "chrome.json",
        about: "The same as JSON, for `chrome://tracing` and others; larger",
        reader: "open it at `chrome://tracing` or https://ui.perfetto.dev",
    }
    Parquet {
        name: "parquet",
        ending: "parquet",
        about: "Events, allocations, stacks and steps as tables, a folder for each rank, for DuckDB, Polars or Spark",
        reader: "DuckDB: `SELECT * FROM 'FOLDER/rank=*/allocations.parquet'`",
    }
    Arrow {
        name: "arrow",
        ending: "arrow",
        about: "The same tables as Arrow's own files",
        reader: "pyarrow and Polars read it",
    }
    Tensorboard {
        name: "tensorboard",
        ending: "tensorboard",
        about: "A point for each step and a picture, as event files in a folder",
        reader: "see it with `tensorboard --logdir FOLDER`",
    }
    Timeline {
        name: "timeline",
        ending: "timeline.json",
        about: "Events, layers and a summary, as JSON",
        reader: "it is JSON: `events`, `layer_stats` and `summary`",
    }
    Svg {
        name: "svg",
        ending: "svg",
        about: "A picture of memory over time, by category",
        reader: "open it in a browser",
    }
    Png {
        name: "png",
        ending: "png",
        about: "The same picture in pixels",
        reader: "open it in any viewer of pictures",
    }
    Csv {
        name: "csv",
        ending: "csv",
        about: "Every event, as comma-separated values",
        reader: "any spreadsheet and pandas read it",
    }
    CsvSteps {
        name: "csv-steps",
        ending: "steps.csv",
        about: "A row for each step, as comma-separated values",
        reader: "any spreadsheet and pandas read it",
    }
    Collapsed {
        name: "collapsed",
        ending: "collapsed.txt",
        about: "Live bytes of each call stack at the peak, a line each, for flame graph tools",
        reader: "any flame graph tool reads it",
    }
    Flamegraph {
        name: "flamegraph",
        ending: "flamegraph.svg",
        about: "Live bytes of each call stack at the peak, as a picture for the browser",
        reader: "open it in a browser",
    }
}

impl Format {
    /// What is written for each rank, if the format is a folder.
    pub fn folder(self) -> Option<Folder> {
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

    /// Whether it is no text that a terminal can show.
    pub fn is_binary(self) -> bool {
        matches!(self, Self::TorchSnapshot | Self::Perfetto | Self::Png)
    }

    /// The format of a file with this name, if it follows from the name: for `x.speedscope.json`, not for `x.json`.
    fn of_path(path: &Path) -> Option<Self> {
        let name = path.file_name()?.to_str()?.to_ascii_lowercase();
        let fits = |format: &Self| name.ends_with(&format!(".{}", format.ending()));
        let all = Self::ALL.into_iter();
        all.filter(fits).max_by_key(|format| format.ending().len())
    }

    /// The named format, or else the format of a file with this name.
    pub fn choose(name: Option<&str>, path: Option<&Path>) -> Result<Self, NotAFormat> {
        match (name, path) {
            (Some(name), _) => Self::ALL
                .into_iter()
                .find(|format| format.name() == name)
                .ok_or_else(|| NotAFormat::Unknown { name: name.to_owned() }),
            (None, path) => path.and_then(Self::of_path).ok_or(NotAFormat::Unclear),
        }
    }

    /// Writes a trace into one file.
    pub fn write(
        self,
        trace: &Trace,
        options: &Options,
        page: PageWriter,
        out: &mut impl Write,
    ) -> Result<(), ExportError> {
        match self {
            Self::TorchSnapshot if trace.devices().is_empty() => {
                Err(QuestionError::without_allocations(trace).into())
            }
            Self::Html => Ok(out.write_all(page(trace, options.device)?.as_bytes())?),
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

/// Makes the page of `floodmark view` with its answers inside. The server does it, which is in a crate above this one.
pub type PageWriter = fn(&Trace, Option<Device>) -> Result<String, ExportError>;

/// A format of several files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Folder {
    /// Tables, a folder for each rank.
    Tables(Coding),
    /// Event files, in a folder for each rank if there are several.
    Tensorboard,
}

/// The format is unknown or not given.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotAFormat {
    /// No format has this name.
    #[error("`{name}` is not a format; choose one of {}", names())]
    Unknown {
        /// The name.
        name: String,
    },
    /// The format does not follow from the name of the file.
    #[error("the name of the file does not show the format; choose one with `to`: {}", names())]
    Unclear,
}

/// The names of all formats.
fn names() -> String {
    let names = Format::ALL.map(|format| format!("`{}`", format.name()));
    names.join(", ")
}

/// Draws a chart, described in JSON, as `png` or `svg`.
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
    fn the_format_follows_from_the_name_of_a_file() {
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
    fn an_unknown_name_is_answered_with_the_known_ones() {
        let text = Format::choose(Some("svgz"), None).unwrap_err().to_string();
        assert!(text.starts_with("`svgz` is not a format; choose one of `html`, `torch-snapshot`"));
        for format in Format::ALL {
            assert_eq!(Format::choose(Some(format.name()), None), Ok(format));
        }
    }
}
