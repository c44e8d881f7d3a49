//! Integration tests on real, damaged and generated files.
#![expect(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "a failed unwrap is a failed test; tests say what they skip and what they found"
)]

mod call_tree;
mod compared;
mod corpus;
mod cost;
#[cfg(target_os = "linux")]
mod cupti;
mod damaged;
mod display;
#[path = "../fake_nvml/load.rs"]
mod fake_nvml;
mod faults;
mod fuzz;
mod gains;
mod gaps;
mod golden;
mod growth;
mod layers;
mod lists;
mod live;
mod memory_analysis;
mod mutate;
mod nsys_damage;
mod nsys_details;
mod nsys_ends;
mod nsys_libraries;
mod nsys_oracle;
mod nsys_overflow;
mod nsys_report;
mod odd_tables;
mod operators;
mod oracle;
#[cfg(target_os = "linux")]
mod orphans;
mod outputs;
mod packed;
mod peers;
mod planted;
mod portable;
mod properties;
mod ranks;
mod recorded;
mod snapshot_oracle;
mod snapshots;
mod step_oracle;
mod steps;
mod support;
mod torch;
mod trace_memory;
mod tricky;
mod trust;
mod whole;
mod zips;
