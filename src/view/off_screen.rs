//! What the user keeps off the screen, in words.

use crate::figures::format;
use crate::figures::text::shortened;

/// The longest title, in characters, and the most titles that are listed.
const MAX_TITLE: usize = 32;
const MAX_LISTED: usize = 8;

/// Tracks that the user keeps off the screen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OffScreen {
    /// How many tracks are hidden, and how many are in what is collapsed.
    pub n_hidden: usize,
    pub n_collapsed: usize,
    /// Titles of the groups and threads that are collapsed.
    pub collapsed: Vec<String>,
}

impl OffScreen {
    /// This and that of another view.
    pub fn with(mut self, other: Self) -> Self {
        self.n_hidden += other.n_hidden;
        self.n_collapsed += other.n_collapsed;
        self.collapsed.extend(other.collapsed);
        self
    }

    /// `2 tracks hidden, GPU 0 collapsed`; `None` if all is on the screen.
    pub fn text(&self) -> Option<String> {
        let hidden = (self.n_hidden > 0).then(|| format!("{} hidden", tracks(self.n_hidden)));
        let collapsed = match &self.collapsed[..] {
            [] => None,
            [one] => Some(format!("{} collapsed", shortened(one, MAX_TITLE))),
            all => Some(format!("{} groups collapsed", format::count(all.len() as u64))),
        };
        let parts: Vec<String> = hidden.into_iter().chain(collapsed).collect();
        (!parts.is_empty()).then(|| parts.join(", "))
    }

    /// What that is, and what a click does.
    pub fn help(&self) -> String {
        let hidden = (self.n_hidden > 0).then(|| format!("You hid {}", tracks(self.n_hidden)));
        let titles = self.collapsed.iter().take(MAX_LISTED).map(|title| shortened(title, MAX_TITLE));
        let titles = titles.collect::<Vec<_>>().join(", ");
        let more = match self.collapsed.len().saturating_sub(MAX_LISTED) {
            0 => String::new(),
            n => format!(" and {n} more"),
        };
        let heads = if self.collapsed.len() == 1 { "its heading stands" } else { "their headings stand" };
        let collapsed = (!self.collapsed.is_empty())
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
            let collapsed = titles.iter().map(|&title| title.to_owned()).collect();
            OffScreen { n_hidden, n_collapsed, collapsed }
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
    }
}
