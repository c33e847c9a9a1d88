//! An answer as a text table: plain, or with bars and colours for a terminal.
//!
//! Both have the same words in the same order. Text from a trace passes [`safe_text`].

use std::fmt::Write;

use anstyle::{AnsiColor, Style};
use floodmark_analysis::{is_location, shorter_forms};
use unicode_width::UnicodeWidthStr;

use crate::answer_text::AnswerText;
use crate::bar::bar;
use crate::output_style::OutputStyle;
use crate::palette;
use crate::sheet::{Bar, Bars, Cells, Sheet, Side, Tone};
use crate::terminal_safe::safe_text;
use crate::truncate::{cut_end, cut_location, rewrap, wrap};

/// The plain text of an answer: its sentences, the losses, the rows, and what is left out.
pub fn render(answer: impl Into<AnswerText>) -> String {
    render_as(&answer.into(), OutputStyle::Plain)
}

/// The text of an answer in a style.
pub fn render_as(answer: &AnswerText, style: OutputStyle) -> String {
    let (bold, alarm) = (inked(style, Style::new().bold()), inked(style, ALARM));
    let mut text = String::new();
    for (at, sentence) in answer.above.iter().enumerate() {
        let ink = if at == 0 { bold } else { Style::new() };
        let _ = writeln!(text, "{ink}{}{ink:#}", paragraph(sentence, style));
    }
    for loss in &answer.losses {
        let line = paragraph(&format!("! {loss}"), style);
        let line = line.strip_prefix('!').unwrap_or(&line);
        let _ = writeln!(text, "{alarm}!{alarm:#}{line}");
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
        let _ = writeln!(text, "{}", paragraph(rest, style));
    }
    text
}

/// A sentence, wrapped if the style has a width.
pub fn paragraph(sentence: &str, style: OutputStyle) -> String {
    let lines = sentence.lines().map(|line| {
        let line = safe_text(line);
        match style {
            OutputStyle::Drawn { width, .. } if line.width() > width => {
                wrap(&line, width, "", "  ").join("\n")
            }
            OutputStyle::Drawn { .. } | OutputStyle::Plain => line.into_owned(),
        }
    });
    lines.collect::<Vec<_>>().join("\n")
}

const ALARM: Style = AnsiColor::Yellow.on_default().bold();
const QUIET: Style = Style::new().dimmed();

/// A style if the output has colours, or else no style.
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

/// The columns of a sheet on one line, or on several if one has too little room.
struct Layout<'a> {
    sheet: &'a Sheet,
    style: OutputStyle,
    /// The columns that have cells with text, each with its width.
    columns: Vec<(usize, usize)>,
    /// The number of columns on each line.
    lines: Vec<usize>,
    bars: Option<(&'a Bars, usize)>,
    /// The width before the last column.
    margin: usize,
    /// The room for the last column; `None` if it is not limited.
    room: Option<usize>,
}

fn lay_out(sheet: &Sheet, style: OutputStyle, text: &mut String) {
    let titles: Vec<String> = sheet.columns.iter().map(|(title, _)| title.clone()).collect();
    let layout = Layout::new(sheet, style);
    let titles = Cells { cells: titles, below: Vec::new() };
    layout.write(text, &titles, None, inked(style, QUIET));
    for (at, row) in sheet.rows.iter().enumerate() {
        let bar = layout.bars.and_then(|(bars, _)| bars.of.get(at)).copied();
        let fitted = layout.room.map(|room| fitted(row, room, sheet.is_prose));
        layout.write(text, fitted.as_ref().unwrap_or(row), bar, Style::new());
    }
}

/// The row with a last cell and lines below it that fit: locations are shortened, sentences are wrapped.
fn fitted(row: &Cells, room: usize, is_prose: bool) -> Cells {
    let mut cells = row.cells.clone();
    let last = cells.pop().into_iter();
    let lines: Vec<String> = if is_prose {
        rewrap(last.chain(row.below.iter().cloned()), room)
    } else {
        last.chain(row.below.iter().cloned()).flat_map(|line| fitted_lines(&line, room)).collect()
    };
    let mut lines = lines.into_iter();
    cells.extend(lines.next());
    Cells { cells, below: lines.collect() }
}

/// A location, a name or an indented line on one line; a sentence on as many as it needs.
fn fitted_lines(line: &str, room: usize) -> Vec<String> {
    let line = safe_text(line);
    let (before, text) = line.split_at(before_location(&line));
    if is_location(text) || before.is_empty() && !text.contains(' ') {
        return vec![before.to_owned() + &cut_location(text, room.saturating_sub(before.width()))];
    }
    if before.is_empty() { wrap(text, room, "", "  ") } else { vec![cut_end(&line, room)] }
}

/// The offset at which a location may begin: after spaces, and after an amount of bytes.
fn before_location(line: &str) -> usize {
    let text = line.trim_start();
    let mut words = text.splitn(3, ' ');
    let is_amount = words.next().is_some_and(|number| number.parse::<f64>().is_ok())
        && words.next().is_some_and(|unit| unit == "B" || unit.ends_with("iB"));
    let rest = if is_amount { words.next().unwrap_or_default() } else { text };
    line.len() - rest.len()
}

/// The least readable width of a last cell. A location keeps its file, line and function.
fn least_width(cell: &str) -> usize {
    let text = cell.trim_start();
    let indent = cell.len() - text.len();
    let named = shorter_forms(text).into_iter().rfind(|form| form.ends_with(')'));
    match named.filter(|_| is_location(text)) {
        Some(form) => indent + form.width(),
        None => cell.width().min(LEAST_WORDS),
    }
}

impl<'a> Layout<'a> {
    fn new(sheet: &'a Sheet, style: OutputStyle) -> Self {
        let columns: Vec<(usize, usize)> = sheet
            .shown_columns()
            .map(|at| {
                let cells = sheet.rows.iter().filter_map(|row| row.cells.get(at));
                let widths = cells.map(|cell| safe_text(cell).width());
                let widest = widths.max().unwrap_or(0).min(WIDEST);
                (at, widest.max(sheet.columns[at].0.width()))
            })
            .collect();
        let lines = vec![columns.len()];
        let mut layout = Self { sheet, style, columns, lines, bars: None, margin: 0, room: None };
        layout.margin = layout.width_before_last(0);
        if let OutputStyle::Drawn { width, .. } = style {
            layout.fit(width);
        }
        layout
    }

    /// The width of the columns from `first` on, without the last column.
    fn width_before_last(&self, first: usize) -> usize {
        let last = self.columns.len().saturating_sub(1);
        self.columns.get(first..last).unwrap_or_default().iter().map(|(_, width)| width + 2).sum()
    }

    /// Gives bars the room that is left. If there is too little, long words are shortened, and then columns move to further
    /// lines.
    fn fit(&mut self, width: usize) {
        let last = self.columns.last().map_or(0, |&(at, _)| at);
        let cells = self.sheet.rows.iter().flat_map(|row| row.cells.get(last).into_iter());
        let needed = cells.map(|cell| least_width(&safe_text(cell))).max().unwrap_or(0);
        let needed = needed.max(self.sheet.columns.get(last).map_or(0, |(title, _)| title.width()));
        if self.margin + needed > width {
            self.flow(width, needed);
        } else if let Some(bars) = &self.sheet.bars {
            let room = width - self.margin;
            let below = self.sheet.rows.iter().flat_map(|row| &row.below);
            let below = below.map(|line| safe_text(line).width()).max().unwrap_or(0);
            let natural = self.columns.last().map_or(0, |&(_, width)| width).max(below);
            let left = room.saturating_sub(natural.min(LEAST_WORDS).max(needed) + 2);
            let cells = room.saturating_sub(natural + 2).clamp(SHORT_BAR, LONG_BAR);
            if left >= cells {
                self.bars = Some((bars, cells));
                self.margin += cells + 2;
            }
        }
        self.room = Some(width.saturating_sub(self.margin).max(SHORTEST));
    }

    /// Puts as many columns on each line as fit. The last column needs `needed`.
    fn flow(&mut self, width: usize, needed: usize) {
        let last = self.columns.len().saturating_sub(1);
        self.lines = vec![0];
        let mut used = 0;
        for (place, &(_, cell)) in self.columns.iter().enumerate() {
            let cell = if place == last { needed } else { cell };
            if self.lines.last() != Some(&0) && used + cell > width {
                self.lines.push(0);
                used = INDENT;
            }
            used += cell + 2;
            *self.lines.last_mut().expect("there is a line") += 1;
        }
        let first = self.columns.len() - self.lines.last().copied().unwrap_or(0);
        let indent = if self.lines.len() > 1 { INDENT } else { 0 };
        self.margin = indent + self.width_before_last(first);
    }

    fn write(&self, text: &mut String, row: &Cells, bar: Option<Bar>, style: Style) {
        let mut columns = self.columns.iter().enumerate();
        for (number, &count) in self.lines.iter().enumerate() {
            let mut line = " ".repeat(if number == 0 { 0 } else { INDENT });
            for (place, &(at, width)) in columns.by_ref().take(count) {
                let is_last = place + 1 == self.columns.len();
                let width = if is_last { width.min(self.room.unwrap_or(width)) } else { width };
                self.write_cell(&mut line, row, (at, width), bar);
            }
            let _ = writeln!(text, "{style}{}{style:#}", line.trim_end());
        }
        for below in &row.below {
            let below = safe_text(below);
            let below = self.room.map_or(below.to_string(), |room| cut_end(&below, room));
            let _ = writeln!(text, "{}{below}", " ".repeat(self.margin));
        }
    }

    fn write_cell(
        &self,
        line: &mut String,
        row: &Cells,
        (at, width): (usize, usize),
        bar: Option<Bar>,
    ) {
        let (title, side) = &self.sheet.columns[at];
        let cell = row.cells.get(at).map(|cell| safe_text(cell)).unwrap_or_default();
        let cell = self.room.map_or(cell.to_string(), |_| cut_end(&cell, width));
        let pad = width.saturating_sub(cell.width());
        let ink = self.ink(at, title, &cell, bar);
        let inked = format!("{ink}{cell}{ink:#}");
        // `{:pad$}` would be limited to 65,535.
        let pad = " ".repeat(pad);
        let _ = match side {
            Side::Left => write!(line, "{inked}{pad}  "),
            Side::Right => write!(line, "{pad}{inked}  "),
        };
        if let Some((bars, cells)) = self.bars
            && bars.after == at
        {
            *line += &self.drawn(bar, cells);
        }
    }

    /// The bar of a row, or blanks.
    fn drawn(&self, row: Option<Bar>, cells: usize) -> String {
        let Some(row) = row else { return " ".repeat(cells + 2) };
        let ink = inked(self.style, colour(row.tone));
        format!("{ink}{}{ink:#}  ", bar(row.share, cells))
    }

    /// The colour of a cell: that of its category, or of growth.
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

/// The shortest and the longest bar.
const SHORT_BAR: usize = 6;
const LONG_BAR: usize = 16;
/// The least room for words, if a line of their own has more.
const LEAST_WORDS: usize = 32;
/// The least width of the last column: lines are too long for a narrower terminal.
const SHORTEST: usize = 12;
/// The bound on the width of a column.
const WIDEST: usize = 400;
/// The indent of the further lines of a row.
const INDENT: usize = 4;
