//! Names short enough for a sentence.

use crate::figures::text::{frame_within, shortened_apart, tells_file};

/// Most letters of a name in a sentence: those of Tensile's kernels have hundreds.
const MAX_NAME: usize = 60;

/// A name short enough for a sentence: of a frame its function and the end of its path, of others the start.
pub fn clipped(name: &str) -> String {
    let n = name.chars().count();
    if n <= MAX_NAME {
        return name.to_owned();
    }
    if name.ends_with(')') && tells_file(name) {
        return frame_within(name, MAX_NAME);
    }
    if name.contains(".py(") || name.contains(".py:") {
        return format!("\u{2026}{}", name.chars().skip(n - MAX_NAME).collect::<String>());
    }
    format!("{}\u{2026}", name.chars().take(MAX_NAME).collect::<String>())
}

/// The same for several names in one sentence: different ones that would look the same are cut where they differ.
pub fn clipped_apart(names: &[&str]) -> Vec<String> {
    let cut: Vec<String> = names.iter().map(|name| clipped(name)).collect();
    let apart = |(i, name): (usize, &&str)| {
        let alike = names.iter().zip(&cut).filter(|(other, short)| **short == cut[i] && *other != name);
        let alike: Vec<&str> = alike.map(|(other, _)| *other).collect();
        if alike.is_empty() { cut[i].clone() } else { shortened_apart(name, &alike, MAX_NAME) }
    };
    names.iter().enumerate().map(apart).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_keep_their_function() {
        let path = "/home/me/a_project/with/many/folders/data/loading/worker.py";
        let short = clipped(&format!("Worker.fetch_next ({path}:88)"));
        assert!(short.starts_with("Worker.fetch_next (…") && short.ends_with("worker.py:88)"), "{short}");
        assert!(clipped(&format!("{path}(88): fetch_next")).ends_with("worker.py(88): fetch_next"));
    }

    #[test]
    fn different_names_stay_different() {
        let tensile = |tile: &str| {
            format!("Cijk_Ailk_Bljk_BBS_BH_Bias_AS_SAV_UserArgs_MT256x256x32_MI16x16x1_{tile}_WS64_{}", "x".repeat(90))
        };
        let [a, b] = [tensile("WG32_8_1"), tensile("WG64_4_1")];
        assert_eq!(clipped(&a), clipped(&b));
        let [of_a, of_b] = &clipped_apart(&[&a, &b])[..] else { panic!() };
        assert_ne!(of_a, of_b);
        assert!(
            of_a.starts_with("Cijk_Ailk_Bljk_BBS_B") && of_a.contains("\u{2026}") && of_a.contains("WG32_8_1"),
            "{of_a}"
        );
        assert!(of_a.chars().count() <= MAX_NAME, "{of_a}");
        assert_eq!(clipped_apart(&[&a, &a]), [clipped(&a), clipped(&a)], "one name twice");
        assert_eq!(clipped_apart(&[&a, "gemm"]), [clipped(&a), "gemm".to_owned()]);
        let [early, late] = [format!("{}a", "y".repeat(80)), format!("{}b", "y".repeat(80))];
        assert_ne!(clipped_apart(&[&early, &late])[0], clipped_apart(&[&early, &late])[1]);
        let frame = |folder: &str| format!("/{folder}/{}.py(7): forward", "model".repeat(14));
        let [of_a, of_b] = [frame("first"), frame("other")];
        assert_ne!(clipped_apart(&[&of_a, &of_b])[0], clipped_apart(&[&of_a, &of_b])[1]);
    }
}
