//! Labels of causes of idle time: those of the classes of gaps wherever they coincide.

use super::Cause;
use crate::analysis::gaps::{GapClass, Trigger};

impl Cause {
    /// The class of most gaps of this cause, whose name it has where the two coincide.
    pub fn class(self) -> GapClass {
        match self {
            Self::DataLoading => GapClass::DataLoading,
            Self::Collective => GapClass::Collective,
            Self::Synchronization => GapClass::Sync,
            Self::LaunchBound => GapClass::Launch,
            Self::Host => GapClass::CpuOp,
            Self::Copy => GapClass::Copy,
            Self::Allocator => GapClass::Allocator,
            Self::ModuleLoad => GapClass::ModuleLoad,
            Self::GarbageCollection => GapClass::Gc,
            Self::StepBoundary => GapClass::Python,
            Self::Dependency => GapClass::Dependency,
            Self::Blocked => GapClass::Blocked,
            Self::Queued => GapClass::Queued,
            Self::Unexplained => GapClass::Unknown,
            Self::Profiler => GapClass::Profiler,
            Self::Latency => GapClass::LaunchLatency,
        }
    }

    /// For people: the name of the class or of the trigger that it is, and a name of its own where it is several.
    pub fn label(self) -> &'static str {
        match self {
            Self::LaunchBound => Trigger::LaunchBound.label(),
            Self::StepBoundary => Trigger::StepBoundary.label(),
            Self::Host => "CPU operators and Python",
            _ => self.class().label(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    #[test]
    fn no_two_causes_have_one_name_and_no_name_means_two_things() {
        let mut causes: HashMap<&str, Cause> = HashMap::new();
        for cause in Cause::ALL {
            assert!(causes.insert(cause.label(), cause).is_none(), "{}", cause.label());
            // The rule about copies measures time in which the device copies as well.
            let rule = cause.rule().filter(|_| cause != Cause::Copy);
            assert!(rule.is_none_or(|rule| rule.label() == cause.label()), "{cause:?}");
        }
        for class in GapClass::ALL {
            let same = causes.get(class.label());
            assert!(same.is_none_or(|cause| cause.class() == class), "{class:?} and {same:?}");
        }
    }
}
