//! Tables as text for a terminal, as Markdown, as one HTML page, as CSV.

use std::fmt::Write as _;

use super::table::{Cell, Column, Table, grouped};
use crate::escape::{csv_cell, visible};
use crate::model::DurNs;

/// Aligned tables for a terminal. Numbers have a comma every three digits, units are in the heads.
pub fn text(tables: &[Table]) -> String {
    let mut out = String::new();
    for table in &for_people(tables) {
        let lines = lines(table, |text| visible(text).into_owned());
        let widths: Vec<usize> = (0..table.columns.len())
            .map(|i| lines.iter().map(|line| line[i].chars().count()).max().unwrap_or(0))
            .collect();
        let _ = writeln!(out, "{}", table.title);
        for line in &lines {
            let mut text = String::from(" ");
            for (i, cell) in line.iter().enumerate() {
                let pad = " ".repeat(widths[i].saturating_sub(cell.chars().count()));
                let _ = if is_number(table, i) { write!(text, " {pad}{cell} ") } else { write!(text, " {cell}{pad} ") };
            }
            let _ = writeln!(out, "{}", text.trim_end());
        }
        if let Some(rest) = rest(table) {
            let _ = writeln!(out, "  {rest}");
        }
        out.push('\n');
    }
    out
}

/// Markdown tables under headings.
pub fn markdown(tables: &[Table]) -> String {
    let mut out = String::from("# Lacuna report\n");
    for table in &for_people(tables) {
        let _ = writeln!(out, "\n## {}\n", table.title);
        for (i, line) in lines(table, escape_markdown).iter().enumerate() {
            let _ = writeln!(out, "| {} |", line.join(" | "));
            if i == 0 {
                let rule: String =
                    (0..line.len()).map(|i| if is_number(table, i) { "---:|" } else { "---|" }).collect();
                let _ = writeln!(out, "|{rule}");
            }
        }
        if let Some(rest) = rest(table) {
            let _ = writeln!(out, "\n{rest}");
        }
    }
    out
}

/// One HTML page without scripts or anything to load.
pub fn html(tables: &[Table]) -> String {
    let mut out = String::from(concat!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<title>Lacuna report</title>\n<style>\n",
        "body { font: 14px/1.4 system-ui, sans-serif; margin: 2em; color-scheme: light dark }\n",
        "table { border-collapse: collapse }\n",
        "th, td { padding: .15em .8em; text-align: left; border-bottom: 1px solid #8884; overflow-wrap: anywhere }\n",
        "th.n, td.n { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap }\n",
        "</style>\n</head>\n<body>\n<h1>Lacuna report</h1>\n"
    ));
    for table in &for_people(tables) {
        let _ = writeln!(out, "<h2>{}</h2>\n<table>", table.title);
        for (i, line) in lines(table, escape_html).iter().enumerate() {
            let tag = if i == 0 { "th" } else { "td" };
            out.push_str("<tr>");
            for (i, cell) in line.iter().enumerate() {
                let class = if is_number(table, i) { " class=\"n\"" } else { "" };
                let _ = write!(out, "<{tag}{class}>{cell}</{tag}>");
            }
            out.push_str("</tr>\n");
        }
        out.push_str("</table>\n");
        if let Some(rest) = rest(table) {
            let _ = writeln!(out, "<p>{rest}</p>");
        }
    }
    out.push_str("</body>\n</html>\n");
    out
}

/// One table for all parts: the first column says which part a row is of, and what a part does not
/// have stays empty. Numbers are plain: nanoseconds, bytes, shares.
pub fn csv(tables: &[Table]) -> String {
    let mut keys: Vec<&str> = Vec::new();
    for column in tables.iter().flat_map(|table| &table.columns) {
        if !keys.contains(&column.key) {
            keys.push(column.key);
        }
    }
    let mut out = format!("part,{}\r\n", keys.join(","));
    for table in tables {
        let place = |key: &&str| table.columns.iter().position(|column| column.key == *key);
        let places: Vec<Option<usize>> = keys.iter().map(place).collect();
        for row in &table.rows {
            out.push_str(table.key);
            for place in &places {
                out.push(',');
                match place.and_then(|place| row.get(place)) {
                    None | Some(Cell::Empty) => {}
                    Some(Cell::Text(text)) => out.push_str(&csv_cell(text)),
                    Some(Cell::Count(number) | Cell::Bytes(number)) => out.push_str(&number.to_string()),
                    Some(Cell::Ns(number) | Cell::Change(number)) => out.push_str(&number.to_string()),
                    Some(Cell::Share(figure) | Cell::Plain(figure)) => out.push_str(&figure.to_string()),
                }
            }
            out.push_str("\r\n");
        }
    }
    out
}

/// The tables that say something, without the columns that say nothing.
fn for_people(tables: &[Table]) -> Vec<Table> {
    let mut tables: Vec<Table> = tables.iter().filter(|table| !table.rows.is_empty()).cloned().collect();
    for table in &mut tables {
        for i in (0..table.columns.len()).rev() {
            if table.rows.iter().all(|row| row.get(i).is_none_or(|cell| *cell == Cell::Empty)) {
                table.columns.remove(i);
                table.rows.iter_mut().filter(|row| i < row.len()).for_each(|row| drop(row.remove(i)));
            }
        }
    }
    tables
}

/// The head and the rows, written for people. Text from files goes through `escape`.
fn lines(table: &Table, escape: impl Fn(&str) -> String) -> Vec<Vec<String>> {
    let units: Vec<Unit> = (0..table.columns.len()).map(|i| Unit::of(table, i)).collect();
    let head = table.columns.iter().zip(&units).map(|(Column { title, .. }, unit)| format!("{title}{}", unit.suffix()));
    let mut lines = vec![head.collect::<Vec<_>>()];
    for row in &table.rows {
        let cells = row.iter().zip(&units).map(|(cell, unit)| match cell {
            Cell::Empty => String::new(),
            Cell::Text(text) => escape(text),
            Cell::Count(number) | Cell::Bytes(number) => grouped(*number),
            Cell::Change(bytes) => format!("{}{}", sign(*bytes), grouped(bytes.unsigned_abs())),
            Cell::Ns(ns) => unit.time(*ns),
            Cell::Share(share) => format!("{:.2}", share * 100.0),
            Cell::Plain(figure) => format!("{figure:.3}"),
        });
        lines.push(cells.collect());
    }
    lines
}

/// In what a column is written. One unit a column, so that its numbers can be compared by eye.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unit {
    None,
    Bytes,
    Percent,
    /// Nanoseconds as microseconds, exactly.
    Micros,
    /// Nanoseconds as milliseconds, exactly.
    Millis,
}

impl Unit {
    fn of(table: &Table, column: usize) -> Self {
        const TEN_SECONDS: u64 = 10_000_000_000;
        let cells = table.rows.iter().filter_map(|row| row.get(column));
        let mut unit = Self::None;
        for cell in cells {
            match cell {
                Cell::Bytes(_) | Cell::Change(_) => unit = Self::Bytes,
                Cell::Share(_) => unit = Self::Percent,
                Cell::Ns(ns) if ns.unsigned_abs() >= TEN_SECONDS => return Self::Millis,
                Cell::Ns(_) => unit = Self::Micros,
                Cell::Empty | Cell::Text(_) | Cell::Count(_) | Cell::Plain(_) => {}
            }
        }
        unit
    }

    fn suffix(self) -> &'static str {
        match self {
            Self::None => "",
            Self::Bytes => " (B)",
            Self::Percent => " (%)",
            Self::Micros => " (µs)",
            Self::Millis => " (ms)",
        }
    }

    fn time(self, ns: DurNs) -> String {
        let (sign, ns) = (sign(ns), ns.unsigned_abs());
        match self {
            Self::Millis => format!("{sign}{}.{:06}", grouped(ns / 1_000_000), ns % 1_000_000),
            _ => format!("{sign}{}.{:03}", grouped(ns / 1000), ns % 1000),
        }
    }
}

fn sign(number: i64) -> &'static str {
    if number < 0 { "-" } else { "" }
}

/// Numbers stand to the right.
fn is_number(table: &Table, column: usize) -> bool {
    !table.rows.iter().filter_map(|row| row.get(column)).any(|cell| matches!(cell, Cell::Text(_)))
}

/// What the person does not see, if anything.
fn rest(table: &Table) -> Option<String> {
    let n = table.n_hidden as u64;
    (n > 0).then(|| format!("and {} more; --top 0 lists all", grouped(n)))
}

fn escape_markdown(text: &str) -> String {
    visible(text).chars().fold(String::with_capacity(text.len()), |mut out, c| {
        if matches!(c, '\\' | '|' | '`' | '*' | '_' | '<' | '>' | '[' | ']' | '#' | '~' | '&') {
            out.push('\\');
        }
        out.push(c);
        out
    })
}

fn escape_html(text: &str) -> String {
    visible(text).chars().fold(String::with_capacity(text.len()), |mut out, c| {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c => out.push(c),
        }
        out
    })
}
