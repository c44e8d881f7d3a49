//! Numbers as text: durations, bytes and counts, each with its unit.

use crate::model::time::DurNs;

const UNITS: [(f64, &str); 4] = [(1e9, "s"), (1e6, "ms"), (1e3, "µs"), (1.0, "ns")];

const MINUTE: DurNs = 60_000_000_000;

/// A length of time in the largest unit that leaves a digit before the point: `1.234 ms`, `2 min 05.250 s`.
pub fn duration(ns: DurNs) -> String {
    let magnitude = ns.unsigned_abs() as f64;
    if magnitude < 1e3 {
        return format!("{ns} ns");
    }
    // The smallest unit in which it is less than a thousand once rounded, so never "1000.000 µs".
    let is_short = |unit: f64| (magnitude / unit * 1e3).round() < 1e6;
    let (unit, name) = UNITS.into_iter().rev().skip(1).find(|&(unit, _)| is_short(unit)).unwrap_or(UNITS[0]);
    let sign = if ns < 0 { "-" } else { "" };
    if magnitude >= 60e9 {
        return format!("{sign}{}", long_duration(ns.unsigned_abs(), 3));
    }
    format!("{sign}{:.3} {name}", magnitude / unit)
}

/// What is saved: a length of time, or `nothing`.
pub fn saving(ns: DurNs) -> String {
    if ns == 0 { "nothing".to_owned() } else { duration(ns) }
}

/// A minute or more, with so many digits of the seconds: `2 h 05 min 30 s`.
fn long_duration(ns: u64, digits: usize) -> String {
    let tick = 10_u64.pow(9 - digits.min(9) as u32);
    let ns = ns.saturating_add(tick / 2) / tick * tick;
    let (hours, minutes, rest) = (ns / 3_600_000_000_000, ns / 60_000_000_000 % 60, ns % 60_000_000_000);
    let fraction = format!("{:09}", rest % 1_000_000_000);
    let point = if digits > 0 { "." } else { "" };
    let seconds = format!("{:02}{point}{} s", rest / 1_000_000_000, &fraction[..digits.min(9)]);
    if hours > 0 { format!("{hours} h {minutes:02} min {seconds}") } else { format!("{minutes} min {seconds}") }
}

/// The same, exact: `1,234,567 ns`.
pub fn duration_exact(ns: DurNs) -> String {
    format!("{} ns", signed(ns))
}

/// A part of a time: `1.235 ms`, and exactly `1,234,567 ns of 9,000,000 ns`.
pub fn part(ns: DurNs, whole: DurNs) -> [String; 2] {
    [duration(ns), format!("{} of {}", duration_exact(ns), duration_exact(whole))]
}

/// Both: `1.235 ms (1,234,567 ns)`; once where they are the same.
pub fn duration_in_full(ns: DurNs) -> String {
    let (short, exact) = (duration(ns), duration_exact(ns));
    if short == exact { short } else { format!("{short} ({exact})") }
}

/// A moment, with enough digits to differ from others `step` nanoseconds away:
/// `1.25 s`, `12.503 ms`, `1 h 05 min 02.5 s`, `1 h 05 min`.
pub fn moment(ns: DurNs, step: DurNs) -> String {
    let magnitude = ns.unsigned_abs().max(step.unsigned_abs()) as f64;
    let (unit, name) = UNITS.into_iter().find(|&(unit, _)| magnitude >= unit).unwrap_or((1.0, "ns"));
    let digits = (unit / step.max(1) as f64).log10().ceil().clamp(0.0, 9.0) as usize;
    if magnitude < 60e9 {
        return format!("{:.digits$} {name}", ns as f64 / unit);
    }
    let text = long_duration(ns.unsigned_abs(), digits);
    let is_whole = ns % MINUTE == 0 && step % MINUTE == 0;
    let text = text.strip_suffix(" 00 s").filter(|_| is_whole).unwrap_or(&text);
    format!("{}{text}", if ns < 0 { "-" } else { "" })
}

/// Whole seconds: `7 s`, `2 min 05 s`.
pub fn seconds(n: u64) -> String {
    if n < 60 { format!("{n} s") } else { long_duration(n.saturating_mul(1_000_000_000), 0) }
}

/// An estimate with two digits: `13 to 40 ms`, `2.0 to 3.5 min`, or `13 ms or more` without a highest value.
pub fn rough_duration(least: DurNs, most: Option<DurNs>) -> String {
    let highest = most.unwrap_or(least) as f64;
    let mut units = [(3_600e9, "h"), (60e9, "min")].into_iter().chain(UNITS);
    let (unit, name) = units.find(|&(unit, _)| highest >= unit).unwrap_or((1.0, "ns"));
    let rough = |ns: DurNs| {
        let value = ns as f64 / unit;
        let scale = 10_f64.powf(1.0 - value.max(1e-9).log10().floor());
        let rounded = (value * scale).round() / scale;
        if rounded < 10.0 { format!("{rounded:.1}") } else { format!("{rounded:.0}") }
    };
    match most {
        Some(most) => format!("{} to {} {name}", rough(least), rough(most)),
        None => format!("{} {name} or more", rough(least)),
    }
}

/// A number of things: `1,234,567`.
pub fn count(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// A number of things with their name: `1 block`, `1,200 blocks`.
///
/// * `thing`: one of them; more take an `s`.
pub fn of_things(n: u64, thing: &str) -> String {
    format!("{} {thing}{}", count(n), if n == 1 { "" } else { "s" })
}

/// A number of steps: `1 step`, `1,200 steps`.
pub fn steps(n: usize) -> String {
    of_things(n as u64, "step")
}

/// A number that may be negative: `-1,234,567`.
pub fn signed(n: i64) -> String {
    format!("{}{}", if n < 0 { "-" } else { "" }, count(n.unsigned_abs()))
}

/// An amount of memory: `1.50 GiB`, `512 B`.
pub fn bytes(n: f64) -> String {
    if n.abs().round() < 1024.0 {
        return format!("{n:.0} B");
    }
    let units = [(1_u64 << 10, "KiB"), (1 << 20, "MiB"), (1 << 30, "GiB")];
    // The smallest unit in which it is less than 1024 once rounded, so never "1024.00 KiB".
    let is_short = |unit: u64| (n.abs() / unit as f64 * 100.0).round() < 102_400.0;
    let (unit, name) = units.into_iter().find(|&(unit, _)| is_short(unit)).unwrap_or((1 << 40, "TiB"));
    // A half is rounded up, as in reports.
    format!("{:.2} {name}", (n / unit as f64 * 100.0).round() / 100.0)
}

/// A value without a unit, short: `0.5`, `1234.25`, `1.5e12`.
pub fn value(x: f64) -> String {
    if x != 0.0 && !(1e-3..1e9).contains(&x.abs()) {
        return format!("{x:.3e}");
    }
    let text = format!("{x:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn estimates_have_two_digits() {
        assert_eq!(rough_duration(12_804_321, Some(40_400_000)), "13 to 40 ms");
        assert_eq!(rough_duration(800_400, Some(2_540_000)), "0.8 to 2.5 ms");
        assert_eq!(rough_duration(280_000_000, None), "280 ms or more");
        assert_eq!(rough_duration(117_000, Some(431_000)), "120 to 430 µs");
        assert_eq!(rough_duration(0, None), "0.0 ns or more");
        assert_eq!(rough_duration(1_800_000_000_000, Some(7_600_000_000_000)), "0.5 to 2.1 h");
        assert_eq!(rough_duration(95_000_000_000, None), "1.6 min or more");
        assert_eq!([7, 125, 3_600].map(seconds), ["7 s", "2 min 05 s", "1 h 00 min 00 s"]);
    }

    #[test]
    fn durations_have_three_digits_and_a_fitting_unit() {
        let cases = [
            (0, "0 ns"),
            (999, "999 ns"),
            (1_000, "1.000 µs"),
            (999_999, "999.999 µs"),
            (999_999_700, "1.000 s"),
            (1_234_567, "1.235 ms"),
            (999_999_999, "1.000 s"),
            (-1_500, "-1.500 µs"),
            (59_999_000_000, "59.999 s"),
            (61_000_000_000, "1 min 01.000 s"),
            (-7_530_500_000_000, "-2 h 05 min 30.500 s"),
            (119_999_999_999, "2 min 00.000 s"),
        ];
        for (ns, expected) in cases {
            assert_eq!(duration(ns), expected);
        }
        assert_eq!(duration_exact(-1_234_567), "-1,234,567 ns");
        assert_eq!([745, 1_234_567].map(duration_in_full), ["745 ns", "1.235 ms (1,234,567 ns)"]);
        assert!(duration(i64::MIN).ends_with(" s"));
    }

    #[test]
    fn moments_have_enough_digits_for_their_step() {
        assert_eq!(moment(12_503_000, 1_000), "12.503 ms");
        assert_eq!(moment(1_250_000_000, 50_000_000), "1.25 s");
        assert_eq!(moment(0, 500), "0 ns");
        assert_ne!(moment(1_000_000_001, 1), moment(1_000_000_002, 1));
        let long = [
            (3_600_250_000_000, 1_000_000, "1 h 00 min 00.250 s"),
            (-7_530_500_000_000, 500_000_000, "-2 h 05 min 30.5 s"),
            (90_000_000_000, 30_000_000_000, "1 min 30 s"),
            (60_000_000_000, 30_000_000_000, "1 min 00 s"),
            (7_200_000_000_000, 600_000_000_000, "2 h 00 min"),
            (0, 600_000_000_000, "0 min"),
            (3_600_000_000_001, 1, "1 h 00 min 00.000000001 s"),
        ];
        for (ns, step, expected) in long {
            assert_eq!(moment(ns, step), expected);
        }
    }

    #[test]
    fn counts_bytes_and_values() {
        assert_eq!([0, 999, 1_000, 1_234_567].map(count), ["0", "999", "1,000", "1,234,567"]);
        assert_eq!(bytes(512.0), "512 B");
        assert_eq!(bytes(1.5 * 1024.0 * 1024.0), "1.50 MiB");
        assert_eq!(
            [1_023.0, 1_024.0, 1_048_575.0, -1_048_575.0].map(bytes),
            ["1023 B", "1.00 KiB", "1.00 MiB", "-1.00 MiB"]
        );
        assert_eq!(bytes(2_f64.powi(51)), "2048.00 TiB");
        assert_eq!([0.0, 0.5, 1234.25, 1.5e12].map(value), ["0", "0.5", "1234.25", "1.500e12"]);
    }
}
