//! From a request to a response: status, headers, body. What is in the body is decided elsewhere.

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

use super::ask::{Ask, Parameters, request};
use super::refusal::Refusal;
use super::{Site, answer, assets, follow as news};

/// Fast rather than small: the way is short.
const LEVEL: u32 = 3;

/// The page's files are named beside it, so its address must end as a folder's.
pub(crate) async fn to_folder(State(site): State<Arc<Site>>) -> Redirect {
    Redirect::permanent(&format!("/{}/", site.token))
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

pub(crate) async fn follow(State(site): State<Arc<Site>>) -> Response {
    if site.shown.follows {
        news::stream(site).into_response()
    } else {
        refused(&Refusal::NotFollowed)
    }
}

/// Answers a question, from the cache where it was asked before.
pub(crate) async fn ask(
    State(site): State<Arc<Site>>,
    Path((_, path)): Path<(String, String)>,
    Query(parameters): Query<Parameters>,
    headers: HeaderMap,
) -> Response {
    let ask = match Ask::parse(&path, &parameters) {
        Ok(ask) => ask,
        Err(refusal) => return refused(&refusal),
    };
    let tag = match tag(&site, &ask) {
        Ok(tag) => tag,
        Err(refusal) => return refused(&refusal),
    };
    if headers.get(header::IF_NONE_MATCH).is_some_and(|known| known.as_bytes() == tag.as_bytes()) {
        return (StatusCode::NOT_MODIFIED, [(header::ETAG, tag)]).into_response();
    }
    let key = format!("{tag} {}", request(&path, &parameters));
    let kept = site.answers.lock().unwrap_or_else(PoisonError::into_inner).get(&key);
    let packed = match kept {
        Some(packed) => packed,
        None => match compute(site, ask, key).await {
            Ok(packed) => packed,
            Err(refusal) => return refused(&refusal),
        },
    };
    answered(packed, &tag, &headers)
}

/// Computes an answer where it delays no other request, and keeps it.
async fn compute(site: Arc<Site>, ask: Ask, key: String) -> Result<Bytes, Refusal> {
    let work = tokio::task::spawn_blocking(move || {
        let json = answer::answer(&site.shown, &ask)?;
        let packed = pack(&json).map_err(|_| Refusal::Bug)?;
        site.answers.lock().unwrap_or_else(PoisonError::into_inner).keep(key, packed.clone());
        Ok(packed)
    });
    // It panicked: that is our fault, and no reason to stop answering.
    work.await.unwrap_or(Err(Refusal::Bug))
}

/// What changes when the answer may: the program, and the revisions of the traces that are asked.
fn tag(site: &Site, ask: &Ask) -> Result<String, Refusal> {
    let shown = &site.shown;
    let asked = match ask.traces() {
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

/// `gzip, deflate, br`, but not `gzip;q=0`.
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
