//! The hint after an out-of-memory error: the `floodmark plan` command for the recorded program.

use std::path::Path;

use floodmark_profiles::profiles;
use floodmark_trace::{Bytes, Header};

use crate::text::shell_word::quoted;

/// Placeholder for a program whose command line is not in the recording.
const SOME_PROGRAM: &str = "train.py";

/// `find changes that make the whole run fit: …`. `capacity` is the memory of the GPU, where known.
pub(crate) fn plan_hint(header: &Header, capacity: Option<Bytes>) -> String {
    let gpu = gpu(header).map_or_else(String::new, |gpu| format!("--gpu {} ", quoted(&gpu)));
    let memory = capacity.map_or_else(String::new, |bytes| format!("--memory {} ", size(bytes)));
    let program = program(header);
    format!("find changes that make the whole run fit: `floodmark plan {gpu}{memory}{program}`")
}

/// The GPU profile of a recording: the one that was simulated, or that of the GPU that the driver named.
fn gpu(header: &Header) -> Option<String> {
    let simulated = header.phantom.as_ref().map(|phantom| phantom.gpu.clone());
    let recorded = || {
        let is_it = |name: &str| header.devices.iter().any(|device| device.name == name);
        profiles().into_iter().find(|(_, profile)| is_it(&profile.name))
    };
    simulated.or_else(|| recorded().map(|(name, _)| name.to_owned()))
}

/// `12GiB`, or `24220MiB` if it is not a whole number of GiB.
fn size(bytes: Bytes) -> String {
    let mib = bytes.0 >> 20;
    if mib.is_multiple_of(1024) { format!("{}GiB", mib >> 10) } else { format!("{mib}MiB") }
}

/// The recorded program and its arguments, without the interpreter and its options.
fn program(header: &Header) -> String {
    let words = header
        .command
        .iter()
        .skip(1)
        .skip_while(|word| word.starts_with('-') && word.as_str() != "-m");
    let words: Vec<&String> = words.collect();
    let is_script = |word: &str| Path::new(word).extension().is_some_and(|one| one == "py");
    let is_program = words.first().is_some_and(|word| *word == "-m" || is_script(word));
    let words: Vec<String> = words.into_iter().map(|word| quoted(word)).collect();
    if is_program { words.join(" ") } else { SOME_PROGRAM.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hint(command: &[&str], capacity: Option<u64>) -> String {
        let command = command.iter().map(ToString::to_string).collect();
        let header = Header { command, ..Header::default() };
        plan_hint(&header, capacity.map(Bytes)).split('`').nth(1).unwrap().to_owned()
    }

    #[test]
    fn the_recorded_program_is_planned_for_its_gpu() {
        assert_eq!(
            hint(&["/usr/bin/python", "-u", "my train.py", "--batch", "8"], Some(24 << 30)),
            "floodmark plan --memory 24GiB 'my train.py' --batch 8"
        );
        assert_eq!(hint(&["python", "-m", "pkg.train"], None), "floodmark plan -m pkg.train");
    }

    /// A plan for another GPU would count another CUDA context.
    #[test]
    fn the_gpu_is_that_of_the_recording() {
        let device = |name: &str| floodmark_trace::DeviceInfo {
            device: "cuda:0".to_owned(),
            name: name.to_owned(),
            ..Default::default()
        };
        let planned = |name: &str| {
            let header = Header { devices: vec![device(name)], ..Header::default() };
            plan_hint(&header, Some(Bytes(24_220 << 20))).split('`').nth(1).unwrap().to_owned()
        };
        let rtx4090 = "floodmark plan --gpu rtx4090 --memory 24220MiB train.py";
        assert_eq!(planned("NVIDIA GeForce RTX 4090"), rtx4090);
        assert_eq!(planned("some GPU"), "floodmark plan --memory 24220MiB train.py");
    }

    #[test]
    fn a_recording_without_a_command_line_names_some_program() {
        assert_eq!(hint(&[], None), "floodmark plan train.py");
        assert_eq!(hint(&["python", "-c", "import x"], None), "floodmark plan train.py");
    }
}
