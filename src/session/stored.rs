//! Values from a settings file, which may hold anything.

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

/// The stored value with the defaults in place of each part of it that cannot be read or is absent: a wrong field of
/// an object or element of an array costs that one alone.
pub fn lenient<T: Default + Serialize + DeserializeOwned>(saved: &Value) -> T {
    T::deserialize(saved).unwrap_or_else(|_| {
        let Ok(mut default) = serde_json::to_value(T::default()) else { return T::default() };
        readable::<T>(&mut default, "", saved).and_then(|good| T::deserialize(good).ok()).unwrap_or_default()
    })
}

/// What of `saved` can be read in the place that `pointer` names in the `default` of `T`: all of it, or else part by
/// part.
///
/// Each part is tried among defaults, not among the others, so that a file of many parts does not take its square.
fn readable<T: DeserializeOwned>(default: &mut Value, pointer: &str, saved: &Value) -> Option<Value> {
    if is_good::<T>(default, pointer, saved.clone()) {
        return Some(saved.clone());
    }
    let place = default.pointer(pointer)?;
    let good = match saved {
        Value::Object(fields) => {
            let mut all = place.as_object()?.clone();
            for (name, value) in fields {
                let is_new = !all.contains_key(name);
                if is_new {
                    let empty = if value.is_object() { Value::Object(Map::new()) } else { Value::Null };
                    default.pointer_mut(pointer)?.as_object_mut()?.insert(name.clone(), empty);
                }
                let within = format!("{pointer}/{}", name.replace('~', "~0").replace('/', "~1"));
                if let Some(value) = readable::<T>(default, &within, value) {
                    all.insert(name.clone(), value);
                }
                if is_new {
                    default.pointer_mut(pointer)?.as_object_mut()?.shift_remove(name);
                }
            }
            Value::Object(all)
        }
        // Serde would also read a structure from the list of its values.
        Value::Array(elements) if !place.is_object() => {
            let is_good = |element: &&Value| is_good::<T>(default, pointer, vec![(*element).clone()].into());
            elements.iter().filter(is_good).cloned().collect()
        }
        _ => return None,
    };
    is_good::<T>(default, pointer, good.clone()).then_some(good)
}

/// Whether `T` can be read with `value` in that place of its `default`.
fn is_good<T: DeserializeOwned>(default: &mut Value, pointer: &str, value: Value) -> bool {
    let Some(place) = default.pointer_mut(pointer) else { return false };
    let before = std::mem::replace(place, value);
    let is_good = T::deserialize(&*default).is_ok();
    if let Some(place) = default.pointer_mut(pointer) {
        *place = before;
    }
    is_good
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde::Deserialize;
    use serde_json::json;

    use super::*;

    #[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
    #[serde(default)]
    struct Outer {
        n: u8,
        names: Vec<String>,
        inner: BTreeMap<String, Vec<u8>>,
    }

    #[test]
    fn one_wrong_value_costs_that_value_alone() {
        let of = |n: u8, names: &[&str], inner: &[(&str, &[u8])]| Outer {
            n,
            names: names.iter().map(ToString::to_string).collect(),
            inner: inner.iter().map(|(name, of)| ((*name).to_owned(), of.to_vec())).collect(),
        };
        for (saved, expected) in [
            (json!({"n": 3, "names": ["a"], "new": []}), of(3, &["a"], &[])),
            (json!({"n": 300, "names": ["a", 7, "b"]}), of(0, &["a", "b"], &[])),
            (
                json!({"n": "x", "inner": {"a/b": [1, -1, 2], "c": [5], "d": 1}}),
                of(0, &[], &[("a/b", &[1, 2]), ("c", &[5])]),
            ),
            (json!({"n": null, "names": {"a": 1}}), Outer::default()),
            (json!(["x", 2]), Outer::default()),
            (json!("no object"), Outer::default()),
        ] {
            assert_eq!(lenient::<Outer>(&saved), expected, "{saved}");
        }
    }

    #[test]
    fn many_values_beside_a_wrong_one_take_no_square_of_time() {
        let n = 100_000;
        let names: Vec<Value> = (0..n).map(|i| if i == n / 2 { json!(7) } else { json!("a") }).collect();
        let inner: Map<String, Value> = (0..n).map(|i| (i.to_string(), json!(if i == 9 { -1 } else { 1 }))).collect();
        let inner: Map<String, Value> = inner.into_iter().map(|(key, value)| (key, json!([value]))).collect();
        let read = lenient::<Outer>(&json!({"n": 3, "names": names, "inner": inner}));
        assert_eq!((read.n, read.names.len(), read.inner.len()), (3, n - 1, n));
        assert!(read.inner["9"].is_empty());
    }
}
