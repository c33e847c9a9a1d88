//! A share as a bar of characters, in eighths of a cell.

/// The characters for one eighth, two eighths, ….
const EIGHTHS: [char; 7] = ['▏', '▎', '▍', '▌', '▋', '▊', '▉'];

/// A bar of `cells` cells that is filled by a share. A share above 0 fills at least an eighth of a cell.
pub fn bar(share: f64, cells: usize) -> String {
    let eighths = eighths(share, cells);
    let mut text = "█".repeat(eighths / 8);
    if !eighths.is_multiple_of(8) {
        text.push(EIGHTHS[eighths % 8 - 1]);
    }
    let blank = cells - eighths.div_ceil(8);
    text.extend(std::iter::repeat_n(' ', blank));
    text
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "a bar has a few hundred cells, and the share is between 0 and 1"
)]
fn eighths(share: f64, cells: usize) -> usize {
    let all = 8 * cells;
    // A share that is no number counts as 0.
    let share = if share > 0.0 { share.min(1.0) } else { return 0 };
    ((share * all as f64).round() as usize).clamp(1, all.max(1)).min(all)
}

/// The share of a part in a whole; 0 if the whole is 0.
#[expect(clippy::cast_precision_loss, reason = "a share is drawn in a few cells")]
pub fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_is_as_long_as_its_share() {
        let shown = [0.0, 0.001, 0.5, 0.53, 1.0, 7.0, f64::NAN, -1.0].map(|share| bar(share, 4));
        assert_eq!(shown, ["    ", "▏   ", "██  ", "██▏ ", "████", "████", "    ", "    "]);
        assert_eq!(bar(0.7, 0), "");
    }
}
