//! The sentence about memory that is nearly full.

use crate::analysis::rules::Hit;
use crate::figures::format;

/// How much of what memory is reserved at its peak, and what is known of the rest of the device.
///
/// * `device`: whose it is.
/// * `share`: of what the process could have, as text.
pub fn nearly_full(hit: &Hit, device: &str, share: &str) -> String {
    let [reserved, total, used] =
        [hit.amount, hit.of, hit.amount - hit.unused_bytes].map(|bytes| format::bytes(bytes as f64));
    let (whose, others) = not_for_the_process(hit.others_bytes);
    format!(
        "{device}: {share} of {whose} is reserved at the peak, {reserved} of {total}; at most {used} of it were in use at \
         once{others}"
    )
}

/// What memory it is that is nearly full, and what is said of the rest of the device.
fn not_for_the_process(others_bytes: Option<i64>) -> (&'static str, String) {
    const OF_PROCESS: &str = "the memory that this process could have";
    match others_bytes {
        Some(0) => ("the memory", String::new()),
        Some(bytes) => {
            let bytes = format::bytes(bytes as f64);
            (OF_PROCESS, format!("; {bytes} of the device belonged to other processes or libraries"))
        }
        None => (
            OF_PROCESS,
            ". The file does not tell how much the device has: other processes may hold the rest of it".to_owned(),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::not_for_the_process;

    #[test]
    fn what_others_hold_or_may_hold_is_said() {
        assert_eq!(not_for_the_process(Some(0)), ("the memory", String::new()));
        let (whose, others) = not_for_the_process(Some(78 << 30));
        assert_eq!(whose, "the memory that this process could have");
        assert_eq!(others, "; 78.00 GiB of the device belonged to other processes or libraries");
        assert!(not_for_the_process(None).1.contains("other processes may hold the rest"));
    }
}
