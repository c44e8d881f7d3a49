//! What CUDA gave out, block by block, for the model to replay.

use std::collections::BTreeMap;

use crate::model::memory::{MemoryAction, MemoryEvent, MemoryPool, MemorySource, PoolId, RawMemory};
use crate::model::{StackId, StringId, TraceBuilder};

use super::device::memory as kind_name;
use super::part::{DriverMemoryEvent, system_ids};
use super::places::{Names, Owner};

/// Kinds of memory that lie on the host: pageable and pinned.
const ON_HOST: [i64; 2] = [0, 1];

/// One history a process and device; pinned and pageable memory is the host's. Each block says its kind.
///
/// * `events`: sorted by time.
pub fn histories(events: &[DriverMemoryEvent], names: &Names, builder: &mut TraceBuilder) -> Vec<RawMemory> {
    let mut all: BTreeMap<(i64, i32), RawMemory> = BTreeMap::new();
    let mut kinds: BTreeMap<i64, StringId> = BTreeMap::new();
    for event in events {
        let device = match names.gpu(event.process, event.device) {
            _ if ON_HOST.contains(&event.kind) => -1,
            Owner::Device { gpu, .. } => i32::try_from(gpu).unwrap_or(i32::MAX),
            _ => -1,
        };
        let raw = all.entry((event.process, device)).or_insert_with(|| RawMemory {
            device,
            pid: Some(system_ids(event.process).0),
            source: MemorySource::Driver,
            has_time: true,
            pools: vec![MemoryPool::default()],
            ..RawMemory::default()
        });
        let action = if event.is_free { MemoryAction::FreeCompleted } else { MemoryAction::Alloc };
        if !event.is_free {
            let name = || kind_name(event.kind).map_or_else(|| format!("Kind {}", event.kind), str::to_owned);
            let kind = *kinds.entry(event.kind).or_insert_with(|| builder.strings.intern(&name()));
            raw.categories.push((raw.events.len() as u32, kind));
        }
        raw.events.push(MemoryEvent {
            ts: event.ts,
            action,
            addr: event.address as u64,
            bytes: u64::try_from(event.bytes).unwrap_or(0),
            pool: PoolId(0),
            stack: StackId::default(),
        });
    }
    all.into_values().collect()
}
