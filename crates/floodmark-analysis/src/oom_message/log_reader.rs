//! Finds out-of-memory messages in a text of any length, in memory that does not grow with it.
//!
//! Lines lose colours, quoting and the prefix of a rank; what is left is joined without white space and in small
//! letters. A message begins where one of the [`MARKERS`] does, and ends at the next one, or after [`LONGEST_MESSAGE`].

use floodmark_trace::{Bytes, Device};
use memchr::memmem::Finder;

use super::figures::Figures;
use super::reason::KnownMemory;
use super::remedies::Case;
use super::{NoOomMessage, OomMessage, OomMessageReason, OomMessages, OomSource, ProcessMemory};
use crate::allocation::location::Frame;
use crate::json_format::FORMAT;

/// A line that is longer is read in parts.
const LONGEST_LINE: usize = 1 << 16;
/// The longest message, without white space.
const LONGEST_MESSAGE: usize = 3000;
/// The bytes kept before a marker: they identify the allocator of the message.
const KEPT_BEFORE: usize = 160;
/// How many different messages are kept.
const MOST_MESSAGES: usize = 100;

/// The texts that identify a message.
const MARKERS: [&str; 15] = [
    "triedtoallocate",
    "wouldexceedallowedmemory",
    "mpsbackendoutofmemory",
    "cudaerror:outofmemory",
    "hiperror:outofmemory",
    "cudadrivererror:outofmemory",
    "cuda]:outofmemory",
    "cudaruntimeerror(2):outofmemory",
    "cuda_error_out_of_memory",
    "'outofmemory'",
    "_alloc_failed",
    "iskilledbysignal:",
    "foranarraywithshape",
    "outofmemory:killedprocess",
    "oom_killevent",
];

/// Reads a text in parts.
#[derive(Debug)]
pub struct OomLogReader {
    finders: Vec<Finder<'static>>,
    line: Vec<u8>,
    lines: u64,
    /// Whether the line so far is the rest of a longer one.
    is_rest: bool,
    /// The text without white space, from `KEPT_BEFORE` bytes before what is not yet searched.
    squeezed: Vec<u8>,
    searched: usize,
    open: Option<Begun>,
    rank: Option<u32>,
    frame: Option<(Option<u32>, Frame)>,
    messages: Vec<OomMessage>,
    left_out: u64,
}

/// A message whose end is not yet read.
#[derive(Debug)]
struct Begun {
    /// Where its text begins in `squeezed`.
    start: usize,
    /// Where its marker begins.
    marker: usize,
    line: u64,
    rank: Option<u32>,
    frame: Option<Frame>,
}

impl Default for OomLogReader {
    fn default() -> Self {
        Self::new()
    }
}

impl OomLogReader {
    /// A reader that has read nothing.
    pub fn new() -> Self {
        Self {
            finders: MARKERS.iter().map(|marker| Finder::new(*marker)).collect(),
            line: Vec::new(),
            lines: 0,
            is_rest: false,
            squeezed: Vec::new(),
            searched: 0,
            open: None,
            rank: None,
            frame: None,
            messages: Vec::new(),
            left_out: 0,
        }
    }

    /// Reads on.
    pub fn push(&mut self, mut bytes: &[u8]) {
        while let Some(end) = memchr::memchr2(b'\n', b'\r', bytes) {
            self.extend_line(&bytes[..end]);
            // A carriage return begins a line anew, as progress bars do; before a line feed it is part of the end.
            if bytes[end] == b'\n' || !self.line.is_empty() {
                self.end_line(bytes[end] == b'\n');
            }
            bytes = &bytes[end + 1..];
        }
        self.extend_line(bytes);
    }

    fn extend_line(&mut self, mut bytes: &[u8]) {
        while self.line.len() + bytes.len() > LONGEST_LINE {
            let (part, rest) = bytes.split_at(LONGEST_LINE - self.line.len());
            self.line.extend_from_slice(part);
            self.take_line();
            self.is_rest = true;
            bytes = rest;
        }
        self.line.extend_from_slice(bytes);
    }

    fn end_line(&mut self, is_new_line: bool) {
        self.take_line();
        self.is_rest = false;
        self.lines += u64::from(is_new_line);
    }

    /// The answer: what was found in all that was read.
    pub fn finish(mut self) -> Result<OomMessages, NoOomMessage> {
        if !self.line.is_empty() {
            self.end_line(true);
        }
        self.close(self.squeezed.len());
        let first = self.messages.iter().position(|message| {
            !matches!(message.reason, OomMessageReason::Unknown | OomMessageReason::Library)
        });
        if self.messages.is_empty() {
            return Err(NoOomMessage { lines: self.lines });
        }
        Ok(OomMessages {
            floodmark: env!("CARGO_PKG_VERSION"),
            format: FORMAT,
            lines: self.lines,
            cause: first.unwrap_or(0),
            messages: self.messages,
            left_out: self.left_out,
        })
    }

    /// Processes `line`.
    fn take_line(&mut self) {
        let line = std::mem::take(&mut self.line);
        let uncoloured = without_colours(&line);
        let mut rest = uncoloured.as_ref();
        if !self.is_rest {
            (self.rank, rest) = without_prefix(rest);
            self.take_frame(rest);
        }
        let start = self.squeezed.len();
        let letters = rest.iter().filter(|byte| !byte.is_ascii_whitespace());
        self.squeezed.extend(letters.map(u8::to_ascii_lowercase));
        self.search(start);
        self.line = line;
        self.line.clear();
    }

    /// Remembers the innermost frame outside torch of a traceback.
    fn take_frame(&mut self, line: &[u8]) {
        if line.starts_with(b"Traceback (most recent call last)") {
            self.frame = None;
        }
        let Some(frame) = frame(line) else { return };
        let is_torch =
            |frame: &Frame| frame.file.contains("/torch/") || frame.file.contains("\\torch\\");
        let is_known =
            self.frame.as_ref().is_some_and(|(rank, known)| *rank == self.rank && !is_torch(known));
        if !is_torch(&frame) || !is_known {
            self.frame = Some((self.rank, frame));
        }
    }

    /// Finds markers in the new text; the line begins at `line_start`.
    fn search(&mut self, line_start: usize) {
        while let Some((at, length)) = self.next_marker() {
            self.searched = at + length;
            if !self.begins_message(at) {
                continue;
            }
            self.close(at);
            let line = self.lines + u64::from(at >= line_start || self.lines == 0);
            let frame = self.frame.take_if(|(rank, _)| *rank == self.rank).map(|(_, frame)| frame);
            let start = at.saturating_sub(KEPT_BEFORE);
            self.open = Some(Begun { start, marker: at, line, rank: self.rank, frame });
        }
        let longest = MARKERS.iter().map(|marker| marker.len()).max().unwrap_or(0);
        self.searched = self.searched.max(self.squeezed.len().saturating_sub(longest));
        if self
            .open
            .as_ref()
            .is_some_and(|open| self.squeezed.len() > open.marker + LONGEST_MESSAGE)
        {
            self.close(self.squeezed.len());
        }
        if self.open.is_none() {
            let kept = self.searched.saturating_sub(KEPT_BEFORE);
            if kept > LONGEST_LINE {
                self.squeezed.drain(..kept);
                self.searched -= kept;
            }
        }
    }

    fn next_marker(&self) -> Option<(usize, usize)> {
        let text = &self.squeezed[self.searched..];
        let found = self
            .finders
            .iter()
            .filter_map(|finder| Some((self.searched + finder.find(text)?, finder.needle().len())));
        found.min()
    }

    /// Whether a marker is not a part of the message that is open, and has what such a message has.
    fn begins_message(&self, at: usize) -> bool {
        let rest = &self.squeezed[at..];
        if rest.starts_with(b"triedtoallocate") {
            let in_mps = self.open.as_ref().is_some_and(|open| {
                self.squeezed[open.marker..].starts_with(b"mps") && at < open.marker + KEPT_BEFORE
            });
            let next = rest.get(MARKERS[0].len());
            return !in_mps && next.is_none_or(|byte| byte.is_ascii_digit() || *byte == b'm');
        }
        if rest.starts_with(b"iskilledbysignal:") {
            let before = &self.squeezed[at.saturating_sub(40)..at];
            return memchr::memmem::find(before, b"dataloaderworker").is_some();
        }
        true
    }

    /// Reads the open message, which ends before `end`.
    fn close(&mut self, end: usize) {
        let Some(open) = self.open.take() else { return };
        let end = end.min(open.marker + LONGEST_MESSAGE);
        let text = String::from_utf8_lossy(&self.squeezed[open.marker..end]);
        let before = String::from_utf8_lossy(&self.squeezed[open.start..open.marker]);
        let Some(message) = message(&open, &before, &text) else { return };
        match self.messages.iter().position(|known| known.is_same(&message)) {
            Some(at) => self.messages[at].count += 1,
            None if self.messages.len() < MOST_MESSAGES => self.messages.push(message),
            None => self.left_out += 1,
        }
    }
}

impl OomMessage {
    /// Whether another message has the same figures, at any place.
    fn is_same(&self, other: &Self) -> bool {
        let facts = |it: &Self| {
            let device = (it.device, it.total, it.device_free, it.limit);
            (it.source, it.rank, it.requested, it.allocated, it.reserved, it.this_process, device)
        };
        facts(self) == facts(other)
    }
}

/// The message that begins with a marker: `before` has the words before it.
fn message(open: &Begun, before: &str, text: &str) -> Option<OomMessage> {
    let source = source(before, text);
    let figures = match source {
        OomSource::CachingAllocator => Figures::of_caching_allocator(text),
        OomSource::AsyncAllocator => Figures::of_async_allocator(&(before.to_owned() + text)),
        OomSource::Mps => Figures::of_mps(text),
        OomSource::CpuAllocator => Figures::of_host(text),
        OomSource::Numpy => Figures::of_host(before),
        OomSource::SharedMemory | OomSource::Kernel => Figures::default(),
        OomSource::Driver
        | OomSource::Cublas
        | OomSource::Cudnn
        | OomSource::OtherLibrary
        | OomSource::Nccl
        | OomSource::Triton => Figures::of_library(text),
    };
    if text.starts_with(MARKERS[0]) && figures.requested.is_none() {
        return None;
    }
    let device = device(source, before, figures.device_index);
    let known = KnownMemory::new(source, figures, &(before.to_owned() + text));
    let verdict = known.verdict(source);
    let bytes = |figure: Option<super::figures::Figure>| figure.map(Bytes::from);
    let figures = &known.figures;
    let (requested, total, allocated) =
        (bytes(figures.requested), bytes(figures.total), bytes(figures.allocated));
    let whole = before.to_owned() + text;
    let case = Case {
        source,
        reason: verdict.reason,
        is_larger_than_device: requested
            .zip(total)
            .is_some_and(|(requested, total)| requested > total),
        is_nearly_full: allocated.zip(total).is_some_and(|(part, all)| part.0 >= all.0 / 10 * 9),
        variable: variable(text),
        has_expandable_segments: !text.contains("reservedintotalbypytorch")
            && !text.contains("cached)"),
        other_process: known
            .others
            .iter()
            .max_by_key(|(_, bytes)| *bytes)
            .map(|(process, _)| *process),
        text: &whole,
    };
    Some(OomMessage {
        source,
        reason: verdict.reason,
        notes: known.notes(verdict.reason),
        finding: verdict.finding,
        missing: verdict.missing,
        remedies: case.remedies(),
        line: open.line,
        count: 1,
        rank: open.rank,
        frame: open.frame.clone(),
        device,
        requested,
        total,
        device_free: bytes(figures.device_free),
        limit: bytes(figures.limit),
        reserved: bytes(figures.reserved),
        allocated,
        free: bytes(figures.free),
        private_pools: bytes(figures.private_pools),
        outside_torch: known.outside.map(Bytes),
        this_process: known.this_process.map(Bytes),
        other_processes: known
            .others
            .iter()
            .map(|&(process, bytes)| ProcessMemory { process, bytes: Bytes(bytes) })
            .collect(),
    })
}

/// Which allocator wrote a message.
fn source(before: &str, text: &str) -> OomSource {
    let near = |words: &str| before.rfind(words).is_some_and(|at| before.len() - at < 90);
    if text.starts_with("wouldexceedallowedmemory") {
        OomSource::AsyncAllocator
    } else if text.starts_with("mpsbackend") {
        OomSource::Mps
    } else if text.starts_with("triedtoallocate") && near("cpuallocator") {
        OomSource::CpuAllocator
    } else if text.starts_with("triedtoallocate") {
        OomSource::CachingAllocator
    } else if text.starts_with("foranarraywithshape") {
        OomSource::Numpy
    } else if text.starts_with("iskilledbysignal:bus") {
        OomSource::SharedMemory
    } else if text.starts_with("iskilledbysignal:")
        || text.contains("killedprocess")
        || text.starts_with("oom_kill")
    {
        OomSource::Kernel
    } else if text.starts_with("_alloc_failed") && near("cublas") {
        OomSource::Cublas
    } else if text.starts_with("_alloc_failed") && near("cudnn") {
        OomSource::Cudnn
    } else if text.starts_with("_alloc_failed") {
        OomSource::OtherLibrary
    } else if near("nccl") {
        OomSource::Nccl
    } else if near("tritonerror") {
        OomSource::Triton
    } else {
        OomSource::Driver
    }
}

/// The device, where the message has its number.
fn device(source: OomSource, before: &str, index: Option<i8>) -> Option<Device> {
    let near = |words: &str| before.rfind(words).is_some_and(|at| before.len() - at < 90);
    match source {
        OomSource::CpuAllocator
        | OomSource::Numpy
        | OomSource::SharedMemory
        | OomSource::Kernel => Some(Device::CPU),
        OomSource::Mps => "mps:0".parse().ok(),
        OomSource::CachingAllocator if near("xpuoutofmemory") => {
            format!("xpu:{}", index?).parse().ok()
        }
        // ROCm's devices are torch's CUDA devices.
        OomSource::CachingAllocator | OomSource::AsyncAllocator => index.map(Device::cuda),
        OomSource::Driver
        | OomSource::Cublas
        | OomSource::Cudnn
        | OomSource::OtherLibrary
        | OomSource::Nccl
        | OomSource::Triton => None,
    }
}

/// The variable that a message names for the allocator's settings.
fn variable(text: &str) -> &'static str {
    ["PYTORCH_ALLOC_CONF", "PYTORCH_HIP_ALLOC_CONF"]
        .into_iter()
        .find(|name| text.contains(&name.to_ascii_lowercase()))
        .unwrap_or("PYTORCH_CUDA_ALLOC_CONF")
}

/// A line without the sequences that colour it.
fn without_colours(line: &[u8]) -> std::borrow::Cow<'_, [u8]> {
    const ESCAPE: u8 = 0x1b;
    if memchr::memchr(ESCAPE, line).is_none() {
        return line.into();
    }
    let mut uncoloured = Vec::with_capacity(line.len());
    let mut rest = line;
    while let Some(at) = memchr::memchr(ESCAPE, rest) {
        uncoloured.extend_from_slice(&rest[..at]);
        let after = &rest[at + 1..];
        let length = match after.first() {
            Some(b'[') => {
                after[1..].iter().position(|byte| (0x40..0x7f).contains(byte)).map(|end| end + 2)
            }
            Some(b']') => memchr::memchr2(0x07, ESCAPE, after).map(|end| end + 1),
            Some(_) => Some(1),
            None => None,
        };
        rest = length.map_or(&[], |length| &after[length..]);
    }
    uncoloured.extend_from_slice(rest);
    uncoloured.into()
}

/// A line without quoting and without the rank before it.
fn without_prefix(line: &[u8]) -> (Option<u32>, &[u8]) {
    let quoting = |byte: &&u8| byte.is_ascii_whitespace() || b"#>|*".contains(byte);
    let line = &line[line.iter().take_while(quoting).count()..];
    let Some(rest) = line.strip_prefix(b"[rank").or_else(|| line.strip_prefix(b"[default")) else {
        return (None, line);
    };
    let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let rank = std::str::from_utf8(&rest[..digits]).ok().and_then(|digits| digits.parse().ok());
    match (rank, rest[digits..].strip_prefix(b"]")) {
        (Some(rank), Some(rest)) => {
            let rest = rest.strip_prefix(b":").unwrap_or(rest);
            (Some(rank), &rest[rest.iter().take_while(quoting).count()..])
        }
        _ => (None, line),
    }
}

/// `File "train.py", line 31, in forward`.
fn frame(line: &[u8]) -> Option<Frame> {
    let line = std::str::from_utf8(line.strip_prefix(b"File \"")?).ok()?;
    let (file, rest) = line.split_once("\", line ")?;
    let (number, function) = rest.split_once(", in ")?;
    Some(Frame {
        file: file.to_owned(),
        line: number.parse().ok()?,
        function: function.trim_end().to_owned(),
    })
}
