//! The monitor of this machine's GPUs, with a stand-in for NVIDIA's library.

use std::time::Duration;

use eframe::egui::accesskit::Role;

use super::*;
use crate::live::{Driver, Metric, Monitor, NvmlDriver, Store};

#[path = "../../../tests/fake_nvml/load.rs"]
mod fake_nvml;
use fake_nvml::FakeNvml;

fn monitor_of(fake: &FakeNvml) -> Monitor {
    let drivers: Vec<Box<dyn Driver>> = vec![Box::new(NvmlDriver { library: Some(fake.library().into()) })];
    Monitor::new(drivers)
}

/// A window without traces that watches the GPUs of `fake` alone, fast.
fn watching(fake: &FakeNvml, traces: Vec<Trace>) -> Harness<'static, Option<App>> {
    let mut harness = harness(traces);
    let monitor = monitor_of(fake);
    monitor.set_retry(Duration::from_millis(100));
    app_mut(&mut harness).session.live = std::sync::Arc::new(monitor);
    app_mut(&mut harness).commands.push(Command::Show("live"));
    settle(&mut harness);
    harness
}

fn has(label: &'static str) -> impl Fn(&Harness<'_, Option<App>>) -> bool {
    move |harness| harness.query_all_by_label_contains(label).next().is_some()
}

#[test]
fn gpus_are_watched_without_a_trace() {
    let fake = FakeNvml::new("gpus=2 busy=40");
    let mut harness = harness(Vec::new());
    harness.get_by_label("Watch the GPUs of this machine").click();
    settle(&mut harness);
    harness.get_by_label("Back").click();
    settle(&mut harness);
    harness.get_by_label("Nothing is open");
    let mut harness = watching(&fake, Vec::new());
    wait_for(&mut harness, has("Memory used: GPU 0 31.86 GiB, GPU 1 31.86 GiB"));
    harness.get_by_label("Utilization: GPU 0 40 %, GPU 1 40 %");
    assert_eq!(harness.query_all_by_label("Memory: 31.86 GiB of 79.65 GiB").count(), 2);
    wait_for(&mut harness, has("Processes (2)"));
    harness.get_by_label("SM").click_accesskit();
    wait_for(&mut harness, |harness| harness.query_by_label("SM, descending").is_some());
    // A hidden GPU has no line.
    harness.get_by_label("GPU 1").click();
    wait_for(&mut harness, |harness| harness.query_by_label("Utilization: GPU 0 40 %").is_some());
}

#[test]
fn a_faster_rate_holds_at_once() {
    let fake = FakeNvml::new("gpus=1 busy=40");
    let monitor = monitor_of(&fake);
    monitor.set_interval(Duration::from_secs(60));
    monitor.start();
    let n_readings = |store: &Store| store.devices.first().map_or(0, |device| device.points(Metric::Utilization).len());
    assert!(monitor.wait(Duration::from_secs(60), |store| n_readings(store) > 0));
    monitor.set_interval(Duration::from_millis(100));
    assert!(monitor.wait(Duration::from_secs(40), |store| n_readings(store) >= 5));
}

#[test]
fn values_of_many_gpus_fit_beside_the_title() {
    let fake = FakeNvml::new("gpus=1 busy=40");
    let mut harness = watching(&fake, Vec::new());
    wait_for(&mut harness, |harness| harness.query_by_label("GPU 0 31.86 GiB").is_some());
    let fake = FakeNvml::new("gpus=8 busy=40");
    let mut harness = watching(&fake, Vec::new());
    wait_for(&mut harness, |harness| harness.query_by_label("31.86 GiB").is_some());
    assert_eq!(
        ["ECC corrected", "ECC uncorrected"].map(|kind| harness.query_all_by_label_contains(kind).count()),
        [8; 2]
    );
}

#[test]
fn plots_of_eight_gpus_are_in_view_without_scrolling() {
    let fake = FakeNvml::new("gpus=8 busy=40");
    let mut harness = watching(&fake, Vec::new());
    harness.set_size(egui::vec2(1280.0, 720.0));
    wait_for(&mut harness, |harness| harness.query_by_label("Utilization").is_some());
    settle(&mut harness);
    let plot = harness.get_by_label("Utilization").rect();
    assert!(plot.bottom() + 150.0 < 720.0, "{plot:?}");
}

#[test]
fn counters_alone_leave_the_output_in_sight() {
    let fake = FakeNvml::new("gpus=1 busy=40");
    for traces in [vec![trace()], Vec::new()] {
        let n = traces.len();
        let mut harness = watching(&fake, traces);
        wait_for(&mut harness, has("Utilization: GPU 0"));
        app_mut(&mut harness).commands.push(Command::Show("capture"));
        settle(&mut harness);
        harness.get_by_role_and_label(Role::TextInput, "Command").focus();
        settle(&mut harness);
        type_text(&mut harness, "sh -c 'sleep 1; echo hello'");
        harness.get_by_label("Start").click();
        wait_for(&mut harness, |harness| app(harness).session().traces().len() == n + 1);
        settle(&mut harness);
        assert!(app(&harness).layout.is_on_screen("capture"));
        assert!(has("no Python process of this run imported torch")(&harness) && has("hello")(&harness));
    }
}

#[test]
fn readings_are_recorded_until_a_person_stops_that() {
    let fake = FakeNvml::new("gpus=1 busy=40");
    let mut harness = watching(&fake, Vec::new());
    wait_for(&mut harness, has("Utilization: GPU 0"));
    harness.get_by_label("Record").click();
    wait_for(&mut harness, has("3 lines in"));
    harness.get_by_label("Stop recording").click();
    wait_for(&mut harness, has("Recorded"));
    harness.get_by_label_contains("gpu_metrics.jsonl").click();
    wait_for(&mut harness, |harness| app(harness).session().traces().len() == 1);
    let path = app(&harness).session().traces()[0].trace.info.path.clone();
    assert!(std::fs::read_to_string(&path).unwrap().contains("\"gpu_util_pct\":40"));
    std::fs::remove_dir_all(path.parent().unwrap()).unwrap();
}

#[test]
fn unsupported_metrics_are_absent_and_named() {
    let fake = FakeNvml::new("gpus=1 busy=40 unsupported=power,fan,clocks");
    let mut harness = watching(&fake, Vec::new());
    wait_for(&mut harness, has("Temperature: GPU 0"));
    assert!(!has("SM clock: GPU 0")(&harness) && !has("Power: ")(&harness), "a zero would be wrong");
    harness.get_by_label("Metrics not available on these GPUs").click();
    wait_for(&mut harness, has("Power: not supported"));
}

#[test]
fn a_gpu_that_is_lost_comes_back() {
    let fake = FakeNvml::new("gpus=2 busy=40");
    let mut harness = watching(&fake, vec![trace()]);
    wait_for(&mut harness, has("Utilization: GPU 0 40 %, GPU 1 40 %"));
    fake.set("gpus=2 busy=40 lost=1");
    wait_for(&mut harness, has("Lost: it does not answer the driver"));
    wait_for(&mut harness, has("Utilization: GPU 0 40 %, GPU 1 none now"));
    fake.set("gpus=2 busy=70");
    wait_for(&mut harness, has("The GPU is back"));
    wait_for(&mut harness, has("Utilization: GPU 0 70 %, GPU 1 70 %"));
}

#[test]
fn an_instance_that_is_gone_is_not_lost() {
    let fake = FakeNvml::new("gpus=1 busy=40 mig=1");
    let mut harness = watching(&fake, Vec::new());
    wait_for(&mut harness, has("GPU 0:1 31.86 GiB"));
    fake.set("gpus=1 busy=40");
    wait_for(&mut harness, has("The instance is gone: its GPU was divided otherwise, or MIG was switched off"));
    wait_for(&mut harness, has("GPU 0:1 none now"));
    assert_eq!(harness.query_all_by_label("Memory: 31.86 GiB of 79.65 GiB").count(), 1, "its card is gone");
    assert!(!has("Lost")(&harness) && !has("was lost")(&harness));
    // Made anew, it has its place and one card.
    fake.set("gpus=1 busy=40 mig=1");
    wait_for(&mut harness, has("GPU 0:1 31.86 GiB"));
    assert_eq!(harness.query_all_by_label("Memory: 31.86 GiB of 79.65 GiB").count(), 3);
}

#[test]
fn alarms_and_errors_are_said() {
    let fake = FakeNvml::new("gpus=1 busy=40 hot=92 xid=79");
    let mut harness = watching(&fake, Vec::new());
    wait_for(&mut harness, has("Alarm: Temperature ≥ 85 °C"));
    wait_for(&mut harness, has("XID 79: the GPU fell off the bus"));
    // Among what happened, and on the card.
    let n_errors = harness.query_all_by_label_contains("XID 79: the GPU fell off the bus").count();
    assert_eq!(n_errors, 2);
    fake.set("gpus=1 busy=40 hot=60 xid=79");
    wait_for(&mut harness, |harness| !has("Alarm: Temperature")(harness));
    wait_for(&mut harness, has("Alarm over (Temperature ≥ 85 °C)"));
}

#[test]
fn a_pause_keeps_the_picture() {
    let fake = FakeNvml::new("gpus=1 busy=40");
    let mut harness = watching(&fake, Vec::new());
    wait_for(&mut harness, has("Utilization: GPU 0 40 %"));
    harness.get_by_label("Pause").click();
    settle(&mut harness);
    fake.set("gpus=1 busy=80");
    let revision = app(&harness).session.live.revision();
    while app(&harness).session.live.revision() < revision + 6 {
        settle(&mut harness);
    }
    assert!(has("Utilization: GPU 0 40 %")(&harness));
    harness.get_by_label("Resume").click();
    wait_for(&mut harness, has("Utilization: GPU 0 80 %"));
}

#[test]
fn what_is_missing_is_said_with_what_to_do() {
    let fake = FakeNvml::new("init=9");
    let mut harness = watching(&fake, Vec::new());
    wait_for(&mut harness, has("The NVIDIA driver is installed, but not loaded"));
    assert!(has("modprobe nvidia")(&harness));
    // It is loaded later.
    fake.set("gpus=1 busy=40");
    wait_for(&mut harness, has("Utilization: GPU 0 40 %"));
}

/// A window that watches the GPUs of `fake` and runs a program that nothing records.
fn running(fake: &FakeNvml, command: &str) -> Harness<'static, Option<App>> {
    let mut harness = watching(fake, Vec::new());
    wait_for(&mut harness, has("GPU 0"));
    app_mut(&mut harness).commands.push(Command::Show("capture"));
    settle(&mut harness);
    harness.get_by_role_and_label(Role::TextInput, "Command").focus();
    settle(&mut harness);
    type_text(&mut harness, command);
    harness.get_by_role_and_label(Role::RadioButton, "Nothing").click();
    harness.get_by_label("Start").click();
    harness
}

#[test]
fn the_gpus_are_in_sight_while_a_program_runs() {
    let fake = FakeNvml::new("gpus=6 busy=40");
    let mut harness = running(&fake, "sleep 600");
    wait_for(&mut harness, has("GPU 0: utilization of the last minute"));
    wait_for(&mut harness, has("40 %, 31.86 GiB of 79.65 GiB"));
    assert!(has("GPU 3: utilization")(&harness) && !has("GPU 4: utilization")(&harness) && has("and 2 more")(&harness));
    fake.set("gpus=6 busy=40 lost=1");
    wait_for(&mut harness, has("Lost: it does not answer the driver"));
    harness.get_by_label("Stop").click();
    // What was read meanwhile opens by itself, in front of the launcher.
    wait_for(&mut harness, |harness| app(harness).session().traces().len() == 1);
    app_mut(&mut harness).commands.push(Command::Show("capture"));
    wait_for(&mut harness, has("Stopped after"));
    assert!(!has("GPU 0: utilization")(&harness), "nothing runs");
}

#[test]
fn a_run_without_a_driver_says_why_there_are_no_gpu_metrics() {
    let fake = FakeNvml::new("init=9");
    let mut harness = watching(&fake, Vec::new());
    wait_for(&mut harness, has("The NVIDIA driver is installed, but not loaded"));
    app_mut(&mut harness).commands.push(Command::Show("capture"));
    settle(&mut harness);
    harness.get_by_role_and_label(Role::TextInput, "Command").focus();
    settle(&mut harness);
    type_text(&mut harness, "sleep 600");
    harness.get_by_role_and_label(Role::RadioButton, "Nothing").click();
    harness.get_by_label("Start").click();
    wait_for(
        &mut harness,
        has("No GPU metrics: The NVIDIA driver is installed, but not loaded. Load it with `modprobe"),
    );
    // It is loaded while the program runs.
    fake.set("gpus=1 busy=40");
    wait_for(&mut harness, has("GPU 0: utilization of the last minute"));
    assert!(!has("No GPU metrics")(&harness));
}

#[test]
fn the_output_of_a_program_that_failed_stays_in_sight() {
    let fake = FakeNvml::new("gpus=1 busy=40");
    let mut harness = running(&fake, "sh -c 'sleep 1; echo this is why; exit 3'");
    wait_for(&mut harness, has("with exit code 3"));
    wait_for(&mut harness, has("gpu_metrics.jsonl"));
    settle(&mut harness);
    assert!(has("this is why")(&harness) && app(&harness).session().traces().is_empty());
    harness.get_by_role_and_label(Role::Link, "gpu_metrics.jsonl").click();
    wait_for(&mut harness, |harness| app(harness).session().traces().len() == 1);
}
