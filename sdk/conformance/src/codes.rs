//! The names of gRPC codes, as in the gRPC documentation.

use tonic::Code;

/// Returns the name of a code, such as `NOT_FOUND`.
pub fn name(code: Code) -> String {
    format!("{code:?}").chars().fold(String::new(), |mut text, letter| {
        if letter.is_uppercase() && !text.is_empty() {
            text.push('_');
        }
        text.extend(letter.to_uppercase());
        text
    })
}

/// Returns the code with this name, if it is an error code.
pub fn parse(text: &str) -> Option<Code> {
    (1..=16).map(Code::from_i32).find(|code| name(*code) == text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ok_codes_have_the_names_of_the_grpc_documentation() {
        for (text, expected) in [
            ("UNAVAILABLE", Some(Code::Unavailable)),
            ("FAILED_PRECONDITION", Some(Code::FailedPrecondition)),
            ("RESOURCE_EXHAUSTED", Some(Code::ResourceExhausted)),
            ("CANCELLED", Some(Code::Cancelled)),
            ("OK", None),
            ("Unavailable", None),
        ] {
            assert_eq!(parse(text), expected, "{text}");
        }
    }
}
