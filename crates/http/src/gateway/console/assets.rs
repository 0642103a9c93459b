//! The files of the console, which are embedded in the program.
//!
//! `X.br` and `X.gz` are compressed forms of the file `X`. The build of the console creates them, so the daemon needs
//! no compressor.

use std::sync::LazyLock;

use axum::{
    body::Body,
    extract::Path,
    http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use sha2::{Digest, Sha256};

/// The files, by name.
const FILES: &[(&str, &[u8])] = include!(concat!(env!("OUT_DIR"), "/console.rs"));

/// The page.
const INDEX: &str = "index.html";

/// The directory of the files whose names contain a hash of their contents.
const HASHED: &str = "assets/";

/// The extensions of compressed files and their encodings, best first.
const COMPRESSED: [(&str, &str); 2] = [(".br", "br"), (".gz", "gzip")];

/// The headers of all files. With these headers, a browser runs only scripts and styles from files of the console, and
/// no page can embed the console.
const HEADERS: [(HeaderName, &str); 5] = [
    (
        header::CONTENT_SECURITY_POLICY,
        "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; object-src 'none'",
    ),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::REFERRER_POLICY, "no-referrer"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    (header::VARY, "accept-encoding"),
];

/// A file of the console.
struct File {
    name: &'static str,
    contents: &'static [u8],
    /// The hash of the contents, in quotes.
    tag: HeaderValue,
}

static BY_NAME: LazyLock<Vec<File>> = LazyLock::new(|| {
    let file = |(name, contents): &(&'static str, &'static [u8])| {
        let tag = format!("\"{}\"", URL_SAFE_NO_PAD.encode(&Sha256::digest(contents)[..12]));
        // OK because base64 is ASCII.
        HeaderValue::try_from(tag).ok().map(|tag| File { name, contents, tag })
    };
    // The build script sorts the files by name.
    FILES.iter().filter_map(file).collect()
});

fn find(name: &str) -> Option<&'static File> {
    let at = BY_NAME.binary_search_by(|file| file.name.cmp(name)).ok()?;
    BY_NAME.get(at)
}

/// Answers with the page.
pub(super) async fn index(headers: HeaderMap) -> Response {
    answer(INDEX, &headers)
}

/// Answers with a file.
pub(super) async fn file(Path(name): Path<String>, headers: HeaderMap) -> Response {
    answer(&name, &headers)
}

/// Redirects a browser to the page. The address is relative, because a proxy may add a prefix to the path.
pub(super) async fn redirect() -> Response {
    (StatusCode::PERMANENT_REDIRECT, [(header::LOCATION, "console/")]).into_response()
}

fn answer(name: &str, headers: &HeaderMap) -> Response {
    let is_compressed = COMPRESSED.iter().any(|(ending, _)| name.ends_with(ending));
    let Some(file) = find(name).filter(|_| !is_compressed) else {
        return (StatusCode::NOT_FOUND, "the console has no such file\n").into_response();
    };
    let accepted = COMPRESSED.iter().filter(|(_, encoding)| accepts(headers, encoding));
    let compressed =
        accepted.filter_map(|(ending, encoding)| Some((find(&format!("{name}{ending}"))?, *encoding))).next();
    let (sent, encoding) = compressed.map_or((file, None), |(file, encoding)| (file, Some(encoding)));
    let mut response = match is_known(headers, &sent.tag) {
        true => StatusCode::NOT_MODIFIED.into_response(),
        false => Body::from(sent.contents).into_response(),
    };
    let answered = response.headers_mut();
    for (name, value) in HEADERS {
        answered.insert(name, HeaderValue::from_static(value));
    }
    let cached = if name.starts_with(HASHED) { "public, max-age=31536000, immutable" } else { "no-cache" };
    answered.insert(header::CACHE_CONTROL, HeaderValue::from_static(cached));
    answered.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind(name)));
    answered.insert(header::ETAG, sent.tag.clone());
    if let Some(encoding) = encoding {
        answered.insert(header::CONTENT_ENCODING, HeaderValue::from_static(encoding));
    }
    response
}

/// Whether the client accepts an encoding.
fn accepts(headers: &HeaderMap, encoding: &str) -> bool {
    let values = headers.get_all(header::ACCEPT_ENCODING).iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).any(|range| {
        let (name, quality) = range.split_once(';').unwrap_or((range, ""));
        let is_refused = quality.trim().strip_prefix("q=").is_some_and(|quality| quality.parse() == Ok(0.0));
        name.trim().eq_ignore_ascii_case(encoding) && !is_refused
    })
}

/// Whether the client already has the contents with this tag.
fn is_known(headers: &HeaderMap, tag: &HeaderValue) -> bool {
    let values = headers.get_all(header::IF_NONE_MATCH).iter().filter_map(|value| value.to_str().ok());
    // A proxy that compresses answers makes their tags weak.
    let mut tags = values.flat_map(|value| value.split(',')).map(|tag| tag.trim().trim_start_matches("W/"));
    tags.any(|known| known == "*" || known.as_bytes() == tag.as_bytes())
}

/// The content type of a file, derived from the extension of the file's name.
fn kind(name: &str) -> &'static str {
    match name.rsplit('.').next().unwrap_or_default() {
        "html" => "text/html; charset=utf-8",
        "js" => "text/javascript; charset=utf-8",
        "css" => "text/css; charset=utf-8",
        "json" | "map" => "application/json",
        "webmanifest" => "application/manifest+json",
        "svg" => "image/svg+xml",
        "png" => "image/png",
        "ico" => "image/x-icon",
        "woff2" => "font/woff2",
        "txt" => "text/plain; charset=utf-8",
        _ => "application/octet-stream",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(name: HeaderName, value: &str) -> HeaderMap {
        HeaderMap::from_iter([(name, HeaderValue::try_from(value).expect("a value"))])
    }

    #[test]
    fn ok_encodings_are_accepted_by_name() {
        for (value, brotli, gzip) in [
            ("", false, false),
            ("gzip, deflate, br", true, true),
            ("GZIP;q=0.5", false, true),
            ("br;q=0, gzip;q=1.0", false, true),
            ("identity", false, false),
        ] {
            let headers = headers(header::ACCEPT_ENCODING, value);
            assert_eq!((accepts(&headers, "br"), accepts(&headers, "gzip")), (brotli, gzip), "{value}");
        }
    }

    #[test]
    fn ok_a_tag_is_known_in_every_form() {
        let tag = HeaderValue::from_static("\"abc\"");
        for (value, expected) in [
            ("\"abc\"", true),
            ("W/\"abc\"", true),
            ("\"x\", \"abc\"", true),
            ("*", true),
            ("\"ab\"", false),
            ("abc", false),
        ] {
            assert_eq!(is_known(&headers(header::IF_NONE_MATCH, value), &tag), expected, "{value}");
        }
    }

    #[test]
    fn ok_files_have_tags_and_content_types() {
        let index = answer(INDEX, &HeaderMap::new());
        assert_eq!(index.status(), StatusCode::OK);
        assert_eq!(index.headers()[header::CONTENT_TYPE], "text/html; charset=utf-8");
        assert_eq!(index.headers()[header::CACHE_CONTROL], "no-cache");
        let again = headers(header::IF_NONE_MATCH, index.headers()[header::ETAG].to_str().expect("ASCII"));
        assert_eq!(answer(INDEX, &again).status(), StatusCode::NOT_MODIFIED);
        for name in ["", "nothing", "../index.html", "index.html.br", "assets/"] {
            assert_eq!(answer(name, &HeaderMap::new()).status(), StatusCode::NOT_FOUND, "{name}");
        }
        assert!(BY_NAME.is_sorted_by_key(|file| file.name) && BY_NAME.len() == FILES.len());
    }

    #[test]
    fn ok_every_file_has_a_content_type() {
        let plain = FILES.iter().map(|(name, _)| *name).filter(|name| !name.ends_with(".br") && !name.ends_with(".gz"));
        for name in plain {
            assert_ne!(kind(name), "application/octet-stream", "{name}");
        }
    }
}
