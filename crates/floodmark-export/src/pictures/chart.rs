//! What a chart of memory shows: lines and stacked layers over time or over a count, with what happened on the way.

use floodmark_analysis::Axis;
use serde::Deserialize;

/// What the horizontal axis counts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Quantity {
    /// Seconds since the recording began.
    #[default]
    Seconds,
    /// Things, one after the other.
    Count,
}

/// One line: bytes over the horizontal axis.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
pub struct Series {
    /// Its name in the legend.
    pub name: String,
    /// Where it is, in order; the level stays until the next point.
    pub points: Vec<(f64, f64)>,
}

/// A part of the horizontal axis.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
pub struct Band {
    /// What it is; bands of one name have one colour.
    pub name: String,
    /// Where it begins.
    pub from: f64,
    /// Where it ends.
    pub to: f64,
}

/// How important a marker is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Emphasis {
    /// One of many.
    #[default]
    Quiet,
    /// Worth a word.
    Plain,
    /// To be seen first.
    Strong,
}

/// A vertical line with a name.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
pub struct Mark {
    /// Where.
    pub at: f64,
    /// Its name.
    pub name: String,
    /// How important it is.
    #[serde(default)]
    pub emphasis: Emphasis,
}

/// A chart.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Chart {
    /// What it shows.
    pub title: String,
    /// The figures that matter, in words.
    pub subtitle: String,
    /// What the horizontal axis counts.
    pub across: Quantity,
    /// What the horizontal axis is called.
    pub across_name: String,
    /// How far it goes; to the last point when that is farther.
    pub end: f64,
    /// Where times lie, where idle stretches are short.
    #[serde(skip)]
    pub axis: Option<Axis>,
    /// What is stacked, from the bottom up; the points of each are its upper edge.
    pub layers: Vec<Series>,
    /// The lines; the last one is drawn on top.
    pub series: Vec<Series>,
    /// What the program did.
    pub bands: Vec<Band>,
    /// What happened.
    pub marks: Vec<Mark>,
    /// A point to be pointed at.
    pub peak: Option<(f64, f64)>,
}
