//! Words that say that data are loaded.
//!
//! A noun such as `batch`, or a verb such as `load`, says nothing alone: steps are called `train_batch`, models have
//! `batch_norm`, checkpoints are loaded. Both together do, in either order: `load_batch`, `data_loading`.

use super::is_one_of;

/// What is loaded.
const DATA: &str = "\
    data batch batches minibatch minibatches microbatch dataset datasets sample samples example examples record \
    records";
/// What may be loaded, but is often worked on, too: `get_input` of a model, `next_image`.
const MEDIA: &str = "input inputs image images video videos audio";
/// Verbs before either of them: `fetch_batch`, `read_images`.
const LOADS: &str = "\
    load loads loading fetch fetches fetching prefetch prefetching read reading preprocess preprocessing augment \
    augmenting collate dequeue";
/// Verbs that need [`DATA`]: `wait_for_batch`.
const GETS: &str = "get getting next wait waiting await prepare preparing iterate";
/// Words between verb and noun: `wait_for_next_training_batch`.
const FILLERS: &str = "\
    for the a an next new one from of on train training val valid validation test eval evaluation mini micro global \
    local host cpu raw input image text";
/// Words that may follow: `get_batch_on_this_rank`. Others change the meaning: `get_batch_size`, `fetch_data_parallel`.
const FOLLOWERS: &str = "\
    for from in on to of time wait iter iterator next async worker thread train training val valid validation test \
    eval preprocess preprocessing item fn impl";
/// What follows the noun directly: `data_loader`, `image_reader`.
const LOADING: &str = "\
    load loader loaders loading fetch fetcher fetching read reader reading prefetch prefetcher prefetching augment \
    augmentation augmentations preprocess preprocessing prep preparation ingest ingestion";
/// What does so after [`DATA`] only: `batch_generator`.
const SUPPLY: &str = "wait waiting iter iterator generator collate collator collation next queue";

/// Whether words say that data are loaded, by verb and noun.
pub fn is_loading(words: &[String]) -> bool {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let has_pair = (0..words.len()).any(|at| begins_with_verb(&words[at..]) || begins_with_noun(&words[at..]));
    has_pair || is_loader(&words)
}

/// `load_batch`, `wait_for_training_batch`.
fn begins_with_verb(words: &[&str]) -> bool {
    let Some((verb, rest)) = words.split_first() else { return false };
    let loads = is_one_of(verb, LOADS);
    if !loads && !is_one_of(verb, GETS) {
        return false;
    }
    let is_noun = |word: &&str| is_one_of(word, DATA) || loads && is_one_of(word, MEDIA);
    let mut at = rest.iter().position(|word| !is_one_of(word, FILLERS)).unwrap_or(rest.len());
    // Some fillers are nouns as well: `load_input`, `load_image_batch`.
    if !rest.get(at).is_some_and(is_noun) {
        let Some(before) = at.checked_sub(1).filter(|&before| is_noun(&rest[before])) else { return false };
        at = before;
    }
    rest.get(at + 1).is_none_or(|next| is_one_of(next, FOLLOWERS))
}

/// `data_loading`, `batch_generator`, `input_pipeline`.
fn begins_with_noun(words: &[&str]) -> bool {
    let [noun, verb, rest @ ..] = words else { return false };
    let is_data = is_one_of(noun, DATA);
    let loads = (is_data || is_one_of(noun, MEDIA)) && is_one_of(verb, LOADING);
    // Unlike `sample_next_token`.
    let supplies = is_data && !noun.starts_with("sample") && is_one_of(verb, SUPPLY);
    let is_source = matches!((*noun, *verb), ("data", "time") | ("data" | "input", "pipeline"));
    // `data_load_balancing`, `batch_reader_state`.
    let is_other = rest.first().is_some_and(|next| next.starts_with("balanc") || *next == "state");
    (loads || supplies || is_source) && !is_other
}

/// `next(loader)`, `train_loader`, `prefetcher.next`. Models and weights have loaders, too.
fn is_loader(words: &[&str]) -> bool {
    let is_supplier = |word: &&str| matches!(*word, "loader" | "loaders" | "fetcher" | "prefetcher");
    let Some(at) = words.iter().position(is_supplier) else { return false };
    let is_known = |word: &&str| {
        is_one_of(word, FILLERS)
            || is_one_of(word, GETS)
            || is_one_of(word, LOADS)
            || is_one_of(word, DATA)
            || *word == "iter"
    };
    words[..at].iter().all(is_known) && words[at + 1..].iter().all(|word| is_one_of(word, FOLLOWERS))
}

/// Whether a whole name stands for loading: a range `data` or `prefetch` in a training loop.
pub(super) fn is_whole_name(words: &[String]) -> bool {
    const NAMES: &str = "data load loading prefetch prefetching collate collatefn preprocess preprocessing";
    is_one_of(&words.concat(), NAMES)
}
