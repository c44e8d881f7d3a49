//! The settings of the timeline, by the names of tracks, since ids change from file to file.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

/// The user's arrangement of tracks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct TimelineSettings {
    /// Keys of groups and tracks shown as one row.
    pub collapsed: BTreeSet<String>,
    /// Keys of tracks kept on top, in order.
    pub pinned: Vec<String>,
    /// Keys of tracks and groups not shown.
    pub hidden: BTreeSet<String>,
    /// By key of a group, the keys of its members in the user's order; others follow as the
    /// trace has them.
    pub order: BTreeMap<String, Vec<String>>,
    /// Whether launched work is shown below each device.
    pub has_queues: bool,
    /// Width of the column of labels, in points.
    pub label_width: f32,
}

impl Default for TimelineSettings {
    fn default() -> Self {
        Self {
            collapsed: BTreeSet::new(),
            pinned: Vec::new(),
            hidden: BTreeSet::new(),
            order: BTreeMap::new(),
            has_queues: false,
            label_width: 200.0,
        }
    }
}
