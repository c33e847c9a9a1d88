//! The opcodes of pickle, and the encodings of their arguments.

use std::borrow::Cow;
use std::num::ParseIntError;

macro_rules! opcodes {
    ($($name:ident = $byte:literal,)*) => {
        $(pub(crate) const $name: u8 = $byte;)*

        /// The name of an opcode in `pickletools`.
        pub(crate) fn name(opcode: u8) -> &'static str {
            match opcode { $($byte => stringify!($name),)* _ => "?" }
        }
    };
}

opcodes! {
    MARK = b'(', STOP = b'.', POP = b'0', POP_MARK = b'1', DUP = b'2',
    FLOAT = b'F', INT = b'I', BININT = b'J', BININT1 = b'K', LONG = b'L', BININT2 = b'M', NONE = b'N',
    PERSID = b'P', BINPERSID = b'Q', REDUCE = b'R', STRING = b'S', BINSTRING = b'T',
    SHORT_BINSTRING = b'U', UNICODE = b'V', BINUNICODE = b'X', APPEND = b'a', BUILD = b'b',
    GLOBAL = b'c', DICT = b'd', EMPTY_DICT = b'}', APPENDS = b'e', GET = b'g', BINGET = b'h',
    INST = b'i', LONG_BINGET = b'j', LIST = b'l', EMPTY_LIST = b']', OBJ = b'o', PUT = b'p',
    BINPUT = b'q', LONG_BINPUT = b'r', SETITEM = b's', TUPLE = b't', EMPTY_TUPLE = b')',
    SETITEMS = b'u', BINFLOAT = b'G', PROTO = 0x80, NEWOBJ = 0x81, EXT1 = 0x82, EXT2 = 0x83,
    EXT4 = 0x84, TUPLE1 = 0x85, TUPLE2 = 0x86, TUPLE3 = 0x87, NEWTRUE = 0x88, NEWFALSE = 0x89,
    LONG1 = 0x8a, LONG4 = 0x8b, BINBYTES = b'B', SHORT_BINBYTES = b'C', SHORT_BINUNICODE = 0x8c,
    BINUNICODE8 = 0x8d, BINBYTES8 = 0x8e, EMPTY_SET = 0x8f, ADDITEMS = 0x90, FROZENSET = 0x91,
    NEWOBJ_EX = 0x92, STACK_GLOBAL = 0x93, MEMOIZE = 0x94, FRAME = 0x95, BYTEARRAY8 = 0x96,
    NEXT_BUFFER = 0x97, READONLY_BUFFER = 0x98,
}

/// The name of an opcode that needs an import, a call, or data from outside the file; `None` for others.
pub(crate) fn runs_code(opcode: u8) -> Option<&'static str> {
    let runs = matches!(
        opcode,
        GLOBAL
            | STACK_GLOBAL
            | INST
            | OBJ
            | NEWOBJ
            | NEWOBJ_EX
            | REDUCE
            | BUILD
            | EXT1
            | EXT2
            | EXT4
            | PERSID
            | BINPERSID
            | BYTEARRAY8
            | NEXT_BUFFER
            | READONLY_BUFFER
    );
    runs.then(|| name(opcode))
}

/// An integer in two's complement, little endian; `None` if it does not fit 64 bits.
#[inline]
pub(crate) fn little_endian(bytes: &[u8]) -> Option<i64> {
    let Some(&last) = bytes.last() else { return Some(0) };
    let fill = if last & 0x80 == 0 { 0 } else { 0xff };
    let mut number = [fill; 8];
    let (low, high) = bytes.split_at(bytes.len().min(8));
    number[..low.len()].copy_from_slice(low);
    let number = i64::from_le_bytes(number);
    let fits = high.iter().all(|&byte| byte == fill) && (number < 0) == (fill == 0xff);
    fits.then_some(number)
}

/// The lowest `length` bytes of a number, sign-extended. `length` is 1 to 8.
#[inline]
pub(crate) fn sign_of_last_byte(number: i64, length: u32) -> i64 {
    let above = 64 - 8 * length;
    number << above >> above
}

/// An integer in decimal digits, which may not fit 64 bits; `None` if the text is no integer.
pub(crate) fn decimal(text: &str) -> Option<Result<i64, ParseIntError>> {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| text.parse())
}

/// The text between quotes. Escapes are kept: no string of a snapshot has them.
pub(crate) fn quoted(text: &str) -> Option<&str> {
    let quote = text.chars().next().filter(|quote| matches!(quote, '\'' | '"'))?;
    text.strip_prefix(quote)?.strip_suffix(quote)
}

/// A string in which protocol 0 wrote `\uXXXX`, without these escapes.
pub(crate) fn unescaped(text: &str) -> Cow<'_, str> {
    if !text.contains('\\') {
        return Cow::Borrowed(text);
    }
    let mut result = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('\\') {
        result.push_str(before);
        let length = match after.as_bytes().first() {
            Some(b'u') => 5,
            Some(b'U') => 9,
            _ => 0,
        };
        let code = after.get(1..length).and_then(|digits| u32::from_str_radix(digits, 16).ok());
        if let Some(code) = code {
            result.push(char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER));
            rest = &after[length..];
        } else {
            result.push('\\');
            rest = after;
        }
    }
    result.push_str(rest);
    Cow::Owned(result)
}

/// Whether bytes are UTF-8 that may have lone surrogates, as Python's `surrogatepass` writes them.
pub(crate) fn is_utf8_with_surrogates(bytes: &[u8]) -> bool {
    let mut rest = bytes;
    while let Err(error) = std::str::from_utf8(rest) {
        let bad = &rest[error.valid_up_to()..];
        match bad {
            [0xed, 0xa0..=0xbf, 0x80..=0xbf, after @ ..] => rest = after,
            _ => return false,
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_those_of_python() {
        let cases: [(&[u8], Option<i64>); 8] = [
            (&[], Some(0)),
            (&[0xff], Some(-1)),
            (&[0xff, 0x00], Some(255)),
            (&[0, 0, 0, 0, 0, 0, 0, 0x80], Some(i64::MIN)),
            (&[0, 0, 0, 0, 0, 0, 0, 0x80, 0], None),
            (&[1, 0, 0, 0, 0, 0, 0, 0, 0, 0], Some(1)),
            (&[0; 300], Some(0)),
            (&[0xff; 9], Some(-1)),
        ];
        for (bytes, number) in cases {
            assert_eq!(little_endian(bytes), number, "{bytes:?}");
        }
        assert_eq!(decimal("-12"), Some(Ok(-12)));
        assert!(decimal("99999999999999999999999").is_some_and(|number| number.is_err()));
        assert_eq!(decimal("+1"), None);
        assert_eq!(decimal(""), None);
    }

    #[test]
    fn texts_of_protocol_0_are_those_of_python() {
        assert_eq!(unescaped("a\\u00e9b\\U0001f600c\\x"), "aéb😀c\\x");
        assert_eq!(unescaped("\\u12"), "\\u12");
        assert_eq!(quoted("'a b'"), Some("a b"));
        assert_eq!(quoted("'a b"), None);
        assert_eq!(quoted(""), None);
    }
}
