//! An answer as a text table: plain for whatever reads it, with bars and colours for who looks at a terminal.
//!
//! Both have the same words in the same order. What comes from a trace is made harmless on its way ([`safe_text`]).

use std::fmt::Write;

use anstyle::{AnsiColor, Style};
use unicode_width::UnicodeWidthStr;

use crate::text::answer_text::AnswerText;
use crate::text::bar::bar;
use crate::text::output_style::OutputStyle;
use crate::text::palette;
use crate::text::sheet::{Bar, Bars, Cells, Sheet, Side, Tone};
use crate::text::terminal_safe::safe_text;
use crate::text::truncate::{cut_end, cut_start, rewrap};

/// The text of an answer: a sentence, what is missing, the rows, what was left out.
pub fn render(answer: impl Into<AnswerText>) -> String {
    render_as(&answer.into(), OutputStyle::Plain)
}

/// The same, plain or drawn.
pub fn render_as(answer: &AnswerText, style: OutputStyle) -> String {
    let (bold, alarm) = (inked(style, Style::new().bold()), inked(style, ALARM));
    let mut text = String::new();
    for (at, sentence) in answer.above.iter().enumerate() {
        let style = if at == 0 { bold } else { Style::new() };
        let _ = writeln!(text, "{style}{}{style:#}", safe_text(sentence));
    }
    for loss in &answer.losses {
        let _ = writeln!(text, "{alarm}!{alarm:#} {}", safe_text(loss));
    }
    for sheet in &answer.sheets {
        if answer.sheets.len() > 1 {
            text.push('\n');
        }
        lay_out(sheet, style, &mut text);
    }
    if answer.sheets.len() > 1 && !answer.below.is_empty() {
        text.push('\n');
    }
    for rest in &answer.below {
        let _ = writeln!(text, "{}", safe_text(rest));
    }
    text
}

const ALARM: Style = AnsiColor::Yellow.on_default().bold();
const QUIET: Style = Style::new().dimmed();

/// A style, where colours are wanted.
pub fn inked(output: OutputStyle, style: Style) -> Style {
    match output {
        OutputStyle::Drawn { is_coloured: true, .. } => style,
        OutputStyle::Drawn { is_coloured: false, .. } | OutputStyle::Plain => Style::new(),
    }
}

/// The colour of a bar, and of the value that it shows.
pub fn colour(tone: Tone) -> Style {
    let number = match tone {
        Tone::Usual => palette::BAR,
        Tone::Category(name) => palette::category(name).unwrap_or(palette::BAR),
        Tone::Grew => palette::GREW,
        Tone::Shrank => palette::SHRANK,
    };
    Style::new().fg_color(Some(anstyle::Ansi256Color(number).into()))
}

/// How the columns of a sheet lie on a line.
struct Layout<'a> {
    sheet: &'a Sheet,
    style: OutputStyle,
    widths: Vec<usize>,
    bars: Option<(&'a Bars, usize)>,
    /// What comes before the last column.
    margin: usize,
    /// The room for the last column, where it has an end.
    room: Option<usize>,
}

fn lay_out(sheet: &Sheet, style: OutputStyle, text: &mut String) {
    let titles: Vec<String> = sheet.columns.iter().map(|(title, _)| title.clone()).collect();
    let layout = Layout::new(sheet, style);
    let titles = Cells { cells: titles, below: Vec::new() };
    layout.write(text, &titles, None, inked(style, QUIET));
    for (at, row) in sheet.rows.iter().enumerate() {
        let bar = layout.bars.and_then(|(bars, _)| bars.of.get(at)).copied();
        let fitted = layout.room.filter(|_| sheet.is_prose).map(|room| rewrapped(row, room));
        layout.write(text, fitted.as_ref().unwrap_or(row), bar, Style::new());
    }
}

/// The same with sentences that fit.
fn rewrapped(row: &Cells, room: usize) -> Cells {
    let mut cells = row.cells.clone();
    let lines = cells.pop().into_iter().chain(row.below.iter().cloned());
    let mut lines = rewrap(lines, room).into_iter();
    cells.extend(lines.next());
    Cells { cells, below: lines.collect() }
}

impl<'a> Layout<'a> {
    fn new(sheet: &'a Sheet, style: OutputStyle) -> Self {
        let titles = sheet.columns.iter().map(|(title, _)| title.width());
        let mut widths: Vec<usize> = titles.collect();
        for row in &sheet.rows {
            for (width, cell) in widths.iter_mut().zip(&row.cells) {
                *width = safe_text(cell).width().max(*width);
            }
        }
        let last = sheet.columns.len().saturating_sub(1);
        let margin: usize = widths[..last].iter().map(|width| width + 2).sum();
        let mut layout = Self { sheet, style, widths, bars: None, margin, room: None };
        if let OutputStyle::Drawn { width, .. } = style {
            layout.fit(width);
        }
        layout
    }

    /// Bars get the room that is left; where there is none, long words make some.
    fn fit(&mut self, width: usize) {
        let room = width.saturating_sub(self.margin);
        let below = self.sheet.rows.iter().flat_map(|row| &row.below);
        let below = below.map(|line| safe_text(line).width()).max().unwrap_or(0);
        let natural = self.widths.last().copied().unwrap_or(0).max(below);
        if let Some(bars) = &self.sheet.bars {
            let left = room.saturating_sub(natural.min(LEAST_WORDS) + 2);
            let cells = room.saturating_sub(natural + 2).clamp(SHORT_BAR, LONG_BAR);
            if left >= cells {
                self.bars = Some((bars, cells));
                self.margin += cells + 2;
            }
        }
        self.room = Some(width.saturating_sub(self.margin).max(LEAST_WORDS));
    }

    fn write(&self, text: &mut String, row: &Cells, bar: Option<Bar>, style: Style) {
        let mut line = String::new();
        let last = self.sheet.columns.len().saturating_sub(1);
        let columns = row.cells.iter().zip(&self.widths).zip(&self.sheet.columns).enumerate();
        for (at, ((cell, &width), (title, side))) in columns {
            let cell = safe_text(cell);
            let cell = match self.room {
                Some(room) if at == last && cell == *title => cut_end(&cell, room),
                Some(room) if at == last && *side == Side::Left => cut_start(&cell, room),
                _ => cell.into_owned(),
            };
            let width = if at == last { width.min(self.room.unwrap_or(width)) } else { width };
            let pad = width.saturating_sub(cell.width());
            let ink = self.ink(at, title, &cell, bar);
            let inked = format!("{ink}{cell}{ink:#}");
            let _ = match side {
                Side::Left => write!(line, "{inked}{:pad$}  ", ""),
                Side::Right => write!(line, "{:pad$}{inked}  ", ""),
            };
            if let Some((bars, cells)) = self.bars
                && bars.after == at
            {
                line += &self.drawn(bar, cells);
            }
        }
        let _ = writeln!(text, "{style}{}{style:#}", line.trim_end());
        for below in &row.below {
            let below = safe_text(below);
            let below = self.room.map_or(below.to_string(), |room| cut_end(&below, room));
            let _ = writeln!(text, "{:margin$}{below}", "", margin = self.margin);
        }
    }

    /// The bar of a row, or its room.
    fn drawn(&self, row: Option<Bar>, cells: usize) -> String {
        let Some(row) = row else { return " ".repeat(cells + 2) };
        let ink = inked(self.style, colour(row.tone));
        format!("{ink}{}{ink:#}  ", bar(row.share, cells))
    }

    /// Categories have their colours, and what grew or shrank.
    fn ink(&self, at: usize, title: &str, cell: &str, bar: Option<Bar>) -> Style {
        let is_category = title.starts_with("Category") && palette::category(cell).is_some();
        let style = match bar {
            Some(Bar { tone: tone @ (Tone::Grew | Tone::Shrank), .. }) if at == 0 => colour(tone),
            _ if is_category && title != cell => {
                let number = palette::category(cell).unwrap_or(palette::BAR);
                Style::new().fg_color(Some(anstyle::Ansi256Color(number).into()))
            }
            _ => Style::new(),
        };
        inked(self.style, style)
    }
}

/// Bars are so long, where there is room.
const SHORT_BAR: usize = 6;
const LONG_BAR: usize = 16;
/// Words are not cut below this.
const LEAST_WORDS: usize = 24;
