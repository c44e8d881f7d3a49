//! Reasons for reduced GPU clocks.

/// The bits of `nvmlClocksThrottleReasons` with their names, and whether one costs speed that the user may want back.
const REASONS: [(u64, &str, bool); 9] = [
    (0x1, "idle", false),
    (0x2, "clocks set by an application", false),
    (0x4, "power limit", true),
    (0x8, "hardware slowdown", true),
    (0x10, "sync boost with other GPUs", true),
    (0x20, "temperature (software)", true),
    (0x40, "temperature (hardware)", true),
    (0x80, "power brake", true),
    (0x100, "display clocks", false),
];

/// The names of the reasons, in words; `none` if there is none, and a number for bits of later drivers.
pub fn names(bits: u64) -> Vec<String> {
    if bits == 0 {
        return vec!["none".to_owned()];
    }
    let known = REASONS.iter().filter(|reason| bits & reason.0 != 0).map(|reason| reason.1.to_owned());
    let rest = REASONS.iter().fold(bits, |rest, reason| rest & !reason.0);
    known.chain((rest != 0).then(|| format!("bits {rest:#x}"))).collect()
}

/// Whether the GPU is slower than it could be for a reason that cooling, power or a setting may remove.
pub fn is_slowed(bits: u64) -> bool {
    REASONS.iter().any(|reason| reason.2 && bits & reason.0 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_are_named() {
        assert_eq!(names(0), ["none"]);
        assert_eq!(names(0x1 | 0x4), ["idle", "power limit"]);
        assert_eq!(names(0x40 | 0x8000), ["temperature (hardware)", "bits 0x8000"]);
        assert!(is_slowed(0x5) && !is_slowed(0x3) && !is_slowed(0));
    }
}
