//! Frames of call stacks where room is short.

use super::shortened;
use crate::analysis::frame::Frame;

/// Between frames of one text.
const BETWEEN: &str = "; ";
/// Before a frame that calls the one before it, and before one that is called by it.
const WAYS: [&str; 2] = ["from ", "via "];
/// The fewest characters for each of several frames.
const LEAST: usize = 24;
/// In fewer, no file can be told.
const LEGIBLE: usize = 6;

/// Whether a frame says in which file its function is. Cost: O(length).
pub fn tells_file(frame: &str) -> bool {
    !Frame::of(frame).file.is_empty()
}

/// A frame in at most `max` characters: its function and the end of its path, or the function alone; of a function that
/// is longer than that its name without arguments. Cost: O(length).
pub fn frame_within(frame: &str, max: usize) -> String {
    if frame.chars().nth(max).is_none() {
        return frame.to_owned();
    }
    let Frame { function, file, line } = Frame::of(frame);
    if file.is_empty() {
        return function_within(function, max);
    }
    let line = if line > 0 { format!(":{line}") } else { String::new() };
    let is_long = function.chars().nth(max).is_some();
    let name = function_within(function, if is_long { max / 2 } else { max });
    let room = max.saturating_sub(name.chars().count() + line.len() + 3);
    if room < LEGIBLE {
        return function_within(function, max);
    }
    let n = file.chars().count();
    let file = match n.checked_sub(room) {
        None | Some(0) => file.to_owned(),
        Some(over) => std::iter::once('…').chain(file.chars().skip(over + 1)).collect(),
    };
    // As the profiler writes it, or as stacks do.
    if frame.ends_with(')') { format!("{name} ({file}{line})") } else { format!("{file}({}): {name}", &line[1..]) }
}

/// A function in at most `max` characters: of a method of Python the last of its names, which tell most:
/// `…lock.acquire`.
fn function_within(function: &str, max: usize) -> String {
    let is_dotted = !function.contains("::") && !function.contains(['(', ' ']);
    if function.chars().nth(max).is_none() || !is_dotted {
        return shortened(function, max);
    }
    // Numbers after a dot are no names: `fusion.12`.
    let is_name = |end: &&str| end.starts_with(|c: char| c.is_alphabetic() || c == '_');
    let mut ends = function.match_indices('.').map(|(at, _)| &function[at + 1..]).filter(is_name);
    let end = ends.clone().find(|end| end.chars().nth(max.saturating_sub(1)).is_none());
    match (end, ends.next_back()) {
        (Some(end), _) => format!("…{end}"),
        (None, Some(last)) => shortened(last, max),
        (None, None) => shortened(function, max),
    }
}

/// Frames such as `f (a.py:1); from g (b.py:2)` in at most `max` characters. Each keeps its function and its line, or
/// is left out: one cut through several would pair the function of the first with the line of the last. `None` if it is
/// no list of frames with files.
pub(super) fn frames_within(text: &str, max: usize) -> Option<String> {
    // What follows the first says how it is reached, or how it differs from others: `from g (b.py:2)`, `in /me`.
    let first = text.split(BETWEEN).next()?;
    let is_frame = first.ends_with(')') || first.len() < text.len();
    if !is_frame || Frame::of(first).file.is_empty() {
        return None;
    }
    let mut parts: Vec<String> = text.split(BETWEEN).map(ToOwned::to_owned).collect();
    let n = parts.len().min(max / LEAST).max(1);
    let more = if n < parts.len() { format!("{BETWEEN}…") } else { String::new() };
    parts.truncate(n);
    let mut room = max.saturating_sub((n - 1) * BETWEEN.len() + more.chars().count());
    let mut order: Vec<usize> = (0..n).collect();
    order.sort_by_key(|&i| parts[i].chars().count());
    for (k, i) in order.into_iter().enumerate() {
        let part = &parts[i];
        let own = room / (n - k);
        let (way, frame) = way_and_frame(part);
        let cut = format!("{way}{}", frame_within(frame, own.saturating_sub(way.len())));
        room = room.saturating_sub(cut.chars().count());
        parts[i] = cut;
    }
    Some(parts.join(BETWEEN) + &more)
}

/// The first of several frames and that which tells them from others of which [`frames_within`] shows the same, in at
/// most `max` characters: `f (a.py:1); …; via c`; without room for both the latter, `…; via c`. `None` if no frame but
/// the first does.
pub(super) fn frames_apart(text: &str, others: &[&str], max: usize) -> Option<String> {
    let parts: Vec<&str> = text.split(BETWEEN).collect();
    let is_telling = |&i: &usize| others.iter().all(|other| other.split(BETWEEN).nth(i) != Some(parts[i]));
    let telling = (1..parts.len()).find(is_telling)?;
    let between = if telling > 1 { "…; " } else { "" };
    let cut = frames_within(&[parts[0], parts[telling]].join(BETWEEN), max.checked_sub(between.chars().count())?)?;
    let (first, other) = cut.split_once(BETWEEN)?;
    if other != "…" {
        return Some([first, BETWEEN, between, other].concat());
    }
    let (way, frame) = way_and_frame(parts[telling]);
    let room = max.checked_sub("…; ".chars().count() + way.len()).filter(|&room| room >= LEGIBLE)?;
    Some(format!("…; {way}{}", frame_within(frame, room)))
}

pub(super) fn way_and_frame(part: &str) -> (&str, &str) {
    let way = WAYS.into_iter().find(|way| part.starts_with(way)).unwrap_or_default();
    part.split_at(way.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_frames_keep_their_function_and_the_end_of_their_path() {
        const MOST: usize = 64;
        let cut = |frame: &str| frame_within(frame, MOST);
        let args = "(c10::ArrayRef<long>, std::optional<c10::Layout>, std::optional<c10::Device>, std::optional<bool>)";
        assert_eq!(cut(&format!("at::_ops::empty_strided::call{args}")), "empty_strided::call");
        let node =
            "torch::autograd::generated::BmmBackward0::apply(std::vector<at::Tensor, std::allocator<at::Tensor> >&&)";
        assert_eq!(cut(node), "BmmBackward0::apply");
        assert_eq!(cut(&format!("at::native::empty_strided_cuda{args} (??)")), "empty_strided_cuda");
        assert_eq!(
            cut(&format!("at::(anonymous namespace)::create_out{args} (RegisterCUDA_0.cpp:0)")),
            "create_out (RegisterCUDA_0.cpp)"
        );
        assert_eq!(cut("forward (model.py:12)"), "forward (model.py:12)");
        let deep = format!("forward (/home/me/{}model.py:12)", "a_folder/".repeat(20));
        let short = cut(&deep);
        assert!(short.starts_with("forward (…") && short.ends_with("r/model.py:12)"), "{short}");
        assert_eq!(short.chars().count(), MOST);
        assert!(cut(&"ö".repeat(500)).chars().count() <= MOST);
    }

    #[test]
    fn functions_as_the_profiler_names_them_lose_their_folders_first() {
        let text = "library/model_hub/huggingface/adapter.py(120): run_on_input; via nn.Module: Linear";
        assert_eq!(
            frames_within(text, 70).unwrap(),
            "…_hub/huggingface/adapter.py(120): run_on_input; via nn.Module: Linear"
        );
        assert_eq!(frame_within("torch/nn/modules/module.py(9): _call_impl", 30), "…ules/module.py(9): _call_impl");
        assert_eq!(frame_within("torch/nn/modules/module.py(9): _call_impl", 12), "_call_impl");
    }

    #[test]
    fn the_function_stays_where_room_is_short() {
        let frame = "BaseSelector._poll_events (/opt/python/lib/python3.13/selectors.py:452)";
        let whole_function = "BaseSelector._poll_events";
        for max in 25..frame.chars().count() {
            let short = frame_within(frame, max);
            assert!(short.starts_with(whole_function) && short.chars().count() <= max, "{max}: {short}");
        }
        assert_eq!(frame_within(frame, 24), "…_poll_events");
        assert_eq!(frame_within("_thread.RLock.release", 14), "…RLock.release");
        assert_eq!(frame_within("train.<locals>.closure (/work/train.py:3)", 10), "…closure");
        assert!(frame_within("loop_multiply_fusion.1204", 12).starts_with("loop_"));
        assert_eq!(frame_within("Model.a_function_with_a_long_name", 12), "a_funct…name");
    }

    #[test]
    fn of_several_frames_the_one_that_tells_them_apart_stays() {
        let name = |last: &str| {
            format!("forward (/home/me/a/long/folder/model.py:39); from forward (/home/me/a/model.py:399); via {last}")
        };
        let [a, b] = [name("at::native::einsum"), name("at::native::to")];
        assert_eq!(shortened(&a, 57), shortened(&b, 57));
        assert_eq!(frames_apart(&a, &[&b], 57).unwrap(), "forward (…/folder/model.py:39); …; via at::native::einsum");
        assert_eq!(frames_apart(&b, &[&a], 57).unwrap(), "forward (…long/folder/model.py:39); …; via at::native::to");
        assert_eq!(frames_apart(&a, &[&a], 57), None);
        // Where there is room for one alone, the function of the first does not get the line of the last.
        assert_eq!(frames_apart(&b, &[&a], 25).unwrap(), "…; via at::native::to");
        let [c, d] =
            [20, 171].map(|line| format!("allocate (backend.py:9); from init (/home/me/folder/opt.py:{line})"));
        assert_eq!(frames_apart(&c, &[&d], 28).unwrap(), "…; from init (…er/opt.py:20)");
    }

    #[test]
    fn each_of_several_frames_keeps_its_function_and_its_line() {
        let text = "allocate (/home/me/FlexGen/flexgen/pytorch_backend.py:195); from init_weight \
                    (/home/me/FlexGen/flexgen/flex_opt.py:507)";
        for max in 74..110 {
            let short = shortened(text, max);
            assert!(short.chars().count() <= max, "{max}: {short}");
            let (callee, caller) = short.split_once("; from ").unwrap();
            assert!(callee.starts_with("allocate (") && callee.ends_with("pytorch_backend.py:195)"), "{max}: {short}");
            assert!(caller.starts_with("init_weight (") && caller.ends_with("flex_opt.py:507)"), "{max}: {short}");
        }
        let via = text.replace("; from ", "; via ");
        let short = shortened(&via, 80);
        assert!(short.contains("pytorch_backend.py:195); via init_weight (") && short.chars().count() <= 80, "{short}");
        let native = "step (/home/me/a/long/folder/train.py:9); via mm_out_cuda";
        assert_eq!(shortened(native, 48), "step (…/long/folder/train.py:9); via mm_out_cuda");
        assert_eq!(shortened(text, 40), "allocate (…en/pytorch_backend.py:195); …");
        let folder = "softmax (/home/me/a/long/folder/model.py:6); in /home/me/a/long/folder";
        assert_eq!(shortened(folder, 56), "softmax (…/folder/model.py:6); in /home/me/a/long/folder");
        assert_eq!(shortened("f (/home/me/a/long/folder/model.py:9)", 24), "f (…g/folder/model.py:9)");
    }
}
