//! The error of a verb: a code for programs and a message for people.

use std::fmt;

use kent_ids::CodecError;

/// An error from a verb.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VerbError {
    /// The error code of the line protocol, such as `bad-length`.
    pub code: &'static str,
    /// A message that states the problem and the allowed values.
    pub message: String,
}

impl VerbError {
    /// Creates an error with this code and message.
    pub(crate) fn new(code: &'static str, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }
}

impl fmt::Display for VerbError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.code, self.message)
    }
}

impl std::error::Error for VerbError {}

impl From<CodecError> for VerbError {
    fn from(error: CodecError) -> Self {
        Self::new(error.code().as_str(), error.to_string())
    }
}
