//! Origins of web pages, in the form that browsers send.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};
use tonic::codegen::http::{HeaderValue, Uri};

/// The origins of web pages that may call the daemon, such as `https://ops.example`, separated by commas.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(try_from = "String", into = "String")]
pub struct Origins(Vec<HeaderValue>);

impl Origins {
    /// The values of the header `origin` in requests from these pages.
    pub(crate) fn headers(&self) -> &[HeaderValue] {
        &self.0
    }
}

impl FromStr for Origins {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let origin = |text: &str| {
            let bad =
                || format!("{text:?} is not an origin: write it as the browser does, such as https://ops.example:8443");
            let uri = text.parse::<Uri>().map_err(|_| bad())?;
            let is_web = matches!(uri.scheme_str(), Some("http" | "https"));
            match is_web
                && uri.authority().is_some()
                && uri.path() == "/"
                && !text.ends_with('/')
                && uri.query().is_none()
            {
                true => HeaderValue::try_from(text).map_err(|_| bad()),
                false => Err(bad()),
            }
        };
        let origins = text.split(',').map(str::trim).map(origin);
        if text.is_empty() { Ok(Self::default()) } else { origins.collect::<Result<_, _>>().map(Self) }
    }
}

impl fmt::Display for Origins {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let origins: Vec<_> = self.0.iter().filter_map(|origin| origin.to_str().ok()).collect();
        f.write_str(&origins.join(","))
    }
}

impl TryFrom<String> for Origins {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<Origins> for String {
    fn from(origins: Origins) -> Self {
        origins.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ok_origins_are_written_as_they_are_read() {
        let listed: Origins = "https://ops.example, http://localhost:3000".parse().expect("origins");
        assert_eq!(listed.to_string(), "https://ops.example,http://localhost:3000");
        assert_eq!("".parse::<Origins>(), Ok(Origins::default()));
    }

    #[test]
    fn err_other_texts() {
        for bad in
            ["*", "ops.example", "https://ops.example/", "https://ops.example/x", "ftp://ops.example", "https://a,,"]
        {
            assert!(bad.parse::<Origins>().is_err(), "{bad}");
        }
    }
}
