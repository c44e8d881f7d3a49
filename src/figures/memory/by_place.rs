//! Memory by place: bytes by the place in the program that allocated them.

use std::borrow::Cow;
use std::sync::Arc;

use super::{Owned, Owner, owner};
use crate::analysis::memory::by_place::{Change, Holder, Owner as Code, Place, Places, first};
use crate::analysis::stacks::{BEFORE, NO_STACK};
use crate::figures::{Cell, Figure, Part, Word, figures};

/// The memory of one place, as a row.
#[derive(Clone, Debug)]
pub struct HolderRow<'a> {
    pub owner: Owner,
    pub places: Places<'a>,
    /// What the place is called in full.
    pub name: Cow<'a, str>,
    /// Where in the recording it is listed; `None` in the window, which says it above the table.
    pub at: Option<&'static Word>,
    /// Which moment that is, where it is neither the peak nor the end: a time or an event, as it was asked for.
    pub moment: Option<Arc<str>>,
    /// The two moments of a change, where no others are said above the table.
    pub between: Option<[Arc<str>; 2]>,
    pub holder: Holder,
}

/// Why blocks have no call stack, by what stands for it in lists; `None` of a call stack.
pub fn no_stack_help(name: &str) -> Option<&'static str> {
    const RECORDED: &str = "(no call stack): the recorder wrote none for these blocks. It writes Python frames: \
                            threads without any, such as that of the backward pass, have none, unless recorded with \
                            stacks=\"all\"";
    const UNRECORDED: &str = "(before the recording): the allocation of these blocks was not recorded. They were there \
                              when the recording began, or its oldest entries were dropped";
    match name {
        NO_STACK => Some(RECORDED),
        BEFORE => Some(UNRECORDED),
        _ => None,
    }
}

/// Where in the recording memory is listed by place.
pub const AT_PEAK: &Word = &Word { rank: 0, key: "peak", label: "At the peak" };
pub const AT_MOMENT: &Word = &Word { rank: 1, key: "moment", label: "At the moment" };
pub const AT_END: &Word = &Word { rank: 2, key: "end", label: "At the end" };

impl Owned for HolderRow<'_> {
    fn owner(&self) -> Owner {
        self.owner.clone()
    }
}

impl<'a> HolderRow<'a> {
    /// A row of no device, moment or recording.
    pub fn new(places: Places<'a>, holder: Holder) -> Self {
        let name = places.full_name(holder.place);
        Self { owner: Owner::default(), places, name, at: None, moment: None, between: None, holder }
    }

    /// The first `top` changes, and one for all others; 0 keeps all.
    pub fn of_changes(changes: &'a [Change<'a>], top: usize) -> Vec<Self> {
        let holders = changes.iter().map(|change| change.holder).collect();
        let row = |(holder, change): (Holder, &'a Change<'a>)| match holder.place {
            Place::Others(_) => Self::new(change.places, holder),
            _ => Self { name: change.name(), ..Self::new(change.places, holder) },
        };
        first(holders, top).into_iter().zip(changes).map(row).collect()
    }

    fn whose(&self) -> Cell {
        match self.places.owner(self.holder.place) {
            Code::User => Cell::Word(&Word { rank: 2, key: "user", label: "Your code" }),
            Code::Library => Cell::Word(&Word { rank: 1, key: "library", label: "Library" }),
            Code::Unknown => Cell::Empty,
        }
    }
}

fn place<'a>() -> Vec<Figure<HolderRow<'a>>> {
    const PLACE: &str = "The innermost frame of your own code, else of a library; the operator where no stack was \
                         recorded. Where one allocates nearly everything for several callers, each of these has a row. \
                         The profiler names functions by the line at which they begin: there each class of \
                         modules, else operator, that one called has a row. Between recordings of two versions of a program the \
                         lines of a function that moved are matched; where it is not known which is which, all of them \
                         are one row";
    figures! { row: HolderRow<'a>;
        words "place", "Place", 380, Cell::Frames((&*row.name).into()), PLACE;
        words "whose", "Whose", 80, row.whose(), "Your code, or that of a library";
        with owner();
    }
}

/// What tables by place are called where they list categories.
const BY_CATEGORY: [(&str, &str); 3] = [
    ("by_place", "Memory by recorded category"),
    ("change_by_place", "Change of memory by recorded category"),
    ("compared_places", "Memory compared, by recorded category"),
];

/// A table by place, named by what it lists: in a recording without call stacks these are the categories that it says.
pub fn named_by_rows<'a>(mut part: Part<HolderRow<'a>>, rows: &[HolderRow<'_>]) -> Part<HolderRow<'a>> {
    let has = |is: fn(&Place) -> bool| rows.iter().any(|row| is(&row.holder.place));
    if !has(|place| matches!(place, Place::Category(_)))
        || has(|place| matches!(place, Place::Frame(_) | Place::Called(..) | Place::Calls(..)))
    {
        return part;
    }
    part.title = BY_CATEGORY.iter().find(|(key, _)| *key == part.key).map_or(part.title, |named| named.1);
    for column in part.figures.iter_mut().map(|figure| &mut figure.column).filter(|column| column.key == "place") {
        column.title = "Category";
        column.help = "What the memory is for, as the file says; it has no call stacks";
    }
    // Nor whose code they are.
    part.without("whose")
}

/// What is allocated in one state, by place.
pub fn by_place<'a>() -> Part<HolderRow<'a>> {
    let figures = figures! { row: HolderRow<'a>;
        words "at", "At", 100, Cell::or_empty(row.at, Cell::Word), "When: at the peak, at a moment, or at the end";
        words "moment", "Moment", 90, Cell::or_empty(row.moment.as_deref(), Cell::name),
            "Which moment: the time or the event that was asked for";
        number "bytes", "Size", 90, Cell::Bytes(row.holder.held.bytes), "Bytes of its blocks";
        number "count", "Blocks", 70, Cell::Count(row.holder.held.blocks), "How many blocks";
        number "share", "Share", 70, Cell::Share(row.holder.share), "Its share of all that is allocated then";
        with place();
    };
    Part::new("by_place", "Memory by place", figures)
        .window("bytes share count place whose")
        .report("file rank device at moment bytes count share whose place")
        .json("at moment place whose bytes count share")
}

/// What each place has more or less of in one state than in another.
pub fn change_by_place<'a>() -> Part<HolderRow<'a>> {
    Part::new("change_by_place", "Change of memory by place", changes())
        .window("bytes share count before_bytes after_bytes place whose")
        .report("file rank device from to bytes count share before_bytes after_bytes whose place")
        .json("from to place whose bytes count share before_bytes after_bytes")
}

/// What each place has more or less of than in another recording, at the peak of each and at the end.
pub fn compared_places<'a>() -> Part<HolderRow<'a>> {
    Part::new("compared_places", "Memory compared, by place", changes())
        .report("file rank device at bytes count share before_bytes after_bytes whose place")
        .json("at place whose bytes count share before_bytes after_bytes")
}

fn between(row: &HolderRow<'_>, end: usize) -> Cell {
    Cell::or_empty(row.between.as_ref(), |moments| Cell::name(&moments[end]))
}

fn changes<'a>() -> Vec<Figure<HolderRow<'a>>> {
    const SHARE: &str = "Share of all gains; of all losses, where it has less";
    figures! { row: HolderRow<'a>;
        words "at", "At", 100, Cell::or_empty(row.at, Cell::Word), "At the peak of each recording, or at the end";
        words "from", "From", 90, between(row, 0), "The earlier moment: the start, or the first that was asked for";
        words "to", "To", 90, between(row, 1), "The later moment: the end, or the last that was asked for";
        number "bytes", "Change", 90, Cell::Gain(row.holder.change()), "Bytes more, or fewer, than before";
        number "count", "Blocks", 70, Cell::Change(row.holder.blocks_change()), "Blocks more, or fewer";
        number "share", "Share of all gains or losses", 170, Cell::Share(row.holder.share), SHARE;
        number "before_bytes", "Before", 90, Cell::Bytes(row.holder.base.bytes), "Bytes at the earlier moment";
        number "after_bytes", "After", 90, Cell::Bytes(row.holder.held.bytes), "Bytes at the later moment";
        with place();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::memory::by_place::Held;
    use crate::figures::Table;
    use crate::model::{StringId, Trace};

    #[test]
    fn categories_are_not_called_places() {
        let (trace, of_stack) = (Trace::default(), Vec::new());
        let places = Places { trace: &trace, of_stack: &of_stack };
        let table = |places_listed: &[Place]| -> Table {
            let row = |&place: &Place| {
                HolderRow::new(places, Holder { place, held: Held::default(), base: Held::default(), share: 0.5 })
            };
            let rows: Vec<HolderRow<'_>> = places_listed.iter().map(row).collect();
            named_by_rows(by_place(), &rows).table(rows, 0)
        };
        let named = |table: &Table| {
            let column = table.columns.iter().find(|column| column.key == "place").unwrap();
            (table.title, column.title)
        };
        let (category, frame) = (Place::Category(StringId::EMPTY), Place::Frame(StringId::EMPTY));
        let (of_categories, of_frames) = (table(&[category, Place::Others(3)]), table(&[frame, category]));
        assert_eq!(named(&of_categories), ("Memory by recorded category", "Category"));
        assert_eq!(named(&of_frames), ("Memory by place", "Place"));
        let all = |tables: &[&Table]| named(&by_place().joined(tables.iter().copied()));
        assert_eq!(all(&[&of_categories, &of_categories, &table(&[])]), named(&of_categories));
        assert_eq!(all(&[&of_categories, &of_frames]), named(&of_frames));
    }
}
