//! Logs of several writers, whole and damaged.

use super::*;
use crate::model::{Counter, CounterUnit, TimeNs};

fn read_text(format: &FileFormat, text: &str) -> Result<Trace, ReadError> {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), text).unwrap();
    // 22 November 2026, 16:30:58 UTC.
    let written = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_795_365_058);
    file.as_file().set_modified(written).unwrap();
    assert!((format.sniff)(&Head::new(&text.as_bytes()[..text.len().min(4096)])), "{text}");
    let Contents::Trace(_, read) = &format.contents else { panic!() };
    read(&Source::file(file.path()).unwrap(), Options::default(), &Progress::default())
}

fn counter<'a>(trace: &'a Trace, device: &str, name: &str) -> &'a Counter {
    let is_it = |counter: &&Counter| {
        let track = trace.track(counter.track);
        track.name == name && trace.processes[track.process.0 as usize].name == device
    };
    trace.counters.iter().find(is_it).unwrap_or_else(|| panic!("{device} {name}: {:?}", trace.tracks))
}

#[test]
fn json_lines_become_counters_of_each_gpu() {
    let text = "{\"gpu_id\": 0, \"gpu_util_pct\": 45, \"memory_util_pct\": 20, \"memory_used_gb\": 2.5, \
                \"memory_total_gb\": 80.0, \"power_w\": 310.5, \"temperature_c\": 54, \"timestamp\": 1700000000.25}\n\
                {\"gpu_id\": 1, \"gpu_util_pct\": 5, \"timestamp\": 1700000000.5}\n\
                {\"gpu_id\": 0, \"gpu_util_pct\": 50, \"timestamp\": 1700000001.25}\n\
                nonsense\n{\"gpu_id\": 0, \"gpu_util_pct\": 1}\n{\"gpu_id\": 0, \"gpu_util";
    let trace = read_text(&JSON_LINES, text).unwrap();
    let utilization = counter(&trace, "GPU 0", "GPU utilization");
    assert_eq!((utilization.unit, utilization.value.as_slice()), (CounterUnit::Percent, &[45.0, 50.0][..]));
    assert_eq!(utilization.ts, [1_700_000_000_250_000_000, 1_700_000_001_250_000_000]);
    let memory = counter(&trace, "GPU 0", "Memory used");
    assert_eq!((memory.unit, memory.value.as_slice()), (CounterUnit::Bytes, &[2.5e9][..]));
    assert_eq!(counter(&trace, "GPU 0", "Power [W]").value, [310.5]);
    assert_eq!(counter(&trace, "GPU 1", "GPU utilization").value, [5.0]);
    let import = &trace.import;
    assert_eq!((import.read, import.shown, import.merged, import.rejected), (11, 8, 0, 3));
    assert_eq!(trace.info.utc_offset_ns, Some(0));
}

#[test]
fn lines_of_our_own_are_exact() {
    let text = "{\"gpu_id\":\"0:1\",\"memory_used_gb\":2.5,\"timestamp\":1700000000.1234567,\
                \"time_ns\":1700000000123456789,\"gpu_name\":\"H100\",\"uuid\":\"MIG-1\",\
                \"memory_used_bytes\":2500000001,\"pcie_tx_bytes_per_s\":1000}";
    let trace = read_text(&JSON_LINES, text).unwrap();
    let memory = counter(&trace, "GPU 0:1: H100", "Memory used");
    assert_eq!((memory.ts[0], memory.value[0]), (1_700_000_000_123_456_789, 2_500_000_001.0));
    assert_eq!(counter(&trace, "GPU 0:1: H100", "PCIe sent [B/s]").value, [1000.0]);
    assert_eq!((trace.import.read, trace.import.shown, trace.import.merged), (3, 2, 1));
}

#[test]
fn any_log_with_times_and_numbers_is_read() {
    let text =
        "{\"step\": 3, \"timestamp\": \"2026-11-22T17:30:55+00:00\", \"gpu_utilization\": 71.5, \"batch_size\": 8}";
    let trace = read_text(&JSON_LINES, text).unwrap();
    assert_eq!(counter(&trace, "Metrics", "GPU utilization").unit, CounterUnit::Percent);
    assert_eq!(counter(&trace, "Metrics", "Batch size").ts, [1_795_368_655_000_000_000]);
}

#[test]
fn a_first_line_that_is_damaged_costs_itself_alone() {
    let line = |t: u32| format!("{{\"gpu_id\": 0, \"gpu_util_pct\": 50, \"timestamp\": {t}}}\n");
    for first in ["{\"gpu_id\": 0, \"gpu_util_pct: 50, \"timestamp\": 1}\n", "til_pct\": 50, \"timestamp\": 1}\n"] {
        let trace = read_text(&JSON_LINES, &(first.to_owned() + &line(2) + &line(3))).unwrap();
        assert_eq!(counter(&trace, "GPU 0", "GPU utilization").value, [50.0, 50.0]);
        let [problem] = &trace.import.problems[..] else { panic!("{:?}", trace.import.problems) };
        assert_eq!((problem.count, problem.first_offset), (1, Some(0)));
    }
}

#[test]
fn other_json_is_not_a_log() {
    for text in [
        "{\"traceEvents\": [], \"timestamp\": 1}",
        "{\"ph\": \"X\", \"ts\": 1, \"timestamp\": 2, \"dur\": 3}",
        "{\"timestamp\": 5}",
        "{\n\"timestamp\": 5}",
        "[{\"timestamp\": 5, \"a\": 1}]",
        "[\n{\"timestamp\": 5, \"a\": 1},\n{\"timestamp\": 6, \"a\": 1}\n]",
    ] {
        assert!(!(JSON_LINES.sniff)(&Head::new(text.as_bytes())), "{text}");
    }
}

#[test]
fn nvidia_smi_is_read_with_and_without_units() {
    let text = "timestamp, name, index, utilization.gpu [%], memory.used [MiB], power.draw [W], pstate, fan.speed [%]\n\
                2026/11/22 17:30:55.123, NVIDIA H100, 0, 45 %, 1024 MiB, 310.50 W, P0, [N/A]\n\
                2026/11/22 17:30:55.125, NVIDIA H100, 1, 5 %, 0 MiB, [Not Supported], P2, [N/A]\n\
                2026/11/22 17:30:56.123, NVIDIA H100, 0, 50, 2048, 311, P0, [N/A]\n\
                timestamp, name, index, utilization.gpu [%], memory.used [MiB], power.draw [W], pstate, fan.speed [%]\n\
                2026/11/22 17:3";
    let trace = read_text(&NVIDIA_SMI, text).unwrap();
    let memory = counter(&trace, "GPU 0: NVIDIA H100", "memory.used");
    assert_eq!((memory.unit, memory.value.as_slice()), (CounterUnit::Bytes, &[1_073_741_824.0, 2_147_483_648.0][..]));
    assert_eq!(counter(&trace, "GPU 0: NVIDIA H100", "power.draw [W]").value, [310.5, 311.0]);
    assert_eq!(counter(&trace, "GPU 1: NVIDIA H100", "pstate").value, [2.0]);
    assert!(trace.tracks.iter().all(|track| !track.name.starts_with("fan")), "absent, not zero");
    assert_eq!((trace.import.shown, trace.import.rejected), (11, 1));
    // The file was written an hour earlier by UTC than its last row says, which is not whole.
    assert_eq!(memory.ts[0], 1_795_365_055_123_000_000);
    assert!(trace.import.problems.iter().any(|problem| problem.reason.contains("UTC+1:00")), "{:?}", trace.import);
}

#[test]
fn rows_without_an_id_are_of_one_gpu_after_the_other() {
    let text = "timestamp, utilization.gpu [%]\n2026/11/22 17:30:55.000, 1 %\n2026/11/22 17:30:55.000, 2 %\n\
                2026/11/22 17:30:56.000, 3 %\n2026/11/22 17:30:56.000, 4 %\n";
    let trace = read_text(&NVIDIA_SMI, text).unwrap();
    assert_eq!(counter(&trace, "GPU 1", "utilization.gpu").value, [2.0, 4.0]);
}

#[test]
fn rows_without_an_id_that_come_close_together_are_of_one_reading() {
    // As nvidia-smi asks one GPU after the other; the third row of each reading is late now and then.
    let row = |second: i64, ms: i64, value: i64| format!("2026/11/22 17:30:{second:02}.{ms:03}, {value} %\n");
    let mut text = "timestamp, utilization.gpu [%]\n".to_owned();
    for second in 0..20 {
        text += &(row(second, 100, 1) + &row(second, 103, 2) + &row(second, if second == 11 { 140 } else { 105 }, 3));
    }
    let trace = read_text(&NVIDIA_SMI, &text).unwrap();
    assert_eq!(trace.counters.len(), 3);
    assert_eq!(counter(&trace, "GPU 2", "utilization.gpu").value, [3.0; 20]);
    // Of one GPU, ten times a second and not quite evenly.
    let mut text = "timestamp, utilization.gpu [%]\n".to_owned();
    text.extend((0..40).map(|i| row(i / 10, i % 10 * 100 + i * 7 % 20, i)));
    let trace = read_text(&NVIDIA_SMI, &text).unwrap();
    assert_eq!(counter(&trace, "GPU 0", "utilization.gpu").value.len(), 40);
}

#[test]
fn readings_without_an_id_and_without_a_row_of_each_gpu_are_counted_and_not_shown() {
    let row = |second: i64, ms: i64, value: i64| format!("2026/11/22 17:30:{second:02}.{ms:03}, {value} %\n");
    // The second GPU does not answer in three readings, and the end of the log is cut.
    let log = |apart: i64| {
        let mut text = "timestamp, utilization.gpu [%]\n".to_owned();
        for second in 0..20 {
            text += &row(second, 100, 1);
            text += &if [0, 7, 8].contains(&second) { String::new() } else { row(second, 100 + apart, 2) };
            text += &row(second, 100 + 2 * apart, 3);
        }
        text + &row(20, 100, 1)
    };
    for apart in [0, 2] {
        let trace = read_text(&NVIDIA_SMI, &log(apart)).unwrap();
        assert_eq!(trace.counters.len(), 3);
        for gpu in 0..3 {
            let values = &counter(&trace, &format!("GPU {gpu}"), "utilization.gpu").value;
            assert_eq!(values[..], vec![gpu as f64 + 1.0; 17], "GPU {gpu} {apart}");
        }
        let import = &trace.import;
        assert_eq!((import.read, import.shown, import.rejected), (51 + 7, 51, 7), "{:?}", import.problems);
        assert!(import.problems.iter().any(|problem| problem.count == 7 && problem.reason.contains("Add index")));
        assert!(import.problems.iter().any(|problem| problem.reason.contains("order of their rows")));
    }
    // Rows that say which GPU they are of are all shown.
    let with_index = "timestamp, index, utilization.gpu [%]\n2026/11/22 17:30:55.000, 1, 2 %\n".to_owned()
        + "2026/11/22 17:30:56.000, 0, 1 %\n2026/11/22 17:30:56.000, 1, 2 %\n";
    let trace = read_text(&NVIDIA_SMI, &with_index).unwrap();
    assert_eq!(counter(&trace, "GPU 1", "utilization.gpu").value, [2.0, 2.0]);
    assert_eq!((trace.import.shown, trace.import.rejected), (3, 0));
}

#[test]
fn time_in_which_nothing_could_be_read_is_not_known() {
    let row = |second: i64, cell: &str| format!("2026/11/22 17:30:{second:02}.000, 0, {cell}\n");
    let cells = (0..12).map(|second| row(second, if (4..6).contains(&second) { "[N/A]" } else { "50.00 W" }));
    // Then nothing for half a minute.
    let rows = cells.chain((40..50).map(|second| row(second, "60.00 W")));
    let text = "timestamp, index, power.draw [W]\n".to_owned() + &rows.collect::<String>();
    let trace = read_text(&NVIDIA_SMI, &text).unwrap();
    let power = counter(&trace, "GPU 0", "power.draw [W]");
    let second = |ts: &TimeNs| (ts - power.ts[0]) / 1_000_000_000;
    assert_eq!(power.absent.iter().map(second).collect::<Vec<_>>(), [4, 5, 12]);
    assert_eq!((power.value.len(), trace.import.rejected), (20, 0));
    let line = |second: i64, power: &str| {
        format!("{{\"gpu_id\": 0, \"power_w\": {power}, \"gpu_util_pct\": 5, \"timestamp\": 170000000{second}}}\n")
    };
    let trace = read_text(&JSON_LINES, &[line(0, "50"), line(1, "null"), line(2, "60")].concat()).unwrap();
    assert_eq!(counter(&trace, "GPU 0", "Power [W]").absent, [1_700_000_001_000_000_000]);
}

#[test]
fn a_loss_that_is_no_number_costs_itself_alone() {
    let line = |second: i64, loss: &str| {
        format!(
            "{{\"note\": \"loss: NaN\", \"loss\": {loss}, \"gpu_util_pct\": 5{second}, \"timestamp\": 170000000{second}}}\n"
        )
    };
    let text = ["1.5", "NaN", "-Infinity", "2.5"].iter().zip(0..).map(|(loss, second)| line(second, loss));
    let trace = read_text(&JSON_LINES, &text.collect::<String>()).unwrap();
    assert_eq!(counter(&trace, "Metrics", "GPU utilization").value, [50.0, 51.0, 52.0, 53.0]);
    let loss = counter(&trace, "Metrics", "Loss");
    assert_eq!((loss.value.as_slice(), loss.absent.len()), (&[1.5, 2.5][..], 2));
    assert_eq!((trace.import.read, trace.import.shown, trace.import.rejected), (8, 6, 2));
}

#[test]
fn curves_of_one_metric_have_one_scale() {
    let text = "timestamp, index, utilization.gpu [%], power.draw [W]\n2026/11/22 17:30:55.000, 0, 5 %, 60 W\n\
                2026/11/22 17:30:55.000, 1, 7 %, 300 W\n";
    let trace = read_text(&NVIDIA_SMI, text).unwrap();
    for gpu in ["GPU 0", "GPU 1"] {
        assert_eq!(counter(&trace, gpu, "utilization.gpu").scale, (0.0, 100.0));
        assert_eq!(counter(&trace, gpu, "power.draw [W]").scale, (0.0, 300.0));
    }
}

#[test]
fn pauses_of_one_gpu_are_no_readings_of_several() {
    let times = |pauses: &[i64]| -> Vec<TimeNs> {
        let sum = |at: &mut i64, pause: &i64| {
            *at += pause;
            Some(*at)
        };
        pauses.iter().scan(0, sum).collect()
    };
    let mut pauses = vec![1_000; 50];
    (pauses[9], pauses[30]) = (60_000, 20_000);
    assert_eq!(csv::Numbering::of(&times(&pauses)).n_gpus, 1, "two pauses in an even log");
    assert_eq!(csv::Numbering::of(&times(&[1_000; 50])).n_gpus, 1);
    assert_eq!(csv::Numbering::of(&times(&[1, 1_000, 3, 990, 2, 1_005, 1])).n_gpus, 2);
    assert_eq!(csv::Numbering::of(&[]).n_gpus, 1);
    // A tenth of a second apart, with two pauses.
    let pauses: Vec<i64> = (0..40).map(|i| if i == 12 || i == 20 { 3_000_000_000 } else { 100_000_000 + i }).collect();
    assert_eq!(csv::Numbering::of(&times(&pauses)).n_gpus, 1);
}

#[test]
fn a_gpu_that_seldom_answers_is_one_of_them() {
    let of = |sizes: &[i64], apart: i64| {
        let reading = |(i, &size): (usize, &i64)| (0..size).map(move |row| i as i64 * 1_000_000_000 + row * apart);
        csv::Numbering::of(&sizes.iter().enumerate().flat_map(reading).collect::<Vec<_>>()).n_gpus
    };
    for apart in [0, 3_000_000] {
        assert_eq!(of(&[3, 2, 3, 2, 2, 2, 3], apart), 3);
        assert_eq!(of(&[1, 2, 2, 1, 2], apart), 2);
    }
    // Two rows of one time are of two GPUs, also in a short log.
    assert_eq!([of(&[2, 1], 0), of(&[2], 0), of(&[1, 1], 0)], [2, 2, 1]);
}

#[test]
fn commas_in_names_and_quoted_fields_are_no_separators() {
    let text = "\"timestamp\",\"name\",\"index\",\"utilization.gpu [%]\"\n\
                2026/11/22 17:30:55.000, Graphics Device, rev 2, 0, 12 %\n\
                \"2026/11/22 17:30:56.000\",\"Graphics Device, rev 2\",\"0\",\"13 %\"\n";
    let trace = read_text(&NVIDIA_SMI, text).unwrap();
    assert_eq!(counter(&trace, "GPU 0: Graphics Device, rev 2", "utilization.gpu").value, [12.0, 13.0]);
    assert_eq!(trace.import.rejected, 0);
}

#[test]
fn memory_of_processes_is_told_apart() {
    let row =
        |ms: i64, pid: i64, used: i64| format!("2026/11/22 17:30:55.{ms:03}, GPU-1, {pid}, python3, {used} MiB\n");
    let text = "timestamp, gpu_uuid, pid, process_name, used_gpu_memory [MiB]\n".to_owned()
        + &row(0, 7, 1)
        + &row(0, 8, 2)
        + &row(900, 7, 3);
    let trace = read_text(&NVIDIA_SMI, &text).unwrap();
    let used = counter(&trace, "GPU GPU-1", "used_gpu_memory of python3 (7)");
    assert_eq!((used.unit, used.value.as_slice()), (CounterUnit::Bytes, &[1_048_576.0, 3_145_728.0][..]));
    assert_eq!(counter(&trace, "GPU GPU-1", "used_gpu_memory of python3 (8)").value, [2_097_152.0]);
}

#[test]
fn a_header_is_found_below_what_a_script_wrote_and_in_nothing_else() {
    let text = "Logging on node7\ntimestamp, index, fan.speed [%]\r\n2026/11/22 17:30:55.000, 0, 30 %\r\n";
    let trace = read_text(&NVIDIA_SMI, text).unwrap();
    assert_eq!((counter(&trace, "GPU 0", "fan.speed").value.as_slice(), trace.import.rejected), (&[30.0][..], 1));
    let is_it = |format: &FileFormat, text: &str| (format.sniff)(&Head::new(text.as_bytes()));
    for text in [
        "#!/bin/sh\nnvidia-smi --query-gpu=timestamp,utilization.gpu --format=csv -l 1\n",
        "{\"cmd\": \"nvidia-smi --query-gpu=timestamp,utilization.gpu,memory.used --format=csv\"}\n",
        "memory, speed\n1, 2\n",
    ] {
        assert!(!is_it(&NVIDIA_SMI, text) && !is_it(&NO_HEADER, text), "{text}");
    }
    assert!(is_it(&NO_HEADER, "0, 12 %, 1000 MiB, 61.25 W\n"), "rows without a header and a time");
}

#[test]
fn a_log_without_times_says_what_to_add() {
    let Err(ReadError::NotATrace(text)) = read_text(&NVIDIA_SMI, "utilization.gpu [%]\n5 %\n") else { panic!() };
    assert!(text.contains("add timestamp to --query-gpu"), "{text}");
}

#[test]
fn the_time_is_that_of_the_line_and_not_of_an_object_in_it() {
    let line = |second: i64| {
        format!(
            "{{\"meta\": {{\"timestamp\": 1, \"of\": \"timestamp\"}}, \"gpu_util_pct\": 5, \
             \"timestamp\" : 170000000{second}.123456789}}\n"
        )
    };
    let trace = read_text(&JSON_LINES, &[line(0), line(1)].concat()).unwrap();
    let times = &counter(&trace, "Metrics", "GPU utilization").ts;
    assert_eq!(times[..], [1_700_000_000_123_456_789, 1_700_000_001_123_456_789]);
}

#[test]
fn cells_and_lines_that_are_no_readings_are_counted() {
    let row = |cell: &str| format!("2026/11/22 17:30:55.000, 0, {cell}, Default\n");
    let cells = ["5 %", "nan %", "ERR!", "inf", "[N/A]", "[Unknown Error]", "N/A", ""];
    let mut text = "timestamp, index, utilization.gpu [%], compute_mode\n".to_owned();
    text.extend(cells.map(row));
    text += &"x".repeat(3 << 20);
    text += "\n";
    text += &row("6 %");
    let trace = read_text(&NVIDIA_SMI, &text).unwrap();
    assert_eq!(counter(&trace, "GPU 0", "utilization.gpu").value, [5.0, 6.0]);
    let import = &trace.import;
    assert_eq!((import.read, import.shown, import.rejected), (6, 2, 4), "{:?}", import.problems);
    let long = import.problems.iter().find(|problem| problem.reason.contains("1 MiB")).unwrap();
    assert_eq!((long.count, long.first_offset.map(|at| &text[at as usize..][..3])), (1, Some("xxx")));
    // A value beyond all numbers, once its unit is taken into account.
    let text = "{\"gpu_util_pct\": 1, \"x_gb\": 1e308, \"timestamp\": 1700000000}\n";
    let import = read_text(&JSON_LINES, text).unwrap().import;
    assert_eq!((import.read, import.shown, import.rejected), (2, 1, 1));
}
