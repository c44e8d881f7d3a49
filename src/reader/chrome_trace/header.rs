//! Facts from the top-level keys: rank, devices, clock, producer.

use serde_json::Value;

use crate::model::{DeviceInfo, TraceBuilder};

use super::super::source::Source;
use super::document::Document;
use super::pipeline::TextSummary;

/// 2001-09-09 in nanoseconds: time stamps beyond it are epoch times, not times since a start.
pub const EPOCH_2001_NS: i64 = 1_000_000_000_000_000_000;

/// Longest text of a fact; longer values are data.
const MAX_FACT: usize = 400;

/// Writes the header's facts into the trace's info.
pub fn apply(summary: &TextSummary, source: &Source, builder: &mut TraceBuilder) {
    let values = &summary.document.values;
    let info = &mut builder.info;
    crate::reader::note_source(info, source, summary.text_bytes);
    let named = builder.strings.iter().find_map(|(_, name)| producer_in_name(name));
    info.producer = producer(values, named).to_owned();
    let distributed = values.get("distributedInfo");
    let number = |key| distributed.and_then(|info| info.get(key)).and_then(as_u32);
    info.rank = number("rank").or(info.rank);
    info.world_size = number("world_size");
    info.utc_offset_ns = values.get("baseTimeNanoseconds").and_then(as_i64);
    info.devices = devices(values.get("deviceProperties"));
    info.devices.sort_by_key(|device| device.id);
    info.found_no_gpu = values.get("deviceProperties").and_then(Value::as_array).is_some_and(Vec::is_empty);
    info.facts = values.iter().filter_map(|(key, value)| fact(key, value)).collect();
    name_devices(builder);
}

fn as_i64(value: &Value) -> Option<i64> {
    value.as_i64().or_else(|| value.as_str()?.parse().ok())
}

fn as_u32(value: &Value) -> Option<u32> {
    as_i64(value).and_then(|number| u32::try_from(number).ok())
}

/// Whether a name is that of the span that Kineto writes around what it recorded for PyTorch: `PyTorch Profiler (0)`.
fn is_span_of_torch(name: &str) -> bool {
    let number = name.strip_prefix("PyTorch Profiler (").and_then(|rest| rest.strip_suffix(')'));
    number.is_some_and(|number| number.parse::<u32>().is_ok())
}

/// The recorder that alone gives an event such a name: Kineto, whose first files, of 2020, are lists of events without
/// keys around them, or JAX, which has no keys of its own.
fn producer_in_name(name: &str) -> Option<&'static str> {
    match name {
        _ if is_span_of_torch(name) => Some(TORCH),
        _ if name.starts_with("PjitFunction(") => Some("JAX"),
        _ => None,
    }
}

const TORCH: &str = "PyTorch profiler (Kineto)";

/// * `named`: by the names of the events, see [`producer_in_name`].
fn producer(values: &serde_json::Map<String, Value>, named: Option<&'static str>) -> &'static str {
    let has = |key| values.contains_key(key);
    match () {
        () if has("viztracer_metadata") => "VizTracer",
        () if has("recorder") && has("cupti_version") => "Lacuna (CUPTI)",
        () if has("recorder") => "Lacuna (NVTX)",
        () if has("schemaVersion") && (has("deviceProperties") || has("distributedInfo") || has("record_shapes")) => {
            TORCH
        }
        () if named == Some(TORCH) => TORCH,
        () if has("schemaVersion") => "Kineto",
        () => named.unwrap_or(if has("metadata") || has("clientInfo") { "Chrome" } else { "Chrome trace format" }),
    }
}

fn devices(properties: Option<&Value>) -> Vec<DeviceInfo> {
    let Some(list) = properties.and_then(Value::as_array) else { return Vec::new() };
    list.iter()
        .filter_map(|device| {
            let number = |key| device.get(key).and_then(as_u32);
            Some(DeviceInfo {
                id: number("id")?,
                name: device.get("name").and_then(Value::as_str).unwrap_or_default().to_owned(),
                total_memory_bytes: device.get("totalGlobalMem").and_then(Value::as_u64),
                n_sms: number("numSms"),
                compute_major: number("computeMajor"),
                compute_minor: number("computeMinor"),
                threads_per_warp: number("warpSize"),
                max_warps_per_sm: number("maxThreadsPerMultiprocessor")
                    .zip(number("warpSize"))
                    .and_then(|(threads, warp)| threads.checked_div(warp)),
                max_blocks_per_sm: None,
                registers_per_sm: number("regsPerMultiprocessor"),
                shared_bytes_per_sm: number("sharedMemPerMultiprocessor")
                    .or(number("maxSharedMemoryPerMultiProcessor")),
            })
        })
        .collect()
}

/// A key and its value as text; `None` if it could be a secret or is not a scalar.
/// A fact about the recording. What a program adds as text may hold anything, a command line with its keys too.
fn fact(key: &str, value: &Value) -> Option<(String, String)> {
    /// Texts that recorders write.
    const TEXTS: [&str; 3] = ["displayTimeUnit", "recorder", "trace_id"];
    const SECRETS: [&str; 6] = ["env", "token", "secret", "password", "credential", "key"];
    let lower = key.to_ascii_lowercase();
    if SECRETS.iter().any(|word| lower.contains(word)) {
        return None;
    }
    let text = match value {
        Value::String(text) if TEXTS.contains(&key) => text.clone(),
        Value::Number(number) => number.to_string(),
        Value::Bool(flag) => flag.to_string(),
        _ => return None,
    };
    (text.len() <= MAX_FACT).then(|| (key.to_owned(), text))
}

/// Names GPU processes that have only a number after their device.
fn name_devices(builder: &mut TraceBuilder) {
    for process in &mut builder.processes {
        let Some(device) = process.device else { continue };
        if process.labels.is_empty() {
            process.labels = format!("GPU {device}");
        }
    }
}

/// The reason why a file without an event list is not a trace, as a sentence.
pub fn why_no_trace(document: &Document) -> String {
    let has = |key| document.values.contains_key(key);
    let unread = |key: &str| document.unread.iter().any(|(unread, _)| unread == key);
    let text = match document.values.get("traceEvents") {
        Some(Value::Null) => "JSON with `traceEvents`, but it is null: the profiler recorded nothing",
        Some(_) => "JSON with `traceEvents`, but it is not a list",
        None if has("nodes") && has("schema") => {
            "This is a PyTorch execution trace (operators without times): open the profiler's trace instead"
        }
        None if has("segments") && has("device_traces") => {
            "This is a PyTorch memory snapshot as JSON, but its lists do not come first: move them to the front"
        }
        None if is_of_speedscope(document) => {
            "JSON in the format of speedscope, which is not read: record as a Chrome trace, as `py-spy record --format \
             chrometrace` does"
        }
        None if has("$schema") || unread("frames") => "JSON, but no `traceEvents`: a profile of another tool",
        None => "JSON, but no `traceEvents`: this is not a Chrome trace",
    };
    text.to_owned()
}

fn is_of_speedscope(document: &Document) -> bool {
    document.values.get("$schema").and_then(Value::as_str).is_some_and(|schema| schema.contains("speedscope.app"))
}

#[cfg(test)]
mod tests {
    use super::super::assemble::Assembly;
    use super::super::pipeline;
    use super::*;
    use crate::job::Progress;

    #[test]
    fn ranks_in_names() {
        let rank = |name: &str| crate::reader::rank_in_name(&Source { path: name.into(), ..Source::default() });
        assert_eq!(rank("a/rank-70.Mar_25.pt.trace.json.gz"), Some(70));
        assert_eq!(rank("profile_trace_rank_0.json.gz"), Some(0));
        assert_eq!(rank("ranking.json"), None);
        assert_eq!(rank("rank/trace.json"), None);
    }

    #[test]
    fn a_list_of_events_with_the_span_of_kineto_is_of_the_profiler_of_torch() {
        let producer = |name: &str| {
            let text = format!(
                r#"[{{"ph": "X", "cat": "Operator", "name": "aten::mm", "pid": 7, "tid": "8", "ts": 3, "dur": 1}},
                {{"ph": "X", "cat": "Trace", "name": "{name}", "pid": "Traces", "tid": "x", "ts": 1, "dur": 9}}]"#
            );
            let mut assembly = Assembly::default();
            let summary = pipeline::read(text.as_bytes(), &Progress::default(), &mut assembly);
            let mut builder = assembly.finish(&summary.document.profile);
            apply(&summary, &Source::default(), &mut builder);
            builder.info.producer
        };
        assert_eq!(producer("PyTorch Profiler (12)"), "PyTorch profiler (Kineto)");
        assert_eq!(producer("PyTorch Profiler (mine)"), "Chrome trace format");
        assert_eq!(producer("Profiler (12)"), "Chrome trace format");
    }

    #[test]
    fn jax_is_known_by_the_functions_that_it_compiles() {
        let producer = |keys: &str, name: &str| {
            let event = format!(r#"{{"ph": "X", "name": "{name}", "pid": 7, "tid": 8, "ts": 3, "dur": 1}}"#);
            let text = format!(r#"{{{keys} "traceEvents": [{event}]}}"#);
            let mut assembly = Assembly::default();
            let summary = pipeline::read(text.as_bytes(), &Progress::default(), &mut assembly);
            let mut builder = assembly.finish(&summary.document.profile);
            apply(&summary, &Source::default(), &mut builder);
            builder.info.producer
        };
        let metadata = r#""metadata": {"highres-ticks": true},"#;
        assert_eq!([producer(metadata, "PjitFunction(step)"), producer("", "PjitFunction(step)")], ["JAX"; 2]);
        assert_eq!(producer(metadata, "TfrtCpuExecutable::Execute"), "Chrome", "others use XLA as well");
        assert_eq!(producer(r#""viztracer_metadata": {},"#, "PjitFunction(step)"), "VizTracer");
    }

    #[test]
    fn events_one_after_another_are_a_warning() {
        let text = b"{\"ph\":\"X\",\"name\":\"a\",\"pid\":1,\"tid\":1,\"ts\":1,\"dur\":2}\n\
            {\"ph\":\"X\",\"name\":\"b\",\"pid\":1,\"tid\":1,\"ts\":4,\"dur\":2}\n";
        let mut assembly = Assembly::default();
        let summary = pipeline::read(&text[..], &Progress::default(), &mut assembly);
        summary.report(&mut assembly);
        let problems = &assembly.builder.import.problems;
        let told: Vec<_> = problems.iter().map(|problem| (problem.severity, problem.count)).collect();
        assert_eq!(told, [(crate::model::Severity::Warn, 1)], "{problems:?}");
    }

    #[test]
    fn a_profile_of_speedscope_is_refused_by_name() {
        let why = |text: &str| {
            let summary = pipeline::read(text.as_bytes(), &Progress::default(), &mut Assembly::default());
            why_no_trace(&summary.document)
        };
        let schema = "https://www.speedscope.app/file-format-schema.json";
        let told = why(&format!(r#"{{"$schema": "{schema}", "profiles": [], "shared": {{"frames": []}}}}"#));
        assert!(told.starts_with("JSON in the format of speedscope, which is not read"), "{told}");
        assert!(why(r#"{"$schema": "https://example.org", "x": 1}"#).ends_with("a profile of another tool"));
    }

    #[test]
    fn whether_the_recorder_found_a_gpu_is_known_where_it_lists_them() {
        let found_none = |keys: &str| {
            let text = format!(r#"{{"schemaVersion": 1, {keys} "traceEvents": []}}"#);
            let mut assembly = Assembly::default();
            let summary = pipeline::read(text.as_bytes(), &Progress::default(), &mut assembly);
            let mut builder = assembly.finish(&summary.document.profile);
            apply(&summary, &Source::default(), &mut builder);
            builder.info.found_no_gpu
        };
        assert!(found_none(r#""deviceProperties": [],"#));
        assert!(!found_none(r#""deviceProperties": [{"id": 0, "name": "H100"}],"#));
        assert!(!found_none(""), "nothing is known");
    }

    #[test]
    fn secrets_are_not_facts() {
        let value = Value::String("x".to_owned());
        assert!(fact("API_TOKEN", &value).is_none());
        assert!(fact("mast_job_environment", &value).is_none());
        assert!(fact("cmdline", &value).is_none(), "what a program adds may hold keys");
        assert!(fact("trace_id", &value).is_some() && fact("with_stack", &Value::Bool(true)).is_some());
    }
}
