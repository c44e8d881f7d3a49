//! The mapping between positions on the axis and x coordinates on screen.

use crate::model::{DurNs, TimeNs, TimeRange};

/// The mapping between positions and the x axis of a canvas, for one frame.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scale {
    /// What is visible; not empty.
    pub view: TimeRange,
    /// Left edge of the canvas, in points.
    pub left: f32,
    /// Width of the canvas, in physical pixels.
    pub n_pixels: usize,
    /// Points in a physical pixel.
    pub pixel: f32,
}

impl Scale {
    /// A scale for a canvas that starts at `left` and is `width` points wide.
    pub fn new(view: TimeRange, left: f32, width: f32, pixels_per_point: f32) -> Self {
        let view =
            if view.dur() > 0 { view } else { TimeRange { start: view.start, end: view.start.saturating_add(1) } };
        let n_pixels = (width * pixels_per_point).round().clamp(1.0, 16_384.0) as usize;
        Self { view, left, n_pixels, pixel: 1.0 / pixels_per_point }
    }

    /// Width in points.
    pub fn width(&self) -> f32 {
        self.n_pixels as f32 * self.pixel
    }

    pub fn right(&self) -> f32 {
        self.left + self.width()
    }

    /// Length of a physical pixel along the axis.
    pub fn ns_per_pixel(&self) -> f64 {
        self.view.dur() as f64 / self.n_pixels as f64
    }

    /// Length of a point along the axis.
    pub fn ns_per_point(&self) -> f64 {
        self.view.dur() as f64 / f64::from(self.width())
    }

    /// The x of a position, in points; clamped to just outside of the canvas.
    pub fn x(&self, ts: TimeNs) -> f32 {
        let width = f64::from(self.width());
        let x = ts.saturating_sub(self.view.start) as f64 / self.view.dur() as f64 * width;
        self.left + x.clamp(-64.0, width + 64.0) as f32
    }

    /// The length of `points` along the axis.
    pub fn distance(&self, points: f32) -> DurNs {
        (f64::from(points) * self.ns_per_point()) as DurNs
    }

    /// The position at `x` points.
    pub fn time(&self, x: f32) -> TimeNs {
        self.view.start.saturating_add((f64::from(x - self.left) * self.ns_per_point()).floor() as DurNs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pixels_and_positions_agree_far_from_zero() {
        let start = 1_700_000_000_000_000_000;
        let scale = Scale::new(TimeRange { start, end: start + 1_000 }, 200.0, 1_000.0, 2.0);
        assert_eq!(scale.n_pixels, 2_000);
        assert_eq!(scale.x(start + 250), 450.0);
        assert_eq!(scale.time(450.0), start + 250);
        assert_eq!(scale.x(i64::MAX), scale.right() + 64.0);
        assert_eq!(scale.x(i64::MIN), scale.left - 64.0);
    }
}
