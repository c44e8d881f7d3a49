//! Layout of tables in columns of text: as wide as they are, or for a terminal.

use std::collections::HashMap;
use std::fmt::Write as _;

use crate::figures::text::{shortened, shortened_apart};

/// Columns of a terminal that every line fits into.
pub const WIDTH: usize = 120;
/// Before each column.
const GAP: usize = 2;
/// The fewest characters to which names of a column are shortened, and those of the widest column.
const LEAST: [usize; 2] = [14, 34];
/// The same for a column of prose, which is wrapped.
const LEAST_PROSE: usize = 48;
/// Among so many names that would be shortened to the same each is shown where it differs from the others.
const MOST_ALIKE: usize = 32;
/// Before prose that has lines of its own.
const INDENT: usize = 8;

/// What a column holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// To the right.
    Number,
    /// To the left; shortened where room is short.
    Name,
    /// Sentences: wrapped where room is short.
    Prose,
    /// Sentences that go below their row where room is short.
    Below,
}

/// A table to lay out.
#[derive(Debug)]
pub struct Sheet<'a> {
    pub title: &'a str,
    pub kinds: Vec<Kind>,
    /// The head and the rows: a text for each column.
    pub lines: Vec<Vec<String>>,
}

impl Sheet<'_> {
    /// The title and the table. Where it is wider than `width`, heads are wrapped and names shortened; columns that
    /// still have no room follow in a table below, beside the names and the numbers of the rows.
    pub fn text(&self, width: Option<usize>) -> String {
        let widths: Vec<usize> = (0..self.kinds.len()).map(|i| self.longest(i, length)).collect();
        let whole: usize = widths.iter().map(|width| width + GAP).sum();
        let mut out = format!("{}\n", self.title);
        match width.filter(|&width| whole > width) {
            None => self.write(&(0..).zip(widths).collect::<Vec<_>>(), None, &mut out),
            Some(width) => {
                let blocks = self.blocks(width, None);
                if blocks.len() == 1 || self.lines.len() <= 2 {
                    self.write_blocks(&blocks, width, &mut out);
                } else {
                    let numbered = self.numbered();
                    numbered.write_blocks(&numbered.blocks(width, Some(0)), width, &mut out);
                }
            }
        }
        out
    }

    /// The same with the number of each row in front, by which it is found again in the tables below.
    fn numbered(&self) -> Self {
        let first = |n: usize| if n == 0 { "#".to_owned() } else { n.to_string() };
        let line = |(n, line): (usize, &Vec<String>)| [vec![first(n)], line.clone()].concat();
        Sheet {
            title: self.title,
            kinds: [vec![Kind::Number], self.kinds.clone()].concat(),
            lines: self.lines.iter().enumerate().map(line).collect(),
        }
    }

    fn write_blocks(&self, blocks: &[Vec<(usize, usize)>], width: usize, out: &mut String) {
        for (i, block) in blocks.iter().enumerate() {
            if i > 0 {
                let _ = writeln!(out, "{}, continued", self.title);
            }
            self.write(block, Some((width, i == 0)), out);
        }
    }

    fn longest(&self, column: usize, length: impl Fn(&str) -> usize) -> usize {
        self.lines.iter().map(|line| length(&line[column])).max().unwrap_or(0)
    }

    /// The most and the fewest characters that a column is shown with.
    fn bounds(&self, column: usize, is_widest: bool) -> (usize, usize) {
        let most = self.lines.iter().skip(1).map(|line| length(&line[column])).max().unwrap_or(0);
        let most = most.max(longest_word(&self.lines[0][column]));
        let least = match self.kinds[column] {
            Kind::Number => most,
            Kind::Name => LEAST[usize::from(is_widest)].max(longest_word(&self.lines[0][column])),
            Kind::Prose | Kind::Below => LEAST_PROSE,
        };
        (most, least.min(most))
    }

    /// The columns of each table, with their widths.
    ///
    /// * `number`: the column that all of them have beside that of the widest names.
    fn blocks(&self, width: usize, number: Option<usize>) -> Vec<Vec<(usize, usize)>> {
        let is_name = |i: &usize| self.kinds[*i] == Kind::Name;
        let widest = (0..self.kinds.len()).filter(is_name).max_by_key(|&i| self.bounds(i, true).0);
        let least = |i: usize| self.bounds(i, Some(i) == widest).1 + GAP;
        let repeated = || number.into_iter().chain(widest);
        let room = width.saturating_sub(repeated().map(least).sum());
        let (mut blocks, mut used) = (vec![Vec::new()], 0);
        let others =
            (0..self.kinds.len()).filter(|&i| repeated().all(|other| other != i) && self.kinds[i] != Kind::Below);
        for i in others {
            if used + least(i) > room && used > 0 {
                blocks.push(Vec::new());
                used = 0;
            }
            used += least(i);
            blocks.last_mut().into_iter().for_each(|block| block.push(i));
        }
        for block in &mut blocks {
            block.extend(repeated());
            block.sort_unstable();
        }
        let fitted = |block: Vec<usize>| {
            let mut spare = width.saturating_sub(block.iter().map(|&i| least(i)).sum());
            let mut columns: Vec<(usize, usize)> = block.iter().map(|&i| (i, least(i) - GAP)).collect();
            let lacking = |&(i, width): &(usize, usize)| self.bounds(i, false).0.saturating_sub(width);
            let mut wanting: Vec<&mut (usize, usize)> =
                columns.iter_mut().filter(|column| lacking(column) > 0).collect();
            wanting.sort_by_key(|column| lacking(column));
            let n = wanting.len();
            for (i, column) in wanting.into_iter().enumerate() {
                let more = lacking(column).min(spare / (n - i));
                column.1 += more;
                spare -= more;
            }
            columns
        };
        blocks.into_iter().map(fitted).collect()
    }

    /// * `narrow`: the width, and whether prose goes below its row; `None` writes every cell whole in one line.
    fn write(&self, columns: &[(usize, usize)], narrow: Option<(usize, bool)>, out: &mut String) {
        // A single column under its own title needs no second one.
        let is_titled = columns.len() == 1 && self.lines[0][columns[0].0] == self.title;
        let names: Vec<HashMap<&str, Vec<String>>> = columns.iter().map(|&(i, width)| self.names(i, width)).collect();
        for (n, line) in self.lines.iter().enumerate().skip(usize::from(is_titled)) {
            let cells = columns.iter().zip(&names).map(|(&(i, width), names)| self.cell(n, i, width, names));
            let cells: Vec<Vec<String>> = cells.collect();
            let height = cells.iter().map(Vec::len).max().unwrap_or(0);
            for y in 0..height {
                let mut text = String::new();
                for (cell, &(i, width)) in cells.iter().zip(columns) {
                    // Heads stand on their table.
                    let y = if n == 0 { (y + cell.len()).checked_sub(height) } else { Some(y) };
                    let part = y.and_then(|y| cell.get(y)).map_or("", |part| part);
                    let pad = " ".repeat(width.saturating_sub(length(part)));
                    let is_right = self.kinds[i] == Kind::Number;
                    let _ = if is_right { write!(text, "  {pad}{part}") } else { write!(text, "  {part}{pad}") };
                }
                let _ = writeln!(out, "{}", text.trim_end());
            }
            let Some((width, true)) = narrow.filter(|_| n > 0) else { continue };
            for i in (0..self.kinds.len()).filter(|&i| self.kinds[i] == Kind::Below && !line[i].is_empty()) {
                for part in wrapped(&line[i], width - INDENT) {
                    let _ = writeln!(out, "{}{part}", " ".repeat(INDENT));
                }
            }
        }
    }

    /// The lines of each name of a column that does not fit: one, shortened, or where another would read the same all
    /// of it. Empty for other columns.
    fn names(&self, column: usize, width: usize) -> HashMap<&str, Vec<String>> {
        if self.kinds[column] != Kind::Name {
            return HashMap::new();
        }
        let names = self.lines.iter().skip(1).map(|line| line[column].as_str());
        let mut long: Vec<&str> = names.filter(|name| length(name) > width).collect();
        long.sort_unstable();
        long.dedup();
        let short: Vec<String> = long.iter().map(|name| shortened(name, width)).collect();
        let mut alike: HashMap<&str, Vec<&str>> = HashMap::new();
        for (short, name) in short.iter().zip(&long) {
            alike.entry(short).or_default().push(name);
        }
        let shown = short.iter().zip(&long).map(|(short, &name)| {
            let others = alike[short.as_str()].iter().copied().filter(|&other| other != name);
            let others: Vec<&str> = others.take(MOST_ALIKE).collect();
            if others.is_empty() { short.clone() } else { shortened_apart(name, &others, width) }
        });
        let shown: Vec<String> = shown.collect();
        let mut n_shown: HashMap<&str, usize> = HashMap::new();
        for text in &shown {
            *n_shown.entry(text).or_default() += 1;
        }
        let lines = |text: &String, name: &str| match n_shown[text.as_str()] {
            1 => vec![text.clone()],
            _ => wrapped(name, width),
        };
        shown.iter().zip(long).map(|(text, name)| (name, lines(text, name))).collect()
    }

    /// The lines of a cell.
    ///
    /// * `names`: see [`Self::names`].
    fn cell(&self, line: usize, column: usize, width: usize, names: &HashMap<&str, Vec<String>>) -> Vec<String> {
        let text = self.lines[line][column].as_str();
        match self.kinds[column] {
            _ if length(text) <= width => vec![text.to_owned()],
            Kind::Name if line > 0 => names.get(text).cloned().unwrap_or_default(),
            _ => wrapped(text, width),
        }
    }
}

fn length(text: &str) -> usize {
    text.chars().count()
}

fn longest_word(text: &str) -> usize {
    text.split(' ').map(length).max().unwrap_or(0)
}

/// Lines of at most `width` characters. A longer word is shortened.
pub fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split(' ') {
        let word = shortened(word, width);
        match lines.last_mut() {
            Some(line) if length(line) + 1 + length(&word) <= width => {
                line.push(' ');
                line.push_str(&word);
            }
            _ => lines.push(word),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sheet<'a>(kinds: &[Kind], lines: &[&[&str]]) -> Sheet<'a> {
        let lines = lines.iter().map(|line| line.iter().map(|&cell| cell.to_owned()).collect()).collect();
        Sheet { title: "Table", kinds: kinds.to_vec(), lines }
    }

    #[test]
    fn a_table_with_room_is_one_line_a_row() {
        let small = sheet(&[Kind::Number, Kind::Name], &[&["Total (µs)", "Name"], &["1.5", "gemm"]]);
        let text = "Table\n  Total (µs)  Name\n         1.5  gemm\n";
        assert_eq!([small.text(None), small.text(Some(120))], [text; 2]);
    }

    #[test]
    fn heads_are_wrapped_and_names_shortened() {
        let name = "x".repeat(100);
        let wide = sheet(&[Kind::Number, Kind::Name], &[&["Exposed communication (µs)", "Name"], &["1.5", &name]]);
        let text = wide.text(Some(60));
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[1..3], ["        Exposed", "  communication  "].map(str::trim_end));
        assert_eq!(lines[3].split_whitespace().collect::<Vec<_>>(), ["(µs)", "Name"]);
        assert!(lines[4].contains('…') && lines[4].chars().count() == 60, "{text}");
        assert!(wide.text(None).contains(&name), "whole without a width");
    }

    #[test]
    fn different_names_are_shortened_to_different_ones() {
        let name = |n: u32, m: u32| {
            format!("void bn_bw_1C11_kernel_new<float, float, float2, {n}, true, {m}>(float, float, cudnnTensorStruct)")
        };
        let names = [name(128, 1), name(32, 1), name(32, 7)];
        let rows: Vec<[&str; 2]> = names.iter().map(|name| ["1.5", name]).collect();
        let head = ["Total (µs)", "Name"];
        let lines: Vec<&[&str]> = std::iter::once(&head[..]).chain(rows.iter().map(|row| &row[..])).collect();
        let text = sheet(&[Kind::Number, Kind::Name], &lines).text(Some(60));
        let shown: Vec<&str> = text.lines().filter(|line| line.contains("bn_bw")).collect();
        let different: std::collections::HashSet<&&str> = shown.iter().collect();
        assert_eq!((shown.len(), different.len()), (3, 3), "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= 60), "{text}");
    }

    #[test]
    fn names_that_would_be_shortened_to_the_same_stand_whole() {
        let name = |a: &str, b: &str| {
            let path = "/home/me/a/long/folder/model.py";
            format!("forward ({path}:39); from attend ({path}:9); via at::native::{a}; via at::native::{b}")
        };
        // No one frame tells each of them from the others.
        let names = [name("einsum", "bmm"), name("einsum", "to"), name("matmul", "bmm"), name("matmul", "to")];
        let rows: Vec<[&str; 2]> = names.iter().map(|name| ["1.5", name]).collect();
        let head = ["Size (MiB)", "Allocated at"];
        let lines: Vec<&[&str]> = std::iter::once(&head[..]).chain(rows.iter().map(|row| &row[..])).collect();
        let text = sheet(&[Kind::Number, Kind::Name], &lines).text(Some(70));
        let words: Vec<&str> = text.split_whitespace().collect();
        let words = words.join(" ");
        for name in &names {
            assert_eq!(words.matches(name.as_str()).count(), 1, "{text}");
        }
        assert!(text.lines().all(|line| line.chars().count() <= 70), "{text}");
    }

    #[test]
    fn columns_without_room_follow_beside_the_names() {
        let n = 30;
        let kinds: Vec<Kind> = std::iter::repeat_n(Kind::Number, n).chain([Kind::Name, Kind::Below]).collect();
        let head: Vec<String> = (0..n).map(|i| format!("Figure{i}")).chain(["Name".into(), "Advice".into()]).collect();
        let row: Vec<String> =
            (0..n).map(|i| format!("{i}.5")).chain(["kernel".into(), "Do this. ".repeat(40).trim().into()]).collect();
        let text = Sheet { title: "Table", kinds, lines: vec![head, row] }.text(Some(WIDTH));
        assert!(text.lines().all(|line| line.chars().count() <= WIDTH), "{text}");
        assert!((0..n).all(|i| text.matches(&format!(" {i}.5")).count() == 1), "{text}");
        assert_eq!(text.matches("kernel").count(), text.matches("Table").count());
        let words: Vec<&str> = text.split_whitespace().collect();
        assert_eq!(words.join(" ").matches("Do this.").count(), 40);
    }

    #[test]
    fn each_row_of_a_table_that_goes_on_below_has_its_number() {
        let kinds = [vec![Kind::Number; 30], vec![Kind::Name]].concat();
        let row = |name: &str| [vec!["1,000.5".to_owned(); 30], vec![name.to_owned()]].concat();
        let text =
            Sheet { title: "Table", kinds, lines: vec![row("Name"), row("same"), row("same")] }.text(Some(WIDTH));
        let starts = |with: &str| text.lines().filter(|line| line.trim_start().starts_with(with)).count();
        let n_tables = starts("Table");
        assert!(n_tables > 1, "{text}");
        assert_eq!(["#  ", "1  ", "2  "].map(starts), [n_tables; 3], "{text}");
    }
}
