//! Why a device waits, in words.

use crate::analysis::rules::{Hit, Rule};

/// Why a device waits, after that word, and whether that is inferred; `None` as for [`why`].
pub fn why_of(hit: &Hit) -> Option<&'static str> {
    let is_inferred = hit.is_inferred();
    match hit.rule {
        Rule::Synchronization | Rule::HostBound | Rule::Blocked if hit.is_saving() => {
            Some("while the host writes a checkpoint")
        }
        Rule::ModuleLoad if is_inferred => Some("while code is probably compiled or loaded"),
        Rule::Blocked if is_inferred => Some("while the host is off the CPU, probably blocked in the operating system"),
        Rule::Blocked if hit.is_waiting() => {
            Some("while the host waits for another thread, a process or a socket, and asks nothing of it")
        }
        Rule::Dependency if hit.is_for_another_device() => {
            Some("for work of another GPU, of which its own needs the results")
        }
        Rule::Unexplained if hit.is_on_cpu() => {
            Some("while all that was recorded of the host is that its thread ran on a CPU")
        }
        rule => why(rule),
    }
}

/// Why a device waits, after that word; `None` for rules that are not about idle time alone.
pub fn why(rule: Rule) -> Option<&'static str> {
    Some(match rule {
        Rule::DataLoading => "for data",
        Rule::CollectiveCalls => "while the host is in calls of collectives",
        Rule::LaunchBound => "because the host launches work more slowly than the device runs it",
        Rule::Synchronization => "because the host waited for it and had nothing queued",
        Rule::HostBound => "while the host runs operators, Python or named ranges",
        Rule::Allocator => "while device memory is allocated or freed",
        Rule::ModuleLoad => "while code is compiled or loaded",
        Rule::GarbageCollection => "while Python collects garbage",
        Rule::StepBoundary => "where one step ends and the next begins",
        Rule::Dependency => "with work of one stream waiting for another",
        Rule::Queued => "for work that was launched, and nothing recorded says what held it up",
        Rule::Blocked => "while the host is blocked in the operating system",
        Rule::Unexplained => "while nothing was recorded of what the host did",
        Rule::Profiler => "for the profiler itself",
        _ => return None,
    })
}

/// Whether the work that a device waits for was launched already, so that it does not wait for the host.
pub fn is_launched(rule: Rule) -> bool {
    matches!(rule, Rule::Queued | Rule::Dependency)
}
