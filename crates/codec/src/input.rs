//! The inputs of a verb, read from JSON. An integer may be a JSON integer or a decimal string. Unknown names are
//! ignored.

use kent_ids::{ClusterKey, CodecError, ErrorCode, Inputs, Uuid, dce};
use serde_json::{Map, Value};

/// The inputs of a verb.
#[derive(Clone, Copy)]
pub(crate) struct Input<'a>(&'a Map<String, Value>);

/// An integer of any size.
struct Integer {
    negative: bool,
    /// The absolute value, or `None` if it is 2^128 or more.
    magnitude: Option<u128>,
}

impl<'a> Input<'a> {
    pub(crate) fn new(object: &'a Map<String, Value>) -> Self {
        Self(object)
    }

    /// Returns whether there is an input with this name. A null counts as missing.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.0.get(name).is_some_and(|value| !value.is_null())
    }

    /// Returns the string with this name.
    pub(crate) fn text(&self, name: &str) -> Result<&'a str, CodecError> {
        self.value(name)?.as_str().ok_or_else(|| bad_input(name, "must be a string"))
    }

    /// Returns the object with this name.
    pub(crate) fn object(&self, name: &str) -> Result<Self, CodecError> {
        self.value(name)?.as_object().map(Self).ok_or_else(|| bad_input(name, "must be an object"))
    }

    /// Returns the list with this name.
    pub(crate) fn list(&self, name: &str) -> Result<&'a [Value], CodecError> {
        self.value(name)?.as_array().map(Vec::as_slice).ok_or_else(|| bad_input(name, "must be a list"))
    }

    /// Returns the boolean with this name; false if the input is missing.
    pub(crate) fn flag(&self, name: &str) -> Result<bool, CodecError> {
        match self.has(name) {
            false => Ok(false),
            true => self.value(name)?.as_bool().ok_or_else(|| bad_input(name, "must be true or false")),
        }
    }

    /// Returns the number with this name, which must be below `2^bits`; `bits` is at most 128.
    pub(crate) fn wide(&self, name: &str, bits: u32) -> Result<u128, CodecError> {
        let integer = self.integer(name)?;
        match integer.magnitude {
            Some(value) if !integer.negative && value.checked_shr(bits).unwrap_or(0) == 0 => Ok(value),
            _ => Err(range(name, &format!("must be from 0 to 2^{bits} - 1"))),
        }
    }

    /// Returns the number with this name, from -2^127 + 1 to 2^127 - 1.
    pub(crate) fn signed(&self, name: &str) -> Result<i128, CodecError> {
        let integer = self.integer(name)?;
        let magnitude = integer.magnitude.and_then(|magnitude| i128::try_from(magnitude).ok());
        let magnitude = magnitude.ok_or_else(|| range(name, "must be from -2^127 + 1 to 2^127 - 1"))?;
        Ok(if integer.negative { -magnitude } else { magnitude })
    }

    /// Returns the input `name` as a UUID. The text must have the canonical form, in upper or lower case.
    pub(crate) fn uuid(&self, name: &str) -> Result<Uuid, CodecError> {
        dce::parse(self.text(name)?)
    }

    /// Returns the input `name` as 16 bytes. The text must be hexadecimal.
    pub(crate) fn bytes(&self, name: &str) -> Result<[u8; 16], CodecError> {
        Ok(dce::parse_hex(self.text(name)?, 16)?.to_be_bytes())
    }

    /// Returns the key of the permutations.
    pub(crate) fn key(&self) -> Result<ClusterKey, CodecError> {
        self.bytes("key").map(ClusterKey::new)
    }

    /// Returns the value with this name, of any type.
    pub(crate) fn value(&self, name: &str) -> Result<&'a Value, CodecError> {
        self.0.get(name).filter(|value| !value.is_null()).ok_or_else(|| bad_input(name, "is missing"))
    }

    fn integer(&self, name: &str) -> Result<Integer, CodecError> {
        let text = match self.value(name)? {
            Value::String(text) => text.clone(),
            Value::Number(number) => number.to_string(),
            _ => return Err(bad_integer(name)),
        };
        let digits = text.strip_prefix('-').unwrap_or(&text);
        if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(bad_integer(name));
        }
        let magnitude = digits.parse().ok();
        Ok(Integer { negative: digits.len() < text.len() && magnitude != Some(0), magnitude })
    }
}

impl Inputs for Input<'_> {
    fn has(&self, name: &'static str) -> bool {
        Input::has(self, name)
    }

    fn int(&self, name: &'static str) -> Result<i128, CodecError> {
        self.signed(name)
    }

    fn text(&self, name: &'static str) -> Result<&str, CodecError> {
        Input::text(self, name)
    }
}

fn bad_integer(name: &str) -> CodecError {
    bad_input(name, "must be an integer, written as a JSON integer or as a string of decimal digits")
}

fn bad_input(name: &str, problem: &str) -> CodecError {
    CodecError::new(ErrorCode::BadInput, format!("{name:?} {problem}"))
}

fn range(name: &str, problem: &str) -> CodecError {
    CodecError::new(ErrorCode::Range, format!("{name:?} {problem}"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(value: Value, bits: u32, expected: Result<u128, ErrorCode>) {
        let object = Map::from_iter([("n".to_owned(), value)]);
        assert_eq!(Input::new(&object).wide("n", bits).map_err(|error| error.code()), expected);
    }

    #[test]
    fn ok_integers_in_either_form() {
        check(json!(7), 3, Ok(7));
        check(json!("7"), 3, Ok(7));
        check(json!("007"), 3, Ok(7));
        check(json!("-0"), 3, Ok(0));
        check(json!(0), 0, Ok(0));
        check(json!(u128::MAX.to_string()), 128, Ok(u128::MAX));
    }

    #[test]
    fn err_integers_that_do_not_fit() {
        check(json!(8), 3, Err(ErrorCode::Range));
        check(json!(1), 0, Err(ErrorCode::Range));
        check(json!(-1), 3, Err(ErrorCode::Range));
        check(json!("-1"), 3, Err(ErrorCode::Range));
        check(json!("340282366920938463463374607431768211456"), 128, Err(ErrorCode::Range));
    }

    #[test]
    fn err_values_that_are_not_integers() {
        for value in
            [json!(""), json!("-"), json!("+7"), json!(" 7"), json!("0x7"), json!("1e3"), json!(1.0), json!(1e300)]
        {
            check(value, 64, Err(ErrorCode::BadInput));
        }
        for value in [json!(true), json!(null), json!([7]), json!({})] {
            check(value, 64, Err(ErrorCode::BadInput));
        }
    }
}
