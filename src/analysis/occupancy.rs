//! Theoretical occupancy: the share of a multiprocessor's warps that a kernel's launch can fill.

use crate::model::{DeviceInfo, Launch};

/// Allocation granularity of registers per warp.
const REGISTER_UNIT: u64 = 256;
/// Threads per warp on NVIDIA devices.
const WARP: u64 = 32;

/// Resources of one multiprocessor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    pub warps: u64,
    pub blocks: u64,
    pub registers: u64,
    /// Largest number of registers per block.
    pub registers_per_block: u64,
    /// Bytes of shared memory.
    pub shared: u64,
    /// Allocation granularity of shared memory in bytes.
    shared_unit: u64,
    /// Bytes of shared memory reserved by the system per block.
    shared_reserved: u64,
    /// Partitions of a multiprocessor with separate registers, over which the warps of a block are distributed.
    partitions: u64,
}

impl Limits {
    /// The limits of an NVIDIA device: as recorded, else by compute capability (5.0 to 12.x).
    ///
    /// `None` for devices of other vendors, whose multiprocessors differ, and if the capability is not recorded.
    ///
    /// Source: CUDA C++ Programming Guide, "Technical Specifications per Compute Capability", and
    /// the allocation rules of NVIDIA's `cuda_occupancy.h`.
    pub fn of(device: &DeviceInfo) -> Option<Self> {
        if device.is_amd() || device.threads_per_warp.is_some_and(|threads| u64::from(threads) != WARP) {
            return None;
        }
        let capability = (device.compute_major?, device.compute_minor?);
        let (warps, blocks, shared_kib) = match capability {
            (5, 2) | (6, 1) => (64, 32, 96),
            (5, _) | (6, _) => (64, 32, 64),
            (7, 5) => (32, 16, 64),
            (7, _) => (64, 32, 96),
            (8, 0) => (64, 32, 164),
            (8, 7) => (48, 16, 164),
            (8, 9) => (48, 24, 100),
            (8, _) => (48, 16, 100),
            (9 | 10, _) => (64, 32, 228),
            (11, _) => (48, 24, 228),
            (12, _) => (48, 24, 100),
            _ => return None,
        };
        let recorded = |value: Option<u32>, table: u64| value.filter(|&value| value > 0).map_or(table, u64::from);
        let registers = recorded(device.registers_per_sm, 65_536);
        Some(Self {
            warps: recorded(device.max_warps_per_sm, warps),
            blocks: recorded(device.max_blocks_per_sm, blocks),
            registers,
            registers_per_block: if matches!(capability, (5, 3) | (6, 2)) { 32_768 } else { 65_536 },
            shared: recorded(device.shared_bytes_per_sm, shared_kib * 1024),
            shared_unit: if capability.0 >= 8 { 128 } else { 256 },
            shared_reserved: if capability.0 >= 8 { 1024 } else { 0 },
            partitions: if capability == (6, 0) { 2 } else { 4 },
        })
    }
}

/// Theoretical occupancy of a launch, 0 to 1: resident warps per multiprocessor by their maximum, independent
/// of the grid size.
///
/// Shared memory is assumed to be configured to its maximum, as the driver does on demand. `None` if no block
/// fits, which means that the record is wrong, and where registers or shared memory were not recorded.
///
/// Source: NVIDIA's occupancy calculator (`cuda_occupancy.h`).
pub fn theoretical(limits: &Limits, launch: &Launch) -> Option<f64> {
    let warps = launch.threads_per_block().div_ceil(WARP);
    if warps == 0 || warps > limits.warps {
        return None;
    }
    let by_warps = limits.warps / warps;
    let (registers, shared) = (launch.registers_per_thread?, launch.shared_bytes?);
    let blocks =
        limits.blocks.min(by_warps).min(by_registers(limits, registers, warps)?).min(by_shared(limits, shared));
    (blocks > 0).then(|| (blocks * warps) as f64 / limits.warps as f64)
}

fn by_registers(limits: &Limits, per_thread: u32, warps: u64) -> Option<u64> {
    let per_warp = (u64::from(per_thread) * WARP).next_multiple_of(REGISTER_UNIT);
    if per_warp == 0 {
        return Some(u64::MAX);
    }
    if per_warp * warps.next_multiple_of(limits.partitions) > limits.registers_per_block {
        return None;
    }
    let per_partition = limits.registers / limits.partitions / per_warp;
    Some(per_partition * limits.partitions / warps)
}

fn by_shared(limits: &Limits, bytes: u32) -> u64 {
    let per_block = (u64::from(bytes) + limits.shared_reserved).next_multiple_of(limits.shared_unit);
    limits.shared.checked_div(per_block).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nvidia(major: u32, minor: u32) -> DeviceInfo {
        DeviceInfo { compute_major: Some(major), compute_minor: Some(minor), ..Default::default() }
    }

    fn launch(threads: u32, registers: u32, shared: u32) -> Launch {
        let (registers_per_thread, shared_bytes) = (Some(registers), Some(shared));
        Launch { grid: [1000, 1, 1], block: [threads, 1, 1], registers_per_thread, shared_bytes, ..Default::default() }
    }

    /// (capability, threads, registers, shared bytes, resident warps, warps that fit), each by hand.
    #[test]
    fn occupancy_matches_the_calculator() {
        let cases = [
            // 32 x 32 = 1,024 registers a warp: 65,536 / 1,024 = 64 warps, all there is.
            ((8, 0), 256, 32, 0, 64, 64),
            // 2,048 a warp: 32 warps, 4 blocks of 8.
            ((8, 0), 256, 64, 0, 32, 64),
            // 255 x 32 = 8,160, rounded to 8,192: 8 warps, 2 blocks of 4.
            ((8, 0), 128, 255, 0, 8, 64),
            // 96 x 32 = 3,072: each quarter of 16,384 holds 5 warps, 20 in all; 6 blocks of 3.
            // Without the quarters it would be 21 warps and 7 blocks.
            ((8, 0), 96, 96, 0, 18, 64),
            // 49,152 + 1,024 = 50,176 of 167,936 bytes: 3 blocks of 8 warps.
            ((8, 0), 256, 16, 49_152, 24, 64),
            // On 7.0 nothing is reserved: 49,152 of 98,304 bytes, exactly 2 blocks.
            ((7, 0), 256, 16, 49_152, 16, 64),
            // 32 warps a block, 48 fit: one block only.
            ((8, 6), 1024, 32, 0, 32, 48),
            // Blocks of one warp: 32 on 8.0, 16 on 8.6 and 7.5, 24 on 8.9, whatever else would fit.
            ((8, 0), 32, 16, 0, 32, 64),
            ((8, 6), 32, 16, 0, 16, 48),
            ((7, 5), 32, 16, 0, 16, 32),
            ((8, 9), 32, 16, 0, 24, 48),
            // FlashAttention-3's sort: 168 x 32 = 5,376; 16,384 / 5,376 = 3 a quarter, 12 warps;
            // one block of 12. Shared: 225,280 + 1,024 of 233,472 bytes, one block too.
            ((9, 0), 384, 168, 225_280, 12, 64),
            // 6.0 has halves: 32,768 / 3,072 = 10 warps each, 20; on 6.1 quarters: 5 each, 20.
            ((6, 0), 128, 96, 0, 20, 64),
            // 72 x 32 = 2,304: halves of 6.0 hold 14 each, 28 warps, 9 blocks of 3; quarters 7 each.
            ((6, 0), 96, 72, 0, 27, 64),
            // 33 threads take two warps.
            ((10, 0), 33, 16, 0, 64, 64),
            ((12, 0), 128, 40, 0, 48, 48),
        ];
        for ((major, minor), threads, registers, shared, resident, fit) in cases {
            let limits = Limits::of(&nvidia(major, minor)).unwrap();
            let expected = f64::from(resident) / f64::from(fit);
            let got = theoretical(&limits, &launch(threads, registers, shared));
            assert_eq!(got, Some(expected), "{major}.{minor}, {threads} threads, {registers} registers, {shared} B");
        }
    }

    #[test]
    fn recorded_limits_come_first() {
        let device = DeviceInfo { max_warps_per_sm: Some(32), max_blocks_per_sm: Some(8), ..nvidia(8, 0) };
        let limits = Limits::of(&device).unwrap();
        // 8 blocks of one warp, of 32.
        assert_eq!(theoretical(&limits, &launch(32, 16, 0)), Some(0.25));
    }

    #[test]
    fn unknown_or_impossible_launches_have_no_occupancy() {
        assert_eq!(Limits::of(&DeviceInfo::default()), None);
        assert_eq!(Limits::of(&nvidia(3, 5)), None);
        let amd = DeviceInfo { name: "AMD Instinct MI300X".to_owned(), ..nvidia(9, 4) };
        assert_eq!(Limits::of(&amd), None);
        assert_eq!(Limits::of(&DeviceInfo { threads_per_warp: Some(64), ..nvidia(9, 4) }), None);
        let limits = Limits::of(&nvidia(9, 0)).unwrap();
        assert_eq!(theoretical(&limits, &launch(0, 16, 0)), None);
        assert_eq!(theoretical(&limits, &launch(4096, 16, 0)), None);
        assert_eq!(theoretical(&limits, &launch(1024, 255, 0)), None);
        assert_eq!(theoretical(&limits, &launch(128, 16, 300_000)), None);
    }
}
