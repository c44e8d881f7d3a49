//! Reasons for repairing or rejecting events.

use crate::reader::tally::reasons;

reasons! {
    Repaired: Loss, "Not valid JSON (a raw quote, line break, backslash or NaN): repaired and shown";
    Damaged: Loss rejected, "Damaged beyond repair: skipped up to the next event";
    TooMuchDamage: Loss rejected, "Too much damage in one place: what follows it was skipped, up to 2 MiB of text each";
    CutOff: Loss rejected, "The file ends inside this event: its writer was stopped before it had finished";
    NoPhase: Loss rejected, "Event without a phase (`ph`)";
    UnknownPhase: Loss rejected, "Event with a phase (`ph`) that the format does not have";
    NoTime: Loss rejected, "Event without a time stamp (`ts`)";
    BadTime: Loss rejected, "Time stamp or duration is not a finite number";
    TimeOutOfRange: Loss rejected, "Time beyond the 292 years that 64 bits of nanoseconds hold";
    LooksLikeNanoseconds: Loss rejected,
        "Time stamp out of range: `ts` looks like nanoseconds, but the format has microseconds";
    NoDuration: Loss rejected, "Complete event (`X`) without a duration (`dur`)";
    NegativeDuration: Loss rejected, "Negative duration: the recorder did not see the end";
    BadCounter: Loss rejected, "Counter event without a finite number in its args";
    TextNumber: Note, "Number written as a string: read exactly";
    BadText: Loss, "Name that is not valid Unicode: shown with replacement characters";
    DeepArgs: Loss, "Args nested more than 100 levels deep: the event is shown, its args only as text";
    LongName: Loss, "Name of more than 65,536 bytes: cut where it is drawn, whole when copied";
    MissingComma: Loss, "Comma missing between two events: both are shown";
    ExtraComma: Loss, "Comma with no event before it";
    TrailingComma: Note, "Comma after the last event";
    EndWithoutBegin: Loss rejected, "End event (`E`) without a begin (`B`) on its thread";
    NameMismatch: Loss, "End event (`E`) names another slice than the one it ends: ends it all the same";
    AsyncEndWithoutBegin: Note rejected, "End of an asynchronous operation whose begin was not recorded";
    NeverEnded: Loss, "Slice that was never ended: drawn to the end of the trace";
    Context: Note, "Context, clock or dump event: read, but not drawn";
    DamagedSample: Loss rejected, "Sample that is not a valid JSON object: not shown, nor are those after the damage";
    TooManyTexts: Loss rejected, "Samples with more than 1 GiB of different names: not shown";
    LostFrame: Loss, "Sample whose stack frame is not in the file: shown without its call stack";
    DeepStack: Loss, "Call stack deeper than 2,048 frames: frames in its middle are left out";
    DamagedFrame: Loss, "Stack frame that is not an object, or beyond 1 GiB of different names: left out";
    DuplicateFrame: Loss, "Stack frame with the id of another: the last one counts";
    LostParent: Loss, "Stack frame whose caller is not in the file: the stack begins with it";
    FrameCycle: Loss, "Stack frames that call each other in a circle: cut where it closes";
    UnusedFrame: Note, "Stack frame that no sample was in: seen only with the events that name it";
    InconsistentMemory: Note,
        "[memory] event that contradicts those before it: its total or its block does not follow from them";
}

impl Tally {
    /// Whether anything in the form of an event was found.
    pub fn has_events(&self) -> bool {
        let shapeless = [Reason::Damaged, Reason::TooMuchDamage, Reason::CutOff, Reason::NoPhase];
        self.n_rejected() > shapeless.into_iter().map(|reason| self.n(reason)).sum()
    }
}
