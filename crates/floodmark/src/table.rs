//! An answer as a text table.

use std::fmt::Write;

use crate::page::Page;
use crate::sheet::{Cells, Sheet, Side};

/// The text of an answer: a sentence, what is missing, the rows, what was left out.
pub fn render(answer: impl Into<Page>) -> String {
    let page = answer.into();
    let mut text = String::new();
    for sentence in &page.above {
        let _ = writeln!(text, "{sentence}");
    }
    for loss in &page.losses {
        let _ = writeln!(text, "! {loss}");
    }
    for sheet in &page.sheets {
        if page.sheets.len() > 1 {
            text.push('\n');
        }
        lay_out(sheet, &mut text);
    }
    if page.sheets.len() > 1 && !page.below.is_empty() {
        text.push('\n');
    }
    for rest in &page.below {
        let _ = writeln!(text, "{rest}");
    }
    text
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
