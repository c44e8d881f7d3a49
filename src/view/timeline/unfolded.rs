//! What was unfolded to show a gap, and is folded again once the user leaves it.

use super::Timeline;
use super::settings::TimelineSettings;
use crate::model::ProcessId;
use crate::session::Selection;
use crate::view::ViewContext;

/// Keys of what was unfolded around a device to show a gap of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unfolded {
    trace: usize,
    process: ProcessId,
    collapsed: Vec<String>,
    hidden: Vec<String>,
    expanded: Vec<String>,
}

impl Unfolded {
    /// What became visible from one arrangement to another; `None` if nothing did.
    ///
    /// * `of`: the index of the trace, and the device.
    pub fn since(before: &TimelineSettings, now: &TimelineSettings, of: (usize, ProcessId)) -> Option<Self> {
        let (trace, process) = of;
        let collapsed: Vec<String> = before.collapsed.difference(&now.collapsed).cloned().collect();
        let hidden: Vec<String> = before.hidden.difference(&now.hidden).cloned().collect();
        let expanded: Vec<String> = now.expanded.difference(&before.expanded).cloned().collect();
        let is_any = !(collapsed.is_empty() && hidden.is_empty() && expanded.is_empty());
        is_any.then_some(Self { trace, process, collapsed, hidden, expanded })
    }

    /// Folds it again.
    pub fn fold(&self, settings: &mut TimelineSettings) {
        settings.collapsed.extend(self.collapsed.iter().cloned());
        settings.hidden.extend(self.hidden.iter().cloned());
        self.expanded.iter().for_each(|key| _ = settings.expanded.remove(key));
    }

    /// Whether the user still looks at the device: at one of its gaps, or at work that would go from under the pointer.
    fn is_looked_at(&self, ctx: &ViewContext<'_>) -> bool {
        match *ctx.selection {
            Selection::Gap { trace, process, .. } => (trace, process) == (self.trace, self.process),
            Selection::Slice { trace, slice } if trace == self.trace => {
                let data = ctx.traces.get(trace).map(|open| &open.trace);
                let process = data.map(|data| data.track(data.slices.track_of(slice)).process);
                process == Some(self.process)
            }
            _ => false,
        }
    }
}

impl Timeline {
    /// Folds again what was unfolded for a gap.
    pub(super) fn put_back(&mut self) {
        if let Some(unfolded) = self.unfolded.take() {
            unfolded.fold(&mut self.settings);
            self.is_stale = true;
        }
    }

    /// The same once the user has left its device.
    pub(super) fn leave_gap(&mut self, ctx: &ViewContext<'_>) {
        if self.unfolded.as_ref().is_some_and(|unfolded| !unfolded.is_looked_at(ctx)) {
            self.put_back();
        }
    }
}
