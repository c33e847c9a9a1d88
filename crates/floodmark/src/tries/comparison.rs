//! Whether two runs of one program gave the same answer, and what differs.

use std::path::Path;

use floodmark_analysis::first_difference;
use floodmark_files::traces::open_trace;
use floodmark_trace::StepCost;
use serde_json::{Map, Value};

use crate::tries::TryAnswer;

/// The longest value that is shown of a figure.
const MOST_CHARACTERS: usize = 80;

/// Compares all that is read of two answers, to the byte. How long things took may differ.
///
/// Fails with the first figure that differs, or with what is wrong with an answer.
pub(super) fn same_answer(one: &[u8], other: &[u8]) -> Result<TryAnswer, String> {
    let read = |text| serde_json::from_slice::<TryAnswer>(text);
    let first = read(one).map_err(|_| "the first try gave no answer".to_owned())?;
    let again = read(other).map_err(|_| "its repetition gave no answer".to_owned())?;
    match different_figure(&figures(&first), &figures(&again)) {
        Some(figure) => Err(figure),
        None => Ok(again),
    }
}

/// The first allocation in which two traces differ, as a sentence; none where there is none, or a trace cannot be read.
pub(super) fn different_allocation(one: &Path, other: &Path) -> Option<String> {
    let (one, other) = (open_trace(one).ok()?, open_trace(other).ok()?);
    first_difference(&one, &other).map(|found| found.to_string())
}

fn figures(answer: &TryAnswer) -> Map<String, Value> {
    let cost = answer.cost.clone().map(|cost| StepCost { host_nanos: None, ..cost });
    let answer = TryAnswer { cost, ..answer.clone() };
    match serde_json::to_value(&answer) {
        Ok(Value::Object(figures)) => figures,
        Ok(_) | Err(_) => Map::new(),
    }
}

/// `steps: 4 and 3`.
fn different_figure(one: &Map<String, Value>, other: &Map<String, Value>) -> Option<String> {
    let shown = |value: Option<&Value>| -> String {
        value.map(ToString::to_string).unwrap_or_default().chars().take(MOST_CHARACTERS).collect()
    };
    // What was needed says more than what it was made of.
    let (plain, made): (Vec<_>, Vec<_>) =
        one.iter().partition(|(_, value)| !value.is_array() && !value.is_object());
    let mut all = plain.into_iter().chain(made);
    let (name, value) = all.find(|(name, value)| other.get(*name) != Some(*value))?;
    let name = name.replace('_', " ");
    if value.is_array() || value.is_object() {
        return Some(name);
    }
    Some(format!(
        "{name}: {} and {}",
        shown(Some(value)),
        shown(other.get(&name.replace(' ', "_")))
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(steps: u32, nanos: u64) -> Vec<u8> {
        let cost = StepCost { host_nanos: Some(nanos), ..StepCost::default() };
        let answer = TryAnswer { steps, cost: Some(cost), ..TryAnswer::default() };
        serde_json::to_vec(&answer).unwrap()
    }

    #[test]
    fn the_time_of_the_host_is_no_difference() {
        assert_eq!(same_answer(&answer(3, 5), &answer(3, 9)).unwrap().steps, 3);
    }

    #[test]
    fn the_figure_that_differs_is_named_with_both_values() {
        let why = same_answer(&answer(3, 5), &answer(4, 5)).unwrap_err();
        assert_eq!(why, "steps: 3 and 4");
        assert_eq!(same_answer(&answer(3, 5), b"").unwrap_err(), "its repetition gave no answer");
    }
}
