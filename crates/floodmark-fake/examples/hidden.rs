//! What the rules say of calls that were recorded: a line of JSON each on stdin, a line of numbers each on
//! stdout. For `bench/fake_hidden.py`.

#![expect(clippy::print_stdout, reason = "it is what the program is for")]

use std::io::BufRead;

use floodmark_fake::hidden::has_rule;

#[path = "../tests/it/recorded.rs"]
mod recorded;

fn main() {
    let machine = recorded::h200();
    for line in std::io::stdin().lock().lines().map_while(Result::ok) {
        match recorded::Recorded::parse(&line) {
            Some(call) => {
                let kept = call.kept.iter().sum::<u64>();
                let (found, rule) = (call.expected(&machine), u8::from(has_rule(&call.op)));
                println!("{found} {} {} {kept} {rule}", call.peak, call.made);
            }
            None => println!("0 0 0 0 0"),
        }
    }
}
