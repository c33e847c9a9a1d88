//! The ranks of a folder side by side, by peak.

use floodmark_text::plural::plural;
use floodmark_trace::Bytes;
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::{Line, Span};

use super::draw_devices::{level, whole_of};
use super::ranks::RankLevel;
use super::theme::Theme;
use super::view::View;

/// The text before the first line; its width indents the others.
const TITLE: &str = "Ranks ";
/// The widths of a rank's number with its sign, of its bar, of its bytes, and of a cell.
const RANK: usize = 4;
const BAR: usize = 8;
const NUMBER: usize = 10;
const CELL: usize = RANK + 1 + BAR + NUMBER + 1;

/// The height of the ranks, in lines.
pub(crate) fn height(view: &View, area: Rect) -> u16 {
    if view.ranks.len() < 2 {
        return 0;
    }
    let needed = view.ranks.len().div_ceil(in_a_line(area.width));
    u16::try_from(needed).unwrap_or(u16::MAX).min(most_lines(area.height))
}

fn most_lines(height: u16) -> u16 {
    match height {
        ..20 => 1,
        20..30 => 2,
        30.. => 4,
    }
}

fn in_a_line(width: u16) -> usize {
    (usize::from(width).saturating_sub(TITLE.len()) / CELL).max(1)
}

/// The ranks that fit, including the chosen one, and the number of the others.
fn shown(view: &View, room: usize) -> (Vec<&RankLevel>, usize) {
    let all = &view.ranks;
    // The last cell shows the number of further ranks.
    let fit = if all.len() > room { room.saturating_sub(1).max(1) } else { room };
    let mut shown: Vec<&RankLevel> = all.iter().take(fit).collect();
    let chosen = all.iter().find(|one| Some(one.rank) == view.rank);
    if let Some(chosen) = chosen
        && !shown.iter().any(|one| one.rank == chosen.rank)
    {
        shown.pop();
        shown.push(chosen);
    }
    (shown, all.len().saturating_sub(fit))
}

pub(crate) fn draw_ranks(frame: &mut Frame<'_>, area: Rect, theme: Theme, view: &View) {
    let in_a_line = in_a_line(area.width);
    let (ranks, more) = shown(view, in_a_line * usize::from(area.height));
    // All bars have the same scale.
    let whole = view.ranks.iter().map(|one| whole_of(&one.device)).max().unwrap_or_default();
    let mut lines = ranks.chunks(in_a_line).peekable();
    for (at, row) in area.rows().enumerate() {
        let Some(cells) = lines.next() else { break };
        let title = if at == 0 { TITLE } else { "" };
        let mut spans = vec![Span::styled(format!("{title:<0$}", TITLE.len()), Theme::quiet())];
        spans.extend(cells.iter().flat_map(|one| cell(one, whole, theme, view)));
        if lines.peek().is_none() && more > 0 {
            let text = format!("  and {} more", plural(more as u64, "rank"));
            spans.push(Span::styled(text, Theme::quiet()));
        }
        frame.render_widget(Line::from(spans), row);
    }
}

/// `▸   5 ██████░░│  12.10 GiB`: number, bar and peak of a rank.
fn cell(one: &RankLevel, whole: Bytes, theme: Theme, view: &View) -> [Span<'static>; 3] {
    let is_chosen = Some(one.rank) == view.rank;
    let style = if is_chosen { Theme::title() } else { Style::new() };
    let sign = if is_chosen { '▸' } else { ' ' };
    let device = &one.device;
    let bytes = if view.is_now() {
        (device.allocated, device.reserved)
    } else {
        (device.peak, device.reserved_peak)
    };
    [
        Span::styled(format!("{sign}{:>1$} ", one.rank, RANK - 1), style),
        level(device, bytes, whole, BAR, theme),
        Span::styled(format!("{:>NUMBER$} ", device.peak.to_string()), style),
    ]
}
