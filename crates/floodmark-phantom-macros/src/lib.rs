//! The attribute of the phantom's entry points.
//!
//! A panic that reaches the caller of an `extern "C"` function aborts the process. [`entry_point`] puts the
//! body of such a function into a call of `crate::guard`, which catches the panic, and exports the
//! function under its own name. It is the only way to export one: a test of the phantom refuses others.
//!
//! An attribute has to be in a crate of its own. The tokens are few, so they are handled without a library.

use proc_macro::{Delimiter, Group, Literal, TokenStream, TokenTree};

/// Exports an `extern "C"` function under its own name, and guards its body against panics.
///
/// After a panic it returns what `crate::guard::AfterPanic` has for its type: of a status, the "internal error" of
/// the function's library. `#[entry_point(0)]` returns the given value instead.
#[proc_macro_attribute]
pub fn entry_point(after_panic: TokenStream, function: TokenStream) -> TokenStream {
    let mut tokens: Vec<TokenTree> = function.into_iter().collect();
    let name = function_name(&tokens);
    let Some((name, TokenTree::Group(body))) = name.zip(tokens.pop()) else {
        return parsed("compile_error!(\"`entry_point` belongs on a function\");");
    };
    let mut arguments = TokenStream::from(TokenTree::Literal(Literal::string(&name)));
    let guard = if after_panic.is_empty() {
        parsed("crate::guard::call")
    } else {
        arguments.extend(parsed(","));
        arguments.extend(after_panic);
        parsed("crate::guard::call_or")
    };
    arguments.extend(parsed(", move ||"));
    arguments.extend([TokenTree::Group(body)]);
    let mut guarded = guard;
    guarded.extend([TokenTree::Group(Group::new(Delimiter::Parenthesis, arguments))]);
    let mut exported = parsed("#[unsafe(no_mangle)]");
    exported.extend(tokens);
    exported.extend([TokenTree::Group(Group::new(Delimiter::Brace, guarded))]);
    exported
}

/// The identifier after `fn`.
fn function_name(tokens: &[TokenTree]) -> Option<String> {
    let at = tokens.iter().position(|token| is_word(token, "fn"))?;
    Some(tokens.get(at + 1)?.to_string())
}

fn is_word(token: &TokenTree, word: &str) -> bool {
    matches!(token, TokenTree::Ident(ident) if ident.to_string() == word)
}

fn parsed(code: &str) -> TokenStream {
    code.parse().expect("the code is a constant of this file")
}
