//! The devices with their bars.

use floodmark_analysis::LiveDevice;
use floodmark_text::bar::{bar, share};
use floodmark_text::truncate::cut_end;
use floodmark_trace::Bytes;
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};

use super::theme::Theme;
use super::view::View;

/// The share from which a bar is red.
const NEARLY_FULL: f64 = 0.95;
/// The width of a number of bytes, and of a device's name.
const NUMBER: usize = 10;
const NAME: usize = 8;

/// The height of the devices, in lines.
pub(crate) fn height(view: &View, area: Rect) -> u16 {
    let titles = u16::from(area.height >= 14);
    titles + u16::try_from(shown(view, area.height).len()).unwrap_or(1)
}

/// The devices that fit, including the chosen one.
fn shown(view: &View, height: u16) -> Vec<&LiveDevice> {
    let most = match height {
        ..14 => 1,
        14..20 => 2,
        20..30 => 3,
        30.. => 8,
    };
    let devices = &view.summary.devices;
    let chosen = devices.iter().position(|one| Some(one.device) == view.device()).unwrap_or(0);
    let first = (chosen + 1).saturating_sub(most);
    devices.iter().skip(first).take(most).collect()
}

pub(crate) fn draw_devices(frame: &mut Frame<'_>, area: Rect, theme: Theme, view: &View) {
    let has_titles = usize::from(frame.area().height >= 14);
    let devices = shown(view, frame.area().height);
    let numbers = columns(area.width);
    let bar_cells = usize::from(area.width).saturating_sub(NAME + numbers * NUMBER + 1);
    // `▲` also marks the time below the graph.
    let now = if view.is_now() { "Now" } else { "At ▲" };
    let titles = [now, "Peak", "Reserved", "Res. peak", "Capacity"];
    let mut rows = area.rows();
    if has_titles > 0
        && let Some(row) = rows.next()
    {
        let mut text = format!("{:<NAME$}{:bar_cells$} ", "Device", "");
        text.extend(titles.iter().take(numbers).map(|title| format!("{title:>NUMBER$}")));
        frame.render_widget(Line::styled(text, Theme::quiet()), row);
    }
    for (device, row) in devices.into_iter().zip(rows) {
        let is_chosen = Some(device.device) == view.device();
        let name = format!("{:<NAME$}", cut_end(&device.device.to_string(), NAME - 1));
        let style = if is_chosen { Theme::title() } else { ratatui::style::Style::new() };
        let mut spans = vec![Span::styled(name, style)];
        let at = view.summary.devices.iter().position(|one| one.device == device.device);
        let (allocated, reserved) = at.map_or_else(Default::default, |at| view.levels[at]);
        let whole = whole_of(device);
        spans.push(level(device, (allocated, reserved), whole, bar_cells, theme));
        spans.push(Span::raw(" "));
        let known =
            |bytes: Option<Bytes>| bytes.map_or("–".to_owned(), |bytes| bytes.to_string());
        let cells = [
            allocated.to_string(),
            device.peak.to_string(),
            known(reserved),
            known(device.reserved_peak),
            known(device.total),
        ];
        spans.extend(cells.iter().take(numbers).map(|cell| Span::raw(format!("{cell:>NUMBER$}"))));
        frame.render_widget(Line::from(spans), row);
    }
}

/// How many numbers fit beside a bar.
fn columns(width: u16) -> usize {
    match width {
        ..50 => 2,
        50..72 => 3,
        72.. => 5,
    }
}

/// The bytes of a full bar: the memory of the GPU, or the highest level so far.
pub(crate) fn whole_of(device: &LiveDevice) -> Bytes {
    let highest = device.peak.max(device.reserved_peak.unwrap_or_default());
    device.total.unwrap_or(highest).max(highest)
}

/// `█` allocated, `░` reserved beyond it, `│` the peak.
pub(crate) fn level(
    device: &LiveDevice,
    (allocated, reserved): (Bytes, Option<Bytes>),
    whole: Bytes,
    cells: usize,
    theme: Theme,
) -> Span<'static> {
    let of_whole = |bytes: Bytes| share(bytes.0, whole.0);
    let mut letters: Vec<char> = bar(of_whole(allocated), cells).chars().collect();
    let is_blank = |letters: &[char], at: usize| letters[at] == ' ';
    let reserved = reserved.unwrap_or_default();
    for at in 0..filled(of_whole(reserved), cells) {
        if is_blank(&letters, at) {
            letters[at] = '░';
        }
    }
    let peak = filled(of_whole(device.peak), cells).saturating_sub(1);
    if peak < cells && letters[peak] != '█' && device.peak > allocated {
        letters[peak] = '│';
    }
    let is_full = device.total.is_some() && of_whole(reserved.max(allocated)) > NEARLY_FULL;
    let style = if is_full { theme.full() } else { theme.bar() };
    Span::styled(letters.into_iter().collect::<String>(), style)
}

/// How many cells a share fills, in part or in full.
fn filled(share: f64, cells: usize) -> usize {
    bar(share, cells).trim_end().chars().count()
}
