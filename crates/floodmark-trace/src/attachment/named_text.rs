//! A named text, as in the frames of source files, answers and GPU memory: the length of the name, the name, the length of the
//! text, the compressed text.

use std::io;

use crate::limits::Budget;

/// The payload of a frame.
pub(crate) fn encode_named_text(name: &str, text: &str) -> io::Result<Vec<u8>> {
    let packed = zstd::bulk::compress(text.as_bytes(), 0)?;
    let mut bytes = Vec::with_capacity(8 + name.len() + packed.len());
    append_length(&mut bytes, name.len());
    bytes.extend_from_slice(name.as_bytes());
    append_length(&mut bytes, text.len());
    bytes.extend_from_slice(&packed);
    Ok(bytes)
}

/// The name and the text of a payload; `None` if the payload is malformed, or the text is longer
/// than `most_bytes`.
pub(crate) fn decode_named_text(
    payload: &[u8],
    most_bytes: usize,
    budget: &mut Budget,
) -> Option<(String, String)> {
    let (name, rest) = split_length(payload)?;
    let (name, rest) = rest.split_at_checked(name)?;
    let (length, packed) = split_length(rest)?;
    if length > most_bytes {
        return None;
    }
    budget.take(length)?;
    let text = zstd::bulk::decompress(packed, length).ok().filter(|text| text.len() == length)?;
    Some((String::from_utf8(name.to_vec()).ok()?, String::from_utf8(text).ok()?))
}

fn append_length(bytes: &mut Vec<u8>, length: usize) {
    let length = u32::try_from(length).unwrap_or(u32::MAX);
    bytes.extend_from_slice(&length.to_le_bytes());
}

fn split_length(bytes: &[u8]) -> Option<(usize, &[u8])> {
    let (length, rest) = bytes.split_first_chunk::<4>()?;
    Some((u32::from_le_bytes(*length) as usize, rest))
}
