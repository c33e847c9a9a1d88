//! Texts after a record, each preceded by its length.

use super::u32_at;

/// The longest payload; a longer one is cut by its writer.
pub const MAX_PAYLOAD_BYTES: usize = 64 * 1024;

/// Puts strings into a payload, each preceded by its length, and cuts what does not fit.
pub fn pack_strings(strings: &[&str]) -> Vec<u8> {
    let share = MAX_PAYLOAD_BYTES / strings.len().max(1) - 4;
    let mut payload = Vec::with_capacity(strings.iter().map(|s| s.len() + 4).sum());
    for text in strings {
        let fitting = cut_at_char(text, share);
        #[expect(clippy::cast_possible_truncation, reason = "at most 64 KiB")]
        let length = fitting.len() as u32;
        payload.extend_from_slice(&length.to_le_bytes());
        payload.extend_from_slice(fitting.as_bytes());
    }
    payload
}

/// The beginning of `text`: at most this many bytes, in whole characters.
pub(crate) fn cut_at_char(text: &str, most_bytes: usize) -> &str {
    let mut end = most_bytes.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// The strings of a payload; what is missing is empty, what is not UTF-8 is replaced.
pub fn unpack_strings<const N: usize>(mut payload: &[u8]) -> [String; N] {
    std::array::from_fn(|_| {
        let Some(length) = payload.get(..4) else { return String::new() };
        let length = u32_at(length, 0) as usize;
        let Some(text) = payload.get(4..4 + length) else { return String::new() };
        payload = &payload[4 + length..];
        String::from_utf8_lossy(text).into_owned()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_unpack_as_they_were_packed() {
        let payload = pack_strings(&["train.py", "", "Größe"]);
        assert_eq!(unpack_strings(&payload), ["train.py", "", "Größe"]);
        assert_eq!(unpack_strings::<2>(&payload[..6]), ["", ""]);
    }
}
