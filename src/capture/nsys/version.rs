//! Versions of Nsight Systems and their compatibility.

use std::fmt::{Display, Formatter};

/// A version such as `2023.4.4.54`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version([u32; 4]);

impl Version {
    /// What a report says after its magic: `NVIDIA Tegra Profiler Report 2023@4@4@54-234433681190v0.`
    pub fn in_report(head: &[u8]) -> Option<Self> {
        let text = String::from_utf8_lossy(head.strip_prefix(b"NVIDIA Tegra Profiler Report")?);
        Self::parse(text.trim_start(), '@')
    }

    /// What raw data says after its magic: `NVIDIA Nsight Systems Stream 2023.4.4.54-234433681190v0!`
    pub fn in_raw(head: &[u8]) -> Option<Self> {
        let text = String::from_utf8_lossy(head);
        Self::parse(text.split_once("Systems Stream ")?.1, '.')
    }

    /// What `nsys --version` prints: `NVIDIA Nsight Systems version 2023.4.4.54-234433681190v0`.
    pub fn in_answer(text: &str) -> Option<Self> {
        let mut after = text.match_indices("ersion").map(|(at, word)| &text[at + word.len()..]);
        after.find_map(|rest| Self::parse(rest.trim_start_matches([' ', ':']), '.'))
    }

    /// Two to four numbers between separators; the first is a year.
    pub fn parse(text: &str, separator: char) -> Option<Self> {
        let end = text.find(|c: char| !c.is_ascii_digit() && c != separator).unwrap_or(text.len());
        let mut parts = [0; 4];
        let mut n = 0;
        for (part, number) in parts.iter_mut().zip(text[..end].split(separator)) {
            if number.is_empty() {
                break;
            }
            *part = number.parse().ok()?;
            n += 1;
        }
        (n >= 2 && (2018..2100).contains(&parts[0])).then_some(Self(parts))
    }

    /// NVIDIA promises that a version reads the reports of older ones; releases of one month agree.
    pub fn reads(self, report: Self) -> bool {
        self.0[..2] >= report.0[..2]
    }

    /// The short form: `2023.4`.
    pub fn short(self) -> String {
        let [year, month, ..] = self.0;
        format!("{year}.{month}")
    }
}

impl Display for Version {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        let [year, month, fix, build] = self.0;
        write!(f, "{year}.{month}.{fix}.{build}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_found_and_compared() {
        let report = Version::in_report(b"NVIDIA Tegra Profiler Report 2023@4@4@54-234433681190v0.\x12\x00").unwrap();
        assert_eq!(report.to_string(), "2023.4.4.54");
        let nsys = Version::in_answer("NVIDIA Nsight Systems version 2022.4.2.1-df9881f").unwrap();
        assert_eq!((nsys.to_string().as_str(), nsys.short().as_str()), ("2022.4.2.1", "2022.4"));
        assert!(report.reads(nsys) && !nsys.reads(report));
        assert!(Version::in_answer("NVIDIA Nsight Systems version 2024.1").unwrap().reads(report));
        assert_eq!(Version::in_answer("no such option"), None);
        assert_eq!(Version::in_report(b"NVIDIA Tegra Profiler Report"), None);
        assert_eq!(Version::in_report(b"QDRP"), None);
        let raw = b"U3w[END]NVIDIA Nsight Systems Stream 2024.1.3.7-244433681190v0!\x0a\xd9\x14";
        assert_eq!(Version::in_raw(raw).unwrap().to_string(), "2024.1.3.7");
        assert_eq!(Version::in_raw(b"QDSTRM"), None);
    }
}
