//! The peak of each category by itself, independent of the others.

use std::collections::BTreeMap;

use floodmark_trace::{Bytes, Category, Device, Subject, Trace};
use schemars::JsonSchema;
use serde::Serialize;

use crate::allocation::category::category;
use crate::allocation::context::{Context, Phase};
use crate::moment::chosen_device;
use crate::question_error::QuestionError;

/// The peaks of one category.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
pub struct CategoryPeak {
    /// The category of the allocations.
    #[schemars(with = "Category")]
    pub category: &'static str,
    /// The most bytes of them at one time.
    pub peak: Bytes,
    /// The same of those that the backward pass allocated.
    pub backward_peak: Bytes,
}

#[derive(Default)]
struct CategoryBytes {
    now: u64,
    peak: u64,
}

impl CategoryBytes {
    fn change(&mut self, bytes: u64, grows: bool) {
        self.now =
            if grows { self.now.saturating_add(bytes) } else { self.now.saturating_sub(bytes) };
        self.peak = self.peak.max(self.now);
    }
}

/// The peaks of all categories on a device, in the order of [`Category::ALL`]: one pass over the events.
pub fn category_peaks(
    trace: &Trace,
    device: Option<Device>,
) -> Result<Vec<CategoryPeak>, QuestionError> {
    let device = chosen_device(trace, device)?;
    let context = Context::new(trace);
    let mut levels: BTreeMap<Category, (CategoryBytes, CategoryBytes)> = BTreeMap::new();
    for event in trace.events.iter().filter(|event| event.device == device) {
        let (Subject::Alloc(id) | Subject::Free { allocation: id, .. }) = event.subject else {
            continue;
        };
        let bytes = trace.allocations[id.index()].rounded.0;
        let grows = matches!(event.subject, Subject::Alloc(_));
        let (all, backward) = levels.entry(category(trace, &context, id)).or_default();
        all.change(bytes, grows);
        if context.work(id) == Phase::Backward {
            backward.change(bytes, grows);
        }
    }
    let found = Category::ALL.iter().filter_map(|category| {
        let (all, backward) = levels.get(category)?;
        Some(CategoryPeak {
            category: category.name(),
            peak: Bytes(all.peak),
            backward_peak: Bytes(backward.peak),
        })
    });
    Ok(found.collect())
}
