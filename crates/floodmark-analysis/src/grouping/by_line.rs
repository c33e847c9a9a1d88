//! Live memory by line of the program.
//!
//! A backward allocation goes to the line whose forward caused it, in a row of its own.

use crate::allocation::location::{Line, Lines, marked};
use crate::grouping::live_groups::{Live, common};
use crate::grouping::row::{Detail, Row};

pub(crate) fn rows(live: &Live<'_>, torch_frames: bool) -> Vec<Row> {
    let mut lines = Lines::new(live.trace, torch_frames);
    let groups =
        live.group_by_with_unseen(Line::BeforeRecording, |_, allocation| lines.line_of(allocation));
    groups
        .into_iter()
        .map(|group| {
            let frame = lines.frame(group.key);
            let backward = group.key.is_backward();
            let location = match &frame {
                Some(frame) => marked(frame.to_string(), backward),
                None => group.key.location(live.trace),
            };
            let modules = group.members.iter().map(|&id| live.module(id));
            let module = common(modules).map(str::to_owned);
            let detail = Detail::Line {
                file: frame.as_ref().map(|frame| frame.file.clone()),
                line: frame.as_ref().map(|frame| frame.line),
                function: frame.map(|frame| frame.function),
                module,
                backward,
            };
            group.into_row(location, detail)
        })
        .collect()
}
