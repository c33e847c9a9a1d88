//! Offsets of what is read from CPython: the frames of a thread, and the attributes of a code object.
//!
//! Frames: fixed per minor version up to 3.12; from 3.13 on the interpreter publishes the offsets itself
//! at the start of `_PyRuntime`. Code objects and strings: measured at start-up on objects whose
//! contents are known. No offset is used before [`prove`](super::prove) has compared the result with
//! what Python reports for the same frames.

/// Offsets into a thread state and a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FrameLayout {
    /// From the thread state to the pointer to the current frame, or to the C frame.
    pub(crate) current: usize,
    /// From the C frame to the pointer to the current frame, where there is one in between.
    pub(crate) through_cframe: Option<usize>,
    pub(crate) code: usize,
    pub(crate) previous: usize,
    /// The running instruction: a pointer, or (3.10) an index of two-byte units.
    pub(crate) instruction: usize,
    pub(crate) has_instruction_index: bool,
    /// Who owns the frame; frames of C code have no code object.
    pub(crate) owner: Option<usize>,
    pub(crate) locals: usize,
    /// Bits of a reference that are not address (3.14).
    pub(crate) tag_mask: usize,
}

/// A frame of C code: `FRAME_OWNED_BY_CSTACK`, and what 3.14 adds above it.
pub(crate) const OWNED_BY_C: u8 = 3;

impl FrameLayout {
    /// The layout of this minor version of Python 3.
    pub(crate) fn of_version(minor: u32, runtime: Option<usize>) -> Option<Self> {
        let compact = Self {
            current: 56,
            through_cframe: Some(0),
            code: 0,
            previous: 8,
            instruction: 56,
            has_instruction_index: false,
            owner: Some(70),
            locals: 72,
            tag_mask: 0,
        };
        match minor {
            10 => Some(Self {
                current: 24,
                through_cframe: None,
                code: 32,
                previous: 24,
                instruction: 96,
                has_instruction_index: true,
                owner: None,
                locals: 352,
                tag_mask: 0,
            }),
            11 => Some(Self {
                through_cframe: Some(8),
                code: 32,
                previous: 48,
                owner: Some(69),
                ..compact
            }),
            12 => Some(compact),
            13.. => published(minor, runtime?),
            _ => None,
        }
    }
}

/// `_Py_DebugOffsets`: a cookie, a version, a flag, then groups of 64-bit offsets. Groups grow with
/// versions, so the two we need are found by their first words: a thread state has `prev`, `next` and
/// `interp` in its first three words, a frame has `previous` in its second and the code in its first.
fn published(minor: u32, runtime: usize) -> Option<FrameLayout> {
    // SAFETY: `_PyRuntime` begins with at least 64 such words in 3.13 and later; the cookie is checked
    // before anything else is used.
    let words: [u64; 64] =
        std::array::from_fn(|at| unsafe { ((runtime + at * 8) as *const u64).read() });
    if words[0].to_le_bytes() != *b"xdebugpy" || words[2] != 0 {
        return None;
    }
    let thread = (3..40).find(|&at| words[at + 1..at + 4] == [0, 8, 16])?;
    let frame = (thread + 5..54).find(|&at| words[at + 1..at + 3] == [8, 0])?;
    let offset = |at: usize| usize::try_from(words[at]).ok().filter(|&offset| offset < 4096);
    Some(FrameLayout {
        current: offset(thread + 4)?,
        through_cframe: None,
        previous: offset(frame + 1)?,
        code: offset(frame + 2)?,
        instruction: offset(frame + 3)?,
        locals: offset(frame + 4)?,
        owner: Some(offset(frame + 5)?),
        has_instruction_index: false,
        tag_mask: if minor >= 14 { 3 } else { 0 },
    })
}

/// Offsets into a code object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CodeLayout {
    pub(crate) file: usize,
    pub(crate) name: usize,
    pub(crate) line_table: usize,
    pub(crate) first_line: usize,
    /// Where the instructions begin; unused where frames have an index.
    pub(crate) instructions: usize,
}

/// The addresses of a code object's attributes, as Python reports them.
#[derive(Debug, Clone, Copy)]
pub struct CodeFacts {
    /// The object.
    pub addr: usize,
    /// `co_filename`.
    pub file: usize,
    /// `co_qualname`, or `co_name` before 3.11.
    pub name: usize,
    /// `co_linetable`.
    pub line_table: usize,
    /// `co_firstlineno`.
    pub first_line: u32,
}

/// In the order of the fields.
impl From<(usize, usize, usize, usize, u32)> for CodeFacts {
    fn from(facts: (usize, usize, usize, usize, u32)) -> Self {
        let (addr, file, name, line_table, first_line) = facts;
        Self { addr, file, name, line_table, first_line }
    }
}

impl CodeLayout {
    /// Finds the offsets at which all of `known` have the values that Python reports.
    pub(crate) fn measure(known: &[CodeFacts]) -> Option<Self> {
        const LIMIT: usize = 200;
        let word = |code: &CodeFacts, at: usize| {
            // SAFETY: a code object is longer than `LIMIT` bytes in every supported version.
            unsafe { ((code.addr + at) as *const usize).read() }
        };
        let half = |code: &CodeFacts, at: usize| {
            // SAFETY: as above.
            unsafe { ((code.addr + at) as *const u32).read() }
        };
        let find = |wanted: fn(&CodeFacts) -> usize| {
            (16..LIMIT)
                .step_by(8)
                .find(|&at| known.iter().all(|code| word(code, at) == wanted(code)))
        };
        // `co_name` and `co_qualname` are the same object for plain functions: the known ones are
        // nested, so they differ.
        Some(Self {
            file: find(|code| code.file)?,
            name: find(|code| code.name)?,
            line_table: find(|code| code.line_table)?,
            first_line: (16..LIMIT)
                .step_by(4)
                .find(|&at| known.iter().all(|code| half(code, at) == code.first_line))?,
            instructions: 0,
        })
    }
}

/// How a `str` stores its characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct StrLayout {
    kind_shift: u32,
    ascii_data: usize,
    wide_data: usize,
}

const STR_LENGTH: usize = 16;
const STR_STATE: usize = 32;
const STR_LIMIT: usize = 96;

/// Strings of every kind, for [`StrLayout::measure`].
#[derive(Debug, Clone, Copy)]
pub struct StrFacts {
    /// ASCII only: [`StrFacts::ASCII`].
    pub ascii: usize,
    /// One byte a character: [`StrFacts::LATIN`].
    pub latin: usize,
    /// Two bytes a character: [`StrFacts::TWO`].
    pub two: usize,
    /// Four bytes a character: [`StrFacts::FOUR`].
    pub four: usize,
}

impl StrFacts {
    /// The contents of `ascii`.
    pub const ASCII: &str = "floodmark measures strings";
    /// The contents of `latin`.
    pub const LATIN: &str = "floodmark mißt Zeichen";
    /// The contents of `two`.
    pub const TWO: &str = "floodmark \u{2014} zwei";
    /// The contents of `four`.
    pub const FOUR: &str = "floodmark \u{1f30a} vier";
}

impl StrLayout {
    /// Finds the layout with which all four strings have the expected contents.
    pub(crate) fn measure(known: &StrFacts) -> Option<Self> {
        let state = |addr: usize| {
            // SAFETY: every str has its state word there; the result is checked below.
            unsafe { ((addr + STR_STATE) as *const u32).read() }
        };
        let fits = |shift: &u32| {
            let kind = |addr| (state(addr) >> *shift) & 7;
            let ascii = |addr| (state(addr) >> (*shift + 4)) & 1;
            [known.ascii, known.latin, known.two, known.four].map(kind) == [1, 1, 2, 4]
                && [known.ascii, known.latin, known.two, known.four].map(ascii) == [1, 0, 0, 0]
        };
        let kind_shift = (0..28).find(fits)?;
        let ascii_data = find_bytes(known.ascii, StrFacts::ASCII.as_bytes())?;
        let latin: Vec<u8> = StrFacts::LATIN.chars().filter_map(|c| u8::try_from(c).ok()).collect();
        let wide_data = find_bytes(known.latin, &latin)?;
        let layout = Self { kind_shift, ascii_data, wide_data };
        let reads = [known.ascii, known.latin, known.two, known.four].map(|addr| {
            // SAFETY: these are live strings.
            unsafe { layout.read(addr) }
        });
        (reads == [StrFacts::ASCII, StrFacts::LATIN, StrFacts::TWO, StrFacts::FOUR])
            .then_some(layout)
    }

    /// Whether a str has these contents.
    ///
    /// # Safety
    /// The same as for [`Self::read`].
    pub(crate) unsafe fn is(&self, addr: usize, text: &str) -> bool {
        // SAFETY: the caller's promise.
        unsafe {
            let length = ((addr + STR_LENGTH) as *const usize).read();
            let state = ((addr + STR_STATE) as *const u32).read() >> self.kind_shift;
            let is_ascii = (state >> 4) & 1 == 1;
            if !is_ascii || length != text.len() {
                return self.read(addr) == text;
            }
            let data = (addr + self.ascii_data) as *const u8;
            std::slice::from_raw_parts(data, length) == text.as_bytes()
        }
    }

    /// The contents of a str.
    ///
    /// # Safety
    /// `addr` is a live str: strings do not change, so no lock is needed.
    pub(crate) unsafe fn read(&self, addr: usize) -> String {
        const LONGEST: usize = 16 * 1024;
        // SAFETY: the caller's promise; the length and the kind are the str's own.
        unsafe {
            let length = ((addr + STR_LENGTH) as *const usize).read().min(LONGEST);
            let state = ((addr + STR_STATE) as *const u32).read() >> self.kind_shift;
            let is_ascii = (state >> 4) & 1 == 1;
            let data = addr + if is_ascii { self.ascii_data } else { self.wide_data };
            match state & 7 {
                1 => {
                    let bytes = std::slice::from_raw_parts(data as *const u8, length);
                    bytes.iter().map(|&byte| char::from(byte)).collect()
                }
                2 => {
                    let units = std::slice::from_raw_parts(data as *const u16, length);
                    String::from_utf16_lossy(units)
                }
                4 => {
                    let units = std::slice::from_raw_parts(data as *const u32, length);
                    units.iter().map(|&unit| char::from_u32(unit).unwrap_or('?')).collect()
                }
                _ => String::new(),
            }
        }
    }
}

fn find_bytes(addr: usize, wanted: &[u8]) -> Option<usize> {
    (STR_STATE + 4..STR_LIMIT).step_by(4).find(|&at| {
        // SAFETY: the strings are longer than 20 characters, so reading up to the end of `wanted` from
        // a wrong offset may pass the object's end by a few bytes of the same allocator page; the
        // comparison stops at the first byte that differs.
        (0..wanted.len()).all(|i| unsafe { ((addr + at + i) as *const u8).read() } == wanted[i])
    })
}
