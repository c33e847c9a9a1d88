//! Chrome's trace events as JSON, which `chrome://tracing` and many other viewers read. For large traces, Perfetto's own format
//! is a tenth of the size.
//!
//! A track is a thread of one process. Counters have names and belong to the process. Arrows connect slices, so an instant is a
//! slice without length.

use std::io::{self, Write};

use floodmark_trace::Trace;
use serde::Serialize;
use serde_json::{Map, Value, json};

use hashbrown::HashMap;

use crate::event_tracks::{Flow, Note, Notes, Track, TrackId, TrackKind, Tracks, follow};
use crate::options::{ExportError, Options};

/// Writes counters, slices and the largest allocations.
pub fn write_chrome(
    trace: &Trace,
    options: &Options,
    out: &mut impl Write,
) -> Result<(), ExportError> {
    write!(out, "{{\"displayTimeUnit\":\"ms\",\"traceEvents\":[")?;
    let mut writer = Writer { out, pid: 0, is_first: true, counters: HashMap::new() };
    follow(trace, options, &mut writer)?;
    let other = json!({"exporter": concat!("floodmark ", env!("CARGO_PKG_VERSION"))});
    write!(out, "\n],\"otherData\":{other}}}\n")?;
    Ok(())
}

struct Writer<'a, W> {
    out: &'a mut W,
    pid: u32,
    is_first: bool,
    /// The names of counters.
    counters: HashMap<TrackId, String>,
}

/// An event; which fields it has depends on `ph`.
#[derive(Serialize)]
struct Event<'a> {
    ph: &'a str,
    pid: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    tid: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ts: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    dur: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cat: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<u64>,
    /// `e`: the arrow ends at the slice at that time, not at the next one.
    #[serde(skip_serializing_if = "Option::is_none")]
    bp: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    args: Option<Value>,
}

impl<'a> Event<'a> {
    fn new(ph: &'a str, pid: u32) -> Self {
        let (tid, ts, dur, name, cat) = (None, None, None, None, None);
        Self { ph, pid, tid, ts, dur, name, cat, id: None, bp: None, args: None }
    }
}

impl<W: Write> Writer<'_, W> {
    fn event(&mut self, event: &Event<'_>) -> io::Result<()> {
        let between: &[u8] = if std::mem::take(&mut self.is_first) { b"\n" } else { b",\n" };
        self.out.write_all(between)?;
        serde_json::to_writer(&mut *self.out, event).map_err(io::Error::from)
    }

    fn metadata(&mut self, kind: &str, tid: Option<u64>, args: Value) -> io::Result<()> {
        let args = Some(args);
        self.event(&Event { name: Some(kind), tid, args, ..Event::new("M", self.pid) })
    }

    fn slice(
        &mut self,
        ph: &str,
        track: TrackId,
        micros: u64,
        name: &str,
        flow: Flow,
        notes: &Notes<'_>,
    ) -> io::Result<()> {
        let tid = Some(track.0);
        let notes = notes.iter().map(|&(name, note)| {
            let value = match note {
                Note::Number(number) => Value::from(number),
                Note::Text(text) => Value::from(text),
            };
            (name.to_owned(), value)
        });
        let args = Value::Object(notes.collect::<Map<_, _>>());
        let event = Event {
            tid,
            ts: Some(micros),
            dur: (ph == "X").then_some(0),
            name: Some(name),
            cat: Some("memory"),
            args: Some(args),
            ..Event::new(ph, self.pid)
        };
        self.event(&event)?;
        let (ph, id) = match flow {
            Flow::None => return Ok(()),
            Flow::Begins(id) => ("s", id),
            Flow::Passes(id) => ("t", id),
            Flow::Ends(id) => ("f", id),
        };
        let (ts, cat, name) = (Some(micros), Some("allocation"), Some("allocation"));
        let bp = (ph == "f").then_some("e");
        self.event(&Event { tid, ts, cat, name, id: Some(id), bp, ..Event::new(ph, self.pid) })
    }
}

impl<W: Write> Tracks for Writer<'_, W> {
    fn track(&mut self, track: &Track<'_>) -> io::Result<()> {
        let name = json!({"name": track.name});
        match track.kind {
            TrackKind::Process { pid } => {
                self.pid = pid;
                self.metadata("process_name", None, name)
            }
            TrackKind::Counter => {
                self.counters.insert(track.id, track.name.to_owned());
                Ok(())
            }
            TrackKind::Slices => {
                self.metadata("thread_name", Some(track.id.0), name)?;
                let order = json!({"sort_index": track.order});
                self.metadata("thread_sort_index", Some(track.id.0), order)
            }
            TrackKind::Group => Ok(()),
        }
    }

    fn counter(&mut self, track: TrackId, micros: u64, value: u64) -> io::Result<()> {
        let name = self.counters.get(&track).cloned().unwrap_or_default();
        let args = Some(json!({"bytes": value}));
        let ts = Some(micros);
        self.event(&Event { ts, name: Some(&name), args, ..Event::new("C", self.pid) })
    }

    fn begin(
        &mut self,
        track: TrackId,
        micros: u64,
        name: &str,
        flow: Flow,
        notes: &Notes<'_>,
    ) -> io::Result<()> {
        self.slice("B", track, micros, name, flow, notes)
    }

    fn end(&mut self, track: TrackId, micros: u64) -> io::Result<()> {
        let (tid, ts) = (Some(track.0), Some(micros));
        self.event(&Event { tid, ts, ..Event::new("E", self.pid) })
    }

    fn instant(
        &mut self,
        track: TrackId,
        micros: u64,
        name: &str,
        flow: Flow,
        notes: &Notes<'_>,
    ) -> io::Result<()> {
        self.slice("X", track, micros, name, flow, notes)
    }
}
