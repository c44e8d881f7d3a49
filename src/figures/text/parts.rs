//! Names that are paths of modules and types.

use super::middle_cut;

/// The last parts of a path of modules and types, as many as fit: `…lock.acquire` of `_thread.lock.acquire`; where they
/// leave most of the room, with the end of the part before. `None` for other names, such as those of files.
///
/// * `name`: longer than `max`.
pub(super) fn last_parts(name: &str, max: usize) -> Option<String> {
    /// The ends of files and hosts tell less than their beginnings.
    const ENDS: [&str; 8] = ["json", "gz", "py", "so", "sqlite", "pickle", "com", "org"];
    let is_word = |part: &str| {
        part.chars().all(|c| c.is_alphanumeric() || c == '_') && !part.starts_with(|c: char| c.is_ascii_digit())
    };
    let parts: Vec<&str> = name.split('.').collect();
    let last = parts.last().filter(|last| !ENDS.contains(last))?;
    if parts.len() < 2 || !parts.iter().all(|part| !part.is_empty() && is_word(part)) {
        return None;
    }
    let length = |text: &str| text.chars().count();
    if length(last) > max {
        return Some(middle_cut(last, max));
    }
    let mut from = name.len() - last.len();
    while let Some(dot) = name[..from - 1].rfind('.').filter(|&dot| length(&name[dot + 1..]) < max) {
        from = dot + 1;
    }
    let shown = &name[from..];
    // The last part of a metric says how it is summed: `inst_executed.sum`.
    if 2 * length(shown) < max {
        let tail: String = name.chars().skip(length(name) + 1 - max).collect();
        return Some(format!("…{tail}"));
    }
    Some(if length(shown) < max { format!("…{shown}") } else { shown.to_owned() })
}
