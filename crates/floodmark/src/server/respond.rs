//! Makes the response to a request: status, headers, compression, cache.

use std::fmt::Write as _;
use std::io::{self, Read, Write};
use std::sync::{Arc, PoisonError};

use axum::body::Bytes;
use axum::extract::{Path, Query, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Redirect, Response};
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;

use super::api_request::{ApiRequest, Parameters, request_text};
use super::refusal::Refusal;
use super::{Server, answer, assets, follow as news};

/// Prefer speed: the data stays on this machine.
const LEVEL: u32 = 3;

/// Redirects to the address with a trailing slash: the page names its files relative to it.
pub(crate) async fn to_folder(State(server): State<Arc<Server>>) -> Redirect {
    Redirect::permanent(&format!("/{}/", server.token))
}

pub(crate) async fn index() -> Response {
    file(assets::INDEX, "text/html; charset=utf-8")
}

pub(crate) async fn script() -> Response {
    file(assets::SCRIPT, "text/javascript; charset=utf-8")
}

pub(crate) async fn style() -> Response {
    file(assets::STYLE, "text/css; charset=utf-8")
}

fn file(text: &'static str, kind: &'static str) -> Response {
    ([(header::CONTENT_TYPE, kind)], text).into_response()
}

pub(crate) async fn follow(State(server): State<Arc<Server>>) -> Response {
    if server.shown.follows {
        news::stream(server).into_response()
    } else {
        refused(&Refusal::NotFollowed)
    }
}

/// Answers a request, from the cache if possible.
pub(crate) async fn api_answer(
    State(server): State<Arc<Server>>,
    Path((_, path)): Path<(String, String)>,
    Query(parameters): Query<Parameters>,
    headers: HeaderMap,
) -> Response {
    let request = match ApiRequest::parse(&path, &parameters) {
        Ok(request) => request,
        Err(refusal) => return refused(&refusal),
    };
    let tag = match tag(&server, &request) {
        Ok(tag) => tag,
        Err(refusal) => return refused(&refusal),
    };
    if headers.get(header::IF_NONE_MATCH).is_some_and(|known| known.as_bytes() == tag.as_bytes()) {
        return (StatusCode::NOT_MODIFIED, [(header::ETAG, tag)]).into_response();
    }
    let key = format!("{tag} {}", request_text(&path, &parameters));
    let kept = server.answers.lock().unwrap_or_else(PoisonError::into_inner).get(&key);
    let packed = match kept {
        Some(packed) => packed,
        None => match compute(server, request, key).await {
            Ok(packed) => packed,
            Err(refusal) => return refused(&refusal),
        },
    };
    answered(packed, &tag, &headers)
}

/// Computes an answer on another thread, and caches it.
async fn compute(server: Arc<Server>, request: ApiRequest, key: String) -> Result<Bytes, Refusal> {
    let work = tokio::task::spawn_blocking(move || {
        let json = answer::answer(&server.shown, &request)?;
        let packed = pack(&json).map_err(|_| Refusal::Bug)?;
        server.answers.lock().unwrap_or_else(PoisonError::into_inner).keep(key, packed.clone());
        Ok(packed)
    });
    // A panic is an internal error of this one request.
    work.await.unwrap_or(Err(Refusal::Bug))
}

/// The entity tag: the version of floodmark, and the revisions of the traces of the request.
fn tag(server: &Server, request: &ApiRequest) -> Result<String, Refusal> {
    let shown = &server.shown;
    let asked = match request.traces() {
        all if all.is_empty() => (0..shown.traces.len()).collect(),
        some => some,
    };
    let mut tag = format!("\"{}", env!("CARGO_PKG_VERSION"));
    for number in asked {
        let _ = write!(tag, "-{}", shown.trace(number)?.now().revision);
    }
    Ok(tag + "\"")
}

fn answered(packed: Bytes, tag: &str, headers: &HeaderMap) -> Response {
    let accepts = headers.get_all(header::ACCEPT_ENCODING).iter();
    let takes_gzip = accepts.filter_map(|value| value.to_str().ok()).any(takes_gzip);
    let mut response = if takes_gzip {
        ([(header::CONTENT_ENCODING, "gzip")], packed).into_response()
    } else {
        match unpack(&packed) {
            Ok(json) => json.into_response(),
            Err(_) => return refused(&Refusal::Bug),
        }
    };
    let fields = response.headers_mut();
    fields.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    fields.insert(header::VARY, HeaderValue::from_static("Accept-Encoding"));
    if let Ok(tag) = HeaderValue::from_str(tag) {
        fields.insert(header::ETAG, tag);
    }
    response
}

/// Whether `Accept-Encoding` allows gzip: `gzip, deflate, br` does, `gzip;q=0` does not.
fn takes_gzip(accepted: &str) -> bool {
    accepted.split(',').any(|coding| {
        let mut parts = coding.split(';').map(str::trim);
        parts.next() == Some("gzip") && !parts.any(|part| part == "q=0" || part == "q=0.0")
    })
}

fn refused(refusal: &Refusal) -> Response {
    let status =
        StatusCode::from_u16(refusal.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let body = serde_json::to_vec(&refusal.problem()).unwrap_or_default();
    (status, [(header::CONTENT_TYPE, "application/json")], body).into_response()
}

pub(crate) fn pack(unpacked: &[u8]) -> io::Result<Bytes> {
    let mut encoder =
        GzEncoder::new(Vec::with_capacity(unpacked.len() / 4), Compression::new(LEVEL));
    encoder.write_all(unpacked)?;
    Ok(encoder.finish()?.into())
}

pub(super) fn unpack(packed: &[u8]) -> io::Result<Vec<u8>> {
    let mut unpacked = Vec::new();
    GzDecoder::new(packed).read_to_end(&mut unpacked)?;
    Ok(unpacked)
}
