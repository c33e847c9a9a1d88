//! Applies the rules to recorded calls: one line of JSON per call on stdin; on stdout the peak of
//! each, by the rules and as recorded. For `bench/fixtures/fake_hidden.py`.

#![expect(clippy::print_stdout, reason = "it is what the program is for")]

use std::io::BufRead;

use floodmark_testing::recorded_calls::{Recorded, h200};

fn main() {
    let machine = h200();
    for line in std::io::stdin().lock().lines().map_while(Result::ok) {
        let found = Recorded::parse(&line);
        let (found, peak) = found.map_or((0, 0), |call| (call.expected(&machine), call.peak));
        println!("{found} {peak}");
    }
}
