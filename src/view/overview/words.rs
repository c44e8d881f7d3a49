//! Texts of the overview.

use crate::analysis::gaps::clusters::{Clusters, GapCluster};
use crate::figures::format;

/// What a cluster takes and what ending it would gain: per step, or in all where there are no judged steps.
pub fn numbers(clusters: &Clusters, cluster: &GapCluster) -> String {
    let (n, sum) = (clusters.n_steps, &cluster.sum);
    let in_all = || format!("{}, {} in all", format::of_things(sum.count, "gap"), format::duration(sum.total_ns));
    let Some(per_step) = sum.ns_per_step(n) else { return in_all() };
    if sum.steps_present == 0 {
        return format!("{}, outside of the judged steps", in_all());
    }
    let per_step = format!("{} per step", format::duration(per_step));
    let steps = format!("in {} of {}", sum.steps_present, format::steps(n));
    match sum.ceiling_ns_per_step(n).filter(|&ns| ns > 0) {
        Some(ns) => format!("{per_step}, {steps}; ending it saves at most {} of that", format::duration(ns)),
        None => format!("{per_step}, {steps}; what would end it is not recorded"),
    }
}

/// Between what a cluster lies, and where the host is meanwhile.
///
/// * `name`: how names are written.
pub fn place(clusters: &Clusters, cluster: &GapCluster, name: impl Fn(&str) -> String) -> String {
    let [prev, next, frame] = [cluster.prev, cluster.next, cluster.frame].map(|id| name(clusters.name(id)));
    let host: Vec<String> = [name(clusters.op(cluster)), frame].into_iter().filter(|text| !text.is_empty()).collect();
    let host = if host.is_empty() { String::new() } else { format!("; host in {}", host.join(" at ")) };
    format!("Between {prev} and {next}{host}")
}
