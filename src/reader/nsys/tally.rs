//! Reasons for repairing or rejecting rows.

use crate::reader::tally::reasons;

reasons! {
    NoTime: Loss rejected, "Row without a start time";
    BadTime: Loss rejected, "Time that is not a whole number of nanoseconds";
    EndBeforeStart: Loss rejected, "Row that ends before it starts";
    NoEnd: Loss rejected, "Row without an end time";
    NeverEnded: Note, "Range that was never ended: drawn to the end of the trace";
    BadValue: Loss, "Cell of the wrong type: left out, the rest of its row is shown";
    NoName: Note, "Row without a name";
    BadText: Loss, "Text that is not valid Unicode: shown with replacement characters";
    MetricOutOfRange: Loss rejected, "Metric value beyond its range: a sampling error of the recorder";
    UnpairedSched: Note rejected, "Scheduling event without its counterpart: the other switch of the thread was not recorded";
    UnknownNvtx: Loss rejected, "NVTX event of an unknown type";
    NoEventTime: Note,
        "CUDA event record without its own time, as in all exports before 2025: shown as the API call that made it";
    OrphanStack: Note rejected, "Frame of a call stack whose sample is not in the file";
}
