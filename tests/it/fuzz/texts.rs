//! Memory timelines and logs of GPU metrics.

use super::super::support::project;
use super::{Target, plain, run};

#[test]
fn fuzz_memory_timelines() {
    run(&Target {
        name: "timeline",
        file: "t.json",
        seeds: vec![
            b"[[-1, 1, 512, 0], [1700000000000000100, 0, 1024, 3], [1700000000000000200, 2, 512, 4], \
              [1700000000000000300, 3, 1024, 3]]"
                .to_vec(),
            b"[[1, 2, 3.5], [[0, 1, 2, 3, 4, 5, 6, 7, 8], [0, 1, 2, 3, 4, 5, 6, 7, 9], [0, 0, 0, 0, 0, 0, 0, 0, 0]]]"
                .to_vec(),
        ],
        words: &[b"[", b"]", b"],[", b",", b"-1", b"null", b"1e3", b"\"", b"{\"a\":1}"],
        page: 1,
        n: 400,
        memory: 400,
        pack: plain,
    });
}

#[test]
fn fuzz_gpu_metrics() {
    let lines = std::fs::read(project().join("sample_traces/gpu_metrics.jsonl")).unwrap();
    let lines = lines.split_inclusive(|&byte| byte == b'\n').take(12).flatten().copied().collect();
    let csv = b"timestamp, index, utilization.gpu [%], memory.used [MiB], power.draw [W]\n\
        2024/01/02 03:04:05.678, 0, 55 %, 1024 MiB, 70.50 W\n2024/01/02 03:04:06.678, 0, [N/A], 1024 MiB, 71.50 W\n";
    let units = b"index,uuid,timestamp,utilization.gpu [%],clocks.sm \
                  [MHz],pcie.link.gen.current,pstate,clocks_throttle_reasons.active\n0,GPU-1,2024/01/02 \
                  03:04:05.678,55,1980,4,P0,0x0000000000000004\n1,GPU-2,2024/01/02 03:04:05.679,[Not \
                  Supported],1980,4,P8,Not Active\n";
    let seconds = b"timestamp, memory.used [MiB]\n1700000000.5, 1\n1700000000.5, 2\n1700000001.5, 3 MiB\n";
    run(&Target {
        name: "metrics",
        file: "t.jsonl",
        seeds: vec![lines, csv.to_vec(), units.to_vec(), seconds.to_vec()],
        words: &[
            b"\n",
            b",",
            b"\"timestamp\":",
            b"[N/A]",
            b"{",
            b"}",
            b" %",
            b"null",
            b"2024/13/45 99:99:99.999",
            b"\"gpu_id\":",
        ],
        page: 1,
        n: 400,
        memory: 400,
        pack: plain,
    });
}
