//! The expression to maximize: `BATCH*SEQ`, of names and numbers.

use std::fmt;
use std::str::FromStr;

use floodmark_trace::Hint;

/// An expression with `+`, `-`, `*`, `/` and brackets.
#[derive(Debug, Clone, PartialEq)]
pub struct Objective {
    root: Node,
    written: String,
}

#[derive(Debug, Clone, PartialEq)]
enum Node {
    Number(f64),
    Name(String),
    Operation(char, Box<(Node, Node)>),
}

/// Why a text is not an objective.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ObjectiveError {
    /// It does not follow the grammar.
    #[error(
        "an objective has names, numbers, `+`, `-`, `*`, `/` and brackets; `{rest}` is not valid"
    )]
    Unreadable {
        /// The text from the first error.
        rest: String,
    },
    /// It ends too early.
    #[error("the objective ends too early")]
    Incomplete,
    /// No value has this name.
    #[error("`{name}` is not varied")]
    NoSuchName {
        /// The name.
        name: String,
    },
}

impl Hint for ObjectiveError {
    fn hint(&self) -> Option<&'static str> {
        Some("use the names of `--vary`: `--objective 'BATCH*SEQ'`")
    }
}

impl Objective {
    /// The product of some names; none without a name.
    pub fn product(names: &[&str]) -> Option<Self> {
        let mut nodes = names.iter().map(|name| Node::Name((*name).to_owned()));
        let first = nodes.next()?;
        let root = nodes.fold(first, |all, name| Node::Operation('*', Box::new((all, name))));
        Some(Self { root, written: names.join("*") })
    }

    /// Its value, if `value_of` has every name.
    pub fn value(&self, value_of: &dyn Fn(&str) -> Option<f64>) -> Result<f64, ObjectiveError> {
        value(&self.root, value_of)
    }
}

fn value(node: &Node, value_of: &dyn Fn(&str) -> Option<f64>) -> Result<f64, ObjectiveError> {
    Ok(match node {
        Node::Number(number) => *number,
        Node::Name(name) => {
            value_of(name).ok_or_else(|| ObjectiveError::NoSuchName { name: name.clone() })?
        }
        Node::Operation(sign, sides) => {
            let (left, right) = (value(&sides.0, value_of)?, value(&sides.1, value_of)?);
            match sign {
                '+' => left + right,
                '-' => left - right,
                '*' => left * right,
                _ => left / right,
            }
        }
    })
}

impl fmt::Display for Objective {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.written)
    }
}

impl FromStr for Objective {
    type Err = ObjectiveError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (root, rest) = sum(text)?;
        if rest.trim().is_empty() {
            return Ok(Self { root, written: text.trim().to_owned() });
        }
        Err(ObjectiveError::Unreadable { rest: rest.trim().to_owned() })
    }
}

type Read<'a> = Result<(Node, &'a str), ObjectiveError>;

fn sum(text: &str) -> Read<'_> {
    joined(text, &['+', '-'], product)
}

fn product(text: &str) -> Read<'_> {
    joined(text, &['*', '/'], atom)
}

/// Operands of one kind, joined by these signs from left to right.
fn joined<'a>(text: &'a str, signs: &[char], operand: fn(&'a str) -> Read<'a>) -> Read<'a> {
    let (mut all, mut rest) = operand(text)?;
    while let Some(sign) = rest.trim_start().chars().next().filter(|sign| signs.contains(sign)) {
        let (right, further) = operand(&rest.trim_start()[1..])?;
        all = Node::Operation(sign, Box::new((all, right)));
        rest = further;
    }
    Ok((all, rest))
}

fn atom(text: &str) -> Read<'_> {
    let text = text.trim_start();
    if let Some(inner) = text.strip_prefix('(') {
        let (node, rest) = sum(inner)?;
        let rest = rest.trim_start().strip_prefix(')').ok_or(ObjectiveError::Incomplete)?;
        return Ok((node, rest));
    }
    let is_of_word = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '.';
    let end = text.find(|c| !is_of_word(c)).unwrap_or(text.len());
    let (word, rest) = text.split_at(end);
    if word.is_empty() {
        return Err(match text {
            "" => ObjectiveError::Incomplete,
            rest => ObjectiveError::Unreadable { rest: rest.to_owned() },
        });
    }
    if word.starts_with(|c: char| c.is_ascii_digit() || c == '.') {
        let number = word.parse();
        let number = number.map_err(|_| ObjectiveError::Unreadable { rest: word.to_owned() })?;
        return Ok((Node::Number(number), rest));
    }
    Ok((Node::Name(word.to_owned()), rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value_of(text: &str) -> Result<f64, ObjectiveError> {
        let known = |name: &str| match name {
            "BATCH" => Some(6.0),
            "SEQ" => Some(4.0),
            _ => None,
        };
        text.parse::<Objective>()?.value(&known)
    }

    #[test]
    fn an_expression_is_read_as_it_is_in_mathematics() {
        for (text, expected) in [
            ("BATCH*SEQ", 24.0),
            (" BATCH * SEQ + 2 ", 26.0),
            ("2*(BATCH-SEQ)", 4.0),
            ("BATCH/SEQ/2", 0.75),
            ("10-3-2", 5.0),
            ("1.5", 1.5),
        ] {
            assert_eq!(value_of(text), Ok(expected), "{text}");
        }
    }

    #[test]
    fn an_unreadable_text_is_named() {
        let message = |text: &str| value_of(text).unwrap_err().to_string();
        assert_eq!(message("BATCH*"), "the objective ends too early");
        assert_eq!(message("(BATCH"), "the objective ends too early");
        assert_eq!(message("STEPS*2"), "`STEPS` is not varied");
        assert!(message("BATCH SEQ").contains("`SEQ` is not valid"));
        assert!(message("BATCH % 2").contains("`% 2` is not valid"));
        assert!(message("1.2.3").contains("`1.2.3` is not valid"));
    }
}
