//! Tables as text for a terminal, as Markdown, as one HTML page, as CSV.

use std::borrow::Cow;
use std::fmt::Write as _;

use super::terminal::{Kind, Sheet, wrapped};
use crate::figures::escape::{self, csv_cell, visible};
use crate::figures::format::count;
use crate::figures::{Cell, Column, Table};
use crate::model::DurNs;

/// Aligned tables. Numbers have a comma every three digits, units are in the heads; sizes are rounded to two digits.
///
/// * `width`: the most characters of a line; without it nothing is shortened.
pub fn text(tables: &[Cow<'_, Table>], width: Option<usize>) -> String {
    let mut out = String::new();
    for table in tables.iter().filter_map(|table| ForPeople::new(table)) {
        let lines = table.lines(|text| visible(text).into_owned());
        let kinds = (0..table.columns.len()).map(|i| table.kind(i)).collect();
        out.push_str(&Sheet { title: table.of.title, kinds, lines }.text(width));
        let room = width.unwrap_or(usize::MAX).saturating_sub(2);
        for line in table.rest().iter().flat_map(|rest| wrapped(rest, room)) {
            let _ = writeln!(out, "  {line}");
        }
        out.push('\n');
    }
    out
}

/// Markdown tables under headings.
pub fn markdown(tables: &[Cow<'_, Table>]) -> String {
    let mut out = String::from("# Lacuna report\n");
    for table in tables.iter().filter_map(|table| ForPeople::new(table)) {
        let _ = writeln!(out, "\n## {}\n", table.of.title);
        for (i, line) in table.lines(escape::markdown).iter().enumerate() {
            let _ = writeln!(out, "| {} |", line.join(" | "));
            if i == 0 {
                let rule: String = (0..line.len()).map(|i| if table.is_number(i) { "---:|" } else { "---|" }).collect();
                let _ = writeln!(out, "|{rule}");
            }
        }
        if let Some(rest) = table.rest() {
            let _ = writeln!(out, "\n{rest}");
        }
    }
    out
}

/// One HTML page without scripts or anything to load.
pub fn html(tables: &[Cow<'_, Table>]) -> String {
    let mut out = String::from(concat!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<title>Lacuna \
         report</title>\n<style>\n",
        "body { font: 14px/1.4 system-ui, sans-serif; margin: 2em; color-scheme: light dark }\n",
        "table { border-collapse: collapse }\n",
        "th, td { padding: .15em .8em; text-align: left; border-bottom: 1px solid #8884; overflow-wrap: anywhere }\n",
        "th.n, td.n { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap }\n",
        "</style>\n</head>\n<body>\n<h1>Lacuna report</h1>\n"
    ));
    for table in tables.iter().filter_map(|table| ForPeople::new(table)) {
        let _ = writeln!(out, "<h2>{}</h2>\n<table>", table.of.title);
        for (i, line) in table.lines(escape::html).iter().enumerate() {
            let tag = if i == 0 { "th" } else { "td" };
            out.push_str("<tr>");
            for (i, cell) in line.iter().enumerate() {
                let class = if table.is_number(i) { " class=\"n\"" } else { "" };
                let _ = write!(out, "<{tag}{class}>{cell}</{tag}>");
            }
            out.push_str("</tr>\n");
        }
        out.push_str("</table>\n");
        if let Some(rest) = table.rest() {
            let _ = writeln!(out, "<p>{rest}</p>");
        }
    }
    out.push_str("</body>\n</html>\n");
    out
}

/// One table for all parts: the first column says which part a row is of, and what a part does not
/// have stays empty. Numbers are plain: nanoseconds, bytes, shares.
pub fn csv(tables: &[Cow<'_, Table>]) -> String {
    let mut keys: Vec<&str> = Vec::new();
    for table in tables {
        for column in table.report.iter().map(|&i| table.columns[i]) {
            if !keys.contains(&column.key) {
                keys.push(column.key);
            }
        }
    }
    let mut out = format!("part,{}\r\n", keys.join(","));
    for table in tables {
        let place = |key: &&str| table.report.iter().copied().find(|&i| table.columns[i].key == *key);
        let places: Vec<Option<usize>> = keys.iter().map(place).collect();
        for row in &table.rows {
            out.push_str(table.key);
            for place in &places {
                out.push(',');
                if let Some(cell) = place.and_then(|place| row.get(place)) {
                    out.push_str(&cell.exact(csv_cell));
                }
            }
            out.push_str("\r\n");
        }
    }
    out
}

/// A table without the columns that have no value.
struct ForPeople<'a> {
    of: &'a Table,
    /// Indices of the columns that are left.
    columns: Vec<usize>,
}

impl<'a> ForPeople<'a> {
    /// `None` if the table has no rows.
    fn new(of: &'a Table) -> Option<Self> {
        let has_value = |&i: &usize| of.rows.iter().any(|row| !row[i].is_blank());
        let columns = of.report.iter().copied().filter(has_value).collect();
        (!of.is_empty()).then_some(Self { of, columns })
    }

    fn cells(&self, column: usize) -> impl Iterator<Item = &'a Cell> {
        let place = self.columns[column];
        self.of.rows.iter().map(move |row| &row[place])
    }

    /// The unit of each column: of a whole and the parts that sum to it, whose titles begin with signs, one.
    fn units(&self) -> Vec<Unit> {
        let is_part = |column: usize| self.of.columns[self.columns[column]].title.starts_with(['=', '+']);
        let all: Vec<usize> = (0..self.columns.len()).collect();
        let sums = all.chunk_by(|_, &next| is_part(next));
        let unit = |sum: &[usize]| Unit::of(sum.iter().flat_map(|&column| self.cells(column)));
        let is_of_bytes = |sum: &[usize]| matches!(unit(sum), Unit::Bytes(_));
        let each = sums.flat_map(|sum| match is_of_bytes(sum) {
            true => vec![unit(sum); sum.len()],
            false => sum.iter().map(|&column| unit(&[column])).collect(),
        });
        each.collect()
    }

    /// The head and the rows, written for people. Text from files goes through `escape`.
    fn lines(&self, escape: impl Fn(&str) -> String) -> Vec<Vec<String>> {
        let units = self.units();
        let head = self.columns.iter().zip(&units).map(|(&i, unit)| {
            let Column { title, .. } = self.of.columns[i];
            format!("{title}{}", unit.suffix())
        });
        let mut lines = vec![head.collect::<Vec<_>>()];
        for row in &self.of.rows {
            let cells = self.columns.iter().zip(&units);
            lines.push(cells.map(|(&i, unit)| cell_text(&row[i], *unit, &escape)).collect());
        }
        lines
    }

    /// Whether it holds numbers, which stand to the right.
    fn is_number(&self, column: usize) -> bool {
        self.cells(column).all(|cell| cell.is_blank() || is_number(cell))
    }

    fn kind(&self, column: usize) -> Kind {
        // Findings, problems of reading, and memory in short.
        const PROSE: [&str; 3] = ["text", "reason", "summary"];
        match () {
            () if self.is_number(column) => Kind::Number,
            () if self.cells(column).any(|cell| matches!(cell, Cell::Sentences(_))) => Kind::Below,
            () if PROSE.contains(&self.of.columns[self.columns[column]].key) => Kind::Prose,
            () => Kind::Name,
        }
    }

    /// What the user does not see, and must know, if anything.
    fn rest(&self) -> Option<String> {
        let n = self.of.n_hidden as u64;
        let hidden = (n > 0).then(|| format!("and {} more; --top 0 lists all", count(n)));
        let note = Some(self.of.note.to_owned()).filter(|note| !note.is_empty());
        let lines: Vec<String> = hidden.into_iter().chain(note).collect();
        (!lines.is_empty()).then(|| lines.join(". "))
    }
}

fn is_number(cell: &Cell) -> bool {
    match cell {
        Cell::Device(device) => *device >= 0,
        Cell::Count(_) | Cell::Estimate(_) | Cell::Plain(_) | Cell::Bytes(_) | Cell::Gain(_) => true,
        Cell::Ns(_) | Cell::NsMore(_) | Cell::Share(_) | Cell::GbPerS(_) => true,
        _ => false,
    }
}

fn cell_text(cell: &Cell, unit: Unit, escape: impl Fn(&str) -> String) -> String {
    match cell {
        Cell::Count(n) => count(*n),
        Cell::Bytes(n) => unit.bytes(*n),
        Cell::Gain(bytes) if *bytes < 0 => format!("-{}", unit.bytes(bytes.unsigned_abs())),
        Cell::Gain(bytes) => unit.bytes(bytes.unsigned_abs()),
        Cell::Change(n) => format!("{n:+}"),
        Cell::Estimate(n) => count(*n as u64),
        Cell::Ns(ns) => unit.time(*ns),
        Cell::NsMore(ns) => format!("{}{}", if *ns > 0 { "+" } else { "" }, unit.time(*ns)),
        Cell::Share(share) => format!("{:.2}", share * 100.0),
        Cell::Plain(figure) | Cell::GbPerS(figure) => format!("{figure:.3}"),
        Cell::Word(word) => escape(word.label),
        other => other.exact(escape),
    }
}

/// The unit of a column, the same in all its rows, so that its numbers can be compared by eye.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unit {
    None,
    /// Of a power of 1024: 0 bytes, 1 KiB, 2 MiB.
    Bytes(u8),
    Percent,
    /// Nanoseconds as microseconds, exactly.
    Micros,
    /// Nanoseconds as milliseconds, exactly.
    Millis,
}

impl Unit {
    fn of<'a>(cells: impl Iterator<Item = &'a Cell>) -> Self {
        const TEN_SECONDS: u64 = 10_000_000_000;
        let mut unit = Self::None;
        for cell in cells {
            let bytes = match cell {
                Cell::Bytes(bytes) => *bytes,
                Cell::Gain(bytes) => bytes.unsigned_abs(),
                _ => 0,
            };
            match cell {
                Cell::Bytes(_) | Cell::Gain(_) => {
                    let power = [10 << 10, 10 << 20].iter().filter(|&&least| bytes >= least).count() as u8;
                    unit = Self::Bytes(if let Self::Bytes(other) = unit { other.max(power) } else { power });
                }
                Cell::Share(_) => unit = Self::Percent,
                Cell::Ns(ns) | Cell::NsMore(ns) if ns.unsigned_abs() >= TEN_SECONDS => return Self::Millis,
                Cell::Ns(_) | Cell::NsMore(_) => unit = Self::Micros,
                _ => {}
            }
        }
        unit
    }

    fn suffix(self) -> &'static str {
        match self {
            Self::None => "",
            Self::Bytes(0) => " (B)",
            Self::Bytes(1) => " (KiB)",
            Self::Bytes(_) => " (MiB)",
            Self::Percent => " (%)",
            Self::Micros => " (µs)",
            Self::Millis => " (ms)",
        }
    }

    /// With two digits behind the point where it is not of bytes.
    fn bytes(self, bytes: u64) -> String {
        let one = match self {
            Self::Bytes(power @ 1..) => 1_u128 << (10 * power),
            _ => return count(bytes),
        };
        let hundredths = (100 * u128::from(bytes) + one / 2) / one;
        if hundredths == 0 && bytes > 0 {
            return "<0.01".to_owned();
        }
        format!("{}.{:02}", count((hundredths / 100) as u64), hundredths % 100)
    }

    fn time(self, ns: DurNs) -> String {
        let (sign, ns) = (if ns < 0 { "-" } else { "" }, ns.unsigned_abs());
        match self {
            Self::Millis => format!("{sign}{}.{:06}", count(ns / 1_000_000), ns % 1_000_000),
            _ => format!("{sign}{}.{:03}", count(ns / 1000), ns % 1000),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::gaps::GapClass;
    use crate::figures::gaps::class_word;

    #[test]
    fn words_are_those_of_the_window_for_people_and_keys_for_programs() {
        let class = class_word(GapClass::Unknown);
        assert_eq!(cell_text(&class, Unit::None, str::to_owned), "Unexplained");
        assert_eq!(class.exact(str::to_owned), "unknown");
    }

    #[test]
    fn parts_that_sum_to_a_whole_have_its_unit() {
        use crate::analysis::memory::reserved::GrowthShares;
        use crate::figures::memory::{Owner, ReservedShares, reserved_shares};
        let shares =
            GrowthShares { bytes: 506 << 20, demand: 500 << 20, fragmentation: 6 << 20, ..GrowthShares::default() };
        let row = ReservedShares { owner: Owner::default(), shares, pins: None };
        let table = reserved_shares().table(vec![row], 0);
        let heads = ForPeople::new(&table).unwrap().lines(str::to_owned).remove(0);
        assert_eq!(heads[1..], ["Growth (MiB)", "= Demand (MiB)", "+ Fragmentation (MiB)", "+ Other (MiB)"]);
    }
}
