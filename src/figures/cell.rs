//! One value of a table, and its form in each output.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::sync::Arc;

use serde::{Serialize, Serializer};

use super::natural::Natural;
use super::table::{Object, Table};
use super::text::{display_name, short_frame, telling};
use super::{format, text};
use crate::analysis::memory::by_place::place_name;
use crate::analysis::stacks::NO_STACK;
use crate::model::memory::UNKNOWN_DEVICE;
use crate::model::time::{DurNs, TimeNs};

/// The most frames that are shown in a cell; no column is wide enough for more.
pub const MAX_FRAMES: usize = 8;

/// One value of a table. Its variant is its unit; a column holds one variant, and [`Cell::Empty`].
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Cell {
    /// Unknown, or does not apply. Sorts last in either direction.
    #[default]
    Empty,
    Text(Box<str>),
    /// Several sentences, without periods at their ends.
    Sentences(Box<[String]>),
    /// One of a fixed set of words.
    Word(&'static Word),
    /// A fact with a word for `false` and one for `true`.
    Flag(bool, &'static [&'static str; 2]),
    /// Frames of a call stack, innermost first, with `; ` between them. The window leaves out their
    /// folders, which would crowd out the rest.
    Frames(Box<str>),
    /// A call stack that tables name by one of its frames.
    Stack(Arc<Stack>),
    /// A number that names something, such as a process.
    Id(i64),
    /// Index of a device; negative is the host, or [`UNKNOWN_DEVICE`], which is `null` in JSON.
    Device(i32),
    Count(u64),
    /// So many of all of them: `3 of 12`.
    Of(u64, u64),
    /// How many more, or fewer.
    Change(i64),
    /// A number of things that is an estimate; tables round it down.
    Estimate(f64),
    /// A figure without a unit, or whose unit is in the column's title.
    Plain(f64),
    Ns(DurNs),
    /// Nanoseconds more, or fewer.
    NsMore(DurNs),
    /// A moment, which the window shows to the nanosecond.
    Moment(TimeNs),
    Bytes(u64),
    /// Bytes gained; negative if lost.
    Gain(i64),
    /// 0 to 1.
    Share(f64),
    /// 10^9 bytes per second.
    GbPerS(f64),
    /// Sides in x, y and z; sorts by their product.
    Sides([u32; 3]),
    /// The rows of another table, in JSON only.
    List(Arc<Table>),
    /// Figures of a part of what the row is of, in JSON only.
    Object(Box<Object>),
}

/// A word of a fixed set.
#[derive(Debug, PartialEq, Eq)]
pub struct Word {
    /// Sort order: `High` ranks above `Low`. Words of equal rank sort by their text.
    pub rank: u8,
    /// In JSON and in reports.
    pub key: &'static str,
    /// In the window.
    pub label: &'static str,
}

/// A call stack.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stack {
    /// The place that allocates, as lists by place have it; empty without frames.
    pub place: String,
    /// The same, in a list with what tells it from others.
    pub label: String,
    /// Innermost first.
    pub frames: Vec<String>,
}

impl Stack {
    /// * `frames`: innermost first.
    pub fn new(frames: Vec<String>) -> Self {
        Self::at(place_name(&frames), frames)
    }

    /// * `place`: what lists by place call it.
    pub fn at(place: String, frames: Vec<String>) -> Self {
        Self { label: place.clone(), place, frames }
    }

    /// The frame that names its place.
    pub fn frame(&self) -> &str {
        self.place.split("; ").next().unwrap_or_default()
    }

    /// What tables call it.
    pub fn name(&self) -> &str {
        if self.label.is_empty() { NO_STACK } else { &self.label }
    }
}

impl Cell {
    /// Text that may be missing: no text is an empty cell.
    pub fn text(text: &str) -> Self {
        if text.is_empty() { Self::Empty } else { Self::Text(text.into()) }
    }

    /// A name, which is there even if it has no letters.
    pub fn name(name: &str) -> Self {
        Self::Text(name.into())
    }

    pub fn frames(frames: &str) -> Self {
        if frames.is_empty() { Self::Empty } else { Self::Frames(frames.into()) }
    }

    /// `value` as `cell` has it; `None` is empty.
    pub fn or_empty<T>(value: Option<T>, cell: impl Fn(T) -> Self) -> Self {
        value.map_or(Self::Empty, cell)
    }

    /// A small number that may be missing.
    pub fn number(number: Option<u32>) -> Self {
        Self::or_empty(number, |number| Self::Count(u64::from(number)))
    }

    /// Whether nothing would be written.
    pub fn is_blank(&self) -> bool {
        match self {
            Self::Empty | Self::List(_) | Self::Object(_) => true,
            Self::Text(text) => text.is_empty(),
            Self::Sentences(sentences) => sentences.is_empty(),
            _ => false,
        }
    }

    /// The name it holds, if it holds one.
    pub fn as_name(&self) -> Option<&str> {
        match self {
            Self::Text(text) | Self::Frames(text) => Some(text),
            Self::Stack(stack) => Some(stack.name()),
            _ => None,
        }
    }

    /// The words it holds, if it holds any: what a filter looks at.
    pub fn words(&self) -> Option<&str> {
        match self {
            Self::Word(word) => Some(word.label),
            Self::Flag(is, words) => Some(words[usize::from(*is)]),
            _ => self.as_name(),
        }
    }

    /// The name it holds, as far as names sort by it: as tables show it.
    pub fn telling(&self) -> Option<Cow<'_, str>> {
        match self {
            Self::Text(text) => Some(telling(text)),
            Self::Stack(_) | Self::Frames(_) => Some(Cow::Owned(self.shown())),
            _ => None,
        }
    }

    /// What the window shows, with its unit.
    pub fn shown(&self) -> String {
        match self {
            Self::Empty | Self::List(_) | Self::Object(_) => String::new(),
            Self::Text(text) => display_name(text).into_owned(),
            Self::Sentences(sentences) => display_name(&sentences.join(". ")).into_owned(),
            Self::Frames(frames) => Self::of_frames(frames),
            Self::Stack(stack) => Self::of_frames(stack.name()),
            Self::Word(word) => word.label.to_owned(),
            Self::Flag(is, words) => words[usize::from(*is)].to_owned(),
            Self::Id(id) => id.to_string(),
            Self::Device(device) => text::device(*device),
            Self::Count(n) => format::count(*n),
            Self::Of(n, all) => format!("{} of {}", format::count(*n), format::count(*all)),
            Self::Change(n) => format!("{}{}", if *n < 0 { "-" } else { "+" }, format::count(n.unsigned_abs())),
            Self::Estimate(n) => format::count(*n as u64),
            // A mean of whole numbers that is one, of calls per step.
            Self::Plain(figure) if figure.fract() == 0.0 && figure.abs() < 1e15 => {
                format!("{}{}", if *figure < 0.0 { "-" } else { "" }, format::count(figure.abs() as u64))
            }
            // A learning rate is not 0.000.
            Self::Plain(figure) if figure.abs() < 5e-4 => format!("{figure:.2e}"),
            Self::Plain(figure) => format!("{figure:.3}"),
            Self::Ns(ns) => format::duration(*ns),
            Self::NsMore(ns) => format!("{}{}", if *ns > 0 { "+" } else { "" }, format::duration(*ns)),
            Self::Moment(ns) => format::moment(*ns, 1),
            Self::Bytes(bytes) => format::bytes(*bytes as f64),
            Self::Gain(bytes) => format::bytes(*bytes as f64),
            Self::Share(share) => format!("{:.1} %", share * 100.0),
            Self::GbPerS(speed) => format!("{speed:.3} GB/s"),
            Self::Sides([x, y, z]) => format!("{x} × {y} × {z}"),
        }
    }

    /// Frames as tables show them: without folders.
    pub fn of_frames(frames: &str) -> String {
        let frames: Vec<String> = frames.split("; ").take(MAX_FRAMES).map(short_frame).collect();
        display_name(&frames.join("; ")).into_owned()
    }

    /// The same in full, where the window shows less.
    pub fn in_full(&self) -> Option<String> {
        match self {
            Self::Ns(ns) | Self::NsMore(ns) | Self::Moment(ns) if ns.unsigned_abs() >= 1000 => {
                Some(format::duration_exact(*ns))
            }
            Self::Bytes(bytes) if *bytes >= 1024 => Some(format!("{} B", format::count(*bytes))),
            Self::Gain(bytes) if bytes.unsigned_abs() >= 1024 => Some(format!("{} B", format::signed(*bytes))),
            Self::Share(share) => Some(format!("{:.4} %", share * 100.0)),
            Self::Sentences(sentences) => Some(sentences.join(".\n")),
            _ => None,
        }
    }

    /// For spreadsheets and programs: exact, without unit. Only what is text goes through `escape`: a
    /// negative number is not a formula.
    pub fn exact(&self, escape: impl Fn(&str) -> String) -> String {
        match self {
            Self::Empty | Self::List(_) | Self::Object(_) => String::new(),
            Self::Text(text) | Self::Frames(text) => escape(text),
            Self::Sentences(sentences) => escape(&sentences.join(". ")),
            Self::Stack(stack) => escape(stack.name()),
            Self::Word(word) => escape(word.key),
            Self::Flag(is, words) => escape(words[usize::from(*is)]),
            Self::Device(device) => text::device(*device),
            Self::Count(n) | Self::Bytes(n) => n.to_string(),
            Self::Id(n) | Self::Change(n) | Self::Ns(n) | Self::NsMore(n) | Self::Moment(n) | Self::Gain(n) => {
                n.to_string()
            }
            Self::Of(n, all) => format!("{n} of {all}"),
            Self::Share(figure) | Self::GbPerS(figure) | Self::Plain(figure) => figure.to_string(),
            Self::Estimate(figure) => (*figure as u64).to_string(),
            Self::Sides([x, y, z]) => format!("{x}x{y}x{z}"),
        }
    }

    /// The order in a column. Empty cells come last in either direction.
    pub fn compare(&self, other: &Self, is_descending: bool) -> Ordering {
        let volume = |sides: &[u32; 3]| sides.iter().fold(1_u128, |n, &side| n * u128::from(side));
        let order = match (self, other) {
            (Self::Empty, Self::Empty) => return Ordering::Equal,
            (Self::Empty, _) => return Ordering::Greater,
            (_, Self::Empty) => return Ordering::Less,
            // Not by the level of a tree.
            (Self::Text(a), Self::Text(b)) => Natural(a.trim_start()).cmp(&Natural(b.trim_start())),
            (Self::Frames(a), Self::Frames(b)) => Natural(a).cmp(&Natural(b)),
            (Self::Sentences(a), Self::Sentences(b)) => a.cmp(b),
            (Self::Stack(a), Self::Stack(b)) => a.name().cmp(b.name()),
            (Self::Word(a), Self::Word(b)) => (a.rank, a.label).cmp(&(b.rank, b.label)),
            (Self::Flag(a, words), Self::Flag(b, _)) => words[usize::from(*a)].cmp(words[usize::from(*b)]),
            (Self::Count(a), Self::Count(b)) | (Self::Bytes(a), Self::Bytes(b)) => a.cmp(b),
            (Self::Of(a, of_a), Self::Of(b, of_b)) => (a, of_a).cmp(&(b, of_b)),
            (Self::Device(a), Self::Device(b)) => a.cmp(b),
            (Self::Change(a), Self::Change(b))
            | (Self::Id(a), Self::Id(b))
            | (Self::Ns(a), Self::Ns(b))
            | (Self::NsMore(a), Self::NsMore(b))
            | (Self::Moment(a), Self::Moment(b))
            | (Self::Gain(a), Self::Gain(b)) => a.cmp(b),
            (Self::Share(a), Self::Share(b))
            | (Self::GbPerS(a), Self::GbPerS(b))
            | (Self::Plain(a), Self::Plain(b))
            | (Self::Estimate(a), Self::Estimate(b)) => a.total_cmp(b),
            (Self::Sides(a), Self::Sides(b)) => volume(a).cmp(&volume(b)).then(a.cmp(b)),
            _ => Ordering::Equal,
        };
        if is_descending { order.reverse() } else { order }
    }
}

/// As in `report --format json`. An empty cell has no place there: its key is left out.
impl Serialize for Cell {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Empty => serializer.serialize_unit(),
            Self::Text(text) | Self::Frames(text) => serializer.serialize_str(text),
            Self::Sentences(sentences) => sentences.serialize(serializer),
            Self::Word(word) => serializer.serialize_str(word.key),
            Self::Flag(is, _) => serializer.serialize_bool(*is),
            Self::Stack(stack) => stack.frames.serialize(serializer),
            Self::Device(UNKNOWN_DEVICE) => serializer.serialize_unit(),
            Self::Device(device) => serializer.serialize_i32(*device),
            Self::Count(n) | Self::Bytes(n) => serializer.serialize_u64(*n),
            Self::Of(n, all) => serializer.collect_str(&format_args!("{n} of {all}")),
            Self::Id(n) | Self::Change(n) | Self::Ns(n) | Self::NsMore(n) | Self::Moment(n) | Self::Gain(n) => {
                serializer.serialize_i64(*n)
            }
            Self::Estimate(figure) | Self::Plain(figure) | Self::Share(figure) | Self::GbPerS(figure) => {
                serializer.serialize_f64(*figure)
            }
            Self::Sides(sides) => sides.serialize(serializer),
            Self::List(table) => table.serialize(serializer),
            Self::Object(object) => object.serialize(serializer),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mean_that_is_whole_is_shown_as_such() {
        let shown = |figure| Cell::Plain(figure).shown();
        assert_eq!([98.0, 0.0, 97.625, 12_000.0].map(shown), ["98", "0", "97.625", "12,000"]);
    }

    #[test]
    fn cells_sort_by_value() {
        let high = Cell::Word(&Word { rank: 2, key: "high", label: "High" });
        let medium = Cell::Word(&Word { rank: 1, key: "medium", label: "Medium" });
        assert_eq!(high.compare(&medium, true), Ordering::Less);
        assert_eq!(Cell::Change(10).compare(&Cell::Change(2), false), Ordering::Greater);
        assert_eq!(Cell::Sides([2, 3, 1]).compare(&Cell::Sides([7, 1, 1]), false), Ordering::Less);
        for is_descending in [false, true] {
            assert_eq!(Cell::Empty.compare(&Cell::Ns(-1), is_descending), Ordering::Greater);
        }
    }

    #[test]
    fn cells_have_a_form_for_each_output() {
        assert_eq!([Cell::Change(10), Cell::Change(-2000)].map(|cell| cell.shown()), ["+10", "-2,000"]);
        let stack = Cell::Stack(Arc::new(Stack::new(vec!["f (/a/b.py:1)".into()])));
        assert_eq!(stack.shown(), "f (b.py:1)");
        assert_eq!(stack.exact(str::to_owned), "f (/a/b.py:1)");
        assert_eq!(serde_json::to_string(&stack).unwrap(), r#"["f (/a/b.py:1)"]"#);
        assert_eq!(Cell::Stack(Arc::default()).shown(), NO_STACK);
        assert_eq!(serde_json::to_string(&Cell::Stack(Arc::default())).unwrap(), "[]");
        assert_eq!(Cell::Bytes(u64::MAX).exact(str::to_owned), u64::MAX.to_string());
    }
}
