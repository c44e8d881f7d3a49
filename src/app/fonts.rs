//! Fonts of the system for characters that the built-in ones lack, such as Chinese names.
//!
//! They are looked for when the first such character is met, beside the frames, and never if none
//! is. Without them a box stands for the character.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use eframe::egui::{Context, FallbackRequest, FontData, FontInsert, FontProvider};

use crate::job::{Job, Poll};

/// File names in lower case. Of each group the first one there is taken: they draw the same scripts.
const GROUPS: [&[&str]; 9] = [
    &[
        "notosanscjk-regular.ttc",
        "notosanscjk-vf.ttc",
        "notosanscjksc-regular.otf",
        "notosanssc-regular.otf",
        "sourcehansanssc-regular.otf",
        "sourcehansanscn-regular.otf",
        "droidsansfallbackfull.ttf",
        "droidsansfallback.ttf",
        "wqy-microhei.ttc",
        "wqy-zenhei.ttc",
        "pingfang.ttc",
        "hiragino sans gb.ttc",
        "msyh.ttc",
    ],
    &["notosansjp-regular.otf", "fonts-japanese-gothic.ttf", "ipag.ttf", "yugothm.ttc", "msgothic.ttc"],
    &["notosanskr-regular.otf", "nanumgothic.ttf", "applesdgothicneo.ttc", "malgun.ttf"],
    &["dejavusans.ttf", "arial unicode.ttf", "segoeui.ttf", "freesans.ttf"],
    &["notosansarabic-regular.ttf", "notonaskharabic-regular.ttf"],
    &["notosanshebrew-regular.ttf"],
    &["notosansdevanagari-regular.ttf", "mangal.ttf"],
    &["notosansthai-regular.ttf", "garuda.ttf"],
    &["notosanssymbols2-regular.ttf", "seguisym.ttf", "symbola.ttf"],
];

/// Larger files are left alone, as are more folders and deeper ones than a real system has.
const MAX_FILE: u64 = 48 << 20;
const MAX_ENTRIES: usize = 50_000;
const MAX_DEPTH: usize = 6;

/// Fonts of the system, once they are needed.
#[derive(Debug, Default)]
pub struct SystemFonts {
    is_needed: Arc<AtomicBool>,
    reading: Option<Job<Vec<Font>>>,
}

impl SystemFonts {
    /// Some that watch for characters that no font has.
    pub fn new(ctx: &Context) -> Self {
        let fonts = Self::default();
        ctx.add_font_provider(Arc::new(Watch(Arc::clone(&fonts.is_needed))));
        fonts
    }

    /// Starts to read fonts if they are needed, and takes what was read. Never waits; call it at
    /// the end of each frame.
    pub fn poll(&mut self, ctx: &Context) {
        if self.is_needed.swap(false, Ordering::Relaxed) {
            let waker = ctx.clone();
            let wake = move || waker.request_repaint();
            // Without a thread, a box stands for the character.
            self.reading = Job::spawn("fonts", wake, |_| read_fonts(&folders())).ok();
        }
        match self.reading.as_ref().map(Job::poll) {
            Some(Poll::Done(fonts)) => {
                // No more characters are looked for: those that these lack are in no font.
                ctx.set_font_providers(fonts.into_iter().map(|font| Arc::new(font) as Arc<dyn FontProvider>).collect());
                self.reading = None;
            }
            Some(Poll::Crashed(_)) => self.reading = None,
            Some(Poll::Running) | None => {}
        }
    }
}

/// Notices the first character that no font has.
struct Watch(Arc<AtomicBool>);

impl FontProvider for Watch {
    fn font_for(&self, _request: &FallbackRequest<'_>) -> Option<FontInsert> {
        self.0.store(true, Ordering::Relaxed);
        None
    }
}

/// A font that was read.
#[derive(Clone, Debug)]
struct Font {
    name: String,
    data: FontData,
}

impl FontProvider for Font {
    fn font_for(&self, _request: &FallbackRequest<'_>) -> Option<FontInsert> {
        // The caller checks whether the character is in it, and whether it is a font at all.
        Some(FontInsert { name: self.name.clone(), data: self.data.clone(), families: Vec::new() })
    }
}

/// Where systems keep their fonts.
fn folders() -> Vec<PathBuf> {
    let fixed =
        ["/usr/share/fonts", "/usr/local/share/fonts", "/System/Library/Fonts", "/Library/Fonts", r"C:\Windows\Fonts"];
    let own = [".local/share/fonts", ".fonts", "Library/Fonts"];
    let home = std::env::home_dir();
    let own = own.iter().filter_map(|folder| Some(home.as_ref()?.join(folder)));
    fixed.iter().map(PathBuf::from).chain(own).collect()
}

/// The fonts to be had in these folders, in order of preference.
fn read_fonts(folders: &[PathBuf]) -> Vec<Font> {
    let mut found: Vec<Vec<Option<PathBuf>>> = GROUPS.iter().map(|group| vec![None; group.len()]).collect();
    let mut n_left = MAX_ENTRIES;
    for folder in folders {
        find(folder, MAX_DEPTH, &mut n_left, &mut found);
    }
    let read = |path: PathBuf| {
        let is_usable = path.metadata().is_ok_and(|metadata| metadata.is_file() && metadata.len() <= MAX_FILE);
        let bytes = if is_usable { std::fs::read(&path).ok()? } else { return None };
        Some(Font { name: path.display().to_string(), data: FontData::from_owned(bytes) })
    };
    found.into_iter().filter_map(|group| group.into_iter().flatten().find_map(read)).collect()
}

fn find(folder: &Path, depth: usize, n_left: &mut usize, found: &mut [Vec<Option<PathBuf>>]) {
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        let Some(left) = n_left.checked_sub(1) else { return };
        *n_left = left;
        let name = entry.file_name().to_string_lossy().to_lowercase();
        let place = GROUPS.iter().enumerate().find_map(|(i, group)| Some((i, group.iter().position(|x| *x == name)?)));
        match place {
            Some((i, j)) => _ = found[i][j].get_or_insert_with(|| entry.path()),
            None if depth > 0 && entry.path().is_dir() => find(&entry.path(), depth - 1, n_left, found),
            None => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use eframe::egui::{FontDefinitions, FontFamily, FontId, RawInput};

    use super::*;

    #[test]
    fn a_font_of_the_system_draws_what_the_others_lack_and_a_broken_one_harms_nothing() {
        let folder = std::env::temp_dir().join(format!("lacuna-fonts-{}", std::process::id()));
        std::fs::create_dir_all(folder.join("a/b")).unwrap();
        let all = FontDefinitions::default();
        std::fs::write(folder.join("a/b/DejaVuSans.ttf"), (*all.font_data["Hack"].font).as_ref()).unwrap();
        std::fs::write(folder.join("NotoSansCJK-Regular.ttc"), "no font").unwrap();
        std::fs::write(folder.join("other.ttf"), "not read").unwrap();
        let fonts = read_fonts(&[folder.join("none"), folder.clone()]);
        std::fs::remove_dir_all(&folder).unwrap();
        assert_eq!(fonts.len(), 2);

        let mut few = FontDefinitions::empty();
        few.font_data.insert("icons".to_owned(), Arc::clone(&all.font_data["egui-icons"]));
        for family in [FontFamily::Proportional, FontFamily::Monospace] {
            few.families.insert(family, vec!["icons".to_owned()]);
        }
        let ctx = Context::default();
        ctx.set_fonts(few);
        let mut system = SystemFonts::new(&ctx);
        let has = |ctx: &Context, c| {
            let output = ctx.run_ui(RawInput::default(), |ui| _ = ui.label(format!("a {c} 核函数 مرحبا \u{e000}")));
            output.drop_without_applying_deltas();
            ctx.fonts_mut(|fonts| fonts.has_glyph(&FontId::proportional(14.0), c))
        };
        assert!(!has(&ctx, 'a'));
        assert!(system.is_needed.swap(false, Ordering::Relaxed), "the first character without a font is noticed");
        system.reading = Some(Job::spawn("test", || {}, move |_| fonts).unwrap());
        for _ in 0..1000 {
            system.poll(&ctx);
            if system.reading.is_none() {
                break;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        assert!(has(&ctx, 'a') && has(&ctx, 'é') && !has(&ctx, '核'));
        assert!(!system.is_needed.load(Ordering::Relaxed), "it is not asked for again");
    }

    #[test]
    fn plain_text_needs_no_font_of_the_system() {
        let ctx = Context::default();
        let system = SystemFonts::new(&ctx);
        let output = ctx.run_ui(RawInput::default(), |ui| _ = ui.label("void gemm<float, 128>(…) µs é"));
        output.drop_without_applying_deltas();
        assert!(!system.is_needed.load(Ordering::Relaxed));
    }
}
