//! Times of logs as nanoseconds since 1970.

use std::cell::Cell;
use std::path::Path;
use std::time::UNIX_EPOCH;

use crate::model::TimeNs;

const SECOND: i64 = 1_000_000_000;
/// Zones are whole quarters of an hour.
const QUARTER: i64 = 900 * SECOND;
/// How far the last reading may be from when the file was written last.
const SLACK: i64 = 120 * SECOND;
/// No offset that a text names is wider.
const WIDEST: i64 = 15 * 3600 * SECOND;
/// The zones that are no whole hours, in minutes.
const ODD_ZONES: [i64; 11] = [-570, -210, 210, 270, 330, 345, 390, 525, 570, 630, 765];

/// The zone of times that have none.
///
/// Logs are written as they are recorded, so the time at which the file was written last is close to its last reading:
/// the difference, in whole quarters of an hour, is the zone. Of a file that was copied without its time, nothing is
/// known, and UTC is taken.
#[derive(Debug, Default)]
pub struct Zone {
    /// What is subtracted from local times.
    offset: i64,
    is_known: bool,
    is_used: Cell<bool>,
}

impl Zone {
    /// Of the file at this path, whose last line is read.
    pub fn of_file(path: &Path) -> Self {
        let found = || {
            let written = std::fs::metadata(path).ok()?.modified().ok()?.duration_since(UNIX_EPOCH).ok()?;
            let text = super::tail(path)?;
            // A line that is being written may end anywhere.
            let whole = text.rfind('\n').map_or(text.as_str(), |end| &text[..end]);
            let last = whole.lines().rev().find_map(first_time)?;
            offset_from(last, i64::try_from(written.as_nanos()).ok()?)
        };
        let offset = found();
        Self { offset: offset.unwrap_or(0), is_known: offset.is_some(), is_used: Cell::new(false) }
    }

    /// A date with a time of day: `2026/11/22 17:30:55.123`, or as ISO 8601 has it, with or without a zone.
    pub fn parse(&self, text: &str) -> Option<TimeNs> {
        let (ts, has_zone) = date_time(text)?;
        if has_zone {
            return Some(ts);
        }
        self.is_used.set(true);
        Some(ts - self.offset)
    }

    /// What the user should know of the zone; `None` if no time lacked one.
    pub fn note(&self) -> Option<String> {
        let minutes = self.offset.abs() / (60 * SECOND);
        let (sign, hours, minutes) = (if self.offset < 0 { '-' } else { '+' }, minutes / 60, minutes % 60);
        self.is_used.get().then(|| match self.is_known {
            true => {
                format!(
                    "Times without a zone: taken as UTC{sign}{hours}:{minutes:02}, judged by when the file was written"
                )
            }
            false => "Times without a zone: taken as UTC".to_owned(),
        })
    }
}

/// The zone's offset, if the last reading and the time of the file differ by one.
fn offset_from(last: TimeNs, written: TimeNs) -> Option<i64> {
    let apart = last - written;
    let offset = (apart + QUARTER / 2).div_euclid(QUARTER) * QUARTER;
    ((apart - offset).abs() <= SLACK && is_zone(offset)).then_some(offset)
}

/// Whether the clocks of any place are so far from UTC.
fn is_zone(offset: i64) -> bool {
    let minutes = offset / (60 * SECOND);
    minutes % 60 == 0 && (-12..=14).contains(&(minutes / 60)) || ODD_ZONES.contains(&minutes)
}

/// The first date with a time of day in a line that has no zone.
fn first_time(line: &str) -> Option<TimeNs> {
    let start = line
        .as_bytes()
        .windows(5)
        .position(|five| five[..4].iter().all(u8::is_ascii_digit) && matches!(five[4], b'/' | b'-'))?;
    let text = &line[start..];
    let end = text.find(['"', ',']).unwrap_or(text.len());
    date_time(text[..end].trim()).filter(|found| !found.1).map(|found| found.0)
}

/// The time as if in UTC, or in the zone that it names; and whether it names one.
fn date_time(text: &str) -> Option<(TimeNs, bool)> {
    let text = text.trim();
    let (date, rest) = text.split_once([' ', 'T'])?;
    let mut parts = date.split(['/', '-']).map(|part| part.parse::<i64>().ok());
    let (year, month, day) = (parts.next()??, parts.next()??, parts.next()??);
    let at = rest.find(['Z', '+', '-']);
    let (clock, zone) = at.map_or((rest, ""), |at| rest.split_at(at));
    let mut parts = clock.trim().splitn(3, ':');
    let (hour, minute) = (parts.next()?.parse::<i64>().ok()?, parts.next()?.parse::<i64>().ok()?);
    let second = scaled(parts.next().unwrap_or("0"), 9)?;
    let is_valid = (1970..2262).contains(&year)
        && (1..=12).contains(&month)
        && (1..=31).contains(&day)
        && days_from_1970(year, month, day) < days_from_1970(year + month / 12, month % 12 + 1, 1)
        && (0..24).contains(&hour)
        && (0..60).contains(&minute)
        && (0..61 * SECOND).contains(&second);
    if !is_valid {
        return None;
    }
    let minutes = (days_from_1970(year, month, day) * 24 + hour) * 60 + minute;
    let ts = minutes.checked_mul(60 * SECOND)?.checked_add(second)?;
    Some((ts - zone_ns(zone)?, !zone.is_empty()))
}

/// Of `Z`, `+02:00`, `-0330`; 0 if there is none.
fn zone_ns(zone: &str) -> Option<i64> {
    let sign = match zone.chars().next() {
        None | Some('Z') => return Some(0),
        Some('-') => -1,
        Some(_) => 1,
    };
    let digits = zone[1..].trim();
    let (hours, minutes) = match digits.split_once(':') {
        Some(parts) => parts,
        None => digits.split_at_checked(2).unwrap_or((digits, "")),
    };
    let number = |text: &str| text.parse::<i64>().ok().filter(|_| text.bytes().all(|byte| byte.is_ascii_digit()));
    let minutes = if minutes.is_empty() { 0 } else { number(minutes).filter(|minutes| *minutes < 60)? };
    let hours = number(hours).filter(|hours| *hours < 24)?;
    Some(hours * 60 + minutes).filter(|all| *all <= WIDEST / (60 * SECOND)).map(|all| sign * all * 60 * SECOND)
}

/// The days from 1 January 1970 to a day of the Gregorian calendar.
///
/// Source: Howard Hinnant, "chrono-Compatible Low-Level Date Algorithms".
fn days_from_1970(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let (era, of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

/// The number that a text begins with, as seconds since 1970, or in milliseconds, microseconds or nanoseconds where it
/// would else be thousands of years later.
pub fn decimal_ns(text: &str) -> Option<TimeNs> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    // An exponent is no way to write a time.
    if text[end..].starts_with(['e', 'E']) {
        return None;
    }
    let whole = text[..end].split('.').next()?.len();
    let digits = match whole {
        0 => return None,
        1..=11 => 9,
        12..=14 => 6,
        15..=17 => 3,
        _ => 0,
    };
    scaled(&text[..end], digits)
}

/// A decimal number times ten to the power of `digits`, without rounding; further digits are cut off.
fn scaled(text: &str, digits: usize) -> Option<i64> {
    let (whole, fraction) = text.trim().split_once('.').unwrap_or((text.trim(), ""));
    let fraction = fraction.get(..digits.min(fraction.len()))?;
    let is_number = !whole.is_empty() && whole.bytes().chain(fraction.bytes()).all(|byte| byte.is_ascii_digit());
    let unit = 10_i64.pow(digits as u32 - fraction.len() as u32);
    let fraction: i64 = if fraction.is_empty() { 0 } else { fraction.parse().ok()? };
    let whole = is_number.then(|| whole.parse::<i64>().ok())??;
    whole.checked_mul(10_i64.pow(digits as u32))?.checked_add(fraction * unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_read_exactly() {
        let zone = Zone::default();
        // Checked with `date -d … +%s%N`.
        for (text, expected) in [
            ("2026/11/22 17:30:55.123", Some(1_795_368_655_123_000_000)),
            ("2026-11-22T17:30:55.123456789Z", Some(1_795_368_655_123_456_789)),
            ("2026-11-22T19:30:55+02:00", Some(1_795_368_655_000_000_000)),
            ("2000-02-29 00:00:00", Some(951_782_400_000_000_000)),
            ("1999-12-31 23:59:59", Some(946_684_799_000_000_000)),
            ("2026-11-22T14:00:55-0330", Some(1_795_368_655_000_000_000)),
            ("2026-11-23T02:30:55+9:00", Some(1_795_368_655_000_000_000)),
            ("2026-11-23T02:30:55+09", Some(1_795_368_655_000_000_000)),
            ("2026-11-22T17:30:55+99:99", None),
            ("2026-11-22T17:30:55+02:60", None),
            ("2026-11-22T17:30:55-922337203685477580:", None),
            ("2026-11-22T17:30:55+153722867280912931", None),
            ("2026-11-22T17:30:55+é", None),
            ("2026-13-01 00:00:00", None),
            ("2026-02-29 00:00:00", None),
            ("2100-02-29 00:00:00", None),
            ("2026-04-31 00:00:00", None),
            ("yesterday", None),
        ] {
            assert_eq!(zone.parse(text), expected, "{text}");
        }
    }

    #[test]
    fn numbers_are_read_exactly_in_every_unit() {
        for (text, expected) in [
            ("1700000000.123456789, ", Some(1_700_000_000_123_456_789)),
            ("1700000000}", Some(1_700_000_000_000_000_000)),
            ("1700000000123", Some(1_700_000_000_123_000_000)),
            ("1700000000123456", Some(1_700_000_000_123_456_000)),
            ("1700000000123456789", Some(1_700_000_000_123_456_789)),
            ("1.7e9", None),
            ("", None),
        ] {
            assert_eq!(decimal_ns(text), expected, "{text}");
        }
    }

    #[test]
    fn the_zone_follows_from_when_the_file_was_written() {
        let hour = 3600 * SECOND;
        let written = 1_795_368_655 * SECOND;
        assert_eq!(offset_from(written + 2 * hour - SECOND, written), Some(2 * hour));
        assert_eq!(offset_from(written - 5 * hour - SECOND, written), Some(-5 * hour));
        assert_eq!(offset_from(written - SECOND, written), Some(0));
        // Copied days later, or between two zones.
        assert_eq!(offset_from(written - 40 * hour, written), None);
        assert_eq!(offset_from(written + 7 * 60 * SECOND, written), None);
    }
}
