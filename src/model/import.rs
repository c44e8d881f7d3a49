//! What became of every event of a file: shown, merged or rejected, and why.

/// How bad an import problem is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Worth knowing; the picture is whole and true.
    Note,
    /// Something was lost, repaired or moved to another row.
    Loss,
    /// A part of the file could not be read at all.
    Error,
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

/// The account of one table of a file that has tables. `read == shown + merged + rejected`.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct TableAccount {
    pub table: String,
    pub read: u64,
    pub shown: u64,
    pub merged: u64,
    pub rejected: u64,
}

/// The account of one file. `read == shown + merged + rejected`, always.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ImportReport {
    /// Events found in the file, whole or broken.
    pub read: u64,
    /// Events that are on screen in their own right: slices, instants, counter samples, arrows.
    pub shown: u64,
    /// Events that live on inside another thing: ends of begins, names of threads.
    pub merged: u64,
    /// Events that are not shown; each has its reason among the problems.
    pub rejected: u64,
    /// Where the format has tables, the same for each of them; they sum to the figures above.
    pub tables: Vec<TableAccount>,
    /// Worst first, then by count.
    pub problems: Vec<Problem>,
}

impl ImportReport {
    /// Notes `count` more problems of one reason.
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

    /// Notes events that are not shown.
    pub fn reject(&mut self, severity: Severity, reason: &str, count: u64, offset: Option<u64>) {
        self.rejected += count;
        self.note(severity, reason, count, offset);
    }

    /// Puts the worst problems first.
    pub fn sort(&mut self) {
        self.problems.sort_by(|a, b| (b.severity, b.count, &a.reason).cmp(&(a.severity, a.count, &b.reason)));
    }

    /// The worst severity met, if any problem was.
    pub fn worst(&self) -> Option<Severity> {
        self.problems.iter().map(|p| p.severity).max()
    }
}
