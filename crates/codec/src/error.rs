//! Why a verb was refused: a code that programs compare, and a sentence that people read (formats.md, section 11).

use std::fmt;

use kent_ids::CodecError;

/// A refusal of a verb. Nothing has changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VerbError {
    /// The error name of the line protocol, such as `bad-length`.
    pub code: &'static str,
    /// What is wrong, and what would be right.
    pub message: String,
}

impl VerbError {
    /// A refusal with this code and message.
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
