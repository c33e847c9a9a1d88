//! A source file with the bytes beside each line, as text.

use std::collections::BTreeSet;
use std::fmt::Write;

use floodmark_analysis::{AnnotatedLine, Annotation};
use floodmark_trace::Bytes;

use crate::answer_text::AnswerText;
use crate::bar::share;
use crate::plural::plural;
use crate::sentence;
use crate::sheet::{self, Bar, Bars, Cells, Sheet, Tone};
use crate::short_path::shorten;

/// The number of lines shown around a line with allocated bytes outside a function.
const AROUND: usize = 3;
/// The replacement of a tab.
const TAB: &str = "    ";

/// An annotation with the text of its file.
#[derive(Debug, Clone, Copy)]
pub struct AnnotatedSource<'a> {
    /// The bytes of the lines.
    pub annotation: &'a Annotation,
    /// The text of the file.
    pub source: &'a str,
    /// Whether all lines are shown, not only functions with allocated bytes.
    pub shows_all: bool,
}

impl From<AnnotatedSource<'_>> for AnswerText {
    fn from(shown: AnnotatedSource<'_>) -> Self {
        let found = shown.annotation;
        let losses = found.losses.0.iter().map(ToString::to_string);
        Self {
            above: vec![sentence::moment(&found.at), totals(found)],
            losses: found.notes.iter().cloned().chain(losses).collect(),
            sheets: vec![rows(shown)],
            below: Vec::new(),
        }
    }
}

/// `train.py: 120.0 MiB in 12 lines, 87.9 % of what is allocated; other files 10.00 MiB; without a line 6.600 MiB`.
fn totals(found: &Annotation) -> String {
    let percent = share(found.in_file.0, found.allocated.0) * 100.0;
    let lines = plural(found.lines.len() as u64, "line");
    let mut text = format!(
        "{}: {} in {lines}, {percent:.1} % of what is allocated",
        shorten(&found.file),
        found.in_file
    );
    if found.other_files > Bytes(0) {
        let _ = write!(text, "; {} in other files", found.other_files);
    }
    if found.without_line > Bytes(0) {
        let _ = write!(text, "; {} without a line", found.without_line);
    }
    text
}

fn rows(shown: AnnotatedSource<'_>) -> Sheet {
    let source: Vec<&str> = shown.source.lines().collect();
    let visible = if shown.shows_all {
        (1..=source.len()).collect()
    } else {
        hot_lines(&source, &shown.annotation.lines)
    };
    let most = shown.annotation.lines.iter().map(|line| line.bytes).max().unwrap_or_default();
    let (mut rows, mut bars) = (Vec::new(), Vec::new());
    let none = Bar { share: 0.0, tone: Tone::Usual };
    let mut last = 0;
    for number in visible {
        if number != last + 1 && !rows.is_empty() {
            rows.push(cells(["", "", "", ""], "…"));
            bars.push(none);
        }
        last = number;
        let text = source.get(number - 1).copied().unwrap_or_default();
        let found = shown.annotation.lines.iter().find(|line| line.line as usize == number);
        let number = number.to_string();
        if let Some(line) = found {
            let count = line.count.to_string();
            let category = line.main_category();
            rows.push(cells([&line.bytes.to_string(), &count, category, &number], text));
            bars.push(Bar::new(line.bytes, most, Tone::Category(category)));
        } else {
            rows.push(cells(["", "", "", &number], text));
            bars.push(none);
        }
    }
    let mut columns = sheet::numbers(&["Bytes", "Count"]);
    columns.extend(sheet::words(&["Category"]));
    columns.extend(sheet::numbers(&["Line"]));
    columns.extend(sheet::words(&["Source"]));
    Sheet { columns, rows, bars: Some(Bars { after: 0, of: bars }), is_prose: false }
}

/// A row. The source begins with a space, so that a long line loses its end.
fn cells(gutter: [&str; 4], source: &str) -> Cells {
    let mut cells: Vec<String> = gutter.map(str::to_owned).into();
    cells.push(format!(" {}", source.replace('\t', TAB)));
    Cells { cells, below: Vec::new() }
}

/// The lines of functions with allocated bytes, and the lines around such lines outside a function.
fn hot_lines(source: &[&str], lines: &[AnnotatedLine]) -> BTreeSet<usize> {
    let mut hot = BTreeSet::new();
    for line in lines {
        let number = line.line as usize;
        let function = function_lines(source, line.function_line as usize);
        let range = function
            .filter(|range| range.contains(&number))
            .unwrap_or_else(|| number.saturating_sub(AROUND)..(number + AROUND + 1));
        hot.extend(range.filter(|number| (1..=source.len()).contains(number)));
        hot.insert(number);
    }
    hot.remove(&0);
    hot
}

/// The lines of the function that begins on a line: those that are indented more than its `def`.
fn function_lines(source: &[&str], first: usize) -> Option<std::ops::Range<usize>> {
    let indent = |line: &str| line.len() - line.trim_start().len();
    let base = indent(source.get(first.checked_sub(1)?)?);
    let is_def = |line: &&str| {
        let text = line.trim_start();
        indent(line) == base && (text.starts_with("def ") || text.starts_with("async def "))
    };
    let def = first + source[first - 1..].iter().position(is_def)?;
    let is_after = |line: &&str| {
        let text = line.trim();
        !text.is_empty() && indent(line) <= base && !text.starts_with([')', ']', '}'])
    };
    let body = &source[def..];
    let length = body.iter().position(is_after).unwrap_or(body.len());
    let blank = body[..length].iter().rev().take_while(|line| line.trim().is_empty()).count();
    Some(first..def + 1 + length - blank)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_ends_before_a_line_with_its_own_indent() {
        let source = "import x\n\n@decorated\ndef one(\n    a,\n) -> int:\n    b = a\n\n    return b\n\n\ndef two():\n    pass";
        let source: Vec<&str> = source.lines().collect();
        assert_eq!(function_lines(&source, 3), Some(3..10));
        assert_eq!(function_lines(&source, 12), Some(12..14));
        assert_eq!(function_lines(&source, 0), None);
        assert_eq!(function_lines(&source, 99), None);
    }
}
