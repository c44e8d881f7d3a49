//! Formats pickle values as text.

use crate::model::StringId;
use crate::reader::pickle::{Store, Tag, Value};

/// A value as text, as Python writes it; at most 400 characters.
pub fn describe(store: &Store, value: Value) -> String {
    const MAX_CHARS: usize = 400;
    let mut out = String::new();
    write_value(store, value, 4, MAX_CHARS, &mut out);
    if let Some((at, _)) = out.char_indices().nth(MAX_CHARS) {
        out.truncate(at);
        out.push('…');
    }
    out
}

fn write_value(store: &Store, value: Value, depth: usize, limit: usize, out: &mut String) {
    use std::fmt::Write as _;
    // Writing into a string cannot fail.
    let _ = match value.tag() {
        Tag::None => write!(out, "None"),
        Tag::Bool => write!(out, "{}", if value == Value::bool(true) { "True" } else { "False" }),
        Tag::Int | Tag::Big => write!(out, "{}", store.as_int(value).unwrap_or_default()),
        Tag::Float => write!(out, "{}", store.as_float(value).unwrap_or_default()),
        Tag::Str => {
            let text = store.strings.get(StringId(value.index()));
            out.extend(text.chars().take(limit + 1));
            Ok(())
        }
        Tag::List | Tag::Tuple | Tag::Dict => {
            let marks = if value.tag() == Tag::Dict { ["{", "}"] } else { ["[", "]"] };
            out.push_str(marks[0]);
            for (i, &item) in store.items(value).iter().enumerate() {
                if depth == 0 || out.len() > 4 * limit {
                    out.push('…');
                    break;
                }
                out.push_str(match (i, value.tag()) {
                    (0, _) => "",
                    (i, Tag::Dict) if i % 2 == 1 => ": ",
                    _ => ", ",
                });
                write_value(store, item, depth - 1, limit, out);
            }
            out.push_str(marks[1]);
            Ok(())
        }
        _ => write!(out, "…"),
    };
}
