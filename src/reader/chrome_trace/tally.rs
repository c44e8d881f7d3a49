//! Reasons for repairing or rejecting events.

use crate::reader::tally::reasons;

reasons! {
    Repaired: Warn, "Not valid JSON (a raw quote, line break, backslash or NaN): repaired and shown";
    Damaged: Warn rejected, "Damaged beyond repair: skipped up to the next event";
    NotAnObject: Warn rejected, "Value in the list of events that is no object, and holds none that is an event";
    CutOff: Warn rejected, "The file ends inside this event: its writer was stopped before it had finished";
    NoPhase: Warn rejected, "Event without a phase (`ph`)";
    UnknownPhase: Warn rejected, "Event with a phase (`ph`) that the format does not have";
    NoTime: Warn rejected, "Event without a time stamp (`ts`)";
    BadTime: Warn rejected, "Time stamp or duration is not a finite number";
    TimeOutOfRange: Warn rejected, "Time beyond the 292 years that 64 bits of nanoseconds hold";
    LooksLikeNanoseconds: Warn rejected,
        "Time stamp out of range: `ts` looks like nanoseconds, but the format has microseconds";
    NoDuration: Warn rejected, "Complete event (`X`) without a duration (`dur`)";
    NegativeDuration: Warn rejected, "Negative duration: the recorder did not see the end";
    Elsewhere: Warn rejected, "Event under another key than `traceEvents`, where the format has none: not shown";
    BadCounter: Warn rejected, "Counter event without a finite number in its args";
    TextNumber: Note, "Number written as a string: read exactly";
    BadText: Warn, "Name that is not valid Unicode: shown with replacement characters";
    DeepArgs: Warn, "Args nested more than 100 levels deep: the event is shown, its args only as text";
    LongName: Warn, "Name of more than 65,536 bytes: cut where it is drawn, whole when copied";
    MissingComma: Warn, "Comma missing between two events: both are shown";
    ExtraComma: Warn, "Comma with no event before it";
    TrailingComma: Note, "Comma after the last event";
    EndWithoutBegin: Warn rejected, "End event (`E`) without a begin (`B`) on its thread";
    NameMismatch: Note, "End event (`E`) names another slice than the one it ends: ends it all the same";
    AsyncEndWithoutBegin: Note rejected, "End of an asynchronous operation whose begin was not recorded";
    NeverEnded: Warn, "Slice that was never ended: drawn to the end of the trace";
    Context: Note, "Context, clock or dump event, or link between two ids: read, but not drawn";
    DamagedSample: Warn rejected, "Sample that is not a valid JSON object: not shown, nor are those after the damage";
    TooManyTexts: Warn rejected, "Samples with more than 1 GiB of different names: not shown";
    LostFrame: Warn, "Sample whose stack frame is not in the file: shown without its call stack";
    DeepStack: Warn, "Call stack deeper than 2,048 frames: frames in its middle are left out";
    DamagedFrame: Warn, "Stack frame that is not an object, or beyond 1 GiB of different names: left out";
    DuplicateFrame: Warn, "Stack frame with the id of another: the last one counts";
    LostParent: Warn, "Stack frame whose caller is not in the file: the stack begins with it";
    FrameCycle: Warn, "Stack frames that call each other in a circle: cut where it closes";
    UnusedFrame: Note, "Stack frame that no sample was in: seen only with the events that name it";
    InconsistentMemory: Note,
        "[memory] event that contradicts those before it: its total or its block does not follow from them";
}

impl Tally {
    /// Whether anything in the form of an event was found.
    pub fn has_events(&self) -> bool {
        let shapeless = [Reason::Damaged, Reason::NotAnObject, Reason::CutOff, Reason::NoPhase, Reason::Elsewhere];
        self.n_rejected() > shapeless.into_iter().map(|reason| self.n(reason)).sum()
    }
}
