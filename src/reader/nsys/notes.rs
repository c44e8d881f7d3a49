//! What is said of an export as a whole.

use super::catalog::Catalog;
use super::database::Database;
use super::info;
use crate::model::{Severity, SliceKind, TraceBuilder};

/// Adds notes about the file as a whole.
pub fn note_file(builder: &mut TraceBuilder, catalog: &Catalog, database: &Database, schema: Option<(i64, i64)>) {
    let import = &mut builder.import;
    for (severity, text) in &database.notes {
        import.note(*severity, text, 1, None);
    }
    for name in &catalog.not_tables {
        let text = format!("{name} is a view or a virtual table, which no export has: not read");
        import.note(Severity::Warn, &text, 1, None);
    }
    if catalog.n_beyond > 0 {
        let text = "More than 1,000 tables: those with unknown names are not read";
        import.note(Severity::Warn, text, catalog.n_beyond as u64, None);
    }
    match schema {
        None => {
            let text = "The export does not say its version: columns are found by name";
            import.note(Severity::Note, text, 1, None);
        }
        Some((major, minor)) if major > info::NEWEST_SCHEMA => {
            let text = format!(
                "Schema {major}.{minor} is newer than the newest known one ({}): known columns are read, others are missing",
                info::NEWEST_SCHEMA
            );
            import.note(Severity::Warn, &text, 1, None);
        }
        Some(_) => {}
    }
    for (table, column) in [
        ("CUPTI_ACTIVITY_KIND_KERNEL", "shortName"),
        ("CUPTI_ACTIVITY_KIND_KERNEL", "demangledName"),
        ("CUPTI_ACTIVITY_KIND_RUNTIME", "correlationId"),
    ] {
        if catalog.get(table).is_some_and(|table| table.row_ids.is_some() && !table.has(column)) {
            let text = format!("{table} has no column {column}, which every export has: what depends on it is missing");
            import.note(Severity::Warn, &text, 1, None);
        }
    }
    let has_work = builder.slices.iter().any(|chunk| chunk.kind.iter().any(|kind: &SliceKind| kind.is_device_work()));
    // What a file has lost may have been recorded.
    if !has_work && !import.is_partial {
        let how = "record with `nsys profile --trace=cuda,nvtx`";
        let text = match builder.info.devices.first() {
            Some(gpu) => format!(
                "No GPU work in this export, although the machine has a GPU ({}): {how}, and see that the program uses it",
                gpu.name
            ),
            None => format!("No GPU work in this export: {how} on a machine with a GPU"),
        };
        import.note(Severity::Note, &text, 1, None);
    }
}
