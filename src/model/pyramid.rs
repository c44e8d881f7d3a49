//! Busy share of a row over time at several resolutions.
//!
//! Merging small slices into solid runs would make a row that is 73 % busy look fully busy when zoomed out,
//! which hides gaps. Zoomed out, a row is therefore drawn from the exact share of time in which a slice was
//! running, per bucket, at every power-of-two bucket width.

use super::{DurNs, TimeNs, TimeRange, Tint};

/// Busy share and tint of one bucket or pixel of a row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cell {
    /// Busy share: 0 only if entirely idle, 255 only if entirely busy, else rounded into 1 to 254.
    pub share: u8,
    /// Tint of the slice that occupies most of it.
    pub tint: Tint,
}

/// Busy shares of one row at all bucket widths from `1 << base_shift` nanoseconds up.
#[derive(Debug)]
pub struct Pyramid {
    /// Start of the first bucket of every level.
    origin: TimeNs,
    base_shift: u32,
    /// Level `i` has buckets of `1 << (base_shift + i)` nanoseconds; the last has at most two.
    levels: Vec<Vec<Cell>>,
}

/// Exact busy time of a bucket while levels are built.
#[derive(Clone, Copy, Default)]
struct Sum {
    busy: u64,
    /// Busy time of the slice that gives the tint, to choose the larger one when buckets merge.
    top: u64,
    tint: Tint,
}

impl Pyramid {
    /// Builds all levels over slices that do not overlap, given in time order as
    /// (start, end, tint).
    ///
    /// The base bucket is one to two times the mean spacing of the slices: below that, drawing the
    /// slices themselves is cheaper. Cost: O(slices), 2 to 4 bytes per slice.
    pub fn build(slices: impl ExactSizeIterator<Item = (TimeNs, TimeNs, Tint)>, span: TimeRange) -> Self {
        let n = slices.len();
        Self::of_buckets(slices, n, span)
    }

    /// The same of at most `n` base buckets, and at least half as many.
    pub fn of_buckets(slices: impl Iterator<Item = (TimeNs, TimeNs, Tint)>, n: usize, span: TimeRange) -> Self {
        let span_ns = (i128::from(span.end) - i128::from(span.start)).max(1) as u128;
        let wanted = (span_ns / n.max(1) as u128).max(1);
        let base_shift = (128 - (wanted - 1).leading_zeros()).min(62);
        let n_buckets = ((span_ns - 1) >> base_shift) as usize + 1;
        let mut sums = vec![Sum::default(); n_buckets];
        for (start, end, tint) in slices {
            add(&mut sums, base_shift, start.abs_diff(span.start), end.abs_diff(span.start), tint);
        }
        let mut levels = Vec::new();
        let mut shift = base_shift;
        loop {
            levels.push(sums.iter().map(|sum| sum.cell(shift)).collect());
            if sums.len() <= 2 || shift >= 62 {
                break;
            }
            // In place: what is merged lies before what is to be merged.
            let n_merged = sums.len().div_ceil(2);
            for i in 0..n_merged {
                sums[i] = Sum::merged(&sums[2 * i..sums.len().min(2 * i + 2)]);
            }
            sums.truncate(n_merged);
            shift += 1;
        }
        Self { origin: span.start, base_shift, levels }
    }

    /// Width of the finest buckets in nanoseconds; for narrower pixels, draw the slices.
    pub fn base_dur(&self) -> DurNs {
        1 << self.base_shift
    }

    /// Appends the cells of `n_pixels` equal parts of `view` to `out`.
    ///
    /// Partly covered buckets are weighted by their overlap. A pixel with any idle time is never 255, one with
    /// any busy time never 0. Cost: O(pixels).
    pub fn pixels(&self, view: TimeRange, n_pixels: usize, out: &mut Vec<Cell>) {
        let ns_per_pixel = view.dur() as f64 / n_pixels.max(1) as f64;
        let level = (ns_per_pixel.max(1.0).log2() as u32).saturating_sub(self.base_shift);
        let level = (level as usize).min(self.levels.len() - 1);
        let cells = &self.levels[level];
        let width = (1_u64 << (self.base_shift + level as u32)) as f64;
        let offset = (view.start as i128 - i128::from(self.origin)) as f64;
        let to_bucket = |pixel: usize| (offset + pixel as f64 * ns_per_pixel) / width;
        let mut from = to_bucket(0);
        for pixel in 0..n_pixels {
            let to = to_bucket(pixel + 1);
            out.push(blend(cells, from, to));
            from = to;
        }
    }

    /// Bytes of memory held.
    pub fn heap_bytes(&self) -> usize {
        self.levels.iter().map(|level| level.capacity() * size_of::<Cell>()).sum()
    }
}

impl Sum {
    fn cell(&self, shift: u32) -> Cell {
        let width = 1_u64 << shift;
        let share = match self.busy {
            0 => 0,
            busy if busy >= width => 255,
            busy => (busy as f64 / width as f64 * 255.0).clamp(1.0, 254.0) as u8,
        };
        Cell { share, tint: self.tint }
    }

    fn merged(pair: &[Self]) -> Self {
        let [a, b] = [pair[0], pair.get(1).copied().unwrap_or_default()];
        let top = if b.top > a.top { b } else { a };
        Self { busy: a.busy.saturating_add(b.busy), top: top.top, tint: top.tint }
    }
}

/// Adds the time from `start` to `end`, both relative to the origin, to the buckets it touches.
fn add(sums: &mut [Sum], shift: u32, start: u64, end: u64, tint: Tint) {
    let mut from = start;
    while from < end {
        let bucket = (from >> shift) as usize;
        let Some(sum) = sums.get_mut(bucket) else { return };
        let bucket_end = ((bucket as u128 + 1) << shift).min(u128::from(u64::MAX));
        let to = end.min(bucket_end as u64);
        let part = to - from;
        sum.busy += part;
        if part > sum.top {
            sum.top = part;
            sum.tint = tint;
        }
        from = to;
    }
}

/// The cell between the fractional bucket positions `from` and `to`.
fn blend(cells: &[Cell], from: f64, to: f64) -> Cell {
    let n = cells.len() as f64;
    if to <= 0.0 || from >= n {
        return Cell::default();
    }
    let (first, last) = (from.max(0.0) as usize, to.min(n).ceil() as usize);
    let mut busy = 0.0;
    let mut best = (0.0, Tint::default());
    for (index, cell) in cells.iter().enumerate().take(last).skip(first) {
        let part = (to.min(index as f64 + 1.0) - from.max(index as f64)).max(0.0);
        let weight = part * f64::from(cell.share);
        busy += weight;
        if weight > best.0 {
            best = (weight, cell.tint);
        }
    }
    let share = match busy / (to - from) {
        0.0 => 0,
        share if share >= 254.999 => 255,
        share => share.clamp(1.0, 254.0) as u8,
    };
    Cell { share, tint: best.1 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn build(slices: &[(i64, i64)]) -> Pyramid {
        let span = TimeRange { start: slices[0].0, end: slices[slices.len() - 1].1 };
        Pyramid::build(slices.iter().map(|&(start, end)| (start, end, Tint::default())), span)
    }

    fn pixels(pyramid: &Pyramid, start: i64, end: i64, n: usize) -> Vec<u8> {
        let mut out = Vec::new();
        pyramid.pixels(TimeRange { start, end }, n, &mut out);
        out.iter().map(|cell| cell.share).collect()
    }

    #[test]
    fn busy_and_idle_rows_are_exact() {
        let slices: Vec<_> = (0..1024).map(|i| (i * 10, i * 10 + 10)).collect();
        let pyramid = build(&slices);
        assert!(pixels(&pyramid, 0, 10240, 10).iter().all(|&share| share == 255));
        assert_eq!(pixels(&pyramid, 20480, 30720, 3), [0, 0, 0]);
    }

    #[test]
    fn one_idle_nanosecond_is_never_rounded_away() {
        let slices = [(0, 1_000_000_000), (1_000_000_001, 2_000_000_000)];
        assert!(pixels(&build(&slices), 0, 2_000_000_000, 1)[0] < 255);
    }

    #[test]
    fn one_busy_nanosecond_is_never_rounded_away() {
        let slices = [(0, 1), (1_000_000_000, 1_000_000_001)];
        assert!(pixels(&build(&slices), 0, 1_000_000_001, 1)[0] > 0);
    }

    #[test]
    fn shares_match_the_slices() {
        // 73 of every 100 ns at low resolution: 73 % everywhere except at the uneven end.
        let slices: Vec<_> = (0..100_000).map(|i| (i * 100, i * 100 + 73)).collect();
        let pyramid = build(&slices);
        // The last pixel reaches beyond the last slice.
        for share in pixels(&pyramid, 0, 10_000_000, 100).into_iter().take(99) {
            assert!((i32::from(share) - 186).abs() <= 2, "{share} is not 73 % of 255");
        }
    }

    #[test]
    fn extreme_times_do_not_overflow() {
        let pyramid = build(&[(i64::MIN + 1, 0), (0, i64::MAX - 1)]);
        assert!(pixels(&pyramid, i64::MIN + 1, 0, 4).iter().all(|&share| share > 0));
    }
}
