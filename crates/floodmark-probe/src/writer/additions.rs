//! What a window adds to the rows of a batch: definitions, source files, samples of the GPUs.

use floodmark_trace::Batch;

use crate::writer::definitions::{DefinitionTable, WrittenDefinitions};
use crate::writer::gpu_samples::GpuSamples;
use crate::writer::touched_sources::TouchedSources;

/// The additions of one window.
#[derive(Debug, Default)]
pub(crate) struct Additions {
    /// The definitions that the window has, where it does not have all.
    pub(crate) referred: Option<WrittenDefinitions>,
    /// The source files that it has, where it has any.
    pub(crate) sources: Option<TouchedSources>,
    pub(crate) gpu_samples: GpuSamples,
}

impl Additions {
    /// Adds what a batch needs, and what has come since the batch before.
    pub(crate) fn complete(&mut self, known: &DefinitionTable, mut batch: Batch) -> Batch {
        if let Some(referred) = &mut self.referred {
            referred.complete(known, &mut batch);
        }
        if let Some(sources) = &mut self.sources {
            sources.complete(known, &mut batch);
        }
        batch.gpu_memory.append(&mut self.gpu_samples.waiting);
        batch
    }
}
