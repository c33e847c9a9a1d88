//! Python values, and pickles of them as different picklers write them.

/// A value.
#[derive(Debug, Clone)]
pub(crate) enum Py {
    None,
    Bool(bool),
    Int(i64),
    Float(f64),
    Text(String),
    List(Vec<Py>),
    Tuple(Vec<Py>),
    Dict(Vec<(String, Py)>),
}

pub(crate) fn text(text: &str) -> Py {
    Py::Text(text.to_owned())
}

pub(crate) fn dict<const N: usize>(items: [(&str, Py); N]) -> Py {
    Py::Dict(items.into_iter().map(|(key, value)| (key.to_owned(), value)).collect())
}

impl Py {
    /// The same dict with one more item.
    pub(crate) fn with(mut self, key: &str, value: Py) -> Py {
        if let Py::Dict(items) = &mut self {
            items.push((key.to_owned(), value));
        }
        self
    }

    /// The same dict without some keys, also in all dicts inside it.
    pub(crate) fn without(self, keys: &[&str]) -> Py {
        let all = |items: Vec<Py>| items.into_iter().map(|item| item.without(keys)).collect();
        match self {
            Py::Dict(items) => Py::Dict(
                items
                    .into_iter()
                    .filter(|(key, _)| !keys.contains(&key.as_str()))
                    .map(|(key, value)| (key, value.without(keys)))
                    .collect(),
            ),
            Py::List(items) => Py::List(all(items)),
            Py::Tuple(items) => Py::Tuple(all(items)),
            Py::None | Py::Bool(_) | Py::Int(_) | Py::Float(_) | Py::Text(_) => self,
        }
    }

    /// As `pickle.dump(…, protocol=4)` does, without the memo.
    pub(crate) fn protocol_4(&self) -> Vec<u8> {
        let mut out = b"\x80\x04".to_vec();
        self.write(&mut out, &mut Binary { memo: None });
        out.push(b'.');
        out
    }

    /// As torch's C++ pickler does: protocol 2, every string in the memo, items always after a mark.
    pub(crate) fn cpp(&self) -> Vec<u8> {
        let mut out = b"\x80\x02".to_vec();
        self.write(&mut out, &mut Binary { memo: Some(Vec::new()) });
        out.push(b'.');
        out
    }

    /// As `pickle.dump(…, protocol=0)` does, in lines of text.
    pub(crate) fn protocol_0(&self) -> Vec<u8> {
        let mut out = Vec::new();
        self.write_text(&mut out, &mut 0);
        out.push(b'.');
        out
    }

    fn write(&self, out: &mut Vec<u8>, how: &mut Binary) {
        match self {
            Py::None => out.push(b'N'),
            Py::Bool(is_true) => out.push(if *is_true { 0x88 } else { 0x89 }),
            Py::Int(value) => number(out, *value),
            Py::Float(number) => {
                out.push(b'G');
                out.extend_from_slice(&number.to_be_bytes());
            }
            Py::Text(text) => how.text(out, text),
            Py::List(items) => {
                out.extend_from_slice(b"](");
                for item in items {
                    item.write(out, how);
                }
                out.push(b'e');
            }
            Py::Tuple(items) => {
                out.push(b'(');
                for item in items {
                    item.write(out, how);
                }
                out.push(b't');
            }
            Py::Dict(items) => {
                out.extend_from_slice(b"}(");
                for (key, value) in items {
                    how.text(out, key);
                    value.write(out, how);
                }
                out.push(b'u');
            }
        }
    }

    fn write_text(&self, out: &mut Vec<u8>, memo: &mut u32) {
        let put = |out: &mut Vec<u8>, memo: &mut u32| {
            out.extend_from_slice(format!("p{memo}\n").as_bytes());
            *memo += 1;
        };
        match self {
            Py::None => out.push(b'N'),
            Py::Bool(is_true) => out.extend_from_slice(if *is_true { b"I01\n" } else { b"I00\n" }),
            Py::Int(number) if i32::try_from(*number).is_ok() => {
                out.extend_from_slice(format!("I{number}\n").as_bytes());
            }
            Py::Int(number) => out.extend_from_slice(format!("L{number}L\n").as_bytes()),
            Py::Float(number) => out.extend_from_slice(format!("F{number:?}\n").as_bytes()),
            Py::Text(text) => {
                out.extend_from_slice(format!("V{text}\n").as_bytes());
                put(out, memo);
            }
            Py::List(items) => {
                out.extend_from_slice(b"(l");
                put(out, memo);
                for item in items {
                    item.write_text(out, memo);
                    out.push(b'a');
                }
            }
            Py::Tuple(items) => {
                out.push(b'(');
                for item in items {
                    item.write_text(out, memo);
                }
                out.push(b't');
                put(out, memo);
            }
            Py::Dict(items) => {
                out.extend_from_slice(b"(d");
                put(out, memo);
                for (key, value) in items {
                    text(key).write_text(out, memo);
                    value.write_text(out, memo);
                    out.push(b's');
                }
            }
        }
    }
}

/// The options of the binary protocols.
struct Binary {
    /// The memo index of each string, if strings enter the memo.
    memo: Option<Vec<String>>,
}

impl Binary {
    fn text(&mut self, out: &mut Vec<u8>, text: &str) {
        let Some(memo) = &mut self.memo else {
            out.extend_from_slice(&[0x8c, u8::try_from(text.len()).unwrap()]);
            out.extend_from_slice(text.as_bytes());
            return;
        };
        let known = memo.iter().position(|known| known == text);
        let number = u32::try_from(known.unwrap_or(memo.len())).unwrap();
        match (known, u8::try_from(number)) {
            (Some(_), Ok(short)) => out.extend_from_slice(&[b'h', short]),
            (Some(_), Err(_)) => {
                out.push(b'j');
                out.extend_from_slice(&number.to_le_bytes());
            }
            (None, short) => {
                out.push(b'X');
                out.extend_from_slice(&u32::try_from(text.len()).unwrap().to_le_bytes());
                out.extend_from_slice(text.as_bytes());
                memo.push(text.to_owned());
                if let Ok(short) = short {
                    out.extend_from_slice(&[b'q', short]);
                } else {
                    out.push(b'r');
                    out.extend_from_slice(&number.to_le_bytes());
                }
            }
        }
    }
}

fn number(out: &mut Vec<u8>, number: i64) {
    if let Ok(byte) = u8::try_from(number) {
        out.extend_from_slice(&[b'K', byte]);
    } else if let Ok(short) = u16::try_from(number) {
        out.push(b'M');
        out.extend_from_slice(&short.to_le_bytes());
    } else if let Ok(int) = i32::try_from(number) {
        out.push(b'J');
        out.extend_from_slice(&int.to_le_bytes());
    } else {
        out.extend_from_slice(&[0x8a, 8]);
        out.extend_from_slice(&number.to_le_bytes());
    }
}
