//! Arguments of the program whose values a plan may change.

use floodmark_profiles::{Change, Combination};

use crate::args::{PlanArgs, ProgramArgs, Setting, VariedValue};
use crate::tries::VariedProgram;

pub(super) fn varied(args: &PlanArgs) -> VariedProgram<'_> {
    VariedProgram { vary: &args.vary, program: &args.program, environment: &args.environment }
}

/// The values that the program does not have as it is: of each argument all but the first.
pub(super) fn other_values(args: &PlanArgs) -> Vec<Change> {
    let others = args.vary.iter().flat_map(|varied| {
        let name = &varied.name;
        varied.values[1..].iter().map(|&value| Change::Argument { name: name.clone(), value })
    });
    others.collect()
}

/// The program with the values of a combination.
pub(super) fn program_with(args: &PlanArgs, changes: &Combination) -> (ProgramArgs, Vec<Setting>) {
    let value = |varied: &VariedValue| {
        let value = changes.iter().find_map(|change| change.value_of(&varied.name));
        value.unwrap_or(varied.values[0])
    };
    let values: Vec<u64> = args.vary.iter().map(value).collect();
    varied(args).with(&values)
}
