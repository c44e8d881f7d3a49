//! Counts of repaired and rejected parts of a file, by reason.

use std::marker::PhantomData;

use crate::model::{ImportReport, Severity};

/// Severity and text of one reason.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    pub severity: Severity,
    /// Whether parts with this reason are not shown at all.
    pub is_rejected: bool,
    /// Without a trailing period.
    pub sentence: &'static str,
}

/// The reasons of one reader.
pub trait Reasons: Copy {
    /// In the order of the variants.
    const ENTRIES: &'static [Entry];

    /// The place in [`Self::ENTRIES`].
    fn index(self) -> usize;
}

/// The offset of problems without a position in the file.
pub const NO_OFFSET: u64 = u64::MAX;

/// Makes a `Reason` of one line each, and its `Tally`:
/// `Name: severity, "sentence";`, where `rejected` after the severity means that parts with this reason are
/// not shown at all.
macro_rules! reasons {
    ($($name:ident: $severity:ident $($fate:ident)?, $sentence:literal;)*) => {
        /// A reason for repairing or rejecting a part of a file.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Reason {
            $($name,)*
        }

        impl $crate::reader::tally::Reasons for Reason {
            const ENTRIES: &'static [$crate::reader::tally::Entry] = &[$($crate::reader::tally::Entry {
                severity: $crate::model::Severity::$severity,
                is_rejected: $crate::reader::tally::reasons!(@ $($fate)?),
                sentence: $sentence,
            },)*];

            fn index(self) -> usize {
                self as usize
            }
        }

        pub type Tally = $crate::reader::tally::Tally<Reason>;
    };
    (@) => { false };
    (@ rejected) => { true };
}
pub(in crate::reader) use reasons;

/// The count of each reason, and the first byte offset, where known.
#[derive(Clone, Debug)]
pub struct Tally<R> {
    /// One entry per reason; empty without any.
    met: Vec<(u64, Option<u64>)>,
    reasons: PhantomData<R>,
}

impl<R> Default for Tally<R> {
    fn default() -> Self {
        Self { met: Vec::new(), reasons: PhantomData }
    }
}

impl<R: Reasons> Tally<R> {
    /// Counts one at this byte offset; [`NO_OFFSET`] where it is not known.
    pub fn count(&mut self, reason: R, offset: u64) {
        self.meet(reason.index(), 1, Some(offset).filter(|&offset| offset != NO_OFFSET));
    }

    /// Counts several without known positions.
    pub fn add(&mut self, reason: R, count: u64) {
        self.meet(reason.index(), count, None);
    }

    /// Counts several, the first of them at this byte offset.
    pub fn add_at(&mut self, reason: R, count: u64, offset: u64) {
        self.meet(reason.index(), count, Some(offset));
    }

    fn meet(&mut self, index: usize, count: u64, offset: Option<u64>) {
        if count == 0 {
            return;
        }
        if self.met.is_empty() {
            self.met.resize(R::ENTRIES.len(), (0, None));
        }
        let met = &mut self.met[index];
        met.0 += count;
        met.1 = met.1.into_iter().chain(offset).min();
    }

    /// Forgets a reason.
    pub fn forget(&mut self, reason: R) {
        if let Some(met) = self.met.get_mut(reason.index()) {
            *met = (0, None);
        }
    }

    /// Takes over the counts of `other`.
    pub fn merge(&mut self, other: &Self) {
        for (index, &(count, offset)) in other.met.iter().enumerate() {
            self.meet(index, count, offset);
        }
    }

    /// The count of this reason.
    pub fn n(&self, reason: R) -> u64 {
        self.met.get(reason.index()).map_or(0, |met| met.0)
    }

    /// Number of parts that are not shown at all.
    pub fn n_rejected(&self) -> u64 {
        self.met.iter().zip(R::ENTRIES).filter(|(_, entry)| entry.is_rejected).map(|(met, _)| met.0).sum()
    }

    /// Writes all counts into the report.
    pub fn report(&self, report: &mut ImportReport) {
        self.report_of("", report);
        report.rejected += self.n_rejected();
    }

    /// Adds the counts of `table` as problems. The caller sums up the rejected rows.
    pub fn report_table(&self, table: &str, report: &mut ImportReport) {
        self.report_of(&format!("{table}: "), report);
    }

    fn report_of(&self, prefix: &str, report: &mut ImportReport) {
        for (&(count, offset), entry) in self.met.iter().zip(R::ENTRIES) {
            report.note(entry.severity, &format!("{prefix}{}", entry.sentence), count, offset);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    reasons! {
        Repaired: Note, "Repaired";
        Damaged: Warn rejected, "Damaged";
    }

    #[test]
    fn counts_add_up() {
        let mut a = Tally::default();
        a.count(Reason::Damaged, 90);
        let mut b = Tally::default();
        b.count(Reason::Damaged, 30);
        b.count(Reason::Damaged, 40);
        b.add(Reason::Repaired, 5);
        a.merge(&b);
        assert_eq!((a.n(Reason::Damaged), a.n_rejected()), (3, 3));
        let mut report = ImportReport::default();
        a.report_table("t", &mut report);
        let found: Vec<_> = report.problems.iter().map(|p| (p.reason.as_str(), p.count, p.first_offset)).collect();
        assert_eq!(found, [("t: Repaired", 5, None), ("t: Damaged", 3, Some(30))]);
        a.report(&mut report);
        assert_eq!((report.rejected, report.problems.len()), (3, 4));
        a.forget(Reason::Damaged);
        assert_eq!((a.n_rejected(), b.n_rejected()), (0, 2));
    }
}
