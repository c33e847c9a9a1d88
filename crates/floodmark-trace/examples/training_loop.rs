//! Writes the recording of a made-up training loop, and times how fast it is read.
//!
//! ```text
//! cargo run --release -p floodmark-trace --example training_loop -- STEPS FILE
//! ```

use std::time::Instant;

use floodmark_testing::training_loop;

const FLUSH_ROWS: usize = 32_000;

#[expect(clippy::print_stdout, reason = "an example says what it found")]
#[expect(clippy::cast_precision_loss, reason = "three digits are shown")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let steps: u32 = args.next().map_or(Ok(500), |steps| steps.parse())?;
    let began = Instant::now();
    let (file, events) = training_loop::write_loop(steps, FLUSH_ROWS);
    println!("{events} events written in {:.3} s", began.elapsed().as_secs_f64());
    println!("{} bytes, {:.2} an event", file.len(), file.len() as f64 / events as f64);
    if let Some(path) = args.next() {
        std::fs::write(path, &file)?;
    }
    for _ in 0..5 {
        let began = Instant::now();
        let trace = floodmark_trace::read_trace(&file, &[])?;
        let seconds = began.elapsed().as_secs_f64();
        let rate = trace.events.len() as f64 / seconds / 1e6;
        println!(
            "{} events read in {seconds:.3} s: {rate:.1} million a second",
            trace.events.len()
        );
    }
    Ok(())
}
