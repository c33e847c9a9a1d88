//! Compares work areas with those of cuFFT 12 on an H200 (`fixtures/fft/work_areas.csv`).

use floodmark_cuda_model::fourier::{Transform, work_bytes};

/// One plan: its lengths, and whether our work area is as large as the library's.
struct RecordedPlan {
    lengths: Vec<u64>,
    is_equal: bool,
}

fn plans() -> Vec<RecordedPlan> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/fft/work_areas.csv");
    let text = std::fs::read_to_string(path).expect("the recording");
    text.lines().skip(1).map(plan).collect()
}

fn plan(line: &str) -> RecordedPlan {
    let fields: Vec<&str> = line.split(',').collect();
    let number = |text: &str| text.parse::<u64>().expect("a number");
    let lengths: Vec<u64> = fields[1].split('x').map(number).collect();
    let (is_real, complex_bytes) = match fields[0] {
        "C2C" => (false, 8),
        "R2C" | "C2R" => (true, 8),
        "Z2Z" => (false, 16),
        "D2Z" | "Z2D" => (true, 16),
        "half C2C" => (false, 4),
        other => panic!("no transform is called {other}"),
    };
    let ours = work_bytes(&lengths, number(fields[2]), Transform { is_real, complex_bytes });
    RecordedPlan { is_equal: ours == number(fields[3]), lengths }
}

fn is_smooth(length: u64) -> bool {
    let divided = [2, 3, 5, 7].into_iter().fold(length, |mut rest, prime| {
        while rest.is_multiple_of(prime) {
            rest /= prime;
        }
        rest
    });
    divided == 1
}

#[test]
fn products_of_small_primes_have_the_work_area_of_an_h200() {
    let smooth: Vec<RecordedPlan> = plans()
        .into_iter()
        .filter(|plan| plan.lengths.iter().all(|length| is_smooth(*length)))
        .collect();
    let equal = smooth.iter().filter(|plan| plan.is_equal).count();
    assert!(smooth.len() > 1500, "{} plans", smooth.len());
    assert!(equal * 100 >= smooth.len() * 99, "{equal} of {} are equal", smooth.len());
}

/// The lengths of Bluestein's method are not known to the byte.
#[test]
fn most_of_all_lengths_have_the_work_area_of_an_h200() {
    let all = plans();
    let equal = all.iter().filter(|plan| plan.is_equal).count();
    assert!(equal * 100 >= all.len() * 90, "{equal} of {} are equal", all.len());
}

#[test]
fn lengths_beyond_all_bounds_have_a_size() {
    let transform = Transform { is_real: true, complex_bytes: 16 };
    assert!(work_bytes(&[1 << 62, 1 << 62], 1 << 62, transform) > 1 << 62);
}
