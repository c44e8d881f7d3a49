//! Salvages the complete parts of a truncated snapshot.

use crate::reader::pickle::{Store, Tag, Value};

/// Deepest list of a snapshot: the events of a device, in the list of devices, in the dictionary at the top.
const MAX_DEPTH: usize = 3;

/// Adds the complete values on the stack to their containers; returns the top-level value.
///
/// The stack of an interrupted machine holds, from the bottom: the top-level value, keys, open lists, their
/// finished items, and the beginning of one unfinished part. The lists of a snapshot contain no texts, so a
/// text is a key of the top-level value.
pub fn salvage(stack: &[Value], store: &mut Store) -> Value {
    let Some((&root, rest)) = stack.split_first() else { return Value::NONE };
    if !root.is_box() {
        return root;
    }
    let mut path = vec![root];
    let mut key = None;
    for &value in rest {
        let value = store.settled(value);
        let top = path[path.len() - 1];
        let added = match value.tag() {
            Tag::Str if root.tag() == Tag::Dict => {
                path.truncate(1);
                key = Some(value);
                continue;
            }
            Tag::List | Tag::Dict if path.len() == 1 && top.tag() == Tag::Dict => match key.take() {
                Some(key) => store.extend(root, &[key, value]),
                None => break,
            },
            // An unfinished part, to which everything above it belongs.
            Tag::Dict => break,
            Tag::List => {
                path.truncate(MAX_DEPTH - 1);
                store.extend(path[path.len() - 1], &[value])
            }
            Tag::Folded if top.tag() == Tag::List => store.extend(top, &[value]),
            _ => break,
        };
        if added.is_err() {
            break;
        }
        if value.is_box() {
            path.push(value);
        }
    }
    root
}
