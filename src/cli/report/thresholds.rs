//! Thresholds on the command line.

use std::fmt::Write as _;

use crate::analysis::rules::{Threshold, Thresholds};
use crate::cli::Failure;
use crate::figures::verdicts::limit_text;

/// The defaults with these changes: `data_loading.warn=15%`.
///
/// Errors: a name that no threshold has, or a value that it cannot have.
pub fn parsed(changes: &[String]) -> Result<Thresholds, Failure> {
    let mut thresholds = Thresholds::default();
    for change in changes {
        let wrong = || Failure::Usage(format!("Not NAME=VALUE: {change}"));
        let (name, value) = change.split_once('=').ok_or_else(wrong)?;
        let value = number(value.trim()).ok_or_else(wrong)?;
        let set = thresholds.set(name.trim(), value);
        set.map_err(|reason| Failure::Usage(format!("{reason}. `lacuna report --thresholds` lists them")))?;
    }
    Ok(thresholds)
}

/// A number with a unit or without one: a share as `0.15` or `15%`, nanoseconds as `2000000` or `2ms`, bytes as
/// `64000` or `64KB`.
fn number(text: &str) -> Option<f64> {
    const UNITS: [(&str, f64); 11] = [
        ("%", 0.01),
        ("KiB", 1024.0),
        ("MiB", 1_048_576.0),
        ("KB", 1e3),
        ("MB", 1e6),
        ("ns", 1.0),
        ("us", 1e3),
        ("\u{b5}s", 1e3),
        ("ms", 1e6),
        ("s", 1e9),
        ("x", 1.0),
    ];
    let with_unit = |(unit, factor): (&str, f64)| {
        let number: f64 = text.strip_suffix(unit)?.trim_end().parse().ok()?;
        // A division keeps 15 % the same number as 0.15.
        Some(if factor < 1.0 { number / factor.recip() } else { number * factor })
    };
    text.parse().ok().or_else(|| UNITS.into_iter().find_map(with_unit))
}

/// All thresholds: name, value, default if that is another, and meaning.
pub fn list(thresholds: Thresholds) -> String {
    let mut out = String::new();
    for one in thresholds.all() {
        let Threshold { kind, value, default, help, .. } = one;
        let default =
            if one.is_changed() { format!(" ({} by default)", limit_text(default, kind)) } else { String::new() };
        _ = writeln!(out, "{:<28} {:>12}{default}  {help}", one.name(), limit_text(value, kind));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thresholds_are_set_by_name() {
        let set = |changes: &[&str]| parsed(&changes.iter().map(|&text| text.to_owned()).collect::<Vec<_>>());
        let changes = ["data_loading.warn=15%", "slow_kernel_ns=2ms", "pageable_bytes = 64 KiB", "allocator.note=0.5"];
        let changed: Vec<_> = set(&changes).unwrap().changed().into_iter().collect();
        let expected = [
            ("allocator.note", 0.5),
            ("data_loading.warn", 0.15),
            ("pageable_bytes", 65_536.0),
            ("slow_kernel_ns", 2e6),
        ];
        assert_eq!(changed, expected.map(|(name, value)| (name.to_owned(), value)));
        for wrong in ["data_loading.warn", "data_loading.warn=much", "data_loading.warn=150%", "nothing=1", "=", ""] {
            assert!(matches!(set(&[wrong]), Err(Failure::Usage(_))), "{wrong}");
        }
        let listed = list(set(&changes).unwrap());
        assert!(listed.contains("data_loading.warn") && listed.contains("15.0 % (10.0 % by default)"), "{listed}");
    }
}
