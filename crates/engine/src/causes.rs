//! An error with its causes, on one line.

use std::{error::Error, io};

use kent_tls::explained;
use rustix::io::Errno;

/// Formats an error and its causes on one line.
pub fn chain(error: &(dyn Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    let mut lacks_files = is_about_open_files(error);
    while let Some(source) = cause {
        lacks_files |= is_about_open_files(source);
        let cause_text = explained(source);
        // A transparent error has the same message as its source.
        if !text.ends_with(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        cause = source.source();
    }
    if lacks_files {
        text.push_str("; raise the limit on open files (ulimit -n, LimitNOFILE)");
    }
    text
}

fn is_about_open_files(error: &(dyn Error + 'static)) -> bool {
    let code = error.downcast_ref().and_then(io::Error::raw_os_error);
    code == Some(Errno::MFILE.raw_os_error())
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
        let limit = || io::Error::from(Errno::MFILE);
        let expected =
            "no key: Too many open files (os error 24); raise the limit on open files (ulimit -n, LimitNOFILE)";
        assert_eq!(chain(&Failed::Read(limit())), expected);
    }
}
