//! What was recorded: columns, 32-bit ids, interned strings, integer nanoseconds.
//!
//! Knows no file, no thread and no window. A [`Trace`] comes out of a [`TraceBuilder`] and never
//! changes after that.

mod builder;
mod fixture;
mod flow;
mod format;
mod import;
mod kind;
mod layout;
pub mod memory;
mod pyramid;
mod slice;
mod stack;
mod strings;
mod tables;
pub mod time;
mod trace;
mod track;
mod work;

pub use builder::{RawSlice, RawSlices, TraceBuilder};
pub use flow::{FlowEnd, FlowPoint};
pub use format::Format;
pub use import::{ImportReport, Problem, Severity, TableAccount};
pub use kind::SliceKind;
pub use memory::MemoryHistory;
pub use pyramid::{Cell, Pyramid};
pub use slice::{Row, SliceId, SliceTable};
pub use stack::{SampleTable, StackId, StackTable};
pub use strings::{StringId, StringTable, hash_bytes};
pub use tables::{AllocationTable, CorrelationIndex, Counter, CounterUnit, FlowTable, InstantTable};
pub use time::{DurNs, TimeNs, TimeRange};
pub use trace::{Details, DeviceInfo, EventDetails, Trace, TraceInfo, tint};
pub use track::{Process, ProcessId, Track, TrackId, TrackKind};
pub use work::{CopyKind, Launch, MemoryCopy};
