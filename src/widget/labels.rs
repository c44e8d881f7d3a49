//! Names cut to fit a width, with cached layout.

use std::hash::Hash;
use std::sync::Arc;

use eframe::egui::{self, Color32, FontId, Galley, Painter};
use hashbrown::HashMap;

use crate::figures::text::{display_name, frame_within, shortened};

/// Labels laid out per frame; the others appear in the next.
const MAX_NEW: usize = 150;
/// Labels kept for later frames.
const MAX_KEPT: usize = 20_000;
const FONT: FontId = FontId::new(11.5, egui::FontFamily::Proportional);
/// Lengths to which names are cut, in characters. Few, so that zooming finds most in the cache; each a quarter longer,
/// so that no more than a fifth of the room stays empty beside a name that is cut.
const LENGTHS: [usize; 21] = [3, 4, 5, 6, 7, 8, 10, 12, 15, 19, 24, 30, 37, 46, 57, 71, 89, 111, 139, 174, 217];

/// A text may be narrower than its letters, as some move together. Few are by more than this share, which are cut to a
/// length less.
const KERNING: f32 = 0.01;
const ELLIPSIS: char = '…';

/// Laid-out names, by key.
#[derive(Debug)]
pub struct Labels<K> {
    names: HashMap<K, Name>,
    n_kept: usize,
    /// A text laid out in the last frame, to detect a new font atlas.
    atlas_probe: Option<Arc<Galley>>,
    letters: Letters,
    n_new: usize,
}

/// Widths of the letters that most names are made of, in points.
#[derive(Debug)]
struct Letters {
    ascii: [f32; 128],
    ellipsis: f32,
}

impl Letters {
    /// The width of a text without kerning; `None` where a letter is not among these.
    fn sum(&self, text: &str) -> Option<f32> {
        let of_letter = |c: char| if c == ELLIPSIS { Some(self.ellipsis) } else { self.ascii.get(c as usize).copied() };
        text.chars().map(of_letter).sum()
    }
}

/// What is known of a name.
#[derive(Debug)]
struct Name {
    n_letters: usize,
    /// [`Letters::sum`].
    letters: Option<f32>,
    cuts: Vec<Cut>,
}

impl Name {
    /// Of a longer one its beginning says enough.
    const MOST_LETTERS: usize = 1024;

    fn new(name: &str, letters: &Letters) -> Self {
        let end = name.char_indices().nth(Self::MOST_LETTERS).map_or(name.len(), |(end, _)| end);
        let name = &name[..end];
        Self { n_letters: name.chars().count(), letters: letters.sum(name), cuts: Vec::new() }
    }
}

/// A name in at most so many characters. Most are found to be too wide before they are laid out, which costs far more.
#[derive(Debug)]
struct Cut {
    length: usize,
    /// Until it is laid out.
    text: String,
    galley: Option<Arc<Galley>>,
    /// [`Letters::sum`].
    letters: Option<f32>,
    n_letters: usize,
}

impl Cut {
    fn new(length: usize, text: String, letters: &Letters) -> Self {
        let (letters, n_letters) = (letters.sum(&text), text.chars().count());
        Self { length, text, galley: None, letters, n_letters }
    }
}

impl<K> Default for Labels<K> {
    fn default() -> Self {
        Self {
            names: HashMap::new(),
            n_kept: 0,
            atlas_probe: None,
            letters: Letters { ascii: [0.0; 128], ellipsis: 0.0 },
            n_new: 0,
        }
    }
}

impl<K: Hash + Eq + Copy> Labels<K> {
    /// Clears the cache, as when the keys identify other names.
    pub fn clear(&mut self) {
        self.names.clear();
        self.n_kept = 0;
    }

    /// Call it before the first label of a frame.
    pub fn begin(&mut self, painter: &Painter) {
        // egui caches the layout of a text as long as its font atlas is unchanged. A new layout means a new
        // atlas with other glyph positions: all kept labels are invalid.
        let atlas_probe = painter.layout_no_wrap("lacuna".to_owned(), FONT, Color32::PLACEHOLDER);
        let is_same = self.atlas_probe.as_ref().is_some_and(|known| Arc::ptr_eq(known, &atlas_probe));
        self.atlas_probe = Some(atlas_probe);
        if !is_same {
            painter.fonts_mut(|fonts| {
                self.letters.ascii = std::array::from_fn(|c| fonts.glyph_width(&FONT, char::from(c as u8)));
                self.letters.ellipsis = fonts.glyph_width(&FONT, ELLIPSIS);
            });
        }
        if !is_same || self.n_kept > MAX_KEPT {
            self.clear();
        }
        self.n_new = 0;
    }

    /// Call it after the last label of a frame: requests another frame if labels are missing.
    pub fn end(&self, painter: &Painter) {
        if self.n_new >= MAX_NEW {
            painter.ctx().request_repaint();
        }
    }

    /// The name if it is at most `width` points wide, else its longest cut.
    ///
    /// * `cut`: returns the name cut to a number of characters.
    pub fn fitting(
        &mut self,
        painter: &Painter,
        (key, name): (K, &str),
        width: f32,
        cut: impl Fn(usize) -> String,
    ) -> Option<Arc<Galley>> {
        /// Letters are about 6 points wide on average, and those of few names less than this.
        const LEAST: f32 = 4.0;
        /// The letters of a part are seldom narrower than this share of all.
        const PART: f32 = 0.9;
        let Name { n_letters, letters, cuts: known } =
            self.names.entry(key).or_insert_with(|| Name::new(name, &self.letters));
        let all = letters.map_or(*n_letters as f32 * LEAST, |sum| sum * (1.0 - KERNING));
        let letter = letters.map_or(LEAST, |sum| sum / *n_letters as f32 * PART);
        let shorter = LENGTHS.partition_point(|length| length < n_letters);
        let mut step = match all <= width {
            true => shorter + 1,
            false => LENGTHS[..shorter].partition_point(|&length| length as f32 * letter <= width),
        };
        loop {
            step = step.checked_sub(1)?;
            let length = if step == shorter { 2 * Name::MOST_LETTERS } else { LENGTHS[step] };
            let at = known.iter().position(|cut| cut.length == length).unwrap_or_else(|| {
                self.n_kept += 1;
                known.push(Cut::new(length, cut(length), &self.letters));
                known.len() - 1
            });
            let tried = &mut known[at];
            let may_fit = tried.letters.is_none_or(|taken| taken * (1.0 - KERNING) <= width);
            if may_fit && tried.galley.is_none() {
                if self.n_new >= MAX_NEW {
                    // A shorter one may be known until the next frame.
                    continue;
                }
                self.n_new += 1;
                let text = std::mem::take(&mut tried.text);
                tried.galley = Some(painter.layout_no_wrap(text, FONT, Color32::PLACEHOLDER));
            }
            let galley = tried.galley.as_ref().filter(|_| may_fit);
            if let Some(galley) = galley.filter(|galley| galley.size().x <= width) {
                return Some(Arc::clone(galley));
            }
            // What its letters take says how many fit; a little more is tried, since they differ.
            let taken = tried.letters.or_else(|| Some(galley?.size().x)).unwrap_or(width);
            let n_fitting = tried.n_letters as f32 * width / taken * 1.03;
            while step > 0 && LENGTHS[step - 1] as f32 > n_fitting {
                step -= 1;
            }
        }
    }
}

/// A name cut to `length` characters, including the ellipsis.
///
/// * `gist`: returns the distinctive part of a name that does not fit.
pub fn cut(text: &str, gist: impl Fn(&str) -> &str, length: usize) -> String {
    let full = display_name(text);
    if full.chars().nth(length).is_none() {
        return full.into_owned();
    }
    let name = gist(&full);
    if name.chars().nth(length).is_none() {
        return name.to_owned();
    }
    name.chars().take(length - 1).chain(['…']).collect()
}

/// The function of a signature with its template arguments, of a Python function as Kineto names it, or of a frame, cut
/// so that different ones stay different.
pub fn cut_function(text: &str, length: usize) -> String {
    fn of_python(name: &str) -> Option<&str> {
        Some(name.split_once(".py(")?.1.split_once("): ")?.1)
    }
    match of_python(text) {
        Some(_) => cut(text, |name| of_python(name).unwrap_or(name), length),
        None if text.contains('<') => shortened(text, length),
        None => frame_within(&display_name(text), length),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_fits_its_box_is_whole_and_a_longer_one_fills_it() {
        let output = egui::Context::default().run_ui(egui::RawInput::default(), |ui| {
            let mut labels = Labels::<usize>::default();
            let painter = ui.painter();
            labels.begin(painter);
            let width = |text: &str| painter.layout_no_wrap(text.to_owned(), FONT, Color32::PLACEHOLDER).size().x;
            for (key, name) in ["illegal_filter_till_fill_it", "vectorized_elementwise_kernel_of_a_MaxPool2d", "gemm"]
                .into_iter()
                .enumerate()
            {
                let mut shown =
                    |room: f32| labels.fitting(painter, (key, name), room, |length| cut(name, |name| name, length));
                assert_eq!(shown(width(name) + 1.0).unwrap().text(), name);
                let room = width(name) - 1.0;
                let part = shown(room).unwrap();
                assert!(part.size().x <= room && part.size().x > 0.6 * room, "{} in {room}", part.text());
            }
            for name in ["AVAToWaTeLyAV_1.0f", "illegal_fi…till", "größer", "名前", "sm90_xmma_gemm<128, 4>"] {
                let letters = labels.letters.sum(name);
                assert_eq!(letters.is_some(), !name.contains(['ö', '名']), "{name}");
                let is_near = |sum: f32| (width(name)..=width(name) * 1.05).contains(&(sum + 0.1));
                assert!(letters.is_none_or(is_near), "{name}: {letters:?}, laid out {}", width(name));
            }
        });
        output.drop_without_applying_deltas();
    }

    #[test]
    fn names_are_cut_to_length() {
        assert_eq!(cut("gemm", |name| name, 4), "gemm");
        assert_eq!(cut_function("gemms", 4), "gem…");
        assert_eq!(cut("größer", |name| name, 3), "gr…");
        let kernel =
            |functor: &str| cut_function(&format!("void at::native::elementwise_kernel<128, 4, {functor}>(int)"), 24);
        assert_ne!(kernel("FillFunctor<float>"), kernel("MulFunctor<float>"));
        assert_eq!(cut_function("torch/nn/modules/module.py(12): _call_impl", 20), "_call_impl");
        assert_eq!(cut_function("forward (model.py:12)", 8), "forward");
        assert_eq!(cut_function("Queue.get (/usr/lib/python3.13/queue.py:154)", 6), "…get");
        assert!(LENGTHS.is_sorted());
    }
}
