//! Small traces by hand with causes as other recorders and versions spell them.

use serde_json::{Value, json};

use super::support::{report, scratch};

/// Events of a trace; times in µs.
#[derive(Default)]
struct Events {
    list: Vec<Value>,
    correlation: u32,
}

impl Events {
    fn slice(&mut self, cat: &str, name: &str, (pid, tid): (u32, u32), (ts, end): (f64, f64), args: &Value) {
        let event = json!({"ph": "X", "cat": cat, "name": name, "pid": pid, "tid": tid, "ts": ts, "dur": end - ts, "args": args});
        self.list.push(event);
    }

    /// An event of the host; `tid` 100 is the main thread.
    fn host(&mut self, cat: &str, name: &str, tid: u32, ts: f64, end: f64) {
        self.slice(cat, name, (100, tid), (ts, end), &json!({}));
    }

    /// A call of the runtime; returns its correlation id.
    fn call(&mut self, name: &str, tid: u32, ts: f64, end: f64) -> u32 {
        self.correlation += 1;
        self.slice("cuda_runtime", name, (100, tid), (ts, end), &json!({"correlation": self.correlation}));
        self.correlation
    }

    fn work(&mut self, (cat, name): (&str, &str), stream: u32, (ts, end): (f64, f64), correlation: u32) {
        let args = json!({"device": 0, "stream": stream, "correlation": correlation});
        self.slice(cat, name, (0, stream), (ts, end), &args);
    }

    /// A launch at `ts` of a kernel that begins 4.5 µs later.
    fn launch(&mut self, name: &str, tid: u32, ts: f64) {
        let correlation = self.call(name, tid, ts, ts + 4.0);
        self.work(("kernel", "gemm"), 7, (ts + 4.5, ts + 50.0), correlation);
    }

    /// Twelve kernels launched ahead of the device, which is busy until 499.5 µs.
    fn warm() -> Self {
        let mut events = Self::default();
        for i in 0..12 {
            let i = f64::from(i);
            events.host("cpu_op", "aten::mm", 100, i * 10.0, i * 10.0 + 8.0);
            let correlation = events.call("cudaLaunchKernel", 100, i * 10.0 + 2.0, i * 10.0 + 6.0);
            events.work(("kernel", "gemm"), 7, (20.0 + i * 40.0, 59.5 + i * 40.0), correlation);
        }
        events.host("python_function", "train.py(3): main", 100, -5.0, 3000.0);
        events
    }

    /// Sums by class of the longest gap, with its trigger.
    fn longest_gap(&self, name: &str) -> (Vec<(String, i64)>, Value, Value) {
        let path = scratch(&format!("tricky-{name}")).join("trace.json");
        std::fs::write(&path, json!({"traceEvents": self.list}).to_string()).unwrap();
        let report = report(&path, "0").unwrap();
        let gap = report["gaps"][0]["top"][0].clone();
        let mut sums: Vec<(String, i64)> = Vec::new();
        for part in gap["parts"].as_array().unwrap() {
            let (class, ns) = (part["class"].as_str().unwrap(), part["dur_ns"].as_i64().unwrap());
            match sums.iter_mut().find(|(known, _)| known == class) {
                Some((_, sum)) => *sum += ns,
                None => sums.push((class.to_owned(), ns)),
            }
        }
        (sums, gap["trigger"].clone(), gap["parts"][0]["frame"].clone())
    }
}

/// Checks the longest gap, without the time from the launch that ends it.
fn check(events: &Events, name: &str, expected: &[(&str, i64)], trigger: &Value, frame: &str) {
    let (mut sums, found, first_frame) = events.longest_gap(name);
    sums.retain(|(class, _)| !["launch", "launch_latency", "queued"].contains(&class.as_str()));
    let expected: Vec<_> = expected.iter().map(|&(class, ns)| (class.to_owned(), ns)).collect();
    assert_eq!((sums, &found, first_frame.as_str()), (expected, trigger, Some(frame)), "{name}");
}

const MAIN: &str = "train.py(3): main";

#[test]
fn host_causes_by_other_names() {
    let mut events = Events::warm();
    events.host("python_function", "torch/utils/data/dataloader.py(630): __next__", 100, 130.0, 1030.0);
    events.host("python_function", "data.py(5): __getitem__", 100, 150.0, 850.0);
    events.launch("cudaLaunchKernel", 100, 1040.0);
    let expected = [("data_loading", 530_500), ("python", 10_000)];
    check(&events, "loader-frames", &expected, &Value::Null, "data.py(5): __getitem__");

    let mut events = Events::warm();
    events.host("python_function", "<built-in method item of Tensor object at 0x7f>", 100, 130.0, 730.0);
    events.call("hipMemcpyWithStream", 100, 135.0, 725.0);
    events.launch("hipLaunchKernel", 100, 760.0);
    check(&events, "item", &[("sync", 230_500), ("python", 30_000)], &json!("sync"), MAIN);

    // An operator of compiled code that runs is not compiled.
    let mut events = Events::warm();
    events.host("python_function", "torch/_dynamo/eval_frame.py(465): _fn", 100, 120.0, 1100.0);
    events.host("python_function", "/tmp/torchinductor_root/ab/cab.py(99): call", 100, 121.0, 1090.0);
    events.host("cpu_op", "aten::index", 100, 130.0, 930.0);
    events.launch("cudaLaunchKernel", 100, 950.0);
    // The file that inductor generated is not the user's.
    check(&events, "compiled", &[("cpu_op", 430_500), ("python", 20_000)], &Value::Null, MAIN);

    // A range around a whole batch says nothing of its time.
    let mut events = Events::warm();
    events.host("user_annotation", "train_batch", 100, -4.0, 2900.0);
    events.host("python_function", "train.py(20): metrics", 100, 130.0, 830.0);
    events.launch("cudaLaunchKernel", 100, 850.0);
    check(&events, "train-batch", &[("python", 350_500)], &Value::Null, "train.py(20): metrics");

    let mut events = Events::warm();
    events.host("user_annotation", "gc.collect", 100, 130.0, 800.0);
    events.launch("cudaLaunchKernel", 100, 810.0);
    check(&events, "gc", &[("gc", 300_500), ("python", 10_000)], &Value::Null, MAIN);

    let mut events = Events::warm();
    events.host("user_annotation", "nccl:all_reduce", 100, 130.0, 800.0);
    events.launch("cudaLaunchKernel", 100, 810.0);
    check(&events, "nccl", &[("collective", 300_500), ("python", 10_000)], &Value::Null, MAIN);
}

#[test]
fn waits_across_threads_streams_and_clocks() {
    // The wait ends 300 ns before the work that it waits for.
    let mut events = Events::warm();
    events.call("cudaStreamSynchronize", 100, 130.0, 499.2);
    events.launch("cudaLaunchKernel", 100, 800.0);
    check(&events, "skew", &[("python", 300_500)], &json!("sync"), MAIN);

    // The main thread waits for the device, then another thread launches.
    let mut events = Events::warm();
    events.host("cpu_op", "aten::item", 100, 126.0, 726.0);
    events.call("cudaStreamSynchronize", 100, 130.0, 720.0);
    events.host("cpu_op", "autograd::engine::evaluate_function: MmBackward0", 300, 850.0, 870.0);
    events.launch("cudaLaunchKernel", 300, 860.0);
    let expected = [("sync", 226_500), ("python", 124_000), ("cpu_op", 10_000)];
    check(&events, "two-threads", &expected, &json!("sync"), MAIN);

    // While another stream works, the device does not wait.
    let mut events = Events::warm();
    let correlation = events.call("cudaLaunchKernel", 100, 125.0, 129.0);
    events.work(("kernel", "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevComm*)"), 20, (499.5, 1199.5), correlation);
    events.launch("cudaLaunchKernel", 100, 1195.5);
    assert_eq!(events.longest_gap("other-stream").0.iter().map(|(_, ns)| ns).sum::<i64>(), 500);

    // A step ends in the gap.
    let mut events = Events::warm();
    events.host("user_annotation", "ProfilerStep#1", 100, -4.0, 600.0);
    events.host("user_annotation", "ProfilerStep#2", 100, 600.0, 2000.0);
    events.launch("cudaLaunchKernel", 100, 900.0);
    check(&events, "boundary", &[("python", 400_500)], &json!("step_boundary"), MAIN);

    // The launch is not recorded.
    let mut events = Events::warm();
    events.work(("kernel", "gemm"), 7, (900.0, 950.0), 999);
    let (sums, trigger, _) = events.longest_gap("no-launch");
    assert_eq!((sums, trigger), (vec![("no_launch".to_owned(), 400_500)], Value::Null));
}
