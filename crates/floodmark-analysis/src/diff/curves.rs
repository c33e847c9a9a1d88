//! Both recordings over time, on one axis: by step where both have steps, otherwise by the time since each began.

use floodmark_trace::{Bytes, Device, Trace};
use schemars::JsonSchema;
use serde::Serialize;

use crate::allocation::context::Context;
use crate::diff::{Both, DiffError, DiffSides, in_a, in_b};
use crate::moment::at::At;
use crate::moment::levels::{Thinned, points};
use crate::moment::moment;
use crate::question_error::QuestionError;
use crate::time_axis::{AxisBy, AxisMap};

/// About how many points a curve has.
const MOST_POINTS: usize = 3000;

/// A point of a curve.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct DiffPoint {
    /// Where it lies on the axis that both recordings share.
    pub position: f64,
    /// Seconds since its recording began.
    pub seconds: f64,
    /// torch's total of allocated bytes.
    pub allocated: Bytes,
}

/// One of the two recordings.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct DiffCurve {
    /// The device.
    pub device: Device,
    /// How long the recording is.
    pub seconds: f64,
    /// The highest point.
    pub peak: DiffPoint,
    /// The time that is compared.
    pub at: DiffPoint,
    /// The points of the curve, in order.
    pub points: Vec<DiffPoint>,
}

/// Both recordings over time, on one axis.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct DiffCurves {
    /// What the axis is: `steps`, and in a step events, or `time`.
    pub axis: AxisBy,
    /// Where the longer one of them ends.
    pub length: f64,
    /// The highest bytes of both.
    pub highest: Bytes,
    /// The two.
    pub curves: Both<DiffCurve>,
}

/// Both recordings over time, and the times that are compared.
pub fn diff_curves(a: &Trace, b: &Trace, sides: &DiffSides) -> Result<DiffCurves, DiffError> {
    let devices = sides.devices(a, b)?;
    let contexts = [Context::new(a), Context::new(b)];
    let have_steps = contexts.iter().all(|context| !context.step_ends().is_empty());
    let axis = |trace, context, device| {
        if have_steps {
            AxisMap::new(trace, context, device, AxisBy::Steps)
        } else {
            AxisMap::plain(trace)
        }
    };
    let curve = |trace, context, device, at| {
        curve_on(trace, context, device, at, &axis(trace, context, device))
    };
    let curves = Both {
        a: curve(a, &contexts[0], devices.a, sides.at.a).map_err(in_a)?,
        b: curve(b, &contexts[1], devices.b, sides.at.b).map_err(in_b)?,
    };
    let end = |curve: &DiffCurve| curve.points.last().map_or(0.0, |last| last.position);
    Ok(DiffCurves {
        axis: if have_steps { AxisBy::Steps } else { AxisBy::Time },
        length: end(&curves.a).max(end(&curves.b)),
        highest: curves.a.peak.allocated.max(curves.b.peak.allocated),
        curves,
    })
}

fn curve_on(
    trace: &Trace,
    context: &Context,
    device: Device,
    at: At,
    axis: &AxisMap,
) -> Result<DiffCurve, QuestionError> {
    let point =
        |seconds, allocated| DiffPoint { position: axis.position(seconds), seconds, allocated };
    let found = |at| moment(trace, context, device, at).map(|it| point(it.seconds, it.allocated));
    let seconds = trace.end().as_seconds();
    let mut way = Thinned::new(axis.position(seconds), MOST_POINTS);
    let mut last = Bytes(0);
    for levels in points(trace, device) {
        way.push(axis.position(levels.seconds), levels);
        last = levels.allocated;
    }
    let kept = way.finish().into_iter().map(|levels| point(levels.seconds, levels.allocated));
    // Memory that is live at the last event stays live until the end.
    let points = kept.chain([point(seconds, last)]).collect();
    Ok(DiffCurve { device, seconds, peak: found(At::Peak)?, at: found(at)?, points })
}
