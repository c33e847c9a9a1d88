//! Round numbers along an axis.

/// The highest number of ticks of an axis.
const MANY: u32 = 100;

/// A few round values from 0 to at least `most`, with their labels.
pub(crate) fn ticks(most: f64, count: u32, unit: Unit) -> Vec<(f64, String)> {
    Scale::new(most, most, count, unit).between(0.0, most)
}

/// The round values of an axis, and their labels.
pub(crate) struct Scale {
    /// The name of the unit, and its size.
    name: &'static str,
    size: f64,
    /// In the unit.
    step: f64,
}

impl Scale {
    /// Ticks for values up to `most` on an axis that shows a range of `length`, about `count` of them.
    pub(crate) fn new(most: f64, length: f64, count: u32, unit: Unit) -> Self {
        let (name, size) = unit.fitting(most);
        let wanted = length / f64::from(count.max(1));
        let step = match unit {
            Unit::Bytes => round_up_bytes(wanted) / size,
            Unit::Seconds | Unit::Count => round_up(wanted / size, unit.least()),
        };
        Self { name, size, step }
    }

    /// The round values from `from` to `to`, with their labels.
    pub(crate) fn between(&self, from: f64, to: f64) -> Vec<(f64, String)> {
        let Self { name, size, step } = *self;
        let decimals = decimals(step);
        let first = (from / size / step - 1e-6).ceil();
        (0..=MANY)
            .map(|at| (first + f64::from(at)) * step)
            .take_while(|value| *value <= to / size * 1.000_001)
            .map(|value| (value * size, format!("{value:.decimals$}{name}")))
            .collect()
    }
}

/// The quantity of an axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unit {
    Bytes,
    Seconds,
    Count,
}

impl Unit {
    /// The unit in which the largest value has one to four digits.
    fn fitting(self, most: f64) -> (&'static str, f64) {
        let units: &[(&str, f64)] = match self {
            Self::Bytes => &[
                (" TiB", 1_099_511_627_776.0),
                (" GiB", 1_073_741_824.0),
                (" MiB", 1_048_576.0),
                (" KiB", 1024.0),
                (" B", 1.0),
            ],
            Self::Seconds => &[(" s", 1.0), (" ms", 1e-3), (" \u{b5}s", 1e-6)],
            Self::Count => &[("", 1.0)],
        };
        let fits = units.iter().find(|(_, size)| most >= *size * 0.95);
        *fits.or(units.last()).unwrap_or(&("", 1.0))
    }

    /// The least distance between two ticks.
    fn least(self) -> f64 {
        match self {
            Self::Count => 1.0,
            Self::Bytes | Self::Seconds => 0.0,
        }
    }
}

/// 1, 2 or 5 times a power of ten.
fn round_up(step: f64, least: f64) -> f64 {
    let step = step.max(least);
    if step <= 0.0 || !step.is_finite() {
        return 1.0;
    }
    let power = 10_f64.powf(step.log10().floor());
    let times = [1.0, 2.0, 5.0].into_iter().find(|times| times * power >= step * 0.999_999);
    times.unwrap_or(10.0) * power
}

/// A power of two: as on the page (`web/src/base/ticks.ts`), so that both have the same lines.
fn round_up_bytes(step: f64) -> f64 {
    (0..=60).map(|power| 2_f64.powi(power)).find(|power| *power >= step).unwrap_or(1.0)
}

fn decimals(step: f64) -> usize {
    let needed = [0_usize, 1, 2, 3, 4, 5, 6].into_iter().find(|&digits| {
        let shifted = step * 10_f64.powi(i32::try_from(digits).unwrap_or(0));
        (shifted - shifted.round()).abs() < 1e-6 * shifted.max(1.0)
    });
    needed.unwrap_or(6)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(most: f64, unit: Unit) -> Vec<String> {
        ticks(most, 5, unit).into_iter().map(|(_, name)| name).collect()
    }

    #[test]
    fn ticks_are_round_in_the_unit_that_fits() {
        assert_eq!(names(12.0 * 1e9, Unit::Bytes), ["0 GiB", "4 GiB", "8 GiB"]);
        let small = names(1.1 * 1_073_741_824.0, Unit::Bytes);
        assert_eq!(small, ["0.00 GiB", "0.25 GiB", "0.50 GiB", "0.75 GiB", "1.00 GiB"]);
        assert_eq!(names(0.43, Unit::Seconds), ["0 ms", "100 ms", "200 ms", "300 ms", "400 ms"]);
        assert_eq!(names(3.0, Unit::Count), ["0", "1", "2", "3"]);
        assert_eq!(names(0.0, Unit::Bytes), ["0 B"]);
    }

    /// The page draws its own axes: `fixtures/ticks.json` has where both have lines.
    #[test]
    fn ticks_of_bytes_are_where_the_page_has_them() {
        let table = include_str!("../../../../fixtures/ticks.json");
        let table: Vec<serde_json::Value> = serde_json::from_str(table).unwrap();
        for row in table {
            let number = |name: &str| row[name].as_f64().unwrap();
            let count = u32::try_from(row["most"].as_u64().unwrap()).unwrap();
            let found = ticks(number("highest"), count, Unit::Bytes);
            let found: Vec<f64> = found.into_iter().map(|(at, _)| at.round()).collect();
            let at: Vec<f64> = row["at"]
                .as_array()
                .unwrap()
                .iter()
                .filter_map(serde_json::Value::as_f64)
                .collect();
            assert_eq!(found, at, "{row}");
        }
    }
}
