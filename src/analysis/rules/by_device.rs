//! What the rules say of each device.

use hashbrown::HashMap;

use super::{Check, Hit, Verdicts, Window};

/// What the rules say of one device, or of the host where there is none.
#[derive(Clone, Debug, Default)]
pub struct OfDevice<'a> {
    pub window: Option<&'a Window>,
    /// As the verdicts have them, worst first.
    pub hits: Vec<&'a Hit>,
    pub checks: Vec<&'a Check>,
}

impl Verdicts {
    /// The same by device, for who asks of each of them.
    pub fn by_device(&self) -> HashMap<Option<u32>, OfDevice<'_>> {
        let mut all: HashMap<Option<u32>, OfDevice<'_>> = HashMap::new();
        for window in &self.windows {
            all.entry(window.device).or_default().window.get_or_insert(window);
        }
        for hit in &self.hits {
            all.entry(hit.device).or_default().hits.push(hit);
        }
        for check in &self.checks {
            all.entry(check.device).or_default().checks.push(check);
        }
        all
    }
}
