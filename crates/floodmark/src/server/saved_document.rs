//! The HTML file of a saved page: script, style and compressed answers in one document.
//!
//! The answers are gzip in Base64 (RFC 4648), in a script element of a type that no browser runs. So no name in a trace
//! can become part of the HTML. The policy allows this script and this style, by their hashes, and no request.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest, Sha256};

use super::assets;

/// The id of the element with the answers.
const ELEMENT: &str = "floodmark-answers";

/// The document. `packed` is the gzip of the JSON object with the answers by request.
pub(crate) fn document(packed: &[u8]) -> String {
    let script = assets::SCRIPT.replace("</script", "<\\/script").replace("<!--", "<\\!--");
    let style = assets::STYLE.replace("</style", "<\\/style");
    let policy = format!(
        "default-src 'none'; script-src '{}'; style-src '{}'; img-src data: blob:; connect-src 'none'; \
         base-uri 'none'; form-action 'none'",
        hash(&script),
        hash(&style)
    );
    let meta = format!("<meta http-equiv=\"Content-Security-Policy\" content=\"{policy}\">");
    let page = without(
        &without(assets::INDEX, "<script", "</script>", "page.js"),
        "<link",
        ">",
        "page.css",
    );
    let answers = STANDARD.encode(packed);
    let parts = format!(
        "<style>{style}</style>\n\
         <script type=\"text/plain\" id=\"{ELEMENT}\" data-encoding=\"gzip+base64\">{answers}</script>\n"
    );
    // A policy applies to what follows it, so it comes first.
    let page = before(&page, "<meta", &format!("{meta}\n"));
    let page = before(&page, "</head>", &parts);
    before(&page, "</body>", &format!("<script type=\"module\">{script}</script>\n"))
}

/// The source expression of an inline element in a policy.
fn hash(text: &str) -> String {
    format!("sha256-{}", STANDARD.encode(Sha256::digest(text.as_bytes())))
}

/// The page without the element that loads a file.
fn without(page: &str, from: &str, to: &str, file: &str) -> String {
    let found = page.find(file).and_then(|at| {
        let start = page[..at].rfind(from)?;
        let end = at + page[at..].find(to)? + to.len();
        Some(format!("{}{}", &page[..start], &page[end..]))
    });
    found.unwrap_or_else(|| page.to_owned())
}

/// Inserts `put` before the first `what` in the page.
fn before(page: &str, what: &str, put: &str) -> String {
    page.replacen(what, &format!("{put}{what}"), 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The elements of the document that a browser would run or apply, and the policy.
    fn parts(document: &str) -> (String, String, String) {
        let between = |from: &str, to: &str| {
            let rest = document.split_once(from).unwrap().1;
            rest.split_once(to).unwrap().0.to_owned()
        };
        (
            between("<script type=\"module\">", "</script>"),
            between("<style>", "</style>"),
            between("http-equiv=\"Content-Security-Policy\" content=\"", "\""),
        )
    }

    #[test]
    fn the_policy_names_the_script_and_the_style_by_their_hashes() {
        let document = document(b"packed");
        let (script, style, policy) = parts(&document);
        assert!(policy.contains(&format!("script-src '{}'", hash(&script))), "{policy}");
        assert!(policy.contains(&format!("style-src '{}'", hash(&style))), "{policy}");
        assert!(policy.starts_with("default-src 'none'") && policy.contains("connect-src 'none'"));
        assert!(!policy.contains("unsafe"));
    }

    #[test]
    fn nothing_is_loaded_from_anywhere() {
        let document = document(b"packed");
        let (script, style, _) = parts(&document);
        let rest = document.replace(&script, "").replace(&style, "");
        assert!(
            !rest.contains("src=") && !rest.contains("page.css") && !rest.contains("page.js"),
            "{rest}"
        );
        assert_eq!(rest.matches("</script>").count(), 2);
        assert!(rest.find("Content-Security-Policy") < rest.find("<script"));
    }

    #[test]
    fn a_hash_is_that_of_the_standard() {
        assert_eq!(hash(""), "sha256-47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=");
    }
}
