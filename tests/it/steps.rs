//! The steps of every real trace, each judged by a person from its names and kernels.

use lacuna::analysis::memory;
use lacuna::analysis::steps::{Steps, steps};

use super::support::{name, read, real};

/// What was found, in short.
fn said<B: Copy + Into<i64>>(found: Option<&Steps<B>>) -> String {
    let Some(found) = found else { return "none".to_owned() };
    let other = found.disagreement.as_ref().map(|(source, n)| format!(", but {n} by {}", source.label()));
    let (n, used) = (found.len(), &found.used);
    let regularity = (found.regularity * 100.0).round();
    format!("{n} by {}, {regularity} % regular, {used:?} used{}", found.source.label(), other.unwrap_or_default())
}

#[test]
fn steps_of_real_traces() {
    for folder in ["A_kineto", "A_kineto_generated_cpu", "A_chrome", "B_sqlite", "B_sqlite_exported_here", "C_pickle"] {
        for path in real(folder) {
            let Ok(traces) = read(&path) else { continue };
            for trace in &traces {
                let found = steps(trace, &|| false);
                println!("{:50.50} {}", name(&path), said(found.as_ref()));
                for history in &trace.memories {
                    let found = memory::steps::steps(trace, history, &|| false);
                    println!("{:50.50} memory {}", name(&path), said(found.as_ref()));
                }
            }
        }
    }
}
