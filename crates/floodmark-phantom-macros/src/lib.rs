//! The attribute of the phantom's entry points.
//!
//! A panic that reaches the caller of an `extern "C"` function aborts the process. [`entry_point`] puts the
//! body of such a function into a call of `crate::guard`, which catches the panic, and exports the function
//! under its own name. It is the only way to export one: a test of the phantom refuses others. It also
//! refuses null pointers, before the body runs.
//!
//! An attribute has to be in a crate of its own. The tokens are few, so they are handled without a library.

use proc_macro::{Delimiter, Group, Literal, TokenStream, TokenTree};

/// Exports an `extern "C"` function under its own name, and guards its body against panics and null pointers.
///
/// After a panic it returns what `crate::guard::AfterPanic` has for its type: of a status, the "internal error" of
/// the function's library. `#[entry_point(0)]` returns the given value instead, and checks no pointers.
///
/// An argument whose type begins with `*` must not be null, unless its name begins with `_`: the body does not
/// use it. Arguments that a caller may leave out have the type `crate::guard::OrNull`.
#[proc_macro_attribute]
pub fn entry_point(after_panic: TokenStream, function: TokenStream) -> TokenStream {
    let mut tokens: Vec<TokenTree> = function.into_iter().collect();
    let name = function_name(&tokens);
    let pointers = pointers(&tokens);
    let Some((name, TokenTree::Group(body))) = name.zip(tokens.pop()) else {
        return parsed("compile_error!(\"`entry_point` belongs on a function\");");
    };
    let mut arguments = TokenStream::from(TokenTree::Literal(Literal::string(&name)));
    let guard = if after_panic.is_empty() {
        parsed("crate::guard::call")
    } else {
        arguments.extend(parsed(","));
        arguments.extend(after_panic.clone());
        parsed("crate::guard::call_or")
    };
    arguments.extend(parsed(", move ||"));
    let body = if after_panic.is_empty() { checked(&name, &pointers, &body) } else { body };
    arguments.extend([TokenTree::Group(body)]);
    let mut guarded = guard;
    guarded.extend([TokenTree::Group(Group::new(Delimiter::Parenthesis, arguments))]);
    let mut exported = parsed("#[unsafe(no_mangle)]");
    exported.extend(tokens);
    exported.extend([TokenTree::Group(Group::new(Delimiter::Brace, guarded))]);
    exported
}

/// The body, which runs only without null pointers.
fn checked(name: &str, pointers: &[TokenTree], body: &Group) -> Group {
    let mut code = TokenStream::new();
    for pointer in pointers {
        code.extend(parsed("if"));
        code.extend([pointer.clone()]);
        code.extend(parsed(&format!(
            ".is_null() {{ return crate::guard::null_argument({name:?}); }}"
        )));
    }
    code.extend(body.stream());
    let mut group = Group::new(Delimiter::Brace, code);
    group.set_span(body.span());
    group
}

/// The names of the arguments that are pointers and must not be null.
fn pointers(tokens: &[TokenTree]) -> Vec<TokenTree> {
    let arguments = tokens.iter().position(|token| is_word(token, "fn")).and_then(|at| {
        tokens[at..].iter().find_map(|token| match token {
            TokenTree::Group(group) => {
                (group.delimiter() == Delimiter::Parenthesis).then(|| flat(group.stream()))
            }
            TokenTree::Ident(_) | TokenTree::Punct(_) | TokenTree::Literal(_) => None,
        })
    });
    let arguments = arguments.unwrap_or_default();
    let mut found = Vec::new();
    for window in arguments.windows(3) {
        if let [TokenTree::Ident(name), TokenTree::Punct(colon), TokenTree::Punct(star)] = window
            && (colon.as_char(), star.as_char()) == (':', '*')
            && !name.to_string().starts_with('_')
        {
            found.push(window[0].clone());
        }
    }
    found
}

/// The tokens, without the groups that a macro adds.
fn flat(tokens: TokenStream) -> Vec<TokenTree> {
    let inner = |token| {
        if let TokenTree::Group(group) = &token
            && group.delimiter() == Delimiter::None
        {
            return flat(group.stream());
        }
        vec![token]
    };
    tokens.into_iter().flat_map(inner).collect()
}

/// The identifier after `fn`.
fn function_name(tokens: &[TokenTree]) -> Option<String> {
    let at = tokens.iter().position(|token| is_word(token, "fn"))?;
    flat(TokenStream::from(tokens.get(at + 1)?.clone())).first().map(ToString::to_string)
}

fn is_word(token: &TokenTree, word: &str) -> bool {
    matches!(token, TokenTree::Ident(ident) if ident.to_string() == word)
}

fn parsed(code: &str) -> TokenStream {
    code.parse().expect("the code is a constant of this file")
}
