//! From the answer of the unchanged program to the model that guesses what changes would need.

use floodmark_profiles::{PeakModel, Rates};

use crate::tries::TryAnswer;

const GIB: f64 = 1_073_741_824.0;

/// The model of a program; none where its trace was not asked for one.
pub(super) fn peak_model(answer: &TryAnswer, rates: Option<&Rates>) -> Option<PeakModel> {
    let parts = answer.peak_parts.as_ref()?;
    let seconds = rates
        .zip(answer.cost.as_ref())
        .map(|(rates, cost)| (rates.host_mb_per_s, rates.step_time(cost, None).seconds()));
    let steps_per_gib = seconds.filter(|(_, seconds)| *seconds > 0.0).map(|(rate, seconds)| {
        #[expect(clippy::cast_precision_loss, reason = "a guess needs no more than 53 bits")]
        let bytes_a_second = rate.max(1) as f64 * 1e6;
        GIB / bytes_a_second / seconds
    });
    Some(PeakModel {
        moments: parts.moments.clone(),
        beside: answer.needed.saturating_sub(answer.peak_allocated),
        wasted: answer.peak_reserved.saturating_sub(answer.peak_allocated),
        is_half: parts.is_half,
        trains: parts.trains,
        blocks: parts.blocks,
        steps_per_gib,
    })
}

#[cfg(test)]
mod tests {
    use floodmark_trace::Bytes;

    use super::*;

    #[test]
    fn what_is_needed_beside_torch_is_part_of_the_model() {
        let mut answer = TryAnswer::default();
        (answer.needed, answer.peak_reserved, answer.peak_allocated) =
            (Bytes(30), Bytes(14), Bytes(10));
        answer.peak_parts = Some(floodmark_analysis::PeakParts::default());
        let model = peak_model(&answer, None).unwrap();
        assert_eq!((model.beside, model.wasted), (Bytes(20), Bytes(4)));
        assert_eq!(peak_model(&TryAnswer::default(), None), None);
    }
}
