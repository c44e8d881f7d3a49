//! Thresholds of the rules. Each has a name, by which it is set.

use std::collections::BTreeMap;

use crate::model::Severity;

/// The values from which a finding is a note, a warning, and high. `None` for a level that the rule does not have.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Levels {
    pub note: Option<f64>,
    pub warn: Option<f64>,
    pub high: Option<f64>,
}

impl Levels {
    const fn new(note: f64, warn: f64, high: f64) -> Self {
        Self { note: Some(note), warn: Some(warn), high: Some(high) }
    }

    /// For findings that are facts to know, not problems.
    const fn note(note: f64) -> Self {
        Self { note: Some(note), warn: None, high: None }
    }

    fn all(&self) -> [(Severity, Option<f64>); 3] {
        [(Severity::High, self.high), (Severity::Warn, self.warn), (Severity::Note, self.note)]
    }

    /// The worst level that `measured` reaches, and its threshold.
    pub fn reached(&self, measured: f64) -> Option<(Severity, f64)> {
        let reached = |(severity, level): (Severity, Option<f64>)| {
            level.filter(|&level| measured >= level).map(|level| (severity, level))
        };
        self.all().into_iter().find_map(reached)
    }

    /// The same for levels that are too low: `measured` must stay at or above them.
    pub fn missed(&self, measured: f64) -> Option<(Severity, f64)> {
        let missed = |(severity, level): (Severity, Option<f64>)| {
            level.filter(|&level| measured < level).map(|level| (severity, level))
        };
        self.all().into_iter().find_map(missed)
    }

    /// The level of a severity, which is the name's last word: `data_loading.warn`.
    fn level(&mut self, severity: &str) -> Option<&mut f64> {
        match severity {
            "note" => self.note.as_mut(),
            "warn" => self.warn.as_mut(),
            "high" => self.high.as_mut(),
            _ => None,
        }
    }

    /// The mildest level: beyond it there is a finding.
    pub fn first(&self) -> f64 {
        self.note.or(self.warn).or(self.high).unwrap_or(f64::INFINITY)
    }
}

/// The thresholds of all rules. Shares are of the window, 0 to 1.
///
/// Where `DEFINITIONS.md` gives levels they are those. The others follow `XProf`: 3 % of the time is worth a note, as
/// for input and launches there; what costs a tenth of the time is a warning, and a fifth is high.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Thresholds {
    /// Busy share; below.
    pub utilization: Levels,
    /// Idle time for the next batch.
    pub data_loading: Levels,
    /// Communication without compute.
    pub communication: Levels,
    /// Time that the other ranks wait for one in collectives, without compute.
    pub late_rank: Levels,
    /// Idle time in calls of collectives.
    pub collective_calls: Levels,
    /// Small collectives without compute, and idle time for their launches.
    pub small_collectives: Levels,
    /// Idle time because the host launches work more slowly than the device runs it.
    pub launch_bound: Levels,
    /// Idle time because the host waited for the device.
    pub synchronization: Levels,
    /// Idle time while the host runs operators or Python.
    pub host_bound: Levels,
    /// Copies without compute, and idle time in calls that copy.
    pub copies: Levels,
    /// Time of copies from or to pageable memory of more than [`Self::pageable_bytes`].
    pub pageable: Levels,
    pub pageable_bytes: u64,
    /// Idle time in the allocator.
    pub allocator: Levels,
    /// Idle time in compilers and loaders of device code.
    pub module_load: Levels,
    /// Idle time in Python's garbage collector.
    pub garbage_collection: Levels,
    /// Idle time at boundaries of steps that has no other cause.
    pub step_boundary: Levels,
    /// Idle time in which a stream waits for another.
    pub dependency: Levels,
    /// Idle time of work that was launched, for no recorded reason.
    pub queued: Levels,
    /// Idle time in which the launching thread is blocked in the operating system.
    pub blocked: Levels,
    /// Idle time that the recording does not explain.
    pub unexplained: Levels,
    /// Idle time by the profiler itself.
    pub profiler: Levels,
    /// Time that the host loads data by the busy time of the device, in the median step.
    pub data_time: Levels,
    /// Share of the time of kernels in those that take longer than [`Self::slow_kernel_ns`] on average.
    pub slow_kernels: Levels,
    pub slow_kernel_ns: i64,
    /// Duration of one launch of a slow kernel by that of a step, or the window.
    pub long_kernel: Levels,
    /// Time of matrix products in fp32 on a device that has TF32.
    pub fp32_matmul: Levels,
    /// Time of kernels of single elementwise operators. A transformer trained without a compiler spends 15 to 30 % on
    /// them (recordings): a third is worth a note.
    pub elementwise: Levels,
    /// Time of attention that is computed step by step.
    pub attention: Levels,
    /// Duration of the step that differs most from the median step, as a ratio above 1. Half as long again is more than
    /// shapes that vary cost; three times as long is another kind of step.
    pub irregular_steps: Levels,
    /// Time that recording Python's frames and operators costs a host for which the device waits, estimated.
    pub recording: Levels,
    /// Share of kernels shorter than [`Self::tiny_kernel_ns`], if the device is underused as well.
    pub tiny_kernels: Levels,
    pub tiny_kernel_ns: i64,
    /// Peak of reserved memory by that of the device.
    pub memory: Levels,
    /// Time of one cluster of gaps by that of a step.
    pub cluster: Levels,
    /// Share of the events that are there; below.
    pub recorded: Levels,
    /// Calls and ranges that use a device without recorded work.
    pub no_work: Levels,
    /// How much longer a step takes than in the recording that is compared with, by what it took there.
    pub slower: Levels,
}

impl Default for Thresholds {
    fn default() -> Self {
        Self {
            utilization: Levels { note: None, warn: Some(0.8), high: Some(0.5) },
            data_loading: Levels::new(0.05, 0.1, 0.2),
            // A device that only communicates for half of its time is used as badly as one that is idle for half.
            communication: Levels::new(0.1, 0.2, 0.5),
            late_rank: Levels::new(0.03, 0.1, 0.2),
            collective_calls: Levels::new(0.05, 0.1, 0.2),
            small_collectives: Levels { note: Some(0.03), warn: Some(0.1), high: None },
            launch_bound: Levels { note: Some(0.03), warn: None, high: Some(0.15) },
            synchronization: Levels::new(0.03, 0.1, 0.2),
            host_bound: Levels::new(0.05, 0.1, 0.2),
            copies: Levels::new(0.05, 0.1, 0.2),
            pageable: Levels { note: Some(0.01), warn: Some(0.05), high: None },
            pageable_bytes: 64_000,
            allocator: Levels::new(0.03, 0.1, 0.2),
            module_load: Levels::new(0.03, 0.1, 0.2),
            garbage_collection: Levels::new(0.03, 0.1, 0.2),
            step_boundary: Levels::new(0.05, 0.1, 0.2),
            dependency: Levels { note: Some(0.05), warn: Some(0.1), high: None },
            queued: Levels::note(0.1),
            blocked: Levels { note: Some(0.05), warn: Some(0.1), high: None },
            unexplained: Levels::note(0.1),
            profiler: Levels::note(0.03),
            data_time: Levels { note: None, warn: Some(1.0), high: None },
            slow_kernels: Levels::note(0.1),
            slow_kernel_ns: 1_000_000,
            long_kernel: Levels::note(0.2),
            fp32_matmul: Levels { note: Some(0.1), warn: Some(0.3), high: None },
            attention: Levels { note: Some(0.1), warn: Some(0.3), high: None },
            elementwise: Levels { note: Some(0.33), warn: Some(0.5), high: None },
            irregular_steps: Levels { note: Some(1.5), warn: Some(3.0), high: None },
            recording: Levels { note: Some(0.03), warn: Some(0.1), high: None },
            tiny_kernels: Levels::note(0.5),
            tiny_kernel_ns: 10_000,
            memory: Levels { note: None, warn: Some(0.9), high: None },
            cluster: Levels::note(0.05),
            recorded: Levels { note: None, warn: Some(0.5), high: None },
            no_work: Levels { note: None, warn: Some(1.0), high: None },
            slower: Levels { note: None, warn: Some(0.05), high: None },
        }
    }
}

/// What a threshold counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// 0 to 1.
    Share,
    /// One figure by another.
    Ratio,
    Count,
    /// Nanoseconds.
    Time,
    Bytes,
}

/// One threshold: what it is of, its present value, and the one it has unless it is set.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Threshold {
    /// Of the rule, or of the value: `data_loading`, `slow_kernel_ns`.
    pub of: &'static str,
    pub level: Level,
    pub kind: Kind,
    pub value: f64,
    pub default: f64,
    /// What is compared with it.
    pub help: &'static str,
}

/// What is the case beyond a threshold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// There is a finding of this severity.
    Of(Severity),
    /// The thing counts for its rule.
    Counts,
}

impl Threshold {
    /// The name that sets it: `data_loading.warn`, `slow_kernel_ns`.
    pub fn name(&self) -> String {
        match self.level {
            Level::Of(Severity::Note) => format!("{}.note", self.of),
            Level::Of(Severity::Warn) => format!("{}.warn", self.of),
            Level::Of(Severity::High) => format!("{}.high", self.of),
            Level::Counts => self.of.to_owned(),
        }
    }

    pub fn is_changed(&self) -> bool {
        self.value.to_bits() != self.default.to_bits()
    }
}

/// Name, unit, meaning and place of all levels of a rule.
type LevelsOf = (&'static str, Kind, &'static str, fn(&mut Thresholds) -> &mut Levels);

/// The levels by name; each name is the key of its rule.
const LEVELS: [LevelsOf; 34] = [
    ("low_gpu_utilization", Kind::Share, "Busy share of the device; below", |of| &mut of.utilization),
    ("data_loading", Kind::Share, "Idle time for the next batch", |of| &mut of.data_loading),
    ("exposed_communication", Kind::Share, "Communication without compute", |of| &mut of.communication),
    ("late_rank", Kind::Share, "Time that the other ranks wait for one in collectives, without compute", |of| {
        &mut of.late_rank
    }),
    ("collective_calls", Kind::Share, "Idle time in calls of collectives", |of| &mut of.collective_calls),
    (
        "small_collectives",
        Kind::Share,
        "Small collectives without compute, and idle time for their launches, if there are many",
        |of| &mut of.small_collectives,
    ),
    (
        "launch_bound",
        Kind::Share,
        "Idle time because the host launches work more slowly than the device runs it",
        |of| &mut of.launch_bound,
    ),
    ("synchronization", Kind::Share, "Idle time because the host waited for the device", |of| &mut of.synchronization),
    ("host_bound", Kind::Share, "Idle time while the host runs operators or Python", |of| &mut of.host_bound),
    ("exposed_copies", Kind::Share, "Copies without compute, and idle time in calls that copy", |of| &mut of.copies),
    ("pageable_copies", Kind::Share, "Time of large copies from or to pageable memory", |of| &mut of.pageable),
    ("allocator", Kind::Share, "Idle time in the allocator", |of| &mut of.allocator),
    ("module_load", Kind::Share, "Idle time in compilers and loaders of device code", |of| &mut of.module_load),
    ("garbage_collection", Kind::Share, "Idle time in Python's garbage collector", |of| &mut of.garbage_collection),
    ("step_boundary", Kind::Share, "Idle time between steps without another cause", |of| &mut of.step_boundary),
    ("stream_dependency", Kind::Share, "Idle time in which a stream waits for another", |of| &mut of.dependency),
    ("queued_work", Kind::Share, "Idle time of work that was launched, for no recorded reason", |of| &mut of.queued),
    (
        "blocked_in_os",
        Kind::Share,
        "Idle time in which the launching thread is blocked in the operating system",
        |of| &mut of.blocked,
    ),
    (
        "data_time",
        Kind::Ratio,
        "Time that the host loads data by the busy time of the device, in the median step",
        |of| &mut of.data_time,
    ),
    ("tiny_kernels", Kind::Share, "Share of kernels shorter than tiny_kernel_ns, on an underused device", |of| {
        &mut of.tiny_kernels
    }),
    ("slow_kernels", Kind::Share, "Share of kernel time in those longer than slow_kernel_ns on average", |of| {
        &mut of.slow_kernels
    }),
    ("long_kernel", Kind::Share, "Duration of one launch by that of a step", |of| &mut of.long_kernel),
    ("fp32_matmul", Kind::Share, "Time of matrix products in fp32 on a GPU with tensor cores", |of| {
        &mut of.fp32_matmul
    }),
    ("unfused_elementwise", Kind::Share, "Time of kernels of single elementwise operators", |of| &mut of.elementwise),
    ("unfused_attention", Kind::Share, "Time of softmax between batched matrix products, and of these", |of| {
        &mut of.attention
    }),
    ("recurring_gap", Kind::Share, "Time of one cluster of gaps by that of a step", |of| &mut of.cluster),
    (
        "irregular_steps",
        Kind::Ratio,
        "Duration of the step that differs most from the median step, as a ratio above 1",
        |of| &mut of.irregular_steps,
    ),
    (
        "python_tracing",
        Kind::Share,
        "Estimated time of recording Python's frames and operators, as far as the device waits for the host",
        |of| &mut of.recording,
    ),
    ("memory_nearly_full", Kind::Share, "Peak of reserved memory by that of the device", |of| &mut of.memory),
    ("unexplained_idle", Kind::Share, "Idle time that the recording does not explain", |of| &mut of.unexplained),
    ("profiler_overhead", Kind::Share, "Idle time by the profiler itself", |of| &mut of.profiler),
    ("incomplete_recording", Kind::Share, "Share of the events that the recording holds; below", |of| &mut of.recorded),
    ("no_gpu_work", Kind::Count, "Calls and ranges that use a GPU whose work was not recorded", |of| &mut of.no_work),
    ("slower_than_base", Kind::Share, "How much longer a step takes than in the file that --compare names", |of| {
        &mut of.slower
    }),
];

const PAGEABLE: &str = "pageable_bytes";
const SLOW: &str = "slow_kernel_ns";
const TINY: &str = "tiny_kernel_ns";

impl Thresholds {
    /// All thresholds, in the order of the rules.
    pub fn all(mut self) -> Vec<Threshold> {
        let mut defaults = Self::default();
        let mut all = Vec::new();
        for (of, kind, help, levels) in LEVELS {
            let (values, defaults) = (*levels(&mut self), *levels(&mut defaults));
            for ((severity, value), (_, default)) in values.all().into_iter().zip(defaults.all()).rev() {
                if let (Some(value), Some(default)) = (value, default) {
                    all.push(Threshold { of, level: Level::Of(severity), kind, value, default, help });
                }
            }
        }
        let mut counts = |of, kind, value, default, help| {
            all.push(Threshold { of, level: Level::Counts, kind, value, default, help });
        };
        let [bytes, default] = [self, defaults].map(|of| of.pageable_bytes as f64);
        counts(PAGEABLE, Kind::Bytes, bytes, default, "Copies of more bytes than this count as pageable copies");
        let [slow, default] = [self, defaults].map(|of| of.slow_kernel_ns as f64);
        counts(SLOW, Kind::Time, slow, default, "Kernels that take longer than this on average are slow");
        let [tiny, default] = [self, defaults].map(|of| of.tiny_kernel_ns as f64);
        counts(TINY, Kind::Time, tiny, default, "Kernels shorter than this are tiny");
        all
    }

    /// Sets a threshold. A value that it cannot have, or an unknown name, changes nothing and is an error in words.
    pub fn set(&mut self, name: &str, value: f64) -> Result<(), String> {
        let all = self.all();
        let known = all.iter().find(|known| known.name() == name);
        let known = known.ok_or_else(|| format!("There is no threshold `{name}`"))?;
        let highest = match known.kind {
            Kind::Share => 1.0,
            Kind::Ratio => 1e6,
            Kind::Count | Kind::Time | Kind::Bytes => 1e15,
        };
        if !(0.0..=highest).contains(&value) {
            return Err(match known.kind {
                Kind::Share => format!("The threshold `{name}` is a share: 0 to 100 %, such as `15%` or `0.15`"),
                _ => format!("The threshold `{name}` must be between 0 and {highest}"),
            });
        }
        match known.of {
            PAGEABLE => self.pageable_bytes = value as u64,
            SLOW => self.slow_kernel_ns = value as i64,
            TINY => self.tiny_kernel_ns = value as i64,
            of => {
                let levels = LEVELS.iter().find(|levels| levels.0 == of).map(|levels| (levels.3)(self));
                let severity = name.rsplit('.').next().unwrap_or_default();
                if let Some(level) = levels.and_then(|levels| levels.level(severity)) {
                    *level = value;
                }
            }
        }
        Ok(())
    }

    /// Those that differ from the defaults, by name.
    pub fn changed(self) -> BTreeMap<String, f64> {
        self.all().into_iter().filter(Threshold::is_changed).map(|one| (one.name(), one.value)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_level_is_reached_at_its_value() {
        let levels = Levels::new(0.05, 0.1, 0.2);
        let found = [0.0, 0.049_9, 0.05, 0.1, 0.199, 0.2, 1.0].map(|value| levels.reached(value));
        let [note, warn, high] = [(Severity::Note, 0.05), (Severity::Warn, 0.1), (Severity::High, 0.2)].map(Some);
        assert_eq!(found, [None, None, note, warn, warn, high, high]);
        let levels = Thresholds::default().utilization;
        let found = [0.9, 0.8, 0.799, 0.5, 0.499].map(|value| levels.missed(value));
        let [warn, high] = [(Severity::Warn, 0.8), (Severity::High, 0.5)].map(Some);
        assert_eq!(found, [None, None, warn, warn, high]);
        assert_eq!((levels.first(), Levels::note(0.3).first()), (0.8, 0.3));
    }

    #[test]
    fn each_threshold_is_set_by_its_name_alone() {
        let defaults = Thresholds::default();
        assert_eq!(defaults.changed(), BTreeMap::new());
        let all = defaults.all();
        for one in &all {
            let mut changed = defaults;
            let value = if one.kind == Kind::Share { one.value / 2.0 } else { one.value + 1.0 };
            changed.set(&one.name(), value).unwrap();
            assert_eq!(changed.changed(), BTreeMap::from([(one.name(), value)]));
        }
        let mut names: Vec<String> = all.iter().map(Threshold::name).collect();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), all.len());
    }

    #[test]
    fn the_names_of_levels_are_those_of_the_rules_they_are_for() {
        use super::super::Rule;
        for rule in Rule::ALL {
            let (name, .., levels) = LEVELS.iter().find(|levels| levels.0 == rule.key()).unwrap();
            assert_eq!(*levels(&mut Thresholds::default()), rule.levels(&Thresholds::default()), "{name}");
            let mut changed = Thresholds::default();
            *levels(&mut changed) = Levels::note(0.123);
            assert_eq!(rule.levels(&changed), Levels::note(0.123), "{name}");
        }
    }

    #[test]
    fn values_out_of_bounds_change_nothing() {
        let mut thresholds = Thresholds::default();
        let wrong = [("data_loading.note", -0.1), ("data_loading.note", 1.1), ("slow_kernel_ns", f64::NAN)];
        for (name, value) in wrong {
            assert!(thresholds.set(name, value).is_err(), "{name} {value}");
        }
        for name in ["", "data_loading", "data_loading.worse", "low_gpu_utilization.note", "slow_kernel_ns.note"] {
            assert!(thresholds.set(name, 0.5).is_err(), "{name}");
        }
        assert_eq!(thresholds, Thresholds::default());
    }
}
