//! Reads a recording of this process while it is open.
//!
//! There is one [`Trace`], which grows in place, with one index. Each reader gets a [`TraceView`], the trace at that time. A
//! question to a view is answered from the shared trace if no more has been read since, and nothing is copied. Otherwise the
//! view makes a copy of its own, without the newer events.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;
use std::sync::{Arc, OnceLock};

use floodmark_analysis::GrowingIndex;
use floodmark_trace::{Batch, Ending, GrowingReader, GrowingTrace, Header, Trace, TracePoint};
use parking_lot::RwLock;

use crate::traces::open::OpenError;
use crate::traces::regular_file::open_regular;

/// A recording that is read while it is open.
#[derive(Debug, Default)]
pub struct GrowingWindow {
    state: Arc<RwLock<WindowState>>,
}

#[derive(Debug, Default)]
struct WindowState {
    trace: WindowTrace,
    /// The index, since the first question.
    index: OnceLock<GrowingIndex>,
    /// The number of reads. A view with another number is older.
    revision: u64,
}

#[derive(Debug)]
enum WindowTrace {
    Memory { trace: Box<GrowingTrace>, batches: usize },
    File(Box<GrowingReader>),
}

impl Default for WindowTrace {
    fn default() -> Self {
        Self::Memory { trace: Box::default(), batches: 0 }
    }
}

impl WindowState {
    fn trace(&self) -> &Trace {
        match &self.trace {
            WindowTrace::Memory { trace, .. } => trace.completed(),
            WindowTrace::File(reader) => reader.completed(),
        }
    }

    /// Marks older views as outdated, and extends the index.
    fn note_growth(&mut self) {
        self.revision += 1;
        if let Some(mut index) = self.index.take() {
            index.extend(self.trace());
            self.index = OnceLock::from(index);
        }
    }
}

impl GrowingWindow {
    /// Reads what is new in a window in memory. `news` gets the number of batches that were read, and returns the following
    /// ones with the header and the ending; `None` if a file has the events.
    pub fn read_memory(
        &self,
        news: impl FnOnce(usize) -> Option<(Vec<Batch>, Header, Option<Ending>)>,
    ) -> Option<TraceView> {
        let mut state = self.state.write();
        let WindowTrace::Memory { trace, batches } = &mut state.trace else { return None };
        let (new, header, ending) = news(*batches)?;
        let known = trace.completed();
        let is_same = new.is_empty() && known.header == header && known.ending == ending;
        if !is_same || *batches == 0 {
            *batches += new.len();
            for batch in new {
                trace.push(batch);
            }
            trace.complete(&header, ending);
            state.note_growth();
        }
        Some(self.view(&state))
    }

    /// Reads what is new in the file of a window. The journal is not read: the recorder has written all requested records.
    pub fn read_file(&self, path: &Path) -> Result<TraceView, OpenError> {
        let mut state = self.state.write();
        if matches!(state.trace, WindowTrace::Memory { .. }) {
            // The window did not fit in memory: the file has all events.
            state.trace = WindowTrace::File(Box::default());
            state.index = OnceLock::new();
        }
        if let WindowTrace::File(reader) = &mut state.trace
            && read_more(path, reader)?
        {
            reader.complete()?;
            state.note_growth();
        }
        Ok(self.view(&state))
    }

    fn view(&self, state: &WindowState) -> TraceView {
        let (revision, point) = (state.revision, state.trace().point());
        let shared = Some(Shared { state: Arc::clone(&self.state), revision, point });
        TraceView { shared, own: OnceLock::new() }
    }
}

/// Returns whether there was more.
fn read_more(path: &Path, reader: &mut GrowingReader) -> Result<bool, OpenError> {
    let mut file: File = open_regular(path)?;
    file.seek(SeekFrom::Start(reader.taken()))?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    let is_more = reader.taken() == 0 || !bytes.is_empty();
    reader.take(&bytes)?;
    Ok(is_more)
}

/// A trace as it was when it was read.
#[derive(Debug)]
pub struct TraceView {
    shared: Option<Shared>,
    own: OnceLock<Own>,
}

/// The window of a view.
#[derive(Debug)]
struct Shared {
    state: Arc<RwLock<WindowState>>,
    revision: u64,
    point: TracePoint,
}

#[derive(Debug)]
struct Own {
    trace: Trace,
    index: OnceLock<GrowingIndex>,
}

impl From<Trace> for TraceView {
    fn from(trace: Trace) -> Self {
        Self { shared: None, own: OnceLock::from(Own { trace, index: OnceLock::new() }) }
    }
}

impl TraceView {
    /// Asks a question. The window reads nothing new until it is answered.
    pub fn ask<R>(&self, question: impl FnOnce(IndexedTrace<'_>) -> R) -> R {
        if let Some(shared) = &self.shared {
            // A question about two views locks twice.
            let state = shared.state.read_recursive();
            if state.revision == shared.revision {
                return question(IndexedTrace { trace: state.trace(), index: &state.index });
            }
        }
        let own = self.own.get_or_init(|| self.copy());
        question(IndexedTrace { trace: &own.trace, index: &own.index })
    }

    /// A copy of the trace as it was, if more has been read since.
    fn copy(&self) -> Own {
        let until = |shared: &Shared| shared.state.read_recursive().trace().until(&shared.point);
        let trace = self.shared.as_ref().map(until).unwrap_or_default();
        Own { trace, index: OnceLock::new() }
    }
}

/// Asks a question about several traces.
pub fn ask_all<R>(views: &[&TraceView], question: impl FnOnce(&[&Trace]) -> R) -> R {
    ask_rest(views, Vec::new(), Box::new(question))
}

type AboutAll<'a, R> = Box<dyn FnOnce(&[&Trace]) -> R + 'a>;

fn ask_rest<R>(rest: &[&TraceView], asked: Vec<&Trace>, question: AboutAll<'_, R>) -> R {
    let Some((view, rest)) = rest.split_first() else { return question(&asked) };
    view.ask(|next| {
        let asked = asked.into_iter().chain([next.trace]).collect();
        ask_rest(rest, asked, question)
    })
}

/// A trace and its index.
#[derive(Debug, Clone, Copy)]
pub struct IndexedTrace<'a> {
    /// The trace.
    pub trace: &'a Trace,
    index: &'a OnceLock<GrowingIndex>,
}

impl<'a> IndexedTrace<'a> {
    /// The index. The first question reads all events, later ones only the new events.
    pub fn index(&self) -> &'a GrowingIndex {
        self.index.get_or_init(|| GrowingIndex::new(self.trace))
    }
}

#[cfg(test)]
mod tests {
    use floodmark_analysis::{At, By, Question, report, summary};
    use floodmark_trace::{Assembler, TraceWriter, read_trace};

    use super::*;
    use floodmark_testing::script;

    const SCRIPT: &str = "
        initial w cuda:0 1MiB
        alloc a cuda:0 4MiB at train.py:1
        label a gradient w.grad
        save a
        free w
        alloc b cuda:0 2MiB at train.py:2
        step
        unpack a
        label a parameter w
        alloc c cpu 2MiB at train.py:3
        free a
        oom cuda:0 1GiB at train.py:2
        alloc d cuda:0 9MiB at train.py:2
        step";

    /// What the script records, three records at a time.
    fn batches() -> Vec<Batch> {
        let entries = script::entries(SCRIPT);
        let mut assembler = Assembler::default();
        let mut batches = Vec::new();
        for some in entries.chunks(3) {
            for entry in some {
                assembler.push(&entry.record, &entry.payload);
            }
            batches.push(assembler.take_batch());
        }
        batches
    }

    /// All answers of a view must be those of the trace at the time of the read.
    fn check(view: &TraceView, batches: &[Batch]) {
        let mut growing = GrowingTrace::default();
        for batch in batches {
            growing.push(batch.clone());
        }
        let expected = growing.complete(&script::header(), None);
        view.ask(|it| {
            assert_eq!(it.index().summary(it.trace).events, summary(expected).events);
            assert_eq!(it.index().summary(it.trace).devices, summary(expected).devices);
            for at in [At::Peak, At::End, At::Oom] {
                for by in By::ALL {
                    let question = Question { by, at, ..Question::default() };
                    let actual = it.index().report(it.trace, &question).map(|actual| actual.rows);
                    assert_eq!(actual, report(expected, &question).map(|report| report.rows));
                }
            }
        });
    }

    #[test]
    fn a_view_answers_for_the_time_at_which_it_was_read() {
        let (window, batches) = (GrowingWindow::default(), batches());
        let mut views = Vec::new();
        for known in 1..=batches.len() {
            let news = |read: usize| Some((batches[read..known].to_vec(), script::header(), None));
            let view = window.read_memory(news).unwrap();
            check(&view, &batches[..known]);
            views.push(view);
        }
        for (at, view) in views.iter().enumerate() {
            check(view, &batches[..=at]);
        }
        let all: Vec<&TraceView> = views.iter().collect();
        let events = ask_all(&all, |traces| traces.iter().map(|it| it.events.len()).collect());
        let events: Vec<usize> = events;
        assert!(events.is_sorted() && events.first() < events.last());
    }

    #[test]
    fn a_window_that_moved_to_a_file_is_read_there() {
        let (window, batches) = (GrowingWindow::default(), batches());
        let few = batches[..2].to_vec();
        window.read_memory(|_| Some((few, script::header(), None))).unwrap();
        let folder = tempfile::TempDir::new().unwrap();
        let path = folder.path().join("x.flood");
        let file = File::create(&path).unwrap();
        let mut writer = TraceWriter::new(file, &script::header()).unwrap();
        let mut views = Vec::new();
        for (at, batch) in batches.iter().enumerate() {
            writer.write_batch(batch).unwrap();
            assert!(window.read_memory(|_| None).is_none());
            let view = window.read_file(&path).unwrap();
            check(&view, &batches[..=at]);
            views.push(view);
        }
        writer.finish(&Ending { reason: String::new(), at_micros: 9_000_000 }).unwrap();
        let whole = window.read_file(&path).unwrap();
        let bytes = std::fs::read(&path).unwrap();
        whole.ask(|it| {
            assert_eq!(it.index().summary(it.trace), summary(&read_trace(&bytes, &[]).unwrap()));
        });
        check(&views[2], &batches[..3]);
    }
}
