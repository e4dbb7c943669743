//! Deserialization of quantities without copying the text.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::Number;

use super::{Quantity, QuantityError};

impl<'de> Deserialize<'de> for Quantity {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(QuantityVisitor)
    }
}

/// Accepts the same values as [`Quantity::from_json`], with the same errors.
struct QuantityVisitor;

impl<'de> Visitor<'de> for QuantityVisitor {
    type Value = Quantity;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a quantity")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Quantity, E> {
        Quantity::parse(text.trim()).map_err(E::custom)
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<Quantity, E> {
        self.visit_str(&number.to_string())
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<Quantity, E> {
        self.visit_str(&number.to_string())
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<Quantity, E> {
        let number = Number::from_f64(number).ok_or_else(|| E::custom(QuantityError::Format))?;
        self.visit_str(&number.to_string())
    }

    fn visit_unit<E: Error>(self) -> Result<Quantity, E> {
        Ok(Quantity::ZERO)
    }

    fn visit_bool<E: Error>(self, _: bool) -> Result<Quantity, E> {
        Err(E::custom(QuantityError::Format))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Quantity, A::Error> {
        while items.next_element::<IgnoredAny>()?.is_some() {}
        Err(A::Error::custom(QuantityError::Format))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Quantity, A::Error> {
        while entries.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Err(A::Error::custom(QuantityError::Format))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    #[test]
    fn deserialization_from_json_and_from_a_value_agree() {
        for json in [
            "null",
            "true",
            "\"1Gi\"",
            "\" 1 \"",
            "\"1x\"",
            "\"\\u0031\"",
            "5",
            "-5",
            "1.50",
            "1e3",
            "1e400",
            "18446744073709551616",
            "[]",
            "[1]",
            "{}",
            "{\"a\": 1}",
        ] {
            let Ok(value) = serde_json::from_str::<Value>(json) else {
                serde_json::from_str::<Quantity>(json).expect_err(json);
                continue;
            };
            let want = Quantity::from_json(&value).map(|quantity| quantity.to_string());
            let got = serde_json::from_str::<Quantity>(json).map(|quantity| quantity.to_string());
            let got_from_value = Quantity::deserialize(&value).map(|quantity| quantity.to_string());
            for got in [got, got_from_value] {
                match (&want, got) {
                    (Ok(want), Ok(got)) => assert_eq!(got, *want, "{json}"),
                    (Err(want), Err(got)) => {
                        assert!(
                            got.to_string().starts_with(&want.to_string()),
                            "{json}: {got}"
                        );
                    }
                    (want, got) => panic!("{json}: {want:?}, {got:?}"),
                }
            }
        }
    }
}
