//! The real program: exit status, stdout and stderr.

#![expect(
    clippy::unwrap_used,
    clippy::format_push_string,
    reason = "the helpers of tests are tests too"
)]

mod advise;
mod against_torch;
mod annotate;
mod bad_input;
mod commands;
mod derived_categories;
mod diff;
mod drawn;
mod export;
mod leaks;
mod ledger;
mod levels;
mod many_events;
mod mcp;
mod metrics;
mod newest_trace;
mod oom;
mod oom_messages;
mod phantom;
mod program;
mod saved_page;
mod served;
mod simulate;
mod snapshots;
mod top;
mod view;
mod wrong_contents;
