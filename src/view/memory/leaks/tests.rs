//! What is said where a list is empty, and which blocks belong to a row.

use eframe::egui::vec2;
use egui_kittest::Harness;
use egui_kittest::kittest::Queryable as _;

use super::*;
use crate::analysis::memory::fixture::Script;
use crate::model::memory::MemoryAction;
use crate::model::{StackId, Trace};
use crate::view::fixture::{Fixture, settle};

fn shown(trace: Trace) -> Harness<'static, Fixture<LeaksView>> {
    let fixture = Fixture::new(vec![trace], LeaksView::default());
    let builder = Harness::builder().with_size(vec2(1300.0, 700.0)).with_step_dt(1.0 / 60.0).with_max_steps(400);
    let mut harness = builder.build_ui_state(|ui, fixture| fixture.ui(ui), fixture);
    settle(&mut harness);
    harness
}

#[test]
fn an_empty_list_of_what_grew_says_why() {
    let mut script = Script::default();
    script.alloc(0x1000, 512, StackId(0));
    script.free(0x1000, 512);
    let harness = shown(script.finish());
    harness.get_by_label("Grown (0)");
    harness.get_by_label("The file has no call stacks: memory by place compares its categories");
    let mut script = Script::default();
    let stack = script.stack(&["step (/me/train.py:9)"]);
    script.alloc(0x1000, 512, stack);
    script.free(0x1000, 512);
    let mut harness = shown(script.finish());
    harness.get_by_label_contains("No stack has more memory at the end than at the start");
    harness.get_by_label("Candidates (0)").click();
    settle(&mut harness);
    harness.get_by_label("Without steps, leaks cannot be distinguished from work in progress");
}

#[test]
fn blocks_that_await_a_stream_are_not_left() {
    let mut script = Script::default();
    let stack = script.stack(&["step (/me/train.py:9)"]);
    script.alloc(0x1000, 512, stack);
    script.alloc(0x2000, 1024, stack);
    script.event(MemoryAction::FreeRequested, 0x1000, 512, stack);
    let mut harness = shown(script.finish());
    harness.get_by_label("Grown (1)");
    harness.get_all_by_label_contains("step (train.py:9)").next().unwrap().click();
    settle(&mut harness);
    assert_eq!(*harness.state().session.memory.marked, [AllocationId(1)]);
}
