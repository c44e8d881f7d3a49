//! The strings that rows refer to by id.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use rusqlite::types::ValueRef;

use super::chunk::{Cells, Chunk};
use super::tables::Spec;
use super::tally::Reason;

/// Reads `StringIds`, but only the rows that an event refers to: the table also holds the program's
/// output, its files and its environment.
pub const STRING_IDS: Spec = Spec {
    table: "StringIds",
    columns: &["id", "value"],
    read: |chunk: &mut Chunk, cells: &Cells<'_>, _| {
        let Some(id) = chunk.int(cells[0]) else { return };
        if !chunk.wanted.contains(&id) {
            return;
        }
        let (ValueRef::Text(bytes) | ValueRef::Blob(bytes)) = cells[1] else { return };
        let text = String::from_utf8_lossy(bytes);
        if matches!(text, std::borrow::Cow::Owned(_)) {
            chunk.tally.add(Reason::BadText, 1);
        }
        let text = chunk.texts.intern(&text);
        chunk.strings.push((id, text));
    },
};

/// The texts of the requested rows of `StringIds`.
#[derive(Debug, Default)]
pub struct Strings {
    texts: HashMap<i64, String>,
}

impl Strings {
    pub fn new<'a>(chunks: impl Iterator<Item = &'a Chunk>) -> Self {
        let entries = |chunk: &'a Chunk| chunk.strings.iter().map(|&(id, text)| (id, chunk.texts.get(text).to_owned()));
        Self { texts: chunks.flat_map(entries).collect() }
    }

    pub fn get(&self, id: i64) -> Option<&str> {
        self.texts.get(&id).map(String::as_str)
    }
}

/// The requested ids.
pub type WantedStrings = Arc<HashSet<i64>>;

/// The name of an API call without CUPTI's version suffix: `cudaLaunchKernel_v7000`. Names with a suffix of
/// their own (`cuMemAlloc_v2`) keep it: CUPTI's versions have at least four digits.
pub fn call_name(name: &str) -> &str {
    match name.rsplit_once("_v") {
        Some((plain, digits)) if digits.len() >= 4 && digits.bytes().all(|byte| byte.is_ascii_digit()) => plain,
        _ => name,
    }
}

/// The file name of a library's path; the recorder writes some without a path, as `[vdso]`.
pub fn module_name(path: &str) -> String {
    let file = path.rsplit(['/', '\\']).next().unwrap_or(path);
    format!("[{}]", file.trim_matches(['[', ']']))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_of_calls_are_left_out() {
        assert_eq!(call_name("cudaLaunchKernel_v7000"), "cudaLaunchKernel");
        assert_eq!(call_name("cudaFoo_v10000"), "cudaFoo");
        assert_eq!(call_name("cuMemAlloc_v2"), "cuMemAlloc_v2");
        assert_eq!(call_name("cuGetProcAddress"), "cuGetProcAddress");
        assert_eq!(module_name("/usr/lib/libcuda.so.1"), "[libcuda.so.1]");
        assert_eq!(module_name("[kernel.kallsyms]"), "[kernel.kallsyms]");
    }
}
