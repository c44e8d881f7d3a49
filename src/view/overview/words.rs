//! Texts of the overview.

use crate::analysis::gaps::clusters::{Clusters, GapCluster};
use crate::figures::format;

/// A cluster: time per step, in how many steps, between what, and what ending it would gain.
pub fn cluster(clusters: &Clusters, cluster: &GapCluster) -> String {
    let n = clusters.n_steps;
    let per_step = format::duration(cluster.sum.ns_per_step(n).unwrap_or_default());
    let ceiling = cluster.sum.ceiling_ns_per_step(n).filter(|&ns| ns > 0);
    let gain = match ceiling {
        Some(ns) => format!("ending it gains at most {} per step", format::duration(ns)),
        None => "what would end it is not recorded".to_owned(),
    };
    let [prev, next] = [cluster.prev, cluster.next].map(|name| clusters.name(name));
    let place = [clusters.op(cluster), clusters.name(cluster.frame)].into_iter().filter(|text| !text.is_empty());
    let place: Vec<&str> = place.collect();
    let host = if place.is_empty() { String::new() } else { format!("; host in {}", place.join(" at ")) };
    format!(
        "{per_step} per step in {} of {}, between {prev} and {next}{host}; {gain}",
        cluster.sum.steps_present,
        format::steps(n),
    )
}
