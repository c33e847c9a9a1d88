//! Questions, asked of recordings that a script made: script in, answer out.

#![expect(
    clippy::unwrap_used,
    clippy::format_push_string,
    reason = "the helpers of tests are tests too"
)]

mod advice;
mod allocation_card;
mod avoidable;
mod bands;
mod category_peaks;
mod context;
mod curve;
mod diff;
mod diff_pictures;
mod estimate;
mod fragmentation;
mod generation;
mod groupings;
mod growing_index;
mod hit;
mod icicle;
mod idle;
mod laws;
mod layers;
mod leaks;
mod ledger;
mod lifetimes;
mod live_summary;
mod module_names;
mod moment_index;
mod moments;
mod oom;
mod oom_messages;
mod range_changes;
mod ranks;
mod ribbons;
mod segments;
mod simulation;
mod speed;
mod step_cards;
mod steps;
mod timeline;

/// The recording that a script makes.
fn trace(script: &str) -> floodmark_trace::Trace {
    floodmark_trace::read_trace(&floodmark_testing::script::file(script), &[]).unwrap()
}

/// The groupings of what is allocated; segments are what is reserved.
fn groupings() -> impl Iterator<Item = floodmark_analysis::By> {
    use floodmark_analysis::By;
    By::ALL.into_iter().filter(|&by| by != By::Segment)
}
