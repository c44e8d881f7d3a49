//! Inconsistencies in a recorded memory history.

/// A contradiction in a history, or an event whose counterpart precedes the recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Inconsistency {
    /// A block from before the recording was freed.
    FreedFromBefore,
    /// A block from before the recording is live at the end.
    LiveFromBefore,
    /// A block was allocated where one was live: the free in between is lost.
    AllocTwice,
    /// A block was freed that had been freed before.
    FreedTwice,
    /// A block is live in the history, but not in the state at the end.
    Gone,
    /// A block is live in the state at the end that was freed in the history.
    Appeared,
    SegmentTwice,
    SegmentFreedTwice,
    SegmentGone,
    SegmentAppeared,
    /// An event's time is before that of the one before it.
    TimeGoesBack,
    /// The sizes sum to more than any device has; each was clamped.
    TooLarge,
}

impl Inconsistency {
    /// Description for the user.
    pub fn sentence(self) -> &'static str {
        match self {
            Self::FreedFromBefore => "Freed without being allocated in the history: live before the recording began",
            Self::LiveFromBefore => "Live at the end, but allocated before the recording began",
            Self::AllocTwice => {
                "Allocated where a block was live: its free is lost, so it ends where the next one begins"
            }
            Self::FreedTwice => "Freed again without having been allocated in between: ignored",
            Self::Gone => "Live in the history, but not in the state at its end: shown until the last event",
            Self::Appeared => "Freed in the history, but live in the state at its end: shown from the last event on",
            Self::SegmentTwice => "Reserved where memory was reserved already: the earlier segment ends there",
            Self::SegmentFreedTwice => "Returned to the device without being reserved: ignored",
            Self::SegmentGone => "Reserved in the history, but not at its end: shown until the last event",
            Self::SegmentAppeared => "Returned in the history, but reserved at its end: shown from the last event on",
            Self::TimeGoesBack => "Times go backward: events keep the order of the file",
            Self::TooLarge => "The sizes sum to more than any device has: each was cut",
        }
    }

    /// Whether the replayed history is nevertheless complete and correct.
    pub fn is_harmless(self) -> bool {
        matches!(self, Self::FreedFromBefore | Self::LiveFromBefore)
    }
}

/// Inconsistencies found so far, with their counts and first events.
#[derive(Debug, Default)]
pub struct Inconsistencies(Vec<(Inconsistency, u64, u32)>);

impl Inconsistencies {
    pub fn add(&mut self, inconsistency: Inconsistency, event: u32) {
        match self.0.iter_mut().find(|known| known.0 == inconsistency) {
            Some(known) => {
                known.1 += 1;
                known.2 = known.2.min(event);
            }
            None => self.0.push((inconsistency, 1, event)),
        }
    }

    /// All of them, in the order of [`Inconsistency`].
    pub fn sorted(mut self) -> Vec<(Inconsistency, u64, u32)> {
        self.0.sort_unstable();
        self.0
    }
}
