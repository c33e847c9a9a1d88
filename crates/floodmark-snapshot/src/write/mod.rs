//! Writes a trace as a snapshot that torch's own viewers read.

mod final_segments;

use std::io::{self, Write};

use floodmark_trace::{
    Allocation, Bytes, CodeId, Device, Event, HandleId, Oom, ProgramEvent, Segment, StackId,
    Subject, TextId, Trace,
};
use hashbrown::HashMap;

use crate::pickle::pickler::Pickler;
use crate::write::final_segments::{
    ALLOCATED, FinalBlock, FinalSegment, INACTIVE, pool_numbers, segments_at_end, stream_number,
};

/// `kSmallBuffer` of the caching allocator: the size of a segment of small blocks.
const SMALL_SEGMENT_BYTES: u64 = 2 << 20;

/// Writes a trace, or the events of one of its devices, as a snapshot of torch: a pickle that `torch/cuda/_memory_viz.py` and
/// [`crate::read_snapshot`] read.
///
/// A CUDA device keeps its index in `device_traces`. Other devices, such as the CPU, follow after the last of them. Adjacent
/// blocks that lie in no segment get one segment. A snapshot has no names of tensors.
pub fn write_snapshot(trace: &Trace, only: Option<Device>, out: &mut impl Write) -> io::Result<()> {
    let devices = device_order(trace, only);
    let has_pools = trace.allocations.iter().any(|allocation| allocation.pool.0 != 0);
    let pickler = Pickler::new(out);
    let mut writer =
        Writer { trace, pickler, frames: HashMap::new(), stacks: HashMap::new(), has_pools };
    writer.snapshot(&devices)?;
    writer.pickler.finish()
}

/// The device at each index of `device_traces`.
fn device_order(trace: &Trace, only: Option<Device>) -> Vec<Option<Device>> {
    let devices =
        trace.devices().into_iter().filter(|&device| only.is_none_or(|only| only == device));
    let (cuda, others): (Vec<Device>, Vec<Device>) =
        devices.partition(|device| device.kind == Device::cuda(0).kind && device.index >= 0);
    let mut by_index = Vec::new();
    for device in cuda {
        let at = usize::try_from(device.index).unwrap_or(0);
        if by_index.len() <= at {
            by_index.resize(at + 1, None);
        }
        by_index[at] = Some(device);
    }
    by_index.extend(others.into_iter().map(Some));
    by_index
}

struct Writer<'a, W> {
    trace: &'a Trace,
    pickler: Pickler<'a, W>,
    /// The memo index of each frame and stack that was written.
    frames: HashMap<(CodeId, u32), u32>,
    stacks: HashMap<StackId, u32>,
    has_pools: bool,
}

/// The fields of an event.
#[derive(Default)]
struct EventFields<'a> {
    action: &'a str,
    addr: u64,
    bytes: Bytes,
    time: u64,
    stream: HandleId,
    pool: HandleId,
    op: TextId,
    user: TextId,
    /// `None` if no stack was recorded.
    stack: Option<StackId>,
}

impl<W: Write> Writer<'_, W> {
    fn snapshot(&mut self, devices: &[Option<Device>]) -> io::Result<()> {
        self.dict(|this| {
            this.pickler.string("segments");
            this.list(|this| {
                for (place, device) in (0..).zip(devices) {
                    let Some(device) = *device else { continue };
                    for segment in segments_at_end(this.trace, device) {
                        this.segment(place, &segment)?;
                    }
                }
                Ok(())
            })?;
            this.pickler.string("device_traces");
            this.list(|this| {
                devices.iter().try_for_each(|&device| this.list(|this| this.events(device)))
            })?;
            this.pickler.string("allocator_settings");
            this.settings()?;
            this.pickler.string("external_annotations");
            this.list(Self::annotations)
        })
    }

    fn dict(&mut self, items: impl FnOnce(&mut Self) -> io::Result<()>) -> io::Result<()> {
        self.pickler.begin_dict();
        items(self)?;
        self.pickler.end_dict()
    }

    fn list(&mut self, items: impl FnOnce(&mut Self) -> io::Result<()>) -> io::Result<()> {
        self.pickler.begin_list();
        items(self)?;
        self.pickler.end_list()
    }

    fn item(&mut self, key: &str, number: u64) {
        self.pickler.string(key);
        self.pickler.number(number);
    }

    fn string_item(&mut self, key: &str, text: &str) {
        self.pickler.string(key);
        self.pickler.string(text);
    }

    fn settings(&mut self) -> io::Result<()> {
        let conf = self.trace.header.allocator_conf.as_str();
        self.dict(|this| {
            this.string_item("PYTORCH_CUDA_ALLOC_CONF", conf);
            this.pickler.string("max_split_size");
            this.pickler.minus_one();
            this.pickler.string("garbage_collection_threshold");
            this.pickler.float(0.0);
            this.pickler.string("expandable_segments");
            this.pickler.boolean(conf.contains("expandable_segments:True"));
            Ok(())
        })
    }

    fn segment(&mut self, place: u64, segment: &FinalSegment) -> io::Result<()> {
        let sum = |is_counted: fn(&FinalBlock) -> bool, bytes: fn(&FinalBlock) -> u64| {
            let counted = segment.blocks.iter().filter(|block| is_counted(block));
            counted.map(|block| Bytes(bytes(block))).sum::<Bytes>().0
        };
        let is_active = |block: &FinalBlock| block.state != INACTIVE;
        let kind = if segment.bytes > SMALL_SEGMENT_BYTES { "large" } else { "small" };
        self.dict(|this| {
            this.item("device", place);
            this.item("address", segment.addr);
            this.item("total_size", segment.bytes);
            this.item("allocated_size", sum(|block| block.state == ALLOCATED, |block| block.bytes));
            this.item("active_size", sum(is_active, |block| block.bytes));
            this.item("requested_size", sum(is_active, |block| block.requested));
            this.item("stream", segment.attributes.stream);
            this.string_item("segment_type", kind);
            this.pickler.string("segment_pool_id");
            this.pickler.pair(segment.attributes.pool);
            this.pickler.string("is_expandable");
            this.pickler.boolean(segment.attributes.is_expandable);
            this.pickler.string("frames");
            this.stack(segment.attributes.stack)?;
            this.pickler.string("blocks");
            this.list(|this| segment.blocks.iter().try_for_each(|block| this.block(block)))
        })
    }

    fn block(&mut self, block: &FinalBlock) -> io::Result<()> {
        self.dict(|this| {
            this.item("address", block.addr);
            this.item("size", block.bytes);
            this.item("requested_size", block.requested);
            this.string_item("state", block.state);
            this.pickler.string("frames");
            this.stack(block.stack)
        })
    }

    /// Writes a list of frames, innermost first. Each list and each frame is written once.
    fn stack(&mut self, id: StackId) -> io::Result<()> {
        if let Some(&known) = self.stacks.get(&id) {
            self.pickler.get(known);
            return Ok(());
        }
        self.pickler.begin_list();
        // It enters the memo at its end: no frame refers to it.
        for (_, frame) in self.trace.frames(id) {
            self.frame(frame.code, frame.line)?;
        }
        self.pickler.end_list()?;
        let number = self.pickler.memoize();
        self.stacks.insert(id, number);
        Ok(())
    }

    fn frame(&mut self, id: CodeId, line: u32) -> io::Result<()> {
        if let Some(&known) = self.frames.get(&(id, line)) {
            self.pickler.get(known);
            return Ok(());
        }
        let code = self.trace.code(id);
        let (name, file) = code.map_or(("?", "?"), |code| (code.name.as_str(), code.file.as_str()));
        self.dict(|this| {
            this.string_item("name", name);
            this.string_item("filename", file);
            this.item("line", line.into());
            Ok(())
        })?;
        let number = self.pickler.memoize();
        self.frames.insert((id, line), number);
        Ok(())
    }

    fn time(&self, event: &Event) -> u64 {
        // 0 would mean that the event has no time.
        self.trace.header.started_unix_micros.max(1).saturating_add(event.time.0)
    }

    fn events(&mut self, device: Option<Device>) -> io::Result<()> {
        let trace = self.trace;
        let mut phases: Vec<TextId> = Vec::new();
        for event in &trace.events {
            match event.subject.program_event() {
                Some(ProgramEvent::PhaseBegin(phase)) => phases.push(phase),
                Some(ProgramEvent::PhaseEnd(phase)) => {
                    if let Some(at) = phases.iter().rposition(|&open| open == phase) {
                        phases.remove(at);
                    }
                }
                None if Some(event.device) == device => {
                    self.event(event, phases.last().copied().unwrap_or_default())?;
                }
                // Annotations, and events of other devices.
                Some(
                    ProgramEvent::Step(_)
                    | ProgramEvent::Mark(_)
                    | ProgramEvent::OptimizerBegin
                    | ProgramEvent::OptimizerEnd,
                )
                | None => {}
            }
        }
        Ok(())
    }

    fn event(&mut self, event: &Event, open_phase: TextId) -> io::Result<()> {
        let trace = self.trace;
        let allocation = |id: floodmark_trace::AllocationId| trace.allocations.get(id.index());
        let segment = |index: u32| trace.segments.get(index as usize);
        match event.subject {
            Subject::Alloc(id) => match allocation(id) {
                Some(made) if !made.before_recording => self.alloc(event, made, open_phase),
                _ => Ok(()),
            },
            Subject::Free { allocation: id, deferred } => {
                let Some(freed) = allocation(id) else { return Ok(()) };
                self.free(event, freed, "free_requested")?;
                if deferred { Ok(()) } else { self.free(event, freed, "free_completed") }
            }
            Subject::FreeCompleted(id) => {
                allocation(id).map_or(Ok(()), |freed| self.free(event, freed, "free_completed"))
            }
            Subject::SegmentAlloc(at) => self.segment_event(event, segment(at), "segment_alloc"),
            Subject::SegmentFree(at) => self.segment_event(event, segment(at), "segment_free"),
            Subject::SegmentMap(at) => self.segment_event(event, segment(at), "segment_map"),
            Subject::SegmentUnmap(at) => self.segment_event(event, segment(at), "segment_unmap"),
            Subject::Oom(at) => match trace.ooms.get(at as usize) {
                Some(oom) => self.oom(event, oom),
                None => Ok(()),
            },
            // The address of a `FreeUnknown` is unknown. A snapshot has no entries for the others.
            Subject::FreeUnknown(_)
            | Subject::InitialSegment(_)
            | Subject::Reserved(_)
            | Subject::Label { .. }
            | Subject::Saved(_)
            | Subject::Unpacked(_)
            | Subject::Step(_)
            | Subject::Mark(_)
            | Subject::PhaseBegin(_)
            | Subject::PhaseEnd(_)
            | Subject::OptimizerBegin
            | Subject::OptimizerEnd => Ok(()),
        }
    }

    fn alloc(&mut self, event: &Event, made: &Allocation, open_phase: TextId) -> io::Result<()> {
        self.write_event(&EventFields {
            action: "alloc",
            addr: made.addr.0,
            bytes: made.requested,
            time: self.time(event),
            stream: made.stream,
            pool: made.pool,
            op: made.op,
            user: if made.phase == open_phase { TextId(0) } else { made.phase },
            stack: written_stack(made.stack, made.backward),
        })
    }

    fn free(&mut self, event: &Event, freed: &Allocation, action: &str) -> io::Result<()> {
        self.write_event(&EventFields {
            action,
            addr: freed.addr.0,
            bytes: freed.requested,
            time: self.time(event),
            stream: freed.stream,
            pool: freed.pool,
            ..EventFields::default()
        })
    }

    fn segment_event(
        &mut self,
        event: &Event,
        segment: Option<&Segment>,
        action: &str,
    ) -> io::Result<()> {
        let Some(segment) = segment else { return Ok(()) };
        self.write_event(&EventFields {
            action,
            addr: segment.addr.0,
            bytes: segment.bytes,
            time: self.time(event),
            stream: segment.stream,
            pool: segment.pool,
            stack: written_stack(segment.stack, false),
            ..EventFields::default()
        })
    }

    fn oom(&mut self, event: &Event, oom: &Oom) -> io::Result<()> {
        self.write_event(&EventFields {
            action: "oom",
            addr: oom.device_free.unwrap_or_default().0,
            bytes: oom.requested,
            time: self.time(event),
            stack: written_stack(oom.stack, oom.backward),
            ..EventFields::default()
        })
    }

    fn write_event(&mut self, fields: &EventFields<'_>) -> io::Result<()> {
        let trace = self.trace;
        let addr = if fields.action == "oom" { "device_free" } else { "addr" };
        self.dict(|this| {
            this.string_item("action", fields.action);
            this.item(addr, fields.addr);
            this.item("size", fields.bytes.0);
            this.item("stream", stream_number(trace.text(fields.stream.into())));
            this.item("time_us", fields.time);
            this.string_item("compile_context", trace.text(fields.op).unwrap_or("N/A"));
            this.string_item("user_metadata", trace.text(fields.user).unwrap_or_default());
            if this.has_pools {
                this.pickler.string("pool_id");
                this.pickler.pair(pool_numbers(trace.text(fields.pool.into())));
            }
            let Some(stack) = fields.stack else { return Ok(()) };
            this.pickler.string("frames");
            this.stack(stack)
        })
    }

    fn annotations(&mut self) -> io::Result<()> {
        let trace = self.trace;
        for event in &trace.events {
            let named = |phase| trace.text(phase).unwrap_or("?").to_owned();
            let Some(happened) = event.subject.program_event() else { continue };
            let (stage, name) = match happened {
                ProgramEvent::PhaseBegin(phase) => ("START", named(phase)),
                ProgramEvent::PhaseEnd(phase) => ("END", named(phase)),
                ProgramEvent::OptimizerBegin => ("START", "Optimizer.step#step".to_owned()),
                ProgramEvent::OptimizerEnd => ("END", "Optimizer.step#step".to_owned()),
                ProgramEvent::Step(number) => ("END", format!("ProfilerStep#{number}")),
                ProgramEvent::Mark(_) => continue,
            };
            let time = self.time(event);
            self.dict(|this| {
                this.string_item("stage", stage);
                this.string_item("name", &name);
                this.item("device", 0);
                this.item("time_us", time);
                Ok(())
            })?;
        }
        Ok(())
    }
}

/// The stack as torch writes it: empty in threads of the backward pass, `None` if none was recorded.
fn written_stack(stack: StackId, backward: bool) -> Option<StackId> {
    (stack.0 != 0 || backward).then_some(stack)
}
