//! Values from a settings file, which may hold anything.

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

/// The stored value with the defaults in place of each part of it that cannot be read or is absent: a wrong field of
/// an object or element of an array costs that one alone.
pub fn lenient<T: Default + Serialize + DeserializeOwned>(saved: &Value) -> T {
    T::deserialize(saved).unwrap_or_else(|_| {
        let Ok(mut good) = serde_json::to_value(T::default()) else { return T::default() };
        adopt::<T>(&mut good, "", saved);
        T::deserialize(good).unwrap_or_default()
    })
}

/// Puts `saved` in the place that `pointer` names in `good`, whole if `T` can then be read, else part by part.
fn adopt<T: DeserializeOwned>(good: &mut Value, pointer: &str, saved: &Value) {
    if tried::<T>(good, pointer, saved.clone()) {
        return;
    }
    match saved {
        Value::Object(fields) => {
            for (name, value) in fields {
                let Some(Value::Object(place)) = good.pointer_mut(pointer) else { return };
                let is_new = !place.contains_key(name);
                if is_new {
                    let empty = if value.is_object() { Value::Object(Map::new()) } else { Value::Null };
                    place.insert(name.clone(), empty);
                }
                adopt::<T>(good, &format!("{pointer}/{}", name.replace('~', "~0").replace('/', "~1")), value);
                if is_new
                    && T::deserialize(&*good).is_err()
                    && let Some(Value::Object(place)) = good.pointer_mut(pointer)
                {
                    place.shift_remove(name);
                }
            }
        }
        // Serde would also read a structure from the list of its values.
        Value::Array(elements) if !good.pointer(pointer).is_some_and(Value::is_object) => {
            let mut kept = Vec::new();
            for element in elements {
                kept.push(element.clone());
                if !tried::<T>(good, pointer, Value::Array(kept.clone())) {
                    kept.pop();
                }
            }
        }
        _ => {}
    }
}

/// Puts `value` in its place if `T` can be read with it there.
fn tried<T: DeserializeOwned>(good: &mut Value, pointer: &str, value: Value) -> bool {
    let Some(place) = good.pointer_mut(pointer) else { return false };
    let before = std::mem::replace(place, value);
    let is_good = T::deserialize(&*good).is_ok();
    if !is_good && let Some(place) = good.pointer_mut(pointer) {
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
}
