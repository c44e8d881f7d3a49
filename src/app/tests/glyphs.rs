//! Names in every script and in none.

use super::*;

/// What names from a file may hold; few of these are in the built-in fonts.
const NAMES: [&str; 20] = [
    "核函数 矩阵乘法",
    "مرحبا بالعالم",
    "שלום gemm עולם",
    "ひらがな カタカナ 한국어 ᄒᆞᆫ",
    "हिन्दी क्षत्रिय ไทย",
    "👩‍👩‍👧‍👦 🏳️‍🌈 🇩🇪 👍🏽",
    "⏷ ⏶ 🮕 𝔤𝔢𝔪𝔪 𓀀",
    "\u{e000}\u{f8ff}\u{f0000}\u{10ffff}",
    "\u{378}\u{fdd0}\u{fffe}\u{ffff}\u{fffd}",
    "\u{301}\u{301}\u{301}",
    "Z\u{351}\u{36b}\u{343}\u{32a}\u{302}\u{36b}\u{33d}\u{34f}a\u{489}",
    "\u{fe0f}\u{fe0f}",
    "\u{200d}\u{200c}\u{200b}",
    "a\u{ad}b\u{34f}c\u{115f}\u{3164}",
    "\u{e0001}\u{e0067}\u{e007f}",
    "\u{202e}txt.exe\u{2066}",
    "\u{2028}\u{2029}\u{85}\u{0}\u{7f}\u{9b}",
    "\r\n\t\u{b}",
    "ﷺ ﷽ ﬃ",
    "",
];

#[test]
fn names_that_no_font_has_are_boxes_and_no_crash() {
    let long = [format!("a{}", "\u{301}".repeat(600)), "核".repeat(600), "👩‍".repeat(300)];
    let names: Vec<&str> = NAMES.iter().copied().chain(long.iter().map(String::as_str)).collect();
    let slices = names.iter().enumerate().flat_map(|(i, &name)| {
        let start = i as i64 * 1_000;
        let of = |kind, track: &'static str| (track, kind, name, start, start + 900);
        [of(SliceKind::Operator, "main"), of(SliceKind::Kernel, "stream 7"), of(SliceKind::Memcpy, "stream 8")]
    });
    let mut builder = TraceBuilder::from_slices(&slices.collect::<Vec<_>>());
    for (i, track) in builder.tracks.iter_mut().enumerate() {
        track.name = NAMES[i].to_owned();
    }
    let process = names.concat();
    builder.processes.iter_mut().for_each(|own| own.name.clone_from(&process));
    let note = "Named 核函数 \u{e000}";
    builder.import.note(Severity::Note, note, 1, None);
    let mut trace = builder.finish();
    trace.info.path = "/\u{e000}核/\u{301}.json".into();
    let mut harness = harness_with(vec![trace], |builder| builder.allow_missing_glyphs());
    // What the window itself does with such characters: nothing but a test panics.
    assert_eq!(Context::default().missing_glyph_policy(), harness.ctx.missing_glyph_policy());
    let tabs = [
        Command::Show("kernels"),
        Command::Show("operators"),
        Command::Show("calls"),
        Command::Show("copies"),
        Command::Show("annotations"),
        Command::Show("range"),
        Command::Show("events"),
        Command::Show("marks"),
        Command::Show("problems"),
        Command::Show("search"),
    ];
    for (i, name) in names.iter().enumerate() {
        app_mut(&mut harness).commands.push(tabs[i % tabs.len()].clone());
        select(&mut harness, name);
        app_mut(&mut harness).commands.extend([Command::FocusSelection, Command::FocusSelection, Command::MarkMoment]);
        settle(&mut harness);
        assert_eq!(selected_name(&harness), *name);
    }
    app_mut(&mut harness).commands.push(Command::ZoomToFit);
    for name in names.iter().filter(|name| !name.is_empty() && name.len() < 100) {
        app_mut(&mut harness).commands.push(Command::Search);
        settle(&mut harness);
        type_text(&mut harness, name);
        harness.key_press_modifiers(Modifiers::COMMAND, Key::A);
        settle(&mut harness);
    }
    for tab in tabs {
        app_mut(&mut harness).commands.push(tab);
        settle(&mut harness);
    }
    assert!(app(&harness).views.iter().all(|slot| !slot.guard.has_failed()), "a view crashed");
}
