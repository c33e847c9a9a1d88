//! The tries of `fit` and `plan`: estimates of one program, each in a process of its own.
//!
//! A try that is known from before comes from the [`cache`]; others are run by the [`runner`], from the second one on as
//! forks of a [`warm_process`].

mod answer;
mod cache;
mod comparison;
mod interruption;
mod runner;
pub(crate) mod text;
mod varied_program;
mod warm_process;

use std::ffi::OsStr;
use std::path::PathBuf;
use std::time::SystemTime;

use crate::args::{ProgramArgs, Setting};
use crate::in_parallel::processors;
use crate::requests::estimate::{self, EstimateRequest};
use crate::text::failure::Result;
pub(crate) use crate::tries::answer::TryAnswer;
pub use crate::tries::answer::printed;
pub(crate) use crate::tries::answer::requested;
use crate::tries::cache::Cache;
use crate::tries::interruption::Interruption;
use crate::tries::runner::{Output, Runner};
pub(crate) use crate::tries::varied_program::VariedProgram;

/// A try with no number of steps ends as soon as two steps in a row have the same peaks, and after this many steps at the latest.
const MOST_STEPS: u32 = 8;

/// One estimate that is asked for.
#[derive(Debug, Clone)]
pub(crate) struct Question {
    pub(crate) request: EstimateRequest,
    /// Variables of the environment that the program gets besides those of this process.
    pub(crate) environment: Vec<Setting>,
}

/// Asks for estimates, and remembers them.
pub(crate) struct Estimates<'a> {
    cache: Cache,
    runner: Runner<'a>,
    _interruption: Interruption,
}

impl<'a> Estimates<'a> {
    /// Up to `jobs` estimates will be asked for at a time.
    pub(crate) fn new(
        program: &ProgramArgs,
        python: &'a OsStr,
        no_cache: bool,
        jobs: usize,
    ) -> Result<Self> {
        let cache = if no_cache { Cache::none() } else { Cache::new(program, python) };
        let runner = Runner::new(python, jobs)?;
        let interruption = Interruption::watch(runner.folder().to_owned(), !no_cache);
        Ok(Self { cache, runner, _interruption: interruption })
    }

    /// What is known of it from before.
    pub(crate) fn known(&self, question: &Question) -> Option<TryAnswer> {
        self.cache.get(&with_steps(question))
    }

    /// An estimate, from the cache or from a process.
    pub(crate) fn ask(&self, question: &Question) -> Result<TryAnswer> {
        let question = with_steps(question);
        if let Some(known) = self.cache.get(&question) {
            return Ok(known);
        }
        let began = SystemTime::now();
        let output = self.runner.run(&question)?;
        Ok(self.read(&question, &output, began))
    }

    /// An estimate whose trace is kept at [`Self::kept_trace`]: it runs even if its answer is known.
    pub(crate) fn record(&self, question: &Question) -> Result<TryAnswer> {
        let question = with_steps(question);
        let began = SystemTime::now();
        let output = self.runner.run_and_keep(&question)?;
        Ok(self.read(&question, &output, began))
    }

    /// Where the trace of [`Self::record`] lies, as long as this value is there.
    pub(crate) fn kept_trace(&self) -> PathBuf {
        self.runner.kept_trace()
    }

    /// What a process answered, which is remembered if it is a verdict.
    fn read(&self, question: &Question, output: &Output, began: SystemTime) -> TryAnswer {
        let Ok(answer) = serde_json::from_slice::<TryAnswer>(&output.stdout) else {
            // It may have been killed: nothing to remember.
            return TryAnswer::of_failure(estimate::tail(&output.stderr));
        };
        if answer.has_verdict() {
            self.cache.put(question, &answer, &output.files, began);
        }
        answer
    }

    /// Many more will be asked for: prepare a process that runs them faster.
    pub(crate) fn warm_up(&self) {
        self.runner.warm_up();
    }

    /// The answer to the first question that was run, measured again under the conditions of all further ones; once.
    pub(crate) fn take_repeated(&self) -> Option<TryAnswer> {
        self.runner.take_repeated()
    }

    /// Why every estimate is a new process, or why runs of the program differ; none where neither is so.
    pub(crate) fn note(&self) -> Option<String> {
        self.runner.note()
    }

    /// Remembers another answer to a question that was answered.
    pub(crate) fn replace(&self, question: &Question, answer: &TryAnswer) {
        self.cache.replace(&with_steps(question), answer);
    }
}

fn with_steps(question: &Question) -> Question {
    let mut question = question.clone();
    if question.request.steps.is_none() {
        question.request.steps = Some(MOST_STEPS);
        question.request.until_steady = true;
    }
    question
}

/// How many tries run at a time: as many as there are processors, unless the user says otherwise.
pub(crate) fn jobs(asked: Option<u16>) -> usize {
    asked.map_or_else(processors, usize::from)
}
