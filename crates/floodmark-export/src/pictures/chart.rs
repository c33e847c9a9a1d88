//! The contents of a chart of memory: lines and stacked layers over time or over a count, with bands and markers.

use floodmark_analysis::Axis;
use serde::Deserialize;

/// The quantity of the horizontal axis.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Quantity {
    /// Seconds since the recording began.
    #[default]
    Seconds,
    /// A count.
    Count,
}

/// One line: bytes over the horizontal axis.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
pub struct Series {
    /// Its name in the legend.
    pub name: String,
    /// Its points, in order. The level stays until the next point.
    pub points: Vec<(f64, f64)>,
}

/// A part of the horizontal axis.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
pub struct Band {
    /// Its name. Bands with the same name have the same colour.
    pub name: String,
    /// Its start.
    pub from: f64,
    /// Its end.
    pub to: f64,
}

/// The importance of a marker.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Emphasis {
    /// One of many.
    #[default]
    Quiet,
    /// It gets a name.
    Plain,
    /// The most important one.
    Strong,
}

/// A vertical line with a name.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
pub struct Mark {
    /// Its position.
    pub at: f64,
    /// Its name.
    pub name: String,
    /// Its importance.
    #[serde(default)]
    pub emphasis: Emphasis,
}

/// A chart.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Chart {
    /// The title.
    pub title: String,
    /// The most important figures, as text.
    pub subtitle: String,
    /// The quantity of the horizontal axis.
    pub across: Quantity,
    /// The label of the horizontal axis.
    pub across_name: String,
    /// The end of the horizontal axis, at least the last point.
    pub end: f64,
    /// The positions of times, if idle stretches are short.
    #[serde(skip)]
    pub axis: Option<Axis>,
    /// The stacked layers, from the bottom up. The points of a layer are its upper edge.
    pub layers: Vec<Series>,
    /// The lines. The last one is on top.
    pub series: Vec<Series>,
    /// The bands: phases of the program.
    pub bands: Vec<Band>,
    /// The markers.
    pub marks: Vec<Mark>,
    /// A point to highlight.
    pub peak: Option<(f64, f64)>,
}
