//! The layout of one row: wide slices one by one, the others as the busy share of each pixel.

use crate::model::{Cell, Pyramid, Row, SliceId, TimeNs, TimeRange, Tint, Trace};

/// Slices at least this wide, in physical pixels, are drawn one by one.
pub const MIN_SLICE_PIXELS: f64 = 3.0;

/// In runs of one color at least this wide the slice behind them is searched for, so that a long
/// slice among many short ones keeps its label.
const MIN_LABEL_PIXELS: usize = 24;

/// This many slices of a pixel are summed one by one; the rest is taken from the pyramid, so that work is
/// bounded by the number of pixels.
const MAX_SLICES_PER_PIXEL: u32 = 16;

/// Spans of time that do not overlap, in time order: those of a row, or of a group.
#[derive(Clone, Copy)]
pub struct Spans<'a> {
    pub ts: &'a [TimeNs],
    pub end: &'a [TimeNs],
    /// The tint of each, by its index here.
    pub tint: &'a dyn Fn(usize) -> Tint,
    pub pyramid: Option<&'a Pyramid>,
}

impl Spans<'_> {
    /// The spans that touch `range`.
    fn window(&self, range: TimeRange) -> std::ops::Range<usize> {
        let first = self.end.partition_point(|&end| end < range.start);
        let last = self.ts.partition_point(|&ts| ts < range.end);
        first..last.max(first)
    }
}

/// A slice drawn as a box, in pixels from the left edge; it may reach beyond the canvas.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WideSlice {
    /// Its index in the row.
    pub index: usize,
    pub from: f64,
    pub to: f64,
}

/// Lays out a row of a trace; see [`layout_spans`].
pub fn layout_row(
    trace: &Trace,
    row: &Row,
    view: TimeRange,
    n_pixels: usize,
    cells: &mut Vec<Cell>,
    wide: &mut Vec<WideSlice>,
) {
    let (range, first) = (row.range(), row.slices.start);
    let tint = |index: usize| trace.slice_tint(SliceId(first + index as u32));
    let (ts, end) = (&trace.slices.ts[range.clone()], &trace.slices.end[range]);
    layout_spans(Spans { ts, end, tint: &tint, pyramid: row.pyramid.as_ref() }, view, n_pixels, cells, wide);
}

/// Lays out one row over `view`, in the time of the trace: appends `n_pixels` cells to `cells` and
/// the slices to draw as boxes to `wide`, in time order.
///
/// Cost: O(pixels · log slices) if there is a pyramid.
pub fn layout_spans(
    spans: Spans<'_>,
    view: TimeRange,
    n_pixels: usize,
    cells: &mut Vec<Cell>,
    wide: &mut Vec<WideSlice>,
) {
    let ns_per_pixel = view.dur() as f64 / n_pixels as f64;
    let first_cell = cells.len();
    match spans.pyramid {
        Some(pyramid) if ns_per_pixel >= pyramid.base_dur() as f64 => {
            pyramid.pixels(view, n_pixels, cells);
            find_wide(spans, view, &cells[first_cell..], wide);
        }
        pyramid => {
            cells.resize(first_cell + n_pixels, Cell::default());
            PixelSums::new(view, pyramid, &mut cells[first_cell..]).add_all(spans, wide);
        }
    }
}

/// Finds the slices behind long runs of one color.
fn find_wide(spans: Spans<'_>, view: TimeRange, cells: &[Cell], wide: &mut Vec<WideSlice>) {
    let ns_per_pixel = view.dur() as f64 / cells.len() as f64;
    let mut pixel = 0;
    for run in cells.chunk_by(|a, b| a == b) {
        if run.len() >= MIN_LABEL_PIXELS && run[0].share == u8::MAX {
            let middle = view.start.saturating_add(((pixel as f64 + run.len() as f64 / 2.0) * ns_per_pixel) as i64);
            let at = TimeRange { start: middle, end: middle.saturating_add(1) };
            if let Some(index) = spans.window(at).last() {
                let [from, to] =
                    [spans.ts[index], spans.end[index]].map(|ts| ts.saturating_sub(view.start) as f64 / ns_per_pixel);
                if to - from >= MIN_LABEL_PIXELS as f64 {
                    wide.push(WideSlice { index, from, to });
                }
            }
        }
        pixel += run.len();
    }
}

/// The running sum of one pixel's busy time.
#[derive(Clone, Copy, Default)]
struct Sum {
    busy_ns: f64,
    top_ns: f64,
    tint: Tint,
    /// Whether any slice touches it, of whatever length.
    is_touched: bool,
    /// Whether part of it is an estimate, which is never taken for full.
    is_estimate: bool,
}

impl Sum {
    fn cell(&self, ns_per_pixel: f64) -> Cell {
        let share = if !self.is_touched {
            0
        } else if self.busy_ns >= ns_per_pixel * (1.0 - 1e-9) && !self.is_estimate {
            u8::MAX
        } else {
            (self.busy_ns / ns_per_pixel * 255.0).clamp(1.0, 254.0) as u8
        };
        Cell { share, tint: self.tint }
    }
}

/// Sums slices in time order: one pixel after the other, as most of a row's are empty where slices are wide.
struct PixelSums<'a> {
    view: TimeRange,
    ns_per_pixel: f64,
    pyramid: Option<&'a Pyramid>,
    /// Of the pixels before `pixel`; the others are idle.
    cells: &'a mut [Cell],
    pixel: usize,
    sum: Sum,
}

impl<'a> PixelSums<'a> {
    fn new(view: TimeRange, pyramid: Option<&'a Pyramid>, cells: &'a mut [Cell]) -> Self {
        let ns_per_pixel = view.dur() as f64 / cells.len() as f64;
        Self { view, ns_per_pixel, pyramid, cells, pixel: 0, sum: Sum::default() }
    }

    /// The sum of a pixel, which is that of the last one or one after it.
    fn sum_of(&mut self, pixel: usize) -> &mut Sum {
        if pixel != self.pixel {
            self.finish();
            (self.pixel, self.sum) = (pixel, Sum::default());
        }
        &mut self.sum
    }

    fn finish(&mut self) {
        if let Some(cell) = self.cells.get_mut(self.pixel) {
            *cell = self.sum.cell(self.ns_per_pixel);
        }
    }

    fn add_all(mut self, slices: Spans<'_>, wide: &mut Vec<WideSlice>) {
        let window = slices.window(self.view);
        let mut i = window.start;
        let (mut pixel, mut n_in_pixel) = (usize::MAX, 0);
        while i < window.end {
            let [from_ns, to_ns] = [slices.ts[i], slices.end[i]].map(|ts| ts.saturating_sub(self.view.start) as f64);
            let [from, to] = [from_ns, to_ns].map(|ns| ns / self.ns_per_pixel);
            let index = i;
            i += 1;
            if to - from >= MIN_SLICE_PIXELS {
                wide.push(WideSlice { index, from, to });
                continue;
            }
            let pixels = [from, to].map(|pixel| (pixel.max(0.0) as usize).min(self.cells.len().saturating_sub(1)));
            self.add([from_ns, to_ns], pixels, (slices.tint)(index));
            let last = pixels[1];
            if last != pixel {
                (pixel, n_in_pixel) = (last, 0);
            }
            n_in_pixel += 1;
            if n_in_pixel >= MAX_SLICES_PER_PIXEL && self.pyramid.is_some() {
                let pixel_end = self.view.start.saturating_add(((pixel + 1) as f64 * self.ns_per_pixel) as i64);
                let next = i + slices.end[i..window.end].partition_point(|&end| end < pixel_end);
                if next > i {
                    self.estimate(pixel, slices.end[i - 1], slices.end[next - 1]);
                }
                i = next;
                n_in_pixel = 0;
            }
        }
        self.finish();
    }

    /// Adds a slice, given in nanoseconds from the start of the view and in pixels, both first and last.
    fn add(&mut self, [from_ns, to_ns]: [f64; 2], [first, last]: [usize; 2], tint: Tint) {
        for pixel in first..=last {
            let start = pixel as f64 * self.ns_per_pixel;
            let part = to_ns.min(start + self.ns_per_pixel) - from_ns.max(start);
            // A slice that ends on the border of a pixel does not touch it, unless it has no length.
            if part <= 0.0 && (pixel > first || to_ns > from_ns) {
                continue;
            }
            let sum = self.sum_of(pixel);
            sum.busy_ns += part.max(0.0);
            if part > sum.top_ns || !sum.is_touched {
                sum.top_ns = part;
                sum.tint = tint;
            }
            sum.is_touched = true;
        }
    }

    /// Adds the busy share between two moments within one pixel, as the pyramid knows it.
    fn estimate(&mut self, pixel: usize, start: TimeNs, end: TimeNs) {
        let Some(pyramid) = self.pyramid else { return };
        let mut one = Vec::with_capacity(1);
        pyramid.pixels(TimeRange { start, end: end.max(start.saturating_add(1)) }, 1, &mut one);
        if let Some(cell) = one.first() {
            let sum = self.sum_of(pixel);
            sum.busy_ns += end.saturating_sub(start) as f64 * f64::from(cell.share) / 255.0;
            sum.is_estimate |= cell.share < u8::MAX;
            sum.is_touched = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{SliceKind, TraceBuilder};

    fn trace_of(times: impl Iterator<Item = (i64, i64)>) -> Trace {
        let slices: Vec<_> = times.map(|(ts, end)| ("stream 7", SliceKind::Kernel, "k", ts, end)).collect();
        TraceBuilder::from_slices(&slices).finish()
    }

    fn look(trace: &Trace, view: TimeRange, n: usize) -> (Vec<Cell>, Vec<WideSlice>) {
        let (mut cells, mut wide) = (Vec::new(), Vec::new());
        layout_row(trace, &trace.slices.rows[0], view, n, &mut cells, &mut wide);
        (cells, wide)
    }

    /// How busy each pixel is shown: by its cell and by the slices drawn over it.
    fn shown(cells: &[Cell], wide: &[WideSlice]) -> Vec<f64> {
        let mut out: Vec<f64> = cells.iter().map(|cell| f64::from(cell.share) / 255.0).collect();
        for slice in wide {
            for (pixel, share) in out.iter_mut().enumerate() {
                let part = slice.to.min(pixel as f64 + 1.0) - slice.from.max(pixel as f64);
                *share = (*share + part.max(0.0)).min(1.0);
            }
        }
        out
    }

    #[test]
    fn a_half_busy_row_looks_half_busy_at_every_zoom() {
        let trace = trace_of((0..100_000).map(|i| (i * 100, i * 100 + 50)));
        let middle = 5_000_000;
        for zoom in 0..=60 {
            let dur = (9_000_000.0 / 1.3_f64.powi(zoom)) as i64;
            if dur < 400 {
                break;
            }
            let view = TimeRange { start: middle - dur / 2, end: middle + dur / 2 };
            let (cells, wide) = look(&trace, view, 800);
            let shown = shown(&cells, &wide);
            let mean = shown.iter().sum::<f64>() / 800.0;
            assert!((0.44..0.56).contains(&mean), "{dur} ns: {mean}");
            assert!(shown.iter().any(|&share| share < 0.9), "{dur} ns: idle time hidden");
        }
    }

    #[test]
    fn a_gap_of_a_pixel_is_an_empty_pixel_even_in_a_dense_burst() {
        // Bursts of 1 ns kernels, far denser than the row's mean, around one gap.
        let burst = |start: i64| (0..20_000).map(move |i| (start + i * 2, start + i * 2 + 1));
        let trace = trace_of(burst(0).chain(burst(45_000)).chain([(900_000_000, 900_000_001)]));
        let (cells, wide) = look(&trace, TimeRange { start: 0, end: 85_000 }, 850);
        assert!(wide.is_empty());
        assert!(cells[401..449].iter().all(|cell| cell.share == 0), "the gap shows");
        assert!(cells[..399].iter().all(|cell| cell.share > 0 && cell.share < 255), "the bursts show, not as full");
    }

    #[test]
    fn each_pixel_is_as_busy_as_the_short_slices_in_it() {
        let mut random = 7_u64;
        let mut next = move |below: u64| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            ((random >> 33) % below) as i64
        };
        let mut ts = 0;
        let trace = trace_of((0..300).map(|_| {
            let start = ts + next(40) * next(3);
            ts = start + next(6) * next(6);
            (start, ts)
        }));
        // One without length may lie within the next, on another row.
        let in_row = trace.slices.rows[0].range();
        let times = || trace.slices.ts[in_row.clone()].iter().zip(&trace.slices.end[in_row.clone()]);
        assert!(times().len() > 250);
        for (start, ns_per_pixel, n) in [(0, 7, 1_000), (105, 11, 200), (333, 5, 900), (1_000, 3, 64)] {
            let view = TimeRange { start, end: start + ns_per_pixel * n };
            let (cells, wide) = look(&trace, view, n as usize);
            let (long, short): (Vec<_>, Vec<_>) = times()
                .filter(|(from, to)| **from < view.end && **to >= view.start)
                .partition(|(from, to)| (*to - *from) as f64 >= MIN_SLICE_PIXELS * ns_per_pixel as f64);
            assert_eq!(wide.len(), long.len());
            for (pixel, cell) in cells.iter().enumerate() {
                let at = start + pixel as i64 * ns_per_pixel;
                let end = at + ns_per_pixel;
                let busy: i64 = short.iter().map(|(from, to)| (**to.min(&&end) - **from.max(&&at)).max(0)).sum();
                let touches = |(from, to): &(&i64, &i64)| from == to && (at..end).contains(*from);
                let is_touched = busy > 0 || short.iter().any(touches);
                let share = (busy as f64 / ns_per_pixel as f64 * 255.0).clamp(1.0, 254.0) as u8;
                let share = if busy == ns_per_pixel { u8::MAX } else { share };
                assert_eq!(cell.share, if is_touched { share } else { 0 }, "pixel {pixel} of {view:?}");
            }
        }
    }

    #[test]
    fn slices_without_length_show() {
        let trace = trace_of([(10, 10), (500, 500)].into_iter());
        let (cells, _) = look(&trace, TimeRange { start: 0, end: 1000 }, 10);
        let touched: Vec<usize> = (0..10).filter(|&i| cells[i].share > 0).collect();
        assert_eq!(touched, [0, 5]);
    }

    #[test]
    fn a_long_slice_among_many_short_ones_is_a_box() {
        let trace = trace_of((0..10_000).map(|i| (i * 10, i * 10 + 5)).chain([(200_000, 300_000)]));
        let (_, wide) = look(&trace, TimeRange { start: 0, end: 300_000 }, 300);
        assert_eq!(wide.len(), 1);
        assert_eq!((wide[0].from, wide[0].to), (200.0, 300.0));
    }

    #[test]
    fn work_is_bounded_by_pixels() {
        let trace = trace_of((0..1_000_000).map(|i| (i * 100, i * 100 + 60)));
        for shift in 0..28 {
            let view = TimeRange { start: 0, end: 100_000_000 >> shift };
            if view.dur() > 10 {
                let (cells, wide) = look(&trace, view, 1_000);
                assert_eq!(cells.len(), 1_000);
                assert!(wide.len() <= 1_000 / MIN_SLICE_PIXELS as usize + 2, "{} slices", wide.len());
            }
        }
    }
}
