//! The time of a device beside that of another recording, in words.

use super::{TimeComparison, Whose};
use crate::analysis::compare::{Alike, Change, TimePart, Unknown, Verdict};
use crate::figures::format;
use crate::figures::text::{shortened_apart, telling};
use crate::figures::verdicts::{clipped, device, percent};
use crate::model::DurNs;

impl TimeComparison {
    /// Whether it helped, in a paragraph that names the files.
    pub fn text(&self) -> String {
        let Whose { file, rank, device: index, base, .. } = &self.whose;
        let who = device(*index, *rank);
        let who = file.as_ref().map_or(who.clone(), |file| format!("{who} in {file}"));
        self.sentences(&who, &format!("in {}", clipped(base)))
    }

    /// The same beside the names of the files.
    pub fn text_of_device(&self) -> String {
        self.sentences(&device(self.whose.device, self.whose.rank), "before")
    }

    /// * `who`: the device.
    /// * `there`: in which recording it took what is compared with.
    fn sentences(&self, who: &str, there: &str) -> String {
        let step = self.step();
        let [before, after] = step.per_step().map(format::duration);
        let more = Self::more(&step);
        let there = match self.whose.base_rank {
            Some(rank) => format!("of rank {rank} {there}"),
            None => there.to_owned(),
        };
        let what = match self.compared.has_steps {
            true => format!("{who}: a step takes {after}, {more} the {before} {there}"),
            false => format!("{who}: the time that is judged is {after}, {more} the {before} {there}"),
        };
        let what = what + &self.of_whole_steps();
        let verdict = self.verdict();
        let graphs = ". One of the two shows CUDA graphs as wholes: the kernels in them cannot be compared";
        let graphs = if self.compared.has_whole_graphs { graphs } else { "" };
        let most = self.most().map(|most| format!(". {most}")).unwrap_or_default();
        let compiled = ". One of the two runs code of torch.compile, whose kernels and operators have other names: whether \
                        both are the same program cannot be told";
        let compiled = if self.compared.has_compiled { compiled } else { "" };
        let ranks = ". Where these are ranks of one job, a rank that comes sooner to a collective waits longer in it: time \
                     that it communicates says nothing of how fast it is";
        let communicates = self
            .compared
            .times
            .iter()
            .any(|(part, change)| *part == TimePart::ExposedCommunication && change.difference() != 0);
        let ranks = if self.whose.base_rank.is_some() && communicates { ranks } else { "" };
        let most = most + graphs + compiled + ranks;
        format!("{what}. {verdict}{most}")
    }

    /// Whether the difference is more than noise, of what that noise is, and what else may have made it.
    fn verdict(&self) -> String {
        /// A smaller factor of all work is not told beside what else made the difference.
        const MUCH: f64 = 1.05;
        let step = self.step();
        let n = step.n.map(format::count);
        let means = format!("means of {} and {} steps", n[1], n[0]);
        let floor = if step.noise_ns() > step.margin_ns { "2 % of a step; " } else { "" };
        let noise = step.noise_ns().map(format::duration).unwrap_or_default();
        let noise = format!("the noise between the steps of each recording, {noise} ({floor}{means})");
        let faster = if step.difference() > 0 { "slower" } else { "faster" };
        let known = |word: &str| {
            let alike = self.compared.alike.filter(|alike| alike.factor >= MUCH);
            let alike = alike.map_or_else(String::new, |alike| {
                let [alike, cause] = self.alike(alike);
                format!(". Also {alike}: so much of the difference points to {cause}")
            });
            if let Some(only) = self.of_only_change() {
                return format!("{word}: the difference is beyond {noise}. {only}. Repeat both to see that it stays");
            }
            format!(
                "{word}: the difference is beyond {noise}. Whether the program is {faster}, or the run as a whole, one \
                 recording of each does not tell: repeat both{alike}"
            )
        };
        let unknown = match &self.compared.verdict {
            Verdict::Faster => return known("Faster"),
            Verdict::Slower => return known("Slower"),
            Verdict::Same => return format!("No difference beyond {noise}"),
            Verdict::Unknown(Unknown::FewSteps) => {
                return "Whether that is more than noise is not known: that takes two judged steps in each recording"
                    .to_owned();
            }
            Verdict::Unknown(Unknown::OtherSteps([before, after])) => format!(
                "the steps may not be the same work, they were found by {} there and by {} here",
                clipped(before),
                clipped(after)
            ),
            Verdict::Unknown(Unknown::OtherDevice([before, after])) => {
                format!("the devices differ, {} there and {} here", clipped(before), clipped(after))
            }
            Verdict::Unknown(Unknown::OtherWork(common)) => format!(
                "only {} of the time of kernels is of the same kernels in both, so these may be different programs",
                percent(*common)
            ),
            Verdict::Unknown(Unknown::OtherOperators(common)) => format!(
                "only {} of the calls of operators are of the same ones in both, so these may be different programs",
                percent(*common)
            ),
            Verdict::Unknown(Unknown::Alike(alike)) => {
                let [alike, cause] = self.alike(*alike);
                format!(
                    "{alike}, which points to {cause}, rather than to one part of the program. Repeat both recordings"
                )
            }
        };
        format!("Whether the program is {faster} is not known: {unknown}")
    }

    /// That one kind of work alone changed.
    fn of_only_change(&self) -> Option<String> {
        let only = clipped(&self.compared.only_change()?.name);
        Some(format!(
            "{only} makes nearly all of it, and all other work of the device takes as long as before, to within 1 %: that \
             is a change of this work, and not of the run as a whole"
        ))
    }

    /// Whether a difference is of the program.
    pub(super) fn of_what(&self) -> String {
        self.of_only_change().unwrap_or_else(|| {
            "One recording of each does not tell a change of the program from a run that was slower as a whole"
                .to_owned()
        })
    }

    /// By how much nearly all work changed alike, and what that may come from.
    fn alike(&self, alike: Alike) -> [String; 2] {
        let (what, clocks) = match alike.is_of_device {
            true => ("kernels and copies", "the clocks of the device"),
            false => ("operators and functions", "the load or the clocks of the machine"),
        };
        // At least: not rounded up.
        let times = (alike.factor * 100.0).floor() / 100.0;
        let (take, then) = if self.step().difference() > 0 { ("take", "") } else { ("took", " before") };
        [
            format!("nearly all {what} {take} at least {times:.2} times as long{then}"),
            format!("{clocks}, or to what concerns all of them, such as the size of the batch"),
        ]
    }

    /// How long steps take in all, where they begin clearly before the first work of the device or end after its last: as
    /// other views have them.
    fn of_whole_steps(&self) -> String {
        let whole = self.compared.whole_step_ns;
        if !self.compared.has_steps || whole == [None; 2] {
            return String::new();
        }
        let own = self.step().per_step();
        let [before, after] = [0, 1].map(|i| format::duration(whole[i].unwrap_or(own[i])));
        format!(
            ", from the first to the last work of the device; with the time before and after that it is {after} beside \
             {before}"
        )
    }

    /// `3.2 % less than`.
    fn more(step: &Change) -> String {
        let difference = step.difference();
        let than = if difference < 0 { "less than" } else { "more than" };
        match step.share() {
            _ if difference == 0 => "as long as".to_owned(),
            Some(share) => format!("{} ({}) {than}", format::duration(difference.abs()), percent(share.abs())),
            None => format!("{} {than}", format::duration(difference.abs())),
        }
    }

    /// What changed most: parts of the step, then work by name, without a device functions by self time.
    fn most(&self) -> Option<String> {
        /// Less of the step's time is not named.
        const LEAST: f64 = 0.01;
        const MOST: usize = 3;
        /// Characters of a name.
        const MAX_NAME: usize = 48;
        let step = self.step();
        let least = (step.per_step()[0] as f64 * LEAST) as DurNs;
        let large = |change: &Change| change.difference() != 0 && change.difference().abs() >= least;
        let signed = |name: &str, change: &Change| {
            let sign = if change.difference() < 0 { "\u{2212}" } else { "+" };
            format!("{name} {sign}{}", format::duration(change.difference().abs()))
        };
        let is_part = |part: &TimePart| !matches!(part, TimePart::Step | TimePart::Judged | TimePart::Idle);
        let mut parts: Vec<&(TimePart, Change)> =
            self.compared.times.iter().filter(|(part, change)| is_part(part) && large(change)).collect();
        parts.sort_by_key(|part| std::cmp::Reverse(part.1.difference().abs()));
        let told = |(part, change): &(TimePart, Change)| signed(&part.text(), change) + &self.lead(*part, change);
        let mut all: Vec<String> = parts.iter().take(MOST).map(|part| told(part)).collect();
        // Where work of other names takes its place, there is no change to name.
        let is_other =
            matches!(self.compared.verdict, Verdict::Unknown(Unknown::OtherWork(_) | Unknown::OtherOperators(_)));
        let has_names = !is_other && !self.compared.has_whole_graphs && !self.compared.has_compiled;
        let compute = self.compared.times.iter().find(|time| time.0 == TimePart::Compute);
        let work = self.compared.work.iter().map(|one| (&one.name, &one.time));
        let functions = self.compared.functions.iter().map(|one| (&one.name, &one.self_time));
        // Without a device functions are all that has names.
        let named: Vec<_> = match compute {
            Some(compute) => work.filter(|_| large(&compute.1)).collect(),
            None => functions.collect(),
        };
        let named: Vec<_> = named.into_iter().filter(|one| has_names && large(one.1)).take(MOST).collect();
        let names: Vec<_> = named.iter().map(|one| telling(one.0)).collect();
        let names: Vec<&str> = names.iter().map(|name| &**name).collect();
        all.extend(named.iter().zip(&names).map(|(one, name)| {
            let others: Vec<&str> = names.iter().copied().filter(|other| other != name).collect();
            signed(&shortened_apart(name, &others, MAX_NAME), one.1)
        }));
        (!all.is_empty()).then(|| format!("What changed most: {}", all.join("; ")))
    }

    /// How much of the change of a cause is after the wait itself, where that is enough to count.
    fn lead(&self, part: TimePart, change: &Change) -> String {
        /// Of the change: a twentieth.
        const LEAST_PART: DurNs = 20;
        let TimePart::IdleBy(cause) = part else { return String::new() };
        let lead = self.compared.leads.iter().find(|lead| lead.0 == cause).map_or(0, |lead| lead.1.difference());
        if lead == 0 || lead.abs() * LEAST_PART < change.difference().abs() {
            return String::new();
        }
        let sign = if lead < 0 { "\u{2212}" } else { "+" };
        format!(
            " ({sign}{} of it after the wait itself, until the host is ahead of the device again)",
            format::duration(lead.abs())
        )
    }
}
