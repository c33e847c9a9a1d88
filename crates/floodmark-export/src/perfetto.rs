//! Perfetto's traces, for <https://ui.perfetto.dev> and its trace processor.
//!
//! A file is a `Trace` message: a sequence of `TracePacket`s with their lengths, so it is written packet by packet. Names are
//! interned: the first packet that uses a name has its text.

use std::io::{self, Write};

use floodmark_trace::Trace;
use hashbrown::HashMap;
use prost::Message;

use crate::event_tracks::{Flow, Note, Notes, Track, TrackId, TrackKind, Tracks, follow};
use crate::options::{ExportError, Options};
use crate::perfetto_messages as proto;

/// The one sequence of all packets.
const SEQUENCE: u32 = 1;
/// `Trace.packet`: field 1, with its length before it.
const PACKET_TAG: u8 = 0x0a;

/// Writes counters, slices and the largest allocations.
pub fn write_perfetto(
    trace: &Trace,
    options: &Options,
    out: &mut impl Write,
) -> Result<(), ExportError> {
    let mut writer =
        Writer { out, buffer: Vec::new(), names: HashMap::new(), notes: HashMap::new() };
    writer.clocks(trace)?;
    follow(trace, options, &mut writer)
}

struct Writer<'a, W> {
    out: &'a mut W,
    buffer: Vec<u8>,
    /// The numbers of interned names of events.
    names: HashMap<String, u64>,
    /// The numbers of interned names of notes.
    notes: HashMap<&'static str, u64>,
}

impl<W: Write> Writer<'_, W> {
    fn packet(&mut self, packet: &proto::TracePacket) -> io::Result<()> {
        self.buffer.clear();
        self.buffer.push(PACKET_TAG);
        packet.encode_length_delimited(&mut self.buffer).map_err(io::Error::other)?;
        self.out.write_all(&self.buffer)
    }

    /// The first packet: it drops interned data, and sets time 0 to the start of the recording.
    fn clocks(&mut self, trace: &Trace) -> io::Result<()> {
        let began = trace.header.started_unix_micros.saturating_mul(1000);
        let clocks = vec![
            proto::Clock { clock_id: proto::BOOTTIME, timestamp: Some(0) },
            proto::Clock { clock_id: proto::REALTIME, timestamp: Some(began) },
        ];
        self.packet(&proto::TracePacket {
            clock_snapshot: (began > 0).then_some(proto::ClockSnapshot { clocks }),
            trusted_packet_sequence_id: SEQUENCE,
            sequence_flags: Some(proto::STATE_CLEARED),
            ..proto::TracePacket::default()
        })
    }

    fn event(&mut self, micros: u64, event: proto::TrackEvent) -> io::Result<()> {
        self.event_with(micros, event, proto::InternedData::default())
    }

    fn event_with(
        &mut self,
        micros: u64,
        event: proto::TrackEvent,
        new: proto::InternedData,
    ) -> io::Result<()> {
        let uses_names = event.name_iid.is_some();
        let has_new = !new.event_names.is_empty() || !new.debug_annotation_names.is_empty();
        self.packet(&proto::TracePacket {
            timestamp: Some(micros.saturating_mul(1000)),
            trusted_packet_sequence_id: SEQUENCE,
            track_event: Some(event),
            interned_data: has_new.then_some(new),
            sequence_flags: uses_names.then_some(proto::NEEDS_STATE),
            ..proto::TracePacket::default()
        })
    }

    /// An event with a name.
    fn named(
        &mut self,
        kind: i32,
        track: TrackId,
        micros: u64,
        name: &str,
        flow: Flow,
        notes: &Notes<'_>,
    ) -> io::Result<()> {
        let mut new = proto::InternedData::default();
        let next = self.names.len() as u64 + 1;
        let iid = *self.names.entry_ref(name).or_insert(next);
        if iid == next {
            new.event_names.push(proto::EventName { iid, name: name.to_owned() });
        }
        let mut debug_annotations = Vec::with_capacity(notes.len());
        for &(name, note) in notes {
            let next = self.notes.len() as u64 + 1;
            let iid = *self.notes.entry(name).or_insert(next);
            if iid == next {
                let name = name.to_owned();
                new.debug_annotation_names.push(proto::DebugAnnotationName { iid, name });
            }
            debug_annotations.push(annotation(iid, note));
        }
        let (flow_ids, terminating_flow_ids) = match flow {
            Flow::None => (vec![], vec![]),
            Flow::Begins(id) | Flow::Passes(id) => (vec![id], vec![]),
            Flow::Ends(id) => (vec![], vec![id]),
        };
        let event = proto::TrackEvent {
            kind,
            track_uuid: track.0,
            name_iid: Some(iid),
            debug_annotations,
            flow_ids,
            terminating_flow_ids,
            counter_value: None,
        };
        self.event_with(micros, event, new)
    }
}

fn annotation(name_iid: u64, note: Note<'_>) -> proto::DebugAnnotation {
    let (uint_value, string_value) = match note {
        Note::Number(number) => (Some(number), None),
        Note::Text(text) => (None, Some(text.to_owned())),
    };
    proto::DebugAnnotation { name_iid, uint_value, string_value }
}

impl<W: Write> Tracks for Writer<'_, W> {
    fn track(&mut self, track: &Track<'_>) -> io::Result<()> {
        let mut descriptor = proto::TrackDescriptor {
            uuid: track.id.0,
            parent_uuid: track.parent.map(|parent| parent.0),
            name: Some(track.name.to_owned()),
            child_ordering: Some(proto::EXPLICIT_ORDER),
            sibling_order_rank: i32::try_from(track.order).ok(),
            ..proto::TrackDescriptor::default()
        };
        match track.kind {
            TrackKind::Process { pid } => {
                let pid = i32::try_from(pid).unwrap_or(i32::MAX);
                let process_name = track.name.to_owned();
                descriptor.process = Some(proto::ProcessDescriptor { pid, process_name });
            }
            TrackKind::Counter => {
                descriptor.counter = Some(proto::CounterDescriptor { unit: proto::SIZE_BYTES });
            }
            TrackKind::Group | TrackKind::Slices => {}
        }
        self.packet(&proto::TracePacket {
            trusted_packet_sequence_id: SEQUENCE,
            track_descriptor: Some(descriptor),
            ..proto::TracePacket::default()
        })
    }

    fn counter(&mut self, track: TrackId, micros: u64, value: u64) -> io::Result<()> {
        let event = proto::TrackEvent {
            kind: proto::COUNTER,
            track_uuid: track.0,
            counter_value: Some(i64::try_from(value).unwrap_or(i64::MAX)),
            ..proto::TrackEvent::default()
        };
        self.event(micros, event)
    }

    fn begin(
        &mut self,
        track: TrackId,
        micros: u64,
        name: &str,
        flow: Flow,
        notes: &Notes<'_>,
    ) -> io::Result<()> {
        self.named(proto::SLICE_BEGIN, track, micros, name, flow, notes)
    }

    fn end(&mut self, track: TrackId, micros: u64) -> io::Result<()> {
        let kind = proto::SLICE_END;
        self.event(micros, proto::TrackEvent { kind, track_uuid: track.0, ..Default::default() })
    }

    fn instant(
        &mut self,
        track: TrackId,
        micros: u64,
        name: &str,
        flow: Flow,
        notes: &Notes<'_>,
    ) -> io::Result<()> {
        self.named(proto::INSTANT, track, micros, name, flow, notes)
    }
}
