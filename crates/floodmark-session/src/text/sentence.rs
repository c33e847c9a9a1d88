//! A moment in one sentence: how much, when, in which step, phase and module.

use std::fmt::Write;

use floodmark_analysis::{At, Limit, Moment};
use floodmark_trace::AppliedChange;

use crate::text::short_path::shorten;

/// `Peak of cuda:0: 13.54 GiB allocated, 14.20 GiB reserved, at 1.234 s in step 3, backward of mlp`.
pub fn moment(moment: &Moment) -> String {
    let device = moment.device;
    let mut text = match moment.what {
        At::Peak => format!("Peak of {device}:"),
        At::Oom => format!("Out of memory on {device}: {}with", request(moment)),
        At::End => format!("End on {device}:"),
        At::Seconds(_) => format!("Memory of {device}:"),
    };
    let _ = write!(text, " {} allocated", moment.allocated);
    if let Some(reserved) = moment.reserved {
        let _ = write!(text, ", {reserved} reserved");
    }
    text + ", " + &when(moment)
}

/// `at 1.234 s in step 3, backward of mlp`.
pub fn when(moment: &Moment) -> String {
    let mut text = format!("at {:.3} s", moment.seconds);
    if let Some(step) = moment.step {
        let _ = write!(text, " in step {step}");
    }
    match (moment.phase.as_deref(), &moment.module) {
        (Some("outside"), _) => text.push_str(", outside the model"),
        (Some(phase), Some(module)) => {
            let _ = write!(text, ", {phase} of {module}");
        }
        (Some(phase), None) => {
            let _ = write!(text, ", {phase}");
        }
        (None, Some(module)) => {
            let _ = write!(text, ", in {module}");
        }
        (None, None) => {}
    }
    text
}

/// `2.000 GiB requested at train.py:3 (main), `.
pub fn request(moment: &Moment) -> String {
    let Some(request) = &moment.request else { return String::new() };
    let location = request.location.as_deref().map(shorten);
    let location = location.map_or_else(String::new, |location| format!(" at {location}"));
    format!("{} requested{location}, ", request.bytes)
}

/// `+14.3 %`.
pub fn percent(percent: f64) -> String {
    let sign = if percent < 0.0 { "−" } else { "+" };
    format!("{sign}{:.1} %", percent.abs())
}

/// `5 %` or `200.0 MiB`.
pub fn limit(limit: Limit) -> String {
    match limit {
        Limit::Percent(percent) => format!("{percent} %"),
        Limit::Bytes(bytes) => bytes.to_string(),
    }
}

/// What became of a change that was requested.
pub(crate) fn applied_change(change: &AppliedChange) -> String {
    let AppliedChange { change: name, target, reason, .. } = change;
    if change.is_applied() {
        format!("With `{name}`: {target}")
    } else {
        format!("Without `{name}`: {reason}")
    }
}
