//! An answer as an HTML table, for notebooks.

use std::fmt::Write;

use crate::answer_text::AnswerText;
use crate::sheet::{Cells, Sheet, Side};

/// The HTML of an answer: one element without scripts and links.
pub fn render_html(answer: impl Into<AnswerText>) -> String {
    let answer: AnswerText = answer.into();
    let mut html = String::from("<div class=\"floodmark\">");
    for sentence in &answer.above {
        let _ = write!(html, "<p>{}</p>", escaped(sentence));
    }
    for loss in &answer.losses {
        let _ = write!(html, "<p><strong>!</strong> {}</p>", escaped(loss));
    }
    for sheet in &answer.sheets {
        write_sheet(&mut html, sheet);
    }
    for rest in &answer.below {
        let _ = write!(html, "<p>{}</p>", escaped(rest));
    }
    html.push_str("</div>");
    html
}

fn write_sheet(html: &mut String, sheet: &Sheet) {
    html.push_str("<table><thead><tr>");
    let columns: Vec<usize> = sheet.shown_columns().collect();
    for (title, side) in columns.iter().map(|&at| &sheet.columns[at]) {
        let _ = write!(html, "<th{}>{}</th>", style(*side), escaped(title));
    }
    html.push_str("</tr></thead><tbody>");
    for row in &sheet.rows {
        write_row(html, sheet, &columns, row);
    }
    html.push_str("</tbody></table>");
}

fn write_row(html: &mut String, sheet: &Sheet, columns: &[usize], row: &Cells) {
    html.push_str("<tr>");
    let last = row.cells.len().saturating_sub(1);
    for &at in columns {
        let (_, side) = sheet.columns[at];
        let cell = row.cells.get(at).map_or("", String::as_str);
        let _ = write!(html, "<td{}>{}", style(side), escaped(cell));
        if at == last {
            for below in &row.below {
                let _ = write!(html, "<br>{}", escaped(below));
            }
        }
        html.push_str("</td>");
    }
    html.push_str("</tr>");
}

fn style(side: Side) -> &'static str {
    match side {
        Side::Left => " style=\"text-align:left;white-space:pre\"",
        Side::Right => " style=\"text-align:right\"",
    }
}

fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            other => escaped.push(other),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_in_a_trace_is_escaped() {
        assert_eq!(escaped("<Lost> & \"x\" 'y'"), "&lt;Lost&gt; &amp; &quot;x&quot; &#39;y&#39;");
    }
}
