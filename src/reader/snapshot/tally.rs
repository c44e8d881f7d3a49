//! Reasons for repairing or rejecting parts of a snapshot.

use crate::reader::tally::reasons;

reasons! {
    UnexpectedItem: Warn, "List item of an unexpected type: not shown";
    UnknownAction: Warn, "Event with an unknown action: not shown";
    NoAddress: Warn, "Event without an address: not shown";
    BadSize: Warn, "Event whose size is missing, negative or beyond 256 TiB: not shown";
    BadTime: Warn, "Time that is not a whole number of microseconds, or beyond 292 years: shown with the event before";
    NoTime: Warn, "Event without a time among others that have one: shown with the event before";
    BadField: Warn, "Field of the wrong type, or out of range: left out, the rest is shown";
    BadFrames: Warn, "Call stack that is not a list of frames: shown without it";
    DeepStack: Warn, "Call stack deeper than 2,048 frames: frames in its middle are left out";
    BadSegment: Warn, "Segment without an address, or whose size is missing, negative or beyond 256 TiB: not shown";
    EmptySegment: Note, "Segment without an address, a size and blocks: not shown";
    LostBlock: Warn, "Block of a segment that is not shown";
    BadBlock: Warn, "Block with an invalid size or state: not shown";
    BlockClipped: Warn, "Block that reaches beyond its segment: cut where the segment ends";
    BlockOutside: Warn, "Block outside of its segment or over the one before it: not shown";
    SumsDiffer: Warn, "Segment whose own sums differ from those of its blocks: the blocks count";
    Orphan: Warn, "Part of a snapshot outside of its lists: not shown";
    Duplicate: Warn, "Named a second time in the file: shown once";
    BadAnnotation: Warn, "Annotation without a name, a stage or a time: not shown";
    EndWithoutStart: Note, "Annotation that began before the recording: not shown";
    StartWithoutEnd: Note, "Annotation that was never ended: drawn to the end";
    BadText: Warn, "Text that is not valid Unicode: shown with replacement characters";
    ContainerClass: Note, "Python container class: read as a plain dictionary";
    CutState: Warn, "State after the last event, of which the file lacks the last ones: not shown";
}
