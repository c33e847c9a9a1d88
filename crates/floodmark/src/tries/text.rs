//! What `fit` and `plan` say of their tries: for how many steps the program ran, and which are from earlier runs.

use floodmark_analysis::StepPeaks;
use floodmark_text::plural::plural;
use floodmark_trace::{Bytes, PhantomEnd};

const SECONDS_OF_DAY: u64 = 86_400;

/// How much of the program a try ran: `3 steps`, `the whole run of 5 steps`.
pub(crate) fn length(ended: PhantomEnd, steps: u32) -> String {
    let made = plural(steps.into(), "step");
    match ended {
        PhantomEnd::Done if steps > 0 => format!("the whole run of {made}"),
        PhantomEnd::Done => "the whole run".to_owned(),
        PhantomEnd::Steps | PhantomEnd::OutOfMemory | PhantomEnd::Failed | PhantomEnd::Unknown => {
            made
        }
    }
}

/// What further steps may need, where the last ones did not have the same peak.
pub(crate) fn further_steps(found: Option<StepPeaks>, steps: u32) -> Option<String> {
    let made = plural(steps.into(), "step");
    match found? {
        StepPeaks::Equal => None,
        StepPeaks::Differ => Some(format!(
            "The last of {made} had different peaks: further steps may need more, and may not fit (try more with `--steps`)"
        )),
        StepPeaks::Grow => Some(format!(
            "The peak still grew in the last of {made}: further steps need more, and may not fit (try more with `--steps`)"
        )),
    }
}

/// How many tries are from earlier runs, and from when; none where all ran now.
pub(crate) fn earlier_runs(tries: &[Option<u64>]) -> Option<String> {
    let mut times: Vec<u64> = tries.iter().flatten().copied().collect();
    times.sort_unstable();
    let (first, last) = (utc(*times.first()?), utc(*times.last()?));
    let when = if first == last { first } else { format!("{first} to {last}") };
    let (of, is) = (tries.len(), if times.len() == 1 { "is" } else { "are" });
    let all = plural(of as u64, "try").replace("trys", "tries");
    Some(format!(
        "{} of {all} {is} from an earlier run, {when} (`--no-cache` tries again)",
        times.len()
    ))
}

/// A number of bytes, in full where it would look like a limit that it is not.
pub(crate) fn beside_limit(bytes: Bytes, limit: Bytes) -> String {
    let text = bytes.to_string();
    if bytes != limit && text == limit.to_string() { format!("{} B", bytes.0) } else { text }
}

/// `2026-11-18 13:05 UTC`.
pub(crate) fn utc(seconds: u64) -> String {
    let (days, of_day) = (seconds / SECONDS_OF_DAY, seconds % SECONDS_OF_DAY);
    // Years begin in March here, so that the day of a leap year is the last one; 400 years have 146,097 days.
    let days = days + 719_468;
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let (month, later) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    let year = era * 400 + year + later;
    format!("{year}-{month:02}-{day:02} {:02}:{:02} UTC", of_day / 3600, of_day / 60 % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_a_date() {
        let dates = [0, 951_782_400, 1_709_251_199, 1_735_689_599, 1_795_007_160].map(utc);
        assert_eq!(
            dates,
            [
                "1970-01-01 00:00 UTC",
                "2000-02-29 00:00 UTC",
                "2024-02-29 23:59 UTC",
                "2024-12-31 23:59 UTC",
                "2026-11-18 13:06 UTC",
            ]
        );
    }

    #[test]
    fn earlier_runs_are_counted() {
        assert_eq!(earlier_runs(&[None, None]), None);
        assert_eq!(
            earlier_runs(&[Some(0), None]).unwrap(),
            "1 of 2 tries is from an earlier run, 1970-01-01 00:00 UTC (`--no-cache` tries again)"
        );
        let two = earlier_runs(&[Some(90_000), Some(0)]).unwrap();
        assert!(two.starts_with(
            "2 of 2 tries are from an earlier run, 1970-01-01 00:00 UTC to 1970-01-02"
        ));
    }

    #[test]
    fn bytes_beside_a_limit_are_told_apart() {
        let limit = Bytes(1 << 30);
        assert_eq!(beside_limit(limit, limit), "1.000 GiB");
        assert_eq!(beside_limit(Bytes((1 << 30) + 1), limit), "1073741825 B");
        assert_eq!(beside_limit(Bytes(3 << 29), limit), "1.500 GiB");
    }

    #[test]
    fn a_try_says_how_much_of_the_program_ran() {
        assert_eq!(length(PhantomEnd::Steps, 1), "1 step");
        assert_eq!(length(PhantomEnd::Done, 5), "the whole run of 5 steps");
        assert_eq!(length(PhantomEnd::Done, 0), "the whole run");
    }
}
