//! Parses sizes with units.

/// The text is not a size.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a size is a number of bytes, or one with a unit such as `256MiB`")]
pub struct NotASize;

/// Parses `256MiB`, `1.5GiB`, `512M` or `100000`. All units are binary.
pub fn parse_size(text: &str) -> Result<u64, NotASize> {
    let text = text.trim();
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let shift = match text[digits.len()..].to_ascii_lowercase().as_str() {
        "" | "b" => 0,
        "k" | "kb" | "kib" => 10,
        "m" | "mb" | "mib" => 20,
        "g" | "gb" | "gib" => 30,
        "t" | "tb" | "tib" => 40,
        _ => return Err(NotASize),
    };
    let (whole, part) = digits.trim().split_once('.').unwrap_or((digits.trim(), ""));
    let number: u64 = whole.parse().map_err(|_| NotASize)?;
    let bytes = number.checked_mul(1 << shift).ok_or(NotASize)?;
    if digits.contains('.') && (shift == 0 || part.is_empty() || part.len() > 6) {
        return Err(NotASize);
    }
    let fraction: u64 = if part.is_empty() { 0 } else { part.parse().map_err(|_| NotASize)? };
    let places = u32::try_from(part.len()).map_err(|_| NotASize)?;
    bytes.checked_add((fraction << shift) / 10_u64.pow(places)).ok_or(NotASize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_may_have_a_unit() {
        let sizes = ["0", "512", "1k", "256MiB", " 2GB ", "1 TiB", "7b"].map(parse_size);
        let bytes = [0, 512, 1024, 256 << 20, 2 << 30, 1 << 40, 7];
        assert_eq!(sizes, bytes.map(Ok));
        assert_eq!(parse_size("1.5GiB"), Ok(3 << 29));
        let wrong =
            ["", "MiB", "-1", "1.5", "1.GiB", ".5GiB", "1.5.5GiB", "1XiB", "1Kiib", "99999999999T"];
        for wrong in wrong {
            assert_eq!(parse_size(wrong), Err(NotASize), "{wrong}");
        }
    }
}
