//! A picture as a few shapes, before it is written. Units are pixels of the finished picture; y grows downwards.

use super::font::Style;
use super::palette::Rgb;

/// A colour and its opacity.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Paint {
    pub(crate) rgb: Rgb,
    pub(crate) opacity: f32,
}

impl Paint {
    pub(crate) const fn solid(rgb: Rgb) -> Self {
        Self { rgb, opacity: 1.0 }
    }

    pub(crate) const fn tint(rgb: Rgb, opacity: f32) -> Self {
        Self { rgb, opacity }
    }
}

/// The point of a text that is at its position.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Anchor {
    Start,
    Middle,
    End,
}

pub(crate) type Point = (f32, f32);

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Shape {
    Rect {
        at: Point,
        size: Point,
        fill: Paint,
    },
    /// Connected straight lines; dashes are as long as the gaps between them.
    Line {
        points: Vec<Point>,
        paint: Paint,
        width: f32,
        dash: Option<f32>,
    },
    /// A polygon.
    Area {
        points: Vec<Point>,
        fill: Paint,
    },
    /// `at` is on the baseline.
    Text {
        at: Point,
        text: String,
        style: Style,
        anchor: Anchor,
        paint: Paint,
    },
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Scene {
    /// A description for screen readers.
    pub(crate) title: String,
    pub(crate) width: f32,
    pub(crate) height: f32,
    pub(crate) shapes: Vec<Shape>,
}
