//! An error with its causes, on one line.

use std::error::Error;

use kent_tls::explained;

/// Formats an error and its causes on one line.
pub fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(source) = cause {
        let cause_text = explained(source);
        // A transparent error has the same message as its source.
        if !text.ends_with(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        cause = source.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use std::io;

    use thiserror::Error;

    use super::*;

    #[derive(Debug, Error)]
    enum Failed {
        #[error("no key")]
        Read(#[source] io::Error),
        #[error(transparent)]
        Same(io::Error),
    }

    #[test]
    fn ok_causes_follow_once() {
        let error = || io::Error::other("the disk is gone");
        assert_eq!(chain(&Failed::Read(error())), "no key: the disk is gone");
        assert_eq!(chain(&Failed::Same(error())), "the disk is gone");
        assert_eq!(chain(&error()), "the disk is gone");
    }
}
