//! A time of a recording in one sentence: the bytes, the step, the phase and the module.

use std::fmt::Write;

use floodmark_analysis::{At, Limit, Moment};
use floodmark_trace::AppliedChange;

use crate::short_path::shorten;

/// `Peak of cuda:0: 13.54 GiB allocated, 14.20 GiB reserved, in step 3, backward of mlp, at 1.234 s`.
pub fn moment(moment: &Moment) -> String {
    let device = moment.device;
    let mut text = match moment.what {
        At::Peak => format!("Peak of {device}:"),
        At::Oom => format!("Out of memory on {device}: {}with", request(moment)),
        At::End => format!("End on {device}:"),
        At::Seconds(_) => format!("Memory of {device}:"),
        At::Step { step, phase: None } => format!("Peak of step {step} on {device}:"),
        At::Step { step, phase: Some(phase) } => {
            format!("Peak of step {step}, {}, on {device}:", phase.name())
        }
    };
    let _ = write!(text, " {} allocated", moment.allocated);
    if let Some(reserved) = moment.reserved {
        let _ = write!(text, ", {reserved} reserved");
    }
    text + ", " + &when(moment)
}

/// `in step 3, backward of mlp, at 1.234 s`: the step and the phase come before the time.
pub fn when(moment: &Moment) -> String {
    let mut parts: Vec<String> = moment.step.iter().map(|step| format!("in step {step}")).collect();
    parts.extend(match (moment.phase.as_deref(), &moment.module) {
        (Some(OUTSIDE), _) => Some(phase_name(OUTSIDE).to_owned()),
        (Some(phase), Some(module)) => Some(format!("{phase} of {module}")),
        (Some(phase), None) => Some(phase.to_owned()),
        (None, Some(module)) => Some(format!("in {module}")),
        (None, None) => None,
    });
    parts.push(format!("at {:.3} s", moment.seconds));
    parts.join(", ")
}

/// The name in JSON for a time outside all phases.
const OUTSIDE: &str = "outside";

/// The shown name of a phase.
pub(crate) fn phase_name(phase: &str) -> &str {
    if phase == OUTSIDE { "outside forward/backward/optimizer" } else { phase }
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

/// Whether a requested change was applied, and to what.
pub(crate) fn applied_change(change: &AppliedChange) -> String {
    let AppliedChange { change: name, target, reason, .. } = change;
    if change.is_applied() {
        format!("With `{name}`: {target}")
    } else {
        format!("Without `{name}`: {reason}")
    }
}
