//! A recording in a few lines: for the end of a run, and for `floodmark info`.

use std::fmt::Write;

use floodmark_analysis::{DeviceSummary, Summary};

use crate::plural::plural;
use crate::sentence;
use crate::terminal_safe::safe_text;

/// The summary at the end of a run: the peaks, their times, and the losses.
pub fn render_summary(summary: &Summary) -> String {
    let mut text = format!("floodmark: {}\n", counts(summary));
    for device in &summary.devices {
        let _ = writeln!(text, "  {}", safe_text(&device_line(device)));
    }
    for loss in &summary.losses.0 {
        let _ = writeln!(text, "  ! {}", safe_text(&loss.to_string()));
    }
    text
}

/// `1,234 events in 2.000 s, 500 allocations, …`.
pub fn counts(summary: &Summary) -> String {
    let mut text = format!(
        "{} in {:.3} s, {}",
        plural(summary.events as u64, "event"),
        summary.seconds,
        plural(summary.allocations, "allocation"),
    );
    let _ = match summary.steps {
        0 => Ok(()),
        steps => write!(text, ", {}", plural(u64::from(steps), "step")),
    };
    let _ = write!(text, ", {}", plural(summary.threads as u64, "thread"));
    if summary.failed_requests > 0 {
        let failed = plural(summary.failed_requests as u64, "failed allocation");
        let _ = write!(text, "; {failed} (`--at oom`)");
    }
    text
}

/// The peak of a device, and what the device is.
pub fn device_line(device: &DeviceSummary) -> String {
    let mut text = sentence::moment(&device.at);
    let mut of = Vec::new();
    if let Some(total) = device.total {
        of.push(format!("of {total}"));
    }
    if !device.name.is_empty() {
        of.push(device.name.clone());
    }
    if !of.is_empty() {
        let _ = write!(text, " ({})", of.join(", "));
    }
    text
}
