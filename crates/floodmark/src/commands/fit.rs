//! `floodmark fit`: the largest value with which a program fits. Each try is a process of its own: CUDA, also a
//! simulated one, begins once in a process.

use std::ffi::{OsStr, OsString};
use std::time::Instant;

use anyhow::{Context, Result};
use floodmark_profiles::{FitLimits, FitSearch, Tried, largest_that_fits};
use floodmark_session::text::answer_text::AnswerText;
use floodmark_session::text::sheet::{self, Cells, Sheet};
use floodmark_trace::Bytes;
use schemars::JsonSchema;
use serde::Serialize;

use crate::Said;
use crate::commands::args::{FitArgs, ProgramArgs, Setting};
use crate::commands::estimate::machine;
use crate::commands::run;
use crate::commands::tries::{self, Estimates, Question};
use crate::text::failure::Problem;
use crate::text::output;
use crate::text::stdout_style;

/// The largest value with which a program fits on a simulated GPU.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Fit {
    /// The version of floodmark that wrote the answer.
    floodmark: &'static str,
    /// The version of this JSON: it changes when a field changes its meaning.
    format: u32,
    /// The name of the value.
    name: String,
    /// The name of the GPU profile.
    gpu: String,
    /// The largest value that fits; null when the smallest does not.
    largest: Option<u64>,
    /// Whether it is the largest value of the question, so that larger ones may fit too.
    is_last: bool,
    /// Pairs of values of which the larger one needs less memory.
    not_monotone: Vec<[u64; 2]>,
    /// Every try, smallest value first.
    tries: Vec<Try>,
}

/// One estimate.
#[derive(Debug, Clone, Serialize, JsonSchema)]
struct Try {
    /// The value.
    value: u64,
    /// Whether it fits.
    fits: bool,
    /// The most that torch had allocated, of all devices.
    peak_allocated: Bytes,
    /// The most that torch had reserved, of all devices.
    peak_reserved: Bytes,
    /// What it needs with the CUDA context; a lower bound when it does not fit.
    needed: Bytes,
    /// How long the try took.
    seconds: f64,
}

impl Tried for Try {
    fn needed(&self) -> Option<Bytes> {
        self.fits.then_some(self.needed)
    }
}

pub(crate) fn fit(args: &FitArgs, python: &OsStr) -> Result<Said> {
    let machine = machine(&args.phantom)?;
    run::target(args.program.clone())?;
    check_placeholder(args)?;
    let estimates = Estimates::new(&args.program, python, args.no_cache)?;
    let name = &args.vary.name;
    let values = &args.vary.values;
    let limits = FitLimits {
        capacity: Bytes(machine.profile.memory),
        jobs: tries::jobs(args.jobs),
        looks_further: true,
    };
    let FitSearch { tried, largest } = largest_that_fits(values, limits, |batch| {
        if *batch != values[..1] {
            estimates.warm_up();
        }
        let tried =
            tries::in_parallel(limits.jobs, batch, |&value| attempt(args, &estimates, value))?;
        for outcome in &tried {
            let fits = if outcome.fits { "fits" } else { "does not fit" };
            let Try { value, peak_allocated, peak_reserved, seconds, .. } = outcome;
            output::talk(&format!(
                "{name} = {value} {fits}: {peak_allocated} allocated, {peak_reserved} reserved, {seconds:.1} s\n"
            ));
        }
        anyhow::Ok(tried)
    })?;
    let tries: Vec<Try> = tried.into_values().collect();
    let found = Fit {
        floodmark: env!("CARGO_PKG_VERSION"),
        format: floodmark_analysis::FORMAT,
        name: name.clone(),
        gpu: machine.profile.name,
        largest: largest.map(|at| values[at]),
        is_last: largest.is_some_and(|at| at + 1 == values.len()),
        not_monotone: not_monotone(&tries),
        tries,
    };
    let text = if args.json {
        serde_json::to_string_pretty(&found)? + "\n"
    } else {
        stdout_style::show(&found)
    };
    let nothing = || Problem::NothingFits { name: name.clone(), value: values[0] };
    let objection = found.largest.is_none().then(|| anyhow::Error::new(nothing()));
    Ok(Said { objection, ..text.into() })
}

fn check_placeholder(args: &FitArgs) -> Result<()> {
    let placeholder = args.vary.placeholder();
    let words = args.program.words.iter().filter_map(|word| word.to_str());
    let mut all = words.chain(args.environment.iter().map(|setting| &*setting.value));
    if all.any(|text| text.contains(&placeholder)) {
        return Ok(());
    }
    Err(Problem::NothingVaries { placeholder }).context("Failed to vary the program")
}

/// One try.
fn attempt(args: &FitArgs, estimates: &Estimates<'_>, value: u64) -> Result<Try> {
    let began = Instant::now();
    let answer = estimates.ask(&question(args, value))?;
    let name = || args.vary.name.clone();
    if answer.is_empty() {
        return Err(anyhow::Error::new(Problem::NothingOnGpu { name: name(), value }));
    }
    let failed = || {
        let tail = answer.error.clone();
        anyhow::Error::new(Problem::TryFailed { name: name(), value, tail })
    };
    Ok(Try {
        value,
        fits: answer.fits.ok_or_else(failed)?,
        peak_allocated: answer.peak_allocated,
        peak_reserved: answer.peak_reserved,
        needed: answer.needed(),
        seconds: began.elapsed().as_secs_f64(),
    })
}

fn question(args: &FitArgs, value: u64) -> Question {
    let put = |word: &OsString| match word.to_str() {
        Some(text) => OsString::from(args.vary.put(text, value)),
        None => word.clone(),
    };
    let words = args.program.words.iter().map(put).collect();
    let set = |setting: &Setting| Setting {
        key: setting.key.clone(),
        value: args.vary.put(&setting.value, value),
    };
    Question {
        phantom: args.phantom.clone(),
        program: ProgramArgs { words, ..args.program },
        environment: args.environment.iter().map(set).collect(),
    }
}

/// Pairs of values next to each other of which the larger one needs less, or fits where the smaller does not.
fn not_monotone(tries: &[Try]) -> Vec<[u64; 2]> {
    let falls = |pair: &&[Try]| {
        let both_fit = pair[0].fits && pair[1].fits;
        (both_fit && pair[1].peak_allocated < pair[0].peak_allocated)
            || (!pair[0].fits && pair[1].fits)
    };
    tries.windows(2).filter(falls).map(|pair| [pair[0].value, pair[1].value]).collect()
}

impl From<&Fit> for AnswerText {
    fn from(found: &Fit) -> Self {
        let Fit { name, gpu, .. } = found;
        let answer = match found.largest {
            Some(value) if found.is_last => {
                format!("{name} = {value} fits on {gpu}: the largest value of `--vary`")
            }
            Some(value) => format!("{name} = {value} is the largest that fits on {gpu}"),
            None => format!("No value of {name} fits on {gpu}"),
        };
        let mut columns = sheet::numbers(&[name, "Peak allocated", "Peak reserved", "Needed"]);
        columns.extend(sheet::words(&["Fits"]));
        let rows = found.tries.iter().map(|tried| Cells {
            cells: vec![
                tried.value.to_string(),
                tried.peak_allocated.to_string(),
                tried.peak_reserved.to_string(),
                format!("{}{}", if tried.fits { "" } else { "> " }, tried.needed),
                if tried.fits { "yes" } else { "no" }.to_owned(),
            ],
            below: Vec::new(),
        });
        let odd = found.not_monotone.iter().map(|[less, more]| {
            format!("{name} = {more} needs less than {less} does: a value that was not tried may fit too")
        });
        Self {
            above: vec![answer],
            losses: odd.collect(),
            sheets: vec![Sheet { columns, rows: rows.collect(), ..Sheet::default() }],
            below: Vec::new(),
        }
    }
}
