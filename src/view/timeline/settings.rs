//! The settings of the timeline, by the names of tracks, since ids change from file to file.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::track_list::TrackList;

/// Recordings whose arrangement is kept.
const MAX_RUNS: usize = 200;

/// The user's arrangement of tracks. Keys of groups and tracks begin with [`crate::session::OpenTrace::id`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct TimelineSettings {
    /// Keys of groups and tracks shown as one row.
    pub collapsed: BTreeSet<String>,
    /// Keys of groups that are folded at first and were unfolded.
    pub expanded: BTreeSet<String>,
    /// Keys of tracks kept on top, in order.
    pub pinned: Vec<String>,
    /// Keys of tracks and groups not shown.
    pub hidden: BTreeSet<String>,
    /// By key of a group, the keys of its members in the user's order; others follow as the
    /// trace has them.
    pub order: BTreeMap<String, Vec<String>>,
    /// The recordings that were open, the latest last.
    pub runs: Vec<String>,
    /// Whether launched work is shown below each device.
    pub has_queues: bool,
    /// Width of the column of labels, in points.
    pub label_width: f32,
}

/// The width of the column of labels unless the user chooses another or there is more room, in points.
const LABEL_WIDTH: f32 = 200.0;

impl Default for TimelineSettings {
    fn default() -> Self {
        Self {
            collapsed: BTreeSet::new(),
            expanded: BTreeSet::new(),
            runs: Vec::new(),
            pinned: Vec::new(),
            hidden: BTreeSet::new(),
            order: BTreeMap::new(),
            has_queues: false,
            label_width: LABEL_WIDTH,
        }
    }
}

impl TimelineSettings {
    /// The width of the column of labels in a timeline of some width, in points: as the user chose it, else more where
    /// there is room.
    pub fn label_width_in(&self, width: f32) -> f32 {
        const SHARE: f32 = 0.16;
        const MOST: f32 = 280.0;
        let is_chosen = self.label_width.to_bits() != LABEL_WIDTH.to_bits();
        if is_chosen { self.label_width } else { (SHARE * width).clamp(LABEL_WIDTH, MOST) }
    }

    /// Shows what is hidden, and unfolds what was collapsed around tracks.
    pub fn show_hidden(&mut self, list: &TrackList) {
        list.hidden.iter().for_each(|key| _ = self.hidden.remove(key));
        list.collapsed.iter().for_each(|[key, _]| _ = self.collapsed.remove(key));
    }

    /// Remembers that these recordings are open, and forgets what was arranged in those that were open long ago.
    pub fn opened<'a>(&mut self, runs: impl Iterator<Item = &'a str>) {
        for run in runs {
            self.runs.retain(|known| known != run);
            self.runs.push(run.to_owned());
        }
        let surplus = self.runs.len().saturating_sub(MAX_RUNS);
        self.runs.drain(..surplus);
        let runs = &self.runs;
        let is_known = |key: &String| {
            let run = key.split('/').next().unwrap_or_default();
            run.is_empty() || runs.iter().any(|known| known == run)
        };
        self.collapsed.retain(is_known);
        self.expanded.retain(is_known);
        self.hidden.retain(is_known);
        self.pinned.retain(is_known);
        self.order.retain(|parent, _| is_known(parent));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_arrangement_of_long_closed_recordings_is_forgotten() {
        let mut settings = TimelineSettings::default();
        settings.opened(["a"].into_iter());
        settings.hidden.extend(["a/main".to_owned(), "python 1/main of an earlier version".to_owned()]);
        settings.order.insert(String::new(), vec!["a".to_owned()]);
        settings.opened(["b"].into_iter());
        assert_eq!(settings.hidden.iter().collect::<Vec<_>>(), ["a/main"]);
        let many: Vec<String> = (0..MAX_RUNS).map(|i| format!("run {i}")).collect();
        settings.opened(many.iter().map(String::as_str));
        assert!(settings.hidden.is_empty());
        assert_eq!((settings.runs.len(), settings.order.len()), (MAX_RUNS, 1));
    }
}
