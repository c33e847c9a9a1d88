//! Checks each request, and restricts what the browser may do with the answer.
//!
//! - The first part of the path must be the token. Each viewer has a new one, so that neither another user of this
//!   machine nor a page of another site can guess an address.
//! - `Host` must name this machine. This refuses a site whose own name resolves to 127.0.0.1 (DNS rebinding).
//! - Every response forbids the browser to run or load anything from another host.

use std::fmt::Write;
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use super::Server;
use super::connections::Connection;

/// The content security policy: only this server's files, no inline script, no embedding in a frame.
pub(crate) const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; \
    img-src 'self' data: blob:; connect-src 'self'; base-uri 'none'; form-action 'none'; \
    frame-ancestors 'none'";

const HEADERS: [(HeaderName, &str); 6] = [
    (header::CONTENT_SECURITY_POLICY, POLICY),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::REFERRER_POLICY, "no-referrer"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    // A shared cache must not store the names in a trace.
    (header::CACHE_CONTROL, "private, no-cache"),
];

/// A new token: 128 random bits, as text for a path.
pub(crate) fn new_token() -> Result<String, getrandom::Error> {
    let mut bytes = [0_u8; 16];
    getrandom::fill(&mut bytes)?;
    Ok(bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    }))
}

/// Passes a request on, or refuses it.
pub(crate) async fn guard(
    State(server): State<Arc<Server>>,
    request: Request,
    next: Next,
) -> Response {
    let mut response = if !is_for_this_machine(request.headers()) {
        (StatusCode::FORBIDDEN, "this server accepts only requests to `localhost`\n")
            .into_response()
    } else if !has_token(request.uri().path(), &server.token) {
        StatusCode::NOT_FOUND.into_response()
    } else {
        if let Some(connection) = request.extensions().get::<Connection>() {
            connection.has_shown_token();
        }
        next.run(request).await
    };
    for (name, value) in HEADERS {
        response.headers_mut().entry(name).or_insert(HeaderValue::from_static(value));
    }
    response
}

/// Whether there is one `Host`, and it names loopback. The port may differ: a tunnel may use another one.
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

/// Compares in constant time.
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
