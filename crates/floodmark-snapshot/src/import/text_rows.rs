//! The texts of the trace: streams, pools, phases and operators, each with a number.

use floodmark_trace::{TextKind, TextRow};
use hashbrown::HashMap;

use crate::contents::strings::Strings;
use crate::format::known_strings::StringId;

/// The texts, and their numbers.
#[derive(Debug, Default)]
pub(crate) struct TextRows {
    pub(crate) rows: Vec<TextRow>,
    streams: HashMap<u64, u16>,
    pools: HashMap<u32, u16>,
    strings: HashMap<(TextKind, StringId), u32>,
    last_stream: Option<(u64, u16)>,
}

impl TextRows {
    fn add(&mut self, kind: TextKind, text: String) -> u32 {
        let id = u32::try_from(self.rows.len() + 1).unwrap_or(0);
        self.rows.push(TextRow { id, kind, text });
        id
    }

    /// Adds a stream. Streams and pools come before all other texts, because their numbers have 16 bits.
    pub(crate) fn add_stream(&mut self, stream: u64) {
        if !self.streams.contains_key(&stream) && self.rows.len() < usize::from(u16::MAX) {
            let id = self.add(TextKind::Stream, format!("0x{stream:x}"));
            self.streams.insert(stream, u16::try_from(id).unwrap_or(0));
        }
    }

    /// Adds all pools. The default pool, `(0, 0)`, has no text.
    pub(crate) fn add_pools(&mut self, pools: &[(i64, i64)]) {
        for (number, &(first, second)) in (0..).zip(pools) {
            if (first, second) != (0, 0) && self.rows.len() < usize::from(u16::MAX) {
                let id = self.add(TextKind::Pool, format!("({first}, {second})"));
                self.pools.insert(number, u16::try_from(id).unwrap_or(0));
            }
        }
    }

    pub(crate) fn stream(&mut self, stream: u64) -> u16 {
        if let Some((last, id)) = self.last_stream
            && last == stream
        {
            return id;
        }
        let id = self.streams.get(&stream).copied().unwrap_or(0);
        self.last_stream = Some((stream, id));
        id
    }

    pub(crate) fn pool(&self, pool: Option<u32>) -> u16 {
        pool.and_then(|pool| self.pools.get(&pool)).copied().unwrap_or(0)
    }

    /// The number of the text that is a string of the file.
    pub(crate) fn string(&mut self, kind: TextKind, string: StringId, strings: &Strings) -> u32 {
        if let Some(&id) = self.strings.get(&(kind, string)) {
            return id;
        }
        let id = self.add(kind, strings.get(string).to_owned());
        self.strings.insert((kind, string), id);
        id
    }
}
