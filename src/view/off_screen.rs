//! What the user keeps off the screen, in words.

use crate::figures::format;
use crate::figures::text::shortened;

/// The longest title, in characters.
const MAX_TITLE: usize = 32;

/// Tracks that the user keeps off the screen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OffScreen {
    /// How many tracks are hidden, and how many are in what is collapsed.
    pub n_hidden: usize,
    pub n_collapsed: usize,
    /// How many groups and threads are collapsed, and titles of the first [`Self::MAX_LISTED`]: it is asked for in each
    /// frame.
    pub n_groups: usize,
    pub titles: Vec<String>,
}

impl OffScreen {
    /// The most titles that are listed.
    pub const MAX_LISTED: usize = 8;

    /// This and that of another view.
    pub fn with(mut self, other: Self) -> Self {
        self.n_hidden += other.n_hidden;
        self.n_collapsed += other.n_collapsed;
        self.n_groups += other.n_groups;
        self.titles.extend(other.titles);
        self.titles.truncate(Self::MAX_LISTED);
        self
    }

    /// `2 tracks hidden, GPU 0 collapsed`; `None` if all is on the screen.
    pub fn text(&self) -> Option<String> {
        let hidden = (self.n_hidden > 0).then(|| format!("{} hidden", tracks(self.n_hidden)));
        let collapsed = match (self.n_groups, &self.titles[..]) {
            (0, _) => None,
            (1, [one]) => Some(format!("{} collapsed", shortened(one, MAX_TITLE))),
            (n, _) => Some(format!("{} groups collapsed", format::count(n as u64))),
        };
        let parts: Vec<String> = hidden.into_iter().chain(collapsed).collect();
        (!parts.is_empty()).then(|| parts.join(", "))
    }

    /// What that is, and what a click does.
    pub fn help(&self) -> String {
        let hidden = (self.n_hidden > 0).then(|| format!("You hid {}", tracks(self.n_hidden)));
        let titles = self.titles.iter().map(|title| shortened(title, MAX_TITLE));
        let titles = titles.collect::<Vec<_>>().join(", ");
        let more = match self.n_groups.saturating_sub(self.titles.len()) {
            0 => String::new(),
            n => format!(" and {n} more"),
        };
        let heads = if self.n_groups == 1 { "its heading stands" } else { "their headings stand" };
        let collapsed = (self.n_groups > 0)
            .then(|| format!("You collapsed {titles}{more}: {heads} for {}", tracks(self.n_collapsed)));
        let parts: Vec<String> = hidden.into_iter().chain(collapsed).collect();
        format!("{}. Show them all", parts.join(". "))
    }
}

fn tracks(n: usize) -> String {
    if n == 1 { "1 track".to_owned() } else { format!("{} tracks", format::count(n as u64)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_collapsed_is_named() {
        let of = |n_hidden: usize, n_collapsed: usize, titles: &[&str]| {
            let all = titles.iter().map(|&title| title.to_owned());
            OffScreen { n_hidden, n_collapsed, n_groups: titles.len(), titles: all.collect() }
        };
        assert_eq!(OffScreen::default().text(), None);
        assert_eq!(of(1, 0, &[]).text().unwrap(), "1 track hidden");
        let one = of(0, 2, &["GPU 0"]);
        assert_eq!(one.text().unwrap(), "GPU 0 collapsed");
        assert_eq!(one.help(), "You collapsed GPU 0: its heading stands for 2 tracks. Show them all");
        let both = of(2, 0, &[]).with(of(1, 7, &["GPU 0", "python"]));
        assert_eq!(both.text().unwrap(), "3 tracks hidden, 2 groups collapsed");
        let help = "You hid 3 tracks. You collapsed GPU 0, python: their headings stand for 7 tracks. Show them all";
        assert_eq!(both.help(), help);
        let many = of(0, 40, &["python"; 8]).with(of(0, 9, &["GPU 0", "GPU 1"]));
        assert_eq!((many.text().unwrap().as_str(), many.titles.len()), ("10 groups collapsed", 8));
        assert!(many.help().contains("python and 2 more: their headings stand for 49 tracks"), "{}", many.help());
    }
}
