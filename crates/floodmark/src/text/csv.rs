//! An answer as comma-separated values (RFC 4180): numbers without units, missing values empty.
//!
//! Other programs get exact names. On a terminal, control characters are escaped, and so are cells that a spreadsheet
//! would evaluate as formulas.

use std::io::IsTerminal;

use floodmark_analysis::{By, Detail, Diff, DiffDetail, Frame, Report, Row};
use floodmark_export::{csv_writer, guarded_cell};
use floodmark_text::terminal_safe::safe_text;

/// What reads the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reader {
    Program,
    Terminal,
}

impl Reader {
    /// What reads stdout.
    pub(crate) fn of_stdout() -> Self {
        if std::io::stdout().is_terminal() { Self::Terminal } else { Self::Program }
    }

    fn cell(self, cell: &str) -> String {
        match self {
            Self::Program => cell.to_owned(),
            // Guard the cell first: escaping replaces a tab at its beginning.
            Self::Terminal => safe_text(&guarded_cell(cell)).into_owned(),
        }
    }
}

/// A report: a header, then one line per row.
pub(crate) fn render(report: &Report, reader: Reader) -> String {
    let mut header = vec!["bytes", "cumulative", "count", "median", "location"];
    header.extend(titles(report.by));
    let mut text = line(header.into_iter().map(str::to_owned), reader);
    for row in &report.rows {
        let numbers = [row.bytes.0, row.cumulative.0, row.count, row.median.0];
        let numbers = numbers.map(|number| number.to_string()).into_iter();
        text += &line(numbers.chain([row.location.clone()]).chain(values(row)), reader);
    }
    text
}

/// A diff: a header, then one line per row.
pub(crate) fn render_diff(diff: &Diff, reader: Reader) -> String {
    let mut header = vec!["change", "a", "b", "count_a", "count_b", "location"];
    header.extend(match diff.by {
        By::Line => &["file", "line", "function", "backward"][..],
        By::Stack => &["frames", "backward"],
        By::Tensor => &["name", "shape", "dtype", "category"],
        By::Module
        | By::Op
        | By::OpCall
        | By::Parameter
        | By::Phase
        | By::Category
        | By::Step
        | By::Segment => &[],
    });
    let mut text = line(header.into_iter().map(str::to_owned), reader);
    for row in &diff.rows {
        let mut cells = vec![row.change.to_string()];
        cells.extend([row.a.0, row.b.0, row.count_a, row.count_b].map(|cell| cell.to_string()));
        cells.push(row.location.clone());
        match &row.detail {
            DiffDetail::Line { file, line, function, backward } => cells.extend([
                or_empty(file.as_ref()),
                or_empty(line.as_ref()),
                or_empty(function.as_ref()),
                backward.to_string(),
            ]),
            DiffDetail::Stack { frames, backward } => {
                cells.extend([joined(frames), backward.to_string()]);
            }
            DiffDetail::Tensor { name, shape, dtype, category } => {
                cells.extend([name, shape, dtype].map(|cell| or_empty(cell.as_ref())));
                cells.push((*category).to_owned());
            }
            DiffDetail::Named {} => {}
        }
        text += &line(cells.into_iter(), reader);
    }
    text
}

fn joined(frames: &[Frame]) -> String {
    frames.iter().map(ToString::to_string).collect::<Vec<_>>().join(";")
}

fn titles(by: By) -> &'static [&'static str] {
    match by {
        By::Line => &["file", "line", "function", "module", "backward"],
        By::Stack => &["frames", "module", "backward"],
        By::Module => &["own", "depth", "class_name"],
        By::Op => &["op"],
        By::OpCall => {
            &["call", "op", "module", "step", "phase", "seconds", "peak", "end", "growth"]
        }
        By::Parameter => &["parameter", "shape", "dtype", "weight", "gradient", "optimizer_state"],
        By::Phase => &["phase", "peak", "peak_seconds"],
        By::Category => &["category", "peak", "largest"],
        By::Tensor => &[
            "name",
            "shape",
            "dtype",
            "category",
            "module",
            "step",
            "phase",
            "allocated_seconds",
            "saved_seconds",
            "last_use_seconds",
            "freed_seconds",
        ],
        By::Step => &["step", "peak", "end", "growth", "phases"],
        By::Segment => &["address", "segment", "pending_free", "free", "largest_free", "picture"],
    }
}

/// The values of a row, one per column.
fn values(row: &Row) -> Vec<String> {
    match &row.detail {
        Detail::Line { file, line, function, module, backward } => {
            vec![
                or_empty(file.as_ref()),
                or_empty(line.as_ref()),
                or_empty(function.as_ref()),
                or_empty(module.as_ref()),
                backward.to_string(),
            ]
        }
        Detail::Stack { frames, module, backward } => {
            vec![joined(frames), or_empty(module.as_ref()), backward.to_string()]
        }
        Detail::Module { own, depth, class } => {
            vec![own.0.to_string(), depth.to_string(), or_empty(class.as_ref())]
        }
        Detail::Op { op } => vec![or_empty(op.as_ref())],
        Detail::OpCall { call, op, module, step, phase, seconds, peak, end, growth } => vec![
            or_empty(call.as_ref()),
            or_empty(op.as_ref()),
            or_empty(module.as_ref()),
            or_empty(step.as_ref()),
            or_empty(phase.as_ref()),
            or_empty(seconds.as_ref()),
            or_empty(peak.map(|bytes| bytes.0).as_ref()),
            or_empty(end.map(|bytes| bytes.0).as_ref()),
            or_empty(growth.as_ref()),
        ],
        Detail::Parameter { parameter, shape, dtype, weight, gradient, optimizer_state } => {
            let texts = [parameter, shape, dtype].map(|text| or_empty(text.as_ref()));
            let numbers = [weight, gradient, optimizer_state].map(|bytes| bytes.0.to_string());
            texts.into_iter().chain(numbers).collect()
        }
        Detail::Phase { phase, peak, peak_seconds } => vec![
            or_empty(phase.as_ref()),
            or_empty(peak.map(|bytes| bytes.0).as_ref()),
            or_empty(peak_seconds.as_ref()),
        ],
        Detail::Category { category, peak, largest } => {
            let largest = largest.iter().map(|one| format!("{}={}", one.location, one.bytes.0));
            let peak = or_empty(peak.map(|bytes| bytes.0).as_ref());
            vec![(*category).to_owned(), peak, largest.collect::<Vec<_>>().join(";")]
        }
        Detail::Tensor {
            name,
            shape,
            dtype,
            category,
            module,
            step,
            phase,
            allocated_seconds,
            saved_seconds,
            last_use_seconds,
            freed_seconds,
        } => vec![
            or_empty(name.as_ref()),
            or_empty(shape.as_ref()),
            or_empty(dtype.as_ref()),
            (*category).to_owned(),
            or_empty(module.as_ref()),
            or_empty(step.as_ref()),
            or_empty(phase.as_ref()),
            or_empty(allocated_seconds.as_ref()),
            or_empty(saved_seconds.as_ref()),
            or_empty(last_use_seconds.as_ref()),
            or_empty(freed_seconds.as_ref()),
        ],
        Detail::Segment { address, segment, pending_free, free, largest_free, picture } => {
            let numbers = [*address, segment.0, pending_free.0, free.0, largest_free.0];
            let numbers = numbers.map(|number| number.to_string()).into_iter();
            numbers.chain([picture.clone()]).collect()
        }
        Detail::Step { step, peak, end, growth, phases, .. } => {
            let phases = phases.iter().map(|(phase, bytes)| format!("{phase}={}", bytes.0));
            vec![
                or_empty(step.as_ref()),
                or_empty(peak.map(|bytes| bytes.0).as_ref()),
                or_empty(end.map(|bytes| bytes.0).as_ref()),
                or_empty(growth.as_ref()),
                phases.collect::<Vec<_>>().join(";"),
            ]
        }
    }
}

fn or_empty<T: ToString>(value: Option<&T>) -> String {
    value.map_or_else(String::new, ToString::to_string)
}

fn line(cells: impl Iterator<Item = String>, reader: Reader) -> String {
    let mut row = csv_writer(Vec::new());
    let written = row.write_record(cells.map(|cell| reader.cell(&cell)));
    written.expect("a row is written to memory");
    let bytes = row.into_inner().expect("a row is flushed to memory");
    String::from_utf8(bytes).expect("cells are text")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_exact_for_a_program_and_harmless_on_a_terminal() {
        let cells = || ["=1+2", "-12", "\x1b[2J", "\t@x"].map(str::to_owned).into_iter();
        assert_eq!(line(cells(), Reader::Program), "=1+2,-12,\x1b[2J,\t@x\r\n");
        assert_eq!(line(cells(), Reader::Terminal), "'=1+2,-12,␛[2J,'␉@x\r\n");
    }

    #[test]
    fn what_would_break_a_line_is_quoted() {
        let cells = ["plain", "a,b", "say \"x\"", ""].map(str::to_owned);
        assert_eq!(
            line(cells.into_iter(), Reader::Program),
            "plain,\"a,b\",\"say \"\"x\"\"\",\r\n"
        );
    }
}
