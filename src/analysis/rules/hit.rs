//! The measurement of a rule.

use super::{
    Basis, CallSite, Irregular, Joined, LateRank, Missing, MostIn, NewShapes, NoWork, Once, Reach, RecordingCost,
    Recurring, Rule, Shares, SmallCollectives, StepwiseAttention, Transfers, Uncached, Waiting,
};
use crate::model::{DurNs, Severity, TimeRange};

/// What a rule measured that is beyond its threshold.
#[derive(Clone, Debug, PartialEq)]
pub struct Hit {
    pub rule: Rule,
    pub severity: Severity,
    /// Index of the device; `None` for a recording without any.
    pub device: Option<u32>,
    /// A share or a ratio; see [`super::Thresholds`].
    pub measured: f64,
    /// The level of the rule that it reaches.
    pub threshold: f64,
    /// The time, or for memory the bytes, that was measured.
    pub amount: i64,
    /// What it is a share of, in the same unit.
    pub of: i64,
    /// Gaps, kernels or copies.
    pub count: u64,
    /// Steps in the window; 0 if unknown.
    pub n_steps: usize,
    /// Why this time was judged.
    pub basis: Basis,
    /// The place that shows it best, in trace time.
    pub range: Option<TimeRange>,
    /// Calls, operators or kernels with most of it.
    pub names: Vec<String>,
    /// Of a hit about calls that wait, copy or allocate, or about a host that is slow in few places: those with most of
    /// it.
    pub sites: Vec<CallSite>,
    /// Of a hit about launches or a host that are too slow: where the work after the gaps was launched, a frame of the
    /// user's program or a node of the backward pass, the three with most time and that time.
    pub origins: Vec<(String, DurNs)>,
    /// Of a hit about synchronizations: what the host did after them for half of the time or more, and that time.
    pub after: Option<(CallSite, DurNs)>,
    /// Of a hit about loading of data: the function with most of the other time of the host, if that takes more than half
    /// of its steps.
    pub other_in: Option<MostIn>,
    /// Of a hit about loading of code that is inferred: the call of the operating system in which the host is for most of
    /// that, and how long.
    pub waits_in: Option<(String, DurNs)>,
    /// What ending the cause would gain this device at most, with what is joined; `None` without steps, where nearly
    /// all of it is in one step of several and it is not known to come back, or where that cannot be told.
    pub ceiling_ns_per_step: Option<DurNs>,
    /// The same of all of the judged time, where that has no steps.
    pub gain_ns: Option<DurNs>,
    /// Of a rank of a job: what the job gains at most if the cause ends on this rank alone, where that is less.
    pub alone_ns_per_step: Option<DurNs>,
    /// What that is without the few steps that have more, see `per_step`.
    pub usual_ns_per_step: Option<DurNs>,
    /// What the recorder took at least of what ending the cause would gain, per step, or without steps of all; not in the
    /// ceiling.
    pub recorder_ns: DurNs,
    /// Of what is saved, that of idle time of other causes, see `ahead`; likewise. 0 where [`Hit::once`] tells the step.
    pub ahead_ns: DurNs,
    /// What of its time is before small collectives, or their own, per step: ending that is counted with them.
    pub small_ns: DurNs,
    /// What is saved at most per step, or without steps of all, of its time in which the device copies or communicates,
    /// where that is less than all of it: the host launches no sooner.
    pub paced: Option<Reach>,
    /// Of a hit about kernels of a sort: what of their time no other kernel computes beside, the most that fewer or faster
    /// ones save. See [`super::ExposedKernels`].
    pub exposed_ns: DurNs,
    /// The step that has nearly all of the time, if one of several has.
    pub once: Option<Once>,
    /// The gap that comes back with most of it, if one does.
    pub recurring: Option<Recurring>,
    /// Of a hit about loading data: its time on the host, and the busy time of the device, in the median step.
    pub data_time: Option<(DurNs, DurNs)>,
    /// Of a hit about the allocator: that it caches nothing.
    pub uncached: Option<Uncached>,
    /// Of a hit about attention that is computed step by step.
    pub attention: StepwiseAttention,
    /// Of a hit about pageable copies: each step has some, or the host loads data in the time that they are of.
    pub is_of_batches: bool,
    /// What its time consists of.
    pub shares: Shares,
    /// Of a hit about work on the CPU: operators that are slow where an input shape is new to them.
    pub new_shapes: NewShapes,
    /// Of a hit about communication: idle time in calls of collectives, which is not in the measured value.
    pub collective_calls_ns: DurNs,
    /// Of a hit about communication: time with any, computing meanwhile or not, in the steps.
    pub communication_ns: DurNs,
    pub transfers: Transfers,
    /// The same, of its measured time what is waiting for other ranks.
    pub waiting: Waiting,
    /// Of a hit about a late rank.
    pub late: Option<LateRank>,
    pub small_collectives: SmallCollectives,
    /// Of a hit about reserved memory: what of it was never in use at once, in bytes.
    pub unused_bytes: i64,
    /// The same: what of the device was not for this process when a request failed, in bytes; `None` where the file does
    /// not tell how much the device has.
    pub others_bytes: Option<i64>,
    /// Of a hit about the recording itself.
    pub missing: Missing,
    pub no_work: NoWork,
    /// Of a hit about steps that differ.
    pub irregular: Option<Irregular>,
    /// What is of the same cause, and no hit of its own.
    pub joined: Joined,
    /// Of a hit about the cost of recording: that in all; of others about the host, where it is a large part: per step,
    /// or of all the time without steps.
    pub recording: Option<RecordingCost>,
}

impl Hit {
    /// Whether the host writes a checkpoint for most of the time.
    pub fn is_saving(&self) -> bool {
        self.shares.saves_ns > self.amount - self.shares.saves_ns
    }

    /// Whether most of the time has its cause by inference.
    pub fn is_inferred(&self) -> bool {
        self.shares.inferred_ns > self.amount - self.shares.inferred_ns
    }

    /// Whether most of the time the host waits for another thread, a lock, a queue, a socket or a process.
    pub fn is_waiting(&self) -> bool {
        self.shares.waits_ns > self.amount - self.shares.waits_ns
    }

    /// Whether that is the load, as of a server without requests: the program does not train, whose threads wait for each
    /// other.
    pub fn is_of_low_load(&self) -> bool {
        self.is_waiting() && self.saved_ns().is_none() && self.once.is_none()
    }

    /// Whether most of the time the device waits for work of another one.
    pub fn is_for_another_device(&self) -> bool {
        self.shares.elsewhere_ns > self.amount - self.shares.elsewhere_ns
    }

    /// Whether the host was busy for most of the time, and nothing else is known of it.
    pub fn is_on_cpu(&self) -> bool {
        self.shares.on_cpu_ns > self.amount - self.shares.on_cpu_ns
    }

    /// Whether most of the time, of which nothing else is known, follows copies of data from the device.
    pub fn is_after_copies(&self) -> bool {
        self.shares.copied_ns > self.amount - self.shares.copied_ns
    }

    /// Whether most of the time, of which nothing else is known, ends with copies of data to the device.
    pub fn is_before_copies(&self) -> bool {
        self.shares.prepared_ns > self.amount - self.shares.prepared_ns
    }

    /// What ending the cause saves at most: per step, or without steps of all of the judged time.
    pub fn saved_ns(&self) -> Option<DurNs> {
        self.ceiling_ns_per_step.or(self.gain_ns)
    }

    /// Of a hit about communication: what less or faster communication saves at most, and ranks that arrive together
    /// where these were not compared, if that is more than [`Self::saved_ns`], which then bounds overlap alone.
    pub fn beyond_overlap_ns(&self) -> Option<DurNs> {
        let overlap = self.saved_ns().filter(|_| self.rule == Rule::ExposedCommunication)?;
        let n_steps = self.n_steps.max(1) as DurNs;
        let ns = (self.amount - self.waiting.ns) / n_steps - self.small_ns;
        let ns = self.paced.map_or(ns, |paced| ns.min(paced.ns));
        // What few nanoseconds are is lost in rounding.
        Some(ns).filter(|&ns| ns > overlap + n_steps)
    }

    /// Whether nearly all of its time is in sends and receives between two ranks each, as between the stages of a
    /// pipeline: what takes long there is that one stage waits for the other.
    pub fn is_between_stages(&self) -> bool {
        const OTHERS: DurNs = 10;
        let sent_ns = self.transfers.point_to_point_ns;
        sent_ns > 0 && OTHERS.saturating_mul(self.amount - sent_ns) <= self.amount
    }

    /// By how much it comes before others of its severity: what ending it saves, else its amount.
    pub fn weight(&self) -> i64 {
        // It is not a cause, and others say why.
        if self.rule == Rule::LowUtilization {
            return 0;
        }
        let amount = if self.once.is_some() { self.amount / self.n_steps.max(1) as i64 } else { self.amount };
        self.beyond_overlap_ns().or(self.saved_ns()).or(self.paced.map(|paced| paced.ns)).unwrap_or(amount)
    }
}

/// The result of one rule on one device.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Check {
    pub rule: Rule,
    pub device: Option<u32>,
    pub measured: f64,
    /// As of [`Hit::ceiling_ns_per_step`].
    pub ceiling_ns_per_step: Option<DurNs>,
    /// As of [`Hit::ahead_ns`].
    pub ahead_ns: DurNs,
}

/// A measurement before it is judged.
pub fn hit(rule: Rule, device: Option<u32>, amount: i64, of: i64) -> Hit {
    Hit {
        rule,
        severity: Severity::Note,
        device,
        measured: if of > 0 { amount as f64 / of as f64 } else { 0.0 },
        threshold: 0.0,
        amount,
        of,
        count: 0,
        n_steps: 0,
        basis: Basis::All,
        range: None,
        names: Vec::new(),
        sites: Vec::new(),
        origins: Vec::new(),
        after: None,
        other_in: None,
        ceiling_ns_per_step: None,
        gain_ns: None,
        alone_ns_per_step: None,
        usual_ns_per_step: None,
        recorder_ns: 0,
        ahead_ns: 0,
        small_ns: 0,
        paced: None,
        exposed_ns: 0,
        once: None,
        recurring: None,
        data_time: None,
        uncached: None,
        attention: StepwiseAttention::default(),
        is_of_batches: false,
        shares: Shares::default(),
        new_shapes: NewShapes::default(),
        waits_in: None,
        collective_calls_ns: 0,
        communication_ns: 0,
        transfers: Transfers::default(),
        waiting: Waiting::default(),
        late: None,
        small_collectives: SmallCollectives::default(),
        unused_bytes: 0,
        others_bytes: None,
        missing: Missing::default(),
        no_work: NoWork::default(),
        irregular: None,
        joined: Joined::default(),
        recording: None,
    }
}
