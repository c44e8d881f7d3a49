//! Times as the clocks of this machine show them.

use crate::model::TimeNs;

/// A time in nanoseconds since 1970 as `YYYY-MM-DD HH:MM:SS` where this machine is. Where the system does not say what
/// is added there, in UTC, and so marked.
pub fn local(ts: TimeNs) -> String {
    let seconds = ts.div_euclid(1_000_000_000);
    match fields(seconds) {
        Some(fields) => text(fields),
        None => format!("{} UTC", text(utc(seconds))),
    }
}

/// The time of day in that form: `17:30:55`.
pub fn time_of_day(ts: TimeNs) -> String {
    local(ts)[11..].to_owned()
}

/// Year, month, day, hour, minute, second.
type Fields = [i64; 6];

fn text([year, month, day, hour, minute, second]: Fields) -> String {
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}")
}

#[cfg(unix)]
#[expect(unsafe_code, reason = "only the C library knows the zone of this machine")]
fn fields(seconds: i64) -> Option<Fields> {
    let seconds = libc::time_t::try_from(seconds).ok()?;
    let mut out = std::mem::MaybeUninit::<libc::tm>::zeroed();
    // SAFETY: both point to what lives until the call returns; all fields of `tm` may be zero.
    let is_known = unsafe { !libc::localtime_r(&raw const seconds, out.as_mut_ptr()).is_null() };
    // SAFETY: zeroed above, and all fields of `tm` may be zero.
    let tm = unsafe { out.assume_init() };
    let fields = [tm.tm_year + 1900, tm.tm_mon + 1, tm.tm_mday, tm.tm_hour, tm.tm_min, tm.tm_sec];
    is_known.then_some(fields.map(i64::from))
}

#[cfg(not(unix))]
fn fields(_seconds: i64) -> Option<Fields> {
    None
}

fn utc(seconds: i64) -> Fields {
    let (days, of_day) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    // Years that begin in March end with the leap day. 1970 began 719,468 days after March 1 of the year 0.
    let days = days + 719_468;
    let (era, of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let (month, later) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    [era * 400 + year + later, month, day, of_day / 3600, of_day / 60 % 60, of_day % 60]
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: TimeNs = 1_000_000_000;

    #[test]
    fn dates_are_those_of_the_calendar() {
        // `date -u -d @N '+%Y-%m-%d %H:%M:%S'`
        for (seconds, expected) in [
            (0, "1970-01-01 00:00:00"),
            (-1, "1969-12-31 23:59:59"),
            (951_782_400, "2000-02-29 00:00:00"),
            (951_868_799, "2000-02-29 23:59:59"),
            (1_735_689_599, "2024-12-31 23:59:59"),
            (1_772_323_200, "2026-03-01 00:00:00"),
            (4_107_542_400, "2100-03-01 00:00:00"),
        ] {
            assert_eq!(text(utc(seconds)), expected);
        }
    }

    /// The zone of a process is that in its environment, so that each is asked of a process of its own.
    #[cfg(unix)]
    #[test]
    fn times_are_those_of_the_zone() {
        if let Ok(expected) = std::env::var("LACUNA_TEST_TIME") {
            assert_eq!(local(951_868_799 * S + 999_999_999), expected);
            assert_eq!(time_of_day(951_868_799 * S), expected[11..]);
            return;
        }
        // In `TZ`, what is west of Greenwich is positive.
        for (zone, expected) in [
            ("UTC0", "2000-02-29 23:59:59"),
            ("IST-5:30", "2000-03-01 05:29:59"),
            ("EST5EDT,M3.2.0,M11.1.0", "2000-02-29 18:59:59"),
        ] {
            let mut again = std::process::Command::new(std::env::current_exe().unwrap());
            again.args(["--exact", "live::clock::tests::times_are_those_of_the_zone"]);
            let said = again.env("TZ", zone).env("LACUNA_TEST_TIME", expected).output().unwrap();
            let text = String::from_utf8_lossy(&said.stdout);
            assert!(said.status.success() && text.contains("1 passed"), "{zone}: {text}");
        }
    }

    #[test]
    fn no_time_is_too_far() {
        for ts in [i64::MIN, i64::MAX, 0] {
            assert!(local(ts).len() >= 19, "{ts}");
        }
    }
}
