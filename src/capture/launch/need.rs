//! What a recorder needs although the program runs without it: looked for before the start.

use crate::capture::{cupti, nsys, pytorch};

/// What a recorder needs, and all that the answer to whether it is there depends on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Need {
    #[default]
    Nothing,
    /// torch, in the Python of the command.
    Torch(pytorch::Interpreter),
    /// The driver of CUDA.
    Driver,
    /// The driver, and libcupti.
    Cupti(cupti::Search),
}

impl Need {
    /// A sentence about what is missing and how to get it; nothing if all is there. May start Python, and wait for it.
    pub fn missing(&self) -> Option<String> {
        match self {
            Self::Nothing => None,
            Self::Torch(python) => python.lacks_torch(),
            Self::Driver => without_driver("nsys records nothing of CUDA"),
            Self::Cupti(search) => without_driver("only NVTX ranges are recorded").or_else(|| {
                (!search.finds()).then(|| {
                    "No libcupti was found, so CUDA is recorded only if the program brings one: it comes with the CUDA \
                     toolkit, or with `pip install nvidia-cuda-cupti`; LACUNA_CUPTI can name it"
                        .to_owned()
                })
            }),
        }
    }
}

/// * `so`: what follows where there is no driver.
fn without_driver(so: &str) -> Option<String> {
    (!nsys::has_driver()).then(|| {
        format!(
            "There is no NVIDIA driver here, so {so}: install it; in a container, start it with access to the GPUs \
             (--gpus all)"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_one_sentence_with_what_to_do() {
        let search = || cupti::Search::of(None, |name| (name == "LACUNA_CUPTI").then(|| "/no/such/libcupti.so".into()));
        assert_eq!(Need::Nothing.missing(), None);
        let [driver, library] = [Need::Driver, Need::Cupti(search())].map(|need| need.missing());
        assert_eq!(driver.is_none(), nsys::has_driver());
        let library = library.unwrap();
        assert!(driver.is_none_or(|said| said.contains("so nsys records nothing of CUDA: install it")));
        let way = if nsys::has_driver() {
            "pip install nvidia-cuda-cupti"
        } else {
            "only NVTX ranges are recorded: install it"
        };
        assert!(library.contains(way) && !library.contains(". "), "{library}");
    }
}
