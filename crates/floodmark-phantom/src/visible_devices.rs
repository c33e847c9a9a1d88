//! Which devices of a machine the program sees: `CUDA_VISIBLE_DEVICES`.
//!
//! CUDA reads it when it is first called, so a program may set it after its imports. NVML does not.

use std::collections::HashSet;
use std::env;

/// The numbers of the devices that the program sees, of `count`.
pub(crate) fn from_environment(count: usize) -> Vec<usize> {
    match env::var_os("CUDA_VISIBLE_DEVICES") {
        Some(text) => chosen(&text.to_string_lossy(), count),
        None => (0..count).collect(),
    }
}

/// The name of a device that is the same in every process, as NVML gives it.
pub(crate) fn uuid(device: usize) -> String {
    let bytes = uuid_bytes(device).map(|byte| format!("{byte:02x}")).concat();
    let parts = [0..8, 8..12, 12..16, 16..20, 20..32].map(|part| &bytes[part]);
    format!("GPU-{}", parts.join("-"))
}

/// The same as CUDA gives it.
pub(crate) fn uuid_bytes(device: usize) -> [u8; 16] {
    let mut bytes = *b"phantom\0\0\0\0\0\0\0\0\0";
    bytes[15] = u8::try_from(device).unwrap_or(0);
    bytes
}

/// The devices that a text names, by number or by the beginning of their names. As CUDA does: the first word that
/// names none ends the list, and no device is seen when one is named twice.
fn chosen(text: &str, count: usize) -> Vec<usize> {
    let named = |word: &str| -> Option<usize> {
        if word.starts_with("GPU-") {
            let mut found = (0..count).filter(|&device| uuid(device).starts_with(word));
            return found.next().filter(|_| found.next().is_none());
        }
        word.parse().ok().filter(|&device| device < count)
    };
    let found: Vec<usize> = text.split(',').map_while(|word| named(word.trim())).collect();
    let distinct: HashSet<usize> = found.iter().copied().collect();
    if distinct.len() == found.len() { found } else { Vec::new() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_are_chosen_as_cuda_does() {
        let found = |text| chosen(text, 4);
        assert_eq!(found("2,0"), [2, 0]);
        assert_eq!(found(" 1 , 3"), [1, 3]);
        assert_eq!(found(""), Vec::<usize>::new(), "none is seen");
        assert_eq!(found("NoDevFiles"), Vec::<usize>::new());
        assert_eq!(found("1,-1,2"), [1], "what is not there ends the list");
        assert_eq!(found("0,7,1"), [0]);
        assert_eq!(found("1,2,1"), Vec::<usize>::new(), "one is named twice");
    }

    #[test]
    fn a_device_has_a_name_that_chooses_it() {
        assert_eq!(uuid(11), "GPU-7068616e-746f-6d00-0000-00000000000b");
        assert_eq!(chosen(&format!("{},{}", uuid(3), uuid(1)), 4), [3, 1]);
        assert_eq!(chosen("GPU-7068616e", 1), [0], "the beginning is enough");
        assert_eq!(chosen("GPU-7068616e", 2), Vec::<usize>::new(), "of one device");
    }
}
