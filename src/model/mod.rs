//! The trace model: columns, 32-bit ids, interned strings, integer nanoseconds.
//!
//! Independent of files, threads and the user interface. A [`Trace`] is built by a [`TraceBuilder`] and
//! immutable afterwards.

mod builder;
mod facts;
mod fixture;
mod flow;
mod format;
mod import;
mod interner;
mod kind;
mod layout;
pub mod memory;
mod nesting;
mod pyramid;
mod raw_slices;
mod rows;
mod slice;
mod span;
mod stack;
mod strings;
mod tables;
pub mod time;
mod tint;
mod trace;
mod track;
mod work;

pub use builder::TraceBuilder;
pub use facts::{FactLists, FactTables, SideTable, SliceFacts};
pub use flow::{FlowEnd, FlowPoint};
pub use format::Format;
pub use import::{ImportReport, Problem, Severity, TableAccount};
pub use interner::Interner;
pub use kind::SliceKind;
pub use memory::MemoryHistory;
pub use nesting::Parents;
pub use pyramid::{Cell, Pyramid};
pub use raw_slices::{RawSlice, RawSlices};
pub use slice::{Row, SliceId, SliceTable};
pub use stack::{SampleTable, StackId, StackTable};
pub use strings::{StringId, StringTable, hash_bytes};
pub use tables::{
    AllocationTable, CHANGE_SINCE_START, CorrelationIndex, Counter, CounterUnit, FlowTable, InstantTable,
};
pub use time::{DurNs, TimeNs, TimeRange};
pub use tint::Tint;
pub use trace::{Details, DeviceInfo, EventDetails, MOST_ROWS, SOURCE_ROW_BITS, Trace, TraceInfo};
pub use track::{KERNEL_COUNTERS, ON_CPU, Process, ProcessId, Track, TrackId, TrackKind};
pub use work::{
    Collective, CopyKind, GraphNode, Launch, MemoryCopy, SyncKind, Synchronization, element_bytes, host_collective,
};
