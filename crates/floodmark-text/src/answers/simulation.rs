//! What other allocator settings would have done, as text.

use floodmark_analysis::{FailedRequest, SimulatedRun, Simulation};
use floodmark_trace::Bytes;

use crate::answer_text::AnswerText;
use crate::sheet::{self, Bar, Bars, Cells, Sheet, Tone};

impl From<&Simulation> for AnswerText {
    fn from(found: &Simulation) -> Self {
        let mut losses: Vec<String> = found.losses.0.iter().map(ToString::to_string).collect();
        if !found.is_reproduced {
            losses.push(
                "under its own settings the simulation does not reproduce the recording: the other figures may be \
                 off too"
                    .to_owned(),
            );
        }
        Self {
            above: vec![summary(found)],
            losses,
            sheets: vec![rows(found)],
            below: best(found).into_iter().chain(scope(found)).collect(),
        }
    }
}

fn summary(found: &Simulation) -> String {
    let check = if found.is_reproduced { "; they reproduce the recording" } else { "" };
    let Simulation { device, torch, .. } = found;
    format!("The same requests on {device}, by the rules of torch {torch}{check}")
}

fn rows(found: &Simulation) -> Sheet {
    let mut columns = sheet::words(&["PYTORCH_CUDA_ALLOC_CONF"]);
    columns.extend(sheet::numbers(&["Memory", "Allocated", "Reserved", "Waste", "Retries"]));
    columns.extend(sheet::words(&["Runs out"]));
    let recorded = &found.recorded;
    let as_run = SimulatedRun {
        alloc_conf: recorded.alloc_conf.clone(),
        memory: recorded.memory,
        peak_allocated: recorded.peak_allocated,
        peak_reserved: recorded.peak_reserved,
        waste: recorded.peak_reserved.saturating_sub(recorded.peak_allocated),
        retries: recorded.retries,
        oom: recorded.oom.clone(),
    };
    let survives = if recorded.oom.is_some() { "not at this request" } else { "no" };
    let mut rows = vec![cells(&as_run, "recorded: ", survives)];
    rows.extend(found.runs.iter().map(|run| cells(run, "", survives)));
    let runs = || std::iter::once(&as_run).chain(&found.runs);
    let most = runs().map(|run| run.peak_reserved).max().unwrap_or_default();
    let of = runs().map(|run| Bar::new(run.peak_reserved, most, Tone::Usual)).collect();
    Sheet { columns, rows, bars: Some(Bars { after: 3, of }), is_prose: false }
}

fn cells(run: &SimulatedRun, before: &str, survives: &str) -> Cells {
    let conf = if run.alloc_conf.is_empty() { "(default)" } else { &run.alloc_conf };
    let memory = run.memory.map_or_else(|| "no limit".to_owned(), |memory| memory.to_string());
    Cells {
        cells: vec![
            format!("{before}{conf}"),
            memory,
            run.peak_allocated.to_string(),
            run.peak_reserved.to_string(),
            run.waste.to_string(),
            run.retries.to_string(),
            run.oom.as_ref().map_or_else(|| survives.to_owned(), failed),
        ],
        below: Vec::new(),
    }
}

fn failed(oom: &FailedRequest) -> String {
    let step = oom.step.map_or_else(String::new, |step| format!("in step {step}, "));
    format!("{step}at {:.3} s, for {}", oom.seconds, oom.requested)
}

/// What a run without OOM does not show.
fn scope(found: &Simulation) -> Option<String> {
    let survives = found.runs.iter().any(|run| run.oom.is_none());
    found.scope.filter(|_| survives).map(str::to_owned)
}

/// The best settings, as a line for the shell.
fn best(found: &Simulation) -> Vec<String> {
    if found.runs.len() < 2 {
        return Vec::new();
    }
    let Some(best) = found.best.map(|at| &found.runs[at]) else {
        return vec!["All of them run out of memory.".to_owned()];
    };
    let recorded = &found.recorded;
    if best.alloc_conf == recorded.alloc_conf && recorded.oom.is_none() {
        return vec![
            "Best: the settings of the recording; none that was tried needs less.".to_owned(),
        ];
    }
    let line = match best.alloc_conf.as_str() {
        "" => "unset PYTORCH_CUDA_ALLOC_CONF".to_owned(),
        conf => format!("export PYTORCH_CUDA_ALLOC_CONF={conf}"),
    };
    // The baseline is a simulation too, since a simulation may differ from the recording.
    let own = found.runs.iter().find(|run| run.alloc_conf == recorded.alloc_conf);
    let baseline = own.map_or(recorded.peak_reserved, |run| run.peak_reserved);
    let saved = baseline.saturating_sub(best.peak_reserved);
    let what = if saved > Bytes(0) && recorded.oom.is_none() {
        let than = if baseline == recorded.peak_reserved {
            "recorded"
        } else {
            "with the settings of the recording, simulated"
        };
        format!("{saved} less reserved than {than}")
    } else {
        let fails = if recorded.oom.is_some() {
            "the failed request succeeds"
        } else {
            "no allocation fails"
        };
        format!("{} reserved, and {fails}", best.peak_reserved)
    };
    vec![format!("Best: {what}, with"), format!("  {line}")]
}
