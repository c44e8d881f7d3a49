//! Why rows are not shown as they were written.

use crate::reader::tally::reasons;

reasons! {
    NoTime: Loss rejected, "Row without a start time";
    BadTime: Loss rejected, "Time that is no whole number of nanoseconds";
    EndBeforeStart: Loss rejected, "Row that ends before it starts";
    NoEnd: Loss rejected, "Row without an end time";
    NeverEnded: Note, "Range that was never ended: drawn to the end of the trace";
    BadValue: Loss, "Cell of the wrong type: left out, the rest of its row is shown";
    NoName: Note, "Row without a name";
    BadText: Loss, "Text that is not valid Unicode: shown with replacement characters";
    MetricOutOfRange: Loss rejected, "Metric value beyond its range: a sampling error of the recorder";
    UnpairedSched: Note rejected, "Scheduling event without its other half: a thread that came or went unseen";
    UnknownNvtx: Loss rejected, "NVTX event of a type that Lacuna does not know";
    NoEventTime: Note,
        "CUDA event record without a time of its own, as all before 2025: it lives on in the API call that made it";
    OrphanStack: Note rejected, "Frame of a call stack whose sample is not in the file";
}
