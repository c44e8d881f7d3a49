//! Meanings of the NVIDIA driver's error numbers (XID).
//!
//! Source: NVIDIA, "XID Errors", in the documentation of GPU deployment.

const KNOWN: [(u64, &str); 16] = [
    (13, "a kernel went wrong: an access out of bounds or an illegal instruction"),
    (31, "a kernel used memory at an address that is not mapped"),
    (43, "a program's work was stopped after an error of its own"),
    (45, "work was removed, often since the program was killed"),
    (48, "a memory error could not be corrected (ECC)"),
    (61, "the GPU's microcontroller stopped"),
    (62, "the GPU's microcontroller halted"),
    (63, "a row or page of memory is to be replaced"),
    (64, "a row or page of memory could not be replaced"),
    (74, "an NVLink failed"),
    (79, "the GPU fell off the bus"),
    (92, "many memory errors were corrected (ECC)"),
    (94, "a memory error was contained to one program"),
    (95, "a memory error was not contained: the GPU must be reset"),
    (119, "the GPU's system processor does not answer"),
    (120, "the GPU's system processor reports an error"),
];

/// The error in words: `XID 79: the GPU fell off the bus`.
pub fn sentence(code: u64) -> String {
    match KNOWN.iter().find(|known| known.0 == code) {
        Some((_, meaning)) => format!("XID {code}: {meaning}"),
        None => format!("XID {code}: see NVIDIA's list of XID errors"),
    }
}
