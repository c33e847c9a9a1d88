//! Sizes as people write them.

/// `256MiB`, `1.5GiB`, `512M`, `100000`: binary units, whatever they are called.
pub fn parse_size(text: &str) -> Result<u64, String> {
    let wrong = || "a size is a number of bytes, or one with a unit such as `256MiB`".to_owned();
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = text[digits.len()..].to_ascii_lowercase();
    let shift = match unit.trim_end_matches('b').trim_end_matches('i') {
        "" => 0,
        "k" => 10,
        "m" => 20,
        "g" => 30,
        "t" => 40,
        _ => return Err(wrong()),
    };
    let (whole, part) = digits.trim().split_once('.').unwrap_or((digits.trim(), ""));
    let number: u64 = whole.parse().map_err(|_| wrong())?;
    let bytes = number.checked_mul(1 << shift).ok_or_else(wrong)?;
    if digits.contains('.') && (shift == 0 || part.is_empty() || part.len() > 6) {
        return Err(wrong());
    }
    let tenths: u64 = if part.is_empty() { 0 } else { part.parse().map_err(|_| wrong())? };
    let places = u32::try_from(part.len()).map_err(|_| wrong())?;
    bytes.checked_add((tenths << shift) / 10_u64.pow(places)).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_may_have_a_unit() {
        let sizes = ["0", "512", "1k", "256MiB", "2GB", "1 TiB"].map(parse_size);
        assert_eq!(sizes, [Ok(0), Ok(512), Ok(1024), Ok(256 << 20), Ok(2 << 30), Ok(1 << 40)]);
        assert_eq!(parse_size("1.5GiB"), Ok(3 << 29));
        for wrong in ["", "MiB", "-1", "1.5", "1.GiB", ".5GiB", "1.5.5GiB", "1XiB", "99999999999T"]
        {
            assert!(parse_size(wrong).is_err(), "{wrong}");
        }
    }
}
