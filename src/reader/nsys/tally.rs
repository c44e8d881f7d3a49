//! Reasons for repairing or rejecting rows.

use crate::reader::tally::reasons;

reasons! {
    NoTime: Warn rejected, "Row without a start time";
    BadTime: Warn rejected, "Time that is not a whole number of nanoseconds";
    EndBeforeStart: Warn rejected, "Row that ends before it starts";
    NoEnd: Warn rejected, "Row without an end time";
    NeverEnded: Note, "Range that was never ended: drawn to the end of the trace";
    BadValue: Warn, "Cell of the wrong type: left out, the rest of its row is shown";
    NoName: Note, "Row without a name";
    BadText: Warn, "Text that is not valid Unicode: shown with replacement characters";
    MetricOutOfRange: Warn rejected, "Metric value beyond its range: a sampling error of the recorder";
    ValueOutOfRange: Warn, "Metric value beyond its range: left out, the others of its row are shown";
    UnpairedSched: Note rejected, "Scheduling event without its counterpart: the other switch of the thread was not \
                                   recorded";
    UnknownNvtx: Warn rejected, "NVTX event of an unknown type";
    NoEventTime: Note,
        "CUDA event record without its own time, which the recorder did not write: shown as the API call that made it";
    OrphanStack: Note rejected, "Frame of a call stack whose sample is not in the file";
}
