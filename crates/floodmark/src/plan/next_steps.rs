//! Where nothing fits: what would, tried. The smallest GPU that has enough for the try that needs least, and sharding
//! over as few GPUs as it takes.

use floodmark_profiles::{Change, Combination, GpuProfile, TryOutcome, profiles};
use floodmark_trace::Bytes;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::plan::tries::Tries;
use crate::text::failure::Result;

/// Over how many GPUs it is tried to shard the model.
const GPUS: [u32; 3] = [2, 4, 8];

/// A way to run the program where no change of it is enough.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub(crate) struct NextStep {
    /// The name of the GPU.
    pub(super) gpu: String,
    /// Its memory.
    pub(super) capacity: Bytes,
    /// As behind `--gpu`; empty for the GPU that the plan is for.
    pub(super) profile: String,
    /// How many of them.
    pub(super) gpus: u32,
    /// The changes with which the program was run on it, and fits.
    pub(super) changes: Vec<String>,
    /// What each GPU needs.
    pub(super) needed: Bytes,
}

/// The next steps that fit: each was run.
pub(super) fn next_steps(tries: &mut Tries<'_>, given: &GpuProfile) -> Result<Vec<NextStep>> {
    let least = tries.done().iter().min_by(|(one, a), (other, b)| {
        let time = |changes: &Combination| tries.slow_down(changes).unwrap_or(1.0);
        let needed = a.answer.needed.cmp(&b.answer.needed);
        needed.then(time(one).total_cmp(&time(other))).then(one.len().cmp(&other.len()))
    });
    let Some((least, needed)) = least.map(|(changes, done)| (changes.clone(), done.answer.needed))
    else {
        return Ok(Vec::new());
    };
    let mut found = Vec::new();
    found.extend(larger_gpu(tries, given, &least, needed)?);
    found.extend(more_gpus(tries, given, &least)?);
    Ok(found)
}

/// The smallest GPU on which the program runs with these changes.
fn larger_gpu(
    tries: &Tries<'_>,
    given: &GpuProfile,
    changes: &Combination,
    needed: Bytes,
) -> Result<Option<NextStep>> {
    let mut enough: Vec<(&str, GpuProfile)> = profiles();
    enough.retain(|(_, gpu)| gpu.memory >= needed.0 && (gpu.has_bf16() || !given.has_bf16()));
    // What else it allocates depends on the GPU: the next one may be needed.
    enough.sort_by_key(|(name, gpu)| (gpu.memory, gpu.name != given.name, *name));
    for (name, gpu) in enough.into_iter().take(2) {
        if tries.prove_on(changes, name)? {
            return Ok(Some(NextStep {
                gpu: gpu.name,
                capacity: Bytes(gpu.memory),
                profile: name.to_owned(),
                gpus: changes.iter().map(Change::gpus).max().unwrap_or(1),
                changes: changes.iter().map(ToString::to_string).collect(),
                needed,
            }));
        }
    }
    Ok(None)
}

/// As few GPUs as it takes to shard the model over, of the kind that the plan is for.
fn more_gpus(
    tries: &mut Tries<'_>,
    given: &GpuProfile,
    changes: &Combination,
) -> Result<Option<NextStep>> {
    if changes.iter().any(|change| change.gpus() > 1) {
        return Ok(None);
    }
    for gpus in GPUS {
        let mut sharded = changes.clone();
        sharded.push(Change::Fsdp(gpus));
        sharded.sort();
        let outcome = tries.attempt(std::slice::from_ref(&sharded))?.pop();
        let Some(TryOutcome::Ran(need)) = outcome else { return Ok(None) };
        let is_applied =
            |change: &&Change| need.not_applied.iter().all(|(other, _)| other != *change);
        let ran: Combination = sharded.iter().filter(is_applied).cloned().collect();
        if need.gpus < gpus {
            return Ok(None);
        }
        if need.fits {
            // Where it fits because torch frees cached blocks, the run on the GPU itself counts.
            let done = &tries.done()[&ran];
            let needed = done.on_gpu.as_ref().map_or(need.needed, |answer| answer.needed);
            return Ok(Some(NextStep {
                gpu: given.name.clone(),
                capacity: Bytes(given.memory),
                profile: String::new(),
                gpus,
                changes: ran.iter().map(ToString::to_string).collect(),
                needed,
            }));
        }
    }
    Ok(None)
}
