//! Who may ask, and what the browser may do with the answer.
//!
//! - The first part of the path must be the token. It is made anew for each viewer, so that neither another user of
//!   this machine nor a page of another site can guess an address.
//! - `Host` must name this machine. A site that lets its own name lead to 127.0.0.1 (DNS rebinding) is refused.
//! - Every response forbids the browser to run or load anything that does not come from here.

use std::fmt::Write;
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use super::Site;
use super::connections::Visitor;

/// Nothing but what this server sends: no other host, no inline script, no frame around it.
pub(crate) const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; \
    img-src 'self' data: blob:; connect-src 'self'; base-uri 'none'; form-action 'none'; \
    frame-ancestors 'none'";

const HEADERS: [(HeaderName, &str); 6] = [
    (header::CONTENT_SECURITY_POLICY, POLICY),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::REFERRER_POLICY, "no-referrer"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    // A trace has the names of a program and its sizes: a shared cache must not store them.
    (header::CACHE_CONTROL, "private, no-cache"),
];

/// 128 bits from the system, as text for a path.
pub(crate) fn new_token() -> Result<String, getrandom::Error> {
    let mut bytes = [0_u8; 16];
    getrandom::fill(&mut bytes)?;
    Ok(bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    }))
}

/// Lets a request pass, or does not.
pub(crate) async fn guard(State(site): State<Arc<Site>>, request: Request, next: Next) -> Response {
    let mut response = if !is_for_this_machine(request.headers()) {
        (StatusCode::FORBIDDEN, "this server accepts only requests to `localhost`\n")
            .into_response()
    } else if !has_token(request.uri().path(), &site.token) {
        StatusCode::NOT_FOUND.into_response()
    } else {
        if let Some(visitor) = request.extensions().get::<Visitor>() {
            visitor.has_shown_token();
        }
        next.run(request).await
    };
    for (name, value) in HEADERS {
        response.headers_mut().entry(name).or_insert(HeaderValue::from_static(value));
    }
    response
}

/// Whether `Host` is there once, and a name of loopback, with any port: a tunnel may end at another one.
pub(crate) fn is_for_this_machine(headers: &HeaderMap) -> bool {
    let mut hosts = headers.get_all(header::HOST).iter();
    let (Some(host), None) = (hosts.next(), hosts.next()) else { return false };
    let Ok(host) = host.to_str() else { return false };
    let (name, port) = match host.rsplit_once(':') {
        Some((name, port)) if !port.ends_with(']') => (name, port),
        _ => (host, "0"),
    };
    let is_port = !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
    is_port
        && ["127.0.0.1", "localhost", "[::1]"].iter().any(|ours| name.eq_ignore_ascii_case(ours))
}

/// Compares in a time that does not depend on where the difference is.
fn has_token(path: &str, token: &str) -> bool {
    let given = path.trim_start_matches('/').split('/').next().unwrap_or_default();
    let differs =
        given.bytes().zip(token.bytes()).fold(0, |differs, (one, other)| differs | (one ^ other));
    given.len() == token.len() && differs == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_welcome(host: &str) -> bool {
        let mut headers = HeaderMap::new();
        headers.insert(header::HOST, HeaderValue::from_str(host).unwrap());
        is_for_this_machine(&headers)
    }

    #[test]
    fn only_names_of_loopback_are_hosts() {
        for host in ["127.0.0.1", "127.0.0.1:8080", "localhost:1", "LOCALHOST", "[::1]:80", "[::1]"]
        {
            assert!(is_welcome(host), "{host}");
        }
        for host in [
            "evil.example",
            "127.0.0.1.evil.example",
            "evil.example:80",
            "localhost:",
            "",
            "127.0.0.1:x",
            "0.0.0.0",
        ] {
            assert!(!is_welcome(host), "{host}");
        }
        assert!(!is_for_this_machine(&HeaderMap::new()));
    }

    #[test]
    fn a_token_is_long_and_new_each_time() {
        let (one, other) = (new_token().unwrap(), new_token().unwrap());
        assert_eq!(one.len(), 32);
        assert_ne!(one, other);
    }

    #[test]
    fn a_part_of_the_token_is_not_enough() {
        for path in ["", "/", "/abc", "/abcdef0", "/x/abcdef", "/abcdeg/", "//x"] {
            assert!(!has_token(path, "abcdef"), "{path}");
        }
        assert!(has_token("/abcdef", "abcdef") && has_token("/abcdef/api/traces", "abcdef"));
    }
}
