//! A picture as a few shapes, before anybody writes or draws it. Units are pixels of the finished picture; y grows downwards.

/// A colour, and how much of what is below it is covered.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Paint {
    pub(crate) rgb: [u8; 3],
    pub(crate) opacity: f32,
}

impl Paint {
    pub(crate) const fn solid(rgb: [u8; 3]) -> Self {
        Self { rgb, opacity: 1.0 }
    }

    pub(crate) const fn tint(rgb: [u8; 3], opacity: f32) -> Self {
        Self { rgb, opacity }
    }
}

/// Which point of a text is at its position.
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
    /// What straight lines enclose.
    Area {
        points: Vec<Point>,
        fill: Paint,
    },
    /// `at` is on the baseline.
    Text {
        at: Point,
        text: String,
        size: f32,
        anchor: Anchor,
        paint: Paint,
        is_bold: bool,
    },
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Scene {
    pub(crate) width: f32,
    pub(crate) height: f32,
    pub(crate) shapes: Vec<Shape>,
}
