//! Something of each of some tracks.

use hashbrown::HashMap;

use crate::model::TrackId;

/// What is known of some tracks. The same one is asked for many times in a row, which costs no search.
#[derive(Debug)]
pub struct ByTrack<T> {
    all: Vec<T>,
    index: HashMap<TrackId, usize>,
    /// The one asked for last, with its index.
    last: Option<(TrackId, usize)>,
}

impl<T> Default for ByTrack<T> {
    fn default() -> Self {
        Self { all: Vec::new(), index: HashMap::new(), last: None }
    }
}

impl<T> ByTrack<T> {
    /// That of a track; made by `new` the first time.
    #[inline]
    pub fn of(&mut self, track: TrackId, new: impl FnOnce() -> T) -> &mut T {
        let at = match self.last {
            Some((last, at)) if last == track => at,
            _ => *self.index.entry(track).or_insert_with(|| {
                self.all.push(new());
                self.all.len() - 1
            }),
        };
        self.last = Some((track, at));
        &mut self.all[at]
    }

    /// That of a track, if it was made.
    pub fn get(&self, track: TrackId) -> Option<&T> {
        let known = self.last.filter(|&(last, _)| last == track).map(|(_, at)| at);
        known.or_else(|| self.index.get(&track).copied()).map(|at| &self.all[at])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_track_has_its_own_and_is_made_once() {
        let mut all = ByTrack::default();
        for track in [3, 3, 1, 3, 1, 1, 2] {
            *all.of(TrackId(track), || track * 10) += 1;
        }
        assert_eq!([1, 2, 3, 4].map(|track| all.get(TrackId(track)).copied()), [Some(13), Some(21), Some(33), None]);
    }
}
