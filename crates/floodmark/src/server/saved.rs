//! A page that needs no server: it contains answers to its most likely requests.
//!
//! A saved page contains answers of the server, by the text of their requests. [`ROOM`] limits them: first the answers
//! that every view opens with, then enlargements of the pictures, level by level, then further times, then the cards of
//! the largest allocations, each up to its share. The answer `traces` lists the available times.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};

use flate2::Compression;
use flate2::write::GzEncoder;
use floodmark_analysis::{At, TimelineBy};
use floodmark_trace::{AllocationId, Device};

use super::answer::{Moments, answer, traces};
use super::api_request::{ApiRequest, Parameters};
use super::refusal::Refusal;
use super::saved_document::document;
use super::saved_moments::moments;
use super::shown::ShownTraces;
use crate::plan::Plan;

/// The limit on all answers, compressed; as Base64 they are a third larger.
const ROOM: usize = 5 << 20;
/// The percentage of [`ROOM`] up to which pictures, times and cards may fill it.
const SHARES: [usize; 3] = [60, 85, 100];
/// The groupings of a timeline.
const STACKED: [&str; 4] = ["category", "module", "phase", "line"];
/// The axes of a timeline; those other than time get fewer enlargements.
const AXES: [&str; 3] = ["time", "events", "steps"];
/// The groupings of a report.
const GROUPED: [&str; 8] =
    ["line", "module", "category", "tensor", "op", "phase", "stack", "segment"];
/// The number of rows of reports at further times.
const FEWER_ROWS: usize = 40;
/// The most allocations of a device with a card.
const MOST_CARDS: usize = 2_000;
/// The most source files of a device.
const MOST_SOURCES: usize = 20;
/// The most traces that are compared with each other.
const MOST_COMPARED: usize = 4;
/// Prefer size: users send the file to others.
const LEVEL: u32 = 7;

/// The page with answers about these traces, or about one of their devices, as one HTML document. Calls `report` with
/// the bytes used and the limit.
pub(crate) fn save(
    shown: &ShownTraces<'_>,
    device: Option<Device>,
    report: impl Fn(usize, usize),
) -> io::Result<String> {
    let mut saved = SavedAnswers { shown, answers: BTreeMap::new(), used: 0, report: &report };
    let mut subjects = subjects(shown);
    subjects.retain(|(_, found)| device.is_none_or(|device| device.canonical() == *found));
    saved.add("ranks");
    saved.add("ranks/lines");
    saved.plans();
    saved.compare();
    for (trace, device) in &subjects {
        let of = format!("trace={trace}&device={device}");
        saved.opening(&of);
        let end = shown.traces[*trace].now().trace.end().as_seconds();
        saved.add(&format!("lifetimes?{of}&from=0&to={end}"));
    }
    saved.enlarge(&subjects);
    let moments = saved.moments(&subjects);
    saved.cards(&subjects);
    let first = traces(shown, Some(moments)).map_err(io::Error::other)?;
    saved.answers.insert("api/traces".to_owned(), first);
    saved.pack().map(|packed| document(&packed))
}

/// Every device of every trace.
fn subjects(shown: &ShownTraces<'_>) -> Vec<(usize, Device)> {
    let all = shown.traces.iter().enumerate();
    all.flat_map(|(at, trace)| trace.now().trace.devices().into_iter().map(move |one| (at, one)))
        .collect()
}

/// A picture over time, with its enlargements.
struct Picture {
    /// The request, without its axis, device and tile.
    path: String,
    axis: &'static str,
    /// How many levels later than the most used picture it is enlarged.
    behind: u32,
    /// The bytes of its last level.
    last: usize,
}

/// The answers of the page.
struct SavedAnswers<'s, 't> {
    shown: &'s ShownTraces<'t>,
    answers: BTreeMap<String, Vec<u8>>,
    /// Their approximate size, compressed.
    used: usize,
    report: &'s dyn Fn(usize, usize),
}

impl SavedAnswers<'_, '_> {
    /// Adds the answer to a request.
    fn add(&mut self, request: &str) {
        self.add_as(request, "");
    }

    /// Adds the answer to a request with further parameters, stored under the request without them.
    fn add_as(&mut self, request: &str, more: &str) {
        let name = format!("api/{request}");
        if self.answers.contains_key(&name) {
            return;
        }
        let found = answer_text(self.shown, &format!("{request}{more}"));
        // Store a refusal too: the saved page shows the same message.
        let json =
            found.or_else(|refusal| serde_json::to_vec(&refusal.problem()).map_err(|_| refusal));
        let Ok(json) = json else { return };
        self.used += packed_bytes(&json);
        self.answers.insert(name, json);
        (self.report)(self.used.min(ROOM), ROOM);
    }

    fn has_room(&self, share: usize) -> bool {
        self.used < ROOM / 100 * SHARES[share]
    }

    /// Adds the answers that the views open with.
    fn opening(&mut self, of: &str) {
        for axis in AXES {
            for by in STACKED {
                self.add(&format!("timeline?{of}&by={by}&axis={axis}"));
                self.add(&format!("timeline/tile?{of}&by={by}&axis={axis}&level=0&tile=0"));
            }
            self.add(&format!("allocations/tile?{of}&axis={axis}&level=0&tile=0"));
        }
        self.add(&format!("bands?{of}"));
        for at in ["peak", "oom", "end"] {
            for by in GROUPED {
                self.add(&format!("report?{of}&by={by}&at={at}"));
            }
            self.pictures(of, at);
        }
        for path in ["steps", "oom", "advice", "sweep", "fragmentation"] {
            self.add(&format!("{path}?{of}"));
        }
        self.best_setting(of);
        self.sources(of);
    }

    /// Adds the source files with the most bytes at the peak. Includes only texts stored in the trace: a page that is
    /// sent to others must not contain further files.
    fn sources(&mut self, of: &str) {
        for at in ["peak", "oom", "end"] {
            self.add(&format!("source/files?{of}&at={at}"));
        }
        let Some(found) = self.answers.get(&format!("api/source/files?{of}&at=peak")) else {
            return;
        };
        let found: serde_json::Value = serde_json::from_slice(found).unwrap_or_default();
        let files = found["files"].as_array().cloned().unwrap_or_default();
        let own = files.iter().filter(|file| file["is_library"] == false);
        for file in own.filter_map(|file| file["file"].as_str()).take(MOST_SOURCES) {
            self.add_as(&format!("source?{of}&at=peak&file={file}"), "&disk=false");
        }
    }

    /// Adds the segments at the peak, simulated with the best of the tried settings.
    fn best_setting(&mut self, of: &str) {
        let Some(sweep) = self.answers.get(&format!("api/sweep?{of}")) else { return };
        let sweep: serde_json::Value = serde_json::from_slice(sweep).unwrap_or_default();
        let best = sweep["best"].as_u64().and_then(|at| usize::try_from(at).ok());
        let Some(run) = best.and_then(|at| sweep["runs"].get(at)) else { return };
        let conf = run["alloc_conf"].as_str().unwrap_or_default();
        self.add(&format!("segments/simulated?{of}&at=peak&conf={conf}"));
    }

    /// Adds the plans of traces that have one.
    fn plans(&mut self) {
        for (trace, shown) in self.shown.traces.iter().enumerate() {
            if Plan::stored_in(&shown.now().trace).is_some() {
                self.add(&format!("plan?trace={trace}"));
            }
        }
    }

    /// Adds comparisons of the first traces, if there are several.
    fn compare(&mut self) {
        let count = self.shown.traces.len().min(MOST_COMPARED);
        let pairs =
            (0..count).flat_map(|a| (0..count).map(move |b| (a, b))).filter(|(a, b)| a != b);
        for (a, b) in pairs {
            let device = |trace: usize| self.shown.traces[trace].now().device(None, At::Peak);
            let (Ok(device_a), Ok(device_b)) = (device(a), device(b)) else { continue };
            let of =
                format!("a={a}&b={b}&device_a={device_a}&device_b={device_b}&at_a=peak&at_b=peak");
            for by in ["line", "module", "category", "op", "phase", "tensor", "stack"] {
                self.add_as(&format!("diff?{of}&by={by}"), "&top=100");
            }
            self.add(&format!("diff/curves?{of}"));
            self.add(&format!("diff/tree?{of}&by=stack"));
            self.add(&format!("diff/tree?{of}&by=module"));
        }
    }

    /// Adds enlargements of the pictures, the most used pictures first. Adds each level of a picture as a whole or not
    /// at all.
    fn enlarge(&mut self, subjects: &[(usize, Device)]) {
        let mut pictures: Vec<Picture> = Vec::new();
        for axis in AXES {
            let behind = |others: u32| others + 2 * u32::from(axis != "time");
            let path = "allocations/tile?".to_owned();
            pictures.push(Picture { path, axis, behind: behind(2), last: 0 });
            pictures.extend(STACKED.map(|by| {
                let (path, behind) =
                    (format!("timeline/tile?by={by}&"), behind(u32::from(by != "category")));
                Picture { path, axis, behind, last: 0 }
            }));
        }
        pictures.sort_by_key(|picture| picture.behind);
        for round in 1_u32.. {
            pictures.retain(|Picture { behind, last, .. }| {
                round <= *behind || self.used + 2 * last <= ROOM / 100 * SHARES[0]
            });
            let mut is_done = true;
            for picture in &mut pictures {
                let level = round.checked_sub(picture.behind).filter(|&level| level > 0);
                let Some(level) = level else {
                    is_done = false;
                    continue;
                };
                let before = self.used;
                is_done &= !self.enlarge_to(subjects, picture, level);
                picture.last = self.used - before;
            }
            if is_done {
                return;
            }
        }
    }

    /// Returns whether there was something to enlarge.
    fn enlarge_to(&mut self, subjects: &[(usize, Device)], picture: &Picture, level: u32) -> bool {
        let mut has_more = false;
        for &(trace, device) in subjects {
            if level > self.deepest(trace, device, picture.axis) {
                continue;
            }
            has_more = true;
            for tile in 0_u64..1 << level {
                let Picture { path, axis, .. } = picture;
                let of = format!("trace={trace}&device={device}&level={level}&tile={tile}");
                self.add(&format!("{path}axis={axis}&{of}"));
            }
        }
        has_more
    }

    fn deepest(&self, trace: usize, device: Device, axis: &str) -> u32 {
        let now = self.shown.traces[trace].now();
        let deepest = now.timeline(device, TimelineBy::Category, axis.parse().ok());
        deepest.map_or(0, |index| index.timeline().deepest_level)
    }

    /// Adds further times, each in turn for every device.
    fn moments(&mut self, subjects: &[(usize, Device)]) -> Moments {
        let all: Vec<Vec<f64>> = subjects
            .iter()
            .map(|&(trace, device)| moments(&self.shown.traces[trace].now(), device))
            .collect();
        let mut there = Moments::new();
        for turn in 0..all.iter().map(Vec::len).max().unwrap_or(0) {
            for (&(trace, device), found) in subjects.iter().zip(&all) {
                let Some(at) = found.get(turn) else { continue };
                // Always add the first one, the peak.
                if turn > 0 && !self.has_room(1) {
                    continue;
                }
                self.moment(&format!("trace={trace}&device={device}"), *at);
                there.entry(trace).or_default().entry(device.to_string()).or_default().push(*at);
            }
        }
        for moments in there.values_mut().flat_map(BTreeMap::values_mut) {
            moments.sort_by(f64::total_cmp);
        }
        there
    }

    fn moment(&mut self, of: &str, at: f64) {
        for by in GROUPED {
            let fewer = format!("&top={FEWER_ROWS}");
            self.add_as(&format!("report?{of}&by={by}&at={at}"), &fewer);
        }
        self.pictures(of, &at.to_string());
    }

    /// Adds the pictures at a time.
    fn pictures(&mut self, of: &str, at: &str) {
        self.add(&format!("icicle?{of}&by=stack&at={at}"));
        self.add(&format!("icicle?{of}&by=module&at={at}"));
        self.add(&format!("segments?{of}&at={at}"));
    }

    /// Adds the cards of the largest allocations.
    fn cards(&mut self, subjects: &[(usize, Device)]) {
        for &(trace, device) in subjects {
            for id in largest(self.shown, trace, device) {
                if !self.has_room(2) {
                    return;
                }
                self.add(&format!("allocation?trace={trace}&id={}", id.0));
            }
        }
    }

    /// All answers as one JSON object, compressed.
    fn pack(&self) -> io::Result<Vec<u8>> {
        let mut out = GzEncoder::new(Vec::new(), Compression::new(LEVEL));
        for (at, (request, answer)) in self.answers.iter().enumerate() {
            out.write_all(if at == 0 { b"{" } else { b"," })?;
            serde_json::to_writer(&mut out, request)?;
            out.write_all(b":")?;
            out.write_all(answer)?;
        }
        out.write_all(b"}")?;
        out.finish()
    }
}

/// Answers the text of a request, as the server does.
fn answer_text(shown: &ShownTraces<'_>, request: &str) -> Result<Vec<u8>, Refusal> {
    let (path, query) = request.split_once('?').unwrap_or((request, ""));
    let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
    let parameters: Parameters =
        pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    answer(shown, &ApiRequest::parse(path, &parameters)?)
}

fn packed_bytes(json: &[u8]) -> usize {
    let mut out = GzEncoder::new(Vec::new(), Compression::fast());
    out.write_all(json).and_then(|()| out.finish()).map_or(json.len(), |packed| packed.len())
}

fn largest(shown: &ShownTraces<'_>, trace: usize, device: Device) -> BTreeSet<AllocationId> {
    let now = shown.traces[trace].now();
    let all = (0_u32..).map(AllocationId).zip(&now.trace.allocations);
    let mut sized: Vec<_> = all
        .filter(|(_, allocation)| allocation.device == device)
        .map(|(id, allocation)| (allocation.rounded, id))
        .collect();
    let most = MOST_CARDS.min(sized.len());
    if most < sized.len() {
        sized.select_nth_unstable_by(most, |one, other| other.cmp(one));
    }
    sized[..most].iter().map(|&(_, id)| id).collect()
}
