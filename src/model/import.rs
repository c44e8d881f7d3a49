//! Import report: events shown, merged and rejected, and the problems met.

/// How much a problem of a file or a finding matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Informative; of a file: nothing is missing, whatever was repaired or stands on another row.
    Note,
    /// Of a file: data was lost.
    Warn,
    /// Of a file: a part of it could not be read at all, or its recorder reports an error.
    High,
}

/// One kind of problem met while reading, however often it occurred.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    pub severity: Severity,
    /// A sentence without a trailing period: what happened and, where it helps, what to do.
    pub reason: String,
    pub count: u64,
    /// Byte offset of the first one in the file's text, after decompression.
    pub first_offset: Option<u64>,
}

/// Event counts of one table of a file. `read == shown + merged + rejected`.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct TableAccount {
    pub table: String,
    pub read: u64,
    pub shown: u64,
    pub merged: u64,
    pub rejected: u64,
}

/// Event counts and problems of one file. `read == shown + merged + rejected`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ImportReport {
    /// Events in the file, valid or not.
    pub read: u64,
    /// Events with an element of their own: slices, instants, counter samples, arrows.
    pub shown: u64,
    /// Events merged into other elements: ends of slices, names of threads.
    pub merged: u64,
    /// Events that are not shown, for reasons listed among the problems.
    pub rejected: u64,
    /// Counts per table, for formats with tables; they sum to the figures above.
    pub tables: Vec<TableAccount>,
    /// Worst first, then by count.
    pub problems: Vec<Problem>,
    /// Whether the file ends early or is damaged, so that figures are of a part of what was recorded.
    pub is_partial: bool,
}

impl ImportReport {
    /// Adds `count` problems with the same reason.
    pub fn note(&mut self, severity: Severity, reason: &str, count: u64, offset: Option<u64>) {
        if count == 0 {
            return;
        }
        let known = self.problems.iter_mut().find(|p| p.reason == reason && p.severity == severity);
        match known {
            Some(problem) => {
                problem.count += count;
                problem.first_offset = match (problem.first_offset, offset) {
                    (Some(a), Some(b)) => Some(a.min(b)),
                    (a, b) => a.or(b),
                };
            }
            None => self.problems.push(Problem { severity, reason: reason.to_owned(), count, first_offset: offset }),
        }
    }

    /// Adds a part of the file that could not be read at all.
    pub fn lose(&mut self, reason: &str, count: u64, offset: Option<u64>) {
        self.is_partial |= count > 0;
        self.note(Severity::High, reason, count, offset);
    }

    /// Adds events that are not shown.
    pub fn reject(&mut self, severity: Severity, reason: &str, count: u64, offset: Option<u64>) {
        self.rejected += count;
        self.note(severity, reason, count, offset);
    }

    /// Sorts problems by severity and count, descending.
    pub fn sort(&mut self) {
        self.problems.sort_by(|a, b| (b.severity, b.count, &a.reason).cmp(&(a.severity, a.count, &b.reason)));
    }

    /// The worst severity; `None` without problems.
    pub fn worst(&self) -> Option<Severity> {
        self.problems.iter().map(|p| p.severity).max()
    }
}
