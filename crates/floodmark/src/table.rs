//! A report as a text table.

use std::fmt::Write;

use floodmark_analysis::{By, Report};

use crate::info::plural;
use crate::sentence;
use crate::sheet::{Cells, Sheet, Side};

/// The text of a report: a sentence, what is missing, the rows, what was left out.
pub fn render(report: &Report) -> String {
    let mut text = sentence::moment(&report.at) + "\n";
    for loss in &report.losses.0 {
        let _ = writeln!(text, "! {loss}");
    }
    lay_out(&Sheet::of(report), &mut text);
    if let Some(rest) = left_out(report) {
        let _ = writeln!(text, "{rest}");
    }
    text
}

/// `… and 75 more rows, 1.200 GiB`.
pub(crate) fn left_out(report: &Report) -> Option<String> {
    let (rows, bytes) = report.left_out();
    let kind = if report.by == By::Step { "earlier row" } else { "more row" };
    (rows > 0).then(|| format!("… and {}, {bytes}", plural(rows as u64, kind)))
}

fn lay_out(sheet: &Sheet, text: &mut String) {
    let titles: Vec<String> = sheet.columns.iter().map(|(title, _)| title.clone()).collect();
    let mut widths: Vec<usize> = titles.iter().map(|title| title.chars().count()).collect();
    for row in &sheet.rows {
        for (width, cell) in widths.iter_mut().zip(&row.cells) {
            *width = cell.chars().count().max(*width);
        }
    }
    let last = sheet.columns.len().saturating_sub(1);
    let margin: usize = widths[..last].iter().map(|width| width + 2).sum();
    let titles = Cells { cells: titles, below: Vec::new() };
    for row in std::iter::once(&titles).chain(&sheet.rows) {
        let mut line = String::new();
        for ((cell, &width), (_, side)) in row.cells.iter().zip(&widths).zip(&sheet.columns) {
            let _ = match side {
                Side::Left => write!(line, "{cell:<width$}  "),
                Side::Right => write!(line, "{cell:>width$}  "),
            };
        }
        let _ = writeln!(text, "{}", line.trim_end());
        for below in &row.below {
            let _ = writeln!(text, "{:margin$}{below}", "");
        }
    }
}
