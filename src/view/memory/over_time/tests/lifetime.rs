//! The bracket over the life of the selected block.

use eframe::egui::Rangef;
use egui_kittest::kittest::NodeT as _;

use super::*;
use crate::figures::memory::lifetime_text;

/// The texts about the lifetime of a block, each with whether it stands above the picture.
fn texts(harness: &Harness<'_, Fixture<MemoryOverTime>>) -> Vec<(String, bool)> {
    let top = harness.get_by_label("Memory picture").rect().top();
    let shapes = harness.output().shapes.iter().map(|clipped| &clipped.shape);
    let texts = shapes.filter_map(|shape| match shape {
        Shape::Text(text) if text.galley.text().starts_with("lifetime") => {
            Some((text.galley.text().to_owned(), text.visual_bounding_rect().bottom() < top))
        }
        _ => None,
    });
    texts.collect()
}

#[test]
fn the_lifetime_of_the_selected_block_is_named_above_the_picture() {
    for builder in [stairs(), random(300, false)] {
        let mut harness = harness(builder);
        assert!(texts(&harness).is_empty());
        let history = &harness.state().session.traces()[0].trace.memories[0];
        let lives_at_end = |id: &AllocationId| history.free_event(*id).is_none();
        let id = history.allocations.ids().find(lives_at_end).expect("a block that is never freed");
        let [known, _] = lifetime_text(history, id);
        assert!(known.starts_with("at least "), "{known}");
        harness.state_mut().session.selection = Selection::Allocation { trace: 0, memory: 0, id };
        settle(&mut harness);
        assert_eq!(texts(&harness), [(format!("lifetime {known}"), true)], "it is no data");
    }
}

#[test]
fn the_line_of_a_moment_does_not_cross_the_lifetime() {
    let mut harness = harness(random(300, false));
    let history = &harness.state().session.traces()[0].trace.memories[0];
    let (last, lasts) = (history.last_state(), |id: &AllocationId| history.free_event(*id).is_none());
    let id = history.allocations.ids().find(lasts).expect("a block that is never freed");
    harness.state_mut().session.selection = Selection::Allocation { trace: 0, memory: 0, id };
    settle(&mut harness);
    let [free, _] = place_and_line(&harness).expect("the lifetime is named");
    let mut n_crossing = 0;
    for state in (0..=last).step_by(4) {
        harness.state_mut().session.memory.moment = Some(state);
        settle(&mut harness);
        let [place, line] = place_and_line(&harness).expect("it stays named");
        n_crossing += usize::from(free.intersects(line));
        assert!(!place.intersects(line), "{state}: {place:?} beside {line:?}");
    }
    assert!(n_crossing > 0, "else nothing was in its way");
}

/// Where the lifetime is named, and where the line of the moment stands.
fn place_and_line(harness: &Harness<'_, Fixture<MemoryOverTime>>) -> Option<[Rangef; 2]> {
    let shapes = || harness.output().shapes.iter().map(|clipped| &clipped.shape);
    let text = shapes().find_map(|shape| match shape {
        Shape::Text(text) if text.galley.text().starts_with("lifetime") => Some(text.visual_bounding_rect().x_range()),
        _ => None,
    });
    let line = shapes().find_map(|shape| match shape {
        Shape::LineSegment { points: [from, to], stroke } if from.x == to.x && stroke.width == 1.5 => {
            Some(Rangef::point(from.x))
        }
        _ => None,
    });
    Some([text?, line.unwrap_or(Rangef::NOTHING)])
}

/// What is allocated when a snapshot is taken, without what came before.
fn one_moment() -> TraceBuilder {
    let block = RawBlock { addr: 0x1000, bytes: 512, requested: 500, state: BlockState::Allocated, stack: StackId(0) };
    let segment = RawSegment { addr: 0x1000, bytes: 4096, blocks: vec![block], ..RawSegment::default() };
    TraceBuilder {
        memories: vec![RawMemory { end: Some(vec![segment]), ..RawMemory::default() }],
        ..TraceBuilder::default()
    }
}

#[test]
fn of_one_moment_no_lifetime_is_named_and_nothing_is_compared() {
    let mut harness = harness(one_moment());
    let middle = harness.get_by_label("Memory picture").rect().center();
    click(&mut harness, middle, PointerButton::Primary);
    assert_ne!(harness.state().session.selection, Selection::None);
    assert!(texts(&harness).is_empty(), "{:?}", texts(&harness));
    click(&mut harness, middle, PointerButton::Secondary);
    assert!(harness.get_by_label("Set as base").accesskit_node().is_disabled());
    harness.key_press(eframe::egui::Key::Escape);
    let said = |harness: &mut Harness<'_, Fixture<MemoryOverTime>>| {
        assert!(harness.state_mut().with(|view, ctx| view.run_hidden(&Command::SetBase, ctx)));
        let said = harness.state().commands.last().cloned();
        (harness.state().session.memory.base.is_some(), said)
    };
    let (is_set, said_of_one) = said(&mut harness);
    assert!(!is_set && matches!(said_of_one, Some(Command::Tell(why)) if why.contains("open another recording")));
    // Another recording can be compared with it.
    harness.state_mut().session.add(vec![one_moment().finish()]);
    settle(&mut harness);
    click(&mut harness, middle, PointerButton::Secondary);
    assert!(!harness.get_by_label("Set as base").accesskit_node().is_disabled());
    let (is_set, said_of_two) = said(&mut harness);
    assert!(is_set && matches!(said_of_two, Some(Command::Say(next)) if next.contains("memory of another recording")));
}
