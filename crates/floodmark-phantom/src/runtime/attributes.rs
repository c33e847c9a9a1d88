//! Attributes of a device by number; runtime and driver use the same ones.

use std::ffi::c_int;

use crate::machine::machine;

#[expect(clippy::match_same_arms, reason = "a number of CUDA in each line, in their order")]
/// The attribute, or nothing when there is no such device.
pub(crate) fn attribute(which: c_int, device: c_int) -> Option<c_int> {
    let machine = machine()?;
    let number = usize::try_from(device).ok()?;
    if number >= machine.device_count() {
        return None;
    }
    let known = &machine.settings;
    let int = |bytes: u64| c_int::try_from(bytes).unwrap_or(c_int::MAX);
    Some(match which {
        1..=3 => 1024, // threads of a block, in x and y
        4 => 64,
        5 => c_int::MAX, // blocks of a grid
        6 | 7 => 65_535,
        8 => int(known.shared_per_block),
        9 => 65_536, // constant memory
        10 => 32,    // threads of a warp
        11 => c_int::MAX,
        12 => 65_536, // registers of a block
        13 => known.clock_khz,
        14 => 512,
        15 | 19 | 31 | 41 => 1,
        16 => known.multiprocessors,
        21..=29 => 32_768,
        30 => 512,
        32 => 1,
        33 => c_int::try_from(machine.number_of(number)).unwrap_or(0) + 1, // PCI bus
        36 => known.memory_clock_khz,
        37 => known.bus_width,
        38 => known.l2,
        39 => known.threads_per_multiprocessor,
        40 => 3, // engines for copies
        42..=49 | 52..=74 | 77 => 16_384,
        51 => 32,
        75 => known.capability.0,
        76 => known.capability.1,
        78..=80 | 83 | 89 | 90 | 95 | 96 | 99 => 1,
        81 => int(known.shared_per_multiprocessor),
        82 => known.registers_per_multiprocessor,
        87 => 2,
        97 => int(known.shared_per_block_optin),
        102 => 1, // addresses of the program's own choice
        106 => known.blocks_per_multiprocessor,
        108 => known.l2 / 2,
        109 => 134_213_632,
        111 => 1024,
        112..=115 | 121 | 125 => 1,
        116 => 1,
        117 => 1,
        118 => 100,
        119 => 1, // pools can be shared by file descriptors
        120 => c_int::from(known.capability.0 >= 9),
        126 => 4,
        _ => 0,
    })
}
